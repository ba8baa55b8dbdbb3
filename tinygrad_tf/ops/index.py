"""Reading and writing by index: slices, integer arrays, masks, gather and scatter."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinygrad_tf.engine import Tensor, expand, make, primitive
from tinygrad_tf.ops._types import axis, category, check_broadcast
from tinygrad_tf.ops.elementwise import where
from tinygrad_tf.regions import Region

FULL = slice(None)


def _is_basic(index: Any) -> bool:
    """Whether the index has only integers, slices, None and ..., so that it leads to a view."""
    parts = index if isinstance(index, tuple) else (index,)
    return not any(isinstance(p, (np.ndarray, bool)) for p in parts)


def _may_repeat(index: Any) -> bool:
    """Whether an element can be meant twice: only integer arrays can do that."""
    parts = index if isinstance(index, tuple) else (index,)
    return any(isinstance(p, np.ndarray) and p.dtype != bool for p in parts)


def _scatter_rule(g: Any, index: Any, shapes: list[tuple[int, ...]]) -> Any:
    """Zeros with g at the index. On arrays only the region is kept; the walk adds it into one buffer."""
    if isinstance(g, Tensor):
        return put(g, index=index, shape=shapes[0])
    return Region(index, g, repeats=_may_repeat(index))


@primitive(view=True, x=_scatter_rule)
def getitem(x: np.ndarray, *, index: Any) -> np.ndarray:
    return x[index]


@primitive(g=lambda h, index: getitem(h, index=index))
def put(g: np.ndarray, *, index: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Zeros of `shape` with g added at the index."""
    total = np.zeros(shape, g.dtype)
    Region(index, g, repeats=_may_repeat(index)).add_to(total)
    return total


@primitive(x=lambda g, index: blank(g, index=index), value=lambda g, index: getitem(g, index=index))
def assign(x: np.ndarray, value: Any, *, index: Any) -> np.ndarray:
    """x with `value` at the index."""
    out = x.copy()
    with np.errstate(all="ignore"):
        out[index] = value
    return out


@primitive(g=lambda h, index: blank(h, index=index))
def blank(g: np.ndarray, *, index: Any) -> np.ndarray:
    """g with zeros at the index."""
    g = g.copy()
    g[index] = 0
    return g


# --- what users write between brackets --------------------------------------------------------------------------------


def _part(name: str, part: Any) -> Any:
    """One part of an index as NumPy wants it: Tensors and lists become integer or bool arrays."""
    if part is None or part is Ellipsis or type(part) in (int, slice, bool):
        if type(part) is slice and part.step is not None and part.step <= 0:
            raise ValueError(f"{name}: the step of a slice must be positive, got {part.step}; use .flip(dim)")
        return part
    if isinstance(part, Tensor):
        part = part.array
    elif isinstance(part, (list, tuple, range)):
        part = np.asarray([p.array if isinstance(p, Tensor) else p for p in part])
    if isinstance(part, np.generic):
        part = np.asarray(part)
    if not isinstance(part, np.ndarray):
        if hasattr(part, "__index__"):
            return part.__index__()
        raise IndexError(
            f"{name}: an index is made of integers, slices, ..., None and tensors, got {type(part).__name__}"
        )
    if part.dtype == np.uint8 and part.ndim:
        return part.astype(bool)  # as PyTorch reads old masks
    if part.dtype.kind not in "iub":
        if part.size:
            raise IndexError(f"{name}: an index must be integers or bools, got {part.dtype}")
        part = part.astype(np.int64)
    return int(part) if part.ndim == 0 and part.dtype.kind in "iu" else part


def normal_index(name: str, index: Any, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """An index as a tuple of what NumPy knows.

    One that leads to a view contains `...`, so that NumPy gives a view even of a single element. One with index arrays
    has whole slices instead: to NumPy `...` keeps the arrays beside it apart, even where it stands for no axis.
    """
    given = index if isinstance(index, tuple) else (index,)
    used = dotted = 0
    for p in given:
        if type(p) is int or (type(p) is slice and p.step is None):
            used += 1
        elif p is ...:
            dotted += 1
        elif p is not None:
            break
    else:  # the common kind
        if used <= len(shape) and dotted <= 1:
            return given if dotted else (*given, ...)
    parts = [_part(name, part) for part in given]
    used = sum(
        p.ndim if isinstance(p, np.ndarray) and p.dtype == bool else not (p is None or p is ... or isinstance(p, bool))
        for p in parts
    )
    if used > len(shape):
        raise IndexError(f"{name}: {used} indices are too many for a tensor of shape {shape}")
    dots = [i for i, p in enumerate(parts) if p is ...]
    if len(dots) > 1:
        raise IndexError(f"{name}: an index can have only one '...'")
    if _is_basic(tuple(parts)):
        return tuple(parts) if dots else (*parts, ...)
    if dots:
        parts[dots[0] : dots[0] + 1] = [FULL] * (len(shape) - used)
    return tuple(parts)


def split_index(key: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Integers beside index arrays are looked up first, and then the arrays: (first key, second key).

    NumPy would take the integers for arrays, too, and put their (vanished) axes elsewhere.
    """
    first: list[Any] = []
    second: list[Any] = []
    for p in key:
        if isinstance(p, np.ndarray):
            first.extend([FULL] * (p.ndim if p.dtype == bool else 1))
            second.append(p)
        elif type(p) is int:
            first.append(p)
        else:
            first.append(p)
            second.append(... if p is ... else FULL)
    return tuple(first), tuple(second)


def mixes(key: tuple[Any, ...]) -> bool:
    """Whether there are both integers and arrays."""
    integers = arrays = False
    for p in key:
        if type(p) is int:
            integers = True
        elif isinstance(p, np.ndarray):
            arrays = True
    return integers and arrays


def index(x: Tensor, key: Any) -> Any:
    """x[key]."""
    key = normal_index("getitem", key, x.array.shape)
    try:
        if mixes(key):
            first, second = split_index(key)
            return getitem(getitem(x, index=first), index=second)
        return getitem(x, index=key)
    except IndexError as error:
        raise IndexError(f"getitem: {error} (shape {x.array.shape})") from None


# --- gather and scatter -----------------------------------------------------------------------------------------------


def _along(dim: int, index: np.ndarray) -> tuple[np.ndarray, ...]:
    """The full index that gather and scatter mean: `index` on axis `dim`, the own position on all others."""
    places = list(np.ogrid[tuple(slice(n) for n in index.shape)])
    places[dim] = index
    return tuple(places)


def _check_range(name: str, index: np.ndarray, size: int, dim: int) -> None:
    if category(index.dtype) != 1:
        raise RuntimeError(f"{name}: index must be an integer tensor, got {index.dtype}")
    if index.size and (index.min() < 0 or index.max() >= size):
        bad = index[(index < 0) | (index >= size)][0]
        raise IndexError(f"{name}: index must be in [0, {size - 1}] along dim {dim}, got {bad}")


def places(name: str, shape: tuple[int, ...], dim: int, index: Any) -> tuple[np.ndarray, ...]:
    """The checked full index of gather and scatter."""
    if not isinstance(index, Tensor):
        raise TypeError(f"{name}: index must be a tensor of integers, got {type(index).__name__}")
    array, dim = index.array, axis(name, dim, len(shape))
    if array.ndim != len(shape) or any(
        m > n for i, (m, n) in enumerate(zip(array.shape, shape, strict=True)) if i != dim
    ):
        raise RuntimeError(
            f"{name}: index of shape {array.shape} does not fit a tensor of shape {shape} along dim {dim}"
        )
    _check_range(name, array, shape[dim] if shape else 1, dim)
    return _along(dim, array) if shape else ()


def gather(x: Tensor, dim: int, index: Tensor) -> Any:
    """x at `index` along `dim`: out[i][j] = x[index[i][j]][j] for dim 0."""
    return getitem(x, index=places("gather", x.array.shape, dim, index))


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


def _slices(name: str, x: Tensor, dim: int, index: Tensor) -> tuple[Any, ...]:
    if not isinstance(index, Tensor) or index.array.ndim > 1:
        raise RuntimeError(f"{name}: index must be a tensor of integers with at most 1 dimension")
    dim = axis(name, dim, x.array.ndim)
    array = index.array.reshape(-1)
    if not array.size:
        array = array.astype(np.int64)
    _check_range(name, array, x.array.shape[dim] if x.array.ndim else 1, dim)
    return (*(FULL,) * dim, array) if x.array.ndim else ()


def index_select(x: Tensor, dim: int, index: Tensor) -> Any:
    """The slices number index[0], index[1], ... of axis `dim`."""
    return getitem(x, index=_slices("index_select", x, dim, index))


def index_add(x: Tensor, dim: int, index: Tensor, source: Tensor, alpha: Any = 1) -> Any:
    """x with the slices of `source` added at the places `index` of axis `dim`."""
    added = source if alpha == 1 else source * alpha
    return x + put(added, index=_slices("index_add", x, dim, index), shape=x.array.shape)


def index_copy(x: Tensor, dim: int, index: Tensor, source: Tensor) -> Any:
    return assign(x, source, index=_slices("index_copy", x, dim, index))


def index_fill(x: Tensor, dim: int, index: Tensor, value: Any) -> Any:
    return assign(x, value, index=_slices("index_fill", x, dim, index))


def index_put(x: Tensor, indices: Any, values: Any, accumulate: bool = False) -> Any:
    """x with x[indices] = values, or with values added there (several to one place, if the indices repeat)."""
    key = normal_index("index_put", tuple(indices), x.array.shape)
    if not accumulate:
        return assign(x, values, index=key)
    values = values if isinstance(values, Tensor) else make(np.asarray(values, x.array.dtype))
    wide = expand(values, shape=x.array[key].shape)
    return x + put(wide, index=key, shape=x.array.shape)


def take(x: Tensor, index: Tensor) -> Any:
    """Elements of the flattened tensor."""
    _check_range("take", index.array, x.array.size, 0)
    return getitem(x, index=np.unravel_index(index.array, x.array.shape))


def take_along_dim(x: Tensor, index: Tensor, dim: int) -> Any:
    """gather, after x and index were broadcast against each other in all axes but `dim`."""
    dim = axis("take_along_dim", dim, x.array.ndim)
    _check_range("take_along_dim", index.array, x.array.shape[dim], dim)
    shape = list(np.broadcast_shapes(*((*t[:dim], 1, *t[dim + 1 :]) for t in (x.array.shape, index.array.shape))))
    shape[dim] = index.array.shape[dim]
    whole = [*shape[:dim], x.array.shape[dim], *shape[dim + 1 :]]
    return gather(expand(x, shape=tuple(whole)), dim, make(np.broadcast_to(index.array, shape)))


# --- masks ------------------------------------------------------------------------------------------------------------


def _same_shape(name: str, x: Tensor, mask: Tensor) -> tuple[Any, np.ndarray]:
    if mask.array.dtype != bool:
        raise RuntimeError(f"{name}: mask must be a bool tensor, got {mask.array.dtype}; compare first (mask != 0)")
    check_broadcast(name, x.array.shape, mask.array.shape)
    shape = np.broadcast_shapes(x.array.shape, mask.array.shape)
    return (x if x.array.shape == shape else expand(x, shape=shape)), np.broadcast_to(mask.array, shape)


def masked_select(x: Tensor, mask: Tensor) -> Any:
    """The elements where the mask is True, as a vector."""
    x, chosen = _same_shape("masked_select", x, mask)
    return getitem(x, index=(chosen,))


def masked_scatter(x: Tensor, mask: Tensor, source: Tensor) -> Any:
    """x with the first elements of `source`, in order, where the mask is True."""
    x, chosen = _same_shape("masked_scatter", x, mask)
    count = int(np.count_nonzero(chosen))
    if source.array.size < count:
        raise RuntimeError(f"masked_scatter: the mask asks for {count} elements, source has {source.array.size}")
    first = np.unravel_index(np.arange(count), source.array.shape)
    return assign(x, getitem(source, index=first), index=(chosen,))


def nonzero(x: Tensor, as_tuple: bool = False) -> Any:
    """The indices of the elements that are not 0: one row each, or one tensor for each axis."""
    if as_tuple:
        return tuple(make(i) for i in np.atleast_1d(x.array).nonzero())
    return make(np.argwhere(x.array))
