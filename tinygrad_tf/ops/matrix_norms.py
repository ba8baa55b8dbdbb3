"""Norms of matrices, and how much a system of equations magnifies errors: compositions of others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tinygrad_tf.engine import Tensor, computed, make
from tinygrad_tf.ops._types import axis
from tinygrad_tf.ops.elementwise import abs_, where
from tinygrad_tf.ops.linalg import full_precision, inv, matrices, square_matrices
from tinygrad_tf.ops.reduce import amax, amin, norm, sum
from tinygrad_tf.ops.shape import movedim, unsqueeze
from tinygrad_tf.ops.spectral import svdvals

ORDERS = ("fro", "nuc", math.inf, -math.inf, 1, -1, 2, -2)


def matrix_norm(x: Tensor, order: Any, dim: Sequence[int], keepdim: bool = False) -> Any:
    """'fro': as of a vector of all entries; of the singular values 'nuc' the sum, 2 and -2 the largest and smallest;
    of the sums of |x| along columns 1 and -1 the largest and smallest, along rows inf and -inf."""
    if isinstance(dim, int) or len(dim) != 2:
        raise RuntimeError(f"matrix_norm: dim must be two axes, got {dim}")
    matrices("matrix_norm", [x.array])
    rows, columns = (axis("matrix_norm", d, x.array.ndim) for d in dim)
    if rows == columns:
        raise RuntimeError(f"matrix_norm: dim must be two different axes, got {tuple(dim)}")
    if order not in ORDERS:
        raise RuntimeError(f"matrix_norm: ord must be one of {', '.join(map(repr, ORDERS))}, got {order!r}")
    if order == "fro":
        return norm(x, 2.0, (rows, columns), keepdim)
    moved = movedim(x, (rows, columns), (-2, -1))
    found = _of_last_axes(moved, order)
    for d in sorted((rows, columns)) if keepdim else ():
        found = unsqueeze(found, d)
    return found


def _of_last_axes(x: Tensor, order: Any) -> Any:
    if order == "nuc":
        return sum(svdvals(x, "matrix_norm"), -1)
    sizes = svdvals(x, "matrix_norm") if order in (2, -2) else sum(abs_(x), -1 if math.isinf(order) else -2)
    last = (sizes.array.ndim - 1,)
    if not sizes.array.shape[-1]:
        if order < 0:
            raise RuntimeError(f"matrix_norm: there is no norm {order} of no elements, shape {x.array.shape}")
        return sum(sizes, -1)  # 0
    return (amax if order > 0 else amin)(sizes, dims=last, keepdim=False)


def cond(x: Tensor, p: Any = None) -> Any:
    """|x| |x^-1| by the norm p; with None, 2 and -2 the quotient of the largest and smallest singular value."""
    full_precision("cond", matrices("cond", [x.array]))
    if p in (None, 2, -2):
        values = svdvals(x, "cond")
        if not values.array.shape[-1]:
            return sum(values, -1)
        return values[..., -1] / values[..., 0] if p == -2 else values[..., 0] / values[..., -1]
    square_matrices("cond", [x.array])
    singular = np.asarray(computed(np.linalg.det, [x.array], {})) == 0
    identity = np.eye(x.array.shape[-1], dtype=x.array.dtype)
    regular = where(make(singular[..., None, None]), make(identity), x) if singular.any() else x
    found = matrix_norm(x, p, (-2, -1)) * matrix_norm(inv(regular), p, (-2, -1))
    return where(make(singular), math.inf, found) if singular.any() else found
