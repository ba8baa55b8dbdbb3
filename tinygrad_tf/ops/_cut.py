"""Parts of a tensor along one axis, as views: narrow, select, split and its like."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from tinygrad_tf.engine import Tensor
from tinygrad_tf.ops._types import axis, told
from tinygrad_tf.ops.index import getitem


def _whole(name: str, what: str, value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name}: {what} must be a whole number, got {told(value)}") from None


def _number_or_list(name: str, what: str, value: Any) -> int | list[int]:
    """What may be one number (also a 0-d tensor) or a list of them, as whole numbers."""
    if np.ndim(value.array if isinstance(value, Tensor) else value):
        return [_whole(name, f"an element of {what}", n) for n in value]
    return _whole(name, what, value)


def _cuttable(name: str, dim: int, x: Tensor, error: type[Exception] = RuntimeError) -> int:
    """`dim` as a number from 0 on; a 0-d tensor has none."""
    dim = axis(name, dim, x.array.ndim)
    if not x.array.ndim:
        raise error(f"{name}: a 0-d tensor has no dimension to take apart")
    return dim


def narrow(x: Tensor, dim: int, start: int, length: int) -> Any:
    """`length` entries of axis `dim` from `start` on, as a view."""
    dim = _cuttable("narrow", dim, x)
    size = x.array.shape[dim]
    start, length = _whole("narrow", "start", start), _whole("narrow", "length", length)
    if not -size <= start <= size:
        raise IndexError(f"narrow: start must be in [{-size}, {size}] along dim {dim}, got {start}")
    start += size if start < 0 else 0
    if length < 0 or start < 0 or start + length > size:
        raise RuntimeError(f"narrow: start {start} and length {length} leave dim {dim}, which has {size} entries")
    return getitem(x, index=(slice(None),) * dim + (slice(start, start + length),))


def split(x: Tensor, split_size: int | Sequence[int], dim: int = 0) -> tuple[Any, ...]:
    """Views of `split_size` entries each (the last may be shorter), or of the sizes given."""
    dim = _cuttable("split", dim, x)
    total = x.array.shape[dim]
    given = split_size if type(split_size) is int else _number_or_list("split", "split_size", split_size)
    if isinstance(given, int):
        if given <= 0:
            raise RuntimeError(f"split: split_size must be positive, got {given}")
        sizes = [min(given, total - start) for start in range(0, total, given)] or [0]
    else:
        sizes = given
        if sum(sizes) != total or min(sizes, default=0) < 0:
            raise RuntimeError(f"split: sizes {sizes} must add up to {total}, the size of dim {dim}")
    before, start, parts = (slice(None),) * dim, 0, []
    for size in sizes:
        stop = start + size
        parts.append(getitem(x, index=(*before, slice(start, stop))))
        start = stop
    return tuple(parts)


def chunk(x: Tensor, chunks: int, dim: int = 0) -> tuple[Any, ...]:
    """At most `chunks` views of the same size; the last may be smaller. Nothing is `chunks` times nothing."""
    chunks = _whole("chunk", "chunks", chunks)
    if chunks <= 0:
        raise RuntimeError(f"chunk: chunks must be positive, got {chunks}")
    size = x.array.shape[_cuttable("chunk", dim, x)]
    return split(x, -(-size // chunks) if size else [0] * chunks, dim)


def unbind(x: Tensor, dim: int = 0) -> tuple[Any, ...]:
    dim = _cuttable("unbind", dim, x, IndexError)
    return tuple(getitem(x, index=(*(slice(None),) * dim, i, ...)) for i in range(x.array.shape[dim]))


def select(x: Tensor, dim: int, index: int) -> Any:
    """The slice number `index` of axis `dim`, as a view."""
    dim = axis("select", dim, x.array.ndim)
    n, i = x.array.shape[dim] if x.array.ndim else 0, _whole("select", "index", index)
    if not -n <= i < n:
        raise IndexError(
            f"select: index must be in [{-n}, {n - 1}] along dim {dim} of shape {x.array.shape}, got {index}"
        )
    return getitem(x, index=(*(slice(None),) * dim, i, ...))


def tensor_split(x: Tensor, indices_or_sections: Any, dim: int = 0) -> tuple[Any, ...]:
    """Views of (nearly) equal size, or cut at the given places."""
    dim = _cuttable("tensor_split", dim, x)
    n = x.array.shape[dim]
    parts = _number_or_list("tensor_split", "indices_or_sections", indices_or_sections)
    if isinstance(parts, int):
        if parts <= 0:
            raise RuntimeError(f"tensor_split: needs a positive number of parts, got {parts}")
        cuts = [i * (n // parts) + min(i, n % parts) for i in range(1, parts)]
    else:
        cuts = parts
    bounds = [0, *(slice(None, cut).indices(n)[1] for cut in cuts), n]
    return tuple(narrow(x, dim, a, max(b - a, 0)) for a, b in itertools.pairwise(bounds))
