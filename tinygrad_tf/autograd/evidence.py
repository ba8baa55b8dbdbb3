"""What a wrong pair of Jacobians has to say: the two, and how exactly they must fit a mistake for it to be named.

Notation of all tests: A is the analytic Jacobian and N the numeric one, both (m, n), one row for each element of the
output and one column for each element of the input.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from tinygrad_tf._quiet import quiet
from tinygrad_tf.autograd.report import Pair, Report

WRONG_SIDE = "a mask applied to the wrong side"
WRONG_AXIS = "summed over the wrong axis"
NOT_SUMMED = "not summed over a broadcast axis"
LOOSE = 1e-4  # how exactly numbers must fit a mistake, relative to the largest entry


@dataclass
class Evidence:
    """One wrong pair, with what the tests need besides.

    That are the other pairs, the input's values, integer inputs, the output's values, and all float inputs by name.
    """

    pair: Pair
    report: Report
    values: np.ndarray
    integers: list[np.ndarray]
    result: np.ndarray = field(default_factory=lambda: np.zeros(0))
    inputs: dict[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.analytic, self.numeric = self.pair.analytic, self.pair.numeric
        self.largest = max(float(np.abs(self.numeric).max(initial=0.0)), float(np.abs(self.analytic).max(initial=0.0)))
        size = np.abs(self.numeric)
        self.tolerance = LOOSE * np.maximum(size, 1e-2 * size.max(initial=0.0)) + 5 * self.pair.error

    @property
    def right(self) -> np.ndarray:
        """Which entries of A are those of N."""
        return np.abs(self.analytic - self.numeric) <= self.tolerance

    def fits(self, a: np.ndarray, b: np.ndarray) -> bool:
        """Whether two Jacobians are the same, as far as their own size and the uncertainty can tell.

        If the uncertainty is about as large as they are, anything would fit, and nothing does.
        """
        if a.shape != b.shape:
            return False
        with quiet():
            size = np.maximum(np.abs(a), np.abs(b))
            room = LOOSE * np.maximum(size, 1e-2 * size.max(initial=0.0)) + 5 * self.pair.error
            return bool(np.all(np.abs(a - b) <= room) and room.mean() <= 0.3 * size.mean())

    @property
    def tensor_shape(self) -> tuple[int, ...]:
        return (*self.pair.output_shape, *self.pair.input_shape)

    def alive(self, x: np.ndarray) -> np.ndarray:
        """Which entries are not zero, as far as the numeric ones can tell."""
        size = np.abs(x)
        floor = max(1e-6 * float(size.max(initial=0.0)), 1e-12 * self.largest)
        return size > np.maximum(5 * self.pair.error, floor)

    def matrices(self, axes: tuple[int, ...], *jacobians: np.ndarray) -> list[np.ndarray]:
        """Jacobians, or other (k, n) arrays, as (k, groups, size): each group lies along these axes of the input."""
        behind = tuple(a + 1 for a in axes)
        last = tuple(range(-len(axes), 0))
        wanted = (-1, *self.pair.input_shape)
        moved = [np.moveaxis(j.reshape(wanted), behind, last) for j in jacobians]
        return [m.reshape(len(m), -1, int(np.prod(m.shape[m.ndim - len(axes) :]))) for m in moved]


Test = Callable[[Evidence], Iterator[str]]  # yields the mistakes that fit, as a line each
