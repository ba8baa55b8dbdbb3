"""Which elements an index means, as NumPy knows it: what users write between brackets, or give to gather or scatter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tinygrad_tf.engine import Tensor, Watched, expand, watched
from tinygrad_tf.ops._types import axis, category, check_broadcast

FULL = slice(None)
INDICES = {np.dtype(kind) for kind in (np.int64, np.int32, np.bool_)}  # what index tensors may hold

# --- between brackets -------------------------------------------------------------------------------------------------


def _is_basic(parts: Sequence[Any]) -> bool:
    """Whether the index has only integers, slices, None and ..., so that it leads to a view."""
    found = [p for p in parts if isinstance(p, (np.ndarray, bool))]
    return not found


def may_repeat(index: Any) -> bool:
    """Whether an element can be meant twice: only integer arrays can do that."""
    parts = index if isinstance(index, tuple) else (index,)
    if type(index) is Watched and index.once:
        return False
    return any(isinstance(p, np.ndarray) and p.dtype.char != "?" for p in parts)


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
        if _is_sequence(part):
            return _part(name, [part[i] for i in range(len(part))])
        raise IndexError(
            f"{name}: an index is made of integers, slices, ..., None and tensors, got {type(part).__name__}"
        )
    if part.dtype.char == "B" and part.ndim:
        return part.astype(bool)  # as PyTorch reads old masks
    if part.dtype.kind not in "iub":
        if part.size:
            raise IndexError(f"{name}: an index must be integers or bools, got {part.dtype}")
        part = part.astype(np.int64)
    if part.ndim and part.dtype not in INDICES:
        raise IndexError(f"{name}: index tensors must be int64, int32, uint8 or bool, got {part.dtype}; use .long()")
    return int(part) if part.ndim == 0 and part.dtype.kind in "iu" else part


def _is_sequence(x: Any) -> bool:
    """Whether it has elements in an order, by what it can do, as a Subset of a list of indices."""
    return hasattr(x, "__getitem__") and hasattr(x, "__len__") and not isinstance(x, (str, bytes, Mapping))


def _as_written_out(index: Any) -> tuple[Any, ...]:
    """The parts of an index. A short list of lists, tensors or slices means the tuple of them, as once in NumPy."""
    if isinstance(index, tuple):
        return index
    if not isinstance(index, (int, slice, Tensor, np.ndarray, np.generic, list)) and _is_sequence(index):
        index = [index[i] for i in range(len(index))]
    if isinstance(index, list) and len(index) < 32:
        several = (Tensor, np.ndarray, list, tuple, range, slice)
        if any(p is None or p is ... or isinstance(p, several) for p in index):
            return tuple(index)
    return (index,)


def normal_index(name: str, index: Any, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """An index as a tuple of what NumPy knows.

    One that leads to a view contains `...`, so that NumPy gives a view even of a single element. One with index arrays
    has whole slices instead: to NumPy `...` keeps the arrays beside it apart, even where it stands for no axis. It
    knows the tensors that these arrays came from, so that a later change of one is noticed (`graph.Watched`).
    """
    given = _as_written_out(index)
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
    key = _normal_parts(name, [_part(name, part) for part in given], shape)
    return key if _is_basic(key) else watched(key, [p for p in given if isinstance(p, Tensor)])


def _normal_parts(name: str, parts: list[Any], shape: tuple[int, ...]) -> tuple[Any, ...]:
    used = sum(
        p.ndim if isinstance(p, np.ndarray) and p.dtype == bool else not (p is None or p is ... or isinstance(p, bool))
        for p in parts
    )
    if used > len(shape):
        raise IndexError(f"{name}: {used} indices are too many for a tensor of shape {shape}")
    dots = [i for i, p in enumerate(parts) if p is ...]
    if len(dots) > 1:  # the first stands for all axes that are left, and any other for none
        if used < len(shape) and any(p is not ... for p in parts[dots[1] :]):
            raise IndexError(f"{name}: behind a second '...' there can be no more indices; write ':' for single axes")
        parts = [p for i, p in enumerate(parts) if p is not ... or i == dots[0]]
    if _is_basic(parts):
        return tuple(parts) if dots else (*parts, ...)
    if dots:
        parts[dots[0] : dots[0] + 1] = [FULL] * (len(shape) - used)
    return tuple(parts)


def split_index(key: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Integers beside index arrays (or True and False, which are such) are looked up first, and then the arrays:
    (first key, second key).

    NumPy would take the integers for arrays, too, and put their (vanished) axes elsewhere. The first key leads to a
    view, also of a single element.
    """
    first: list[Any] = []
    second: list[Any] = []
    for p in key:
        if isinstance(p, np.ndarray):
            first.extend([FULL] * (p.ndim if p.dtype == bool else 1))
            second.append(p)
        elif type(p) is bool:
            second.append(p)
        elif type(p) is int:
            first.append(p)
        else:
            first.append(p)
            second.append(... if p is ... else FULL)
    if ... not in first:
        first.append(...)
    later = Watched(second)
    later.storages = key.storages if isinstance(key, Watched) else ()
    return tuple(first), later


def mixes(key: tuple[Any, ...]) -> bool:
    """Whether there are both integers and arrays."""
    integers = arrays = False
    for p in key:
        if type(p) is int:
            integers = True
        elif isinstance(p, (np.ndarray, bool)):
            arrays = True
    return integers and arrays


# --- an index along one axis, a mask ----------------------------------------------------------------------------------


def along(dim: int, index: np.ndarray) -> tuple[np.ndarray, ...]:
    """The full index that gather and scatter mean: `index` on axis `dim`, the own position on all others."""
    if index.ndim == 1:
        return (index,)
    ones = (1,) * index.ndim  # np.ogrid gives the same in ten times as long
    return tuple(
        [index if i == dim else np.arange(n).reshape((*ones[:i], n, *ones[i + 1 :])) for i, n in enumerate(index.shape)]
    )


def check_range(
    name: str, index: np.ndarray, size: int, dim: int, negative: bool = False, error: type[Exception] = IndexError
) -> np.ndarray:
    """The index, after a check that it is in range. negative: numbers below 0 count from the end, as in a list."""
    if category(index.dtype) != 1:
        raise RuntimeError(f"{name}: index must be an integer tensor, got {index.dtype}")
    least = -size if negative else 0
    if index.size and (np.minimum.reduce(index, None) < least or np.maximum.reduce(index, None) >= size):
        bad = index[(index < least) | (index >= size)][0]
        raise error(f"{name}: index must be in [{least}, {size - 1}] along dim {dim}, got {bad}")
    return np.where(index < 0, index + size, index) if negative else index


def places(name: str, shape: tuple[int, ...], dim: int, index: Any) -> tuple[np.ndarray, ...]:
    """The checked full index of gather and scatter."""
    if not isinstance(index, Tensor):
        raise TypeError(f"{name}: index must be a tensor of integers, got {type(index).__name__}")
    array, dim = index.array, axis(name, dim, len(shape))
    fits = max(array.ndim, 1) == max(len(shape), 1)
    for i, (m, n) in enumerate(zip(array.shape, shape, strict=False)):
        fits &= m <= n or i == dim
    if not fits:
        raise RuntimeError(
            f"{name}: index of shape {array.shape} does not fit a tensor of shape {shape} along dim {dim}"
        )
    check_range(name, array, shape[dim] if shape else 1, dim, error=RuntimeError)
    if len(shape) == 1:
        return watched((array,), [index])  # which may be 0-d
    return watched(along(dim, array), [index]) if shape else ()


def slices_along(name: str, x: Tensor, dim: int, index: Tensor, negative: bool = False) -> tuple[Any, ...]:
    """The checked full index of index_select and its like: whole slices of axis `dim`."""
    if not isinstance(index, Tensor) or index.array.ndim > 1:
        got = type(index).__name__ if not isinstance(index, Tensor) else f"shape {index.array.shape}"
        raise RuntimeError(f"{name}: index must be a tensor of integers with at most 1 dimension, got {got}")
    dim = axis(name, dim, x.array.ndim)
    array = index.array.reshape(-1)
    if not array.size:
        array = array.astype(np.int64)
    array = check_range(name, array, x.array.shape[dim] if x.array.ndim else 1, dim, negative)
    return watched((*(FULL,) * dim, array), [index]) if x.array.ndim else ()


def masked(name: str, x: Tensor, mask: Tensor) -> tuple[Any, tuple[np.ndarray]]:
    """x and the checked mask as an index, broadcast against each other."""
    if mask.array.dtype != bool:
        raise RuntimeError(f"{name}: mask must be a bool tensor, got {mask.array.dtype}; compare first (mask != 0)")
    check_broadcast(name, x.array.shape, mask.array.shape)
    shape = np.broadcast_shapes(x.array.shape, mask.array.shape)
    key = watched((np.broadcast_to(mask.array, shape),), [mask])
    return (x if x.array.shape == shape else expand(x, shape=shape)), key
