"""Norms of vectors and matrices, and how much a system of equations magnifies errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tinygrad_tf.dtypes import array_dtype
from tinygrad_tf.engine import cast
from tinygrad_tf.methods._tools import check_all
from tinygrad_tf.ops import matrix_norms, reduce
from tinygrad_tf.tensor import Tensor

Dim = int | tuple[int, ...] | list[int] | None


def vector_norm(x: Tensor, ord: float = 2, dim: Dim = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """(sum |x|^ord)^(1/ord) of all elements, or along dim."""
    if isinstance(ord, str):
        raise RuntimeError(f"vector_norm: ord must be a number, got {ord!r}; see matrix_norm")
    axes = range(x.ndim) if dim is None else (dim,) if isinstance(dim, int) else dim
    if ord < 0 and x.ndim and any(x.shape[d] == 0 for d in axes):
        raise RuntimeError(f"vector_norm: there is no norm {ord} of no elements, shape {tuple(x.shape)}")
    return reduce.norm(x if dtype is None else cast(x, dtype=array_dtype(dtype)), ord, dim, keepdim)


def matrix_norm(
    A: Tensor, ord: float | str = "fro", dim: Sequence[int] = (-2, -1), keepdim: bool = False, *, dtype: Any = None
) -> Tensor:
    """The norm of the matrices in two axes: 'fro', 'nuc', 1, -1, 2, -2, inf or -inf.

    'fro' is that of all entries; 'nuc' the sum of the singular values, 2 and -2 the largest and smallest of them; 1 and
    -1 the largest and smallest sum of |A| down a column, inf and -inf along a row.

    >>> from tinygrad_tf import tensor
    >>> matrix_norm(tensor([[3.0, 0.0], [0.0, -4.0]]), "nuc")
    tensor(7.)
    """
    return matrix_norms.matrix_norm(A if dtype is None else cast(A, dtype=array_dtype(dtype)), ord, dim, keepdim)


def norm(
    A: Tensor, ord: float | str | None = None, dim: Dim = None, keepdim: bool = False, *, dtype: Any = None
) -> Tensor:
    """matrix_norm of a matrix or of the two axes in `dim`, if ord is given; vector_norm otherwise.

    >>> from tinygrad_tf import tensor
    >>> A = tensor([[3.0, 0.0], [4.0, 0.0]])
    >>> norm(A), norm(A, 1), norm(A, 1, dim=0)
    (tensor(5.), tensor(7.), tensor([7., 0.]))
    """
    if ord is None:
        return vector_norm(A, 2, dim, keepdim, dtype=dtype)
    if dim is None and A.array.ndim not in (1, 2):
        raise RuntimeError(f"norm: ord={ord!r} without dim is for vectors and matrices, got shape {tuple(A.shape)}")
    axes = (tuple(range(A.array.ndim)) if dim is None else (dim,)) if not isinstance(dim, (tuple, list)) else dim
    if isinstance(ord, str) or len(axes) == 2:
        return matrix_norm(A, ord, axes, keepdim, dtype=dtype)
    return vector_norm(A, ord, dim, keepdim, dtype=dtype)


def cond(A: Tensor, p: float | str | None = None) -> Tensor:
    """How much solving with A magnifies errors at most: |A| |A^-1| by a norm of matrix_norm; inf if A is singular.

    >>> from tinygrad_tf import tensor
    >>> cond(tensor([[1.0, 0.0], [0.0, 0.25]]))
    tensor(4.)
    """
    return matrix_norms.cond(A, p)


# fmt: off
__all__ = [
    "cond", "matrix_norm", "norm", "vector_norm",
]
# fmt: on

check_all(__all__, globals())
