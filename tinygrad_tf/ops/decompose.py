"""Square matrices: determinants whose logarithm is asked for; factors of matrices by Cholesky and as Q R."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinygrad_tf.engine import Tensor, alias, computed, make, primitive
from tinygrad_tf.ops.elementwise import where
from tinygrad_tf.ops.linalg import (
    LinAlgError,
    _cofactors,
    _swap,
    decomposed,
    full_precision,
    inv,
    known,
    matmul_,
    matrices,
    square_matrices,
)
from tinygrad_tf.ops.shape import cat
from tinygrad_tf.ops.systems import Factors, solve_triangular_, triangle


def _log_size_rule(g: Any, x: Any, result: Any) -> Any:
    """x^-T; where the determinant is 0, the cofactors over 0: its logarithm is infinitely steep."""
    singular = np.isneginf(result.array if isinstance(result, Tensor) else result)[..., None, None]
    if not singular.any():
        return _swap(inv(x)) * g[..., None, None]
    regular = inv(where(singular, np.eye(x.shape[-1], dtype=x.dtype.name), x))
    return where(singular, _cofactors(x) / 0.0, _swap(regular)) * g[..., None, None]


@primitive(x=_log_size_rule)
def _log_size_of_det(x: np.ndarray) -> np.ndarray:
    return known("slogdet", lambda a: np.linalg.slogdet(a).logabsdet, x)


def slogdet(x: Tensor) -> tuple[Any, Any]:
    """The sign of the determinant, and the logarithm of its size."""
    square_matrices("slogdet", [x.array])
    return make(np.asarray(computed(np.linalg.slogdet, [x.array], {}).sign)), _log_size_of_det(x)


def logdet(x: Tensor) -> Any:
    square_matrices("logdet", [x.array])
    sign, size = slogdet(x)
    return size + make(np.where(sign.array < 0, math.nan, 0.0).astype(x.array.dtype))


# --- symmetric and positive definite ----------------------------------------------------------------------------------


def _lower_half(x: Any) -> Any:
    """The lower triangle, with half of the diagonal."""
    return (triangle(x) + triangle(x, -1)) * 0.5


def _cholesky_rule(g: Any, result: Any) -> Any:
    """With L the result, P the lower half of L^T g: L^-T (P + P^T) L^-1 / 2 (Murray, 2016)."""
    part = _lower_half(matmul_(_swap(result), triangle(g)))
    inverse = inv(result)
    return matmul_(matmul_(_swap(inverse), (part + _swap(part)) * 0.5), inverse)


@primitive(prepare=square_matrices, x=_cholesky_rule)
def cholesky(x: np.ndarray) -> np.ndarray:
    """The lower triangular L with L L^T = x, for symmetric and positive definite x, of which the lower half is read."""
    factor = decomposed("cholesky", np.linalg.cholesky, x)
    if np.isnan(factor).any():
        raise LinAlgError(f"cholesky: Matrix is not positive definite: NaN among the entries; input of shape {x.shape}")
    return factor


def _is_positive_definite(x: np.ndarray) -> bool:
    try:
        np.linalg.cholesky(x)
    except np.linalg.LinAlgError:
        return False
    return True


def failing_minors(x: Tensor, upper: bool) -> np.ndarray:
    """For each matrix 0 if it is positive definite, or the size of the first square in its corner that is not."""
    square_matrices("cholesky_ex", [x.array])
    array = _swap(x.array) if upper else x.array
    found = np.zeros(array.shape[:-2], np.int32)
    for place in np.ndindex(found.shape):
        a = array[place]
        if not _is_positive_definite(a):
            found[place] = next(k for k in range(1, len(a) + 1) if not _is_positive_definite(a[:k, :k]))
    return found


# --- Q R --------------------------------------------------------------------------------------------------------------


def _mirrored(x: Any) -> Any:
    """The symmetric matrix whose lower triangle is that of x."""
    return triangle(x) + _swap(triangle(x, -1))


def _over_right(x: Any, right: Any) -> Any:
    """x right^-T, for an upper triangular matrix on the right."""
    return _swap(solve_triangular_(right, _swap(x), upper=True, unit=False))


def _parts(x: Any, found: Factors) -> tuple[Any, Any]:
    """Q and R as operations on x, which their rules ask for."""
    q = _q(x, found=found)
    if q.shape[-1] > x.shape[-1]:
        raise RuntimeError("qr: with mode='complete' tall matrices have no gradient; use mode='reduced'")
    return q, _r(x, found=found)


def _q_rule(g: Any, x: Any, found: Factors) -> Any:
    """(g - Q sym(g^T Q)) R^-T, where sym copies the lower triangle to the upper one (Seeger et al., 2017)."""
    q, r = _parts(x, found)
    return _over_right(g - matmul_(q, _mirrored(matmul_(_swap(g), q))), r)


def _r_rule(g: Any, x: Any, found: Factors) -> Any:
    """Q sym(R g^T) R^-T."""
    q, r = _parts(x, found)
    return _over_right(matmul_(q, _mirrored(matmul_(r, _swap(g)))), r)


@primitive(x=_q_rule)
def _q(x: np.ndarray, *, found: Factors) -> np.ndarray:
    return found.first.copy()


@primitive(x=_r_rule)
def _r(x: np.ndarray, *, found: Factors) -> np.ndarray:
    return found.second.copy()


def qr(x: Tensor, complete: bool) -> tuple[Any, Any]:
    """Orthogonal columns Q and an upper triangle R with x = Q R; complete: Q is square.

    The Q of a wide matrix is that of its first columns, and what is R beyond them follows from it (Roberts and
    Roberts, "QR and LQ decomposition matrix backpropagation algorithms", 2020).
    """
    full_precision("qr", matrices("qr", [x.array]))
    m, n = x.array.shape[-2:]
    if m < n:
        q, r = qr(x[..., :m], complete)  # type: ignore[index]
        return q, cat([r, matmul_(_swap(q), x[..., m:])], -1)  # type: ignore[index]
    found = Factors(*decomposed("qr", np.linalg.qr, x.array, mode="complete" if complete else "reduced"))
    x = alias(x)
    return _q(x, found=found), _r(x, found=found)
