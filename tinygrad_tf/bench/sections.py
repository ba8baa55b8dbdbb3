"""What is measured: the cases of each section.

steps        one training step of each configuration
lessons      one training step of small models of many kinds, as lessons write them
ops          single operations at the sizes of the mac configuration
growth       how the cost of a step grows with the context, the channels and the layers
generation   texts, with and without a cache of keys and values
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace

from tinygrad_tf.bench import operations
from tinygrad_tf.bench.gpt import CONFIGURATIONS, Sizes
from tinygrad_tf.bench.lessons import LESSONS
from tinygrad_tf.bench.measure import Case
from tinygrad_tf.bench.processes import NUMPY, OWN, PYTORCH

TOKENS = 8192  # in each step of the rows that differ in context
CONTEXTS = (64, 256, 1024, 4096, 8192)
CHANNELS = (128, 256, 512, 1024)
LAYERS = (1, 2, 4, 8)
HEAD_SIZE = 32
AGREE_BFLOAT16 = 2e-3  # half a unit in its last place; where they round is for the libraries to choose
BATCHES = (1, 32)  # of generation
WAYS = ("no cache", "cache", "generate_batch")
MAC = CONFIGURATIONS["mac"]


def step_case(name: str, sizes: Sizes, rounds: int) -> Case:
    """One training step."""
    tokens = sizes.batch * sizes.context
    return Case(name, "step", asdict(sizes), multiply_adds=sizes.multiply_adds, tokens=tokens, rounds=rounds)


def in_bfloat16(case: Case) -> Case:
    """The same step under autocast."""
    arguments = {**case.arguments, "bfloat16": True}
    return replace(case, name=f"{case.name}, bfloat16", arguments=arguments, agree=AGREE_BFLOAT16)


def steps(full: bool, quick: bool) -> list[Case]:
    """tiny and mac; with `full` also baby, which takes seconds a step; all but tiny in bfloat16, too."""
    tiny, mac, baby = (step_case(name, CONFIGURATIONS[name], 7) for name in ("tiny", "mac", "baby"))
    if quick:
        return [tiny, in_bfloat16(tiny)]
    larger = [mac, replace(baby, rounds=3)] if full else [mac]
    return [tiny, *(c for case in larger for c in (case, in_bfloat16(case)))]


def lessons(full: bool, quick: bool) -> list[Case]:
    """All lessons."""
    return [Case(name, "lesson", {"name": name}) for name in LESSONS]


def ops(full: bool, quick: bool) -> list[Case]:
    """All operations, products beside NumPy's, too."""
    cases = []
    for name, work in operations.names().items():
        libraries = (OWN, PYTORCH, NUMPY) if name in operations.products() else (OWN, PYTORCH)
        cases.append(Case(name, "operation", {"name": name}, libraries, work))
    return cases


def growth(full: bool, quick: bool) -> list[Case]:
    """Steps with the same number of tokens at each context; then those of the mac configuration with other sizes."""
    if quick:
        small = CONFIGURATIONS["tiny"]
        named = {
            "T 16": small,
            "T 64": replace(small, context=64, batch=1),
            "C 64": replace(small, channels=64),
            "layers 4": replace(small, layers=4),
        }
    else:
        named = {f"T {T}, batch {TOKENS // T}": replace(MAC, context=T, batch=TOKENS // T) for T in CONTEXTS}
        named |= {f"C {C}": replace(MAC, channels=C, heads=C // HEAD_SIZE) for C in CHANNELS}
        named |= {f"layers {layers}": replace(MAC, layers=layers) for layers in LAYERS}
    return [step_case(name, sizes, 3) for name, sizes in named.items()]


def generation(full: bool, quick: bool) -> list[Case]:
    """Three ways to go on after one token; PyTorch has no generate_batch, and is given its cache by hand beside it."""
    cases = []
    size = replace(CONFIGURATIONS["tiny"], context=8) if quick else MAC
    for batch in BATCHES:
        sizes = replace(size, batch=batch)
        for way in WAYS:
            each = 8 if way == "no cache" else sizes.context - 1
            arguments = {"way": way, "tokens": each, **asdict(sizes)}
            cases.append(Case(f"batch {batch}, {way}", "generation", arguments, tokens=batch * each))
    return cases


SECTIONS: dict[str, Callable[[bool, bool], list[Case]]] = {
    "steps": steps,
    "lessons": lessons,
    "ops": ops,
    "growth": growth,
    "generation": generation,
}
