"""What convolutions and pooling ask of their sizes and their input."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tinygrad_tf.tensor import Tensor

Sizes = int | Sequence[int]


def sizes_for(name: str, argument: str, value: Sizes, count: int, least: int = 1) -> tuple[int, ...]:
    """One integer for every axis, given as a single one or one by one."""
    found = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    found = found * count if len(found) == 1 else found
    whole = all(isinstance(n, (int, np.integer)) and not isinstance(n, bool) for n in found)
    if len(found) != count or not whole or min(found) < least:
        wanted = f"an integer from {least} on" + (f" or {count} of them" if count > 1 else "")
        raise (RuntimeError if whole else TypeError)(f"{name}: {argument} must be {wanted}, got {value!r}")
    return found


def batched(name: str, input: Tensor, count: int) -> Tensor:
    """The input with a batch axis in front, (N, C, ...); it may come without."""
    axes = ("L", "H, W", "D, H, W")[count - 1]
    if input.ndim not in (count + 1, count + 2):
        raise RuntimeError(f"{name}: input must be (N, C, {axes}) or (C, {axes}), got shape {tuple(input.shape)}")
    return input.unsqueeze(0) if input.ndim == count + 1 else input
