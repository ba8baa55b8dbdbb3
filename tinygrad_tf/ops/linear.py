"""The two layers that look up or mix channels: y = x W^T + b, and rows of an embedding table."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinygrad_tf import kernels
from tinygrad_tf.engine import Tensor, fused, make
from tinygrad_tf.ops._precision import lowered
from tinygrad_tf.ops._precision import state as precision
from tinygrad_tf.ops._types import category, wants_tensor
from tinygrad_tf.ops.elementwise import where
from tinygrad_tf.ops.index import getitem
from tinygrad_tf.ops.linalg import matmul
from tinygrad_tf.ops.shape import broadcast_shapes, transpose


def linear_reference(x: Any, weight: Any, bias: Any) -> Any:
    y = matmul(x, transpose(weight, 0, 1))
    return y if bias is None else y + bias


FLOAT16 = np.dtype(np.float16)


def _wide(a: Any) -> Any:
    """16-bit numbers are multiplied and summed in float32; the walk brings gradients back to their dtype."""
    return a.astype(np.float32) if a is not None and a.dtype == FLOAT16 else a


def _rows(a: np.ndarray) -> np.ndarray:
    """(..., C) as (rows, C); spelled out, as -1 says nothing where C is 0."""
    return a.reshape(math.prod(a.shape[:-1]), a.shape[-1])


def _linear_backward(g: np.ndarray, wanted: list[bool], kept: Any, x: np.ndarray, weight: np.ndarray) -> list[Any]:
    """dx = g W, dW = g^T x, db = sum of g over all rows."""
    dx, dweight, dbias = kernels.matmul.linear_backward(_wide(_rows(g)), _wide(_rows(x)), _wide(weight), *wanted)
    return [None if dx is None else dx.reshape(x.shape), dweight, dbias]


@fused(reference=linear_reference, backward=_linear_backward)
def linear_(x: np.ndarray, weight: np.ndarray, bias: Any) -> tuple[np.ndarray, None]:
    flat, dtype = x if x.ndim == 2 else _rows(x), x.dtype
    if dtype.kind == "f" and dtype.itemsize > 2:
        y = kernels.matmul.linear(flat, weight, bias)
    elif category(dtype) == 2:
        y = kernels.cast.cast(kernels.matmul.linear(_wide(flat), _wide(weight), _wide(bias)), dtype)
    else:
        y = flat @ weight.T if bias is None else flat @ weight.T + bias
    return y if x.ndim == 2 else y.reshape(*x.shape[:-1], weight.shape[0]), None


without_bias = linear_.twin("mm")


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Any:
    """x (..., in) with weight (out, in) and bias (out): (..., out); with weight (in,) one number for each x: (...)."""
    if not isinstance(x, Tensor):
        raise wants_tensor("linear", "input", x)
    if precision.dtype is not None:
        return _lowered_linear(x, weight, bias)
    if not isinstance(weight, Tensor):
        raise wants_tensor("linear", "weight", weight)
    shape, wanted = x.array.shape, weight.array.shape
    if len(wanted) == 1:
        return matmul(x, weight) if bias is None else matmul(x, weight) + bias
    if len(wanted) != 2:
        raise RuntimeError(f"linear: weight must have the shape (out, in) or (in,), got {wanted}")
    if not shape or shape[-1] != wanted[1]:
        raise RuntimeError(
            f"linear: the last size of x must be {wanted[1]} (weight is {wanted}), got x of shape {shape}"
        )
    dtype = x.array.dtype
    if weight.array.dtype != dtype or (bias is not None and bias.array.dtype != dtype):
        dtypes = {str(t.array.dtype) for t in (x, weight, bias) if t is not None}
        raise RuntimeError(f"linear: x, weight and bias must have the same dtype, got {sorted(dtypes)}")
    if bias is None or bias.array.shape == wanted[:1]:
        return linear_(x, weight, bias) if bias is not None else without_bias(x, weight, None)
    out = (*shape[:-1], wanted[0])
    if broadcast_shapes("linear: the bias", out, bias.array.shape) != out:
        raise RuntimeError(
            f"linear: bias must have the shape {wanted[:1]} (weight is {wanted}), got {bias.array.shape}"
        )
    return linear_(x, weight, None) + bias


_lowered_linear = lowered(linear)


def embedding_reference(weight: Any, *, index: Any, padding_idx: int | None) -> Any:
    rows = getitem(weight, index=index)
    if padding_idx is None:
        return rows
    ids = index.array if isinstance(index, Tensor) else index
    return where(make((ids == padding_idx)[..., None]), rows.detach(), rows)


def _embedding_backward(
    g: np.ndarray, wanted: list[bool], kept: int, index: np.ndarray, padding_idx: int | None
) -> list[Any]:
    dweight = kernels.embedding.embedding_backward(g, index, kept)
    if padding_idx is not None:
        dweight[padding_idx] = 0
    return [dweight]


@fused(reference=embedding_reference, backward=_embedding_backward)
def embedding_(weight: np.ndarray, *, index: np.ndarray, padding_idx: int | None) -> tuple[np.ndarray, int]:
    return kernels.embedding.embedding(weight, index), weight.shape[0]


def embedding(index: Tensor, weight: Tensor, padding_idx: int | None = None) -> Any:
    """Rows of weight (V, C) at integer ids of any shape: (*ids, C). The row padding_idx gets no gradient."""
    ids = index if isinstance(index, Tensor) else make(np.asarray(index))
    if category(ids.array.dtype) != 1:
        raise RuntimeError(f"embedding: ids must be integers, got {ids.array.dtype}")
    if weight.array.ndim != 2:
        raise RuntimeError(f"embedding: weight must have the shape (ids, channels), got {weight.array.shape}")
    return embedding_(weight, index=ids, padding_idx=padding_idx)
