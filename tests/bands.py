"""Every attention, position kind, norm and feed-forward network trains a character model to a loss in its stored band.

    python -m tests.bands                  300 steps each: a table, and exit status 1 if a loss is outside of its band
    python -m tests.bands rope "norm rms"  only those whose name holds one of the words
    python -m tests.bands --small          the form that tests/test_bands.py runs
    python -m tests.bands --measure        5 seeds each, and the lines of BANDS as they should be

The text is generated here: words that are anagrams of each other (stop, spot, tops), each followed by one of three, so
that a model has to know in which order letters stand. A band reaches from the lowest loss of five seeds to the highest,
and on both sides by half of that further, at least by 0.05: another processor's rounding acts like another seed. A part
without a band fails, and so does a band without a part.
"""

from __future__ import annotations

import functools
import random
import sys
from typing import Any, NamedTuple

import numpy as np

import tinygrad_tf as tg
from tinygrad_tf.models import GPT, GPTConfig
from tinygrad_tf.nn.blocks import ATTENTIONS, FEED_FORWARDS, NORMS
from tinygrad_tf.nn.position import POSITIONS

WORDS = """stop spot tops post pots opts live evil vile veil east seat teas eats lemon melon listen silent enlist tinsel
name mean mane amen stale least tales steal slate rats star arts tsar meat team mate tame dog god saw was own now won"""


class Size(NamedTuple):
    layers: int
    channels: int
    context: int
    batch: int
    steps: int
    rate: float


FULL = Size(layers=2, channels=64, context=32, batch=8, steps=300, rate=6e-3)
SMALL = Size(layers=1, channels=32, context=16, batch=16, steps=100, rate=1.5e-2)

# For each case the lowest and the highest loss, in nats a character, after FULL and after SMALL.
BANDS: dict[str, tuple[tuple[float, float], tuple[float, float]]] = {
    "attention full": ((0.61, 0.78), (1.41, 1.6)),
    "attention local": ((0.49, 0.62), (1.23, 1.65)),
    "attention block_sparse": ((0.6, 0.76), (1.41, 1.6)),
    "attention linear": ((0.72, 0.85), (1.4, 1.6)),
    "attention additive": ((0.68, 0.84), (1.42, 1.7)),
    "positions sinusoidal": ((0.82, 1.51), (1.81, 2.29)),
    "positions learned": ((0.61, 0.78), (1.41, 1.6)),
    "positions relative": ((0.56, 0.69), (1.05, 1.3)),
    "positions rope": ((0.4, 0.52), (1.04, 1.18)),
    "positions alibi": ((0.5, 0.66), (1.07, 1.27)),
    "positions none": ((0.84, 0.99), (1.33, 1.48)),
    "norm layer": ((0.61, 0.78), (1.41, 1.6)),
    "norm rms": ((0.59, 0.78), (1.3, 1.65)),
    "norm batch": ((0.71, 0.89), (1.21, 1.39)),
    "norm none": ((1.16, 1.59), (1.73, 2.28)),
    "activation relu": ((0.61, 0.77), (1.15, 1.54)),
    "activation gelu": ((0.61, 0.78), (1.41, 1.6)),
    "activation gelu_tanh": ((0.61, 0.78), (1.41, 1.6)),
    "activation silu": ((0.66, 0.79), (1.44, 1.66)),
    "activation swiglu": ((0.96, 1.63), (1.6, 2.03)),
    "activation geglu": ((1.11, 1.72), (1.53, 1.96)),
    "rope interleaved": ((0.42, 0.55), (1.01, 1.2)),
    "post-norm": ((0.96, 1.34), (1.64, 1.8)),
    "grouped queries": ((0.6, 0.78), (1.21, 1.83)),
}


def cases() -> dict[str, dict[str, Any]]:
    """What differs from the default GPT, by name, for every part that its configuration knows."""
    kinds = {"attention": ATTENTIONS, "positions": POSITIONS, "norm": NORMS, "activation": FEED_FORWARDS}
    found: dict[str, dict[str, Any]] = {
        f"{kind} {name}": {kind: name} for kind, names in kinds.items() for name in names
    }
    found["rope interleaved"] = {"positions": "rope", "rope_pairing": "interleaved"}
    found["post-norm"] = {"norm_first": False}
    found["grouped queries"] = {"kv_heads": 2}
    return found


def text(words: int = 3000) -> str:
    """A walk over words; random.random() gives the same numbers on every machine and in every Python."""
    draw, known = random.Random(0).random, WORDS.split()
    followers = {word: [known[int(draw() * len(known))] for _ in range(3)] for word in known}
    walk = [known[0]]
    while len(walk) < words:
        walk.append(followers[walk[-1]][int(draw() * 3)])
    return " ".join(walk)


@functools.cache
def data() -> tuple[np.ndarray, np.ndarray, int]:
    """Ids to learn from, ids to measure on, and how many symbols there are."""
    written = text()
    symbols = sorted(set(written))
    ids = np.array([symbols.index(character) for character in written])
    return ids[: len(ids) * 9 // 10], ids[len(ids) * 9 // 10 :], len(symbols)


def loss_of(changes: dict[str, Any], size: Size, seed: int = 0) -> float:
    """The loss on the last tenth of the text after training on the rest."""
    return _loss_of(
        GPTConfig(data()[2], size.context, size.layers, 4, size.channels, window=8, block_size=8, **changes), size, seed
    )


@functools.cache
def _loss_of(config: GPTConfig, size: Size, seed: int) -> float:
    tg.manual_seed(seed)
    learned, measured, _ = data()
    generator, T = np.random.default_rng(seed), size.context
    model = GPT(config)
    optimizer = tg.optim.AdamW(model.parameters(), lr=size.rate)
    for step in range(size.steps):
        starts = generator.integers(0, len(learned) - T - 1, size.batch)
        batch = tg.tensor(np.stack([learned[start : start + T + 1] for start in starts]))
        optimizer.param_groups[0]["lr"] = size.rate * min((step + 1) / 20, 1 - step / size.steps)
        optimizer.zero_grad()
        model.loss(batch[:, :-1], batch[:, 1:]).backward()
        optimizer.step()
    model.eval()
    rows = (len(measured) - 1) // T
    with tg.no_grad():
        inputs, targets = (tg.tensor(measured[i : i + rows * T].reshape(rows, T)) for i in (0, 1))
        return float(model.loss(inputs, targets).item())


def band(name: str, size: Size) -> tuple[float, float]:
    """The stored band of a case; a LookupError says what to do where there is none."""
    if name not in BANDS:
        raise LookupError(f"{name} has no band: measure it with python -m tests.bands --measure {name!r}")
    return BANDS[name][size is SMALL]


def measure(changes: dict[str, Any], size: Size, seeds: int = 5) -> tuple[float, float]:
    losses = [loss_of(changes, size, seed) for seed in range(seeds)]
    room = max(0.05, (max(losses) - min(losses)) / 2)
    return round(min(losses) - room, 2), round(max(losses) + room, 2)


def main(arguments: list[str]) -> int:
    words = [a for a in arguments if not a.startswith("-")]
    if set(arguments) - {*words, "--small", "--measure"}:
        print(__doc__)
        return 2
    chosen = {n: changes for n, changes in cases().items() if not words or any(word in n for word in words)}
    if "--measure" in arguments:
        for name, changes in chosen.items():
            print(f'    "{name}": ({measure(changes, FULL)}, {measure(changes, SMALL)}),', flush=True)
        return 0
    size, outside = SMALL if "--small" in arguments else FULL, 0
    for name, changes in chosen.items():
        loss, (low, high) = loss_of(changes, size), band(name, size)
        inside = low <= loss <= high
        outside += not inside
        print(f"{name:24s} {loss:6.3f}  {low:.2f} ... {high:.2f}  {'' if inside else 'OUTSIDE'}", flush=True)
    return 1 if outside else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
