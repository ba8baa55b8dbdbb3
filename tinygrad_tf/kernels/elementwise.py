"""Elementwise functions that NumPy lacks or runs on one core only, large copies of transposed arrays, and column sums.

    tanh sigmoid erf exp expm1 log log1p softplus relu
                                           one array of any shape and strides, result C-contiguous
    add subtract multiply divide           two arrays of the same shape; use them only where `worth(a, b)`
    add_to(total, part)                    total += part
    contiguous(x)                          x C-contiguous: x itself, or a copy
    copied(x)                              a C-contiguous copy
    sum_rows(x)                            (rows, cols) -> (cols,)

On one core NumPy is as fast as any code at the simple ones. What is won comes from several cores, mostly because the
pages of a large new array are then touched by all of them; below BINARY_SIZE elements nothing is won. What NumPy does
badly, microseconds on one core, float32:

                                              NumPy     here    PyTorch
    transpose of 16384 x 384                 48,400   11,400     16,300
    column sums of 3072 x 64                     48       12          8
    erf of 768 x 512 (NumPy has none)                    166        213
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tinygrad_tf.kernels import _math
from tinygrad_tf.kernels._compile import kernel, parallel
from tinygrad_tf.kernels._half import bits, get, is_bfloat16
from tinygrad_tf.kernels._many import addresses, array_at
from tinygrad_tf.kernels._rows import NATIVE, blocks, elsewhere
from tinygrad_tf.kernels._scalar import widest_vectors

Array = np.ndarray
BINARY_GRAIN, COPY_GRAIN, SUM_GRAIN = 16384, 16384, 16384
BINARY_SIZE = 4 * BINARY_GRAIN
TILE = 32


# ---------------------------------------------------------------- functions of one array
def unary(name: str, formula: Any, reference: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """A function on arrays from `formula` on numbers; `reference` is the same in NumPy."""

    @parallel
    def run(block: int, step: int, x: Any, y: Any) -> None:
        widest_vectors()
        source, target = x[block * step : block * step + step], y[block * step : block * step + step]
        for i in range(source.size):
            target[i] = formula(source[i])

    def apply(x: Array) -> Array:
        if x.dtype not in NATIVE:
            return elsewhere(apply, reference, x.dtype, x)
        y = np.empty(x.shape, x.dtype)
        count, step = blocks(x.size, 1)
        run(count, step, np.ascontiguousarray(x).reshape(-1), y.reshape(-1))
        return y

    apply.__name__ = apply.__qualname__ = name
    apply.reference = reference  # type: ignore[attr-defined]
    return apply


def sigmoid_reference(x: Array) -> Array:
    decay = np.exp(-np.abs(x))
    return np.where(x < 0, decay, x.dtype.type(1)) / (1 + decay)


def relu_reference(x: Array) -> Array:
    return np.maximum(x, 0)


def erf_reference(x: Array) -> Array:
    return np.asarray(np.vectorize(math.erf, otypes=[np.float64])(x), x.dtype)


tanh = unary("tanh", _math.tanh, np.tanh)
sigmoid = unary("sigmoid", _math.sigmoid, sigmoid_reference)
erf = unary("erf", _math.erf, erf_reference)
exp = unary("exp", _math.exp, np.exp)
expm1 = unary("expm1", _math.expm1, np.expm1)
log = unary("log", _math.log, np.log)
log1p = unary("log1p", _math.log1p, np.log1p)
softplus = unary("softplus", _math.softplus, lambda x: np.logaddexp(x.dtype.type(0), x))
relu = unary("relu", kernel(lambda x: 0.0 if x <= 0 else x), relu_reference)


# ---------------------------------------------------------------- functions of two arrays
def binary(name: str, formula: Any, reference: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    """A function of two arrays of the same shape and dtype from `formula` on two numbers."""

    @parallel
    def run(block: int, step: int, a: Any, b: Any, result: Any) -> None:
        widest_vectors()
        start, stop = block * step, block * step + step
        left, right, target = a[start:stop], b[start:stop], result[start:stop]
        for i in range(left.size):
            target[i] = formula(left[i], right[i])

    def apply(a: Array, b: Array) -> Array:
        if a.dtype not in NATIVE or a.dtype != b.dtype:
            return elsewhere(apply, reference, np.result_type(a, b), a, b)
        if a.shape != b.shape:
            raise ValueError(f"{name} takes two arrays of the same shape, got {a.shape} and {b.shape}")
        result = np.empty(a.shape, a.dtype)
        count, step = blocks(a.size, 1, BINARY_GRAIN)
        flat = np.ascontiguousarray(a).reshape(-1), np.ascontiguousarray(b).reshape(-1), result.reshape(-1)
        run(count, step, *flat)
        return result

    apply.__name__ = apply.__qualname__ = name
    apply.reference = reference  # type: ignore[attr-defined]
    return apply


def worth(a: Array, b: Array, least: int = BINARY_SIZE) -> bool:
    """Whether `add` and the like are faster than NumPy: large arrays of one shape and dtype, both C-contiguous.

    Functions are from fewer elements on, also on one core: with AVX2 an element of NumPy's exp takes 1.4 ns and of its
    tanh 2.7, of these 0.6 and 0.7 (with AVX-512 as long as here).
    """
    return a.size >= least and _alike(a, b)


def _alike(a: Array, b: Array) -> bool:
    return (
        a.shape == b.shape
        and a.dtype == b.dtype
        and a.dtype in NATIVE
        and a.flags.c_contiguous
        and b.flags.c_contiguous
    )


add = binary("add", kernel(lambda a, b: a + b), np.add)
subtract = binary("subtract", kernel(lambda a, b: a - b), np.subtract)
multiply = binary("multiply", kernel(lambda a, b: a * b), np.multiply)
divide = binary("divide", kernel(lambda a, b: a / b), np.divide)


@parallel
def add_blocks(block: int, step: int, total: Any, part: Any) -> None:
    widest_vectors()
    target, source = total[block * step : block * step + step], part[block * step : block * step + step]
    for i in range(source.size):
        target[i] += source[i]


def add_to(total: Array, part: Array) -> None:
    """total += part, on several threads where the arrays are large, of one kind, and C-contiguous.

    >>> total = np.ones(2)
    >>> add_to(total, np.array([2.0, 3.0]))
    >>> total
    array([3., 4.])
    """
    if total.size >= BINARY_SIZE // 2 and _alike(total, part):
        count, step = blocks(total.size, 1, BINARY_GRAIN // 2)
        add_blocks(count, step, total.reshape(-1), part.reshape(-1))
    else:
        np.add(total, part, out=total)


# ---------------------------------------------------------------- copies
def contiguous(x: Array) -> Array:
    """x as a C-contiguous array: x itself, or a copy that is made in tiles by several threads where that is faster."""
    if x.flags.c_contiguous:
        return x
    transposed = x.size >= 4 * COPY_GRAIN and x.strides[-1] != x.itemsize and x.dtype in NATIVE and x.flags.aligned
    axes = simplest(x) if transposed else None
    if axes is None:
        return np.ascontiguousarray(x)
    y = np.empty(x.shape, x.dtype)
    (A, B, R, C), strides = axes
    count, step = blocks(A * B * -(-R // TILE), TILE * C, COPY_GRAIN)
    copy_tiles(count, step, addresses([x])[0], B, R, strides, y.reshape(A * B * R, C))
    return y


def copied(x: Array) -> Array:
    """A C-contiguous copy of x, made by several threads where that is faster.

    >>> copied(np.arange(4.0).reshape(2, 2).T)
    array([[0., 2.],
           [1., 3.]])
    """
    if not x.flags.c_contiguous:
        return contiguous(x)
    if x.size < 8 * COPY_GRAIN or x.dtype not in NATIVE or not x.flags.aligned:
        return x.copy()
    y = np.empty(x.shape, x.dtype)
    count, step = blocks(x.size, 1, COPY_GRAIN)
    copy_blocks(count, step, x.reshape(-1), y.reshape(-1))
    return y


@parallel
def copy_blocks(block: int, step: int, x: Any, y: Any) -> None:
    source, target = x[block * step : block * step + step], y[block * step : block * step + step]
    for i in range(source.size):
        target[i] = source[i]


def simplest(x: Array) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """(sizes, strides) of four axes that run through x in the same order; None if it takes more."""
    axes: list[tuple[int, int]] = []
    for size, stride in zip(x.shape, x.strides, strict=True):
        if size == 1:
            continue
        if axes and axes[-1][1] == stride * size:
            axes[-1] = axes[-1][0] * size, stride
        else:
            axes.append((size, stride))
    if len(axes) > 4:
        return None
    sizes, strides = zip(*[(1, 0)] * (4 - len(axes)), *axes, strict=True)
    return sizes, strides


@parallel
def copy_tiles(block: int, step: int, address: int, B: int, R: int, strides: Any, y: Any) -> None:
    """Squares of TILE x TILE numbers, so that what was loaded for one row is still in cache for the next."""
    tiles = -(-R // TILE)
    for tile in range(block * step, min(block * step + step, y.shape[0] // R * tiles)):
        outer, first = tile // tiles, tile % tiles * TILE
        start = address + outer // B * strides[0] + outer % B * strides[1]
        for left in range(0, y.shape[1], TILE):
            for row in range(first, min(first + TILE, R)):
                target = y[outer * R + row, left : left + TILE]
                place = start + row * strides[2] + left * strides[3]
                for col in range(target.size):
                    target[col] = array_at(place + col * strides[3], 1, y)[0]


# ---------------------------------------------------------------- column sums
def sum_rows(x: Array) -> Array:
    """(rows, cols) -> (cols,): sums of blocks of rows, then the sum of those; the order depends on the size only.

    Sums of bfloat16 are made in float32, and stay so.
    """
    halves = is_bfloat16(x.dtype)
    if (x.dtype not in NATIVE and not halves) or x.shape[1] < 8 or x.size < 4 * SUM_GRAIN:
        return x.sum(0, dtype=np.float32) if halves else x.sum(0)
    x = np.ascontiguousarray(x)
    count, step = blocks(x.shape[0], x.shape[1], SUM_GRAIN)
    sums = np.zeros((count, x.shape[1]), np.float32 if halves else x.dtype)
    sum_block(count, step, bits(x), sums)
    return sums.sum(0)


@parallel
def sum_block(block: int, step: int, x: Any, sums: Any) -> None:
    widest_vectors()
    total = sums[block]
    start, stop = block * step, min(block * step + step, x.shape[0])
    fours = start + (stop - start) // 4 * 4
    for row in range(start, fours, 4):  # four rows for each time that the sums are loaded and stored
        first, second, third, fourth = x[row], x[row + 1], x[row + 2], x[row + 3]
        for col in range(total.size):
            total[col] += (get(first, col) + get(second, col)) + (get(third, col) + get(fourth, col))
    for row in range(fours, stop):
        source = x[row]
        for col in range(total.size):
            total[col] += get(source, col)
