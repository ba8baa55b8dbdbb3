"""The logarithm of the gamma function and its derivatives, each of which is the gradient rule of the one before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tinygrad_tf.engine import primitive
from tinygrad_tf.ops import _gamma
from tinygrad_tf.ops._types import float_input


def _in_float64(formula: Callable[[np.ndarray], np.ndarray], x: np.ndarray) -> np.ndarray:
    return formula(x.astype(np.float64, copy=False)).astype(x.dtype, copy=False)


@primitive(prepare=float_input, x=lambda g, x: g * digamma(x))
def lgamma(x: np.ndarray) -> np.ndarray:
    return _in_float64(_gamma.log_gamma, x)


@primitive(prepare=float_input, x=lambda g, x: g * _polygamma(x, n=1))
def digamma(x: np.ndarray) -> np.ndarray:
    return _in_float64(_gamma.digamma, x)


@primitive(prepare=float_input, x=lambda g, x, n: g * _polygamma(x, n=n + 1))
def _polygamma(x: np.ndarray, *, n: int) -> np.ndarray:
    return _in_float64(lambda wide: _gamma.polygamma(n, wide), x)


def polygamma(input: Any, n: int) -> Any:
    """Derivative number n of digamma, itself for n = 0."""
    if not isinstance(n, (int, np.integer)) or isinstance(n, bool):
        raise TypeError(f"polygamma: n must be an integer, got {n!r}")
    if n < 0:
        raise RuntimeError(f"polygamma: n must not be negative, got {n}")
    return _polygamma(input, n=int(n)) if n else digamma(input)
