"""Elementwise operations: the result at a place depends on the inputs at that place alone.

Each rule is one line of operations: it runs on NumPy arrays in an ordinary backward pass, and on Tensors when the
gradient is to be differentiated again.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinygrad_tf import kernels
from tinygrad_tf._layout import in_order
from tinygrad_tf.engine import Primitive, Tensor, cast, make, mode, primitive
from tinygrad_tf.ops._types import (
    as_factor,
    category,
    check_broadcast,
    check_floats,
    default_float,
    factors,
    fitting,
    float_factors,
    float_input,
    over,
    promoted,
    promoted_to_float,
    result_type,
    times,
)
from tinygrad_tf.regions import wide

# --- arithmetic -------------------------------------------------------------------------------------------------------


ndarray = np.ndarray  # looked up at every call
LARGE = 1 << 16  # elements; from here on several cores are faster than NumPy's one
COSTLY, SLOW = 1 << 14, 1 << 10  # the same for what takes NumPy 1 to 3 ns an element, and for what takes it 20
SEVERAL_PASSES = 1 << 4  # and for what takes NumPy many passes


def large(a: Any, b: Any, least: int = LARGE) -> bool:
    """Whether a kernel takes the operands, either of which may be a number."""
    if type(b) is not ndarray or b.size < least or type(a) is not ndarray:
        return False
    return not mode.reference and kernels.elementwise.worth(a, b, least)


@primitive(prepare=promoted, a=lambda g: g, b=lambda g: g)
def add(a: Any, b: Any) -> np.ndarray:
    if large(a, b):
        return kernels.elementwise.add(a, b)
    if type(a) is ndarray and not a.flags.c_contiguous and type(b) is ndarray and _lies_as(a, b):
        return np.add(a, b, out=np.empty_like(a))
    return a + b


def _lies_as(a: ndarray, b: ndarray) -> bool:
    """Whether to lay a sum out as its first operand: PyTorch does, NumPy only if both lie alike. A dropout behind the
    sum of a transposed input and its positions draws in that order.
    """
    return 0 not in a.strides and np.broadcast(a, b).shape == a.shape


def _no_bools(name: str, arrays: list[Any]) -> list[Any]:
    for x in arrays:
        if isinstance(x, np.ndarray) and x.dtype.char == "?":
            raise RuntimeError(f"{name}: not for bool tensors; use ~ or ^, or turn them into numbers with .long()")
    return promoted(name, arrays)


@primitive(prepare=_no_bools, a=lambda g: g, b=lambda g: -g)
def sub(a: Any, b: Any) -> np.ndarray:
    return kernels.elementwise.subtract(a, b) if large(a, b) else a - b


subtracted_from = sub.twin("rsub")  # as PyTorch calls the step of 1 - x


@primitive(prepare=factors, a=lambda g, b: times(g, b), b=lambda g, a: times(g, a))
def mul(a: Any, b: Any) -> np.ndarray:
    return kernels.elementwise.multiply(a, b) if large(a, b) else times(a, b)


@primitive(prepare=float_factors, a=lambda g, b: over(g, b), b=lambda g, a, b: -g * (a / b) / b)
def div(a: Any, b: Any) -> np.ndarray:
    return kernels.elementwise.divide(a, b) if large(a, b) else over(a, b)


@primitive(x=lambda g: -g)
def neg(x: np.ndarray) -> np.ndarray:
    if x.dtype == bool:
        raise RuntimeError("neg: not for bool tensors; use ~ to turn a mask around")
    return -x


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


# --- functions --------------------------------------------------------------------------------------------------------


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


# --- two inputs -------------------------------------------------------------------------------------------------------


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


# --- choices: where the derivative jumps ------------------------------------------------------------------------------


@primitive(x=lambda g, x: g * sign(x))
def abs_(x: np.ndarray) -> np.ndarray:
    return np.abs(x)


def nothing(g: Any) -> Any:
    """The gradient of what is constant between its jumps: zeros, even where g is infinite."""
    return make(np.zeros_like(g.array)) if isinstance(g, Tensor) else np.zeros_like(g)


def _step(name: str, function: Any) -> Primitive:
    """A function that is constant between jumps."""

    def forward(x: np.ndarray) -> np.ndarray:
        return function(x) if category(x.dtype) == 2 or (name == "sign" and x.dtype != bool) else x.copy()

    forward.__name__ = name
    made: Primitive = primitive(x=nothing)(forward)
    return made


sign = _step("sign", lambda x: np.subtract(x > 0, x < 0, dtype=x.dtype))  # -1, 0 or 1; 0 for NaN
floor = _step("floor", np.floor)
ceil = _step("ceil", np.ceil)
trunc = _step("trunc", np.trunc)
rint = _step("round", np.rint)  # to the nearest even number, where two are equally near


def round_(x: Any, decimals: int = 0) -> Any:
    """To the nearest number of `decimals` places."""
    return rint(x) if not decimals else div(rint(x * 10.0**decimals), 10.0**decimals)


@primitive(g=lambda h: h, x=lambda h: nothing(h))
def constant_in(g: np.ndarray, x: np.ndarray) -> np.ndarray:
    """g, which depends on where x lies between kinks, and on nothing else of x: with a derivative by x, which is 0."""
    return g


@primitive(x=lambda g, x: constant_in(g, x))
def bent(x: np.ndarray) -> np.ndarray:
    """x, for functions made of straight pieces: their second derivative is 0 then, and not missing, as in PyTorch."""
    return x


@primitive(x=lambda g, result: constant_in(where(result <= 0, 0.0, g), result))
def relu(x: np.ndarray) -> np.ndarray:
    return kernels.elementwise.relu(x) if large(x, x, COSTLY) else np.maximum(x, 0)


@primitive(prepare=promoted, a=lambda g, a, b: _share(g, a < b, a == b), b=lambda g, a, b: _share(g, b < a, a == b))
def maximum(a: np.ndarray, b: Any) -> np.ndarray:
    return np.maximum(a, b)


@primitive(prepare=promoted, a=lambda g, a, b: _share(g, a > b, a == b), b=lambda g, a, b: _share(g, b > a, a == b))
def minimum(a: np.ndarray, b: Any) -> np.ndarray:
    return np.minimum(a, b)


def _share(g: Any, loses: Any, ties: Any) -> Any:
    """Nothing to the loser, half of the gradient to each where both are equal."""
    return where(loses, 0.0, where(ties, g * 0.5, g))


def _inside(x: Any, low: float | None, high: float | None) -> Any:
    """Whether clamp left x as it is; its bounds count as inside."""
    if low is None:
        return x <= high
    return x >= low if high is None else (x >= low) & (x <= high)


@primitive(x=lambda g, x, low, high: where(_inside(x, low, high), g, 0.0))
def _clamp(x: np.ndarray, *, low: float | None, high: float | None) -> np.ndarray:
    return np.clip(x, low, high).astype(x.dtype, copy=False)


def _unless_unknown(bound: Any, x: Any) -> Any:
    """x, but NaN where it or its bound is."""
    dtype = bound.array.dtype if isinstance(bound, Tensor) else None
    if category(x.array.dtype) < 2 and (dtype is None or category(dtype) < 2):
        return x
    known = (x == x) & (bound == bound)
    return x if known.array.all() else where(known, x, math.nan)


def clamp(x: Any, low: Any = None, high: Any = None) -> Any:
    """x between low and high (numbers or tensors, either may be None)."""
    if low is None and high is None:
        raise RuntimeError("clamp: at least one of min and max must not be None")
    if isinstance(low, Tensor) or isinstance(high, Tensor):
        x = x if low is None else where(x < low, low, _unless_unknown(low, x))
        return x if high is None else where(x > high, high, _unless_unknown(high, x))
    if category(x.array.dtype) < 2 and (isinstance(low, float) or isinstance(high, float)):
        x = cast(x, dtype=default_float())
    bounds = [fitting("clamp", v, x.array.dtype) if isinstance(v, (int, float)) else v for v in (low, high)]
    return _clamp(x, low=bounds[0], high=bounds[1])


LARGEST_BFLOAT16 = float.fromhex("0x1.fep127")


def nan_to_num(x: Any, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Any:
    """x with NaN and infinities replaced, the latter by the largest and smallest numbers there are."""
    if category(x.array.dtype) < 2:
        return x
    largest = float(np.finfo(x.array.dtype).max) if x.array.dtype.kind == "f" else LARGEST_BFLOAT16
    x = where(x != x, nan, x)
    x = where(x == math.inf, largest if posinf is None else posinf, x)
    return where(x == -math.inf, -largest if neginf is None else neginf, x)


def _prepare_where(name: str, arrays: list[Any]) -> list[Any]:
    if not isinstance(arrays[0], (np.ndarray, np.generic)):
        raise TypeError(f"where: condition must be a bool tensor, got {type(arrays[0]).__name__}")
    condition = arrays[0]
    if condition.dtype.char == "B":  # uint8, what masks were made of before there were bools
        condition = condition.astype(bool)
    if condition.dtype.char != "?":
        raise RuntimeError(f"where: condition must be a bool tensor, got {condition.dtype}; compare first (x != 0)")
    operands = promoted("where", arrays[1:])
    dtype = getattr(operands[0], "dtype", None) or operands[1].dtype
    for given, x in zip(arrays[1:], operands, strict=True):
        if isinstance(given, (int, float)) and (category(dtype) < 2 or dtype.itemsize > 2):
            fitting("where", given, dtype)  # in 16-bit floats PyTorch lets it become inf here
        if isinstance(x, np.ndarray) and x.shape != condition.shape:
            check_broadcast("where: condition and operand", condition.shape, x.shape)
    return [condition, *operands]


@primitive(
    prepare=_prepare_where,
    a=lambda g, condition: where(condition, g, 0.0),
    b=lambda g, condition: where(condition, 0.0, g),
)
def where(condition: np.ndarray, a: Any, b: Any) -> np.ndarray:
    return chosen(condition, a, b)


@primitive(
    prepare=_prepare_where,
    a=lambda g, condition: where(condition, g, 0.0),
    b=lambda g, condition: where(condition, 0.0, g),
)
def where_in_order(condition: np.ndarray, a: Any, b: Any) -> np.ndarray:
    """where, for what PyTorch lays out in the order of the axes, however the operands lie."""
    return in_order(chosen(condition, a, b))


def chosen(condition: np.ndarray, a: Any, b: Any) -> np.ndarray:
    """a where the condition is True, b elsewhere, by the kernel if one of them is a large array."""
    for x in (a, b):
        if type(x) is ndarray and x.size >= COSTLY and not mode.reference:
            return kernels.select.select(condition, a, b)
    return np.where(condition, a, b)


def masked_fill(x: Any, mask: Any, value: Any) -> Any:
    """`value` (a number or a 0-d tensor) where the mask is True, x elsewhere; the dtype stays that of x."""
    if not isinstance(mask, Tensor) or mask.array.dtype != bool:
        found = mask.array.dtype if isinstance(mask, Tensor) else type(mask).__name__
        raise RuntimeError(f"masked_fill: mask must be a bool tensor, got {found}; compare first (mask != 0)")
    if isinstance(value, Tensor) and value.array.ndim:
        raise RuntimeError(
            f"masked_fill: value must be a number or a 0-d tensor, got shape {value.array.shape}; use where"
        )
    check_broadcast("masked_fill: tensor and mask", x.array.shape, mask.array.shape)
    number = value.array.item() if isinstance(value, Tensor) else value
    if isinstance(number, (int, float)):
        number = fitting("masked_fill", number, x.array.dtype)
        value = int(number) if x.array.dtype.kind in "iu" else value
    filled = where_in_order(mask, value, x)
    return filled if filled.array.dtype == x.array.dtype else cast(filled, dtype=x.array.dtype)
