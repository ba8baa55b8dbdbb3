"""Linear algebra under the names that stand in torch itself, most of them older than those of torch.linalg."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tinygrad_tf import linalg
from tinygrad_tf.creation import randn
from tinygrad_tf.engine import make
from tinygrad_tf.methods._tools import check_all, named
from tinygrad_tf.methods.composed import as_methods
from tinygrad_tf.ops import linalg as linalg_ops
from tinygrad_tf.ops import systems
from tinygrad_tf.tensor import Tensor

__all__ = [
    "addmv",
    "addr",
    "cholesky",
    "cholesky_inverse",
    "cholesky_solve",
    "lu_solve",
    "lu_unpack",
    "pca_lowrank",
    "pinverse",
    "qr",
    "svd",
    "svd_lowrank",
    "triangular_solve",
    "vander",
]


@named("svd")
class _SVD(NamedTuple):
    """What torch.svd returns: input = U diag(S) V^T. torch.linalg.svd returns V^T."""

    U: Tensor
    S: Tensor
    V: Tensor


@named("qr")
class _QR(NamedTuple):
    """Orthogonal columns, and an upper triangle."""

    Q: Tensor
    R: Tensor


@named("triangular_solve")
class _Triangular(NamedTuple):
    solution: Tensor
    cloned_coefficient: Tensor


def svd_lowrank(A: Tensor, q: int | None = 6, niter: int | None = 2, M: Tensor | None = None) -> _SVD:
    """The first q singular values and vectors of A - M, (..., m, n), nearly: those of A within the space that random
    vectors end up in when A and its transpose are applied to them niter times (Halko et al., 2009, algorithm 5.1).

    >>> from tinygrad_tf import ones
    >>> svd_lowrank(ones(3, 4), q=1).S
    tensor([3.4641])
    """
    if not isinstance(A, Tensor) or A.ndim < 2:
        raise RuntimeError(f"svd_lowrank: A must be a tensor (..., m, n), got {getattr(A, 'shape', type(A).__name__)}")
    size, (m, n) = 6 if q is None else q, A.shape[-2:]
    if not 0 <= size <= min(m, n):
        raise ValueError(f"svd_lowrank: q must be from 0 to {min(m, n)}, the smaller side of A, got {size}")
    if M is not None:
        A = A - M
    tall = A if m >= n else A.mT
    basis = _space(tall, size, 2 if niter is None else niter)
    left, values, right = linalg.svd(basis.mT @ tall, full_matrices=False)
    sides = basis @ left, right.mT
    return _SVD(sides[0], values, sides[1]) if m >= n else _SVD(sides[1], values, sides[0])


def _space(A: Tensor, size: int, niter: int) -> Tensor:
    """Orthogonal columns that span nearly the space of A's largest singular vectors."""
    basis = linalg.qr(A @ randn(A.shape[-1], size, dtype=A.dtype)).Q
    for _ in range(niter):
        basis = linalg.qr(A @ linalg.qr(A.mT @ basis).Q).Q
    return basis


def pca_lowrank(A: Tensor, q: int | None = None, center: bool = True, niter: int = 2) -> _SVD:
    """The first q (6) principal components of rows A (..., m, n): the columns of V; S / sqrt(m - 1) are their standard
    deviations.

    >>> from tinygrad_tf import tensor
    >>> pca_lowrank(tensor([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]), q=1).S
    tensor([2.])
    """
    if not isinstance(A, Tensor) or A.ndim < 2:
        raise RuntimeError(f"pca_lowrank: A must be a tensor (..., m, n), got {getattr(A, 'shape', type(A).__name__)}")
    size, most = min(6, *A.shape[-2:]) if q is None else q, min(A.shape[-2:])
    if not 0 <= size <= most:
        raise ValueError(f"pca_lowrank: q must be from 0 to {most}, the smaller side of A, got {size}")
    return svd_lowrank(A - A.mean(-2, keepdim=True) if center else A, size, niter)


def svd(input: Tensor, some: bool = True, compute_uv: bool = True) -> _SVD:
    """As linalg.svd, but V instead of its transpose; some=False: U and V are square; without compute_uv: zeros."""
    if compute_uv:
        left, values, right = linalg.svd(input, full_matrices=not some)
        return _SVD(left, values, right.mT)
    *batch, m, n = input.shape
    return _SVD(input.new_zeros(*batch, m, m), linalg.svdvals(input), input.new_zeros(*batch, n, n))


def qr(input: Tensor, some: bool = True) -> _QR:
    """As linalg.qr; some=False is its mode "complete"."""
    return _QR(*linalg.qr(input, "reduced" if some else "complete"))


def cholesky(input: Tensor, upper: bool = False) -> Tensor:
    """As linalg.cholesky."""
    return linalg.cholesky(input, upper=upper)


def pinverse(input: Tensor, rcond: float = 1e-15) -> Tensor:
    """As linalg.pinv, with another tolerance."""
    return linalg.pinv(input, rtol=rcond)


def cholesky_solve(B: Tensor, L: Tensor, upper: bool = False) -> Tensor:
    """The X of A X = B for the A whose Cholesky factor is given: A = L L^T, or U^T U if upper.

    >>> from tinygrad_tf import tensor
    >>> cholesky_solve(tensor([[4.0], [9.0]]), tensor([[2.0, 0.0], [0.0, 3.0]]))
    tensor([[1.],
            [1.]])
    """
    return systems.cholesky_solve(B, L, upper)


def cholesky_inverse(L: Tensor, upper: bool = False) -> Tensor:
    """The inverse of the matrix whose Cholesky factor is given."""
    return systems.cholesky_solve(make(np.eye(L.shape[-1], dtype=L.array.dtype)), L, upper)


def triangular_solve(
    b: Tensor, A: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> _Triangular:
    """As linalg.solve_triangular, which PyTorch advises to use: the X of A X = b, or of A^T X = b, and A."""
    if transpose:
        found = systems.solve_triangular(A.mT, b, not upper, True, unitriangular)
    else:
        found = systems.solve_triangular(A, b, upper, True, unitriangular)
    return _Triangular(found, A.clone())


def lu_solve(b: Tensor, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:
    """As linalg.lu_solve, with the right sides first."""
    return linalg.lu_solve(LU_data, LU_pivots, b)


def lu_unpack(LU_data: Tensor, LU_pivots: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """P, L and U with A = P L U, of what linalg.lu_factor gives, or x.lu().

    >>> from tinygrad_tf import tensor
    >>> P, L, U = lu_unpack(*tensor([[1.0, 2.0], [2.0, 2.0]]).lu())
    >>> P @ L @ U
    tensor([[1., 2.],
            [2., 2.]])
    """
    m, n = LU_data.shape[-2:]
    ones = make(np.eye(m, min(m, n), dtype=LU_data.array.dtype))
    lower = LU_data[..., : min(m, n)].tril(-1) + ones
    return systems.permutation(LU_pivots.array - 1, LU_data), lower, LU_data[..., : min(m, n), :].triu()


def _lu(self: Tensor, pivot: bool = True) -> tuple[Tensor, Tensor]:
    """As linalg.lu_factor, whose matrix may be singular here."""
    if not pivot:
        raise RuntimeError("lu: pivot=False is for CUDA, and there is no CUDA here; leave it out")
    return systems.lu_factor(self)


def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """The powers of every element of a vector, the highest first (as in NumPy) unless they are to be increasing."""
    if x.ndim != 1:
        raise RuntimeError(f"vander: x must be a vector, got shape {tuple(x.shape)}; see linalg.vander")
    count = x.shape[0] if N is None else N
    powers = np.arange(count) if increasing else np.arange(count)[::-1].copy()
    return x.unsqueeze(-1) ** make(powers)


def addmv(input: Tensor, mat: Tensor, vec: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta input + alpha mat @ vec."""
    return linalg_ops.weighted_sum("addmv", input, mat.mv(vec), beta, alpha)


def addr(input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta input + alpha times the products of all elements of vec1 with all of vec2."""
    return linalg_ops.weighted_sum("addr", input, vec1.outer(vec2), beta, alpha)


check_all(__all__, globals())
as_methods(
    Tensor,
    "addmv addr cholesky cholesky_inverse cholesky_solve lu lu_solve pinverse qr svd triangular_solve",
    {**globals(), "lu": _lu},
)
