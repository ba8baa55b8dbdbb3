"""At the point and around it: evaluating a subject's outputs along lines, and its gradients row by row."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tinygrad_tf._quiet import quiet
from tinygrad_tf.autograd.report import Report
from tinygrad_tf.autograd.subjects import Subject


@dataclass
class Base:
    """The point itself: its outputs, how they are split, and how exact they can be."""

    outputs: list[np.ndarray]
    flat: np.ndarray
    relative: float
    slices: list[slice] = field(default_factory=list)


class Probe:
    """Moves the inputs of a subject, evaluates, and puts them back."""

    def __init__(self, subject: Subject, report: Report):
        self.subject, self.report = subject, report
        self.shapes: list[tuple[int, ...]] = []
        self.failure: Exception | None = None

    def start(self, outputs: list[np.ndarray]) -> Base:
        """Take these outputs as those of the point itself."""
        self.shapes, self.base = [o.shape for o in outputs], _base(outputs)
        return self.base

    def evaluate(self) -> list[np.ndarray]:
        self.report.evaluations += 1
        with quiet():
            return self.subject.evaluate()

    def values(self) -> np.ndarray:
        """All outputs as one float64 vector, NaN where the function cannot be evaluated."""
        try:
            outputs = self.evaluate()
        except Exception as error:
            self.failure = error
            return np.full(self.base.flat.size, np.nan)
        if [o.shape for o in outputs] != self.shapes:
            got = [o.shape for o in outputs]
            raise ValueError(f"the outputs' shapes change with the values of the inputs: {self.shapes} and {got}")
        return flat(outputs)

    def same(self, first: list[np.ndarray], second: list[np.ndarray], nondet_tol: float) -> bool:
        """Whether two evaluations agree, but for rounding."""
        if [o.shape for o in first] != [o.shape for o in second]:
            return False
        a, b = flat(first), flat(second)
        return near(a, b, max(nondet_tol, 1e3 * self.base.relative * np.abs(a[np.isfinite(a)]).max(initial=0.0)))

    @functools.cached_property
    def unsteadiness(self) -> np.ndarray:
        """By how much each output changes with the precision of float32 or float64, infinite where that is not known.

        A step of the function itself stays where it is; those that rounding makes are 2^29 times as high in float32.
        """
        one, other = self.in_both_precisions()
        return np.nan_to_num(np.abs(one - other), nan=np.inf)

    def in_both_precisions(self, j: int = 0, moves: np.ndarray | float = 0.0) -> tuple[np.ndarray, np.ndarray]:
        """The outputs in the inputs' own precision and in the other, with `moves` added to input j, rounded to float32.

        NaN where this cannot be tried: the function insists on a dtype, or mixes in what has the other one.
        """
        inputs = self.subject.inputs
        other = np.dtype(np.float32 if any(x.array.dtype == np.float64 for x in inputs) else np.float64)
        before = [x.array.copy() for x in inputs]
        unknown = np.full(self.base.flat.size, np.nan)
        try:
            for i, (x, values) in enumerate(zip(inputs, before, strict=True)):
                x.array[...] = (values + moves if i == j else values).astype(np.float32)
            with np.errstate(all="ignore"):
                here, there = self.evaluate(), self.subject.evaluate_in(other)
            comparable = [o.shape for o in there] == self.shapes and all(o.dtype == other for o in there)
            return (flat(here), flat(there)) if comparable else (unknown, unknown)
        except Exception:
            return unknown, unknown
        finally:
            for x, values in zip(inputs, before, strict=True):
                x.array[...] = values

    def position(self, j: int, entry: int) -> Any:
        array = self.subject.inputs[j].array
        return array[np.unravel_index(entry, array.shape)]

    def typical(self, j: int) -> float:
        """The size of an input's numbers."""
        return typical(self.subject.inputs[j].array)

    def unit(self, j: int) -> float:
        """The machine epsilon of an input's dtype."""
        dtype = self.subject.inputs[j].array.dtype
        return float(np.finfo(dtype if dtype.kind == "f" else np.float32).eps)

    def entry_line(self, j: int, entry: int) -> tuple[Any, float, Any]:
        """The line along one entry, the entry's own size, and a rounding of steps to what its dtype can hold."""
        array = self.subject.inputs[j].array
        place = np.unravel_index(entry, array.shape)
        here = array[place]

        def line(t: float) -> np.ndarray:
            array[place] = here + here.dtype.type(t)
            try:
                return self.values()
            finally:
                array[place] = here

        def exact(h: float) -> float:
            step = here.dtype.type(h)
            step = (here + step) - here
            step = here - (here - step)
            return float(step) or h

        size = abs(float(here)) or typical(array)
        return line, size, exact

    def direction_line(self, j: int, direction: np.ndarray) -> Any:
        array = self.subject.inputs[j].array
        here = array.copy()

        def line(t: float) -> np.ndarray:
            array[...] = here + (t * direction).astype(array.dtype)
            try:
                return self.values()
            finally:
                array[...] = here

        return line


class Gradients:
    """The analytic Jacobians, row by row; made when they are first asked for."""

    def __init__(self, subject: Subject, outputs: list[np.ndarray]):
        self.subject, self.outputs = subject, outputs
        self.rows: list[list[Any]] | None = None
        self.reached: np.ndarray | None = None

    def of(self, j: int, entries: np.ndarray) -> tuple[np.ndarray, tuple[int, ...] | None, bool]:
        """The (m, n) matrix for input j, the shape of its gradient if that is wrong, and whether any gradient came."""
        if self.rows is None:
            self.rows = self._all()
        wanted = self.subject.inputs[j].array
        matrix = np.zeros((len(self.rows), entries.size))
        arrived = False
        for k, row in enumerate(self.rows):
            g = row[j]
            if g is None:
                continue
            arrived = True
            if g.shape != wanted.shape:
                return matrix, g.shape, True
            matrix[k] = g.astype(np.float64).reshape(-1)[entries]
        return matrix, None, arrived

    def reach(self) -> np.ndarray:
        """For each row the largest |gradient| times size of its input, over all inputs: rounding scales with it."""
        if self.reached is not None:
            return self.reached
        if self.rows is None:
            self.rows = self._all()
        sizes = [typical(x.array) for x in self.subject.inputs]
        found = np.zeros((len(self.rows), 1))
        for k, row in enumerate(self.rows):
            for g, size in zip(row, sizes, strict=True):
                if g is not None and g.size:
                    found[k] = max(found[k, 0], np.abs(g[np.isfinite(g)]).max(initial=0.0) * size)
        self.reached = found
        return found

    def _all(self) -> list[list[Any]]:
        rows = []
        for o, output in enumerate(self.outputs):
            for k in range(output.size):
                one = np.zeros(output.shape, output.dtype)
                one.reshape(-1)[k] = 1
                weights = [one if i == o else None for i in range(len(self.outputs))]
                rows.append(self.subject.pull(weights))
        return rows


def _base(outputs: list[np.ndarray]) -> Base:
    slices, start = [], 0
    for o in outputs:
        slices.append(slice(start, start + o.size))
        start += o.size
    relative = max(
        (float(np.finfo(o.dtype).eps) if o.dtype.kind == "f" else 2.0**-8 for o in outputs), default=2.0**-52
    )
    return Base(outputs, flat(outputs), relative, slices)


def flat(arrays: list[np.ndarray]) -> np.ndarray:
    return np.concatenate([a.astype(np.float64).reshape(-1) for a in arrays]) if arrays else np.zeros(0)


def largest(matrix: np.ndarray, slices: list[slice]) -> np.ndarray:
    """The largest finite entry of each output's Jacobian, for every one of its rows."""
    found = np.zeros((matrix.shape[0], 1))
    for part in slices:
        block = np.abs(matrix[part])
        found[part] = block[np.isfinite(block)].max(initial=0.0)
    return found


def near(a: np.ndarray, b: np.ndarray, tolerance: float) -> bool:
    """Whether all entries are equal, within the tolerance, or NaN both."""
    with quiet():
        return bool(np.all((a == b) | (np.abs(a - b) <= tolerance) | (np.isnan(a) & np.isnan(b))))


def typical(array: np.ndarray) -> float:
    """The root mean square of the finite elements, or 1."""
    finite = np.abs(array[np.isfinite(array)]).astype(np.float64)
    return float(np.sqrt(np.mean(finite * finite))) or 1.0 if finite.size else 1.0
