"""Tensors filled with one number."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinygrad_tf._layout import laid_out_like
from tinygrad_tf._quiet import quiet
from tinygrad_tf.creation._kinds import as_kind, finish, given_sizes, into_out
from tinygrad_tf.ops._types import fitting
from tinygrad_tf.tensor import Tensor


def _filled(shape: tuple[int, ...], value: Any, kind: np.dtype) -> np.ndarray:
    """np.full, in a third of its time for few elements."""
    array = np.empty(shape, kind)
    array.fill(value)
    return array


@into_out
def full(size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """One number everywhere; its dtype is the number's, float32 for Python floats."""
    fill = fill_value.array if isinstance(fill_value, Tensor) else np.asarray(fill_value)
    if fill.ndim:
        got = f"shape {fill.shape}" if isinstance(fill_value, Tensor) else repr(fill_value)
        raise TypeError(f"full: fill_value must be a number, got {got}")
    kind = as_kind(
        dtype, None if fill.dtype.kind == "f" and not isinstance(fill_value, (Tensor, np.generic)) else fill.dtype
    )
    if fill.dtype.kind in "iufb":
        fitted = fitting("full", fill.item(), kind)
        fill = fitted if kind.kind in "iu" else fill
    with quiet():
        return finish(_filled(given_sizes("full", (size,)), fill, kind), requires_grad, device)


@into_out
def zeros(*sizes: Any, size: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Zeros of a shape: zeros(2, 3) or zeros((2, 3))."""
    return finish(np.zeros(given_sizes("zeros", sizes, size), as_kind(dtype)), requires_grad, device)


@into_out
def ones(*sizes: Any, size: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Ones of a shape: ones(2, 3) or ones((2, 3))."""
    return finish(_filled(given_sizes("ones", sizes, size), 1, as_kind(dtype)), requires_grad, device)


@into_out
def empty(
    *sizes: Any,
    size: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """Zeros: memory with leftovers of other arrays in it has cost people days."""
    return finish(np.zeros(given_sizes("empty", sizes, size), as_kind(dtype)), requires_grad, device)


def zeros_like(
    input: Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, memory_format: Any = None
) -> Tensor:
    """Zeros in the shape, dtype and layout of another tensor."""
    kind = as_kind(dtype, input.array.dtype)
    return finish(laid_out_like(input.array, lambda shape: np.zeros(shape, kind)), requires_grad, device)


def ones_like(
    input: Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, memory_format: Any = None
) -> Tensor:
    """Ones in the shape, dtype and layout of another tensor."""
    kind = as_kind(dtype, input.array.dtype)
    return finish(laid_out_like(input.array, lambda shape: _filled(shape, 1, kind)), requires_grad, device)


empty_like = zeros_like


def full_like(
    input: Tensor,
    fill_value: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """One number in the shape, dtype and layout of another tensor."""
    kind = input.dtype if dtype is None else dtype
    made = laid_out_like(input.array, lambda shape: full(shape, fill_value, dtype=kind).array)
    return finish(made, requires_grad, device)


# fmt: off
__all__ = [
    "empty", "empty_like", "full", "full_like", "ones", "ones_like", "zeros", "zeros_like",
]
# fmt: on
