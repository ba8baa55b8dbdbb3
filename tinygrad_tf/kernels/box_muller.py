"""Uniform numbers into normal ones (Box and Muller 1958) in float32, bit for bit as `_box_muller` has them in NumPy.

    box_muller(blocks, mean, std)          blocks (N, 2, 8) of numbers in [0, 1), float32, changed in place

`_box_muller` says what is computed, and why: PyTorch's numbers are to come out. Each step is one of float64 numbers,
rounded to float32 where that is written; `_math`'s functions round otherwise. NumPy makes some 60 passes. Microseconds
on two cores with AVX2:

                    NumPy      here
    32 numbers        140         5
    a million      31,000    14,000
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba.extending import register_jitable

from tinygrad_tf._box_muller import COSINE, LOG, LOG2_HIGH, LOG2_LOW, QUARTER_PI, SINE
from tinygrad_tf.kernels._compile import parallel
from tinygrad_tf.kernels._math import STRICT
from tinygrad_tf.kernels._rows import blocks as shares

GRAIN = 2048  # numbers

as_written = register_jitable(**STRICT)  # kernels else allow the compiler to reorder sums


def _float32(numbers: tuple[float, ...]) -> tuple[float, ...]:
    return tuple([float(np.float32(number)) for number in numbers])


LOGARITHM, SINES, COSINES, QUARTERS = map(_float32, (LOG, SINE, COSINE, QUARTER_PI))
LOW, HIGH = _float32((LOG2_LOW, LOG2_HIGH))
TURN, EIGHTHS = _float32((2.0 * math.pi, 4.0 / math.pi))
ROOT_OF_HALF = math.sqrt(0.5)


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
    for row in range(block * step, min(block * step + step, numbers.shape[0])):
        for j in range(8):
            radius = radius_of(numbers[row, j])
            cosine, sine = direction_of(numbers[row, j + 8])
            numbers[row, j] = np.float32(np.float64(radius * cosine) * std + mean)
            numbers[row, j + 8] = np.float32(np.float64(radius * sine) * std + mean)


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
    fraction, exponent = math.frexp(np.float64(np.float32(1.0) - uniform))
    low = fraction < ROOT_OF_HALF
    x = fraction * 2.0 - 1.0 if low else fraction - 1.0
    power = float(exponent) - 1.0 if low else float(exponent)
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
    eighths = (int(rounded(x * EIGHTHS)) + 1) & ~1
    for part in QUARTERS:
        x = rounded(x - eighths * part)
    square = rounded(x * x)
    sine = rounded(polynomial(SINES, square) * square)
    sine = sine * x + x
    cosine = rounded(polynomial(COSINES, square) * square)
    cosine = rounded(cosine * square - 0.5 * square) + 1.0
    if eighths & 2:
        cosine, sine = sine, cosine
    if eighths + 2 & 4:
        cosine = -cosine
    if eighths & 4:
        sine = -sine
    return np.float32(cosine), np.float32(sine)
