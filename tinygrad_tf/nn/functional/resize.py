"""Images and sequences at other sizes. Interpolation is a matrix product along each axis."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tinygrad_tf.engine import make
from tinygrad_tf.nn.functional.convolution import sizes_for
from tinygrad_tf.nn.functional.pooling import _adaptive_mean, along
from tinygrad_tf.tensor import Tensor


def interpolate(
    input: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """Input (N, C, L) or (N, C, H, W) at another size, given as such or by a factor.

    mode: "nearest", "nearest-exact", "linear" (L), "bilinear", "bicubic" (H, W) or "area" (means). align_corners puts
    the outermost entries on each other, instead of the outer edges of both.
    """
    count = input.ndim - 2
    if count not in (1, 2):
        raise NotImplementedError(f"interpolate: input must be (N, C, L) or (N, C, H, W), got {tuple(input.shape)}")
    if antialias:
        raise NotImplementedError("interpolate: antialias=True is not there; use mode='area' to make images smaller")
    allowed = {"nearest", "nearest-exact", "area", *(("linear",) if count == 1 else ("bilinear", "bicubic"))}
    if mode not in allowed:
        raise ValueError(f"interpolate: mode must be one of {sorted(allowed)} here, got {mode!r}")
    if align_corners is not None and "linear" not in mode and mode != "bicubic":
        raise ValueError(f"interpolate: align_corners is for linear, bilinear and bicubic, not for {mode!r}")
    wanted, factors = _target(input, size, scale_factor, count, recompute_scale_factor)
    if mode == "area":
        return _adaptive_mean("interpolate", count, input, wanted)
    for dim, (parts, factor) in enumerate(zip(wanted, factors, strict=True), 2):
        input = _resized(input, dim, parts, factor, mode, bool(align_corners))
    return input


def _target(
    input: Tensor, size: Any, scale_factor: Any, count: int, recompute: bool | None
) -> tuple[tuple[int, ...], list[float | None]]:
    """The sizes, and the factors where they are what counts."""
    if (size is None) == (scale_factor is None):
        raise ValueError("interpolate: give size or scale_factor, one of both")
    if size is not None:
        return sizes_for("interpolate", "size", size, count), [None] * count
    given = [scale_factor] * count if isinstance(scale_factor, (int, float)) else list(scale_factor)
    if len(given) != count:
        raise ValueError(f"interpolate: scale_factor must be a number or {count} of them, got {scale_factor!r}")
    sizes = [math.floor(n * f) for n, f in zip(input.shape[2:], given, strict=True)]
    kept: list[float | None] = [None] * count if recompute else [float(f) for f in given]
    return sizes_for("interpolate", "the size after scaling", sizes, count), kept


def _resized(x: Tensor, dim: int, parts: int, factor: float | None, mode: str, align_corners: bool) -> Tensor:
    length = x.shape[dim]
    step = length / parts if factor is None else 1.0 / factor
    places = np.arange(parts)
    if mode.startswith("nearest"):
        found = np.floor((places + (0.5 if mode == "nearest-exact" else 0.0)) * step).astype(np.int64)
        return x.index_select(dim, make(np.minimum(found, length - 1)))
    if align_corners:
        centres = places * ((length - 1) / (parts - 1) if parts > 1 else 0.0)
    else:
        centres = (places + 0.5) * step - 0.5
        centres = centres if mode == "bicubic" else np.maximum(centres, 0.0)
    kernel, reach = (_cubic, 2) if mode == "bicubic" else (_tent, 1)
    return along(x, dim, _weights(centres, length, kernel, reach))


def _weights(centres: np.ndarray, length: int, kernel: Callable[[np.ndarray], np.ndarray], reach: int) -> np.ndarray:
    """(out, in): how much each entry counts at each centre; beyond the ends stand copies of the outermost entries."""
    first = np.floor(centres).astype(np.int64)
    matrix = np.zeros((len(centres), length))
    for offset in range(1 - reach, reach + 1):
        near = first + offset
        np.add.at(matrix, (np.arange(len(centres)), near.clip(0, length - 1)), kernel(np.abs(centres - near)))
    return matrix


def _tent(distance: np.ndarray) -> np.ndarray:
    return np.maximum(1.0 - distance, 0.0)


def _cubic(distance: np.ndarray) -> np.ndarray:
    """The cubic convolution kernel with a = -0.75 (Keys, 1981)."""
    a, d = -0.75, distance
    near = ((a + 2.0) * d - (a + 3.0)) * d * d + 1.0
    far = ((a * d - 5.0 * a) * d + 8.0 * a) * d - 4.0 * a
    return np.where(d <= 1.0, near, np.where(d < 2.0, far, 0.0))


def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """(..., C r^2, H, W) as (..., C, H r, W r): channels become pixels (Shi et al., 2016)."""
    r = upscale_factor
    *lead, channels, height, width = input.shape
    if channels % (r * r):
        raise RuntimeError(f"pixel_shuffle: {channels} channels do not divide by {r} * {r}")
    x = input.reshape(*lead, channels // (r * r), r, r, height, width)
    n = len(lead)
    return x.permute(*range(n + 1), n + 3, n + 1, n + 4, n + 2).reshape(
        *lead, channels // (r * r), height * r, width * r
    )


def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """(..., C, H r, W r) as (..., C r^2, H, W): the inverse of pixel_shuffle."""
    r = downscale_factor
    *lead, channels, height, width = input.shape
    if height % r or width % r:
        raise RuntimeError(f"pixel_unshuffle: height {height} and width {width} must divide by {r}")
    x = input.reshape(*lead, channels, height // r, r, width // r, r)
    n = len(lead)
    return x.permute(*range(n + 1), n + 2, n + 4, n + 1, n + 3).reshape(
        *lead, channels * r * r, height // r, width // r
    )
