"""layer_norm (Ba et al., Layer Normalization, 2016) and rms_norm over the last axis, forward and backward.

Shapes: x, g, y (..., C), weight and bias (C,), one mean and one rstd for each row.

    layer_norm   z = (x - mean) rstd      y = z weight + bias       with rstd = 1 / sqrt(variance + eps)
                 dz = g weight            dx = rstd (dz - average(dz) - z average(dz z))
                 dweight = sum(g z)       dbias = sum(g)            over all rows
    rms_norm     the same without mean and bias, rrms = 1 / sqrt(average(x^2) + eps)

Where the squares overflow, of numbers from 1e19 on in float32, the row is counted in a larger unit, a power of two.

The forward pass reads a row three times from cache, the backward pass twice, with five streams. Versions, microseconds
on one core for 768 x 64 and 768 x 512 float32 (forward in full; backward without allocation):

    forward    NumPy 154, 1700; in one kernel 20, 157; PyTorch 37, 194
    backward   three loops: the sums for dweight and dbias, those of the row, dx       32   243
               both kinds of sums in one loop                                          25   218
               dx and the sums for dweight and dbias in one loop (this one)            21   246
    PyTorch's backward takes 42 and 254 with allocation, this one 28 and 260.

dweight and dbias are added up for each block of rows, and then over the blocks in their order: in the same call, as
NumPy's sum takes 15 microseconds between two kernels, where it has left the cache.

The mean is returned in float64. In float32 it would be off by up to 0.03 where x is about a million, and x - mean with
it. So the forward pass finds a rough mean first, and then the average distance from it along with the variance; and the
backward pass takes the mean as two float32 numbers. Both subtract the two parts one after the other.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tinygrad_tf.kernels._compile import kernel, parallel
from tinygrad_tf.kernels._math import minus
from tinygrad_tf.kernels._part import parallel_part
from tinygrad_tf.kernels._rows import NATIVE, blocks, copy_unless_same, elsewhere, require_shape, room_beside, rows_of
from tinygrad_tf.kernels._scalar import widest_vectors

Array = np.ndarray
BACKWARD_GRAIN = 16384  # each block of rows also writes one row of sums for dweight and one for dbias


# ---------------------------------------------------------------- layer_norm
def layer_norm(x: Array, weight: Array | None, bias: Array | None, eps: float) -> tuple[Array, Array, Array]:
    """(y, mean, rstd); mean (rows,) is float64, rstd (rows,) has the dtype of x.

    >>> y, mean, rstd = layer_norm(np.array([[1.0, 3.0], [2.0, 8.0]]), None, None, 0.0)
    >>> y, mean, rstd
    (array([[-1.,  1.],
           [-1.,  1.]]), array([2., 5.]), array([1.        , 0.33333333]))
    """
    if x.dtype not in NATIVE:
        y, mean, rstd = elsewhere(layer_norm, layer_norm_reference, x.dtype, x, weight, bias, eps)
        return y, mean.astype(np.float64), rstd
    rows = rows_of(x)
    y, mean, rstd = np.empty(x.shape, x.dtype), np.empty(len(rows)), np.empty(len(rows), x.dtype)
    if x.size:
        count, step = blocks(*rows.shape)
        layer_norm_rows(count, step, rows, *scale_and_shift(rows, weight, bias), eps, y.reshape(rows.shape), mean, rstd)
    return y, mean, rstd


def layer_norm_reference(x: Array, weight: Array | None, bias: Array | None, eps: float) -> tuple[Array, Array, Array]:
    mean = x.mean(-1, keepdims=True)
    rstd = 1 / np.sqrt(((x - mean) ** 2).mean(-1, keepdims=True) + eps)
    y = (x - mean) * rstd
    y = y if weight is None else y * weight
    y = y if bias is None else y + bias
    return y, mean.reshape(-1), rstd.reshape(-1)


@kernel
def unit_of_large(row: Any) -> Any:
    """What numbers are multiplied by where their squares overflow: sums of them and of their squares do not then."""
    return row.dtype.type(2.0**-96 if row.itemsize == 4 else 2.0**-768)


@kernel
def statistics(row: Any, unit: Any) -> Any:
    """A rough mean, the average distance from it, and the sum of the squares of the distances, all of row * unit."""
    number = row.dtype.type
    cols = number(row.size)
    total, rest, squares = number(0), number(0), number(0)
    for col in range(row.size):
        total += row[col] * unit
    rough = total / cols
    for col in range(row.size):
        distance = minus(row[col] * unit, rough)
        rest += distance
        squares += distance * distance
    return rough, rest / cols, squares


@parallel
def layer_norm_rows(
    block: int, step: int, x: Any, weight: Any, bias: Any, eps: float, y: Any, mean: Any, rstd: Any
) -> None:
    widest_vectors()
    number = x.dtype.type
    cols = number(x.shape[1])
    for row in range(block * step, min(block * step + step, x.shape[0])):
        source, target, unit = x[row], y[row], number(1)
        rough, rest, squares = statistics(source, unit)
        if not squares < number(np.inf):
            unit = unit_of_large(source)
            rough, rest, squares = statistics(source, unit)
        variance = squares / cols - rest * rest
        variance = number(0) if variance < number(0) else variance
        scale = number(1) / np.sqrt(variance + number(eps) * unit * unit)
        for col in range(source.size):
            target[col] = minus(minus(source[col] * unit, rough), rest) * scale * weight[col] + bias[col]
        mean[row] = (np.float64(rough) + np.float64(rest)) / unit
        rstd[row] = scale * unit


def layer_norm_backward(
    g: Array,
    x: Array,
    weight: Array | None,
    mean: Array,
    rstd: Array,
    need_x: bool = True,
    need_weight: bool = True,
    need_bias: bool = True,
    own: bool = False,
) -> tuple[Array | None, Array | None, Array | None]:
    """(dx, dweight, dbias), None for those that are not needed; mean and rstd as `layer_norm` returned them; `own`: g
    may be overwritten by dx."""
    needs = need_x, need_weight, need_bias
    if x.dtype not in NATIVE or g.dtype != x.dtype:
        dtype = np.result_type(g, x)
        return elsewhere(layer_norm_backward, layer_norm_backward_reference, dtype, g, x, weight, mean, rstd, *needs)
    require_shape("g", g, x.shape)
    rows = rows_of(x)
    count, step = blocks(len(rows), rows.shape[1], BACKWARD_GRAIN)
    dx, sums = room_beside(g, own), np.zeros((2, max(count, 1), rows.shape[1]), x.dtype)
    if x.size:
        scale, _ = scale_and_shift(rows, weight, None)
        mean, rstd = np.ascontiguousarray(mean, np.float64), np.ascontiguousarray(rstd, x.dtype)
        upper, target = rows_of(g), dx.reshape(rows.shape)
        layer_norm_gradients(count, step, upper, rows, scale, mean, rstd, target, sums, dx is g)
    dweight, dbias = sums[:, 0]
    return dx if need_x else None, dweight if need_weight else None, dbias if need_bias else None


def layer_norm_backward_reference(
    g: Array,
    x: Array,
    weight: Array | None,
    mean: Array,
    rstd: Array,
    need_x: bool = True,
    need_weight: bool = True,
    need_bias: bool = True,
) -> tuple[Array | None, Array | None, Array | None]:
    column = (*x.shape[:-1], 1)
    rstd = rstd.astype(x.dtype, copy=False).reshape(column)
    z = (x - mean.reshape(column)).astype(x.dtype, copy=False) * rstd
    dz = g if weight is None else g * weight
    dx = rstd * (dz - dz.mean(-1, keepdims=True) - z * (dz * z).mean(-1, keepdims=True))
    rows = tuple(range(x.ndim - 1))
    return dx if need_x else None, (g * z).sum(rows) if need_weight else None, g.sum(rows) if need_bias else None


@kernel
def layer_norm_gradients(
    count: int, step: int, g: Any, x: Any, weight: Any, mean: Any, rstd: Any, dx: Any, sums: Any, in_place: bool
) -> None:
    layer_norm_backward_rows(count, step, g, x, weight, mean, rstd, dx, sums, in_place)
    add_blocks(sums[0])
    add_blocks(sums[1])


@kernel
def add_blocks(sums: Any) -> None:
    """The sums of all blocks, in their order, in the place of the first one's."""
    for block in range(1, sums.shape[0]):
        for col in range(sums.shape[1]):
            sums[0, col] += sums[block, col]


@parallel_part
def layer_norm_backward_rows(
    block: int, step: int, g: Any, x: Any, weight: Any, mean: Any, rstd: Any, dx: Any, sums: Any, in_place: bool
) -> None:
    widest_vectors()
    number = x.dtype.type
    cols = number(x.shape[1])
    dweight, dbias = sums[0, block], sums[1, block]
    for row in range(block * step, min(block * step + step, x.shape[0])):
        source, target, scale = x[row], dx[row], rstd[row]
        copy_unless_same(g[row], target, in_place)
        unit = unit_of_large(source) if scale < unit_of_large(source) else number(1)
        high = number(mean[row])
        low, high = number(mean[row] - np.float64(high)) * unit, high * unit
        total, product, within = number(0), number(0), scale / unit
        for col in range(source.size):
            z = minus(minus(source[col] * unit, high), low) * within
            dz = target[col] * weight[col]
            total += dz
            product += dz * z
        average, slope = total / cols, product / cols
        for col in range(source.size):
            z = minus(minus(source[col] * unit, high), low) * within
            upper = target[col]
            target[col] = scale * minus(minus(upper * weight[col], average), z * slope)
            dweight[col] += upper * z
            dbias[col] += upper


def scale_and_shift(rows: Array, weight: Array | None, bias: Array | None) -> tuple[Array, Array]:
    """weight and bias as the kernels want them, 1 and 0 where there are none."""
    shape, dtype = rows.shape[1:], rows.dtype
    if weight is not None and weight.shape != shape:
        require_shape("weight", weight, shape)
    if bias is not None and bias.shape != shape:
        require_shape("bias", bias, shape)
    return (
        np.ones(shape, dtype) if weight is None else np.ascontiguousarray(weight, dtype),
        np.zeros(shape, dtype) if bias is None else np.ascontiguousarray(bias, dtype),
    )


# ---------------------------------------------------------------- rms_norm
def rms_norm(x: Array, weight: Array | None, eps: float) -> tuple[Array, Array]:
    """(y, rrms); rrms (rows,) has the dtype of x (Zhang and Sennrich, Root Mean Square Layer Normalization, 2019).

    >>> rms_norm(np.array([[3.0, -3.0]]), None, 0.0)
    (array([[ 1., -1.]]), array([0.33333333]))
    """
    if x.dtype not in NATIVE:
        return elsewhere(rms_norm, rms_norm_reference, x.dtype, x, weight, eps)
    rows = rows_of(x)
    y, rrms = np.empty(x.shape, x.dtype), np.empty(len(rows), x.dtype)
    if x.size:
        count, step = blocks(*rows.shape)
        rms_norm_rows(count, step, rows, scale_and_shift(rows, weight, None)[0], eps, y.reshape(rows.shape), rrms)
    return y, rrms


def rms_norm_reference(x: Array, weight: Array | None, eps: float) -> tuple[Array, Array]:
    rrms = 1 / np.sqrt((x * x).mean(-1, keepdims=True) + eps)
    return x * rrms if weight is None else x * rrms * weight, rrms.reshape(-1)


@kernel
def sum_of_squares(row: Any, unit: Any) -> Any:
    squares = row.dtype.type(0)
    for col in range(row.size):
        squares += (row[col] * unit) * (row[col] * unit)
    return squares


@parallel
def rms_norm_rows(block: int, step: int, x: Any, weight: Any, eps: float, y: Any, rrms: Any) -> None:
    widest_vectors()
    number = x.dtype.type
    for row in range(block * step, min(block * step + step, x.shape[0])):
        source, target, unit = x[row], y[row], number(1)
        squares = sum_of_squares(source, unit)
        if not squares < number(np.inf):
            unit = unit_of_large(source)
            squares = sum_of_squares(source, unit)
        scale = unit / np.sqrt(squares / number(x.shape[1]) + number(eps) * unit * unit)
        for col in range(source.size):
            target[col] = source[col] * scale * weight[col]
        rrms[row] = scale


def rms_norm_backward(
    g: Array,
    x: Array,
    weight: Array | None,
    rrms: Array,
    need_x: bool = True,
    need_weight: bool = True,
    own: bool = False,
) -> tuple[Array | None, Array | None]:
    """(dx, dweight), None for those that are not needed; rrms as `rms_norm` returned it; `own`: g may be overwritten
    by dx."""
    if x.dtype not in NATIVE or g.dtype != x.dtype:
        dtype = np.result_type(g, x)
        return elsewhere(rms_norm_backward, rms_norm_backward_reference, dtype, g, x, weight, rrms, need_x, need_weight)
    require_shape("g", g, x.shape)
    rows = rows_of(x)
    count, step = blocks(len(rows), rows.shape[1], BACKWARD_GRAIN)
    dx, sums = room_beside(g, own), np.zeros((max(count, 1), rows.shape[1]), x.dtype)
    if x.size:
        scale, _ = scale_and_shift(rows, weight, None)
        rrms = np.ascontiguousarray(rrms, x.dtype)
        rms_norm_gradients(count, step, rows_of(g), rows, scale, rrms, dx.reshape(rows.shape), sums, dx is g)
    return dx if need_x else None, sums[0] if need_weight else None


def rms_norm_backward_reference(
    g: Array, x: Array, weight: Array | None, rrms: Array, need_x: bool = True, need_weight: bool = True
) -> tuple[Array | None, Array | None]:
    scale = rrms.astype(x.dtype, copy=False).reshape(*x.shape[:-1], 1)
    z = x * scale
    dz = g if weight is None else g * weight
    dx = scale * (dz - z * (dz * z).mean(-1, keepdims=True))
    return dx if need_x else None, (g * z).sum(tuple(range(x.ndim - 1))) if need_weight else None


@kernel
def rms_norm_gradients(
    count: int, step: int, g: Any, x: Any, weight: Any, rrms: Any, dx: Any, sums: Any, in_place: bool
) -> None:
    rms_norm_backward_rows(count, step, g, x, weight, rrms, dx, sums, in_place)
    add_blocks(sums)


@parallel_part
def rms_norm_backward_rows(
    block: int, step: int, g: Any, x: Any, weight: Any, rrms: Any, dx: Any, sums: Any, in_place: bool
) -> None:
    widest_vectors()
    number = x.dtype.type
    dweight = sums[block]
    for row in range(block * step, min(block * step + step, x.shape[0])):
        source, target, scale = x[row], dx[row], rrms[row]
        copy_unless_same(g[row], target, in_place)
        product = number(0)
        for col in range(source.size):
            product += target[col] * weight[col] * (source[col] * scale)
        slope = product / number(x.shape[1])
        for col in range(source.size):
            z = source[col] * scale
            upper = target[col]
            target[col] = scale * (upper * weight[col] - z * slope)
            dweight[col] += upper * z
