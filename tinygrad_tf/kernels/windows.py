"""The windows that a convolution looks through as the columns of a matrix, and the way back: sums of overlapping ones.

    columns(x, ...)          (N, C, H, W) -> (C, Kh, Kw, N, rows, columns): entry (i, j) of every window
    from_columns(g, ...)     the adjoint: every entry of (N, C, H, W) gets the sum of what windows have at its place

Both take `size`, `stride` and `dilation` of the windows, `before` (how many zeros are above and to the left of the
image) and `places` (how many windows there are, down and across). Windows may reach beyond the image: zeros are there.
One axis is a height of 1. Blocks are rows of the matrix, and images: no sum depends on the number of threads.

Windows one after the other would be copied three or five numbers at a time; in this order all copies are as long as the
image's rows. Milliseconds for 64 x 16 images of 14 x 14, 3 x 3 windows, float32, on two cores with AVX2:

                      NumPy, a window    NumPy, a place of     here
                      after the other    all windows at once
    columns                 8.0                 1.8             0.6
    from_columns                                4.8             1.2
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinygrad_tf.kernels._compile import kernel, parallel
from tinygrad_tf.kernels._rows import NATIVE, blocks
from tinygrad_tf.kernels._scalar import widest_vectors

Array = np.ndarray
Pair = tuple[int, int]


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
    count, step = blocks(C * math.prod(size), N * math.prod(places))
    sizes = N, C, math.prod(x.shape[2:-1]), W
    copy_columns(count, step, sizes, np.ascontiguousarray(x).ravel(), *told, result.ravel())
    return result


def from_columns(g: Array, shape: Any, size: Any, stride: Any, dilation: Any, before: Any, places: Any) -> Array:
    (N, C), W = shape[:2], shape[-1]
    result = np.zeros(shape, g.dtype)
    told = pairs(size, stride, dilation, before, places)
    count, step = blocks(N * C, math.prod(size) * math.prod(places))
    sizes = N, C, math.prod(shape[2:-1]), W
    add_columns(count, step, sizes, np.ascontiguousarray(g).ravel(), *told, result.ravel())
    return result


@kernel
def reach(length: int, shift: int, stride: int, count: int) -> Any:
    """(first, last + 1) of `count` places p for which p * stride + shift lies in an axis of that length."""
    first, end = -shift, length - shift
    if stride != 1:  # a division takes as long as ten comparisons
        first, end = (first + stride - 1) // stride, (end + stride - 1) // stride
    first = min(max(0, first), count)
    return first, max(first, min(count, end))


@parallel
def copy_columns(
    block: int, step: int, sizes: Any, x: Any, size: Any, stride: Any, dilation: Any, before: Any, places: Any, y: Any
) -> None:
    widest_vectors()
    N, C, H, W = sizes
    height, width = size
    rows, across = places
    for unit in range(block * step, min(block * step + step, C * height * width)):
        c, place = unit // (height * width), unit % (height * width)
        down, right = place // width * dilation[0] - before[0], place % width * dilation[1] - before[1]
        top, bottom = reach(H, down, stride[0], rows)
        left, end = reach(W, right, stride[1], across)
        for n in range(N):
            whole = y[(unit * N + n) * rows * across : (unit * N + n + 1) * rows * across]
            if left > 0 or end < across or top > 0 or bottom < rows:
                for i in range(whole.size):
                    whole[i] = 0
            for row in range(top, bottom):
                start = ((n * C + c) * H + row * stride[0] + down) * W + left * stride[1] + right
                source, target = x[start:], whole[row * across + left : row * across + end]
                if stride[1] == 1:
                    for i in range(target.size):
                        target[i] = source[i]
                else:
                    for i in range(target.size):
                        target[i] = source[i * stride[1]]


@parallel
def add_columns(
    block: int, step: int, sizes: Any, g: Any, size: Any, stride: Any, dilation: Any, before: Any, places: Any, x: Any
) -> None:
    widest_vectors()
    N, C, H, W = sizes
    height, width = size
    rows, across = places
    for unit in range(block * step, min(block * step + step, N * C)):
        n, c = unit // C, unit % C
        for place in range(height * width):
            down, right = place // width * dilation[0] - before[0], place % width * dilation[1] - before[1]
            top, bottom = reach(H, down, stride[0], rows)
            left, end = reach(W, right, stride[1], across)
            for row in range(top, bottom):
                start = ((n * C + c) * H + row * stride[0] + down) * W + left * stride[1] + right
                begin = (((c * height * width + place) * N + n) * rows + row) * across
                target, source = x[start:], g[begin + left : begin + end]
                if stride[1] == 1:
                    for i in range(source.size):
                        target[i] += source[i]
                else:
                    for i in range(source.size):
                        target[i * stride[1]] += source[i]
