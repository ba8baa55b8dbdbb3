"""Inverses, determinants, ranks and systems of equations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tinygrad_tf.engine import make
from tinygrad_tf.methods._tools import check_all, named
from tinygrad_tf.ops import decompose, linalg, spectral, systems
from tinygrad_tf.tensor import Tensor


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


# fmt: off
__all__ = [
    "det", "inv", "lstsq", "matrix_rank", "pinv", "slogdet", "solve", "solve_triangular", "tensorinv",
    "tensorsolve",
]
# fmt: on

check_all(__all__, globals())
