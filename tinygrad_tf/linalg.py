"""Linear algebra under PyTorch's names: norms, inverse, determinant, systems of equations."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tinygrad_tf import compositions
from tinygrad_tf.dtypes import array_dtype
from tinygrad_tf.engine import cast
from tinygrad_tf.methods._tools import check_all
from tinygrad_tf.ops import decompose, linalg, reduce
from tinygrad_tf.tensor import Tensor

__all__ = [
    "cholesky",
    "cross",
    "det",
    "diagonal",
    "eigh",
    "eigvalsh",
    "inv",
    "matmul",
    "matrix_exp",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "multi_dot",
    "norm",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "vecdot",
    "vector_norm",
]

_NUMPY: Any = np.linalg  # its stubs are stricter than it is
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


def slogdet(A: Tensor) -> tuple[Tensor, Tensor]:
    """The sign of the determinant, and the logarithm of its size."""
    return decompose.slogdet(A)


def matrix_norm(
    A: Tensor, ord: float | str = "fro", dim: Sequence[int] = (-2, -1), keepdim: bool = False, *, dtype: Any = None
) -> Tensor:
    """The Frobenius norm of matrices, no other."""
    return norm(A, ord, tuple(dim), keepdim, dtype=dtype)


def matmul(input: Tensor, other: Tensor) -> Tensor:
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
    return compositions.matrix_power(A, n)


def matrix_exp(A: Tensor) -> Tensor:
    """e^A of square matrices (..., N, N)."""
    return compositions.matrix_exp(A)


def vecdot(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    """The sums of products along dim."""
    return (x * y).sum(dim)


def cross(input: Tensor, other: Tensor, *, dim: int = -1) -> Tensor:
    """The cross product of vectors along `dim`."""
    return compositions.cross(input, other, dim)


def diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    return A.diagonal(offset, dim1, dim2)


# --- decompositions ---------------------------------------------------------------------------------------------------


class QR(NamedTuple):
    """What qr returns: orthogonal columns, and an upper triangle."""

    Q: Tensor
    R: Tensor


class Eigh(NamedTuple):
    """What eigh returns: ascending eigenvalues, and their eigenvectors as columns."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class SVD(NamedTuple):
    """What svd returns: A = U diag(S) Vh, the singular values descending."""

    U: Tensor
    S: Tensor
    Vh: Tensor


def cholesky(A: Tensor, *, upper: bool = False) -> Tensor:
    """The lower triangular L with L L^T = A, for symmetric and positive definite A (upper: L^T)."""
    lower = decompose.cholesky(A)
    return lower.mT if upper else lower


def qr(A: Tensor, mode: str = "reduced") -> QR:
    """A = Q R; mode "complete": with square Q. No gradient."""
    if mode not in ("reduced", "complete"):
        raise RuntimeError(f"qr: mode must be 'reduced' or 'complete', got {mode!r}")
    return QR(*decompose.without_gradient("qr", lambda a: tuple(_NUMPY.qr(a, mode)), A))


def svd(A: Tensor, full_matrices: bool = True) -> SVD:
    """The singular value decomposition. No gradient."""
    return SVD(*decompose.without_gradient("svd", lambda a: tuple(_NUMPY.svd(a, full_matrices)), A))


def svdvals(A: Tensor) -> Tensor:
    """The singular values, descending. No gradient."""
    return decompose.without_gradient("svdvals", lambda a: _NUMPY.svd(a, compute_uv=False), A)


def eigh(A: Tensor, UPLO: str = "L") -> Eigh:
    """Eigenvalues and eigenvectors of symmetric matrices, of which one triangle is read. No gradient."""
    return Eigh(*decompose.without_gradient("eigh", lambda a: tuple(_NUMPY.eigh(a, UPLO)), A))


def eigvalsh(A: Tensor, UPLO: str = "L") -> Tensor:
    """The eigenvalues of symmetric matrices, ascending. No gradient."""
    return decompose.without_gradient("eigvalsh", lambda a: _NUMPY.eigvalsh(a, UPLO), A)


def pinv(A: Tensor) -> Tensor:
    """The pseudoinverse (Moore and Penrose). No gradient."""
    return decompose.without_gradient("pinv", _NUMPY.pinv, A)


def matrix_rank(A: Tensor) -> Tensor:
    """How many singular values are not 0, but for rounding."""
    return decompose.without_gradient("matrix_rank", _NUMPY.matrix_rank, A.detach())


check_all(__all__, globals())
