"""What the instructions of a program do to one row of its workspace (`decode.py`).

on_row        embedding, position, norm, product, sum         turn     rotary positions, by the angles of put_angles
finish        bias and activation behind a linear layer       attend   one query of one head
array_at      memory by its address, as an array
"""
# mypy: allow-untyped-defs

from __future__ import annotations

import math

import numpy as np
from llvmlite import ir
from numba import types
from numba.np.arrayobj import make_array, populate_array

from tinygrad_tf.kernels import _math
from tinygrad_tf.kernels._dots import FEW, few_dots
from tinygrad_tf.kernels._math import exp_negative, minus, sigmoid
from tinygrad_tf.kernels._part import part
from tinygrad_tf.kernels._scalar import instruction, widest_vectors
from tinygrad_tf.kernels._thin import add_eight_rows, add_row
from tinygrad_tf.kernels.gelu import CUBIC, SCALE
from tinygrad_tf.kernels.instructions import (
    EMBED,
    GELU,
    GELU_TANH,
    HALVES,
    LAYER_NORM,
    MULTIPLY,
    POSITION,
    RELU,
    SILU,
)


@part()
def on_row(operation, source, target, weight, bias, has_weight, has_bias, number):
    """What is done to each row alone; weight is that of LAYER_NORM and RMS_NORM, or a row of a table."""
    widest_vectors()
    kind = target.dtype.type
    if operation == EMBED:
        for i in range(target.size):
            target[i] = weight[i] * kind(number)
    elif operation == POSITION:
        for i in range(target.size):
            target[i] = source[i] + weight[i]
    elif operation == MULTIPLY:
        for i in range(target.size):
            target[i] *= source[i]
    else:
        size, middle, rest = kind(source.size), kind(0), kind(0)
        if operation == LAYER_NORM:  # the mean is two numbers: one would be too rough for a row far from zero
            middle = source.sum() / size
            for i in range(source.size):
                rest += minus(source[i], middle)
            rest /= size
        squares = kind(0)
        for i in range(source.size):
            distance = minus(minus(source[i], middle), rest)
            squares += distance * distance
        scale = kind(1) / np.sqrt(squares / size + kind(number))
        for i in range(source.size):
            target[i] = minus(minus(source[i], middle), rest) * scale
        if has_weight:
            for i in range(source.size):
                target[i] *= weight[i]
        if has_bias:
            for i in range(source.size):
                target[i] += bias[i]


@part()
def put_angles(before, rates, target):
    for i in range(rates.size):
        target[i], target[rates.size + i] = math.cos(before * rates[i]), math.sin(before * rates[i])


@part()
def turn(angles, heads, pairs):
    D = angles.size
    half = D // 2
    step, apart = (1, half) if pairs == HALVES else (2, 1)
    for start in range(0, heads.size, D):
        for i in range(half):
            first = start + step * i
            a, b, cosine, sine = heads[first], heads[first + apart], angles[i], angles[half + i]
            heads[first], heads[first + apart] = a * cosine - b * sine, b * cosine + a * sine


@part()
def finish(y, bias, has_bias, activation):
    kind = y.dtype.type
    if has_bias:
        for i in range(y.size):
            y[i] += bias[i]
    if activation == RELU:
        for i in range(y.size):
            y[i] = kind(0) if y[i] < kind(0) else y[i]
    elif activation == GELU:
        for i in range(y.size):
            y[i] = _math.gelu(y[i])
    elif activation == GELU_TANH:
        for i in range(y.size):
            y[i] *= sigmoid(y[i] * (kind(SCALE) + kind(SCALE * CUBIC) * y[i] * y[i]))
    elif activation == SILU:
        for i in range(y.size):
            y[i] *= sigmoid(y[i])


@part()
def attend(D, flat, query, keys, values, start, weights, scale, slope, target):
    """One query, of the keys and values from `start` on, one for each of `weights`, which holds them meanwhile."""
    kind, T = flat.dtype.type, weights.size
    for j in range(0, T, FEW):
        few_dots(D, flat, query, 0, keys, start + j * D, min(FEW, T - j) - 1, weights, j, 0, False)
    top = kind(-np.inf)
    for j in range(T):
        weights[j] = weights[j] * kind(scale) + slope * kind(j - T + 1)  # small where it is close: rounded less
        top = max(top, weights[j])
    total = kind(0)
    for j in range(T):
        weights[j] = exp_negative(minus(weights[j], top))
        total += weights[j]
    for j in range(T):
        weights[j] /= total
    for d in range(D):
        flat[target + d] = 0
    eights = T // 8 * 8
    for j in range(0, eights, 8):
        add_eight_rows(D, weights, j, 1, values, start + j * D, D, flat, target)
    for j in range(eights, T):
        add_row(D, weights, j, 1, values, start + j * D, D, flat, target)


@instruction
def array_at(typing, address, first, size, like):
    """`size` numbers of like's type in the memory at `address`, from number `first` on."""
    n = types.int64
    return types.Array(like.dtype, 1, "C")(n, n, n, like), _emit_array


def _emit_array(context, builder, signature, args):
    array = make_array(signature.return_type)(context, builder)
    element = context.get_data_type(signature.return_type.dtype)
    itemsize = ir.IntType(64)(context.get_abi_sizeof(element))
    start = builder.gep(builder.inttoptr(args[0], element.as_pointer()), [args[1]])
    populate_array(array, start, [args[2]], [itemsize], itemsize, meminfo=None)
    return array._getvalue()
