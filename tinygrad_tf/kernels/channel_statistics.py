"""Mean and variance of each channel of an array (N, C, ...): the statistics of batch norm.

A channel is a piece of work. In an array (N, C) neighbours are other channels: there a piece is some rows, and the sums
of all channels are made at once.

All sums are made in float64, as additions are not what takes the time: of the distances from the channel's first entry,
and of their squares, in one pass. Where that entry is far from the mean, an outlier, there is a second pass with the
mean in its place. The figures stand in `batch_norm.py`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinygrad_tf.kernels._compile import kernel, parallel
from tinygrad_tf.kernels._math import minus
from tinygrad_tf.kernels._part import parallel_part
from tinygrad_tf.kernels._rows import NATIVE, blocks
from tinygrad_tf.kernels._scalar import widest_vectors
from tinygrad_tf.kernels.cast import cast
from tinygrad_tf.kernels.layer_norm import add_blocks

Array = np.ndarray
FAR = 4.0  # standard deviations


def planes(x: Array) -> Array:
    """(N, C, ...) as a C-contiguous (N, C, L)."""
    return np.ascontiguousarray(x).reshape(*x.shape[:2], math.prod(x.shape[2:]))


def along_channels(x: Array) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The axes that statistics are taken over, and the shape of what has a number for each channel beside x."""
    return (0, *range(2, x.ndim)), (1, x.shape[1], *(1,) * (x.ndim - 2))


def channel_statistics(x: Array) -> tuple[Array, Array]:
    """(mean, variance), each (C,) and in float64; the variance over n, not n - 1.

    >>> channel_statistics(np.array([[[1.0, 2.0], [5.0, 5.0]]]))
    (array([1.5, 5. ]), array([0.25, 0.  ]))
    """
    if x.dtype not in NATIVE:
        return channel_statistics(cast(x, np.dtype(np.float32))) if x.itemsize == 2 else channel_statistics_reference(x)
    values = planes(x)
    if not x.size:
        return np.zeros(x.shape[1]), np.zeros(x.shape[1])
    about = values[0, :, 0].astype(np.float64)
    mean, variance = statistics_about(about, values)
    with np.errstate(all="ignore"):
        far = (mean - about) ** 2 > FAR**2 * variance
    return statistics_about(mean, values) if far.any() else (mean, variance)


def statistics_about(about: Array, x: Array) -> tuple[Array, Array]:
    """Mean and variance from the distances from one number for each channel of x (N, C, L)."""
    N, C, L = x.shape
    mean, variance = np.empty((2, C))
    if L > 1:
        plane_statistics(*blocks(C, N * L), x, about, mean, variance)
    else:
        count, step = blocks(N, C)
        column_statistics(count, step, x.reshape(N, C), about, np.zeros((2, count, C)), mean, variance)
    return mean, variance


def channel_statistics_reference(x: Array) -> tuple[Array, Array]:
    axes, _ = along_channels(x)
    exact = x.astype(np.promote_types(x.dtype, np.float64))
    return exact.mean(axes), exact.var(axes)


@parallel
def plane_statistics(block: int, step: int, x: Any, about: Any, mean: Any, variance: Any) -> None:
    widest_vectors()
    N, C, L = x.shape
    for c in range(block * step, min(block * step + step, C)):
        first = about[c]
        total, squares = 0.0, 0.0
        for n in range(N):
            row = x[n, c]
            for i in range(row.size):
                distance = minus(np.float64(row[i]), first)
                total += distance
                squares += distance * distance
        mean[c] = first + total / (N * L)
        variance[c] = variance_of(total, squares, N * L)


@kernel
def column_statistics(count: int, step: int, x: Any, about: Any, sums: Any, mean: Any, variance: Any) -> None:
    add_columns(count, step, x, about, sums)
    add_blocks(sums[0])
    add_blocks(sums[1])
    for c in range(mean.size):
        mean[c] = about[c] + sums[0, 0, c] / x.shape[0]
        variance[c] = variance_of(sums[0, 0, c], sums[1, 0, c], x.shape[0])


@parallel_part
def add_columns(block: int, step: int, x: Any, about: Any, sums: Any) -> None:
    """The sums of a block of rows: of the distances, and of their squares."""
    widest_vectors()
    totals, squares = sums[0, block], sums[1, block]
    for row in range(block * step, min(block * step + step, x.shape[0])):
        source = x[row]
        for c in range(source.size):
            distance = minus(np.float64(source[c]), about[c])
            totals[c] += distance
            squares[c] += distance * distance


@kernel
def variance_of(total: float, squares: float, count: int) -> Any:
    """From the sums of the distances from one number, and of their squares; infinite where these overflow."""
    average = total / count
    found = squares / count
    return max(found - average * average, 0.0) if found < np.inf else found
