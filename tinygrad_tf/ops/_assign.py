"""Writing by index: a tensor with other values at some places, out of place. (`inplace` writes into its memory.)"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinygrad_tf.engine import Tensor, expand, make
from tinygrad_tf.ops._at_index import assign, getitem, put
from tinygrad_tf.ops._places import masked, normal_index, places, slices_along
from tinygrad_tf.ops.elementwise import where

# --- element by element -----------------------------------------------------------------------------------------------


def _source(name: str, src: Any, index: Tensor, x: Tensor) -> Any:
    """The part of src that the index uses; a number stays one."""
    if not isinstance(src, Tensor):
        return src
    if src.array.dtype != x.array.dtype:
        raise RuntimeError(f"{name}: src must have the dtype of the tensor, {x.array.dtype}, got {src.array.dtype}")
    shape = index.array.shape
    if src.array.ndim != len(shape) or any(m < n for m, n in zip(src.array.shape, shape, strict=True)):
        raise RuntimeError(f"{name}: src of shape {src.array.shape} is too small for an index of shape {shape}")
    return src if src.array.shape == shape else getitem(src, index=(*(slice(n) for n in shape), ...))


def scatter(x: Tensor, dim: int, index: Tensor, src: Any, reduce: str | None = None) -> Any:
    """x with src at `index` along `dim`: out[index[i][j]][j] = src[i][j] for dim 0. src: a tensor or a number."""
    if reduce is not None:
        if reduce not in ("add", "multiply"):
            raise RuntimeError(f"scatter: reduce must be 'add' or 'multiply', got {reduce!r}")
        if not isinstance(src, Tensor):
            src = make(np.full(index.array.shape, src, x.array.dtype))
        return scatter_reduce(x, dim, index, src, "sum" if reduce == "add" else "prod")
    where_to = places("scatter", x.array.shape, dim, index)
    return assign(x, _source("scatter", src, index, x), index=where_to)


def scatter_add(x: Tensor, dim: int, index: Tensor, src: Tensor) -> Any:
    """x with src added at `index` along `dim`."""
    where_to = places("scatter_add", x.array.shape, dim, index)
    return x + put(_source("scatter_add", src, index, x), index=where_to, shape=x.array.shape)


def scatter_reduce(x: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, include_self: bool = True) -> Any:
    """Like scatter, where several values for one place are added, averaged, multiplied, or the extreme one is taken."""
    where_to = places("scatter_reduce", x.array.shape, dim, index)
    src, shape = _source("scatter_reduce", src, index, x), x.array.shape
    steps = {"sum": np.add, "mean": np.add, "prod": np.multiply, "amax": np.maximum, "amin": np.minimum}
    if reduce not in steps:
        raise RuntimeError(f"scatter_reduce: reduce must be one of {', '.join(steps)}, got {reduce!r}")
    hits = np.zeros(shape, np.int64)
    np.add.at(hits, where_to, 1)
    start = {"prod": 1.0, "amax": -math.inf, "amin": math.inf}.get(reduce, 0.0)
    if not include_self:
        x = where(make(hits > 0), make(np.full(shape, start).astype(x.array.dtype)), x)
    if reduce in ("sum", "mean"):
        total = x + put(src, index=where_to, shape=shape)
        count = hits + (1 if include_self else hits == 0)
        return total / make(count.astype(x.array.dtype)) if reduce == "mean" else total
    best = x.array.copy()
    steps[reduce].at(best, where_to, src.array)
    if reduce == "prod":
        if x.node is not None or src.node is not None:
            raise RuntimeError("scatter_reduce: 'prod' has no gradient here; use .detach()")
        return make(best)
    mine, theirs = make(x.array == best), make(src.array == best[where_to])
    total = where(mine, x, 0.0) + put(where(theirs, src, 0.0), index=where_to, shape=shape)
    winners = mine.array.astype(x.array.dtype)
    np.add.at(winners, where_to, theirs.array)
    return total / make(winners)


# --- whole slices -----------------------------------------------------------------------------------------------------


def index_add(x: Tensor, dim: int, index: Tensor, source: Tensor, alpha: Any = 1) -> Any:
    """x with the slices of `source` added at the places `index` of axis `dim`."""
    added = source if alpha == 1 else source * alpha
    return x + put(added, index=slices_along("index_add", x, dim, index), shape=x.array.shape)


def index_copy(x: Tensor, dim: int, index: Tensor, source: Tensor) -> Any:
    return assign(x, source, index=slices_along("index_copy", x, dim, index))


def index_fill(x: Tensor, dim: int, index: Tensor, value: Any) -> Any:
    return assign(x, value, index=slices_along("index_fill", x, dim, index))


def index_put(x: Tensor, indices: Any, values: Any, accumulate: bool = False) -> Any:
    """x with x[indices] = values, or with values added there (several to one place, if the indices repeat)."""
    key = normal_index("index_put", tuple(indices), x.array.shape)
    if not accumulate:
        return assign(x, values, index=key)
    values = values if isinstance(values, Tensor) else make(np.asarray(values, x.array.dtype))
    wide = expand(values, shape=x.array[key].shape)
    return x + put(wide, index=key, shape=x.array.shape)


# --- masks ------------------------------------------------------------------------------------------------------------


def masked_scatter(x: Tensor, mask: Tensor, source: Tensor) -> Any:
    """x with the first elements of `source`, in order, where the mask is True."""
    x, chosen = masked("masked_scatter", x, mask)
    count = int(np.count_nonzero(chosen))
    if source.array.size < count:
        raise RuntimeError(f"masked_scatter: the mask asks for {count} elements, source has {source.array.size}")
    first = np.unravel_index(np.arange(count), source.array.shape)
    return assign(x, getitem(source, index=first), index=(chosen,))
