"""Operations that run along an axis: every element takes in those before it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinygrad_tf._layout import in_order
from tinygrad_tf.engine import Tensor, make, primitive
from tinygrad_tf.ops._types import category
from tinygrad_tf.ops.elementwise import exp
from tinygrad_tf.ops.shape import cat, flip, narrow
from tinygrad_tf.regions import wide

INT64 = np.dtype(np.int64)


def _reversed_cumsum(g: Any, dim: int) -> Any:
    if not g.shape:
        return g
    return flip(cumsum(flip(g, dims=(dim,)), dim=dim), dims=(dim,))


def dtype_of_totals(x: np.ndarray) -> np.dtype:
    """The dtype in which sums and products of the elements are made: 64 bits for integers, no 16 for floats."""
    return INT64 if category(x.dtype) < 2 else wide(x.dtype)


def _accumulated(function: Any, x: np.ndarray, dim: int) -> np.ndarray:
    """The totals so far. Floats keep their dtype, but are rounded to 16 bits only when all totals are there."""
    dtype = dtype_of_totals(x)
    totals = function(x, axis=dim, dtype=dtype) if x.ndim else x.astype(dtype)
    return in_order(totals.astype(x.dtype, copy=False) if category(x.dtype) == 2 else totals)


@primitive(x=_reversed_cumsum)
def cumsum(x: np.ndarray, *, dim: int) -> np.ndarray:
    return _accumulated(np.cumsum, x, dim)


def _along(dim: int, part: Any) -> tuple[Any, ...]:
    return (slice(None),) * dim + (part,)


def moved(x: Any, dim: int, backwards: bool, fill: float) -> Any:
    """x one place further along the way, with `fill` at its start."""
    if not isinstance(x, Tensor):
        return moved(make(x), dim, backwards, fill).array
    n = x.array.shape[dim]
    if not n:
        return x
    start = make(np.full_like(x.array[_along(dim, slice(0, 1))], fill))
    return cat([narrow(x, dim, 1, n - 1), start] if backwards else [start, narrow(x, dim, 0, n - 1)], dim)


def _recurrence_slope(g: Any, a: Any, dim: int, backwards: bool) -> Any:
    """What reaches b: the same recurrence, run the other way."""
    return recurrence(moved(a, dim, not backwards, 0.0), g, dim=dim, backwards=not backwards)


@primitive(
    a=lambda g, a, result, dim, backwards: _recurrence_slope(g, a, dim, backwards) * moved(result, dim, backwards, 0.0),
    b=lambda g, a, dim, backwards: _recurrence_slope(g, a, dim, backwards),
)
def recurrence(a: np.ndarray, b: np.ndarray, *, dim: int, backwards: bool) -> np.ndarray:
    """y[i] = a[i] y[i-1] + b[i] along dim, from y[-1] = 0."""
    y = b.astype(wide(b.dtype))
    n = b.shape[dim]
    for i in range(n - 2, -1, -1) if backwards else range(1, n):
        before = i + 1 if backwards else i - 1
        y[_along(dim, i)] += a[_along(dim, i)] * y[_along(dim, before)]
    return y.astype(b.dtype, copy=False)


def _cumprod_rule(g: Any, x: Any, dim: int, backwards: bool) -> Any:
    """With y the products: dx[i] = y[i-1] sum over j >= i of g[j] x[i+1] ... x[j]. No division, so zeros do no harm."""
    if not g.shape:
        return g
    products = cumprod(x, dim=dim, backwards=backwards)
    return moved(products, dim, backwards, 1.0) * _recurrence_slope(g, x, dim, backwards)


@primitive(x=_cumprod_rule)
def cumprod(x: np.ndarray, *, dim: int, backwards: bool) -> np.ndarray:
    way = _along(dim, slice(None, None, -1 if backwards else None)) if x.ndim else (...,)
    return in_order(_accumulated(np.cumprod, x[way], dim)[way])


def cumulative_extreme(x: np.ndarray, dim: int, largest: bool) -> np.ndarray:
    """The index of the largest (smallest) element so far, the later one of equals; NaN wins and stays."""
    if not x.ndim:
        return np.zeros((), np.int64)
    so_far = (np.maximum if largest else np.minimum).accumulate(x, axis=dim)
    counts = np.arange(x.shape[dim]).reshape([-1 if i == dim else 1 for i in range(x.ndim)])
    new = (x == so_far) | (x != x)
    return in_order(np.maximum.accumulate(np.where(new, counts, 0), axis=dim))


def _logcumsumexp_rule(g: Any, x: Any, result: Any, dim: int) -> Any:
    """With y the results: dx[i] = exp(x[i] - y[i]) s[i], where s[i] = g[i] + exp(y[i] - y[i+1]) s[i+1]: no exponential
    is above 1.
    """
    if not g.shape:
        return g
    decay = exp(result - moved(result, dim, True, math.inf))
    return recurrence(decay, g, dim=dim, backwards=True) * exp(x - result)


@primitive(x=_logcumsumexp_rule)
def logcumsumexp(x: np.ndarray, *, dim: int) -> np.ndarray:
    """log of the sum of exp(x) so far, without overflow."""
    if not x.ndim:
        return x.copy()
    totals = np.logaddexp.accumulate(x.astype(wide(x.dtype), copy=False), axis=dim)
    return in_order(totals.astype(x.dtype, copy=False))


def diff(x: Tensor, n: int, dim: int) -> Any:
    """Each entry along dim minus the one before, n times; of bools, whether it is another one."""
    if not x.array.ndim:
        raise RuntimeError("diff: needs at least one dimension, got a 0-d tensor")
    if n < 0:
        raise RuntimeError(f"diff: n must not be negative, got {n}")
    for _ in range(n):
        size = max(x.array.shape[dim] - 1, 0)
        after, before = narrow(x, dim, min(1, x.array.shape[dim]), size), narrow(x, dim, 0, size)
        x = make(after.array ^ before.array) if x.array.dtype == bool else after - before
    return x
