"""Random numbers that are drawn until one is accepted, one after the other, as PyTorch draws them on a CPU.

How many numbers of the stream one takes is known only when it is accepted: hence the loops.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tinygrad_tf._twister import FLOAT64, Twister

Array = NDArray[Any]
ENOUGH = 10  # from this mean on, Hoermann's methods, whose cost does not grow with it


def drawn(draw: Callable[..., float], generator: Twister, *parameters: Array) -> NDArray[np.float64]:
    """A number for each entry of the parameters, which are of one shape."""
    found = [draw(generator, *numbers) for numbers in zip(*[p.ravel().tolist() for p in parameters], strict=True)]
    return np.array(found, FLOAT64).reshape(parameters[0].shape)


def _uniform(generator: Twister) -> float:
    return float(generator._fractions(1, FLOAT64)[0])


def _normal(generator: Twister) -> float:
    return float(generator._few_normals(1)[0])


def gamma(generator: Twister, alpha: float) -> float:
    """Of the density x^(alpha - 1) e^-x / gamma(alpha) (Marsaglia and Tsang, 2000)."""
    if not alpha > 0.0:
        return math.nan if alpha != 0.0 else 0.0
    scale = 1.0
    if alpha < 1.0:
        scale, alpha = (1.0 - _uniform(generator)) ** (1.0 / alpha), alpha + 1.0
    d = alpha - 1.0 / 3.0
    while True:
        x = _normal(generator)
        y = 1.0 + x / math.sqrt(9.0 * d)
        if y <= 0.0:
            continue
        v, u = y**3, 1.0 - _uniform(generator)
        if u < 1.0 - 0.0331 * x**4 or math.log(u) < 0.5 * x * x + d * (1.0 - v + math.log(v)):
            return scale * d * v


def _logarithm(x: float) -> float:
    return math.log(x) if x > 0.0 else -math.inf


def poisson(generator: Twister, rate: float) -> float:
    """How many events come where `rate` are expected: products of uniform numbers, or PTRS (Hoermann, 1993)."""
    if rate < ENOUGH:
        count, product, end = 0, _uniform(generator) if rate > 0.0 else 0.0, math.exp(-rate)
        while product > end:
            count, product = count + 1, product * _uniform(generator)
        return float(count)
    b = 0.931 + 2.53 * math.sqrt(rate)
    a = -0.059 + 0.02483 * b
    while True:
        u, v = _uniform(generator) - 0.5, _uniform(generator)
        room = 0.5 - abs(u)
        k = math.floor((2.0 * a / room + b) * u + rate + 0.43) if room else -1
        if room >= 0.07 and v <= 0.9277 - 3.6224 / (b - 2.0):
            return float(k)
        if k < 0 or (room < 0.013 and v > room):
            continue
        height = _logarithm(v) + math.log(1.1239 + 1.1328 / (b - 3.4)) - math.log(a / (room * room) + b)
        if height <= -rate + k * math.log(rate) - math.lgamma(k + 1.0):
            return float(k)


def binomial(generator: Twister, count: float, chance: float) -> float:
    """How many of `count` tries succeed: waiting times, or BTRS (Hoermann, 1993)."""
    if count <= 0.0 or chance <= 0.0:
        return 0.0
    if chance > 0.5:
        return count - binomial(generator, count, 1.0 - chance)
    if count * chance >= ENOUGH:
        return _many_tries(generator, count, chance)
    successes, tries = -1, 0.0
    while tries <= count:
        tries += math.ceil(_logarithm(_uniform(generator)) / math.log1p(-chance))
        successes += 1
    return float(successes)


def _many_tries(generator: Twister, count: float, chance: float) -> float:
    spread = math.sqrt(count * chance * (1.0 - chance))
    b = 1.15 + 2.53 * spread
    a = -0.0873 + 0.0248 * b + 0.01 * chance
    odds, alpha, likely = chance / (1.0 - chance), (2.83 + 5.1 / b) * spread, math.floor((count + 1.0) * chance)

    def log_chance(k: float) -> float:
        return k * math.log(odds) - math.lgamma(k + 1.0) - math.lgamma(count - k + 1.0)

    while True:
        u, v = _uniform(generator) - 0.5, _uniform(generator)
        room = 0.5 - abs(u)
        k = math.floor((2.0 * a / room + b) * u + count * chance + 0.5) if room else -1
        if room >= 0.07 and v <= 0.92 - 4.2 / b:
            return float(k)
        if 0 <= k <= count and _logarithm(v * alpha / (a / (room * room) + b)) <= log_chance(k) - log_chance(likely):
            return float(k)
