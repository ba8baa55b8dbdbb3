"""Linear algebra under PyTorch's names: norms, inverse, determinant, systems of equations."""

from __future__ import annotations

from typing import Any

from tinygrad_tf.dtypes import array_dtype
from tinygrad_tf.engine import cast
from tinygrad_tf.ops import linalg, reduce
from tinygrad_tf.tensor import Tensor

Dim = int | tuple[int, ...] | list[int] | None


def vector_norm(x: Tensor, ord: float = 2, dim: Dim = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """(sum |x|^ord)^(1/ord) of all elements, or along dim."""
    return reduce.norm(x if dtype is None else cast(x, dtype=array_dtype(dtype)), ord, dim, keepdim)


def norm(
    A: Tensor, ord: float | str | None = None, dim: Dim = None, keepdim: bool = False, *, dtype: Any = None
) -> Tensor:
    """The norm of vectors; of matrices the Frobenius norm (ord None or 'fro'), no other."""
    matrices = (isinstance(dim, (tuple, list)) and len(dim) == 2) or (dim is None and A.array.ndim == 2)
    if matrices and ord not in (None, "fro"):
        raise RuntimeError(f"norm: of the norms of a matrix there is only 'fro', got ord={ord!r}; see vector_norm")
    return reduce.norm(A if dtype is None else cast(A, dtype=array_dtype(dtype)), ord, dim, keepdim)


def inv(A: Tensor) -> Tensor:
    """The inverse of square matrices; a singular one is an error."""
    return linalg.inv(A)


def det(A: Tensor) -> Tensor:
    return linalg.det(A)


def solve(A: Tensor, B: Tensor) -> Tensor:
    """The X of A X = B, for a vector or a matrix B."""
    return linalg.solve(A, B)
