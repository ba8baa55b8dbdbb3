"""What the rows of the table can see of a damaged rule: their numbers, and their tests."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.mutation.damage import Damage, Mutant, Site, rules_of
from tests.test_table import first_order, rng_of, test_first_order, test_second_order
from tinygrad_tf import Tensor, as_tensor
from tinygrad_tf.checks import Case
from tinygrad_tf.engine import Fused, Operation, grad, use_reference

Numbers = dict[str, list[np.ndarray]]
WAYS = ("kernels", "reference", "graph", "second", "curved")


def numbers(case: Case) -> Numbers:
    """The value and the gradients of a row in every way in which they can be computed, and second derivatives."""
    function, leaves = case.build(rng_of(case), np.float64)
    found = {"kernels": first_order(function, leaves)}
    with use_reference():
        found["reference"] = first_order(function, leaves)
    found["graph"], found["second"] = both_orders(function, leaves)
    found["curved"] = both_orders(square_of(function), leaves)[1]
    if case.order == 1:
        del found["second"][:], found["curved"][:]
    return found


def square_of(function: Callable[[], Tensor]) -> Callable[[], Tensor]:
    """With it, what comes down from above depends on the leaves, too: a rule must not take it as constant."""

    def square() -> Tensor:
        out = function()
        return out * out

    return square


def both_orders(function: Callable[[], Tensor], leaves: list[Tensor]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """(the value and the gradients, recorded; the gradients of a projection of these gradients)."""
    out = function()
    cotangent = as_tensor(np.random.default_rng(1).normal(size=out.shape).astype(out.dtype))
    gradients = grad([out], leaves, [cotangent], create_graph=True)
    roots = [g for g in gradients if g is not None and g.node is not None]
    directions = [as_tensor(np.random.default_rng(i).normal(size=g.shape).astype(g.dtype)) for i, g in enumerate(roots)]
    second = grad(roots, leaves, directions) if roots else [None] * len(leaves)
    return [out.array, *arrays(gradients, leaves)], arrays(second, leaves)


def arrays(gradients: Sequence[Any], leaves: Sequence[Tensor]) -> list[np.ndarray]:
    return [np.zeros(t.shape) if g is None else g.array for g, t in zip(gradients, leaves, strict=True)]


def close(a: list[np.ndarray], b: list[np.ndarray], tolerance: float) -> bool:
    """Whether the numbers agree, relative to the largest one of each array."""
    if len(a) != len(b) or any(x.shape != y.shape for x, y in zip(a, b, strict=True)):
        return False
    scales = [np.abs(y[np.isfinite(y)]).max(initial=1e-3) for y in b]
    return all(np.allclose(x, y, 0.0, tolerance * s, equal_nan=True) for x, y, s in zip(a, b, scales, strict=True))


def check_ways_agree(case: Case) -> None:
    """Kernels, references and a backward pass that is recorded give the same value and the same gradients."""
    found = numbers(case)
    for way in ("reference", "graph"):
        assert close(found[way], found["kernels"], 1e-9), f"{case.name}: {way} and kernels differ"


TESTS: dict[str, tuple[set[str], Callable[[Case], None]]] = {  # what a test looks at, cheapest first
    "ways agree": ({"graph"}, check_ways_agree),
    "first order": ({"kernels", "reference"}, test_first_order),
    "second order": ({"second", "curved"}, test_second_order),
    "ways agree, again": ({"kernels", "reference"}, check_ways_agree),
}


@dataclass
class Row:
    case: Case
    numbers: Numbers
    cost: float = 0.0


Rule = tuple[int, int | None, str]  # the operation's id, the input, arrays or tensors or reference
Seen = dict[Rule, list[Row]]


def watch(operations: Sequence[Operation], cases: Sequence[Case]) -> Seen:
    """Run every row once and note which rules it runs; cheap rows come first."""
    now: set[Rule] = set()
    seen: Seen = {}

    def spy(operation: Operation) -> Damage:
        def note(site: Site) -> Any:
            part = None if operation.variadic else site.part
            now.add((id(operation), part, "tensors" if site.create_graph else "arrays"))
            return site.parts[site.part]

        return note

    def listen(operation: Fused) -> Callable[[Any], Any]:
        def note(out: Any) -> Any:
            now.update((id(operation), part, "reference") for part in (None, *rules_of(operation)))
            return out

        return note

    watchers = [Mutant(op, None, where, "", spy(op)) for op in operations for where in ("arrays", "tensors")]
    watchers += [Mutant(op, None, "reference", "", listen(op)) for op in operations if isinstance(op, Fused)]
    for case in cases:
        now.clear()
        with ExitStack() as stack:
            for watcher in watchers:
                stack.enter_context(watcher.planted())
            start = time.perf_counter()
            row = Row(case, numbers(case))
        row.cost = (time.perf_counter() - start) * sum(g.size for g in row.numbers["kernels"][1:])
        for rule in now:
            seen.setdefault(rule, []).append(row)
    for rows in seen.values():
        rows.sort(key=lambda row: row.cost)
    return seen
