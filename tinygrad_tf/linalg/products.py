"""Products, powers and parts of matrices."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from tinygrad_tf import compositions
from tinygrad_tf.engine import make
from tinygrad_tf.methods._tools import check_all
from tinygrad_tf.ops import linalg
from tinygrad_tf.tensor import Tensor


def matmul(input: Tensor, other: Tensor) -> Tensor:
    """Products of (stacks of) matrices; a vector is a row on the left, a column on the right."""
    return linalg.matmul(input, other)


def multi_dot(tensors: Sequence[Tensor]) -> Tensor:
    """The product of all matrices, from left to right; the first and the last may be vectors."""
    if len(tensors) < 2:
        raise RuntimeError(f"multi_dot: needs at least two tensors, got {len(tensors)}")
    for i, t in enumerate(tensors):
        if t.array.ndim != 2 and (t.array.ndim != 1 or 0 < i < len(tensors) - 1):
            raise RuntimeError(f"multi_dot: tensor {i} must be a matrix, got shape {t.array.shape}; see matmul")
    return functools.reduce(linalg.matmul, tensors)


def matrix_power(A: Tensor, n: int) -> Tensor:
    """The product of n times the same square matrix; negative n: of its inverse."""
    linalg.square_matrices("matrix_power", [A.array])
    return compositions.matrix_power(A, n)


def matrix_exp(A: Tensor) -> Tensor:
    """e^A of square matrices (..., N, N)."""
    return compositions.matrix_exp(A)


def vecdot(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    """The sums of products along dim."""
    return (x * y).sum(dim)


def cross(input: Tensor, other: Tensor, *, dim: int = -1) -> Tensor:
    """The cross product of vectors along `dim`."""
    if input.ndim != other.ndim:
        raise RuntimeError(f"cross: both need as many dimensions, got {tuple(input.shape)} and {tuple(other.shape)}")
    return compositions.cross(input, other, dim)


def diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """The diagonals of the matrices in two axes, as a view with that axis last."""
    return A.diagonal(offset, dim1, dim2)


def vander(x: Tensor, *, N: int | None = None) -> Tensor:
    """The powers x^0, x^1, ... x^(N - 1) of every element, along a new last axis; as many as x has, if N is None."""
    count = x.shape[-1:].numel() if N is None else N
    if count <= 1:
        raise RuntimeError(f"vander: N must be greater than 1, got {count}")
    return (x if x.array.ndim else x.reshape(1)).unsqueeze(-1) ** make(np.arange(count))


# fmt: off
__all__ = [
    "cross", "diagonal", "matmul", "matrix_exp", "matrix_power", "multi_dot", "vander", "vecdot",
]
# fmt: on

check_all(__all__, globals())
