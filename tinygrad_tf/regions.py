"""How the gradients that come to one tensor are added up, and how the sum lies in memory.

Pending    what has come to one tensor so far
wide       the dtype in which many numbers are added up
add        two whole ones, in the memory of one of them if it may be overwritten
laid_out   one in memory of its own, in the order of the tensor that it belongs to
Region     one that is zero outside a part of the tensor: what slices send back
assemble   regions, put together once all have come
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tinygrad_tf import kernels
from tinygrad_tf.graph import Node
from tinygrad_tf.kernels._operands import address_of

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


def memory_order(array: np.ndarray) -> tuple[int, ...] | None:
    """The axes of an array that fills its memory in another order than C's, the outermost first; else None."""
    if array.flags.c_contiguous:
        return None
    order = tuple(sorted(range(array.ndim), key=lambda axis: -array.strides[axis]))
    return order if array.transpose(order).flags.c_contiguous else None


def laid_out(g: np.ndarray, order: tuple[int, ...] | None, own: bool = False) -> np.ndarray:
    """g in memory of its own, with the axes in this order (None: C's); g itself if it is so and own: nobody else's.

    The gradient of a leaf has the leaf's order, as in PyTorch, so that one index finds the same element in both.
    """
    turned = g if order is None else g.transpose(order)
    if own and turned.flags.c_contiguous:
        return g
    copy = turned.copy() if turned.size < LARGE else kernels.elementwise.copied(turned)
    return copy if order is None else copy.transpose(np.argsort(order))


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


class Pending:
    """The gradient that has come to one tensor so far.

    value: an array, a Tensor where the pass is recorded, or a list of Regions while nothing else has come.
    own: whether value is an array that nobody else holds.

    There is one for every Node of a walk, which sets these itself: calling an __init__ would take twice the time.
    """

    __slots__ = ("node", "own", "value")
    node: Node
    own: bool
    value: Any

    def add(self, part: Any, fresh: bool) -> None:
        """One more contribution of the same kinds. fresh: it is an array that nobody else holds."""
        if type(part) is list:
            if type(self.value) is list:
                self.value.extend(part)
                return
            part, fresh = assemble(part, self.node.shape, self.node.dtype)
        if type(self.value) is list:
            self.assemble()
        if type(part) is np.ndarray:
            self.value, self.own = add(self.value, self.own, part, fresh), True
        else:
            self.value = self.value + part

    def assemble(self) -> None:
        """Make one array of a list of Regions."""
        self.value, self.own = assemble(self.value, self.node.shape, self.node.dtype)


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
    whole, address = owner.reshape(shape), address_of(owner)
    for part in parts:
        if part.dtype != dtype or address_of(part) != address or not _runs_along(part, whole.strides):
            return None
        address += part.shape[axis] * whole.strides[axis]
    return whole


def _runs_along(part: np.ndarray, strides: tuple[int, ...]) -> bool:
    """Whether an array has these strides; that of an axis with one entry says nothing."""
    return part.strides == strides or all(
        n == 1 or i == j for n, i, j in zip(part.shape, part.strides, strides, strict=True)
    )
