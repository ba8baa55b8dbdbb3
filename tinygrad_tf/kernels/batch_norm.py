"""batch_norm (Ioffe and Szegedy, Batch Normalization, 2015) of arrays (N, C, ...), forward and backward.

Shapes: x, g, y (N, C, ...); weight, bias, mean and variance (C,). A channel has n entries, L in each of N planes.

    batch_norm            z = (x - mean) rstd      y = z weight + bias       with rstd = 1 / sqrt(variance + eps)
    batch_norm_backward   dweight = sum(g z)       dbias = sum(g)            over the entries of each channel
                          dx = weight rstd (g - dbias / n - z dweight / n)   where the statistics are those of x,
                          dx = weight rstd g                                 where they were given

A channel is a piece of work, which stays in the second-level cache between the sums and dx in the backward pass. With
L = 1 neighbours are other channels: there a piece is some rows, and the sums of all channels are made at once.

All sums are made in float64, as additions are not what takes the time. x - mean is taken in the dtype of x, with the
mean as two numbers of it. The statistics come from `channel_statistics.py`, whose time is in these figures.

Versions, milliseconds on two cores (AVX2) for 64 x 16 x 28 x 28 and 768 x 128 float32, forward, and both ways:

    in single operations, NumPy                                                3.2 13.4    0.60 1.1
    here, L = 1 by blocks of 16 channels, with sums and dx in one loop         0.38 1.4    0.19 1.1
    L = 1 by blocks of rows (this one)                                         0.38 1.4    0.15 0.32
    PyTorch                                                                    1.3  2.5    0.11 0.27
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tinygrad_tf.kernels._compile import kernel, parallel
from tinygrad_tf.kernels._math import minus
from tinygrad_tf.kernels._part import parallel_part
from tinygrad_tf.kernels._rows import NATIVE, blocks, copy_unless_same, elsewhere, require_shape, room_beside
from tinygrad_tf.kernels._scalar import widest_vectors
from tinygrad_tf.kernels.channel_statistics import along_channels, planes
from tinygrad_tf.kernels.layer_norm import add_blocks

Array = np.ndarray


# ---------------------------------------------------------------- forward
def batch_norm(x: Array, weight: Array | None, bias: Array | None, mean: Array, variance: Array, eps: float) -> Array:
    """Each channel less its mean, over its standard deviation, times its weight, plus its bias.

    >>> batch_norm(np.array([[[1.0, 3.0], [2.0, 8.0]]]), None, None, np.array([2.0, 5.0]), np.array([1.0, 9.0]), 0.0)
    array([[[-1.,  1.],
            [-1.,  1.]]])
    """
    if x.dtype not in NATIVE:
        return elsewhere(batch_norm, batch_norm_reference, x.dtype, x, weight, bias, mean, variance, eps)
    shift = of_channels("bias", bias, x, 0.0).astype(x.dtype)
    told = *halves(mean, x), scale_of(x, weight, variance, eps), shift
    values, y = planes(x), np.empty(x.shape, x.dtype)
    N, C, L = values.shape
    if L > 1:
        scale_planes(*blocks(N * C, L), values.reshape(N * C, L), *told, y.reshape(N * C, L))
    elif x.size:
        scale_columns(*blocks(N, C), values.reshape(N, C), *told, y.reshape(N, C))
    return y


def batch_norm_reference(
    x: Array, weight: Array | None, bias: Array | None, mean: Array, variance: Array, eps: float
) -> Array:
    _, shape = along_channels(x)
    z = (x - mean.reshape(shape)) / np.sqrt(variance.reshape(shape) + eps)
    y = z if weight is None else z * weight.reshape(shape)
    return (y if bias is None else y + bias.reshape(shape)).astype(x.dtype, copy=False)


def of_channels(name: str, given: Array | None, x: Array, default: float) -> Array:
    """What is given for each channel of x, in float64, or the default for all."""
    if given is None:
        return np.full(x.shape[1], default)
    require_shape(name, given, x.shape[1:2])
    return np.ascontiguousarray(given, np.float64)


def scale_of(x: Array, weight: Array | None, variance: Array, eps: float) -> Array:
    """weight rstd, in the dtype of x."""
    rstd = 1 / np.sqrt(of_channels("variance", variance, x, 1.0) + eps)
    return (rstd if weight is None else rstd * of_channels("weight", weight, x, 1.0)).astype(x.dtype)


def halves(mean: Array, x: Array) -> tuple[Array, Array]:
    """The mean as two numbers of the dtype of x."""
    exact = of_channels("mean", mean, x, 0.0)
    high = exact.astype(x.dtype)
    return high, (exact - high).astype(x.dtype)


@parallel
def scale_planes(block: int, step: int, x: Any, high: Any, low: Any, scale: Any, shift: Any, y: Any) -> None:
    widest_vectors()
    channels = high.size
    for plane in range(block * step, min(block * step + step, x.shape[0])):
        c = plane % channels
        source, target, upper, lower, factor, more = x[plane], y[plane], high[c], low[c], scale[c], shift[c]
        for i in range(source.size):
            target[i] = minus(minus(source[i], upper), lower) * factor + more


@parallel
def scale_columns(block: int, step: int, x: Any, high: Any, low: Any, scale: Any, shift: Any, y: Any) -> None:
    widest_vectors()
    for row in range(block * step, min(block * step + step, x.shape[0])):
        source, target = x[row], y[row]
        for c in range(source.size):
            target[c] = minus(minus(source[c], high[c]), low[c]) * scale[c] + shift[c]


# ---------------------------------------------------------------- backward
def batch_norm_backward(
    g: Array,
    x: Array,
    weight: Array | None,
    mean: Array,
    variance: Array,
    eps: float,
    own_statistics: bool,
    need_x: bool = True,
    need_weight: bool = True,
    need_bias: bool = True,
    own: bool = False,
) -> tuple[Array | None, Array | None, Array | None]:
    """(dx, dweight, dbias), None for those that are not needed; `own_statistics`: mean and variance are those of x, and
    change with it; `own`: g may be overwritten by dx."""
    needs = need_x, need_weight, need_bias
    told = weight, mean, variance, eps, own_statistics
    if x.dtype not in NATIVE or g.dtype != x.dtype:
        dtype = np.result_type(g, x)
        return elsewhere(batch_norm_backward, batch_norm_backward_reference, dtype, g, x, *told, *needs)
    require_shape("g", g, x.shape)
    rstd, scale = 1 / np.sqrt(of_channels("variance", variance, x, 1.0) + eps), scale_of(x, weight, variance, eps)
    dx, sums = room_beside(g, own), np.zeros((2, x.shape[1]))
    upper, values, target = planes(g), planes(x), planes(dx)
    N, C, L = values.shape
    channels = *halves(mean, x), rstd, scale, own_statistics
    if x.size and L > 1:
        plane_gradients(*blocks(C, N * L), upper, values, *channels, sums, target, dx is g)
    elif x.size:
        count, step = blocks(N, C)
        rows = upper.reshape(N, C), values.reshape(N, C), *channels, np.zeros((2, count, C)), target.reshape(N, C)
        column_gradients(count, step, *rows, sums, dx is g)
    dweight, dbias = sums.astype(x.dtype)
    return dx if need_x else None, dweight if need_weight else None, dbias if need_bias else None


def batch_norm_backward_reference(
    g: Array,
    x: Array,
    weight: Array | None,
    mean: Array,
    variance: Array,
    eps: float,
    own_statistics: bool,
    need_x: bool = True,
    need_weight: bool = True,
    need_bias: bool = True,
) -> tuple[Array | None, Array | None, Array | None]:
    axes, shape = along_channels(x)
    rstd = (1 / np.sqrt(variance + eps)).reshape(shape)
    z = (x - mean.reshape(shape)) * rstd
    dz = g
    if own_statistics:
        dz = g - g.mean(axes, keepdims=True) - z * (g * z).mean(axes, keepdims=True)
    dx = (dz * rstd if weight is None else dz * rstd * weight.reshape(shape)).astype(x.dtype, copy=False)
    dweight, dbias = ((each.sum(axes)).astype(x.dtype, copy=False) for each in (g * z, g))
    return dx if need_x else None, dweight if need_weight else None, dbias if need_bias else None


@parallel
def plane_gradients(
    block: int, step: int, g: Any, x: Any, high: Any, low: Any, rstd: Any, scale: Any, own_statistics: bool,
    sums: Any, dx: Any, in_place: bool,
) -> None:  # fmt: skip
    widest_vectors()
    number = x.dtype.type
    N, C, L = x.shape
    for c in range(block * step, min(block * step + step, C)):
        most, rest, factor = high[c], low[c], scale[c]
        mean = np.float64(most) + np.float64(rest)
        total, product = 0.0, 0.0
        for n in range(N):
            upper, source = g[n, c], x[n, c]
            for i in range(source.size):
                total += np.float64(upper[i])
                product += np.float64(upper[i]) * minus(np.float64(source[i]), mean)
        sums[0, c], sums[1, c] = product * rstd[c], total
        average, slope, within = number(total / (N * L)), number(sums[0, c] / (N * L)), number(rstd[c])
        for n in range(N):
            source, target = x[n, c], dx[n, c]
            copy_unless_same(g[n, c], target, in_place)
            if own_statistics:
                for i in range(source.size):
                    z = minus(minus(source[i], most), rest) * within
                    target[i] = factor * minus(minus(target[i], average), z * slope)
            else:
                for i in range(target.size):
                    target[i] *= factor


@kernel
def column_gradients(
    count: int, step: int, g: Any, x: Any, high: Any, low: Any, rstd: Any, scale: Any, own_statistics: bool, parts: Any,
    dx: Any, sums: Any, in_place: bool,
) -> None:  # fmt: skip
    add_products(count, step, g, x, high, low, parts)
    add_blocks(parts[0])
    add_blocks(parts[1])
    within, average, slope = np.empty_like(scale), np.empty_like(scale), np.empty_like(scale)
    for c in range(rstd.size):
        sums[0, c], sums[1, c] = parts[0, 0, c] * rstd[c], parts[1, 0, c]
        within[c], average[c], slope[c] = rstd[c], sums[1, c] / x.shape[0], sums[0, c] / x.shape[0]
    gradients_of_rows(count, step, g, x, high, low, within, scale, average, slope, own_statistics, dx, in_place)


@parallel_part
def add_products(block: int, step: int, g: Any, x: Any, high: Any, low: Any, sums: Any) -> None:
    """The sums of a block of rows: of g (x - mean), and of g."""
    widest_vectors()
    products, totals = sums[0, block], sums[1, block]
    for row in range(block * step, min(block * step + step, x.shape[0])):
        upper, source = g[row], x[row]
        for c in range(source.size):
            distance = minus(minus(np.float64(source[c]), np.float64(high[c])), np.float64(low[c]))
            products[c] += np.float64(upper[c]) * distance
            totals[c] += np.float64(upper[c])


@parallel_part
def gradients_of_rows(
    block: int, step: int, g: Any, x: Any, high: Any, low: Any, within: Any, scale: Any, average: Any, slope: Any,
    own_statistics: bool, dx: Any, in_place: bool,
) -> None:  # fmt: skip
    widest_vectors()
    for row in range(block * step, min(block * step + step, x.shape[0])):
        source, target = x[row], dx[row]
        copy_unless_same(g[row], target, in_place)
        if own_statistics:
            for c in range(source.size):
                z = minus(minus(source[c], high[c]), low[c]) * within[c]
                target[c] = scale[c] * minus(minus(target[c], average[c]), z * slope[c])
        else:
            for c in range(source.size):
                target[c] *= scale[c]
