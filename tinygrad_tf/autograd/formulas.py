"""Derivatives of activations, and what is often written in their place.

Of a function of single elements the numeric derivative tells which it is; the analytic one, which slip was made. The
right formulas: Hendrycks and Gimpel, "Gaussian Error Linear Units" (2016), for gelu; Elfwing et al., "Sigmoid-weighted
linear units" (2018), for silu.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from tinygrad_tf._quiet import quiet
from tinygrad_tf.autograd.evidence import Evidence

Formula = Callable[[np.ndarray], np.ndarray]
erf = np.vectorize(math.erf, otypes=[float])
ROOT = math.sqrt(2 / math.pi)
CUBE = 0.044715


@dataclass(frozen=True)
class Activation:
    """A function of single elements: its derivative, how that is written, and slips with their names."""

    derivative: Formula
    text: str
    slips: tuple[tuple[Formula, str], ...]


def sigmoid(z: np.ndarray) -> np.ndarray:
    return np.asarray(1 / (1 + np.exp(-z)))


def cdf(z: np.ndarray) -> np.ndarray:
    return np.asarray(0.5 * (1 + erf(z / math.sqrt(2))))


def pdf(z: np.ndarray) -> np.ndarray:
    return np.asarray(np.exp(-z * z / 2) / math.sqrt(2 * math.pi))


def inner(z: np.ndarray) -> np.ndarray:
    """The tanh inside of gelu's approximation."""
    return np.tanh(ROOT * (z + CUBE * z**3))


def of_gelu(z: np.ndarray) -> np.ndarray:
    return cdf(z) + z * pdf(z)


def of_gelu_tanh(z: np.ndarray, slope: Formula = lambda z: ROOT * (1 + 3 * CUBE * z * z)) -> np.ndarray:
    t = inner(z)
    return np.asarray(0.5 * (1 + t) + 0.5 * z * (1 - t * t) * slope(z))


def of_relu(z: np.ndarray) -> np.ndarray:
    return (z > 0).astype(float)


def silu(z: np.ndarray) -> np.ndarray:
    return z * sigmoid(z)


RELU = (of_relu, "that of relu is there instead")
ACTIVATIONS: dict[str, Activation] = {
    "sigmoid": Activation(
        lambda z: sigmoid(z) * (1 - sigmoid(z)),
        "y * (1 - y) with the result y",
        (
            (sigmoid, "1 - y is lost"),
            (lambda z: 1 - sigmoid(z), "y is lost"),
            (lambda z: 1 - sigmoid(z) ** 2, "that of tanh is there instead"),
            (lambda z: z * (1 - z), "the input is there in place of the result"),
            (lambda z: sigmoid(sigmoid(z)) * (1 - sigmoid(sigmoid(z))), "sigmoid is taken of the result once more"),
        ),
    ),
    "tanh": Activation(
        lambda z: 1 - np.tanh(z) ** 2,
        "1 - y * y with the result y",
        (
            (lambda z: 1 - np.tanh(z), "the square of y is lost"),
            (lambda z: np.tanh(z) * (1 - np.tanh(z)), "that of sigmoid is there instead"),
            (lambda z: 1 - z * z, "the input is there in place of the result"),
            (lambda z: 1 - np.tanh(np.tanh(z)) ** 2, "tanh is taken of the result once more"),
            (lambda z: 1 + np.tanh(z) ** 2, "the sign of y * y is wrong"),
        ),
    ),
    "silu": Activation(
        lambda z: sigmoid(z) * (1 + z * (1 - sigmoid(z))),
        "s * (1 + x * (1 - s)) with s = sigmoid(x)",
        (
            (sigmoid, "x is used more than once, and only one share of its gradient is there, s"),
            (lambda z: sigmoid(z) * (1 - sigmoid(z)), "that of sigmoid is there instead"),
            (
                lambda z: z * sigmoid(z) * (1 - sigmoid(z)),
                "x is used more than once, and one share of its gradient is lost, s",
            ),
            (lambda z: sigmoid(z) * (2 - sigmoid(z)), "x is lost in x * s * (1 - s)"),
            (lambda z: sigmoid(z) + z * (1 - sigmoid(z)), "s is lost in x * s * (1 - s)"),
            (lambda z: sigmoid(z) * (1 + z * sigmoid(z)), "s is there in place of 1 - s"),
            (lambda z: sigmoid(z) * (1 + z * (1 - silu(z))), "the result is there in place of s"),
            RELU,
        ),
    ),
    "gelu": Activation(
        of_gelu,
        "P(x) + x * p(x) with the distribution P and the density p of the normal distribution",
        (
            (cdf, "the term x * p(x) is lost"),
            (lambda z: z * pdf(z), "the term P(x) is lost"),
            (lambda z: cdf(z) + pdf(z), "x is lost in x * p(x)"),
            (lambda z: cdf(z) - z * pdf(z), "the sign of x * p(x) is wrong"),
            (lambda z: cdf(z) + z * cdf(z) * pdf(z), "the result is there in place of x in x * p(x)"),
            (lambda z: cdf(z) + z * np.exp(-z * z / 2), "1 / sqrt(2 pi) is lost in the density"),
            (lambda z: cdf(z) + z * np.exp(-z * z) / math.sqrt(2 * math.pi), "1/2 is lost in the exponent of p(x)"),
            (of_gelu_tanh, "that of its tanh approximation is there instead"),
            RELU,
        ),
    ),
    "gelu's tanh approximation": Activation(
        of_gelu_tanh,
        "(1 + t) / 2 + x / 2 * (1 - t * t) * u' with t = tanh(u), u' = sqrt(2 / pi) * (1 + 3 * 0.044715 * x * x)",
        (
            (lambda z: 0.5 * (1 + inner(z)), "the second term, x / 2 * (1 - t * t) * u', is lost"),
            (lambda z: of_gelu_tanh(z) - 0.5 * (1 + inner(z)), "the first term, (1 + t) / 2, is lost"),
            (lambda z: of_gelu_tanh(z, np.ones_like), "the inner derivative u' is lost"),
            (lambda z: of_gelu_tanh(z, lambda z: ROOT * (1 + CUBE * z * z)), "the factor 3 is lost in u'"),
            (lambda z: of_gelu_tanh(z, lambda z: 1 + 3 * CUBE * z * z), "sqrt(2 / pi) is lost in u'"),
            (lambda z: of_gelu_tanh(z, lambda z: ROOT**2 * (1 + 3 * CUBE * z * z)), "the root is lost in sqrt(2 / pi)"),
            (lambda z: of_gelu_tanh(z, lambda z: ROOT * (1 + 3 * CUBE * z**3)), "x is cubed in u' where it is squared"),
            (lambda z: _square_lost(z), "the square of t is lost in 1 - t * t"),
            (lambda z: _factor_lost(z), "x is lost in the second term"),
            (of_gelu, "that of the exact gelu is there instead"),
            RELU,
        ),
    ),
    "softplus": Activation(
        sigmoid, "sigmoid(x)", ((lambda z: sigmoid(z) * (1 - sigmoid(z)), "that of sigmoid is there instead"), RELU)
    ),
}


def _square_lost(z: np.ndarray) -> np.ndarray:
    t = inner(z)
    return np.asarray(0.5 * (1 + t) + 0.5 * z * (1 - t) * ROOT * (1 + 3 * CUBE * z * z))


def _factor_lost(z: np.ndarray) -> np.ndarray:
    t = inner(z)
    return np.asarray(0.5 * (1 + t) + 0.5 * (1 - t * t) * ROOT * (1 + 3 * CUBE * z * z))


def wrong_formula(e: Evidence) -> Iterator[str]:
    """The derivative of an activation is told by the numbers, and another formula is there."""
    off = ~np.eye(len(e.analytic), dtype=bool)
    if len(off) < 3 or e.alive(e.analytic)[off].any() or e.alive(e.numeric)[off].any():
        return
    z = e.values.reshape(-1).astype(np.float64)
    if not np.ptp(z) > 0.1 or np.array_equal(e.analytic, np.eye(len(z))):
        return
    with quiet():
        for name, activation in ACTIVATIONS.items():
            if e.fits(e.numeric, np.diag(activation.derivative(z))):
                slips = [text for slip, text in activation.slips if e.fits(e.analytic, np.diag(slip(z)))]
                yield f"the derivative of {name} is {activation.text}" + "".join(f"; {text}" for text in slips[:1])
                return
