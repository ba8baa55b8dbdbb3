"""Sums, differences, products and quotients, and when a kernel computes them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinygrad_tf import kernels
from tinygrad_tf.engine import mode, primitive
from tinygrad_tf.ops._types import (
    factors,
    float_factors,
    over,
    promoted,
    times,
)

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


# fmt: off
__all__ = [
    "COSTLY", "LARGE", "SEVERAL_PASSES", "SLOW", "add", "div", "large", "mul", "neg", "sub", "subtracted_from",
]
# fmt: on
