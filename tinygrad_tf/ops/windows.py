"""Sliding windows, which convolutions and pooling look through, and their adjoint: the sum of overlapping windows.

`windows` is a view; `columns` is the copy that a convolution multiplies by its weight, as a matrix.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from tinygrad_tf import kernels
from tinygrad_tf.engine import Tensor, mode, primitive
from tinygrad_tf.ops._types import axis, category
from tinygrad_tf.ops.shape import movedim
from tinygrad_tf.regions import wide

Sizes = tuple[int, ...]


def count_windows(length: int, size: int, stride: int, dilation: int) -> int:
    """How many windows of `size` entries, `dilation` apart, fit into an axis when each starts `stride` further on."""
    return (length - dilation * (size - 1) - 1) // stride + 1


@primitive(
    view=True,
    x=lambda g, shapes, stride, dilation: overlap_add(g, shape=shapes[0], stride=stride, dilation=dilation),
)
def windows(x: np.ndarray, *, size: Sizes, stride: Sizes, dilation: Sizes) -> np.ndarray:
    """Every window over the last axes, as a view: x (..., H, W) gives (..., rows, columns, *size)."""
    n = len(size)
    counts = tuple(map(count_windows, x.shape[-n:], size, stride, dilation))
    steps = x.strides[-n:]
    between = tuple(a * b for a, b in zip(steps, stride, strict=True))
    within = tuple(a * b for a, b in zip(steps, dilation, strict=True))
    return np.lib.stride_tricks.as_strided(
        x, (*x.shape[:-n], *counts, *size), (*x.strides[:-n], *between, *within), writeable=x.flags.writeable
    )


def _windows_of(h: Any, shapes: list[Sizes], stride: Sizes, dilation: Sizes) -> Any:
    return windows(h, size=shapes[0][-len(stride) :], stride=stride, dilation=dilation)


@primitive(g=_windows_of)
def overlap_add(g: np.ndarray, *, shape: Sizes, stride: Sizes, dilation: Sizes) -> np.ndarray:
    """The (..., H, W) in which every entry is the sum of what windows (..., rows, columns, *size) have at its place."""
    n = len(stride)
    total = np.zeros(shape, wide(g.dtype))
    for offset, seen in _each_place(total, g.shape[-n:], stride, dilation, g.shape[-2 * n : -n]):
        seen += g[(Ellipsis, *offset)]
    return total.astype(g.dtype, copy=False)


def _each_place(x: np.ndarray, size: Sizes, stride: Sizes, dilation: Sizes, counts: Sizes) -> Iterator[Any]:
    """For each place in the window: the place, and what all windows have there, as a view of x."""
    for offset in np.ndindex(*size) if 0 not in counts else ():
        starts = [o * d for o, d in zip(offset, dilation, strict=True)]
        places = [slice(a, a + s * (c - 1) + 1, s) for a, s, c in zip(starts, stride, counts, strict=True)]
        index: Any = (Ellipsis, *places)  # Any: NumPy's stubs know no such tuple
        yield offset, x[index]


# --- as the columns of a matrix ---------------------------------------------------------------------------------------


class Look(NamedTuple):
    """How windows lie over an image: their size, the distance of one from the next, of their entries from each other,
    how many zeros are before the image along each axis, and how many windows there are."""

    size: Sizes
    stride: Sizes
    dilation: Sizes
    before: Sizes
    places: Sizes

    def frame(self) -> Sizes:
        """What all windows reach over."""
        each = zip(self.size, self.stride, self.dilation, self.places, strict=True)
        return tuple((p - 1) * s + d * (k - 1) + 1 for k, s, d, p in each)

    def within(self, image: Sizes) -> tuple[Any, Any]:
        """Where the image lies in the frame, and what of the image does."""
        lengths = [min(n, f - b) for n, f, b in zip(image, self.frame(), self.before, strict=True)]
        inside = [slice(b, b + n) for b, n in zip(self.before, lengths, strict=True)]
        return (Ellipsis, *inside), (Ellipsis, *[slice(n) for n in lengths])


@primitive(x=lambda g, shapes, look: from_columns(g, shape=shapes[0], look=look))
def columns(x: np.ndarray, *, look: Look) -> np.ndarray:
    """The windows over x (N, C, H, W), each a column: (C, *size, N, *places). Zeros are around the image."""
    if not mode.reference and kernels.windows.takes(x, len(look.size)):
        return kernels.windows.columns(x, *look)
    framed = np.zeros((*x.shape[:2], *look.frame()), x.dtype)
    inside, used = look.within(x.shape[2:])
    framed[inside] = x[used]
    found = np.empty((x.shape[1], *look.size, x.shape[0], *look.places), x.dtype)
    for offset, seen in _each_place(framed, look.size, look.stride, look.dilation, look.places):
        found[(slice(None), *offset)] = seen.swapaxes(0, 1)
    return found


@primitive(g=lambda h, look: columns(h, look=look))
def from_columns(g: np.ndarray, *, shape: Sizes, look: Look) -> np.ndarray:
    """The (N, C, H, W) in which every entry is the sum of what windows, as `columns` has them, have at its place."""
    if not mode.reference and kernels.windows.takes(g, len(look.size)):
        return kernels.windows.from_columns(g, shape, *look)
    framed = np.zeros((*shape[:2], *look.frame()), wide(g.dtype))
    for offset, seen in _each_place(framed, look.size, look.stride, look.dilation, look.places):
        seen += g[(slice(None), *offset)].swapaxes(0, 1)
    total = np.zeros(shape, g.dtype)
    inside, used = look.within(shape[2:])
    total[used] = framed[inside]
    return total


def unfold(x: Tensor, dimension: int, size: int, step: int) -> Any:
    """All windows of `size` entries along `dimension`, `step` apart, as a view; the window is a new last axis."""
    dim = axis("unfold", dimension, x.array.ndim)
    length = x.array.shape[dim] if x.array.ndim else 1
    if step <= 0 or not 0 <= size <= length:
        raise RuntimeError(f"unfold: needs a step > 0 and a size in [0, {length}], got step {step}, size {size}")
    if not x.array.ndim:
        return x.reshape(size)  # type: ignore[attr-defined]
    found = windows(movedim(x, dim, -1), size=(size,), stride=(step,), dilation=(1,))
    return movedim(found, -2, dim)


# --- entries by their places ------------------------------------------------------------------------------------------


@primitive(x=lambda g, shapes, places: put_back(g, places=places, shape=shapes[0]))
def taken(x: np.ndarray, *, places: np.ndarray) -> np.ndarray:
    """The entries of images (N, C, H, W) at places (N, C, ...), which are counted along the rows of each image."""
    return kernels.pooling.take_reference(x, places) if mode.reference else kernels.pooling.take(x, places)


@primitive(g=lambda h, places: taken(h, places=places))
def put_back(g: np.ndarray, *, places: np.ndarray, shape: Sizes) -> np.ndarray:
    """The images of this shape in which every entry is the sum of what was taken from its place."""
    if mode.reference or (category(g.dtype) == 2 and g.dtype.itemsize == 2):
        return kernels.pooling.put_reference(g.astype(wide(g.dtype)), places, shape).astype(g.dtype)
    return kernels.pooling.put(g, places, shape)
