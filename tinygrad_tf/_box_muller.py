"""Two uniform numbers make two normal ones (Box and Muller 1958), rounded as PyTorch's vector code rounds.

PyTorch's float32 path uses Moshier's Cephes polynomials for the logarithm, sine and cosine, and fused multiply-adds
(one rounding instead of two). Both are written out here in NumPy, so the bits do not depend on the machine. NumPy has
no fused multiply-add; in float32 one goes by way of float64, where the product of two float32 numbers is exact.
(Rounding twice gives another number than rounding once in about one case of 2**29.)
"""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tinygrad_tf import kernels

Array = NDArray[Any]

BLOCKS_AT_ONCE = 1024  # of 16 numbers: the temporaries of one round stay in the cache
# A kernel gives the same bits sooner; numba, which takes half a second to import, is not imported for a few numbers.
LARGE, KERNELS = 1 << 20, "tinygrad_tf.kernels._compile"

LOG = (  # Cephes logf: log(1 + x) = x - x**2 / 2 + x**3 * P(x)
    *(7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1),
    *(-1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1),
)
LOG2_LOW, LOG2_HIGH = -2.12194440e-4, 0.693359375  # log(2) in two parts, the high one short
SINE = (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
COSINE = (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)
QUARTER_PI = (0.78515625, 2.4187564849853515625e-4, 3.77489497744594108e-8)  # pi / 4 in three parts, two of them short


def box_muller(blocks: Array, mean: float, std: float) -> None:
    """Turn uniform numbers in [0, 1), `blocks` of shape (N, 2, 8), float32 or float64, into normal ones, in place.

    Number j of a block gives the radius and number j + 8 the angle; their places take the cosine and the sine value.
    """
    if blocks.dtype == np.float32 and (blocks.size >= LARGE or KERNELS in sys.modules):
        kernels.box_muller.box_muller(blocks, mean, std)
    else:
        box_muller_reference(blocks, mean, std)


def box_muller_reference(blocks: Array, mean: float, std: float) -> None:
    """`box_muller` in NumPy."""
    polar = _polar if blocks.dtype == np.float64 else _polar_float32
    mean, std = float(blocks.dtype.type(mean)), float(blocks.dtype.type(std))
    for start in range(0, len(blocks), BLOCKS_AT_ONCE):
        part = blocks[start : start + BLOCKS_AT_ONCE]
        radius, cosine, sine = polar(1.0 - part[:, 0], part[:, 1].copy())
        part[:, 0] = multiply_add(radius * cosine, std, mean)
        part[:, 1] = multiply_add(radius * sine, std, mean)


def multiply_add(a: Array, b: Any, c: Any) -> Array:
    """a * b + c with one rounding, in the dtype of `a` (float32 or float64); b and c may be numbers."""
    if a.dtype == np.float64:
        return _multiply_add_float64(a, float(b), float(c))
    wide = np.multiply(a, b, dtype=np.float64)
    wide += c
    return wide.astype(np.float32)


def _multiply_add_float64(a: Array, b: float, c: float) -> Array:
    """The errors of the product (Dekker 1971) and of the sum (Knuth) are computed exactly and added at the end."""
    a_high, b_high = _upper_half(a), _upper_half(b)
    a_low, b_low = a - a_high, b - b_high
    product = a * b
    product_error = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    total = product + c
    back = total - product
    sum_error = (product - (total - back)) + (c - back)
    return total + (product_error + sum_error)


def _upper_half(x: Any) -> Any:
    """The upper 26 bits of a float64 (Veltkamp 1968)."""
    shifted = x * 134217729.0  # 2**27 + 1
    return shifted - (shifted - x)


def _polar(radius: Array, angle: Array) -> tuple[Array, Array, Array]:
    angle *= 2.0 * math.pi
    return np.sqrt(-2.0 * np.log(radius)), np.cos(angle), np.sin(angle)


# -- float32 arithmetic in float64 arrays: every operation is exact or nearly so, and `_rounded` to float32 --


def _polar_float32(radius: Array, angle: Array) -> tuple[Array, Array, Array]:
    exponent_free, exponent = np.frexp(radius)
    square = _rounded(-2.0 * _log(exponent_free.astype(np.float64), exponent))
    cosine, sine = _cosine_and_sine(_rounded(angle * _float32(2.0 * math.pi)))
    return np.sqrt(square).astype(np.float32), cosine.astype(np.float32), sine.astype(np.float32)


def _rounded(x: Array) -> Array:
    """`x` with every number rounded to float32, in place."""
    x[...] = x.astype(np.float32)
    return x


def _float32(x: float) -> float:
    return float(np.float32(x))


def _polynomial(coefficients: tuple[float, ...], x: Array) -> Array:
    value = x * _float32(coefficients[0])
    for coefficient in coefficients[1:-1]:
        value += _float32(coefficient)
        _rounded(value)
        value *= x
    value += _float32(coefficients[-1])
    return _rounded(value)


def _log(x: Array, exponent: Array) -> Array:
    """Natural logarithm of x * 2**exponent for x in [0.5, 1)."""
    low = x < math.sqrt(0.5)
    exponent = (exponent - low).astype(np.float64)
    x = x * (low + 1.0) - 1.0
    square = _rounded(x * x)
    rest = _rounded(_polynomial(LOG, x) * x)
    rest *= square
    rest += _rounded(exponent * _float32(LOG2_LOW))
    _rounded(rest)
    square *= 0.5
    rest -= square
    _rounded(rest)
    x += rest
    _rounded(x)
    exponent *= LOG2_HIGH
    exponent += x
    return _rounded(exponent)


def _cosine_and_sine(angle: Array) -> tuple[Array, Array]:
    """Of angles from 0 to 2 pi: reduced to [-pi / 4, pi / 4] by an even number of eighths of a turn."""
    eighths = _rounded(angle * _float32(4.0 / math.pi)).astype(np.int32)
    eighths += 1
    eighths &= ~1
    x = angle
    for part in QUARTER_PI:
        x = _rounded(x - eighths * _float32(part))
    square = _rounded(x * x)
    sine = _rounded(_polynomial(SINE, square) * square)
    sine *= x
    sine += x
    cosine = _rounded(_polynomial(COSINE, square) * square)
    cosine *= square
    square *= 0.5
    cosine -= square
    _rounded(cosine)
    cosine += 1.0
    _swap_where(eighths >> 1 & 1, cosine, sine)
    cosine *= ((eighths + 2) >> 1 & 2) * -1.0 + 1.0
    sine *= (eighths >> 1 & 2) * -1.0 + 1.0
    return cosine, sine


def _swap_where(choice: Array, a: Array, b: Array) -> None:
    """Exchange the numbers of a and b where `choice` is 1, not 0, by their bits: branches at random cost far more."""
    a_bits, b_bits = a.view(np.int64), b.view(np.int64)
    difference = (a_bits ^ b_bits) & -choice.astype(np.int64)
    a_bits ^= difference
    b_bits ^= difference
