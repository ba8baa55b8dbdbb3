"""Samples of gamma and Dirichlet distributions, and how they move with the parameters.

A sample x below which the share F(x; a) of the distribution lies moves by dx/da = -(dF/da) / density, if that share is
to stay (Figurnov, Mohamed and Mnih, 2018, "Implicit Reparameterization Gradients", equation 5). dF/da is an integral
over all that lies on one side of x; it is taken over the side where the integrand has one sign: nothing cancels.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tinygrad_tf import random
from tinygrad_tf._quiet import quiet
from tinygrad_tf._rejection import drawn, gamma
from tinygrad_tf.autograd import Function
from tinygrad_tf.autograd.function import once_differentiable
from tinygrad_tf.engine import make
from tinygrad_tf.ops._gamma import digamma

# Of integrals over s from 0 to infinity, which over t, with s = exp(pi / 2 sinh t), end soon (Takahasi and Mori, 1974).
STEPS, STEP = np.linspace(-3.2, 3.6, 137, retstep=True)
NODES = np.exp(np.pi / 2 * np.sinh(STEPS))
WEIGHTS = STEP * np.pi / 2 * np.cosh(STEPS) * NODES


def gamma_slope(x: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """dx/dalpha of a sample of the density x^(alpha - 1) e^-x / gamma(alpha).

    Points on the left are x e^-s, on the right x (1 + s).
    """
    distance = np.log(x) - digamma(alpha)
    left = distance < 0
    width = 1.0 / (np.abs(alpha - x) + np.sqrt(x))
    total = np.zeros_like(x)
    for node, weight in zip(NODES, WEIGHTS, strict=True):
        s = node * width
        further = np.where(left, s, np.log1p(s))
        height = np.where(left, -alpha * s - x * np.expm1(-s), (alpha - 1.0) * further - x * s)
        total += weight * np.exp(height) * (np.abs(distance) + further)
    return x * width * total


def beta_slope(x: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """dx/da of a sample of the density x^(a - 1) (1 - x)^(b - 1) / B(a, b).

    Points on the left are x e^-s, on the right 1 - (1 - x) e^-s.
    """
    distance = np.log(x) - digamma(a) + digamma(a + b)
    left = distance < 0
    near, far = np.where(left, x, 1.0 - x), np.where(left, 1.0 - x, x)
    power, other = np.where(left, a, b), np.where(left, b, a)
    slope, bend = other * near / far, np.abs(other - 1.0) * near / (far * far)
    width = 1.0 / (np.abs(power - slope) + np.sqrt(bend) + 1e-300)
    total = np.zeros_like(x)
    for node, weight in zip(NODES, WEIGHTS, strict=True):
        s = node * width
        rest = np.log1p(-near * np.expm1(-s) / far)  # the logarithm of the other factor, over that at x
        further = np.abs(distance) + np.where(left, s, rest)
        total += weight * np.exp(-power * s + (other - 1.0) * rest) * further
    return near * width * total


def _at_least_tiny(x: np.ndarray, dtype: Any) -> np.ndarray:
    return np.maximum(x.astype(dtype), np.finfo(dtype).tiny)


class StandardGamma(Function):
    """Samples of gamma distributions of rate 1, one for each concentration."""

    @staticmethod
    def forward(ctx: Any, concentration: Any) -> Any:
        alpha = concentration.array
        x = make(_at_least_tiny(drawn(gamma, random.default_generator, alpha), alpha.dtype))
        ctx.save_for_backward(x, concentration)
        return x

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Any) -> Any:
        x, alpha = (t.array.astype(np.float64) for t in ctx.saved_tensors)
        with quiet():
            return make(g.array * gamma_slope(x, alpha).astype(g.array.dtype))


class StandardDirichlet(Function):
    """Samples of Dirichlet distributions, of concentrations (..., n): gamma samples over their sum.

    The gradient is that of the first entry of a beta distribution, for each entry in its turn; the others shrink as the
    rest does.
    """

    @staticmethod
    def forward(ctx: Any, concentration: Any) -> Any:
        alpha = concentration.array
        parts = np.maximum(drawn(gamma, random.default_generator, alpha), np.finfo(np.float64).tiny)
        share = _at_least_tiny(parts / parts.sum(-1, keepdims=True), alpha.dtype)
        x = make(np.minimum(share, np.nextafter(alpha.dtype.type(1), alpha.dtype.type(0))))
        ctx.save_for_backward(x, concentration)
        return x

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Any) -> Any:
        x, alpha = (t.array.astype(np.float64) for t in ctx.saved_tensors)
        with quiet():
            slope = beta_slope(x, alpha, alpha.sum(-1, keepdims=True) - alpha) / (1.0 - x)
            felt = g.array - (x * g.array).sum(-1, keepdims=True)
            return make((slope * felt).astype(g.array.dtype))
