"""Where the largest entry of each window is, and entries of images by their places, with the way back.

    largest(x, ...)            (N, C, H, W) -> (N, C, rows, columns): the place of each window's largest entry
    take(x, places)            the entries at these places
    put(g, places, shape)      the adjoint of `take`: every place gets the sum of what was taken from it

A place is counted along the rows of its image, from 0. One axis is a height of 1.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinygrad_tf.kernels._compile import parallel
from tinygrad_tf.kernels._rows import blocks
from tinygrad_tf.kernels.windows import pairs, reach, takes

Array = np.ndarray


def largest(x: Array, size: Any, stride: Any, dilation: Any, before: Any, places: Any) -> Array:
    """Of equal entries the first counts, of NaN the last, and none that lies around the image. As in `windows`."""
    (N, C), W = x.shape[:2], x.shape[-1]
    found = np.empty((N, C, *places), np.int64)
    told = pairs(size, stride, dilation, before, places)
    count, step = blocks(N * C, math.prod(size) * math.prod(places))
    find_largest(count, step, (math.prod(x.shape[2:-1]), W), planes(x), *told, found.reshape(N * C, *told[4]))
    return found


def planes(x: Array) -> Array:
    """(N, C, ...) as (N * C, entries of a plane)."""
    return np.ascontiguousarray(x).reshape(x.shape[0] * x.shape[1], -1)


@parallel
def find_largest(
    block: int, step: int, sizes: Any, x: Any, size: Any, stride: Any, dilation: Any, before: Any, places: Any, y: Any
) -> None:
    H, W = sizes
    for unit in range(block * step, min(block * step + step, x.shape[0])):
        image, found = x[unit], y[unit]
        for row in range(places[0]):
            down = row * stride[0] - before[0]
            top, bottom = reach(H, down, dilation[0], size[0])
            for column in range(places[1]):
                right = column * stride[1] - before[1]
                left, end = reach(W, right, dilation[1], size[1])
                best = (down + top * dilation[0]) * W + right + left * dilation[1]
                value = image[best]
                for i in range(top, bottom):
                    line = (down + i * dilation[0]) * W + right
                    for j in range(left, end):
                        entry = image[line + j * dilation[1]]
                        higher = (entry > value) | (entry != entry)
                        best, value = line + j * dilation[1] if higher else best, entry if higher else value
                found[row, column] = best


def take_reference(x: Array, places: Array) -> Array:
    N, C = x.shape[:2]
    return np.take_along_axis(x.reshape(N, C, -1), places.reshape(N, C, -1), -1).reshape(places.shape)


def take(x: Array, places: Array) -> Array:
    if not takes(x) or not places.size:
        return take_reference(x, places)
    y = np.empty(places.shape, x.dtype)
    copy_entries(*blocks(*planes(y).shape), planes(x), planes(places), planes(y))
    return y


@parallel
def copy_entries(block: int, step: int, x: Any, places: Any, y: Any) -> None:
    for plane in range(block * step, min(block * step + step, x.shape[0])):
        source, place, target = x[plane], places[plane], y[plane]
        for i in range(place.size):
            target[i] = source[place[i]]


def put_reference(g: Array, places: Array, shape: Any) -> Array:
    N, C = shape[:2]
    total = np.zeros((N, C, math.prod(shape[2:])), g.dtype)
    n, c = np.ogrid[:N, :C]
    np.add.at(total, (n[..., None], c[..., None], places.reshape(N, C, -1)), g.reshape(N, C, -1))
    return total.reshape(shape)


def put(g: Array, places: Array, shape: Any) -> Array:
    if not takes(g):
        return put_reference(g, places, shape)
    total = np.zeros(shape, g.dtype)
    add_entries(*blocks(*planes(total).shape), planes(g), planes(places), planes(total))
    return total


@parallel
def add_entries(block: int, step: int, g: Any, places: Any, total: Any) -> None:
    for plane in range(block * step, min(block * step + step, g.shape[0])):
        source, place, target = g[plane], places[plane], total[plane]
        for i in range(place.size):
            target[place[i]] += source[i]
