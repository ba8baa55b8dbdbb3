"""Channels in another order, and channels as pixels."""

from __future__ import annotations

from tinygrad_tf.tensor import Tensor


def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """The channels (N, C, ...) of all groups in turn: the first of each, the second of each (Zhang et al., 2018).

    >>> import tinygrad_tf as tg
    >>> channel_shuffle(tg.arange(6).view(1, 6, 1), 2).flatten()
    tensor([0, 3, 1, 4, 2, 5])
    """
    if input.ndim < 3:
        raise RuntimeError(f"channel_shuffle: input must be (N, C, ...), got {tuple(input.shape)}")
    count, channels, *rest = input.shape
    if groups < 1 or channels % groups:
        raise RuntimeError(f"channel_shuffle: groups must divide the {channels} channels, got {groups}")
    return input.reshape(count, groups, channels // groups, *rest).transpose(1, 2).reshape(input.shape)


def _factor(name: str, factor: int) -> int:
    if factor < 1:
        raise RuntimeError(f"{name}: the factor must be an integer from 1 on, got {factor!r}")
    return factor


def _needs_images(name: str, input: Tensor) -> None:
    if input.ndim < 3:
        raise RuntimeError(f"{name}: input must be (..., C, H, W), got shape {tuple(input.shape)}")


def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """(..., C r^2, H, W) as (..., C, H r, W r): channels become pixels (Shi et al., 2016)."""
    r = _factor("pixel_shuffle", upscale_factor)
    _needs_images("pixel_shuffle", input)
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
    r = _factor("pixel_unshuffle", downscale_factor)
    _needs_images("pixel_unshuffle", input)
    *lead, channels, height, width = input.shape
    if height % r or width % r:
        raise RuntimeError(f"pixel_unshuffle: height {height} and width {width} must divide by {r}")
    x = input.reshape(*lead, channels, height // r, r, width // r, r)
    n = len(lead)
    return x.permute(*range(n + 1), n + 2, n + 4, n + 1, n + 3).reshape(
        *lead, channels * r * r, height // r, width // r
    )
