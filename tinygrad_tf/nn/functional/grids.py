"""Images and volumes looked at in other places: grid_sample, and the grids that affine maps make.

A grid holds places between -1 and 1, the column first: (x, y) in images, (x, y, z) in volumes. Spatial transformers
(Jaderberg et al., 2015) learn them, so that there are gradients by the grid, too.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tinygrad_tf.engine import make, primitive
from tinygrad_tf.tensor import Tensor

MODES, PADDINGS = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")


class Tap(NamedTuple):
    """Whole places along one axis, and how much the entries there count: (N, *output) both."""

    places: np.ndarray
    weights: Any


def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """Images (N, C, H, W) at the places grid (N, rows, columns, 2), or volumes (N, C, D, H, W) at (N, ..., 3).

    The result is (N, C, rows, columns). mode: "bilinear" (in volumes between 8 entries), "nearest" or "bicubic"
    (images alone). padding_mode: what lies outside of the image counts as 0 ("zeros"), as the nearest entry of the edge
    ("border"), or is mirrored at the edges ("reflection"). align_corners: -1 and 1 are the middles of the outermost
    entries, not the outer edges of them.

    >>> from tinygrad_tf import tensor
    >>> image = tensor([[[[1.0, 2.0], [3.0, 4.0]]]])
    >>> grid_sample(image, tensor([[[[0.0, 0.0], [1.0, -1.0]]]]), align_corners=True)
    tensor([[[[2.5000, 2.0000]]]])
    """
    _check(input, grid, mode, padding_mode)
    if input.dtype.itemsize == 2:  # places between entries are not for 16-bit numbers
        return grid_sample(input.float(), grid.float(), mode, padding_mode, align_corners).to(input.dtype)
    count = input.ndim - 2
    sizes = tuple(input.shape[2:])
    taps = []
    for i, size in enumerate(sizes):
        place = grid[..., count - 1 - i]
        place = (place + 1.0) * ((size - 1) / 2.0) if align_corners else ((place + 1.0) * size - 1.0) / 2.0
        taps.append(_taps(place, size, mode, padding_mode, bool(align_corners)))
    entries = input.reshape(*input.shape[:2], math.prod(sizes))
    shape = (*input.shape[:2], *grid.shape[1:-1])
    total: Any = None
    for corner in itertools.product(*taps):
        found = _entries(entries, [tap.places for tap in corner], sizes).reshape(shape)
        for tap in corner:
            found = found * tap.weights.unsqueeze(1)
        total = found if total is None else total + found
    return total


def _check(input: Tensor, grid: Tensor, mode: str, padding_mode: str) -> None:
    if mode not in MODES:
        raise ValueError(f"grid_sample: mode must be one of {MODES}, got {mode!r}")
    if padding_mode not in PADDINGS:
        raise ValueError(f"grid_sample: padding_mode must be one of {PADDINGS}, got {padding_mode!r}")
    shapes = f"input {tuple(input.shape)} and grid {tuple(grid.shape)}"
    count = input.ndim - 2
    if count not in (2, 3) or grid.ndim != input.ndim or grid.shape[-1] != count or grid.shape[0] != input.shape[0]:
        wanted = "(N, C, H, W) with (N, rows, columns, 2), or (N, C, D, H, W) with (N, ..., 3)"
        raise RuntimeError(f"grid_sample: needs {wanted}, got {shapes}")
    if 0 in input.shape[2:]:
        raise RuntimeError(f"grid_sample: images must not be empty, got {shapes}")
    if mode == "bicubic" and count == 3:
        raise RuntimeError(f"grid_sample: mode 'bicubic' is for images, got {shapes}")
    if input.dtype != grid.dtype:
        raise RuntimeError(f"grid_sample: both must have the same dtype, got {input.dtype} and {grid.dtype}")
    if not input.is_floating_point():
        raise NotImplementedError(f"grid_sample: needs a floating point dtype, got {input.dtype}")


def _entries(entries: Tensor, places: Sequence[np.ndarray], sizes: tuple[int, ...]) -> Tensor:
    """The entries (N, C, P) at places along every axis, and 0 where one of them is outside."""
    inside = np.logical_and.reduce([(p >= 0) & (p < n) for p, n in zip(places, sizes, strict=True)])
    flat = np.ravel_multi_index([p.clip(0, n - 1) for p, n in zip(places, sizes, strict=True)], sizes)
    batch, channels, _ = entries.shape
    index = np.broadcast_to(flat.reshape(batch, 1, -1), (batch, channels, flat[:1].size if batch else 0))
    outside = np.broadcast_to(~inside.reshape(batch, 1, -1), index.shape)
    return entries.gather(2, make(index)).masked_fill(make(outside), 0.0)


# --- along one axis ---------------------------------------------------------------------------------------------------


@np.errstate(all="ignore")  # places may be infinite, or no numbers
def _taps(place: Tensor, size: int, mode: str, padding: str, align_corners: bool) -> list[Tap]:
    if mode == "bicubic":
        first = np.floor(place.array)
        part = place - make(first)
        near = [_whole(first + k) for k in (-1.0, 0.0, 1.0, 2.0)]
        return [
            Tap(_whole(_put_inside(p.astype(first.dtype), size, padding, align_corners)[0]), w)
            for p, w in zip(near, _cubic(part), strict=True)
        ]
    place = _held(place, found=_put_inside(place.array, size, padding, align_corners))
    if mode == "nearest":
        return [Tap(_whole(np.rint(place.array)), _one(place))]
    first = np.floor(place.array)
    return [Tap(_whole(first), make(first + 1.0) - place), Tap(_whole(first + 1.0), place - make(first))]


def _whole(places: np.ndarray) -> np.ndarray:
    """As integers; what is no number, or too large for them, is outside of every image."""
    return np.where(np.abs(places) < 2.0**31, places, -100.0).astype(np.int64)


def _put_inside(places: np.ndarray, size: int, padding: str, align_corners: bool) -> tuple[np.ndarray, np.ndarray]:
    """The places in the image that those outside of it mean, and how fast they move with them: 1, 0 or -1."""
    dtype, slope = places.dtype, np.ones_like(places)
    if padding == "zeros":
        return places, slope
    if padding == "reflection":
        edge, span = (0.0, size - 1.0) if align_corners else (-0.5, float(size))
        away = np.abs(places - edge)
        turns, rest = np.floor(away / (span or 1.0)), np.fmod(away, span or 1.0)
        back = np.fmod(turns, 2.0) != 0.0
        slope = np.where(places < edge, -1.0, 1.0) * np.where(back, -1.0, 1.0) * float(span > 0.0)
        places = np.where(back, span - rest, rest) + edge if span else np.zeros_like(places)
    moves = (places > 0.0) & (places < size - 1.0)
    inside = np.where(np.isnan(places), 0.0, places.clip(0.0, size - 1.0))
    return inside.astype(dtype), np.where(moves, slope, 0.0).astype(dtype)


@primitive(x=lambda g, found: g * found[1])
def _held(x: np.ndarray, *, found: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Values that were found beforehand, with their slopes."""
    return found[0]


def _one(place: Tensor) -> Tensor:
    """The weight 1, whose gradient by the place is 0."""
    return _held(place, found=(np.ones_like(place.array), np.zeros_like(place.array)))


def _cubic(t: Tensor) -> list[Tensor]:
    """The weights of the entries at distance 1 + t, t, 1 - t and 2 - t: cubic convolution, a = -0.75 (Keys, 1981)."""
    a = -0.75

    def near(d: Tensor) -> Tensor:
        return ((a + 2.0) * d - (a + 3.0)) * d * d + 1.0

    def far(d: Tensor) -> Tensor:
        return ((a * d - 5.0 * a) * d + 8.0 * a) * d - 4.0 * a

    return [far(t + 1.0), near(t), near(1.0 - t), far(2.0 - t)]


# --- grids ------------------------------------------------------------------------------------------------------------


def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """The grid for `grid_sample` by which each image is mapped: theta (N, 2, 3) times (x, y, 1), size (N, C, H, W).

    For volumes theta is (N, 3, 4), and size (N, C, D, H, W). align_corners as in grid_sample.

    >>> from tinygrad_tf import tensor
    >>> affine_grid(tensor([[[1.0, 0.0, 0.5], [0.0, 1.0, 0.0]]]), (1, 1, 1, 2), align_corners=True)
    tensor([[[[-0.5000,  0.0000],
              [ 1.5000,  0.0000]]]])
    """
    count = len(size) - 2
    if count not in (2, 3):
        raise NotImplementedError(f"affine_grid: size must be (N, C, H, W) or (N, C, D, H, W), got {tuple(size)}")
    if not theta.is_floating_point():
        raise ValueError(f"affine_grid: theta must have a floating point dtype, got {theta.dtype}")
    if theta.ndim != 3 or tuple(theta.shape[1:]) != (count, count + 1):
        raise ValueError(f"affine_grid: theta must be (N, {count}, {count + 1}), got {tuple(theta.shape)}")
    if min(size) <= 0:
        raise ValueError(f"affine_grid: size must be positive, got {tuple(size)}")
    if theta.shape[0] != size[0]:
        raise RuntimeError(f"affine_grid: theta holds {theta.shape[0]} maps for a batch of {size[0]}")
    lines = [np.linspace(-1.0, 1.0, n) if n > 1 else np.zeros(1) for n in size[2:]]
    lines = lines if align_corners else [line * ((n - 1) / n) for line, n in zip(lines, size[2:], strict=True)]
    places = np.stack([*reversed(np.meshgrid(*lines, indexing="ij")), np.ones(tuple(size[2:]))], -1)
    found = make(places.reshape(1, -1, count + 1).astype(theta.array.dtype)) @ theta.mT
    return found.reshape(size[0], *size[2:], count)
