"""Mistakes in what the output's gradient is multiplied by first: each row of A is that of N times a number of its own.

The numbers tell what is missing there: another input, as the gain of a norm, or the derivative of an activation, which
is a formula of the output.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from tinygrad_tf.autograd.evidence import Evidence

Formula = Callable[[np.ndarray], np.ndarray]
ACTIVATIONS: dict[str, tuple[Formula, Formula, str]] = {  # derivative by the result, inverse, the formula as text
    "sigmoid": (lambda y: y * (1 - y), lambda y: np.log(y / (1 - y)), "y * (1 - y)"),
    "tanh": (lambda y: 1 - y * y, np.arctanh, "1 - y * y"),
}


def wrong_row_factors(e: Evidence) -> Iterator[str]:
    """A = diag(r) N, with r told from one row to the next."""
    told = np.asarray(e.alive(e.numeric).any(1))  # the other rows are zero in both
    factors = _factors(e, told)
    if factors is None:
        return
    with np.errstate(all="ignore"):
        for name, values in [*e.inputs.items(), ("the result", e.result)]:
            whole = _as_output(values, e.pair.output_shape)
            if whole is None or np.ptp(whole[told]) == 0:
                continue
            whole = whole[told]
            if _equal(factors * whole, np.ones(len(whole))):
                yield f"a factor is missing: the gradient of the output is not multiplied by {name}"
            elif _equal(factors, whole):
                yield f"a factor too many: the gradient of the output is multiplied by {name} once more than it must be"
        for name, (derivative, inverse, text) in ACTIVATIONS.items():
            y = e.result.reshape(-1).astype(np.float64)[told]
            right = derivative(y)
            if _equal(factors * right, np.ones(y.size)):
                yield f"a factor is missing: the derivative of {name}, {text} with the result y"
            elif _equal(factors * right, derivative(inverse(y))):
                yield f"the input of {name} in place of its result: {text} is a formula of the result y; save that one"


def _factors(e: Evidence, told: np.ndarray) -> np.ndarray | None:
    """The numbers r of the rows `told`, if there are several, and they explain A."""
    if told.sum() < 2 or e.alive(e.analytic)[~told].any():
        return None
    n = np.where(e.alive(e.numeric), e.numeric, 0.0)[told]
    factors = (e.analytic[told] * n).sum(1) / (n * n).sum(1)
    if np.ptp(factors) <= 1e-3 * np.abs(factors).max(initial=0.0):
        return None
    tolerance = e.tolerance[told] * np.maximum(1.0, np.abs(factors))[:, None]
    fits = np.abs(e.analytic[told] - factors[:, None] * e.numeric[told]) <= tolerance
    return factors if fits.all() else None


def _as_output(values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray | None:
    """An input spread out over the output's elements, or None if it does not fit."""
    try:
        return np.broadcast_to(values, shape).reshape(-1).astype(np.float64)
    except ValueError:
        return None


def _equal(a: np.ndarray, b: np.ndarray) -> bool:
    return bool(np.all(np.abs(a - b) <= 1e-4 * np.maximum(np.abs(a), np.abs(b))))
