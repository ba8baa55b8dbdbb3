"""Matrices as products of others: triangles, orthogonal columns, eigenvectors."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tinygrad_tf.engine import make
from tinygrad_tf.methods._tools import check_all, named
from tinygrad_tf.ops import decompose, spectral, systems
from tinygrad_tf.ops.linalg import LinAlgError
from tinygrad_tf.tensor import Tensor


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


# fmt: off
__all__ = [
    "cholesky", "cholesky_ex", "eigh", "eigvalsh", "lu", "lu_factor", "lu_solve", "qr", "svd", "svdvals",
]
# fmt: on

check_all(__all__, globals())
