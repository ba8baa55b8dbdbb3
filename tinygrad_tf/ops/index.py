"""Reading and writing by index: slices, integer arrays, masks, gather and scatter."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinygrad_tf.engine import Region, Tensor, primitive
from tinygrad_tf.ops._types import axis, category


def _is_basic(index: Any) -> bool:
    """Whether the index has only integers, slices, None and ..., so that no element can be meant twice."""
    parts = index if isinstance(index, tuple) else (index,)
    return not any(isinstance(p, np.ndarray) for p in parts)


def _scatter_rule(g: Any, index: Any, shapes: list[tuple[int, ...]]) -> Any:
    """Zeros with g at the index. On arrays only the region is kept; the walk adds it into one buffer."""
    if isinstance(g, Tensor):
        return put(g, index=index, shape=shapes[0])
    return Region(index, g, repeats=not _is_basic(index))


@primitive(view=True, x=_scatter_rule)
def getitem(x: np.ndarray, *, index: Any) -> np.ndarray:
    return x[index]


@primitive(g=lambda h, index: getitem(h, index=index))
def put(g: np.ndarray, *, index: Any, shape: tuple[int, ...]) -> np.ndarray:
    total = np.zeros(shape, g.dtype)
    Region(index, g, repeats=not _is_basic(index)).add_to(total)
    return total


def normal_index(name: str, index: Any, shape: tuple[int, ...]) -> Any:
    """An index as NumPy wants it: Tensors and lists become integer or bool arrays, and what is out of range is told."""
    parts = index if isinstance(index, tuple) else (index,)
    normal: list[Any] = []
    for part in parts:
        if isinstance(part, Tensor):
            part = part.array
        if isinstance(part, list):
            part = np.asarray([p.array if isinstance(p, Tensor) else p for p in part])
        if isinstance(part, np.ndarray):
            if part.dtype.kind not in "iub":
                if part.size:
                    raise IndexError(f"{name}: an index must be integers or bools, got {part.dtype}")
                part = part.astype(np.int64)
            if part.ndim == 0 and part.dtype.kind in "iu":
                part = int(part)
        normal.append(part)
    return tuple(normal) if isinstance(index, tuple) else normal[0]


def index(x: Tensor, key: Any) -> Any:
    key = normal_index("getitem", key, x.array.shape)
    try:
        return getitem(x, index=key)
    except IndexError as error:
        raise IndexError(f"getitem: {error} (shape {x.array.shape})") from None


def _along(shape: tuple[int, ...], dim: int, index: np.ndarray) -> tuple[np.ndarray, ...]:
    """The full index that gather and scatter mean: `index` on axis `dim`, the own position on all others."""
    places = list(np.ogrid[tuple(slice(n) for n in index.shape)])
    places[dim] = index
    return tuple(places)


def _check_gather(name: str, shape: tuple[int, ...], dim: int, index: np.ndarray) -> None:
    if category(index.dtype) != 1:
        raise RuntimeError(f"{name}: index must be an integer tensor, got {index.dtype}")
    if index.ndim != len(shape) or any(m > n for i, (m, n) in enumerate(zip(index.shape, shape, strict=True)) if i != dim):
        raise RuntimeError(f"{name}: index of shape {index.shape} does not fit a tensor of shape {shape} along dim {dim}")
    if index.size and (index.min() < 0 or index.max() >= shape[dim]):
        bad = index[(index < 0) | (index >= shape[dim])][0]
        raise IndexError(f"{name}: index must be in [0, {shape[dim] - 1}] along dim {dim}, got {bad}")


def gather(x: Tensor, dim: int, index: Tensor) -> Any:
    """x at `index` along `dim`: out[i][j] = x[index[i][j]][j] for dim 0."""
    shape = x.array.shape
    if not shape:
        return x
    dim = axis("gather", dim, len(shape))
    _check_gather("gather", shape, dim, index.array)
    return getitem(x, index=_along(shape, dim, index.array))
