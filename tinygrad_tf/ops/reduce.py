"""Operations that reduce axes: sums, products, extrema, norms, and what is made of them."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from tinygrad_tf._layout import in_order
from tinygrad_tf.engine import Tensor, cast, expand, make, primitive
from tinygrad_tf.ops._types import axes, axis, category, default_float
from tinygrad_tf.ops.elementwise import abs_, div, exp, mul, power, sign, square, where
from tinygrad_tf.ops.scan import cumprod, dtype_of_totals, moved
from tinygrad_tf.ops.shape import reshape

Dim = int | tuple[int, ...] | list[int] | None
FLOAT32 = np.dtype(np.float32)
add_up: Any = np.add.reduce  # what x.sum() comes to after some detours


def _kept(shape: tuple[int, ...], dims: tuple[int, ...]) -> tuple[int, ...]:
    """The shape with the reduced axes kept as 1."""
    return tuple([1 if i in dims else n for i, n in enumerate(shape)])


def _count(shape: tuple[int, ...], dims: tuple[int, ...]) -> int:
    """How many elements are reduced to one."""
    return math.prod([shape[d] for d in dims])


@primitive(x=lambda g, shapes, dims: expand(reshape(g, shape=_kept(shapes[0], dims)), shape=shapes[0]))
def sum_(x: np.ndarray, *, dims: tuple[int, ...], keepdim: bool) -> np.ndarray:
    total = in_order(add_up(x, dims, dtype_of_totals(x), None, keepdim))
    return total if total.dtype is x.dtype or category(x.dtype) < 2 else total.astype(x.dtype, copy=False)


def sum(x: Tensor, dim: Dim = None, keepdim: bool = False) -> Any:
    return sum_(x, dims=axes("sum", dim, x.array.ndim), keepdim=keepdim)


def _in_float32(function: Any, x: Tensor, *arguments: Any, **options: Any) -> Any:
    """16-bit numbers are reduced in float32, so that neither range nor precision is lost on the way."""
    return cast(function(cast(x, dtype=FLOAT32), *arguments, **options), dtype=x.array.dtype)


def _needs_float(name: str, x: Tensor) -> None:
    if category(x.array.dtype) < 2:
        raise RuntimeError(f"{name}: needs a floating point tensor, got {x.array.dtype}; use x.float().{name}()")


def mean_over(count: Any, x: Tensor, dim: Dim = None, keepdim: bool = False) -> Any:
    """sum(x) / count, in float32 for 16-bit numbers: a mean may be in range where the sum is not."""
    if category(x.array.dtype) < 2 or x.array.dtype.itemsize > 2:
        return sum(x, dim, keepdim) / count
    count = cast(count, dtype=FLOAT32) if isinstance(count, Tensor) else count
    return cast(sum(cast(x, dtype=FLOAT32), dim, keepdim) / count, dtype=x.array.dtype)


def _mean_rule(g: Any, shapes: list[tuple[int, ...]], dims: tuple[int, ...]) -> Any:
    share = div(g, float(_count(shapes[0], dims)))
    return expand(reshape(share, shape=_kept(shapes[0], dims)), shape=shapes[0])


@primitive(x=_mean_rule)
def mean_(x: np.ndarray, *, dims: tuple[int, ...], keepdim: bool) -> np.ndarray:
    mean = in_order(add_up(x, dims, dtype_of_totals(x), None, keepdim) / _count(x.shape, dims))
    return mean if mean.dtype is x.dtype else mean.astype(x.dtype, copy=False)


def mean(x: Tensor, dim: Dim = None, keepdim: bool = False) -> Any:
    _needs_float("mean", x)
    return mean_(x, dims=axes("mean", dim, x.array.ndim), keepdim=keepdim)


def _var_rule(g: Any, x: Any, dims: tuple[int, ...], divisor: float) -> Any:
    """2 / divisor times the distance from the mean: the gradients that reach the mean add up to 0."""
    share = div(reshape(g * 2.0, shape=_kept(x.shape, dims)), divisor)
    return share * (x - mean_(x, dims=dims, keepdim=True))


@primitive(x=_var_rule)
def var_(x: np.ndarray, *, dims: tuple[int, ...], keepdim: bool, divisor: float) -> np.ndarray:
    """Two passes, so that large means cancel nothing."""
    centred = x - mean_.forward(x, dims=dims, keepdim=True)
    return sum_.forward(mul.forward(centred, centred), dims=dims, keepdim=keepdim) / divisor


def var(x: Tensor, dim: Dim = None, correction: int = 1, keepdim: bool = False) -> Any:
    """The mean squared distance from the mean, over n - correction."""
    _needs_float("var", x)
    if x.array.dtype.itemsize == 2:
        return _in_float32(var, x, dim, correction, keepdim)
    dims = axes("var", dim, x.array.ndim)
    count = _count(x.array.shape, dims)
    if count <= correction:
        warnings.warn(
            f"var and std of {count} elements with correction={correction} are not numbers: 0 or fewer degrees of "
            "freedom; pass correction=0 (unbiased=False), or more elements",
            stacklevel=3,
        )
    return var_(x, dims=dims, keepdim=keepdim, divisor=float(max(count - correction, 0)))


def _root_rule(g: Any, result: Any) -> Any:
    zero = result == 0
    return where(zero, 0.0, div(g, where(zero, 1.0, result) * 2.0))


@primitive(x=_root_rule)
def _root(x: np.ndarray) -> np.ndarray:
    """sqrt with the derivative 0 at 0, where the true one is infinite: a norm of zeros pulls nowhere."""
    return np.sqrt(x)


def std(x: Tensor, dim: Dim = None, correction: int = 1, keepdim: bool = False) -> Any:
    return _root(var(x, dim, correction, keepdim))


def norm(x: Tensor, p: float | str | None = 2.0, dim: Dim = None, keepdim: bool = False) -> Any:
    """(sum |x|^p)^(1/p); p = inf, -inf: the largest, smallest |x|; p = 0: how many entries are not 0."""
    _needs_float("norm", x)
    if x.array.dtype.itemsize == 2:
        return _in_float32(norm, x, p, dim, keepdim)
    p = 2.0 if p is None or p == "fro" else p
    if isinstance(p, str):
        raise RuntimeError(f"norm: p must be a number or 'fro', got {p!r}")
    dims = axes("norm", dim, x.array.ndim)
    if p == 2.0:
        return _root(sum_(square(x), dims=dims, keepdim=keepdim))
    size = abs_(x)
    if p == 1.0:
        return sum_(size, dims=dims, keepdim=keepdim)
    if math.isinf(p):
        return (amax if p > 0 else amin)(size, dims=dims, keepdim=keepdim)
    if p == 0.0:
        return sum_(abs_(sign(where(x != x, 1.0, x))), dims=dims, keepdim=keepdim)  # with the gradient 0
    powers: Any = power(size, p)
    if p < 2.0:  # the derivatives of |x|^p at 0, where they are infinite, are taken as 0
        powers = where(x == 0, 0.0 if p > 0.0 else math.inf, power(where(x == 0, 1.0, size), p))
    total = sum_(powers, dims=dims, keepdim=keepdim)
    zero = total == 0
    return where(zero, total if p > 0.0 else math.inf, power(where(zero, 1.0, total), 1.0 / p))


def _logsumexp_rule(g: Any, x: Any, result: Any, dims: tuple[int, ...]) -> Any:
    """g softmax(x)."""
    shape = _kept(x.shape, dims)
    return reshape(g, shape=shape) * exp(x - reshape(result, shape=shape))


@primitive(x=_logsumexp_rule)
def logsumexp_(x: np.ndarray, *, dims: tuple[int, ...], keepdim: bool) -> np.ndarray:
    """The maximum is taken out first, so that nothing overflows."""
    largest = x.max(axis=dims, keepdims=True, initial=-np.inf)
    shift = np.where(np.isfinite(largest), largest, 0).astype(x.dtype, copy=False)
    total = np.log(sum_(exp(x - shift), dims=dims, keepdim=True)) + shift
    return total if keepdim else total.squeeze(dims)


def logsumexp(x: Tensor, dim: Dim, keepdim: bool = False) -> Any:
    """log sum exp(x) without overflow."""
    if category(x.array.dtype) < 2:
        x = cast(x, dtype=default_float())
    if x.array.dtype.itemsize == 2:
        return _in_float32(logsumexp, x, dim, keepdim)
    return logsumexp_(x, dims=axes("logsumexp", dim, x.array.ndim), keepdim=keepdim)


def _prod_rule(g: Any, x: Any, dim: int) -> Any:
    """g times the product of all the other elements: those before and those after, so that zeros do no harm."""
    before = cumprod(moved(x, dim, False, 1.0), dim=dim, backwards=False)
    after = cumprod(moved(x, dim, True, 1.0), dim=dim, backwards=True)
    return g * before * after


@primitive(x=_prod_rule)
def _prod(x: np.ndarray, *, dim: int) -> np.ndarray:
    out = in_order(x.prod(axis=dim, keepdims=True, dtype=dtype_of_totals(x)))
    return out.astype(x.dtype, copy=False) if category(x.dtype) == 2 else out


def prod(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    if dim is None or not x.array.ndim:
        return reshape(_prod(reshape(x, shape=(x.array.size,)), dim=0), shape=())
    dim = axis("prod", dim, x.array.ndim)
    out = _prod(x, dim=dim)
    shape = x.array.shape
    return out if keepdim else reshape(out, shape=(*shape[:dim], *shape[dim + 1 :]))


# --- extrema and truth ------------------------------------------------------------------------------------------------


def _not_empty(name: str, x: np.ndarray, dims: tuple[int, ...]) -> None:
    if not x.size and (not dims or any(x.shape[d] == 0 for d in dims)):
        raise (IndexError if dims else RuntimeError)(
            f"{name}: there is no {name} of no elements (shape {x.shape}, dim {dims})"
        )


def _extreme_rule(g: Any, x: Any, result: Any, dims: tuple[int, ...]) -> Any:
    """Elements that share the extremum share the gradient evenly; a NaN makes the gradients of its row NaN."""
    shape = _kept(x.shape, dims)
    best = reshape(result, shape=shape)
    ties, unknown = x == best, best != best
    count = sum(ties, dims, keepdim=True) if isinstance(ties, Tensor) else ties.sum(dims, keepdims=True)
    share = where(unknown, math.nan, _shared(reshape(g, shape=shape), count))
    return where(ties | unknown, share, 0.0)


@primitive(x=_extreme_rule)
def amax(x: np.ndarray, *, dims: tuple[int, ...], keepdim: bool) -> np.ndarray:
    _not_empty("max", x, dims)
    return in_order(x.max(axis=dims, keepdims=keepdim))


@primitive(x=_extreme_rule)
def amin(x: np.ndarray, *, dims: tuple[int, ...], keepdim: bool) -> np.ndarray:
    _not_empty("min", x, dims)
    return in_order(x.min(axis=dims, keepdims=keepdim))


def largest_rule(g: Any, x: Any, result: Any) -> Any:
    """Elements that share the extremum of all share the gradient evenly; where it is a NaN, all NaNs do."""
    ties = (x == result) | (x != x)
    count = sum(ties) if isinstance(ties, Tensor) else ties.sum()
    return where(ties, expand(_shared(g, count), shape=x.shape), 0.0)


def _shared(g: Any, count: Any) -> Any:
    """g / count, in float32 for 16-bit numbers, which a count of ties may be too large for."""
    dtype = g.array.dtype if isinstance(g, Tensor) else g.dtype
    return div(cast(g, dtype=FLOAT32) if dtype.itemsize == 2 else g, count)


@primitive(x=largest_rule)
def max_(x: np.ndarray) -> np.ndarray:
    """The largest of all elements."""
    _not_empty("max", x, ())
    return x.max()


@primitive(x=largest_rule)
def min_(x: np.ndarray) -> np.ndarray:
    """The smallest of all elements."""
    _not_empty("min", x, ())
    return x.min()


def arg_extreme(name: str, x: Tensor, dim: int | None, keepdim: bool) -> Any:
    """Where the first of the largest ("argmax") or smallest ("argmin") elements is; a NaN counts as both."""
    dims = axes(name, dim, x.array.ndim)
    _not_empty(name, x.array, dims)
    find = np.argmax if name == "argmax" else np.argmin
    if not x.array.ndim:
        return make(np.zeros((), np.int64))
    if dim is None:
        place = np.asarray(find(x.array))
        return make(place.reshape((1,) * x.array.ndim) if keepdim else place)
    return make(np.asarray(find(x.array, axis=dims[0], keepdims=keepdim)))


def _truth(name: str, x: Tensor, dim: Dim, keepdim: bool) -> Any:
    """Whether any or all of the elements are not 0. Empty dims reduce nothing, and uint8 stays what it is."""
    dims = () if dim == () or dim == [] else axes(name, dim, x.array.ndim)
    reduction: Any = np.logical_or if name == "any" else np.logical_and
    found = in_order(reduction.reduce(x.array.astype(bool, copy=False), axis=dims, keepdims=keepdim))
    return make(found.astype(np.uint8) if x.array.dtype == np.uint8 else found)


def any_(x: Tensor, dim: Dim = None, keepdim: bool = False) -> Any:
    return _truth("any", x, dim, keepdim)


def all_(x: Tensor, dim: Dim = None, keepdim: bool = False) -> Any:
    return _truth("all", x, dim, keepdim)


def count_nonzero(x: Tensor, dim: Dim = None) -> Any:
    return make(in_order(np.count_nonzero(x.array, axis=axes("count_nonzero", dim, x.array.ndim))))


def nansum(x: Tensor, dim: Dim = None, keepdim: bool = False) -> Any:
    return sum(where(x != x, 0, x), dim, keepdim)


def nanmean(x: Tensor, dim: Dim = None, keepdim: bool = False) -> Any:
    count = sum(make(x.array == x.array), dim, keepdim)
    return mean_over(count, where(x != x, 0, x), dim, keepdim)
