"""Modified Bessel functions of the first kind, of order 0 and 1, as they are and scaled by e^-|x|.

Below 30 the power series, whose terms all have one sign; above it Hankel's expansion for large x (Abramowitz and
Stegun, 1964, equations 9.6.10 and 9.7.1), whose smallest term is then below the precision of float64.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tinygrad_tf.engine import primitive
from tinygrad_tf.ops._types import float_input
from tinygrad_tf.ops.elementwise import div, sign, where

BORDER = 30.0
TERMS, TERMS_OF_LARGE = 80, 30


def _series(x: np.ndarray, order: int) -> np.ndarray:
    """Of numbers from 0 to BORDER: the sum of (x / 2)^(2 k + order) / (k! (k + order)!)."""
    square = x * x / 4
    term = x / 2 if order else np.ones_like(x)
    total = term.copy()
    for k in range(1, TERMS):
        term = term * square / (k * (k + order))
        total += term
    return total * np.exp(-x)


def _for_large(x: np.ndarray, order: int) -> np.ndarray:
    term = np.ones_like(x)
    total = term.copy()
    for k in range(1, TERMS_OF_LARGE):
        term = term * ((2 * k - 1) ** 2 - 4 * order**2) / (k * 8 * x)
        total += term
    return total / np.sqrt(2 * np.pi * x)


def scaled(x: np.ndarray, order: int) -> np.ndarray:
    """e^-|x| I(x) in float64."""
    size = np.abs(x)
    large = size > BORDER
    found = np.where(large, _for_large(np.where(large, size, BORDER), order), _series(np.minimum(size, BORDER), order))
    return np.copysign(found, x) if order else found


def _of(x: np.ndarray, order: int, is_scaled: bool) -> np.ndarray:
    wide = x.astype(np.float64, copy=False)
    found = scaled(wide, order)
    if not is_scaled:
        with np.errstate(over="ignore", invalid="ignore"):
            found = np.where(np.isinf(wide), wide if order else np.abs(wide), found * np.exp(np.abs(wide)))
    with np.errstate(over="ignore"):
        return found.astype(x.dtype, copy=False)


def _per_x(value: Any, x: Any) -> Any:
    """value / x, and its limit 1 / 2 at 0."""
    return where(x == 0, 0.5, div(value, where(x == 0, 1.0, x)))


@primitive(prepare=float_input, x=lambda g, x: g * i1(x))
def i0(x: np.ndarray) -> np.ndarray:
    return _of(x, 0, is_scaled=False)


@primitive(prepare=float_input, x=lambda g, x, result: g * (i0(x) - _per_x(result, x)))
def i1(x: np.ndarray) -> np.ndarray:
    return _of(x, 1, is_scaled=False)


@primitive(prepare=float_input, x=lambda g, x, result: g * (i1e(x) - sign(x) * result))
def i0e(x: np.ndarray) -> np.ndarray:
    return _of(x, 0, is_scaled=True)


@primitive(prepare=float_input, x=lambda g, x, result: g * (i0e(x) - _per_x(result, x) - sign(x) * result))
def i1e(x: np.ndarray) -> np.ndarray:
    return _of(x, 1, is_scaled=True)
