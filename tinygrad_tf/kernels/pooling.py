"""Where the largest entry of each window is, and entries of images by their places, with the way back.

    largest(x, ...)            (N, C, H, W) -> (N, C, rows, columns): the place of each window's largest entry
    take(x, places)            the entries at these places
    put(g, places, shape)      the adjoint of `take`: every place gets the sum of what was taken from it

A place is counted along the rows of its image, from 0. One axis is a height of 1.

Versions of `largest`, milliseconds for 32 x 32 images of 32 x 32, float32, on two cores with AVX2, windows of 2 x 2 and
of 3 x 3, both 2 apart:

    window after window, entry by entry                                    4.0 to 11   11
    row after row of windows, all of the row at once: too few for vectors  1.3
    the entries of all windows as columns, then one after the other        1.4         3.0
"""

# mypy: allow-untyped-defs

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinygrad_tf.kernels._compile import parallel
from tinygrad_tf.kernels._part import part
from tinygrad_tf.kernels._rows import blocks
from tinygrad_tf.kernels._scalar import widest_vectors
from tinygrad_tf.kernels.windows import pairs, put_columns, reach, takes

Array = np.ndarray
ROOM = 1 << 13  # numbers of the windows that are there at once, in the first-level cache


def largest(x: Array, size: Any, stride: Any, dilation: Any, before: Any, places: Any) -> Array:
    """Of equal entries the first counts, of NaN the last, and none that lies around the image. As in `windows`."""
    found = np.empty((*x.shape[:2], *places), np.int64)
    look = pairs(size, stride, dilation, before, places)
    flat = planes(x)
    count, step = blocks(len(flat), math.prod(size) * math.prod(places))
    band = max(1, ROOM // (math.prod(size) * places[-1]))
    find_largest(count, step, (math.prod(x.shape[2:-1]), x.shape[-1]), flat.ravel(), look, band, found.ravel())
    return found


def planes(x: Array) -> Array:
    """(N, C, ...) as (N * C, entries of a plane)."""
    return np.ascontiguousarray(x).reshape(x.shape[0] * x.shape[1], -1)


@parallel
def find_largest(block: int, step: int, sizes: Any, x: Any, look: Any, band: int, y: Any) -> None:
    """Entry after entry of all windows in some rows: the windows of a row are too few for loops over one."""
    widest_vectors()
    H, W = sizes
    size, _, dilation, _, (rows, across) = look
    taps = size[0] * size[1]
    pitch = band * across
    seen, best, found = np.empty(taps * pitch, x.dtype), np.empty(pitch, x.dtype), np.empty(pitch, np.int32)
    for unit in range(block * step, min(block * step + step, x.size // (H * W))):
        for first in range(0, rows, band):
            last = min(first + band, rows)
            count = (last - first) * across
            put_columns(x, unit * H * W, 1, H, W, look, first, last, seen, 0, pitch, -np.inf)
            for p in range(count):
                best[p], found[p] = -np.inf, -1
            for tap in range(taps):
                line = seen[tap * pitch : tap * pitch + count]
                offset = np.int32(tap // size[1] * dilation[0] * W + tap % size[1] * dilation[1])
                for p in range(count):
                    entry = line[p]
                    larger = (entry > best[p]) | (entry != entry)
                    best[p], found[p] = entry if larger else best[p], offset if larger else found[p]
            put_places(found, H, W, look, first, last, y[(unit * rows + first) * across :])


@part()
def put_places(found, H, W, look, first, last, y):
    """The places, from how far the largest entries are from their windows' first ones; below 0 where all are -inf."""
    size, stride, dilation, before, (_, across) = look
    for row in range(first, last):
        for column in range(across):
            p, down, right = (
                (row - first) * across + column,
                row * stride[0] - before[0],
                column * stride[1] - before[1],
            )
            y[p] = down * W + right + found[p]
            if found[p] < 0:
                top, _ = reach(H, down, dilation[0], size[0])
                left, _ = reach(W, right, dilation[1], size[1])
                y[p] = (down + top * dilation[0]) * W + right + left * dilation[1]


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
