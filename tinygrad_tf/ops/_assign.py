"""Writing by index: a tensor with other values at some places, out of place. (`inplace` writes into its memory.)"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinygrad_tf.engine import Tensor, cast, computed, expand, make, mode, primitive, watched
from tinygrad_tf.ops._at_index import assign, getitem, put
from tinygrad_tf.ops._places import masked, normal_index, places, slices_along
from tinygrad_tf.ops._types import category, fitting
from tinygrad_tf.ops.elementwise import div, mul, where
from tinygrad_tf.regions import wide

REDUCTIONS = ("sum", "mean", "prod", "amax", "amin")


def _number(name: str, what: str, value: Any) -> Any:
    if not isinstance(value, (bool, int, float)):
        raise TypeError(f"{name}: {what} must be a tensor or a number, got {type(value).__name__}")
    return value


def _check_same_dtype(name: str, what: str, values: Tensor, x: Tensor) -> None:
    if values.array.dtype != x.array.dtype:
        wanted, got = x.array.dtype, values.array.dtype
        raise RuntimeError(f"{name}: {what} must have the dtype of the tensor, {wanted}, got {got}; cast it with .to")


def _added(x: Tensor, values: Tensor, index: Any) -> Any:
    """x with the values added at the index; 16-bit numbers are added up in float32 and rounded once."""
    dtype = x.array.dtype
    if wide(dtype) != dtype:
        return cast(_added(cast(x, dtype=wide(dtype)), cast(values, dtype=wide(dtype)), index), dtype=dtype)
    return x + put(values, index=index, shape=x.array.shape)


# --- element by element -----------------------------------------------------------------------------------------------


def _source(name: str, src: Any, index: Tensor, x: Tensor) -> Any:
    """The part of src that the index uses; a number stays one."""
    if not isinstance(src, Tensor):
        return fitting(name, _number(name, "src", src), x.array.dtype)
    _check_same_dtype(name, "src", src, x)
    shape = index.array.shape
    if not index.array.size:
        return make(np.empty(shape, x.array.dtype))
    if src.array.ndim != len(shape) or any(m < n for m, n in zip(src.array.shape, shape, strict=True)):
        raise RuntimeError(f"{name}: src of shape {src.array.shape} is too small for an index of shape {shape}")
    return src if src.array.shape == shape else getitem(src, index=(*(slice(n) for n in shape), ...))


def scatter(x: Tensor, dim: int, index: Tensor, src: Any, reduce: str | None = None) -> Any:
    """x with src at `index` along `dim`: out[index[i][j]][j] = src[i][j] for dim 0. src: a tensor or a number."""
    if reduce is not None:
        if reduce not in ("add", "multiply"):
            raise RuntimeError(f"scatter: reduce must be 'add' or 'multiply', got {reduce!r}")
        src = _source("scatter", src, index, x)
        if not isinstance(src, Tensor):
            src = make(np.full(index.array.shape, src, x.array.dtype))
        return scatter_reduce(x, dim, index, src, "sum" if reduce == "add" else "prod")
    where_to = places("scatter", x.array.shape, dim, index)
    return assign(x, _source("scatter", src, index, x), index=where_to)


def scatter_add(x: Tensor, dim: int, index: Tensor, src: Tensor) -> Any:
    """x with src added at `index` along `dim`."""
    where_to = places("scatter_add", x.array.shape, dim, index)
    return _added(x, _source("scatter_add", src, index, x), where_to)


def scatter_reduce(x: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, include_self: bool = True) -> Any:
    """Like scatter, where several values for one place are added, averaged, multiplied, or the extreme one is taken."""
    if reduce not in REDUCTIONS:
        raise RuntimeError(f"scatter_reduce: reduce must be one of {', '.join(REDUCTIONS)}, got {reduce!r}")
    where_to = places("scatter_reduce", x.array.shape, dim, index)
    src, dtype = _source("scatter_reduce", src, index, x), x.array.dtype
    if wide(dtype) == dtype:
        return _reduced(x, src, where_to, reduce, include_self)
    x, src = (cast(t, dtype=wide(dtype)) for t in (x, src))
    return cast(_reduced(x, src, where_to, reduce, include_self), dtype=dtype)


def _reduced(x: Tensor, src: Tensor, where_to: Any, reduce: str, include_self: bool) -> Any:
    shape, dtype = x.array.shape, x.array.dtype
    hits = np.zeros(shape, np.int64)
    np.add.at(hits, where_to, 1)
    if not include_self:
        x = where(make(hits > 0), make(np.full(shape, _neutral(reduce, dtype), dtype)), x)
    if reduce in ("amax", "amin"):
        return _extreme(x, src, index=where_to, largest=reduce == "amax")
    if reduce == "prod":
        return _product(x, src, where_to)
    total = _added(x, src, where_to)
    return total if reduce == "sum" else _divided(total, np.maximum(hits + include_self, 1))


def _neutral(reduce: str, dtype: np.dtype) -> Any:
    """The number that changes no other one in this reduction."""
    if reduce not in ("amax", "amin"):
        return 1 if reduce == "prod" else 0
    if category(dtype) == 2:
        return -math.inf if reduce == "amax" else math.inf
    least, most = (False, True) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    return least if reduce == "amax" else most


def _product(x: Tensor, src: Tensor, where_to: Any) -> Tensor:
    """x times all numbers that meet at each of its places.

    For gradients, neighbours of one place are multiplied until one is left: no division, so zeros do no harm.
    """
    if not (mode.grad and (x.requires_grad or src.requires_grad)):  # type: ignore[attr-defined]
        product = x.array.copy()
        computed(np.multiply.at, (product, where_to, src.array), {})
        return make(product)
    if not x.array.ndim:
        return mul(x, src)
    hit = np.arange(x.array.size).reshape(x.array.shape)[where_to].ravel()
    own = np.unique(hit)
    place = np.concatenate([own, hit])
    order = np.argsort(place, kind="stable")
    spot = np.argsort(order)  # where each of them is among its neighbours
    mine = getitem(x, index=np.unravel_index(own, x.array.shape))
    theirs = getitem(src, index=np.unravel_index(np.arange(hit.size), src.array.shape))
    factors: Any = put(mine, index=(spot[: own.size],), shape=place.shape)
    factors = factors + put(theirs, index=(spot[own.size :],), shape=place.shape)
    place = place[order]
    while (same := place[1:] == place[:-1]).any():
        rank = np.arange(place.size)
        rank -= np.maximum.accumulate(np.where(np.append(False, same), 0, rank))
        left = np.flatnonzero(rank % 2 == 0)
        paired = np.append(same, False)[left]
        right = getitem(factors, index=(np.where(paired, left + 1, left),))
        place, factors = place[left], getitem(factors, index=(left,)) * where(make(paired), right, 1.0)
    return assign(x, factors, index=np.unravel_index(place, x.array.shape))


def _divided(total: Any, count: np.ndarray) -> Any:
    """A mean stays an integer where the sum is one, as PyTorch has it: rounded down."""
    if category(total.array.dtype) < 2:
        return make((total.array // count).astype(total.array.dtype))
    return total / make(count.astype(total.array.dtype))


def _winners(x: Any, src: Any, result: Any, index: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Which elements of x and of src are the extremes of their places, and how many share each place."""
    x, src, result = (t.array if isinstance(t, Tensor) else t for t in (x, src, result))
    mine, theirs = _same(x, result), _same(src, result[index])
    count = np.asarray(mine).astype(np.int64)
    np.add.at(count, index, theirs)
    return mine, theirs, count


def _same(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a == b) | ((a != a) & (b != b))  # a NaN wins, too


def _extreme_rule_x(g: Any, x: Any, src: Any, result: Any, index: Any) -> Any:
    """Elements that share the extremum share the gradient evenly."""
    mine, _, count = _winners(x, src, result, index)
    return where(mine, div(g, np.maximum(count, 1)), 0.0)


def _extreme_rule_src(g: Any, x: Any, src: Any, result: Any, index: Any) -> Any:
    _, theirs, count = _winners(x, src, result, index)
    return where(theirs, getitem(div(g, np.maximum(count, 1)), index=index), 0.0)


@primitive(x=_extreme_rule_x, src=_extreme_rule_src)
def _extreme(x: np.ndarray, src: np.ndarray, *, index: Any, largest: bool) -> np.ndarray:
    """x with the largest (or smallest) of the numbers that meet at a place, its own among them."""
    best = x.copy()
    (np.maximum if largest else np.minimum).at(best, index, src)
    return best


# --- whole slices -----------------------------------------------------------------------------------------------------


def _check_slices(name: str, x: Tensor, key: tuple[Any, ...], source: Tensor) -> None:
    """One slice of `source` for each index: broadcasting would hide that the wrong axis was meant."""
    _check_same_dtype(name, "source", source, x)
    wanted = (*x.array.shape[: len(key) - 1], len(key[-1]), *x.array.shape[len(key) :]) if key else x.array.shape
    if source.array.shape != wanted:
        raise RuntimeError(
            f"{name}: source must have the shape {wanted}, a slice for each index, got {source.array.shape}"
        )


def index_add(x: Tensor, dim: int, index: Tensor, source: Tensor, alpha: Any = 1) -> Any:
    """x with the slices of `source`, times alpha, added at the places `index` of axis `dim`."""
    key = slices_along("index_add", x, dim, index)
    added = source if alpha == 1 else source * alpha
    _check_slices("index_add", x, key, added)
    return _added(x, added, key)


def index_copy(x: Tensor, dim: int, index: Tensor, source: Tensor) -> Any:
    """x with the slices of `source` in place of those number index[0], index[1], ... of axis `dim`."""
    key = slices_along("index_copy", x, dim, index)
    _check_slices("index_copy", x, key, source)
    return assign(x, source, index=key)


def index_fill(x: Tensor, dim: int, index: Tensor, value: Any) -> Any:
    """x with one number in all slices number index[0], index[1], ... of axis `dim`; -1 is the last one."""
    if not isinstance(value, Tensor):
        value = fitting("index_fill", _number("index_fill", "value", value), x.array.dtype)
    elif value.array.ndim:
        raise RuntimeError(f"index_fill: value must be a number, got a tensor of shape {value.array.shape}")
    key = slices_along("index_fill", x, dim, index, negative=True)
    if isinstance(value, Tensor) and key:  # its gradient has a slice that the index names twice once
        key = watched((*key[:-1], np.unique(key[-1])), [index])
    return assign(x, value, index=key)


def index_put(x: Tensor, indices: Any, values: Any, accumulate: bool = False) -> Any:
    """x with x[indices] = values, or with values added there (several to one place, if the indices repeat)."""
    if isinstance(indices, Tensor):
        raise TypeError("index_put: indices must be a tuple with a tensor for each axis, got a tensor: write (index,)")
    key = normal_index("index_put", tuple(indices), x.array.shape)
    values = values if isinstance(values, Tensor) else make(np.asarray(values, x.array.dtype))
    _check_same_dtype("index_put", "values", values, x)
    try:
        if not accumulate:
            return assign(x, values, index=key)
        return _added(x, expand(values, shape=x.array[key].shape), key)
    except (IndexError, ValueError) as error:
        kind = IndexError if isinstance(error, IndexError) else RuntimeError
        raise kind(f"index_put: {error} (the tensor has shape {x.array.shape})") from None


# --- masks ------------------------------------------------------------------------------------------------------------


def masked_scatter(x: Tensor, mask: Tensor, source: Tensor) -> Any:
    """x with the first elements of `source`, in order, where the mask is True."""
    _check_same_dtype("masked_scatter", "source", source, x)
    x, chosen = masked("masked_scatter", x, mask)
    count = int(np.count_nonzero(chosen[0]))
    if source.array.size < count:
        raise RuntimeError(f"masked_scatter: the mask asks for {count} elements, source has {source.array.size}")
    first = np.unravel_index(np.arange(count), source.array.shape or (1,))
    return assign(x, getitem(source, index=first if source.array.ndim else (None,) * count), index=chosen)
