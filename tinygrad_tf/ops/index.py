"""Reading by index: slices, integer arrays, masks, gather. What writes there (`_assign`) is offered here, too."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinygrad_tf.engine import Tensor, Watched, expand, make, watched
from tinygrad_tf.ops._assign import (
    index_add,
    index_copy,
    index_fill,
    index_put,
    masked_scatter,
    scatter,
    scatter_add,
    scatter_reduce,
)
from tinygrad_tf.ops._at_index import assign, blank, getitem, put
from tinygrad_tf.ops._places import (
    FULL,
    along,
    check_range,
    masked,
    mixes,
    normal_index,
    places,
    slices_along,
    split_index,
)
from tinygrad_tf.ops._types import axis, check_broadcast

__all__ = [
    "FULL",
    "assign",
    "blank",
    "gather",
    "getitem",
    "index",
    "index_add",
    "index_copy",
    "index_fill",
    "index_put",
    "index_select",
    "masked_scatter",
    "masked_select",
    "mixes",
    "nonzero",
    "normal_index",
    "pick",
    "places",
    "put",
    "scatter",
    "scatter_add",
    "scatter_reduce",
    "split_index",
    "take",
    "take_along_dim",
]


def index(x: Tensor, key: Any) -> Any:
    """x[key]."""
    key = normal_index("getitem", key, x.array.shape)
    try:
        if type(key) is Watched and mixes(key):
            first, second = split_index(key)
            return getitem(getitem(x, index=first), index=second)
        return getitem(x, index=key)
    except IndexError as error:
        raise IndexError(f"getitem: {error} (shape {x.array.shape})") from None


gathered, selected = getitem.twin("gather"), getitem.twin("index_select")


def gather(x: Tensor, dim: int, index: Tensor) -> Any:
    """x at `index` along `dim`: out[i][j] = x[index[i][j]][j] for dim 0. An empty index may have any shape."""
    if not x.array.ndim and isinstance(index, Tensor) and index.array.ndim == 1:
        x = expand(x, shape=(1,))
    if isinstance(index, Tensor) and not index.array.size:
        axis("gather", dim, x.array.ndim)
        return gathered(x, index=(np.zeros(index.array.shape, np.int64),) * x.array.ndim)
    return gathered(x, index=places("gather", x.array.shape, dim, index))


def index_select(x: Tensor, dim: int, index: Tensor) -> Any:
    """The slices number index[0], index[1], ... of axis `dim`."""
    return selected(x, index=slices_along("index_select", x, dim, index))


def pick(x: Tensor, dim: int, where_to: np.ndarray, keepdim: bool = True) -> tuple[Any, Any]:
    """x at places that were found along dim, none of them twice, and these places; without dim, if it has one entry."""
    if not x.array.ndim:
        return getitem(x, index=()), make(where_to)
    parts = along(dim, where_to)
    if not keepdim:
        parts = tuple([part.squeeze(dim) for part in parts])
    found = make(parts[dim])
    key = watched(parts, [found])
    key.once = True
    return getitem(x, index=key), found


def take(x: Tensor, index: Tensor) -> Any:
    """Elements of the flattened tensor; -1 is the last one."""
    x = x if x.array.ndim else expand(x, shape=(1,))
    return getitem(x, index=np.unravel_index(flat_places("take", x, index), x.array.shape))


def flat_places(name: str, x: Tensor, index: Tensor) -> np.ndarray:
    """Which elements of the flattened tensor are meant; -1 is the last one."""
    return check_range(name, index.array, x.array.size, 0, negative=True)


def take_along_dim(x: Tensor, index: Tensor, dim: int) -> Any:
    """gather, after x and index were broadcast against each other in all axes but `dim`; -1 is the last element."""
    source, where_to = x.array.shape, index.array.shape
    if len(source) != len(where_to) or not source:
        wanted = f"as many dimensions as the tensor of shape {source}, and not 0"
        raise RuntimeError(f"take_along_dim: indices must have {wanted}, got shape {where_to}")
    dim = axis("take_along_dim", dim, len(source))
    chosen = check_range("take_along_dim", index.array, source[dim], dim, negative=True)
    check_broadcast("take_along_dim", *((*t[:dim], 1, *t[dim + 1 :]) for t in (source, where_to)))
    beside = list(np.broadcast_shapes(*((*t[:dim], 1, *t[dim + 1 :]) for t in (source, where_to))))
    whole = (*beside[:dim], source[dim], *beside[dim + 1 :])
    wide = np.broadcast_to(chosen, (*beside[:dim], where_to[dim], *beside[dim + 1 :]))
    return gather(expand(x, shape=whole), dim, make(wide))


def masked_select(x: Tensor, mask: Tensor) -> Any:
    """The elements where the mask is True, as a vector."""
    x, chosen = masked("masked_select", x, mask)
    return getitem(x, index=chosen)


def nonzero(x: Tensor, as_tuple: bool = False) -> Any:
    """The indices of the elements that are not 0: one row each, or one tensor for each axis."""
    if as_tuple:
        return tuple(make(i) for i in np.atleast_1d(x.array).nonzero())
    return make(np.argwhere(x.array))
