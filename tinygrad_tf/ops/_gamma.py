"""Formulas for the gamma function's logarithm and its derivatives, in float64, on plain arrays.

The axis is cut where a formula is at its best, and no piece subtracts numbers that nearly cancel, so that results are
right to a few units in the last place, near the zeros at 1, 2 (log gamma) and 1.4616 (digamma), too. Left of 0 the
reflection formulas hold; near the zeros there the error is a few units of the terms that cancel. Numbers in brackets
are those of the Digital Library of Mathematical Functions (dlmf.nist.gov).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

LARGE = 8.0  # from here on the series in 1/x are exact to the last digit
TERMS = 10  # of those series
BERNOULLI = (
    1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798, -174611 / 330, 854513 / 138,
    -236364091 / 2730,
)  # fmt: skip  # of even index, from 2 on
ROOT, ROOT_REST = 1.4616321449683622, 9.549995429965697e-17  # the zero of digamma, and what float64 cuts off of it


def hurwitz_zeta(s: int, q: np.ndarray) -> np.ndarray:
    """The sum of (q + k)^-s over k = 0, 1, 2, ... for s > 1 and q > 0 [25.11.1].

    Ten terms as they are, and the others by the formula of Euler and Maclaurin [25.11.5]; smallest first.
    """
    far = q + 10.0
    rising, power = s / 2.0, far ** (-s - 1.0)
    total = np.zeros_like(far)
    for k, bernoulli in enumerate(BERNOULLI, 1):
        total += bernoulli * rising * power
        rising *= (s + 2 * k - 1.0) * (s + 2 * k) / ((2 * k + 1) * (2 * k + 2))
        power = power / (far * far)
    total += far ** -float(s) / 2.0 + far ** (1.0 - s) / (s - 1.0)
    for k in reversed(range(10)):
        total += (q + k) ** -float(s)
    return total


def _polynomial(coefficients: Sequence[float], x: np.ndarray) -> np.ndarray:
    total = np.full_like(x, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        total *= x
        total += c
    return total


# log gamma(2 + u) / u and digamma(ROOT + d) / d as power series [5.7.3, and Taylor's]
_zetas = [(k, float(hurwitz_zeta(k, np.array(2.0)))) for k in range(2, 30)]
LOG_GAMMA = [1.0 - np.euler_gamma, *[(-1) ** k * zeta / k for k, zeta in _zetas]]
DIGAMMA = [(-1) ** k * float(hurwitz_zeta(k, np.array(ROOT))) for k in range(2, 42)]


def _from_whole(x: np.ndarray) -> np.ndarray:
    """x less the nearest whole number, exactly; sines and cotangents of pi x have this period, or its double."""
    found: np.ndarray = x - np.rint(x)
    return found


def _cotangent(x: np.ndarray) -> np.ndarray:
    """cot(pi x), exact near its zeros, too."""
    d = _from_whole(x)
    middle = np.copysign(np.tan(math.pi * (0.5 - np.abs(d))), d)
    return np.where(np.abs(d) > 0.25, middle, 1.0 / np.tan(math.pi * d))


def log_gamma(x: np.ndarray) -> np.ndarray:
    """log |gamma(x)|; inf at 0, at negative whole numbers and at both infinities."""
    pole = (x <= 0) & (x == np.floor(x))
    found = np.piecewise(x, [x < 0, (x >= 0) & (x < LARGE)], [_log_gamma_reflected, _log_gamma_near, _log_gamma_far])
    return np.where(pole | np.isinf(x), np.inf, found)


def _log_gamma_reflected(x: np.ndarray) -> np.ndarray:
    """[5.5.3]"""
    return -np.log(np.abs(np.sin(math.pi * _from_whole(x))) / math.pi) - log_gamma(1.0 - x)


def _log_gamma_far(x: np.ndarray) -> np.ndarray:
    """Stirling's series [5.11.1]."""
    inverse = 1.0 / x
    series = [b / (2 * k * (2 * k - 1)) for k, b in enumerate(BERNOULLI[:TERMS], 1)]
    rest = _polynomial(series, inverse * inverse) * inverse
    return (x - 0.5) * (np.log(x) - 1.0) + (math.log(2 * math.pi) / 2 - 0.5 + rest)


def _log_gamma_near(x: np.ndarray) -> np.ndarray:
    """By gamma(x + 1) = x gamma(x) [5.5.1] from the power series between 1.5 and 2.5."""
    down = np.maximum(np.floor(x - 1.5), 0.0)
    factor = np.ones_like(x)
    for k in range(1, int(LARGE) - 1):
        factor *= np.where(k <= down, x - k, 1.0)
    u = np.where(x < 0.5, x, np.where(x < 1.5, x - 1.0, x - 2.0 - down))
    below = np.where(x < 1.5, np.log1p(u), 0.0) + np.where(x < 0.5, np.log(x), 0.0)
    return u * _polynomial(LOG_GAMMA, u) - below + np.log(factor)


def digamma(x: np.ndarray) -> np.ndarray:
    """The derivative of log gamma; -inf at 0 (inf at -0.0), NaN at negative whole numbers, whose sides differ."""
    found = np.piecewise(x, [x < 0, (x > 0) & (x < LARGE)], [_digamma_reflected, _digamma_near, _digamma_far])
    found = np.where((x < 0) & (x == np.floor(x)), np.nan, found)
    return np.where(x == 0, np.copysign(np.inf, -x), found)


def _digamma_reflected(x: np.ndarray) -> np.ndarray:
    """[5.5.4]"""
    return digamma(1.0 - x) - math.pi * _cotangent(x)


def _digamma_far(x: np.ndarray) -> np.ndarray:
    """[5.11.2]"""
    square = 1.0 / (x * x)
    series = [b / (2 * k) for k, b in enumerate(BERNOULLI[:TERMS], 1)]
    return np.log(x) - 0.5 / x - square * _polynomial(series, square)


def _digamma_near(x: np.ndarray) -> np.ndarray:
    """By digamma(x + 1) = digamma(x) + 1 / x [5.5.2] from the power series between 1 and 2."""
    down = np.maximum(np.floor(x) - 1.0, 0.0)
    shift = np.where(x < 1.0, -1.0 / x, 0.0)
    for k in range(1, int(LARGE) - 1):
        shift += np.where(k <= down, 1.0 / np.where(k <= down, x - k, 1.0), 0.0)
    d = (np.where(x < 1.0, x + 1.0, x - down) - ROOT) - ROOT_REST
    return d * _polynomial(DIGAMMA, d) + shift


def polygamma(n: int, x: np.ndarray) -> np.ndarray:
    """Derivative number n of digamma, n > 0 [5.15.1]; at 0 and negative whole numbers inf, for even n -inf."""
    left = x < 0
    right = np.where(left, 1.0 - x, x)
    factorial = float(math.factorial(n)) if n <= 170 else math.inf
    found = factorial * hurwitz_zeta(n + 1, right) * (-1.0) ** (n + 1)
    if left.any():
        found[left] = (-1.0) ** n * found[left] + _polygamma_reflection(n, x[left])
    pole = (x <= 0) & (x == np.floor(x))
    return np.where(x == -np.inf, np.nan, np.where(pole, (-1.0) ** (n + 1) * np.inf, found))


def _polygamma_reflection(n: int, x: np.ndarray) -> np.ndarray:
    """-pi times derivative number n of cot(pi x) [5.15.6], a polynomial in c = cot(pi x), since c' = -pi (1 + c^2)."""
    terms = np.polynomial.Polynomial([0.0, -1.0])
    for _ in range(n):
        terms = terms.deriv() * np.polynomial.Polynomial([-1.0, 0.0, -1.0])
    found: np.ndarray = terms(_cotangent(x)) * math.pi ** (n + 1)
    return found
