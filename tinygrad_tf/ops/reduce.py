"""Operations that reduce axes: sums, extrema, products, and what is made of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinygrad_tf.engine import Tensor, expand, primitive
from tinygrad_tf.ops._types import axes, category
from tinygrad_tf.ops.elementwise import where
from tinygrad_tf.ops.shape import flip, reshape

Dim = int | tuple[int, ...] | list[int] | None


def _kept(shape: tuple[int, ...], dims: tuple[int, ...]) -> tuple[int, ...]:
    """The shape with the reduced axes kept as 1."""
    return tuple(1 if i in dims else n for i, n in enumerate(shape))


@primitive(x=lambda g, shapes, dims: expand(reshape(g, shape=_kept(shapes[0], dims)), shape=shapes[0]))
def sum_(x: np.ndarray, *, dims: tuple[int, ...], keepdim: bool) -> np.ndarray:
    kind = category(x.dtype)
    wide = np.int64 if kind < 2 else np.float32 if x.dtype.itemsize == 2 else x.dtype
    return np.asarray(x.sum(axis=dims, keepdims=keepdim, dtype=wide)).astype(x.dtype if kind == 2 else wide, copy=False)


def sum(x: Tensor, dim: Dim = None, keepdim: bool = False) -> Any:
    return sum_(x, dims=axes("sum", dim, x.array.ndim), keepdim=keepdim)


def mean(x: Tensor, dim: Dim = None, keepdim: bool = False) -> Any:
    if category(x.array.dtype) < 2:
        raise RuntimeError(f"mean: needs a floating point tensor, got {x.array.dtype}; use x.float().mean()")
    dims = axes("mean", dim, x.array.ndim)
    count = int(np.prod([x.array.shape[d] for d in dims], dtype=np.int64))
    total = sum_(x, dims=dims, keepdim=keepdim)
    return total / float(count) if count else total * float("nan")


def var(x: Tensor, dim: Dim = None, correction: int = 1, keepdim: bool = False) -> Any:
    """The mean squared distance from the mean, over n - correction; two passes, so that large means cancel nothing."""
    dims = axes("var", dim, x.array.ndim)
    count = int(np.prod([x.array.shape[d] for d in dims], dtype=np.int64))
    centred: Any = x - mean(x, dims, keepdim=True)  # type: ignore[operator]
    total = sum_(centred * centred, dims=dims, keepdim=keepdim)
    return total / float(max(count - correction, 0))


def _extreme_rule(g: Any, x: Any, result: Any, dims: tuple[int, ...]) -> Any:
    """Elements that share the extremum share the gradient evenly."""
    shape = _kept(x.shape, dims)
    ties = x == reshape(result, shape=shape)
    count = ties.sum(dims, keepdims=True) if isinstance(ties, np.ndarray) else sum(ties, dims, keepdim=True)
    return where(ties, expand(reshape(g, shape=shape) / count, shape=x.shape), 0.0)


@primitive(x=_extreme_rule)
def amax(x: np.ndarray, *, dims: tuple[int, ...], keepdim: bool) -> np.ndarray:
    return x.max(axis=dims, keepdims=keepdim)


@primitive(x=_extreme_rule)
def amin(x: np.ndarray, *, dims: tuple[int, ...], keepdim: bool) -> np.ndarray:
    return x.min(axis=dims, keepdims=keepdim)


def _reversed_cumsum(g: Any, dim: int) -> Any:
    return flip(cumsum(flip(g, dims=(dim,)), dim=dim), dims=(dim,))


@primitive(x=_reversed_cumsum)
def cumsum(x: np.ndarray, *, dim: int) -> np.ndarray:
    return np.cumsum(x, axis=dim, dtype=np.int64 if category(x.dtype) < 2 else x.dtype)
