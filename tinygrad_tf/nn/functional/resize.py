"""Images, volumes and sequences at other sizes: interpolation along one axis after the other."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tinygrad_tf.engine import make
from tinygrad_tf.nn.functional.adaptive_pooling import adaptive_mean
from tinygrad_tf.ops.resample import Tap, resample
from tinygrad_tf.tensor import Tensor

MODES = {1: ("linear",), 2: ("bilinear", "bicubic"), 3: ("trilinear",)}
Kernel = Callable[[np.ndarray], np.ndarray]


def interpolate(
    input: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """Input (N, C, L), (N, C, H, W) or (N, C, D, H, W) at another size, given as such or by a factor.

    mode: "nearest", "nearest-exact", "area" (means), "linear" (L), "bilinear", "bicubic" (H, W) or "trilinear"
    (D, H, W). align_corners puts the outermost entries on each other, instead of the outer edges of both. antialias,
    for images made smaller: every entry is a mean over all that it covers, as in Pillow. A NaN reaches what is made of
    it and nothing else.

    >>> from tinygrad_tf import tensor
    >>> interpolate(tensor([[[0.0, 2.0]]]), 3, mode="linear", align_corners=True)
    tensor([[[0., 1., 2.]]])
    """
    count = input.ndim - 2
    _check_mode(count, input, mode, align_corners, antialias)
    wanted, factors = _target(input, size, scale_factor, count, recompute_scale_factor)
    if 0 in input.shape[1:]:
        raise RuntimeError(f"interpolate: only the batch may be empty, got input {tuple(input.shape)}")
    if mode == "area":
        return adaptive_mean("interpolate", count, input, wanted)
    for dim, (parts, factor) in enumerate(zip(wanted, factors, strict=True), 2):
        input = _resized(input, dim, parts, factor, mode, bool(align_corners), antialias)
    return input


def _check_mode(count: int, input: Tensor, mode: str, align_corners: bool | None, antialias: bool) -> None:
    if count not in MODES:
        shapes = "(N, C, L), (N, C, H, W) or (N, C, D, H, W)"
        raise NotImplementedError(f"interpolate: input must be {shapes}, got {tuple(input.shape)}")
    if not input.is_floating_point():
        raise NotImplementedError(f"interpolate: input must have a floating point dtype, got {input.dtype}")
    allowed = {"nearest", "nearest-exact", "area", *MODES[count]}
    if mode not in allowed:
        raise NotImplementedError(f"interpolate: mode must be one of {sorted(allowed)} here, got {mode!r}")
    if align_corners is not None and mode not in MODES[count]:
        raise ValueError(f"interpolate: align_corners is for linear, bilinear, bicubic, trilinear, not for {mode!r}")
    if antialias and mode not in MODES[2]:
        raise ValueError(f"interpolate: antialias is for mode 'bilinear' and 'bicubic', not for {mode!r}")


def _target(
    input: Tensor, size: Any, scale_factor: Any, count: int, recompute: bool | None
) -> tuple[tuple[int, ...], list[float | None]]:
    """The sizes, and the factors where they are what counts."""
    if (size is None) == (scale_factor is None):
        raise ValueError("interpolate: give size or scale_factor, one of both")
    kept: list[float | None] = [None] * count
    if size is not None:
        if recompute:
            raise ValueError("interpolate: recompute_scale_factor is for scale_factor, not for a size")
        if isinstance(size, (tuple, list)) and len(size) != count:
            raise ValueError(f"interpolate: size must be an integer or {count} of them, got {size!r}")
        sizes = [size] * count if not isinstance(size, (tuple, list)) else list(size)
    else:
        given = [scale_factor] * count if isinstance(scale_factor, (int, float)) else list(scale_factor)
        if len(given) != count:
            raise ValueError(f"interpolate: scale_factor must be a number or {count} of them, got {scale_factor!r}")
        sizes = [math.floor(n * f) for n, f in zip(input.shape[2:], given, strict=True)]
        kept = kept if recompute else [float(f) for f in given]
    if not all(isinstance(n, int) for n in sizes):
        raise TypeError(f"interpolate: size must be integers, got {size!r}")
    if min(sizes) < 1:
        raise RuntimeError(f"interpolate: the output needs at least one entry along each axis, got {tuple(sizes)}")
    return tuple(sizes), kept


def _resized(
    x: Tensor, dim: int, parts: int, factor: float | None, mode: str, align_corners: bool, antialias: bool
) -> Tensor:
    """Another size along one axis. Places are computed in the dtype that PyTorch computes them in."""
    length = x.shape[dim]
    real: Any = np.float64 if x.array.dtype == np.float64 else np.float32
    step = real(length / parts) if factor is None else real(1.0 / factor)
    places = np.arange(parts, dtype=real)
    if mode.startswith("nearest"):
        found = np.float32((places + real(0.5 if mode == "nearest-exact" else 0.0)) * step)
        return x.index_select(dim, make(np.minimum(found.astype(np.int64), length - 1)))
    if antialias:
        step = real((length - 1) / (parts - 1) if parts > 1 else 0.0) if align_corners else step
        return resample(x, dim=dim, taps=_covering(length, parts, float(step), mode))
    if length == parts and mode != "bicubic":
        return x
    if align_corners:
        centres = places * real((length - 1) / (parts - 1) if parts > 1 else 0.0)
    else:
        centres = (places + real(0.5)) * step - real(0.5)
        centres = centres if mode == "bicubic" else np.maximum(centres, real(0.0))
    kernel, reach = (_cubic(-0.75), 2) if mode == "bicubic" else (_tent, 1)
    return resample(x, dim=dim, taps=_taps(centres, length, kernel, reach))


def _taps(centres: np.ndarray, length: int, kernel: Kernel, reach: int) -> tuple[Tap, ...]:
    """The entries around each centre; beyond the ends stand copies of the outermost entries."""
    first = np.minimum(np.floor(centres).astype(np.int64), length - 1)
    offsets = range(1 - reach, reach + 1)
    return tuple(Tap((first + k).clip(0, length - 1), kernel(np.abs(centres - first - k))) for k in offsets)


def _covering(length: int, parts: int, step: float, mode: str) -> tuple[Tap, ...]:
    """All entries that each result covers, with weights that add up to 1; those missing at the ends are left out."""
    kernel, reach = (_cubic(-0.5), 2.0) if mode == "bicubic" else (_tent, 1.0)
    stretch = max(step, 1.0)
    centres = (np.arange(parts) + 0.5) * step
    first = np.maximum((centres - reach * stretch + 0.5).astype(np.int64), 0)
    last = np.minimum((centres + reach * stretch + 0.5).astype(np.int64), length)
    places = first[:, None] + np.arange((last - first).max())
    weights = kernel(np.abs(places - centres[:, None] + 0.5) / stretch) * (places < last[:, None])
    weights /= weights.sum(1, keepdims=True)
    return tuple(Tap(np.minimum(p, last - 1), w) for p, w in zip(places.T, weights.T, strict=True))


def _tent(distance: np.ndarray) -> np.ndarray:
    return np.maximum(1.0 - distance, 0.0)


def _cubic(a: float) -> Kernel:
    """The cubic convolution kernel with the slope a at distance 1 (Keys, 1981)."""

    def kernel(d: np.ndarray) -> np.ndarray:
        near = ((a + 2.0) * d - (a + 3.0)) * d * d + 1.0
        far = ((a * d - 5.0 * a) * d + 8.0 * a) * d - 4.0 * a
        return np.where(d <= 1.0, near, np.where(d < 2.0, far, 0.0))

    return kernel
