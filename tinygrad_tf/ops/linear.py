"""The two layers that look up or mix channels: y = x W^T + b, and rows of an embedding table."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinygrad_tf import kernels
from tinygrad_tf.engine import Tensor, fused
from tinygrad_tf.ops._precision import lowered
from tinygrad_tf.ops._types import category
from tinygrad_tf.ops.index import getitem
from tinygrad_tf.ops.linalg import matmul
from tinygrad_tf.ops.shape import transpose


def linear_reference(x: Any, weight: Any, bias: Any) -> Any:
    y = matmul(x, transpose(weight, 0, 1))
    return y if bias is None else y + bias


def _wide(a: np.ndarray) -> np.ndarray:
    """16-bit numbers are multiplied and summed in float32; the walk brings gradients back to their dtype."""
    return a.astype(np.float32) if a.dtype == np.float16 else a


def _rows(a: np.ndarray) -> np.ndarray:
    """(..., C) as (rows, C); spelled out, as -1 says nothing where C is 0."""
    return _wide(a.reshape(math.prod(a.shape[:-1]), a.shape[-1]))


def _linear_backward(g: np.ndarray, wanted: list[bool], kept: Any, x: np.ndarray, weight: np.ndarray) -> list[Any]:
    """dx = g W, dW = g^T x, db = sum of g over all rows."""
    dx, dweight, dbias = kernels.matmul.linear_backward(_rows(g), _rows(x), _wide(weight), *wanted)
    return [None if dx is None else dx.reshape(x.shape), dweight, dbias]


@fused(reference=linear_reference, backward=_linear_backward)
def linear_(x: np.ndarray, weight: np.ndarray, bias: Any) -> tuple[np.ndarray, None]:
    flat = _rows(x)
    if category(flat.dtype) == 2:
        y = kernels.matmul.linear(flat, _wide(weight), None if bias is None else _wide(bias))
    else:
        y = flat @ weight.T if bias is None else flat @ weight.T + bias
    y = y if y.dtype == x.dtype else kernels.cast.cast(y, x.dtype)
    return y.reshape(*x.shape[:-1], weight.shape[0]), None


@lowered
def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Any:
    """x (..., in) with weight (out, in) and bias (out): (..., out)."""
    shape, wanted = x.array.shape, weight.array.shape
    if len(wanted) != 2:
        raise RuntimeError(f"linear: weight must have the shape (out, in), got {wanted}")
    if not shape or shape[-1] != wanted[1]:
        raise RuntimeError(
            f"linear: the last size of x must be {wanted[1]} (weight is {wanted}), got x of shape {shape}"
        )
    dtypes = {t.array.dtype for t in (x, weight, bias) if t is not None}
    if len(dtypes) > 1:
        raise RuntimeError(f"linear: x, weight and bias must have the same dtype, got {sorted(map(str, dtypes))}")
    return linear_(x, weight, bias)


def embedding_reference(weight: Any, *, index: np.ndarray, padding_idx: int | None) -> Any:
    return getitem(weight, index=index)


def _embedding_backward(
    g: np.ndarray, wanted: list[bool], kept: Any, weight: np.ndarray, index: np.ndarray, padding_idx: int | None
) -> list[Any]:
    dweight = kernels.embedding.embedding_backward(g, index, weight.shape[0])
    if padding_idx is not None:
        dweight[padding_idx] = 0
    return [dweight]


@fused(reference=embedding_reference, backward=_embedding_backward)
def embedding_(weight: np.ndarray, *, index: np.ndarray, padding_idx: int | None) -> tuple[np.ndarray, None]:
    return kernels.embedding.embedding(weight, index), None


def embedding(index: Tensor, weight: Tensor, padding_idx: int | None = None) -> Any:
    """Rows of weight (V, C) at integer ids of any shape: (*ids, C). The row padding_idx gets no gradient."""
    ids = index.array if isinstance(index, Tensor) else np.asarray(index)
    if category(ids.dtype) != 1:
        raise RuntimeError(f"embedding: ids must be integers, got {ids.dtype}")
    return embedding_(weight, index=ids, padding_idx=padding_idx)
