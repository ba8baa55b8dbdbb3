"""How the gradients that come to one tensor are added up.

wide       the dtype in which many numbers are added up
add        two whole ones, in the memory of one of them if it may be overwritten
Region     one that is zero outside a part of the tensor: what slices send back
assemble   regions, put together once all have come
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tinygrad_tf import kernels

FLOAT32 = np.dtype(np.float32)
LARGE = 1 << 15  # elements from which sums are left to a kernel


def wide(dtype: np.dtype) -> np.dtype:
    """The dtype for sums of many numbers: float32 for 16-bit ones, whose sums stop at 256 or 2048 times a summand."""
    return FLOAT32 if dtype.itemsize == 2 and dtype.kind in "fV" else dtype


def add(held: np.ndarray, own: bool, part: np.ndarray, fresh: bool) -> np.ndarray:
    """held + part, in the memory of held if that is our own, or in that of part if it is fresh."""
    if not own:
        held, part, own = part, held, fresh
    if held.size < LARGE:
        return np.add(held, part, out=held) if own else np.asarray(held + part)
    if own:
        kernels.elementwise.add_to(held, part)
        return held
    return kernels.elementwise.add(held, part) if kernels.elementwise.worth(held, part) else held + part


class Region:
    """A gradient that is zero outside `index`, so that slices build no full arrays.

    repeats: the index may mean the same element several times; their gradients are then added up.
    """

    __slots__ = ("index", "repeats", "value")

    def __init__(self, index: Any, value: np.ndarray, repeats: bool):
        self.index, self.value, self.repeats = index, value, repeats

    def add_to(self, total: np.ndarray) -> None:
        if self.repeats:
            np.add.at(total, self.index, self.value.astype(total.dtype, copy=False))
        else:
            total[self.index] += self.value

    def span(self, shape: tuple[int, ...]) -> tuple[int, int, int] | None:
        """(axis, start, stop) if the region is all of a tensor but for a stretch of one axis; else None."""
        index = self.index if isinstance(self.index, tuple) else (self.index,)
        if not all(part is ... or type(part) in (int, slice) for part in index):
            return None
        if ... in index:
            at = index.index(...)
            index = (*index[:at], *[slice(None)] * (len(shape) + 1 - len(index)), *index[at + 1 :])
        found = None
        for axis, part in enumerate(index):
            size = shape[axis]
            start, stop, step = (part % size, part % size + 1, 1) if type(part) is int else part.indices(size)
            if (start, stop, step) == (0, size, 1) and type(part) is slice:
                continue
            if found is not None or step != 1:
                return None
            found = axis, start, stop
        return found


def assemble(regions: Sequence[Region], shape: tuple[int, ...], dtype: np.dtype) -> tuple[np.ndarray, bool]:
    """(the sum of the regions, whether it is an array that nobody else holds).

    Slices that lie side by side and make up the whole, as those of `split`, are copied together; to add each of them to
    zeros would read and write everything twice. Where they are parts of one array already, as what attention sends back
    to slices of one projection, that is the sum, and nothing is copied.
    """
    spans = [span for region in regions if (span := region.span(shape)) is not None]
    if len(spans) == len(regions) and len({axis for axis, _, _ in spans}) == 1:
        axis, end, parts = spans[0][0], 0, []
        for (_, start, stop), region in sorted(zip(spans, regions, strict=True), key=lambda pair: pair[0]):
            if start != end:
                break
            end = stop
            parts.append(region.value.reshape(*shape[:axis], stop - start, *shape[axis + 1 :]))
        else:
            if end == shape[axis]:
                whole = _array_of(parts, axis, shape, dtype)
                if whole is not None:
                    return whole, False
                return np.concatenate(parts, axis, dtype=dtype, casting="unsafe"), True
    many = len(regions) > 1 or regions[0].repeats
    total = np.zeros(shape, wide(dtype) if many else dtype)
    for region in regions:
        region.add_to(total)
    return total.astype(dtype, copy=False), True


def _array_of(parts: Sequence[np.ndarray], axis: int, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray | None:
    """The array whose consecutive parts along the axis these are, views of its memory; None if there is none."""
    owner = parts[0].base
    if type(owner) is not np.ndarray or owner.dtype != dtype or not owner.flags.c_contiguous:
        return None
    if owner.size != math.prod(shape):
        return None
    whole, start = owner.reshape(shape), 0
    for part in parts:
        stop = start + part.shape[axis]
        if not _same_memory(part, whole[(slice(None),) * axis + (slice(start, stop),)]):
            return None
        start = stop
    return whole


def _same_memory(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays of one shape are the same view; the stride of an axis with one entry says nothing."""
    return (
        a.dtype == b.dtype
        and a.__array_interface__["data"] == b.__array_interface__["data"]
        and all(n == 1 or i == j for n, i, j in zip(a.shape, a.strides, b.strides, strict=True))
    )
