"""Uniform numbers into normal ones (Box and Muller 1958) in float32, bit for bit as `_box_muller` has them in NumPy.

    box_muller(blocks, mean, std)          blocks (N, 2, 8) of numbers in [0, 1), float32, changed in place

`_box_muller` says what is computed, and why: PyTorch's numbers are to come out. Each step is one of float64 numbers,
rounded to float32 where that is written; `_math`'s functions round otherwise. NumPy makes some 60 passes. Microseconds
on two cores with AVX2:

                    NumPy      here
    32 numbers        140         5
    a million      31,000     6,500
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba.extending import register_jitable

from tinygrad_tf._box_muller import COSINE, LOG, LOG2_HIGH, LOG2_LOW, QUARTER_PI, SINE
from tinygrad_tf.kernels._compile import kernel, parallel
from tinygrad_tf.kernels._math import STRICT
from tinygrad_tf.kernels._rows import blocks as shares
from tinygrad_tf.kernels._scalar import as_float, as_integer, widest_vectors

GRAIN, ROWS = 2048, 64  # numbers of a block for one thread, and blocks of 16 that are turned at once

as_written = register_jitable(**STRICT)  # kernels else allow the compiler to reorder sums


def _float32(numbers: tuple[float, ...]) -> tuple[float, ...]:
    return tuple([float(np.float32(number)) for number in numbers])


LOGARITHM, SINES, COSINES, QUARTERS = map(_float32, (LOG, SINE, COSINE, QUARTER_PI))
LOW, HIGH = _float32((LOG2_LOW, LOG2_HIGH))
TURN, EIGHTHS = _float32((2.0 * math.pi, 4.0 / math.pi))
ROOT_OF_HALF = math.sqrt(0.5)
MANTISSA, HALF = 0x7FFFFF, 0x3F000000  # of a float32: the bits of its fraction, and the number 0.5


def box_muller(blocks: np.ndarray, mean: float, std: float) -> None:
    """Number j of a block gives the radius and number j + 8 the angle; their places take cosine and sine value.

    >>> block = np.full((1, 2, 8), 0.5, np.float32)
    >>> box_muller(block, 0.0, 1.0)
    >>> round(float(block[0, 0, 0]), 4)
    -1.1774
    """
    count, step = shares(len(blocks), 16, GRAIN)
    turn_blocks(count, step, blocks.reshape(-1, 16), float(np.float32(mean)), float(np.float32(std)))


@parallel
def turn_blocks(block: int, step: int, numbers: Any, mean: float, std: float) -> None:
    last = min(block * step + step, numbers.shape[0])
    for start in range(block * step, last, ROWS):
        turn_rows(numbers[start : min(start + ROWS, last)], mean, std)


@kernel
def turn_rows(numbers: Any, mean: float, std: float) -> None:
    """Some blocks, by way of two arrays that cannot overlap: loops over these become vector code."""
    widest_vectors()
    distance, angle = np.empty(8 * ROWS, np.float32), np.empty(8 * ROWS, np.float32)
    count = 8 * numbers.shape[0]
    for i in range(count):
        distance[i], angle[i] = numbers[i >> 3, i & 7], numbers[i >> 3, (i & 7) + 8]
    for i in range(count):
        radius = radius_of(distance[i])
        cosine, sine = direction_of(angle[i])
        distance[i] = np.float32(np.float64(radius * cosine) * std + mean)
        angle[i] = np.float32(np.float64(radius * sine) * std + mean)
    for i in range(count):
        numbers[i >> 3, i & 7], numbers[i >> 3, (i & 7) + 8] = distance[i], angle[i]


@as_written
def rounded(x: Any) -> Any:
    """A float64 rounded to float32."""
    return np.float64(np.float32(x))


@as_written
def polynomial(coefficients: Any, x: Any) -> Any:
    value = coefficients[0]
    for coefficient in coefficients[1:]:
        value = rounded(value * x + coefficient)
    return value


@as_written
def radius_of(uniform: Any) -> Any:
    """sqrt(-2 log(1 - uniform))."""
    bits = as_integer(np.float32(1.0) - uniform)  # at least 2^-24, so the exponent is in its place
    fraction = np.float64(as_float((bits & MANTISSA) | HALF, uniform))  # in [0.5, 1)
    low = fraction < ROOT_OF_HALF
    x = fraction * (2.0 if low else 1.0) - 1.0
    power = np.float64(np.int32((bits >> 23) - 126)) - (1.0 if low else 0.0)
    square = rounded(x * x)
    rest = rounded(polynomial(LOGARITHM, x) * x)
    rest = rounded(rest * square + rounded(power * LOW))
    rest = rounded(rest - 0.5 * square)
    x = rounded(x + rest)
    return np.float32(math.sqrt(rounded(-2.0 * rounded(power * HIGH + x))))


@as_written
def direction_of(uniform: Any) -> Any:
    """The cosine and the sine of 2 pi uniform."""
    x = rounded(np.float64(uniform) * TURN)
    whole = (np.int32(rounded(x * EIGHTHS)) + 1) & ~1
    eighths = np.float64(whole)
    for part in QUARTERS:
        x = rounded(x - eighths * part)
    square = rounded(x * x)
    sine = rounded(polynomial(SINES, square) * square)
    sine = sine * x + x
    cosine = rounded(polynomial(COSINES, square) * square)
    cosine = rounded(cosine * square - 0.5 * square) + 1.0
    turned = whole & 2 != 0
    first, second = sine if turned else cosine, cosine if turned else sine
    first = -first if (whole + 2) & 4 != 0 else first
    second = -second if whole & 4 != 0 else second
    return np.float32(first), np.float32(second)
