"""Elementwise operations: the result at a place depends on the inputs at that place alone.

Each rule is one line of operations: it runs on NumPy arrays in an ordinary backward pass, and on Tensors when the
gradient is to be differentiated again.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinygrad_tf.engine import make, primitive
from tinygrad_tf.engine import Tensor as Tensor
from tinygrad_tf.ops._types import float_input, promoted, promoted_to_float

# --- arithmetic -------------------------------------------------------------------------------------------------------


@primitive(prepare=promoted, a=lambda g: g, b=lambda g: g)
def add(a: np.ndarray, b: Any) -> np.ndarray:
    return np.logical_or(a, b) if a.dtype == bool else a + b


@primitive(prepare=promoted, a=lambda g: g, b=lambda g: -g)
def sub(a: Any, b: Any) -> np.ndarray:
    return a - b


@primitive(prepare=promoted, a=lambda g, b: g * b, b=lambda g, a: g * a)
def mul(a: np.ndarray, b: Any) -> np.ndarray:
    return a * b


@primitive(prepare=promoted_to_float, a=lambda g, b: g / b, b=lambda g, a, b: -g * (a / b) / b)
def div(a: Any, b: Any) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return a / b


@primitive(x=lambda g: -g)
def neg(x: np.ndarray) -> np.ndarray:
    return -x


def _power_base(g: Any, a: Any, b: Any) -> Any:
    """b a^(b-1); 0 for b = 0 even where a is 0 and a^(b-1) is infinite."""
    if isinstance(b, (int, float)):
        return g * (b * a ** (b - 1)) if b != 0 else g * 0.0
    return g * where(b == 0, 0.0, b * power(a, b - 1))


def _power_exponent(g: Any, a: Any, b: Any, result: Any) -> Any:
    """a^b ln a; 0 where a is 0 and b is not negative."""
    if isinstance(a, (int, float)):
        return g * result * (math.log(a) if a > 0 else math.nan) if a != 0 else where(b >= 0, 0.0, g * math.nan)
    zero = (a == 0) & (b >= 0)
    return where(zero, 0.0, g * result * log(where(zero, 1.0, a)))


@primitive(prepare=promoted, a=_power_base, b=_power_exponent)
def power(a: Any, b: Any) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return a**b


# --- functions --------------------------------------------------------------------------------------------------------


@primitive(prepare=float_input, x=lambda g, result: g * result)
def exp(x: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore", under="ignore"):
        return np.exp(x)


@primitive(prepare=float_input, x=lambda g, x: g / x)
def log(x: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.log(x)


@primitive(prepare=float_input, x=lambda g, x: g / (x + 1.0))
def log1p(x: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.log1p(x)


@primitive(prepare=float_input, x=lambda g, result: div(g, result * 2.0))
def sqrt(x: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        return np.sqrt(x)


@primitive(prepare=float_input, x=lambda g, result: g * (1.0 - result * result))
def tanh(x: np.ndarray) -> np.ndarray:
    return np.tanh(x)


@primitive(prepare=float_input, x=lambda g, result: g * (result * (1.0 - result)))
def sigmoid(x: np.ndarray) -> np.ndarray:
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
    return _erf(x.astype(np.float64)).astype(x.dtype) if x.size else x


_erf = np.vectorize(math.erf, otypes=[np.float64])


# --- choices: where the derivative jumps ------------------------------------------------------------------------------


@primitive(x=lambda g, x: g * sign(x))
def abs_(x: np.ndarray) -> np.ndarray:
    return np.abs(x)


def sign(x: Any) -> Any:
    """-1, 0 or 1; its derivative is 0 wherever it has one."""
    return make(np.sign(x.array)) if isinstance(x, Tensor) else np.sign(x)


@primitive(x=lambda g, result: where(result > 0, g, 0.0))
def relu(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0)


@primitive(prepare=promoted, a=lambda g, a, b: _share(g, a > b, a == b), b=lambda g, a, b: _share(g, b > a, a == b))
def maximum(a: np.ndarray, b: Any) -> np.ndarray:
    return np.maximum(a, b)


@primitive(prepare=promoted, a=lambda g, a, b: _share(g, a < b, a == b), b=lambda g, a, b: _share(g, b < a, a == b))
def minimum(a: np.ndarray, b: Any) -> np.ndarray:
    return np.minimum(a, b)


def _share(g: Any, wins: Any, ties: Any) -> Any:
    """The whole gradient to the winner, half of it to each where both are equal."""
    return where(ties, g * 0.5, where(wins, g, 0.0))


def _inside(x: Any, low: float | None, high: float | None) -> Any:
    """Whether clamp left x as it is; its bounds count as inside."""
    if low is None:
        return x <= high
    return x >= low if high is None else (x >= low) & (x <= high)


@primitive(x=lambda g, x, low, high: where(_inside(x, low, high), g, 0.0))
def clamp(x: np.ndarray, *, low: float | None, high: float | None) -> np.ndarray:
    return np.clip(x, low, high)


def _prepare_where(name: str, arrays: list[Any]) -> list[Any]:
    if arrays[0].dtype != bool:
        raise RuntimeError(f"where: condition must be a bool tensor, got {arrays[0].dtype}; compare first (x != 0)")
    return [arrays[0], *promoted("where", arrays[1:])]


@primitive(
    prepare=_prepare_where,
    a=lambda g, condition: where(condition, g, 0.0),
    b=lambda g, condition: where(condition, 0.0, g),
)
def where(condition: np.ndarray, a: Any, b: Any) -> np.ndarray:
    return np.where(condition, a, b)


# --- comparisons and bits: no gradient --------------------------------------------------------------------------------


def _without_gradient(function: Any, name: str, prepare: Any = promoted) -> Any:
    def operation(a: Any, b: Any) -> Any:
        arrays = [x.array if isinstance(x, Tensor) else x for x in (a, b)]
        return make(np.asarray(function(*prepare(name, arrays))))

    operation.__name__ = name
    return operation


eq = _without_gradient(np.equal, "eq")
ne = _without_gradient(np.not_equal, "ne")
lt = _without_gradient(np.less, "lt")
le = _without_gradient(np.less_equal, "le")
gt = _without_gradient(np.greater, "gt")
ge = _without_gradient(np.greater_equal, "ge")


def _integers(name: str, arrays: list[Any]) -> list[Any]:
    arrays = promoted(name, arrays)
    if arrays[0].dtype.kind not in "biu":
        raise RuntimeError(f"{name}: needs bool or integer tensors, got {arrays[0].dtype}; compare first (x != 0)")
    return arrays


bitwise_and = _without_gradient(np.bitwise_and, "bitwise_and", _integers)
bitwise_or = _without_gradient(np.bitwise_or, "bitwise_or", _integers)
bitwise_xor = _without_gradient(np.bitwise_xor, "bitwise_xor", _integers)


def bitwise_not(x: Any) -> Any:
    (array, _) = _integers("bitwise_not", [x.array, x.array])
    return make(~array)
