"""Activation functions. GELU is fused (Hendrycks and Gimpel, 2016); the others are short compositions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinygrad_tf import kernels
from tinygrad_tf._layout import as_it_lies
from tinygrad_tf.engine import fused, primitive
from tinygrad_tf.ops._types import float_input
from tinygrad_tf.ops.elementwise import SLOW, erf, large, sigmoid, tanh


def gelu_reference(x: Any, *, approximate: str) -> Any:
    """x Phi(x), with Phi the normal distribution's cumulative function, or its approximation by tanh (as in GPT-2)."""
    if approximate == "none":
        return x * (erf(x * math.sqrt(0.5)) + 1.0) * 0.5
    inner = (x + x * x * x * 0.044715) * math.sqrt(2.0 / math.pi)
    return x * (tanh(inner) + 1.0) * 0.5


def _gelu_backward(g: np.ndarray, wanted: list[bool], kept: Any, x: np.ndarray, approximate: str) -> list[Any]:
    return [kernels.gelu.gelu_backward(g, x, approximate)]


@fused(reference=gelu_reference, backward=_gelu_backward)
def gelu_(x: np.ndarray, *, approximate: str) -> tuple[np.ndarray, None]:
    return as_it_lies(lambda x: kernels.gelu.gelu(x, approximate), x), None


def gelu(x: Any, approximate: str = "none") -> Any:
    if approximate not in ("none", "tanh"):
        raise RuntimeError(f"gelu: approximate must be 'none' or 'tanh', got {approximate!r}")
    return gelu_(x, approximate=approximate)


def silu(x: Any) -> Any:
    """x sigmoid(x), also called swish."""
    return x * sigmoid(x)


@primitive(prepare=float_input, x=lambda g, x: g * sigmoid(x))
def softplus(x: np.ndarray) -> np.ndarray:
    """log(1 + exp(x)) without overflow."""
    return kernels.elementwise.softplus(x) if large(x, x, SLOW) else np.logaddexp(0, x).astype(x.dtype, copy=False)


def logsigmoid(x: Any) -> Any:
    return -softplus(-x)
