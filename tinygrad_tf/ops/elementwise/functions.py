"""Functions of one number: exponentials, logarithms, trigonometry."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinygrad_tf import kernels
from tinygrad_tf.engine import Primitive, Tensor, cast, mode, primitive
from tinygrad_tf.ops._types import (
    float_input,
)
from tinygrad_tf.ops.elementwise.arithmetic import COSTLY, SEVERAL_PASSES, SLOW, div, large
from tinygrad_tf.ops.elementwise.choices import clamp, where
from tinygrad_tf.regions import wide


@primitive(prepare=float_input, x=lambda g, result: g * result)
def exp(x: np.ndarray) -> np.ndarray:
    return kernels.elementwise.exp(x) if large(x, x, COSTLY) else np.exp(x)


@primitive(prepare=float_input, x=lambda g, x: g / x)
def log(x: np.ndarray) -> np.ndarray:
    return kernels.elementwise.log(x) if large(x, x, COSTLY) else np.log(x)


@primitive(prepare=float_input, x=lambda g, x: g / (x + 1.0))
def log1p(x: np.ndarray) -> np.ndarray:
    return kernels.elementwise.log1p(x) if large(x, x, SLOW) else np.log1p(x)


@primitive(prepare=float_input, x=lambda g, result: g * (result + 1.0))
def expm1(x: np.ndarray) -> np.ndarray:
    return kernels.elementwise.expm1(x) if large(x, x, SLOW) else np.expm1(x)


@primitive(prepare=float_input, x=lambda g, result: div(g, result * 2.0))
def sqrt(x: np.ndarray) -> np.ndarray:
    return np.sqrt(x)


@primitive(prepare=float_input, x=lambda g, result: g * (1.0 - result * result))
def tanh(x: np.ndarray) -> np.ndarray:
    return kernels.elementwise.tanh(x) if large(x, x, COSTLY) else np.tanh(x)


@primitive(prepare=float_input, x=lambda g, result: g * (result * (1.0 - result)))
def sigmoid(x: np.ndarray) -> np.ndarray:
    if large(x, x, SEVERAL_PASSES):
        return kernels.elementwise.sigmoid(x)
    small = np.exp(-np.abs(x))  # never overflows
    return np.where(x < 0, small, 1) / (1 + small)


@primitive(prepare=float_input, x=lambda g, x: g * cos(x))
def sin(x: np.ndarray) -> np.ndarray:
    return np.sin(x)


@primitive(prepare=float_input, x=lambda g, x: -g * sin(x))
def cos(x: np.ndarray) -> np.ndarray:
    return np.cos(x)


@primitive(prepare=float_input, x=lambda g, x: g * (2.0 / math.sqrt(math.pi)) * exp(-x * x))
def erf(x: np.ndarray) -> np.ndarray:
    if x.dtype.kind == "f" and not mode.reference:
        return kernels.elementwise.erf(x)
    return _erf(x.astype(np.float64)).astype(x.dtype) if x.size else x


_erf = np.vectorize(math.erf, otypes=[np.float64])


def _smooth(function: Any, rule: Any) -> Primitive:
    """An operation made of a NumPy function and the rule of its derivative."""

    def forward(x: np.ndarray) -> np.ndarray:
        return function(x)

    forward.__name__ = function.__name__
    made: Primitive = primitive(prepare=float_input, x=rule)(forward)
    return made


log2 = _smooth(np.log2, lambda g, x: g / (x * math.log(2.0)))


log10 = _smooth(np.log10, lambda g, x: g / (x * math.log(10.0)))


exp2 = _smooth(np.exp2, lambda g, result: g * (result * math.log(2.0)))


tan = _smooth(np.tan, lambda g, result: g * (result * result + 1.0))


asin = _smooth(np.arcsin, lambda g, x: g / sqrt(1.0 - x * x))


acos = _smooth(np.arccos, lambda g, x: -g / sqrt(1.0 - x * x))


atan = _smooth(np.arctan, lambda g, x: g / (x * x + 1.0))


sinh = _smooth(np.sinh, lambda g, x: g * cosh(x))


cosh = _smooth(np.cosh, lambda g, x: g * sinh(x))


asinh = _smooth(np.arcsinh, lambda g, x: g / sqrt(x * x + 1.0))


acosh = _smooth(np.arccosh, lambda g, x: g / sqrt(x * x - 1.0))


atanh = _smooth(np.arctanh, lambda g, x: g / (1.0 - x * x))


def square(x: Any) -> Any:
    """x times itself; truths count as 0 and 1."""
    if isinstance(x, Tensor) and x.array.dtype == np.bool_:
        x = cast(x, dtype=np.dtype(np.int64))
    return x * x


@primitive(prepare=float_input, x=lambda g, result: -g * (result * result))
def reciprocal(x: np.ndarray) -> np.ndarray:
    return 1 / x


def rsqrt(x: Any) -> Any:
    return div(1.0, sqrt(x))


@primitive(prepare=float_input, x=lambda g, x: where((x < 0) | (x > 1), math.nan, div(g, x * (1.0 - x))))
def _logit(x: np.ndarray) -> np.ndarray:
    y = x.astype(wide(x.dtype), copy=False)
    return np.log(y / (1.0 - y)).astype(x.dtype, copy=False)


def logit(x: Any, eps: float | None = None) -> Any:
    """log(x / (1 - x)), the inverse of sigmoid."""
    return _logit(x if eps is None else clamp(x, low=eps, high=1.0 - eps))


# fmt: off
__all__ = [
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "cos",
    "cosh",
    "erf",
    "exp",
    "exp2",
    "expm1",
    "log",
    "log1p",
    "log2",
    "log10",
    "logit",
    "reciprocal",
    "rsqrt",
    "sigmoid",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "tan",
    "tanh",
]
# fmt: on
