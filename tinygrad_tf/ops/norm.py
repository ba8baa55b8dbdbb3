"""Layer normalisation (Ba et al., 2016) and RMS normalisation (Zhang and Sennrich, 2019), over the last axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinygrad_tf import kernels
from tinygrad_tf.engine import fused
from tinygrad_tf.ops.elementwise import sqrt
from tinygrad_tf.ops.reduce import mean


def layer_norm_reference(x: Any, weight: Any, bias: Any, *, eps: float) -> Any:
    """(x - mean) / sqrt(var + eps) * weight + bias, with the variance over n (not n - 1)."""
    centred = x - mean(x, -1, keepdim=True)
    y = centred / sqrt(mean(centred * centred, -1, keepdim=True) + eps)
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


def _layer_norm_backward(
    g: np.ndarray, wanted: list[bool], kept: Any, x: np.ndarray, weight: Any, own: bool
) -> tuple[Any, Any, Any]:
    """With y = (x - mean) r and h = g * weight: dx = r (h - mean h - y mean(h y)), dweight = sum g y, dbias = sum g."""
    mean, rstd = kept
    return kernels.layer_norm.layer_norm_backward(g, x, weight, mean, rstd, *wanted, own)


@fused(reference=layer_norm_reference, backward=_layer_norm_backward)
def layer_norm(x: np.ndarray, weight: Any, bias: Any, *, eps: float) -> tuple[np.ndarray, Any]:
    y, mean, rstd = kernels.layer_norm.layer_norm(x, weight, bias, eps)
    return y, (mean, rstd)


def rms_norm_reference(x: Any, weight: Any, *, eps: float) -> Any:
    """x / sqrt(mean x^2 + eps) * weight."""
    y = x / sqrt(mean(x * x, -1, keepdim=True) + eps)
    return y if weight is None else y * weight


def _rms_norm_backward(
    g: np.ndarray, wanted: list[bool], kept: Any, x: np.ndarray, weight: Any, own: bool
) -> tuple[Any, Any]:
    """With y = x r and h = g * weight: dx = r (h - y mean(h y)), dweight = sum g y."""
    return kernels.layer_norm.rms_norm_backward(g, x, weight, kept, *wanted, own)


@fused(reference=rms_norm_reference, backward=_rms_norm_backward)
def rms_norm(x: np.ndarray, weight: Any, *, eps: float) -> tuple[np.ndarray, Any]:
    return kernels.layer_norm.rms_norm(x, weight, eps)
