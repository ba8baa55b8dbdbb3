"""Choices: where the derivative jumps, or is 0."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinygrad_tf import kernels
from tinygrad_tf._layout import in_order
from tinygrad_tf.engine import Primitive, Tensor, cast, make, mode, primitive
from tinygrad_tf.ops._types import (
    category,
    check_broadcast,
    default_float,
    fitting,
    promoted,
)
from tinygrad_tf.ops.elementwise.arithmetic import COSTLY, div, large, ndarray


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


# fmt: off
__all__ = [
    "LARGEST_BFLOAT16", "abs_", "bent", "ceil", "chosen", "clamp", "constant_in", "floor", "masked_fill", "maximum",
    "minimum", "nan_to_num", "nothing", "relu", "rint", "round_", "sign", "trunc", "where", "where_in_order",
]
# fmt: on
