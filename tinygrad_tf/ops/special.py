"""Functions whose formula breaks down at single points, where values and derivatives are known all the same."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinygrad_tf.engine import primitive
from tinygrad_tf.ops._types import float_input, promoted_to_float
from tinygrad_tf.ops.elementwise import beside, div, erf, exp, exp2, log, log1p, where


@primitive(
    prepare=promoted_to_float, a=lambda g, a, result: g * div(a, result), b=lambda g, b, result: g * div(b, result)
)
def hypot(a: Any, b: Any) -> np.ndarray:
    """The length of (a, b), without overflow on the way."""
    return np.hypot(a, b)


@primitive(
    prepare=promoted_to_float,
    a=lambda g, a, b: where((a == 0) & (b <= 0), 0.0, g * log(beside(b, g))),
    b=lambda g, a, b: where((a == 0) & (b == 0), 0.0, div(g * a, b)),
)
def xlogy(a: Any, b: Any) -> np.ndarray:
    """a log b, and 0 where a is 0."""
    log_of_b = np.log(b) if isinstance(b, np.ndarray) else float(np.log(b))
    product = np.asarray(a * log_of_b)
    return np.where(np.equal(a, 0) & np.equal(b, b), product.dtype.type(0), product)


@primitive(
    prepare=promoted_to_float,
    a=lambda g, a, b: where((a == 0) & (b <= -1), 0.0, g * log1p(beside(b, g))),
    b=lambda g, a, b: div(g * a, b + 1.0),
)
def xlog1py(a: Any, b: Any) -> np.ndarray:
    """a log(1 + b), and 0 where a is 0."""
    product = np.asarray(a * np.log1p(b))
    return np.where(np.equal(a, 0) & np.equal(b, b), product.dtype.type(0), product)


@primitive(
    prepare=promoted_to_float,
    a=lambda g, a, b: div(g, exp2(b - a) + 1.0),
    b=lambda g, a, b: div(g, exp2(a - b) + 1.0),
)
def logaddexp2(a: Any, b: Any) -> np.ndarray:
    """log2(2^a + 2^b) without overflow."""
    return np.logaddexp2(a, b)


@primitive(prepare=float_input, x=lambda g, x: -g * (log(x) + 1.0))
def entr(x: np.ndarray) -> np.ndarray:
    """-x log x, 0 at 0, -inf below."""
    return np.where(x == 0, x.dtype.type(0), np.where(x < 0, x.dtype.type(-math.inf), -x * np.log(x)))


@primitive(prepare=float_input, x=lambda g, x: g * exp(-x * x) * (-2.0 / math.sqrt(math.pi)))
def erfc(x: np.ndarray) -> np.ndarray:
    """1 - erf(x), which far on the right has to be computed as such: nothing is left of the difference."""
    right = x > 0.5
    found = 1 - erf(x)
    found[right] = _erfc(x[right].astype(np.float64)).astype(x.dtype)
    return found


_erfc = np.vectorize(math.erfc, otypes=[np.float64])


@primitive(prepare=float_input, x=lambda g, x: g * _sinc_slope(x))
def sinc(x: np.ndarray) -> np.ndarray:
    """sin(pi x) / (pi x), and 1 at 0."""
    angle = np.where(x == 0, x.dtype.type(1), x * x.dtype.type(math.pi))
    return np.where(x == 0, x.dtype.type(1), np.sin(angle) / angle)


def _second_slope(x: Any) -> Any:
    """-pi^2 sinc(x) - 2 sinc'(x) / x; at 0 a third of -pi^2."""
    zero = x == 0
    curved = sinc(x) * -(math.pi**2) - div(_sinc_slope(x) * 2.0, where(zero, 1.0, x))
    return where(zero, -(math.pi**2) / 3.0, curved)


@primitive(prepare=float_input, x=lambda g, x: g * _second_slope(x))
def _sinc_slope(x: np.ndarray) -> np.ndarray:
    """(cos(pi x) - sinc(x)) / x, and 0 at 0."""
    zero, pi = x == 0, x.dtype.type(math.pi)
    safe = np.where(zero, x.dtype.type(1), x)
    return np.where(zero, x.dtype.type(0), (np.cos(pi * safe) - np.sin(pi * safe) / (pi * safe)) / safe)


def _slope_of_erfinv(g: Any, x: Any) -> Any:
    y = erfinv(x)
    return g * exp(y * y) * (math.sqrt(math.pi) / 2)


@primitive(prepare=float_input, x=_slope_of_erfinv)
def erfinv(x: np.ndarray) -> np.ndarray:
    """The inverse of erf: a formula right to 0.2 % (Winitzki, 2008), and two steps of Halley's method from there."""
    with np.errstate(divide="ignore", invalid="ignore"):
        wide = x.astype(np.float64)
        logarithm = np.log1p(-wide * wide)
        half = 2.0 / (math.pi * 0.147) + logarithm / 2.0
        y = np.copysign(np.sqrt(np.sqrt(half * half - logarithm / 0.147) - half), wide)
        for _ in range(2):
            step = (erf(y) - wide) * np.exp(y * y) * (math.sqrt(math.pi) / 2)
            y = y - step / (1.0 + y * step)
        return np.where(np.abs(wide) == 1.0, wide * np.inf, y).astype(x.dtype)
