"""Layer normalisation (Ba et al., 2016) and RMS normalisation (Zhang and Sennrich, 2019), over the last axis; batch
normalisation (Ioffe and Szegedy, 2015), of channels."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinygrad_tf import kernels
from tinygrad_tf.engine import Tensor, cast, fused, mode
from tinygrad_tf.ops.elementwise import add, mul, sqrt
from tinygrad_tf.ops.reduce import mean as mean_of
from tinygrad_tf.regions import wide


def _in_range(x: Any, eps: float, axes: int | tuple[int, ...] = -1) -> tuple[Any, Any]:
    """x in at least float32, and eps; where squares along the axes would overflow, x times a power of two, and eps
    times its square. The norms are the same.
    """
    dtype = wide(_array(x).dtype)
    x = x if _array(x).dtype == dtype else cast(x, dtype=dtype)
    most = np.finfo(dtype).maxexp  # 128 in float32: its numbers reach 2^128
    large = np.abs(_array(x)).max(axes, keepdims=True, initial=0) > 2.0 ** (most * 3 // 8)
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
    centred = z - mean_of(z, -1, keepdim=True)
    y = centred / sqrt(add(mean_of(centred * centred, -1, keepdim=True), share))
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
    y = z / sqrt(add(mean_of(z * z, -1, keepdim=True), share))
    return _rounded(y if weight is None else y * weight, x)


def _rms_norm_backward(
    g: np.ndarray, wanted: list[bool], kept: Any, x: np.ndarray, weight: Any, own: bool
) -> tuple[Any, Any]:
    """With y = x r and h = g * weight: dx = r (h - y mean(h y)), dweight = sum g y."""
    return kernels.layer_norm.rms_norm_backward(g, x, weight, kept, *wanted, own)


@fused(reference=rms_norm_reference, backward=_rms_norm_backward)
def rms_norm(x: np.ndarray, weight: Any, *, eps: float) -> tuple[np.ndarray, Any]:
    return kernels.layer_norm.rms_norm(x, weight, eps)


def channel_statistics(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance (over n) of each channel of (N, C, ...), in float64."""
    module = kernels.channel_statistics
    return module.channel_statistics_reference(x) if mode.reference else module.channel_statistics(x)


def batch_norm_reference(
    x: Any, weight: Any, bias: Any, *, mean: Any, variance: Any, eps: float, own_statistics: bool
) -> Any:
    """(x - mean) / sqrt(variance + eps) * weight + bias, with mean and variance those of the channels, or given."""
    axes, shape = kernels.channel_statistics.along_channels(_array(x))
    if own_statistics:
        z, share = _in_range(x, eps, axes)
        centred = z - mean_of(z, axes, keepdim=True)
        y = centred / sqrt(add(mean_of(centred * centred, axes, keepdim=True), share))
    else:
        dtype = wide(_array(x).dtype)
        rstd = 1 / np.sqrt(variance.reshape(shape) + eps)
        y = (cast(x, dtype=dtype) - mean.reshape(shape).astype(dtype)) * rstd.astype(dtype)
    y = y if weight is None else y * weight.reshape(shape)
    return _rounded(y if bias is None else y + bias.reshape(shape), x)


def _batch_norm_backward(
    g: np.ndarray,
    wanted: list[bool],
    kept: Any,
    x: np.ndarray,
    weight: Any,
    mean: np.ndarray,
    variance: np.ndarray,
    eps: float,
    own_statistics: bool,
    own: bool,
) -> tuple[Any, Any, Any]:
    """With z = (x - mean) r: dweight = sum g z, dbias = sum g, dx = weight r (g - mean g - z mean(g z)), or weight r g
    where the statistics were given."""
    return kernels.batch_norm.batch_norm_backward(g, x, weight, mean, variance, eps, own_statistics, *wanted, own)


@fused(reference=batch_norm_reference, backward=_batch_norm_backward)
def batch_norm(
    x: np.ndarray, weight: Any, bias: Any, *, mean: np.ndarray, variance: np.ndarray, eps: float, own_statistics: bool
) -> tuple[np.ndarray, Any]:
    """mean and variance: one for each channel, in float64; own_statistics: they are those of x, and change with it."""
    return kernels.batch_norm.batch_norm(x, weight, bias, mean, variance, eps), None
