"""Sliding windows, which convolutions and pooling look through, and their adjoint: the sum of overlapping windows."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinygrad_tf.engine import Tensor, primitive
from tinygrad_tf.ops._types import axis
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
    counts, size = g.shape[-2 * n : -n], g.shape[-n:]
    total = np.zeros(shape, wide(g.dtype))
    for offset in np.ndindex(*size):  # one place of the window at a time, all windows at once
        starts = [o * d for o, d in zip(offset, dilation, strict=True)]
        places = [slice(a, a + s * (c - 1) + 1, s) for a, s, c in zip(starts, stride, counts, strict=True)]
        index: Any = (..., *places)  # Any: NumPy's stubs know no such tuple
        if 0 not in counts:
            total[index] += g[(Ellipsis, *offset)]
    return total.astype(g.dtype, copy=False)


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
