"""Systems of equations: triangular ones, others by way of L U, and those that have no answer but a closest one."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from tinygrad_tf.engine import Tensor, alias, computed, make, primitive
from tinygrad_tf.ops.elementwise import where
from tinygrad_tf.ops.index import take_along_dim
from tinygrad_tf.ops.linalg import LinAlgError, _solvable, _swap, full_precision, matmul_, matrices
from tinygrad_tf.ops.shape import broadcast_shapes, cat, unsqueeze
from tinygrad_tf.ops.spectral import pinv_, singular_sizes, tolerance


def triangle(x: Any, diagonal: int = 0, lower: bool = True) -> Any:
    """The lower triangle of arrays or Tensors, or the upper one: its entries alone, whatever the others are."""
    m, n = x.shape[-2:]
    return where(np.tri(m, n, diagonal if lower else diagonal - 1, dtype=bool) == lower, x, 0.0)


def _triangular_rule(g: Any, a: Any, result: Any, upper: bool, unit: bool) -> Any:
    sides = solve_triangular_(_swap(a), g, upper=not upper, unit=unit)
    return -triangle(matmul_(sides, _swap(result)), (1 if upper else -1) * int(unit), lower=not upper)


@primitive(
    prepare=_solvable,
    a=_triangular_rule,
    b=lambda g, a, upper, unit: solve_triangular_(_swap(a), g, upper=not upper, unit=unit),
)
def solve_triangular_(a: np.ndarray, b: np.ndarray, *, upper: bool, unit: bool) -> np.ndarray:
    """The x of a @ x = b, a row after the other; a 0 on the diagonal gives infinity. unit: the diagonal counts as 1."""
    n = a.shape[-1]
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    x = np.array(np.broadcast_to(b, (*lead, *b.shape[-2:])), order="C")
    for i in reversed(range(n)) if upper else range(n):
        known = slice(i + 1, n) if upper else slice(0, i)
        x[..., i, :] -= (a[..., i, None, known] @ x[..., known, :])[..., 0, :]
        if not unit:
            x[..., i, :] /= a[..., i, i, None]
    return x


def solve_triangular(a: Tensor, b: Tensor, upper: bool, left: bool = True, unit: bool = False) -> Any:
    """The x of a @ x = b, of a triangular a; left=False: of x @ a = b."""
    if not left:
        return _swap(solve_triangular(_swap(a), _swap(b), not upper, True, unit))
    return solve_triangular_(a, b, upper=upper, unit=unit)


# --- L U --------------------------------------------------------------------------------------------------------------


class Factors(NamedTuple):
    """What was found once, for both operations that hand it out (see spectral.py)."""

    first: np.ndarray
    second: np.ndarray


def _eliminated(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """L below the diagonal of U (..., M, N), and with which row each of the first K was exchanged (..., K).

    A column after the other, for all matrices at once; its largest entry goes up. A column of zeros stays.
    """
    m, n = x.shape[-2:]
    flat = x.reshape(math.prod(x.shape[:-2]), m, n).copy()
    every, pivots = np.arange(len(flat)), np.zeros((len(flat), min(m, n)), np.int32)
    for i in range(min(m, n)):
        best = pivots[:, i] = i + np.abs(flat[:, i:, i]).argmax(1)
        flat[every, i], flat[every, best] = flat[every, best], flat[every, i]
        below, pivot = flat[:, i + 1 :, i], flat[:, i, i, None]
        below /= np.where(pivot == 0, 1, pivot)
        flat[:, i + 1 :, i + 1 :] -= below[:, :, None] * flat[:, i, None, i + 1 :]
    return flat.reshape(x.shape), pivots.reshape(*x.shape[:-2], min(m, n))


def _order(pivots: np.ndarray, count: int) -> np.ndarray:
    """The numbers (..., M) of the rows, after they were exchanged one after the other."""
    flat = pivots.reshape(math.prod(pivots.shape[:-1]), pivots.shape[-1])
    order, every = np.tile(np.arange(count), (len(flat), 1)), np.arange(len(flat))
    for i, other in enumerate(flat.T):
        order[every, i], order[every, other] = order[every, other], order[every, i]
    return order.reshape(*pivots.shape[:-1], count)


def _outwards(inner: Any, lower: Any, upper: Any) -> Any:
    """L^-T inner U^-T."""
    left = solve_triangular_(_swap(lower), inner, upper=True, unit=True)
    return _swap(solve_triangular_(upper, _swap(left), upper=True, unit=False))


def _lower_rule(g: Any, x: Any, found: Factors) -> Any:
    """L^-T P U^-T with P what is below the diagonal of L^T g: so it is since L^-1 dx U^-1 = L^-1 dL + dU U^-1."""
    lower, upper = _lower(x, found=found), _upper(x, found=found)
    return _outwards(triangle(matmul_(_swap(lower), g), -1), lower, upper)


def _upper_rule(g: Any, x: Any, found: Factors) -> Any:
    """L^-T P U^-T with P the upper triangle of g U^T."""
    lower, upper = _lower(x, found=found), _upper(x, found=found)
    return _outwards(triangle(matmul_(g, _swap(upper)), lower=False), lower, upper)


@primitive(x=_lower_rule)
def _lower(x: np.ndarray, *, found: Factors) -> np.ndarray:
    return found.first.copy()


@primitive(x=_upper_rule)
def _upper(x: np.ndarray, *, found: Factors) -> np.ndarray:
    return found.second.copy()


def lu(x: Tensor) -> tuple[np.ndarray, Any, Any]:
    """Pivots, L and U: rows of x, exchanged, are L U. What lies beside the square of both follows from it."""
    full_precision("lu", matrices("lu", [x.array]))
    factors, pivots = computed(_eliminated, [x.array], {})
    m, n = x.array.shape[-2:]
    k = min(m, n)
    x = _rows(x, _order(pivots, m))
    square = factors[..., :k, :k]
    found = Factors(np.tril(square, -1) + np.eye(k, dtype=square.dtype), np.triu(square))
    corner: Any = alias(x)[..., :k, :k]
    lower, upper = _lower(corner, found=found), _upper(corner, found=found)
    if m > n:
        if (np.diagonal(found.second, axis1=-2, axis2=-1) == 0).any():  # singular: what elimination left there
            below: Any = make(factors[..., k:, :])
        else:
            below = solve_triangular(upper, x[..., k:, :], upper=True, left=False)  # type: ignore[index]
        return pivots, cat([lower, below], -2), upper
    if n > m:
        beside = solve_triangular_(lower, x[..., k:], upper=False, unit=True)  # type: ignore[index]
        return pivots, lower, cat([upper, beside], -1)
    return pivots, lower, upper


def permutation(pivots: np.ndarray, like: Tensor) -> Any:
    """The matrices P (..., M, M) with x = P L U."""
    count = like.array.shape[-2]
    return make(np.swapaxes(np.eye(count, dtype=like.array.dtype)[_order(pivots, count)], -1, -2).copy())


def lu_factor(x: Tensor) -> tuple[Any, Any]:
    """L below the diagonal of U, and with which row, counted from 1, each row was exchanged."""
    pivots, lower, upper = lu(x)
    m, n = x.array.shape[-2:]
    if m > n:
        return cat([triangle(lower[..., :n, :], -1) + upper, lower[..., n:, :]], -2), make(pivots + 1)
    below = triangle(lower, -1)
    return (cat([below + upper[..., :m], upper[..., m:]], -1) if n > m else below + upper), make(pivots + 1)


def lu_solve(factors: Tensor, pivots: Tensor, b: Tensor, left: bool, adjoint: bool) -> Any:
    """The x of a @ x = b for the a whose lu_factor is given; left=False: x @ a = b; adjoint: a^T for a."""
    if not left:
        return _swap(lu_solve(factors, pivots, _swap(b), True, not adjoint))
    _solvable("lu_solve", [factors.array, b.array])
    order = _order(pivots.array - 1, factors.array.shape[-1])
    if not adjoint:
        b = _rows(b, order)
        half = solve_triangular_(factors, b, upper=False, unit=True)
        return solve_triangular_(factors, half, upper=True, unit=False)
    half = solve_triangular_(_swap(factors), b, upper=False, unit=False)
    found = solve_triangular_(_swap(factors), half, upper=True, unit=True)
    return _rows(found, order.argsort(-1))


def _rows(x: Any, order: np.ndarray) -> Any:
    """The rows of matrices (..., M, N) in another order (..., M)."""
    ndim = max(x.array.ndim, order.ndim + 1)
    places = order.reshape((1,) * (ndim - order.ndim - 1) + (*order.shape, 1))
    wide = x if x.array.ndim == ndim else x.reshape((1,) * (ndim - x.array.ndim) + x.array.shape)
    return take_along_dim(wide, make(places), -2)


# --- least squares and Cholesky ---------------------------------------------------------------------------------------


def cholesky_solve(b: Tensor, factor: Tensor, upper: bool) -> Any:
    """The x of a @ x = b for a = L L^T, or U^T U if upper."""
    lower = _swap(factor) if upper else factor
    return solve_triangular_(_swap(lower), solve_triangular_(lower, b, upper=False, unit=False), upper=True, unit=False)


def lstsq(a: Tensor, b: Tensor, rcond: float | None, full_rank: bool) -> tuple[Any, Any, Any, Any]:
    """The shortest x for which |a x - b| is least, the squares of these lengths, the ranks and the singular values."""
    full_precision("lstsq", [a.array, b.array])
    own, right = a.array.shape, b.array.shape
    if len(own) < 2 or len(own) - len(right) not in (0, 1) or right[len(own) - 2] != own[-2]:
        raise RuntimeError(f"lstsq: matrices of shape {own} and right sides of shape {right} do not fit")
    broadcast_shapes("lstsq: the batch axes of both", own[:-2], right[: len(own) - 2])
    sizes = computed(singular_sizes, ["lstsq", a.array, False], {})
    least = tolerance("lstsq", a.array, sizes.max(-1, keepdims=True, initial=0.0), None, rcond)
    rank = (sizes > least).sum(-1)
    if full_rank and (rank < min(a.array.shape[-2:])).any():
        raise LinAlgError(f"lstsq: driver 'gels' wants matrices of full rank, got rank {rank.min()}; see 'gelsy'")
    sides = unsqueeze(b, -1) if len(right) < len(own) else b
    found = matmul_(pinv_(a, atol=None, rtol=rcond, hermitian=False), sides)
    rest = matmul_(a, found) - sides
    squares = (rest * rest).sum(-2)
    return (found[..., 0] if len(right) < len(own) else found), squares, make(np.asarray(rank)), make(sizes)
