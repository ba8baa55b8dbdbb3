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
        self.tolerance = LOOSE * np.maximum(np.abs(self.numeric), 1e-2 * self.largest) + 5 * self.pair.error

    def fits(self, a: np.ndarray, b: np.ndarray) -> bool:
        with quiet():
            return a.shape == b.shape and bool(np.all(np.abs(a - b) <= self.tolerance))

    @property
    def tensor_shape(self) -> tuple[int, ...]:
        return (*self.pair.output_shape, *self.pair.input_shape)

    def alive(self, x: np.ndarray) -> np.ndarray:
        """Which entries are not zero, as far as the numeric ones can tell."""
        return np.abs(x) > np.maximum(5 * self.pair.error, 1e-6 * self.largest)


Test = Callable[[Evidence], Iterator[str]]  # yields the mistakes that fit, as a line each
