"""The windows that a convolution looks through as the columns of a matrix, and the way back: sums of overlapping ones.

    columns(x, ...)          (N, C, H, W) -> (C, Kh, Kw, N, rows, columns): entry (i, j) of every window
    from_columns(g, ...)     the adjoint: every entry of (N, C, H, W) gets the sum of what windows have at its place
    put_columns, add_columns the same for some rows of some channels of one image, inside of other kernels

All take `size`, `stride` and `dilation` of the windows, `before` (how many zeros are above and to the left of the
image) and `places` (how many windows there are, down and across). Windows may reach beyond the image: zeros are there.
One axis is a height of 1. Blocks are channels, or images: no sum depends on the number of threads.

Windows one after the other would be copied three or five numbers at a time; in this order all copies are as long as the
image's rows, and where windows lie as the entries of the image do (stride 1, as many windows in a row as entries), one
copy brings all rows, and what came from the row before or behind is set to zero. Milliseconds for 64 x 16 images of
14 x 14, 3 x 3 windows, float32, on two cores with AVX2:

                    NumPy, a window    NumPy, a place of     here, row    all rows
                    after the other    all windows at once   by row       in one
    columns               8.0                 1.8              0.76         0.43
    from_columns                              4.8              1.2 to 2.9, as g may not be overwritten there
"""
# mypy: allow-untyped-defs

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinygrad_tf.kernels._compile import kernel, parallel
from tinygrad_tf.kernels._part import part
from tinygrad_tf.kernels._rows import NATIVE, blocks
from tinygrad_tf.kernels._scalar import widest_vectors
from tinygrad_tf.kernels._tiles import lanes
from tinygrad_tf.kernels._vector import make_copy, make_copy_of_every_second

Array = np.ndarray
Pair = tuple[int, int]
copy_vector, copy_four, copy_every_second = make_copy(vectors=1), make_copy(rows=4), make_copy_of_every_second()


def takes(x: Array, axes: int = 1) -> bool:
    """Whether the kernels are for this array, with windows over so many axes."""
    return axes <= 2 and x.dtype in NATIVE and x.size > 0


def pairs(*each: tuple[int, ...]) -> tuple[Pair, ...]:
    """What is told of one axis, as of two: size, stride, dilation, zeros before, places."""
    if len(each[0]) == 2:
        return each  # type: ignore[return-value]
    return tuple((one, sizes[0]) for one, sizes in zip((1, 1, 1, 0, 1), each, strict=True))


def columns(x: Array, size: Any, stride: Any, dilation: Any, before: Any, places: Any) -> Array:
    (N, C), W = x.shape[:2], x.shape[-1]
    result = np.empty((C, *size, N, *places), x.dtype)
    told = pairs(size, stride, dilation, before, places)
    count, step = blocks(C, N * math.prod(size) * math.prod(places))
    sizes = N, C, math.prod(x.shape[2:-1]), W
    copy_windows(count, step, sizes, np.ascontiguousarray(x).ravel(), told, result.ravel())
    return result


def from_columns(g: Array, shape: Any, size: Any, stride: Any, dilation: Any, before: Any, places: Any) -> Array:
    (N, C), W = shape[:2], shape[-1]
    result = np.zeros(shape, g.dtype)
    told = pairs(size, stride, dilation, before, places)
    count, step = blocks(N * C, math.prod(size) * math.prod(places))
    sizes = N, C, math.prod(shape[2:-1]), W
    add_windows(count, step, sizes, np.ascontiguousarray(g).ravel(), told, result.ravel())
    return result


@parallel
def copy_windows(block: int, step: int, sizes: Any, x: Any, look: Any, y: Any) -> None:
    widest_vectors()
    N, C, H, W = sizes
    size, _, _, _, places = look
    count, taps = places[0] * places[1], size[0] * size[1]
    for c in range(block * step, min(block * step + step, C)):
        for n in range(N):
            y0 = (c * taps * N + n) * count
            put_columns(x, (n * C + c) * H * W, 1, H, W, look, 0, places[0], y, y0, N * count, 0)


@parallel
def add_windows(block: int, step: int, sizes: Any, g: Any, look: Any, x: Any) -> None:
    widest_vectors()
    N, C, H, W = sizes
    size, _, _, _, places = look
    count, taps = places[0] * places[1], size[0] * size[1]
    for unit in range(block * step, min(block * step + step, N * C)):
        g0 = (unit % C * taps * N + unit // C) * count
        add_columns(g, g0, N * count, False, 1, H, W, look, 0, places[0], x, unit * H * W)


# --- inside of kernels: windows in rows [first, last), over some channels of an image that begin at x0 ----------------
@kernel
def reach(length: int, shift: int, stride: int, count: int) -> Any:
    """(first, last + 1) of `count` places p for which p * stride + shift lies in an axis of that length."""
    first, end = -shift, length - shift
    if stride != 1:  # a division takes as long as ten comparisons
        first, end = (first + stride - 1) // stride, (end + stride - 1) // stride
    first = min(max(0, first), count)
    return first, max(first, min(count, end))


@part()
def put_columns(x, x0, channels, H, W, look, first, last, y, y0, pitch, around):
    """y (channels * Kh * Kw, places), rows `pitch` apart: entry (i, j) of every window; `around` is what lies
    around the image."""
    size, stride, dilation, before, (_, across) = look
    as_image = stride[0] == 1 and stride[1] == 1 and across == W
    for c in range(channels):
        for i in range(size[0]):
            down = i * dilation[0] - before[0]
            top, bottom = reach(H, down, stride[0], last)
            top = max(top, first)
            for j in range(size[1]):
                right = j * dilation[1] - before[1]
                left, end = reach(W, right, stride[1], across)
                line = y[y0 : y0 + (last - first) * across]
                y0 += pitch
                if top >= bottom or left >= end:
                    fill(line, 0, line.size, around)
                    continue
                start, stop = (top - first) * across + left, (bottom - 1 - first) * across + end
                source = x0 + (c * H + top * stride[0] + down) * W + left * stride[1] + right
                target = y0 - pitch + start
                if as_image:
                    copy_run(x, source, 1, y, target, stop - start)
                else:
                    for row in range(bottom - top):
                        copy_run(x, source + row * stride[0] * W, stride[1], y, target + row * across, end - left)
                fill(line, 0, start, around)
                fill(line, stop, line.size, around)
                fill_between(line, start, end - left, across, bottom - top, around)


@part()
def add_columns(y, y0, pitch, ours, channels, H, W, look, first, last, x, x0):
    """The adjoint: every entry of the channels gets what windows have at its place, besides what it has.

    ours: y may be overwritten.
    """
    size, stride, dilation, before, (_, across) = look
    as_image = ours and stride[0] == 1 and stride[1] == 1 and across == W
    for c in range(channels):
        for i in range(size[0]):
            down = i * dilation[0] - before[0]
            top, bottom = reach(H, down, stride[0], last)
            top = max(top, first)
            for j in range(size[1]):
                right = j * dilation[1] - before[1]
                left, end = reach(W, right, stride[1], across)
                line = y[y0 : y0 + (last - first) * across]
                y0 += pitch
                if top >= bottom or left >= end:
                    continue
                start, stop = (top - first) * across + left, (bottom - 1 - first) * across + end
                target = x[x0 + ((c * H + top * stride[0] + down) * W + left * stride[1] + right) :]
                if as_image:
                    fill_between(line, start, end - left, across, bottom - top, 0)
                    add_run(line[start:], target, 1, stop - start)
                else:
                    for row in range(bottom - top):
                        add_run(line[start + row * across :], target[row * stride[0] * W :], stride[1], end - left)


@part()
def fill(line, start, stop, value):
    for p in range(start, stop):
        line[p] = value


@part()
def fill_between(line, start, length, across, rows, value):
    """What lies between runs of that length, which begin at `start` and every `across` further on."""
    if length < across:
        for row in range(rows - 1):
            fill(line, start + row * across + length, start + (row + 1) * across, value)


@part()
def copy_run(x, x0, stride, y, y0, count):
    """y[y0 + i] = x[x0 + i * stride]. The last vector ends where the run does, and has some of the one before it again:
    most runs are not much longer than a vector, and a number alone takes as long as one."""
    width = lanes(x)
    if stride == 1 and count >= width:
        for i in range(0, count - width, width):
            copy_vector(x, x0 + i, y, y0 + i)
        copy_vector(x, x0 + count - width, y, y0 + count - width)
    elif stride == 1 and count >= 4:
        for i in range(0, count - 4, 4):
            copy_four(x, x0 + i, y, y0 + i)
        copy_four(x, x0 + count - 4, y, y0 + count - 4)
    elif stride == 2 and count >= width:
        for i in range(0, count - width, width):
            copy_every_second(x, x0 + 2 * i, y, y0 + i)
        copy_every_second(x, x0 + 2 * (count - width), y, y0 + count - width)
    else:
        source, target = x[x0:], y[y0 : y0 + count]
        for i in range(target.size):
            target[i] = source[i * stride]


@part()
def add_run(source, target, stride, count):
    if stride == 1:
        for p in range(count):
            target[p] += source[p]
    else:
        for p in range(count):
            target[p * stride] += source[p]
