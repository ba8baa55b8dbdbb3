"""Linear algebra under PyTorch's names: norms, inverses, determinants, systems of equations, decompositions.

Everything here has gradients but matrix_rank, of float32 and float64, for stacks of matrices (..., M, N), too.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tinygrad_tf import compositions
from tinygrad_tf.dtypes import array_dtype
from tinygrad_tf.engine import cast, make
from tinygrad_tf.methods._tools import check_all, named
from tinygrad_tf.ops import decompose, linalg, matrix_norms, reduce, spectral, systems
from tinygrad_tf.ops.linalg import LinAlgError
from tinygrad_tf.tensor import Tensor

__all__ = [
    "LinAlgError",
    "cholesky",
    "cholesky_ex",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eigh",
    "eigvalsh",
    "inv",
    "lstsq",
    "lu",
    "lu_factor",
    "lu_solve",
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
    "solve_triangular",
    "svd",
    "svdvals",
    "tensorinv",
    "tensorsolve",
    "vander",
    "vecdot",
    "vector_norm",
]

Dim = int | tuple[int, ...] | list[int] | None

# --- norms ------------------------------------------------------------------------------------------------------------


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


# --- determinants, inverses, systems of equations ---------------------------------------------------------------------


def inv(A: Tensor) -> Tensor:
    """The inverse of square matrices; a singular one is a LinAlgError."""
    return linalg.inv(A)


def det(A: Tensor) -> Tensor:
    """The determinants of square matrices. Singular ones have a gradient, too: their cofactors.

    >>> from tinygrad_tf import tensor
    >>> A = tensor([[1.0, 2.0], [2.0, 4.0]], requires_grad=True)
    >>> det(A).backward()
    >>> A.grad
    tensor([[ 4., -2.],
            [-2.,  1.]])
    """
    return linalg.det(A)


@named("linalg_slogdet")
class SlogDet(NamedTuple):
    """What slogdet returns: the sign (-1, 0 or 1) of the determinant, and the logarithm of its size."""

    sign: Tensor
    logabsdet: Tensor


def slogdet(A: Tensor) -> SlogDet:
    """The sign of the determinant, and the logarithm of its size, which neither overflows nor underflows."""
    return SlogDet(*decompose.slogdet(A))


def solve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:
    """The X of A X = B, for a vector or a matrix B; left=False: of X A = B.

    >>> from tinygrad_tf import tensor
    >>> solve(tensor([[2.0, 0.0], [0.0, 4.0]]), tensor([1.0, 1.0]))
    tensor([0.5000, 0.2500])
    """
    return linalg.solve(A, B, left)


def solve_triangular(A: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Tensor:
    """The X of A X = B for triangular A, of which one half is read; unitriangular: with ones for its diagonal.

    >>> from tinygrad_tf import tensor
    >>> solve_triangular(tensor([[1.0, 2.0], [0.0, 4.0]]), tensor([[3.0], [4.0]]), upper=True)
    tensor([[1.],
            [1.]])
    """
    return systems.solve_triangular(A, B, upper, left, unitriangular)


@named("linalg_lstsq")
class LeastSquares(NamedTuple):
    """What lstsq returns; parts that the driver does not compute are empty."""

    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


def lstsq(A: Tensor, B: Tensor, rcond: float | None = None, *, driver: str | None = None) -> LeastSquares:
    """The X for which A X comes closest to B, the shortest of them: pinv(A) B.

    rcond: singular values up to rcond times the largest count as 0. driver: LAPACK's names, which tell what comes back
    besides the solution (as in PyTorch): "gelsy" (None) the rank, "gels" the residuals, and that A must have full rank,
    "gelsd" and "gelss" rank, residuals and singular values. Residuals, sums of squares, are there if A is taller than
    wide and of full rank.

    >>> from tinygrad_tf import tensor
    >>> lstsq(tensor([[1.0], [0.0]]), tensor([[2.0], [5.0]])).solution
    tensor([[2.]])
    """
    if driver not in (None, "gels", "gelsy", "gelsd", "gelss"):
        raise RuntimeError(f"lstsq: driver must be 'gels', 'gelsy', 'gelsd', 'gelss' or None, got {driver!r}")
    solution, residuals, rank, values = systems.lstsq(A, B, rcond, driver == "gels")
    nothing = residuals.new_zeros(0)
    if driver in (None, "gelsy") or A.shape[-2] <= A.shape[-1] or (rank < A.shape[-1]).any():
        residuals = nothing
    rank = make(np.zeros(0, np.int64)) if driver == "gels" else rank
    return LeastSquares(solution, residuals, rank, values if driver in ("gelsd", "gelss") else nothing)


def pinv(A: Tensor, *, atol: Any = None, rtol: Any = None, hermitian: bool = False) -> Tensor:
    """The pseudoinverse (Moore and Penrose) of matrices (..., M, N): (..., N, M).

    Singular values up to max(atol, rtol times the largest) count as 0; rtol is max(M, N) times the dtype's eps, or 0
    beside an atol. hermitian: A is symmetric. The gradient is that among matrices of the same rank.

    >>> from tinygrad_tf import tensor
    >>> pinv(tensor([[2.0, 0.0], [0.0, 0.0]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.0000]])
    """
    return spectral.pinv(A, atol, rtol, hermitian)


def matrix_rank(A: Tensor, tol: Any = None, *, atol: Any = None, rtol: Any = None, hermitian: bool = False) -> Tensor:
    """How many singular values count, by the tolerances of pinv; `tol` is PyTorch's older name for atol."""
    return spectral.matrix_rank(A, atol if tol is None else tol, 0.0 if tol is not None else rtol, hermitian)


def tensorinv(A: Tensor, ind: int = 2) -> Tensor:
    """The inverse of A as a map from its last axes to its first `ind` axes, which must have as many elements."""
    if not isinstance(ind, int) or ind <= 0:
        raise RuntimeError(f"tensorinv: ind must be an integer from 1 on, got {ind!r}")
    rows, columns = A.shape[:ind], A.shape[ind:]
    if math.prod(rows) != math.prod(columns):
        raise RuntimeError(f"tensorinv: the first {ind} axes must have as many elements as the rest, got {A.shape}")
    return inv(A.reshape(math.prod(rows), -1)).reshape(*columns, *rows)


def tensorsolve(A: Tensor, B: Tensor, dims: Sequence[int] | None = None) -> Tensor:
    """The X with tensordot(A, X, X.ndim) = B; dims: axes of A that are moved to its end first."""
    if dims is not None:
        A = A.movedim(tuple(dims), tuple(range(A.ndim - len(dims), A.ndim)))
    rest = A.shape[B.ndim :]
    if math.prod(rest) != B.numel() or A.numel() != B.numel() ** 2:
        raise RuntimeError(f"tensorsolve: A of shape {tuple(A.shape)} and B of shape {tuple(B.shape)} do not fit")
    return solve(A.reshape(B.numel(), -1), B.reshape(-1)).reshape(rest)


# --- products ---------------------------------------------------------------------------------------------------------


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


# --- decompositions ---------------------------------------------------------------------------------------------------


@named("linalg_qr")
class QR(NamedTuple):
    """What qr returns: orthogonal columns, and an upper triangle."""

    Q: Tensor
    R: Tensor


@named("linalg_eigh")
class Eigh(NamedTuple):
    """What eigh returns: ascending eigenvalues, and their eigenvectors as columns."""

    eigenvalues: Tensor
    eigenvectors: Tensor


@named("linalg_svd")
class SVD(NamedTuple):
    """What svd returns: A = U diag(S) Vh, the singular values descending."""

    U: Tensor
    S: Tensor
    Vh: Tensor


@named("linalg_lu")
class LU(NamedTuple):
    """What lu returns: A = P L U, with a permutation, ones on the diagonal of L, and an upper triangle."""

    P: Tensor
    L: Tensor
    U: Tensor


@named("linalg_lu_factor")
class LUFactor(NamedTuple):
    """What lu_factor returns: L below the diagonal of U, and with which row (from 1 on) each row was exchanged."""

    LU: Tensor
    pivots: Tensor


@named("linalg_cholesky_ex")
class CholeskyEx(NamedTuple):
    """What cholesky_ex returns: the factor, and 0 for each matrix that has one."""

    L: Tensor
    info: Tensor


def cholesky(A: Tensor, *, upper: bool = False) -> Tensor:
    """The lower triangular L with L L^T = A, for symmetric and positive definite A (upper: L^T).

    >>> from tinygrad_tf import tensor
    >>> cholesky(tensor([[4.0, 2.0], [2.0, 5.0]]))
    tensor([[2., 0.],
            [1., 2.]])
    """
    return decompose.cholesky(A.mT).mT if upper else decompose.cholesky(A)


def qr(A: Tensor, mode: str = "reduced") -> QR:
    """A = Q R of matrices (..., M, N), K = min(M, N): Q (..., M, K) and R (..., K, N).

    mode "complete": Q (..., M, M), of which tall matrices have no gradient; "r": R alone, and an empty Q. The gradient
    exists where the first K columns are independent.

    >>> from tinygrad_tf import tensor
    >>> q, r = qr(tensor([[3.0, 1.0], [4.0, 2.0]]))
    >>> (q @ r).round(decimals=4)
    tensor([[3., 1.],
            [4., 2.]])
    """
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(f"qr: mode must be 'reduced', 'complete' or 'r', got {mode!r}")
    q, r = decompose.qr(A, mode == "complete")
    return QR(A.new_zeros(0) if mode == "r" else q, r)


def svd(A: Tensor, full_matrices: bool = True, *, driver: str | None = None) -> SVD:
    """The singular value decomposition of matrices (..., M, N): U (..., M, M), S (..., K), Vh (..., N, N).

    K is min(M, N). Without full_matrices U is (..., M, K), and Vh (..., K, N); vectors beyond K have no gradient.

    Singular vectors are determined up to their sign alone where singular values differ, so that only functions which do
    not depend on it have gradients that mean something; where two values are equal, the vectors' gradients are NaN.

    >>> from tinygrad_tf import tensor
    >>> svd(tensor([[0.0, 2.0], [3.0, 0.0]])).S
    tensor([3., 2.])
    """
    _without_driver("svd", driver)
    return SVD(*spectral.svd(A, full_matrices))


def _without_driver(name: str, driver: str | None) -> None:
    if driver is not None:
        raise RuntimeError(f"{name}: driver chooses among CUDA's methods, and there is no CUDA here, got {driver!r}")


def svdvals(A: Tensor, *, driver: str | None = None) -> Tensor:
    """The singular values, descending: as those of svd, but with gradients where some are equal, too."""
    _without_driver("svdvals", driver)
    return spectral.svdvals(A)


def eigh(A: Tensor, UPLO: str = "L") -> Eigh:
    """Eigenvalues (..., N) and eigenvectors (..., N, N) of symmetric matrices, of which one triangle is read.

    The gradient is that of A as a symmetric matrix. Of eigenvectors it holds what is said of svd.

    >>> from tinygrad_tf import tensor
    >>> eigh(tensor([[2.0, 0.0], [0.0, 1.0]])).eigenvalues
    tensor([1., 2.])
    """
    return Eigh(*spectral.eigh(A, UPLO))


def eigvalsh(A: Tensor, UPLO: str = "L") -> Tensor:
    """The eigenvalues of symmetric matrices, ascending: as those of eigh."""
    return spectral.eigvalsh(A, UPLO)


def lu(A: Tensor, *, pivot: bool = True) -> LU:
    """A = P L U of matrices (..., M, N): rows are exchanged so that the largest entry of each column comes first.

    >>> from tinygrad_tf import tensor
    >>> lu(tensor([[1.0, 2.0], [2.0, 2.0]])).U
    tensor([[2., 2.],
            [0., 1.]])
    """
    _with_pivots("lu", pivot)
    pivots, lower, upper = systems.lu(A)
    return LU(systems.permutation(pivots, A), lower, upper)


def _with_pivots(name: str, pivot: bool) -> None:
    if not pivot:
        raise RuntimeError(f"{name}: pivot=False is for CUDA, and there is no CUDA here; leave it out")


def lu_factor(A: Tensor, *, pivot: bool = True) -> LUFactor:
    """lu in one matrix, as lu_solve takes it, which needs a U without zeros on its diagonal."""
    _with_pivots("lu_factor", pivot)
    found = LUFactor(*systems.lu_factor(A))
    if (np.diagonal(found.LU.array, axis1=-2, axis2=-1) == 0).any():
        raise LinAlgError(f"lu_factor: U has a zero on its diagonal, input of shape {tuple(A.shape)}; see lu")
    return found


def lu_solve(LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False) -> Tensor:
    """The X of A X = B for the A whose lu_factor is given; left=False: of X A = B; adjoint: with A^T for A.

    >>> from tinygrad_tf import tensor
    >>> lu_solve(*lu_factor(tensor([[2.0, 0.0], [0.0, 4.0]])), tensor([[1.0], [1.0]]))
    tensor([[0.5000],
            [0.2500]])
    """
    return systems.lu_solve(LU, pivots, B, left, adjoint)


def cholesky_ex(A: Tensor, *, upper: bool = False, check_errors: bool = False) -> CholeskyEx:
    """cholesky, and 0 for each matrix that has one; for others NaN, and the order of the first minor that is not > 0.

    >>> from tinygrad_tf import tensor
    >>> cholesky_ex(tensor([[1.0, 2.0], [2.0, 1.0]])).info
    tensor(2, dtype=torch.int32)
    """
    if check_errors:
        return CholeskyEx(cholesky(A, upper=upper), make(np.zeros(A.shape[:-2], np.int32)))
    info = decompose.failing_minors(A, upper)
    failed = make((info > 0)[..., None, None])
    identity = make(np.eye(A.shape[-1], dtype=A.array.dtype))
    factor = cholesky(identity.where(failed, A), upper=upper)
    return CholeskyEx(factor.masked_fill(failed, math.nan), make(info))


check_all(__all__, globals())
