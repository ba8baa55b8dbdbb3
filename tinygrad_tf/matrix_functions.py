"""Linear algebra under the names that stand in torch itself, most of them older than those of torch.linalg."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tinygrad_tf import linalg
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
    "pinverse",
    "qr",
    "svd",
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
