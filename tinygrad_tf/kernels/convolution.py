"""Convolutions (N, C, H, W) -> (N, O, rows, columns), forward and backward: products with columns that stay in cache.

Shapes: x (N, C, H, W), weight (O, C / groups, Kh, Kw), bias (O,), y and g (N, O, rows, columns); one axis is a height
of 1. With the columns (C * Kh * Kw, places) of an image, as `windows.py` has them, and the weight as (O, C * Kh * Kw):

    convolve             y = weight @ columns + bias
    convolve_backward    dx = what `windows.add_columns` makes of weight.T @ g
                         dweight = sum over the images of g @ columns.T       dbias = sums of g

The columns have Kh * Kw times the numbers of the image, so they are never all there. A piece of work takes some images,
or some rows of one, and then some channels at a time, about as many as a product sums up between two visits of C
(DEPTH): so much of the columns stays in the second-level cache, is multiplied, and is overwritten. y and dx are written
where they belong. In the backward pass a piece has its channels to itself, so that no two add to the same dx; for
dweight it has a share of the images, and the sums of the shares are added at the end, in their order: the bits are the
same for any number of threads.

Cost: a multiply-add as in `matmul.py`; a number of the columns 0.1 to 0.3 ns, forward once, backward twice. It is used
O times, so that layers of few filters (O < 16) wait for the columns.

Versions, milliseconds forward, and both ways, on two cores with AVX2, float32, kernels of 3 x 3 (5 x 5 for 1 channel):

                                               all columns stored,      an image or      images of small    PyTorch
    images                  weight             one product, y turned    some rows of it  planes together
    16 x 16 x 16 x 16       16 x 16               1.1    2.1               0.3  1.0         0.3   0.8       0.3   1.2
    32 x 1 x 28 x 28        6 x 1                 0.6    1.8               0.2  1.0         0.25  0.9       0.4   2.5
    32 x 32 x 16 x 16       64 x 32               6.9   19.3               3.1 10.6         2.9   7.9       2.9   7.8
    2 x 256 x 14 x 14       256 x 256             6.5   19.7               6.4 22.9         3.4  15.1       3.9  13.5
    16 x 64 x 14 x 14       64 x 1, 64 groups     1.4    5.5               1.1  6.0         0.7   2.1       0.3   0.9

The second had all channels at once: of 256, room for two rows of windows only, so that the weight was read seven times.
With one filter a group, g is not packed but multiplied as it lies; what is left there is the columns' time.
"""
# mypy: allow-untyped-defs

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from tinygrad_tf.kernels._compile import kernel
from tinygrad_tf.kernels._part import parallel_part, part
from tinygrad_tf.kernels._plan import DEPTH, STRIP
from tinygrad_tf.kernels._rows import require_shape
from tinygrad_tf.kernels._scalar import widest_vectors
from tinygrad_tf.kernels._tiles import HEIGHT, PANEL, aligned, block_product, lanes, pack_panel, panel_product
from tinygrad_tf.kernels.windows import Pair, add_columns, pairs, put_columns

Array = np.ndarray
ROOM = 1 << 16  # numbers of the columns that are there at once
UNITS = 16  # shares of the images, at most: each has a sum of its own for the weight's gradient
EVEN = 4  # pieces of work, at least, if there are so many channels
FEW = 3  # filters of a group for which packing g, whose rows lie across, takes longer than dot products


class Pieces(NamedTuple):
    """What a piece of work has at once: the columns of so many channels, in so many rows of so many images."""

    channels: int
    rows: int
    images: int


def cut(shape: tuple[int, ...], look: tuple[Pair, ...], least: int) -> Pieces:
    """The pieces for images (N, C, H, W, O, groups), so small that there are `least` of them for their channels."""
    N, C, _, _, _, groups = shape
    (height, width), _, _, _, (rows, across) = look
    channels = min(C // groups, max(1, DEPTH // (height * width)), max(1, C * N // least))
    most = max(1, ROOM // (channels * height * width * across))
    images = min(most // rows, math.ceil(N * groups / UNITS))
    return Pieces(channels, min(rows, most), max(1, images))


def shape_of(x_shape: tuple[int, ...], weight: Array, groups: int) -> tuple[int, ...]:
    """(N, C, H, W, O, groups), as the kernels want to know them."""
    return *x_shape[:2], math.prod(x_shape[2:-1]), x_shape[-1], weight.shape[0], groups


@kernel
def pitch_of(places):
    """How far apart rows of so many numbers lie in the scratch: an odd number of cache lines, so that a column of them
    goes to different sets of the cache, and so far that a last panel may be written whole."""
    return ((places + 30) // 16 | 1) * 16


# ---------------------------------------------------------------- forward
def convolve(x: Array, weight: Array, bias: Array | None, look: Any, groups: int) -> Array:
    """The cross-correlation of x (N, C, H, W) with weight (O, C / groups, Kh, Kw), plus the bias (O,) of each filter.

    look: size, stride, dilation, zeros before and places of the windows, a number for each axis, as in `windows`.

    >>> look = (2,), (1,), (1,), (0,), (2,)
    >>> convolve(np.array([[[1.0, 2.0, 4.0]]]), np.array([[[-1.0, 1.0]]]), None, look, 1)
    array([[[1., 2.]]])
    """
    shape, windows = shape_of(x.shape, weight, groups), pairs(*look)
    require_shape("weight", weight, (len(weight), x.shape[1] // groups, *look[0]))
    if bias is not None:
        require_shape("bias", bias, weight.shape[:1])
    y = np.empty((len(x), len(weight), *look[4]), x.dtype)
    pieces = cut(shape, windows, 1)
    units = math.ceil(len(x) / pieces.images) * groups * math.ceil(windows[4][0] / pieces.rows)
    flat = [np.ascontiguousarray(a).ravel() for a in (x, weight, weight[:0] if bias is None else bias)]
    convolve_units(units, shape, windows, tuple(pieces), *flat, y.ravel())
    return y


@kernel
def convolve_units(count, shape, look, pieces, x, weight, bias, y):
    convolve_unit(count, shape, look, pieces, x, weight, bias, y)


@parallel_part
def convolve_unit(unit, shape, look, pieces, x, weight, bias, y):
    """Some rows of windows over some images, for the filters of a group."""
    widest_vectors()
    N, C, H, W, O, groups = shape
    size, stride, _, before, (rows, across) = look
    channels, band, images = pieces
    bands = (rows + band - 1) // band
    rest, first = unit // bands, unit % bands * band
    n0, group = rest // groups * images, rest % groups
    last, images = min(first + band, rows), min(images, N - n0)
    here, out, taps = C // groups, O // groups, size[0] * size[1]
    whole, count = rows * across, (last - first) * across
    in_place = taps * stride[0] * stride[1] == 1 and before[0] + before[1] == 0 and whole == H * W
    pitch = H * W if in_place else pitch_of(images * count)
    scratch = np.empty(0 if in_place else channels * taps * pitch + 16, x.dtype)
    for c in range(0, here, channels):
        some = min(channels, here - c)
        for n in range(0 if in_place else images):
            x0, s0 = ((n0 + n) * C + group * here + c) * H * W, aligned(scratch) + n * count
            put_columns(x, x0, some, H, W, look, first, last, scratch, s0, pitch, 0)
        for k in range(0, some * taps, DEPTH):
            depth = min(DEPTH, some * taps - k)
            for o in range(0, out, STRIP):
                M, a0 = min(STRIP, out - o), ((group * out + o) * here + c) * taps + k
                for n in range(images):
                    y0 = ((n0 + n) * O + group * out + o) * whole + first * across
                    add = bias.size > 0 or c + k > 0
                    if c + k == 0:
                        put_bias(M, count, bias, group * out + o, y, y0, whole)
                    B, b0 = scratch, aligned(scratch) + k * pitch + n * count
                    if in_place:
                        B, b0 = x, ((n0 + n) * C + group * here + c + k) * H * W + first * across
                    block_product(
                        M, count, depth, weight, a0, here * taps, 1, B, b0, pitch, y, y0, whole, add, y, y0, whole
                    )


@part()
def put_bias(M, count, bias, b0, y, y0, y_row):
    for i in range(M if bias.size > 0 else 0):
        line, number = y[y0 + i * y_row : y0 + i * y_row + count], bias[b0 + i]
        for p in range(count):
            line[p] = number


# ---------------------------------------------------------------- backward
def convolve_backward(
    g: Array, x: Array | None, weight: Array, look: Any, groups: int, shape: tuple[int, ...], needs: Any
) -> tuple[Array | None, Array | None, Array | None]:
    """(dx, dweight, dbias), None for those that are not needed; x, of that shape, is read for dweight alone.

    needs: three truths. For dx alone, this is a transposed convolution of g.
    """
    need_x, need_weight, need_bias = needs
    told, windows = shape_of(shape, weight, groups), pairs(*look)
    require_shape("g", g, (shape[0], len(weight), *look[4]))
    N, C, O = *shape[:2], len(weight)
    here, out, taps = C // groups, O // groups, math.prod(look[0])
    share = math.ceil(N / UNITS)
    parts = math.ceil(N / share)
    pieces = cut(told, windows, EVEN)
    pieces = pieces._replace(images=min(share, pieces.images))
    units = parts * groups * math.ceil(here / pieces.channels)
    nothing = np.empty(0, g.dtype)
    dx = np.zeros(shape, g.dtype) if need_x else nothing
    turned = weight.reshape(groups, out, here * taps).swapaxes(1, 2) if need_x else nothing
    sums = np.zeros((parts, groups, here * taps, out), g.dtype) if need_weight else nothing
    totals = np.zeros((parts, O)) if need_bias else np.empty((0, 0))
    flat = [np.ascontiguousarray(a).ravel() for a in (g, x if need_weight else nothing, turned)]
    backward_units(units, share, told, windows, tuple(pieces), *flat, dx.ravel(), sums.ravel(), totals.ravel())
    dweight = sums.sum(0).swapaxes(1, 2).reshape(weight.shape) if need_weight else None
    return dx if need_x else None, dweight, totals.sum(0).astype(g.dtype) if need_bias else None


@kernel
def backward_units(count, share, shape, look, pieces, g, x, weight, dx, dweight, dbias):
    backward_unit(count, share, shape, look, pieces, g, x, weight, dx, dweight, dbias)


@parallel_part
def backward_unit(unit, share, shape, look, pieces, g, x, weight, dx, dweight, dbias):
    """Some channels of a share of the images; dweight and dbias have a sum for each share."""
    widest_vectors()
    N, C, H, W, O, groups = shape
    size, _, _, _, (rows, across) = look
    channels, band, images = pieces
    here, out, taps = C // groups, O // groups, size[0] * size[1]
    chunks = (here + channels - 1) // channels
    c, rest = unit % chunks * channels, unit // chunks
    number, group = rest // groups, rest % groups
    some, whole = min(channels, here - c), rows * across
    deep, pitch, width = some * taps, pitch_of(images * band * across), PANEL * lanes(g)
    scratch = np.empty(deep * pitch + width * DEPTH + 32, g.dtype)
    s0 = aligned(scratch)
    p0, w0 = s0 + deep * pitch, (group * here + c) * taps * out  # what is packed lies behind the columns
    d0 = number * C * taps * out + w0
    end = min(number * share + share, N)
    for n0 in range(number * share, end, images):
        items, x0, g0 = min(images, end - n0), (n0 * C + group * here + c) * H * W, (n0 * O + group * out) * whole
        if dbias.size > 0 and c == 0:
            for n in range(items):
                add_sums(out, whole, g, g0 + n * O * whole, dbias, number * O + group * out)
        for first in range(0, rows, band):
            last = min(first + band, rows)
            count, y0 = (last - first) * across, g0 + first * across
            if dweight.size > 0:
                for n in range(items):
                    put_columns(x, x0 + n * C * H * W, some, H, W, look, first, last, scratch, s0 + n * count, pitch, 0)
                add_products(items, deep, out, count, scratch, s0, pitch, g, y0, O * whole, whole, p0, dweight, d0)
            if dx.size > 0:
                put_products(items, deep, out, count, weight, w0, g, y0, O * whole, whole, p0, scratch, s0, pitch)
                for n in range(items):
                    add_columns(
                        scratch, s0 + n * count, pitch, True, some, H, W, look, first, last, dx, x0 + n * C * H * W
                    )


@part()
def add_products(items, M, out, count, columns, s0, pitch, g, g0, g_item, g_row, p0, total, t0):
    """total (M, out) += columns (M, items * count) @ g.T, with g (out, count) of each item; g is packed at p0."""
    if out <= FEW:
        for n in range(items):
            for o in range(out):
                add_dots(M, count, columns, s0 + n * count, pitch, g, g0 + n * g_item + o * g_row, total, t0 + o, out)
        return
    width, together = PANEL * lanes(g), max(1, DEPTH // count)  # so many items are summed up at once
    for n in range(0, items, together):
        for k in range(0, count, DEPTH):
            depth, these = min(DEPTH, count - k), min(together, items - n)
            for o in range(0, out, width):
                N = min(width, out - o)
                for item in range(these):
                    source, target = g0 + (n + item) * g_item + o * g_row + k, p0 + item * depth * width
                    pack_panel(depth, N, g, source, 1, g_row, columns, target)
                a0, K, c0 = s0 + n * count + k, these * depth, t0 + o
                panel_product(
                    M,
                    N,
                    K,
                    columns,
                    a0,
                    pitch,
                    1,
                    HEIGHT * pitch,
                    columns,
                    p0,
                    width,
                    total,
                    c0,
                    out,
                    True,
                    total,
                    c0,
                    out,
                )


@part()
def put_products(items, M, out, count, weight, w0, g, g0, g_item, g_row, p0, columns, s0, pitch):
    """columns (M, items * count) = weight (M, out) @ g, with g (out, count) of each item; g is packed at p0.

    Panels are written whole: what a last one has too much, the first of the next item overwrites.
    """
    width = PANEL * lanes(g)
    for n in range(items):
        for p in range(0, count, width):
            c0 = s0 + n * count + p
            for o in range(0, out, DEPTH):
                K = min(DEPTH, out - o)
                pack_panel(K, min(width, count - p), g, g0 + n * g_item + o * g_row + p, g_row, 1, columns, p0)
                panel_product(
                    M, width, K, weight, w0 + o, out, 1, HEIGHT * out, columns, p0, width, columns, c0, pitch, o > 0,
                    columns, c0, pitch,
                )  # fmt: skip


@part()
def add_dots(rows, count, x, x0, x_row, g, g0, total, t0, t_row):
    """total[i] += the dot product of row i of x with g."""
    upper = g[g0 : g0 + count]
    for i in range(rows):
        line, found = x[x0 + i * x_row : x0 + i * x_row + count], total[t0 + i * t_row]
        for p in range(count):
            found += line[p] * upper[p]
        total[t0 + i * t_row] = found


@part()
def add_sums(rows, count, g, g0, total, t0):
    """total[o] += the sum of row o of g."""
    for o in range(rows):
        line, found = g[g0 + o * count : g0 + (o + 1) * count], 0.0
        for p in range(count):
            found += np.float64(line[p])
        total[t0 + o] += found
