"""softmax and log_softmax along the last axis, forward and backward.

Shapes: x, y, g (..., cols), any strides; results are new C-contiguous arrays.

    softmax       y = exp(x - max) / sum(exp(x - max))        dx = y (g - sum(g y))
    log_softmax   y = x - max - log(sum(exp(x - max)))        dx = g - exp(y) sum(g)

A row is read twice and written twice while it is in cache, so time goes to the exponentials. Versions of softmax, 768 x
65 and 768 x 512 float32, microseconds on one core (AVX-512); PyTorch on one core takes 45 and 250:

    NumPy                                                                    111   1300
    one loop each for the maximum, the exponentials and the scaling; libm    159   1325
    exp_negative, which vectorises                                            68    543
    the maximum among integers in the order of the floats (`largest`)         44    225
    the widest registers                                                      24    197

A variant in which the exponentials of several rows were one loop was a tenth faster at 65 columns and slower at 512.
log_softmax keeps x - max in y, and takes the logarithms of all rows of a block in one loop: 27 microseconds; logarithms
row by row, and x read again, 32; PyTorch 35.

What is written is added up in a loop of its own. A loop that reads x, writes y and adds up was 5 % faster, but LLVM
gives it a second form for arrays that might overlap, which adds in another order: it was taken wherever y lay right
behind x, and two runs of one program differed in the last bit.

A row whose numbers are all -inf gives NaN, as does one with +inf or NaN in it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tinygrad_tf.kernels._compile import parallel
from tinygrad_tf.kernels._math import exp_negative, log, minus
from tinygrad_tf.kernels._rows import (
    NATIVE,
    blocks,
    copy_unless_same,
    elsewhere,
    largest,
    require_shape,
    room_beside,
    rows_of,
)
from tinygrad_tf.kernels._scalar import widest_vectors


def softmax(x: np.ndarray) -> np.ndarray:
    """Weights that are positive and add up to 1, along the last axis.

    >>> softmax(np.array([[0.0, 0.0], [0.0, -np.inf]]))
    array([[0.5, 0.5],
           [1. , 0. ]])
    """
    if x.dtype not in NATIVE:
        return elsewhere(softmax, softmax_reference, x.dtype, x)
    y = np.empty(x.shape, x.dtype)
    if x.size:
        rows = rows_of(x)
        count, step = blocks(*rows.shape)
        softmax_rows(count, step, rows, y.reshape(rows.shape))
    return y


def softmax_reference(x: np.ndarray) -> np.ndarray:
    weights = np.exp(x - x.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


@parallel
def softmax_rows(block: int, step: int, x: Any, y: Any) -> None:
    widest_vectors()
    for row in range(block * step, min(block * step + step, x.shape[0])):
        source, target = x[row], y[row]
        top = largest(source)
        for col in range(source.size):
            target[col] = exp_negative(minus(source[col], top))
        total = x.dtype.type(0)
        for col in range(source.size):
            total += target[col]
        scale = x.dtype.type(1) / total
        for col in range(source.size):
            target[col] *= scale


def softmax_backward(g: np.ndarray, y: np.ndarray, own: bool = False) -> np.ndarray:
    """The gradient for x from the one for y = softmax(x); `own`: g may be overwritten by it."""
    if y.dtype not in NATIVE or g.dtype != y.dtype:
        return elsewhere(softmax_backward, softmax_backward_reference, np.result_type(g, y), g, y)
    require_shape("g", g, y.shape)
    dx = room_beside(g, own)
    if y.size:
        rows = rows_of(y)
        count, step = blocks(*rows.shape)
        softmax_backward_rows(count, step, rows_of(g), rows, dx.reshape(rows.shape), dx is g)
    return dx


def softmax_backward_reference(g: np.ndarray, y: np.ndarray) -> np.ndarray:
    return y * (g - (g * y).sum(-1, keepdims=True))


@parallel
def softmax_backward_rows(block: int, step: int, g: Any, y: Any, dx: Any, in_place: bool) -> None:
    widest_vectors()
    for row in range(block * step, min(block * step + step, y.shape[0])):
        weights, target = y[row], dx[row]
        copy_unless_same(g[row], target, in_place)
        common = g.dtype.type(0)
        for col in range(weights.size):
            common += target[col] * weights[col]
        for col in range(weights.size):
            target[col] = weights[col] * (target[col] - common)


def log_softmax(x: np.ndarray) -> np.ndarray:
    """The logarithm of softmax(x), finite where softmax itself would underflow.

    >>> log_softmax(np.array([1000.0, 0.0]))
    array([    0., -1000.])
    """
    if x.dtype not in NATIVE:
        return elsewhere(log_softmax, log_softmax_reference, x.dtype, x)
    y = np.empty(x.shape, x.dtype)
    if x.size:
        rows = rows_of(x)
        count, step = blocks(*rows.shape)
        log_softmax_rows(count, step, rows, y.reshape(rows.shape), np.empty(len(rows), x.dtype))
    return y


def log_softmax_reference(x: np.ndarray) -> np.ndarray:
    shifted = x - x.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


@parallel
def log_softmax_rows(block: int, step: int, x: Any, y: Any, totals: Any) -> None:
    widest_vectors()
    start, stop = block * step, min(block * step + step, x.shape[0])
    for row in range(start, stop):
        source, target = x[row], y[row]
        top = largest(source)
        for col in range(source.size):
            target[col] = minus(source[col], top)
        total = x.dtype.type(0)
        for col in range(source.size):
            total += exp_negative(target[col])
        totals[row] = total
    logs = totals[start:stop]
    for i in range(logs.size):  # a loop of its own: one by one, logarithms are slow
        logs[i] = log(logs[i])
    for row in range(start, stop):
        target, log_total = y[row], totals[row]
        for col in range(target.size):
            target[col] -= log_total


def log_softmax_backward(g: np.ndarray, y: np.ndarray, own: bool = False) -> np.ndarray:
    """The gradient for x from the one for y = log_softmax(x); `own`: g may be overwritten by it."""
    if y.dtype not in NATIVE or g.dtype != y.dtype:
        return elsewhere(log_softmax_backward, log_softmax_backward_reference, np.result_type(g, y), g, y)
    require_shape("g", g, y.shape)
    dx = room_beside(g, own)
    if y.size:
        rows = rows_of(y)
        count, step = blocks(*rows.shape)
        log_softmax_backward_rows(count, step, rows_of(g), rows, dx.reshape(rows.shape), dx is g)
    return dx


def log_softmax_backward_reference(g: np.ndarray, y: np.ndarray) -> np.ndarray:
    return g - np.exp(y) * g.sum(-1, keepdims=True)


@parallel
def log_softmax_backward_rows(block: int, step: int, g: Any, y: Any, dx: Any, in_place: bool) -> None:
    widest_vectors()
    for row in range(block * step, min(block * step + step, y.shape[0])):
        logs, target = y[row], dx[row]
        copy_unless_same(g[row], target, in_place)
        total = g.dtype.type(0)
        for col in range(target.size):
            total += target[col]
        for col in range(target.size):
            target[col] -= exp_negative(logs[col]) * total
