"""Square matrices: determinants whose logarithm is asked for, and decompositions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinygrad_tf.engine import Tensor, computed, current_node, make, mode, primitive
from tinygrad_tf.ops.linalg import _solved, full_precision, inv, matmul_, square_matrices
from tinygrad_tf.ops.shape import matrix_transpose


def _swap(x: Any) -> Any:
    return matrix_transpose(x) if isinstance(x, Tensor) else x.swapaxes(-1, -2)


@primitive(x=lambda g, x: _swap(inv(x)) * g[..., None, None])
def _log_size_of_det(x: np.ndarray) -> np.ndarray:
    return np.asarray(np.linalg.slogdet(x).logabsdet)


def slogdet(x: Tensor) -> tuple[Any, Any]:
    """The sign of the determinant, and the logarithm of its size."""
    square_matrices("slogdet", [x.array])
    return make(np.asarray(computed(np.linalg.slogdet, [x.array], {}).sign)), _log_size_of_det(x)


def logdet(x: Tensor) -> Any:
    square_matrices("logdet", [x.array])
    sign, size = slogdet(x)
    return size + make(np.where(sign.array < 0, math.nan, 0.0).astype(x.array.dtype))


def _lower_half(x: Any) -> Any:
    """The lower triangle, with half of the diagonal."""
    n = x.shape[-1]
    return x * (np.tril(np.ones((n, n)), -1) + np.eye(n) / 2.0).astype(x.dtype)


def _cholesky_rule(g: Any, result: Any) -> Any:
    """With L the result, P the lower half of L^T g: L^-T (P + P^T) L^-1 / 2 (Murray, 2016)."""
    part = _lower_half(matmul_(_swap(result), g))
    inverse = inv(result)
    return matmul_(matmul_(_swap(inverse), (part + _swap(part)) * 0.5), inverse)


@primitive(prepare=square_matrices, x=_cholesky_rule)
def cholesky(x: np.ndarray) -> np.ndarray:
    """The lower triangular L with L L^T = x, for symmetric and positive definite x."""
    return _solved(np.linalg.cholesky, x)


def without_gradient(name: str, function: Any, *tensors: Tensor) -> Any:
    """The result of one of NumPy's decompositions, whose gradients are not there: an error where one is wanted."""
    if mode.grad and any(current_node(t) is not None for t in tensors):
        raise RuntimeError(f"{name}: has no gradient here; call it on x.detach()")
    full_precision(name, [t.array for t in tensors])
    found = _solved(function, *(t.array for t in tensors))
    return tuple(make(np.asarray(part)) for part in found) if isinstance(found, tuple) else make(np.asarray(found))
