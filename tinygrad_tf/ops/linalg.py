"""Matrix products."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinygrad_tf import kernels
from tinygrad_tf.engine import Tensor, mode, primitive
from tinygrad_tf.ops._types import promoted
from tinygrad_tf.ops.shape import permute, reshape


def _swap(x: Any) -> Any:
    """The transpose of the last two axes."""
    n = x.ndim
    return permute(x, dims=(*range(n - 2), n - 1, n - 2))


def _check(name: str, arrays: list[Any]) -> list[Any]:
    a, b = arrays
    if a.shape[-1] != b.shape[-2]:
        raise RuntimeError(
            f"matmul: inner sizes must agree, got {a.shape} @ {b.shape}: {a.shape[-1]} against {b.shape[-2]}"
        )
    if a.dtype != b.dtype:
        raise RuntimeError(f"matmul: both must have the same dtype, got {a.dtype} and {b.dtype}; cast one with .to()")
    return arrays


@primitive(prepare=_check, a=lambda g, b: matmul_(g, _swap(b)), b=lambda g, a: matmul_(_swap(a), g))
def matmul_(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The product of (stacks of) matrices, at least two dimensions each."""
    if a.dtype.kind != "f" or a.dtype.itemsize < 4 or mode.reference:
        return np.matmul(a, b)
    return kernels.matmul.matmul(a, b)


def matmul(a: Tensor, b: Tensor) -> Any:
    """PyTorch's matmul: vectors are taken as a row on the left, as a column on the right."""
    if not isinstance(b, Tensor) or not isinstance(a, Tensor):
        raise TypeError(f"matmul: both operands must be tensors, got {type(a).__name__} and {type(b).__name__}")
    m, n = a.array.ndim, b.array.ndim
    if m == 0 or n == 0:
        raise RuntimeError(f"matmul: both operands need at least one dimension, got {a.array.shape} @ {b.array.shape}")
    if m == 1:
        a = reshape(a, shape=(1, *a.array.shape))
    if n == 1:
        b = reshape(b, shape=(*b.array.shape, 1))
    out = matmul_(a, b)
    shape = out.array.shape
    if m == 1 or n == 1:
        out = reshape(out, shape=shape[:-2] + (() if m == 1 else shape[-2:-1]) + (() if n == 1 else shape[-1:]))
    return out
