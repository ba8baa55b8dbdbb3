"""Functions of two numbers: powers, quotients without a rest, angles, sums of three."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinygrad_tf.engine import Tensor, cast, primitive
from tinygrad_tf.ops._types import (
    as_factor,
    category,
    check_floats,
    fitting,
    promoted,
    promoted_to_float,
    result_type,
)
from tinygrad_tf.ops.elementwise.arithmetic import div, mul, ndarray
from tinygrad_tf.ops.elementwise.choices import nothing, sign, trunc, where
from tinygrad_tf.ops.elementwise.functions import log, sigmoid, square
from tinygrad_tf.regions import wide


def beside(x: Any, g: Any) -> Any:
    """Integers that a gradient's rule computes with, in the dtype of the gradient."""
    array, dtype = (t.array if isinstance(t, Tensor) else t for t in (x, g))
    dtype = dtype.dtype
    if not isinstance(array, np.ndarray) or category(array.dtype) == 2:
        return x
    return cast(x, dtype=dtype) if isinstance(x, Tensor) else x.astype(dtype)


def _power_base(g: Any, a: Any, b: Any) -> Any:
    """b a^(b-1); 0 for b = 0 even where a is 0 and a^(b-1) is infinite."""
    if isinstance(b, (int, float)):
        return g * (b * a ** (b - 1)) if b != 0 else g * 0.0
    return g * where(b == 0, 0.0, b * power(a, b - 1))


def _power_exponent(g: Any, a: Any, b: Any, result: Any) -> Any:
    """a^b ln a; 0 where a is 0 and b is not negative."""
    if isinstance(a, (int, float)):
        slope = g * result * (math.log(a) if a > 0 else math.nan if a < 0 else -math.inf)
        return slope if a != 0 else where(b >= 0, 0.0, slope)
    zero = (a == 0) & (b >= 0)
    return where(zero, 0.0, g * result * log(where(zero, 1.0, beside(a, g))))


def _powers(name: str, arrays: list[Any]) -> list[Any]:
    """A Python exponent stays one, so that squares and cubes are products; integers need exponents from 0 on.

    Small dtypes have to hold their exponents.
    """
    a, b = arrays
    exponent = b if isinstance(b, (int, float)) else None
    a, b = promoted(name, arrays)
    if exponent is None or not isinstance(a, ndarray):
        return [a, b]
    whole = isinstance(exponent, int) and a.dtype.kind in "biu"
    if whole and exponent < 0:
        raise RuntimeError(f"{name}: integers have no negative integer powers; use x.float() ** {exponent}")
    if a.dtype.itemsize < 8 and (whole or a.dtype.itemsize == 2):
        fitting(f"{name}: the exponent", exponent, a.dtype)
    return [a, b]


@primitive(prepare=_powers, a=_power_base, b=_power_exponent)
def power(a: Any, b: Any) -> np.ndarray:
    if isinstance(b, (int, float)) and b == 3:
        return a * a * a
    if np.asarray(b).dtype.kind == "i" and np.asarray(a).dtype.kind in "iu":  # of these, 1 and -1 have inverses
        return np.where(np.less(b, 0) & (np.abs(a) != 1), 0, np.power(a, np.abs(b)))
    return np.power(a, b)


def _square_of_length(g: Any, a: Any, b: Any) -> Any:
    """a^2 + b^2, not in small integers, whose squares would not fit; inf at the origin, where no way leads anywhere."""
    total = square(beside(a, g)) + square(beside(b, g))
    return where(total == 0, math.inf, total)


@primitive(
    prepare=promoted_to_float,
    a=lambda g, a, b: g * b / _square_of_length(g, a, b),
    b=lambda g, a, b: -g * a / _square_of_length(g, a, b),
)
def atan2(a: Any, b: Any) -> np.ndarray:
    """The angle of the point (b, a)."""
    return np.arctan2(a, b)


@primitive(prepare=promoted_to_float, a=lambda g, a, b: g * sigmoid(a - b), b=lambda g, a, b: g * sigmoid(b - a))
def logaddexp(a: Any, b: Any) -> np.ndarray:
    """log(e^a + e^b) without overflow."""
    return np.logaddexp(a, b)


def _divisible(name: str, arrays: list[Any]) -> list[Any]:
    a, b = promoted(name, arrays)
    if np.asarray(b).dtype.kind in "biu" and np.asarray(a).dtype.kind in "biu" and not np.all(b) and np.size(a):
        raise RuntimeError(f"{name}: integer division by zero")
    return [a, b]


@primitive(prepare=_divisible, a=lambda g: nothing(g), b=lambda g: nothing(g))
def floor_divide(a: Any, b: Any) -> np.ndarray:
    return np.floor_divide(a, b)


@primitive(prepare=_divisible, a=lambda g: g, b=lambda g, a, b: -g * floor_divide(a, b))
def remainder(a: Any, b: Any) -> np.ndarray:
    """What a // b leaves: it has the sign of b."""
    return np.remainder(a, b)


@primitive(prepare=_divisible, a=lambda g: g, b=lambda g, a, b: -g * trunc(div(a, b)))
def fmod(a: Any, b: Any) -> np.ndarray:
    """What division rounded towards 0 leaves: it has the sign of a."""
    return np.fmod(a, b)


@primitive(prepare=promoted_to_float, a=lambda g, a, result: g * (sign(a) * sign(result)), b=lambda g: nothing(g))
def copysign(a: Any, b: Any) -> np.ndarray:
    """|a| with the sign of b."""
    return np.copysign(a, b)


def divide(a: Any, b: Any, rounding_mode: str | None = None) -> Any:
    """a / b, rounded down ('floor') or towards zero ('trunc') if asked to; integers then stay integers."""
    if rounding_mode is None:
        return div(a, b)
    if rounding_mode == "floor":
        return floor_divide(a, b)
    if rounding_mode != "trunc":
        raise RuntimeError(f"div: rounding_mode must be None, 'floor' or 'trunc', got {rounding_mode!r}")
    kinds = {np.asarray(x.array if isinstance(x, Tensor) else x).dtype.kind for x in (a, b)}
    if kinds <= set("biu"):
        return floor_divide(a - fmod(a, b), b)  # in whole numbers, without rounding errors
    return _quotient(a, b)


@primitive(prepare=promoted, a=lambda g: nothing(g), b=lambda g: nothing(g))
def _quotient(a: Any, b: Any) -> np.ndarray:
    """a / b, rounded towards zero."""
    return np.trunc(np.true_divide(a, b))


def lerp(start: Any, end: Any, weight: Any) -> Any:
    """From start (weight 0) to end (weight 1) in a straight line."""
    check_floats("lerp", start)
    weight = as_factor("lerp", "weight", weight, wide(start.array.dtype))
    if not isinstance(weight, Tensor) and weight >= 0.5:
        return end - (end - start) * (1.0 - weight)
    return start + (end - start) * weight


def together(*operands: Any) -> list[Any]:
    """Tensors in their common dtype, so that small integers do not overflow before they meet a larger dtype."""
    dtype = result_type(*(x.array if isinstance(x, Tensor) else x for x in operands))
    return [cast(x, dtype=dtype) if isinstance(x, Tensor) and x.array.dtype != dtype else x for x in operands]


def with_alpha(operation: Any, x: Any, other: Any, alpha: Any) -> Any:
    """operation(x, alpha * other), for add and sub."""
    if type(alpha) is not int or alpha != 1:
        like, other = together(x, other)
        other = mul(other, as_factor(operation.name, "alpha", alpha, like.array.dtype))
    return operation(x, other)


def addcmul(x: Any, a: Any, b: Any, value: Any = 1) -> Any:
    x, a, b = together(x, a, b)
    value = as_factor("addcmul", "value", value, wide(x.array.dtype))
    return x + (a * b if value == 1 else a * b * value)


def addcdiv(x: Any, a: Any, b: Any, value: Any = 1) -> Any:
    x, a, b = together(x, a, b)
    check_floats("addcdiv", x)
    value = as_factor("addcdiv", "value", value, wide(x.array.dtype))
    return x + (div(a, b) if value == 1 else div(a, b) * value)


# fmt: off
__all__ = [
    "addcdiv", "addcmul", "atan2", "beside", "copysign", "divide", "floor_divide", "fmod", "lerp", "logaddexp",
    "power", "remainder", "together", "with_alpha",
]
# fmt: on
