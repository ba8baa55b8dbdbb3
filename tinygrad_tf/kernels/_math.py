"""exp, log, tanh, erf and friends that vectorise: branch-free, for float32 and float64, for use inside kernels.

Inside a kernel `math.exp` is a call into the C library, one element at a time (1.7 ns; tanh and erf 12 ns). The
functions here are multiplications, additions and bit shifts only, so a loop over an array becomes vector code.
Nanoseconds an element, one core, in cache, AVX-512 (with `widest_vectors`); PyTorch on one thread too:

                    float32   NumPy   PyTorch      float64   NumPy   PyTorch
    exp               0.25    0.37      0.19         0.55    0.60      0.38
    exp_negative      0.15                           0.43
    log               0.45    0.34      0.26         0.74    0.70      0.65
    tanh              0.31    0.28      0.31         0.70    1.16      1.19
    sigmoid           0.25              0.38         0.62              0.94
    erf               0.45              0.51         1.88              0.92
    gelu              0.36              0.73         1.60              3.11

Write a kernel once, call `exp(x)`: the type of x picks the version. Outside compiled code the same names are plain
NumPy, so a kernel also runs, slowly, as ordinary Python (NUMBA_DISABLE_JIT=1).

All agree with the true value to 3 units in the last place (`normal_tail` to 14 where it is below 1e-20), keep
NaN, and are right at the borders: exp overflows to inf and underflows gradually to 0; log(0) = -inf, log(-1) = NaN;
tanh and erf keep their relative accuracy near 0. `exp_negative` takes x <= 0 only, and gives 0 where the result would
be denormal: it is what softmax needs.

The formulas must be evaluated as they are written. Kernels allow the compiler to reorder sums; these functions do not
(EXACT below).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from tinygrad_tf.kernels._math_constants import FLOAT32, FLOAT64, Constants
from tinygrad_tf.kernels._scalar import (
    as_float,
    as_integer,
    flip_negative,
    multiply_add,
    polynomial,
    select,
    with_sign_of,
)

EXACT: Any = {"fastmath": {"contract"}, "error_model": "numpy"}
STRICT: Any = {"fastmath": {"nsz"}, "error_model": "numpy"}  # an empty set would mean: as the calling kernel


# ---------------------------------------------------------------- what kernels call; NumPy outside compiled code
def exp(x: Any) -> Any:
    return np.exp(x)


def exp_negative(x: Any) -> Any:
    """exp(x) for x <= 0, in fewer instructions; 0 where the result would be denormal."""
    return np.exp(x)


def exp_in_range(x: Any) -> Any:
    """exp(x) where it is a normal number (float32: -88.3 < x < 88), in fewer instructions still; 0 at the lower end."""
    return np.exp(x)


def log(x: Any) -> Any:
    return np.log(x)


def log1p(x: Any) -> Any:
    """log(1 + x), exact to the last digits near 0, too."""
    return np.log1p(x)


def exp_less_one(x: Any) -> Any:
    """expm1(x) for |x| up to 40."""
    return np.expm1(x)


def expm1(x: Any) -> Any:
    """exp(x) - 1, exact to the last digits near 0, too."""
    return np.expm1(x)


def tanh(x: Any) -> Any:
    return np.tanh(x)


def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x))."""
    decay = np.exp(-abs(x))
    return np.where(x < 0, decay, 1) / (1 + decay)


def sigmoids(x: Any) -> Any:
    """(sigmoid(x), sigmoid(-x)); the second is not 1 minus the first, which would cancel."""
    return sigmoid(x), sigmoid(-x)


def softplus(x: Any) -> Any:
    """log(1 + exp(x)) without overflow."""
    return np.logaddexp(0, x)


def erf(x: Any) -> Any:
    return type(x)(math.erf(x))


def normal_tail(x: Any) -> Any:
    """(Phi(-|x|), exp(-x^2 / 2)), with Phi the normal distribution's cumulative probability."""
    return type(x)(math.erfc(abs(x) / math.sqrt(2)) / 2), type(x)(math.exp(-x * x / 2))


def gelu(x: Any) -> Any:
    """x Phi(x), with Phi as above."""
    return type(x)(x * math.erfc(-x / math.sqrt(2)) / 2)


def minus(x: Any, y: Any) -> Any:
    """x - y, rounded as written: kernels let the compiler turn (x - y) - z into x - (y + z), or use a product x before
    it is rounded; then differences that should be 0 are not."""
    return x - y


def in_order(x: Any) -> Any:
    """An integer for each float, in the same order: a loop for their maximum is vectorised, one for floats is not."""
    return x


def from_order(key: Any, like: Any) -> Any:
    """The float, of the type of `like`, whose `in_order` is `key`."""
    return key


# ---------------------------------------------------------------- the compiled versions
def compiled(name: Callable[..., Any]) -> Callable[[Any], Any]:
    """Let kernels that call `name` run what the decorated function makes from the constants of the argument's type."""

    def register(make: Callable[[Constants], Any]) -> Any:
        @overload(name, jit_options=EXACT)
        def choose(x: Any) -> Any:
            return {types.float32: make(FLOAT32), types.float64: make(FLOAT64)}.get(x)

        return make

    return register


@compiled(exp)
def _exp(k: Constants) -> Any:
    def exp(x: Any) -> Any:
        # x = n ln 2 + r with |r| <= ln 2 / 2; 2^n in two factors, for it may be out of range where exp(x) is not.
        x = k.exp_lowest if x < k.exp_lowest else x
        x = k.exp_highest if x > k.exp_highest else x
        shifted = multiply_add(x, k.per_ln2, k.shifter)
        n = shifted - k.shifter
        r = multiply_add(n, -k.ln2_low, multiply_add(n, -k.ln2_high, x))
        bits = as_integer(shifted) - k.shifter_bits
        first = bits >> 1
        scale = as_float((first + k.bias) << k.mantissa, x)
        return polynomial(r, k.exp_terms) * scale * as_float((bits - first + k.bias) << k.mantissa, x)

    return exp


@compiled(exp_in_range)
def _exp_in_range(k: Constants) -> Any:
    def exp_in_range(x: Any) -> Any:
        # The shift drops all bits of `shifter`, so they need not be subtracted first.
        shifted = multiply_add(x, k.per_ln2, k.shifter)
        n = shifted - k.shifter
        r = multiply_add(n, -k.ln2_low, multiply_add(n, -k.ln2_high, x))
        return polynomial(r, k.exp_terms) * as_float((as_integer(shifted) + k.bias) << k.mantissa, x)

    return exp_in_range


@compiled(exp_negative)
def _exp_negative(k: Constants) -> Any:
    def exp_negative(x: Any) -> Any:
        return exp_in_range(k.exp_smallest if x < k.exp_smallest else x)

    return exp_negative


@compiled(log)
def _log(k: Constants) -> Any:
    def log(x: Any) -> Any:
        # x = 2^n m with m in [sqrt 1/2, sqrt 2); log m = 2 artanh(s) with s = (m - 1) / (m + 1).
        tiny = x < k.smallest_normal
        bits = as_integer(x * k.denormal_scale if tiny else x)
        exponent = (bits - k.root_half_bits) >> k.mantissa
        m = as_float(bits - (exponent << k.mantissa), x)
        n = as_float(exponent - (k.denormal_shift if tiny else 0) + k.shifter_bits, x) - k.shifter
        f = m - k.one
        s = f / (m + k.one)
        z = s * s
        square = k.half * f * f
        tail = multiply_add(n, k.ln2_low, s * multiply_add(z, polynomial(z, k.log_terms), square))
        y = multiply_add(n, k.ln2_high, f - (square - tail))
        y = y if x > k.zero else (-k.infinity if x == k.zero else k.nan)
        return x if x == k.infinity else y

    return log


@compiled(log1p)
def _log1p(k: Constants) -> Any:
    def log1p(x: Any) -> Any:
        # 1 + x loses x - (u - 1) to rounding, which moves the logarithm by that over u.
        u = k.one + x
        y = log(u)
        finite = (u < k.infinity) & (u > k.zero)
        y = y + (x - (u - k.one)) / u if finite else y
        return x if u == k.one else y

    return log1p


@compiled(expm1)
def _expm1(k: Constants) -> Any:
    def expm1(x: Any) -> Any:
        size = abs(x)
        near = exp_less_one(k.expm1_border if x > k.expm1_border else (-k.expm1_border if x < -k.expm1_border else x))
        y = exp(x) - k.one if x > k.expm1_border else near
        return x if size < k.smallest_normal else y

    return expm1


@compiled(exp_less_one)
def _exp_less_one(k: Constants) -> Any:
    def exp_less_one(x: Any) -> Any:
        # (2^n - 1) + 2^n (exp(r) - 1), where exp(r) - 1 is made without cancellation.
        shifted = multiply_add(x, k.per_ln2, k.shifter)
        n = shifted - k.shifter
        r = multiply_add(n, -k.ln2_low, multiply_add(n, -k.ln2_high, x))
        scale = as_float((as_integer(shifted) + k.bias) << k.mantissa, x)
        return multiply_add(scale, r * polynomial(r, k.expm1_terms), scale - k.one)

    return exp_less_one


@compiled(tanh)
def _tanh(k: Constants) -> Any:
    def tanh(x: Any) -> Any:
        # With e = exp(-2|x|) - 1: tanh |x| = -e / (2 + e).
        size = abs(x)
        e = exp_less_one(-k.two * (k.tanh_border if size > k.tanh_border else size))
        return with_sign_of(x, -e / (k.two + e))

    return tanh


@compiled(sigmoid)
def _sigmoid(k: Constants) -> Any:
    def sigmoid(x: Any) -> Any:
        decay = exp_negative(-abs(x))
        return (decay if x < k.zero else k.one) / (k.one + decay)

    return sigmoid


@compiled(sigmoids)
def _sigmoids(k: Constants) -> Any:
    def sigmoids(x: Any) -> Any:
        decay = exp_negative(-abs(x))
        larger = k.one / (k.one + decay)
        smaller = decay * larger
        return (smaller, larger) if x < k.zero else (larger, smaller)

    return sigmoids


@compiled(softplus)
def _softplus(k: Constants) -> Any:
    def softplus(x: Any) -> Any:
        return (x if x > k.zero else k.zero) + log1p(exp(-abs(x)))

    return softplus


@compiled(erf)
def _erf(k: Constants) -> Any:
    def erf(x: Any) -> Any:
        a = abs(x)
        a = k.far if a > k.far else a
        square = a * a
        near = x * polynomial(square, k.erf_terms)
        slope = k.erfc_slope * a
        t = k.one / (k.one + slope)
        far = k.one - exp_negative(-square) * t * polynomial(slope * t, k.erfc_terms)
        return select(a < k.erf_border, near, with_sign_of(x, far))

    return erf


@compiled(normal_tail)
def _normal_tail(k: Constants) -> Any:
    def normal_tail(x: Any) -> Any:
        # Phi(-a) = erfc(a / sqrt 2) / 2. Where a is large the rounding of its square is felt: `lost` is what went.
        a = abs(x)
        a = k.far if a > k.far else a
        square = a * a
        lost = multiply_add(a, a, -square)
        decay = exp_negative(-k.half * square)
        decay = multiply_add(-k.half * lost, decay, decay)
        slope = k.normal_slope * a
        t = k.one / (k.one + slope)
        return k.half * decay * t * polynomial(slope * t, k.erfc_terms), decay

    return normal_tail


@compiled(gelu)
def _gelu(k: Constants) -> Any:
    # x Phi(x) is x - x Phi(-x) for positive x: in both cases |x| Phi(-|x|) below the ramp max(x, 0).
    def by_tail(x: Any) -> Any:
        a = abs(x)
        a = k.far if a > k.far else a
        return (x if x > k.zero else k.zero) - a * normal_tail(x)[0]

    def by_logarithm(x: Any) -> Any:
        # One polynomial for the logarithm of the tail; no division, no squares. For float64 it would be too long.
        a = abs(x)
        a = k.gelu_border if a > k.gelu_border else a
        tail = exp_in_range(a * polynomial(a, k.gelu_terms))
        return multiply_add(-k.half * a, tail, x if x > k.zero else k.zero)

    return by_logarithm if k is FLOAT32 else by_tail


@compiled(in_order)
def _in_order(k: Constants) -> Any:
    def in_order(x: Any) -> Any:
        return flip_negative(as_integer(x))

    return in_order


@overload(minus, jit_options=STRICT)
def _minus(x: Any, y: Any) -> Any:
    def minus(x: Any, y: Any) -> Any:
        return x - y

    return minus


@overload(from_order, jit_options=EXACT)
def _from_order(key: Any, like: Any) -> Any:
    def from_order(key: Any, like: Any) -> Any:
        return as_float(flip_negative(key), like)

    return from_order
