"""How attention's operands and gradients lie in memory.

Heads are mostly slices of one projection, (B, T, 3 H D), cut and turned without a copy. The kernels read them so, by
address and strides, and put the gradients where the slices came from: into one array, of which the gradient of the
projection needs no copy either (0.15 ms for 12 x 64 x 384).
"""

from __future__ import annotations

import numpy as np

from tinygrad_tf.kernels._operands import address_of

Place = tuple[int, int, int, int]


def place(x: np.ndarray) -> tuple[np.ndarray, Place]:
    """(x, (address, strides of batch, head and row in elements)); x is copied if its rows are not contiguous."""
    size, address = x.itemsize, address_of(x)
    batch, head, row, column = x.strides
    if (column != size and x.shape[3] > 1) or (address | batch | head | row) & (size - 1):
        x = np.array(x, order="C")
        address, (batch, head, row, _) = address_of(x), x.strides
    return x, (address, batch // size, head // size, row // size)


def arrays_like(*arrays: np.ndarray) -> list[np.ndarray]:
    """For each (B, H, T, D) a new (B, T, H, D); parts of one array if these are columns of one, side by side."""
    shapes = [(x.shape[0], x.shape[2], x.shape[1], x.shape[3]) for x in arrays]
    starts = _columns(arrays)
    if starts is None:
        return [np.empty(shape, x.dtype) for shape, x in zip(shapes, arrays, strict=True)]
    B, T, _, _ = shapes[0]
    widths = [H * D for _, _, H, D in shapes]
    whole = np.empty((B, T, sum(widths)), arrays[0].dtype)
    return [whole[..., a : a + w].reshape(shape) for a, w, shape in zip(starts, widths, shapes, strict=True)]


def _columns(arrays: tuple[np.ndarray, ...]) -> list[int] | None:
    """The first column of each in a (B, T, columns) that they make up, head by head; None if they do not."""
    widths = [x.shape[1] * x.shape[3] for x in arrays]
    addresses = [address_of(x) for x in arrays]
    size, T, row = arrays[0].itemsize, arrays[0].shape[2], sum(widths)
    starts, start = [0] * len(arrays), 0
    for i in sorted(range(len(arrays)), key=addresses.__getitem__):
        strides = T * row * size, arrays[i].shape[3] * size, row * size, size
        if arrays[i].shape[2] != T or arrays[i].strides != strides or addresses[i] != min(addresses) + start * size:
            return None
        starts[i], start = start, start + widths[i]
    return starts


def rows_of(x: np.ndarray) -> tuple[np.ndarray, int]:
    """(the memory of x (B, T, H, D) from its first element on, elements from one row to the next)."""
    whole = x if x.base is None else x.base
    start = (address_of(x) - address_of(whole)) // x.itemsize
    row: int = x.strides[1] // x.itemsize
    return whole.reshape(-1)[start:], row
