"""Layer normalisation (Ba et al., 2016) and RMS normalisation (Zhang and Sennrich, 2019), over the last axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinygrad_tf import kernels
from tinygrad_tf.engine import Tensor, cast, fused
from tinygrad_tf.ops.elementwise import add, mul, sqrt
from tinygrad_tf.ops.reduce import mean
from tinygrad_tf.regions import wide


def _in_range(x: Any, eps: float) -> tuple[Any, Any]:
    """x in at least float32, and eps; rows whose squares would overflow times a power of two, and eps times its square.

    The norms are the same.
    """
    dtype = wide(_array(x).dtype)
    x = x if _array(x).dtype == dtype else cast(x, dtype=dtype)
    most = np.finfo(dtype).maxexp  # 128 in float32: its numbers reach 2^128
    large = np.abs(_array(x)).max(-1, keepdims=True, initial=0) > 2.0 ** (most * 3 // 8)
    if not large.any():
        return x, eps
    unit = np.where(large, 2.0 ** (-most * 3 // 4), 1.0).astype(dtype)
    return mul(x, unit), unit * unit * dtype.type(eps)


def _rounded(y: Any, x: Any) -> Any:
    """What was computed in float32 in the 16-bit dtype of x, if it has one."""
    dtype = _array(x).dtype
    return cast(y, dtype=dtype) if wide(dtype) != dtype else y


def _array(x: Any) -> np.ndarray:
    found: np.ndarray = x.array if isinstance(x, Tensor) else x
    return found


def layer_norm_reference(x: Any, weight: Any, bias: Any, *, eps: float) -> Any:
    """(x - mean) / sqrt(var + eps) * weight + bias, with the variance over n (not n - 1)."""
    z, share = _in_range(x, eps)
    centred = z - mean(z, -1, keepdim=True)
    y = centred / sqrt(add(mean(centred * centred, -1, keepdim=True), share))
    y = y if weight is None else y * weight
    return _rounded(y if bias is None else y + bias, x)


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
    z, share = _in_range(x, eps)
    y = z / sqrt(add(mean(z * z, -1, keepdim=True), share))
    return _rounded(y if weight is None else y * weight, x)


def _rms_norm_backward(
    g: np.ndarray, wanted: list[bool], kept: Any, x: np.ndarray, weight: Any, own: bool
) -> tuple[Any, Any]:
    """With y = x r and h = g * weight: dx = r (h - y mean(h y)), dweight = sum g y."""
    return kernels.layer_norm.rms_norm_backward(g, x, weight, kept, *wanted, own)


@fused(reference=rms_norm_reference, backward=_rms_norm_backward)
def rms_norm(x: np.ndarray, weight: Any, *, eps: float) -> tuple[np.ndarray, Any]:
    return kernels.layer_norm.rms_norm(x, weight, eps)
