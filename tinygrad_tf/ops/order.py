"""Operations that put elements in order: sorting, the k largest, quantiles, counting, searching.

The order is found on plain arrays; values are then gathered, so that gradients flow to where they came from. A NaN
counts as larger than every number.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tinygrad_tf._layout import in_order
from tinygrad_tf.engine import Tensor, cast, make, primitive
from tinygrad_tf.ops._places import along, check_range
from tinygrad_tf.ops._types import axis, category, default_float
from tinygrad_tf.ops.elementwise import lerp, where
from tinygrad_tf.ops.index import gather, pick
from tinygrad_tf.ops.reduce import largest_rule
from tinygrad_tf.ops.scan import cumulative_extreme
from tinygrad_tf.ops.shape import flatten, stack

Pair = tuple[Any, Any]
FEW = 64  # elements that are sorted sooner than the largest of them are found


def sorted_places(x: np.ndarray, dim: int, descending: bool) -> np.ndarray:
    """The indices that sort x along dim; equal elements stay in their order."""
    if not x.ndim:
        return np.zeros((), np.int64)
    if not descending:
        return np.argsort(x, axis=dim, kind="stable")
    back = (*(slice(None),) * dim, slice(None, None, -1))
    return x.shape[dim] - 1 - np.argsort(x[back], axis=dim, kind="stable")[back]


def argsort(x: Tensor, dim: int = -1, descending: bool = False) -> Any:
    return make(sorted_places(x.array, axis("argsort", dim, x.array.ndim), descending))


def sort(x: Tensor, dim: int = -1, descending: bool = False) -> Pair:
    dim = axis("sort", dim, x.array.ndim)
    return pick(x, dim, sorted_places(x.array, dim, descending))


def topk(x: Tensor, k: int, dim: int = -1, largest: bool = True) -> Pair:
    """The k largest (smallest) along dim, in order, and where they are. Of many elements only they are sorted."""
    dim = axis("topk", dim, x.array.ndim)
    n = x.array.shape[dim] if x.array.ndim else 1
    if not 0 <= k <= n:
        raise RuntimeError(f"topk: k must be in [0, {n}] for dim {dim} of shape {x.array.shape}, got {k}")
    if not x.array.ndim:
        return pick(x, 0, np.zeros((), np.int64))
    if n < FEW:
        first = (*(slice(None),) * dim, slice(k))
        return pick(x, dim, in_order(sorted_places(x.array, dim, largest)[first]))
    last = dim == x.array.ndim - 1
    rows = x.array if last else np.moveaxis(x.array, dim, -1)
    if 0 < k < n:
        cut = n - k if largest else k - 1
        among = np.argpartition(rows, cut, axis=-1)
        among = np.sort(among[..., n - k :] if largest else among[..., :k], axis=-1)
    else:
        among = np.broadcast_to(np.arange(n)[:k], (*rows.shape[:-1], k))
    order = sorted_places(rows[along(rows.ndim - 1, among)], rows.ndim - 1, largest)
    found = among[along(rows.ndim - 1, order)]
    return pick(x, dim, found if last else np.ascontiguousarray(np.moveaxis(found, -1, dim)))


def extreme(x: Tensor, dim: int, keepdim: bool, largest: bool) -> Pair:
    """The largest (smallest) along dim and where the first of them is; the whole gradient goes there."""
    name = "max" if largest else "min"
    dim = axis(name, dim, x.array.ndim)
    if x.array.ndim and not x.array.shape[dim]:
        raise IndexError(f"{name}: there is no {name} along dim {dim} of shape {x.array.shape}")
    if not x.array.ndim:
        return pick(x, 0, np.zeros((), np.int64))
    find = x.array.argmax if largest else x.array.argmin
    return pick(x, dim, find(axis=dim, keepdims=True), keepdim)


def cumulative(x: Tensor, dim: int, largest: bool) -> Pair:
    """The largest (smallest) element so far, and where it is."""
    dim = axis("cummax" if largest else "cummin", dim, x.array.ndim)
    places = make(cumulative_extreme(x.array, dim, largest))
    return gather(x, dim, places), places


def kthvalue(x: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Pair:
    """The k-th smallest along dim (k from 1 on) and where it is."""
    dim = axis("kthvalue", dim, x.array.ndim)
    n = x.array.shape[dim] if x.array.ndim else 1
    if not n:
        raise IndexError(f"kthvalue: there is none along dim {dim} of shape {x.array.shape}")
    if not 1 <= k <= n:
        raise RuntimeError(f"kthvalue: k must be in [1, {n}] for dim {dim} of shape {x.array.shape}, got {k}")
    places = sorted_places(x.array, dim, False)
    return pick(x, dim, places if not x.array.ndim else np.take(places, [k - 1], dim), keepdim)


def mode(x: Tensor, dim: int = -1, keepdim: bool = False) -> Pair:
    """The most frequent element along dim, the smallest of several such, and where it is last."""
    dim = axis("mode", dim, x.array.ndim)
    if not x.array.ndim:
        return kthvalue(x, 1, dim, keepdim)
    if not x.array.shape[dim]:
        raise IndexError(f"mode: there is no mode along dim {dim} of shape {x.array.shape}")
    places = sorted_places(x.array, dim, False)
    rows = np.moveaxis(np.take_along_axis(x.array, places, dim), dim, -1)
    counts = np.arange(rows.shape[-1])
    first = np.zeros(rows.shape, np.int64)  # where the run of equals began that each element belongs to
    first[..., 1:] = np.where(rows[..., 1:] != rows[..., :-1], counts[1:], 0)
    last = np.argmax(counts - np.maximum.accumulate(first, axis=-1), axis=-1, keepdims=True)
    return pick(x, dim, np.take_along_axis(places, np.moveaxis(last, -1, dim), dim), keepdim)


def median(x: Tensor, dim: int, keepdim: bool = False) -> Pair:
    """The middle element, the lower one of two; NaN if there is one."""
    dim = axis("median", dim, x.array.ndim)
    n = x.array.shape[dim] if x.array.ndim else 1
    if not n:
        raise IndexError(f"median: there is no median along dim {dim} of shape {x.array.shape}")
    if not x.array.ndim:
        return kthvalue(x, 1, dim, keepdim)
    places = sorted_places(x.array, dim, False)
    bad = np.isnan(x.array).any(dim, keepdims=True) if category(x.array.dtype) == 2 else np.False_
    first_bad = np.argmax(x.array != x.array, axis=dim, keepdims=True)
    return pick(x, dim, np.where(bad, first_bad, np.take(places, [(n - 1) // 2], dim)), keepdim)


def nanmedian(x: Tensor, dim: int, keepdim: bool = False) -> Pair:
    """The middle one of the elements that are not NaN, the lower one of two; NaN where there is no other."""
    if category(x.array.dtype) < 2 or not x.array.ndim:
        return median(x, dim, keepdim)
    dim = axis("nanmedian", dim, x.array.ndim)
    if not x.array.shape[dim]:
        raise IndexError(f"nanmedian: there is no median along dim {dim} of shape {x.array.shape}")
    known = np.count_nonzero(~np.isnan(x.array), axis=dim, keepdims=True)
    places = sorted_places(x.array, dim, False)  # NaN stands last
    return pick(x, dim, np.take_along_axis(places, np.maximum(known - 1, 0) // 2, dim), keepdim)


@primitive(x=largest_rule)
def median_of_all(x: np.ndarray) -> np.ndarray:
    """The middle element of all, the lower one of two, NaN if there is one; its equals share the gradient."""
    if not x.size or (category(x.dtype) == 2 and np.isnan(x).any()):
        return np.full((), np.nan, x.dtype)
    middle = (x.size - 1) // 2
    return np.partition(x, middle, axis=None)[middle]


@primitive(x=largest_rule)
def nanmedian_of_all(x: np.ndarray) -> np.ndarray:
    """median_of_all of what is not NaN."""
    found: np.ndarray = median_of_all.forward(x[x == x])
    return found


BETWEEN: dict[str, Callable[[float], float]] = {  # which place is taken for one between two elements
    "linear": float,
    "lower": math.floor,
    "higher": math.ceil,
    "midpoint": lambda place: (math.floor(place) + math.ceil(place)) / 2,
    "nearest": round,  # of two as near, the one at the even place
}


def quantile(x: Tensor, q: Any, dim: int | None = None, keepdim: bool = False, interpolation: str = "linear") -> Any:
    """The value below which a share q of the elements lies; for a vector of shares, one after the other."""
    if interpolation not in BETWEEN:
        raise RuntimeError(f"quantile: interpolation must be one of {', '.join(BETWEEN)}, got {interpolation!r}")
    if isinstance(q, Tensor):
        if q.array.ndim > 1:
            raise RuntimeError(f"quantile: q must be a number or a vector, got a tensor of shape {q.array.shape}")
        if q.array.ndim:
            return stack([quantile(x, share, dim, keepdim, interpolation) for share in q.array.tolist()])
        q = q.array.item()
    if not 0.0 <= q <= 1.0:
        raise RuntimeError(f"quantile: q must be in [0, 1], got {q}")
    if category(x.array.dtype) < 2:
        x = cast(x, dtype=default_float())
    dim = None if dim is None else axis("quantile", dim, x.array.ndim)
    rows = flatten(x) if dim is None or not x.array.ndim else x
    dim, keepdim = dim or 0, keepdim and x.array.ndim > 0
    if not rows.array.shape[dim]:
        raise RuntimeError(f"quantile: there is none of no elements (shape {x.array.shape})")
    place = q * (rows.array.shape[dim] - 1)
    low = int(place)
    below = kthvalue(rows, low + 1, dim, keepdim)[0]
    above = kthvalue(rows, min(low + 2, rows.array.shape[dim]), dim, keepdim)[0]
    weight = BETWEEN[interpolation](place) - low
    result = above if weight == 1.0 else below  # without the other one's infinity times 0
    if 0.0 < weight < 1.0:
        result = lerp(below, above, weight)
    if not np.isnan(rows.array).any():
        return result
    bad = make(np.isnan(rows.array).any(dim, keepdims=keepdim))
    return where(bad, median(rows, dim, keepdim)[0], result)  # the median of a row with a NaN is that NaN


# --- counting and searching: integers, without gradients --------------------------------------------------------------


def unique(x: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None) -> Any:
    """The different elements (or slices of axis `dim`), in order."""
    if dim is not None and not x.array.ndim:
        raise IndexError(f"unique: a 0-d tensor has no dim {dim}")
    dim = dim if dim is None else axis("unique", dim, x.array.ndim)
    found = np.unique(x.array, return_inverse=True, return_counts=True, axis=dim, equal_nan=False)
    values, inverse, counts = found
    parts = [values]
    if return_inverse:
        parts.append(inverse.reshape(x.array.shape if dim is None else -1))
    if return_counts:
        parts.append(counts)
    made = tuple(make(p) for p in parts)
    return made if len(made) > 1 else made[0]


def unique_consecutive(
    x: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """The flattened elements (or the slices of axis `dim`) without those that equal the one before."""
    dim = dim if dim is None else axis("unique_consecutive", dim, x.array.ndim)
    rows = x.array.reshape(-1) if dim is None else np.moveaxis(x.array, dim, 0)
    n = rows.shape[0]
    new = np.ones(n, bool)
    new[1:] = (rows[1:] != rows[:-1]).any(tuple(range(1, rows.ndim)))
    starts = np.flatnonzero(new)
    parts = [rows[starts] if dim is None else np.moveaxis(rows[starts], 0, dim)]
    if return_inverse:
        parts.append((np.cumsum(new) - 1).reshape(x.array.shape if dim is None else n))
    if return_counts:
        parts.append(np.diff(np.append(starts, n)))
    made = tuple(make(p) for p in parts)
    return made if len(made) > 1 else made[0]


def bincount(x: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Any:
    """How often 0, 1, 2, ... occur in a vector (or the sum of their weights)."""
    array = x.array
    if array.ndim != 1 or category(array.dtype) != 1 or array.min(initial=0) < 0:
        raise RuntimeError(f"bincount: needs a vector of integers from 0 on, got {array.dtype} of shape {array.shape}")
    if weights is not None and weights.array.shape != array.shape:
        wanted, got = array.shape, weights.array.shape
        raise RuntimeError(f"bincount: weights must have the shape of the input, {wanted}, got {got}")
    if weights is None:
        return make(np.bincount(array, minlength=minlength))
    sums = np.bincount(array, weights.array, minlength)
    return make(sums.astype(weights.array.dtype if weights.array.dtype == np.float32 else np.float64))


def histc(x: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Any:
    """How many elements lie in each of `bins` equal parts of [min, max]; others are not counted."""
    if not isinstance(bins, int) or bins < 1:
        raise RuntimeError(f"histc: bins must be an integer from 1 on, got {bins!r}")
    if min > max:
        raise RuntimeError(f"histc: min must not be above max, got {min} and {max}")
    low, high = (min, max) if (min, max) != (0, 0) or not x.array.size else (x.array.min(), x.array.max())
    return make(np.histogram(x.array, bins, (float(low), float(high)))[0].astype(x.array.dtype))


def histogram(
    x: Tensor, bins: Any, limits: tuple[float, float] | None = None, weight: Any = None, density: bool = False
) -> Pair:
    """How many elements, or what weights, lie between the edges: `bins` equal parts of the limits, or edges given."""
    edges = bins.array if isinstance(bins, Tensor) else bins
    weights = weight.array.reshape(-1) if isinstance(weight, Tensor) else None
    if not isinstance(bins, Tensor) and (not isinstance(bins, int) or bins < 1):
        kind = RuntimeError if isinstance(bins, int) else TypeError
        raise kind(f"histogram: bins must be an integer from 1 on or a vector of edges, got {bins!r}")
    if isinstance(bins, Tensor) and bins.array.ndim != 1:
        raise RuntimeError(f"histogram: edges must be a vector, got shape {bins.array.shape}")
    if weights is not None and weight.array.shape != x.array.shape:
        wanted, got = x.array.shape, weight.array.shape
        raise RuntimeError(f"histogram: weight must have the shape of the input, {wanted}, got {got}")
    counts, between = np.histogram(x.array.reshape(-1), edges, limits, density, weights)
    return make(counts.astype(x.array.dtype)), make(between.astype(x.array.dtype))


def searchsorted(sorted_sequence: Any, values: Any, right: bool = False, sorter: Tensor | None = None) -> Any:
    """Where the values would have to be put in a sorted vector; for a tensor of more axes, row by row.

    sorter: the order that sorts the sequence (as argsort gives it), where it is not sorted itself.
    """
    rows, wanted = (np.asarray(t.array if isinstance(t, Tensor) else t) for t in (sorted_sequence, values))
    side: Any = "right" if right else "left"
    if not rows.ndim:
        raise RuntimeError("searchsorted: the sorted sequence must have at least one dimension, got a number")
    if sorter is not None:
        if sorter.array.shape != rows.shape or sorter.array.dtype != np.int64:
            got = f"{sorter.array.dtype} of shape {sorter.array.shape}"
            raise RuntimeError(f"searchsorted: sorter must be int64 of the sequence's shape {rows.shape}, got {got}")
        order = check_range("searchsorted", sorter.array, rows.shape[-1], rows.ndim - 1)
        rows = np.take_along_axis(rows, order, -1)
    if rows.ndim == 1:
        return make(np.asarray(np.searchsorted(rows, wanted, side)))
    if rows.shape[:-1] != wanted.shape[:-1]:
        raise RuntimeError(f"searchsorted: rows of shape {rows.shape} do not fit values of shape {wanted.shape}")
    out = np.empty(wanted.shape, np.int64)
    for place in np.ndindex(rows.shape[:-1]):
        out[place] = np.searchsorted(rows[place], wanted[place], side)
    return make(out)
