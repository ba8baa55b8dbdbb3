"""Entries added at the ends of axes, or cut off."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tinygrad_tf.creation import full
from tinygrad_tf.engine import make
from tinygrad_tf.ops._types import fitting
from tinygrad_tf.ops.elementwise import bent
from tinygrad_tf.tensor import Tensor

PAD_MODES = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}  # PyTorch's names: NumPy's


def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """Add entries at the ends: pad = (left, right) for the last axis, then for the one before it, and so on.

    Negative numbers cut entries off. mode: "constant" (filled with `value`), "reflect", "replicate" or "circular".

    >>> from tinygrad_tf import tensor
    >>> pad(tensor([1, 2, 3]), (1, 2), value=9)
    tensor([9, 1, 2, 3, 9, 9])
    """
    ends = [int(n) for n in pad]
    if len(ends) % 2 or len(ends) > 2 * input.ndim:
        raise RuntimeError(f"pad: needs pairs of ends for at most {input.ndim} axes, got {tuple(pad)}")
    pairs = [(0, 0)] * (input.ndim - len(ends) // 2) + list(zip(ends[-2::-2], ends[::-2], strict=True))
    shape = tuple(n + a + b for n, (a, b) in zip(input.array.shape, pairs, strict=True))
    if min(shape, default=0) < 0:
        raise RuntimeError(f"pad: {tuple(pad)} cuts more than there is from a tensor of shape {input.array.shape}")
    if mode != "constant":
        return _padded_by_index(input, pairs, mode)
    kept = input[tuple(slice(max(-a, 0), n - max(-b, 0)) for n, (a, b) in zip(input.array.shape, pairs, strict=True))]
    if kept.array.shape == shape:
        return kept.clone()
    out = full(shape, fitting("pad", 0 if value is None else value, input.array.dtype), dtype=input.dtype)
    out[tuple(slice(max(a, 0), m - max(b, 0)) for m, (a, b) in zip(shape, pairs, strict=True))] = kept
    return out


def _padded_by_index(input: Tensor, pairs: list[tuple[int, int]], mode: str) -> Tensor:
    """Padding that repeats entries is indexing by positions that were padded in the same way."""
    if mode not in PAD_MODES:
        raise NotImplementedError(f"pad: mode must be 'constant' or one of {sorted(PAD_MODES)}, got {mode!r}")
    if mode != "circular":
        input = bent(input)
    for dim, (before, after) in enumerate(pairs):
        size = input.array.shape[dim]
        limit = {"reflect": size - 1, "circular": size}.get(mode, max(before, after))
        if max(before, after, 0) > max(limit, 0):
            raise RuntimeError(f"pad: {mode} can add {limit} entries to an axis of size {size}, got {(before, after)}")
        if before or after:
            input = input[(slice(None),) * dim + (make(_padded_places(size, before, after, mode)),)]
    return input


def _padded_places(size: int, before: int, after: int, mode: str) -> np.ndarray:
    """Which entry each place takes. Entries are cut off at the end, but what goes round is what is left of them."""
    places, added = np.arange(size), (max(before, 0), max(after, 0))
    cut = slice(max(-before, 0), size + sum(added) - max(-after, 0))
    if mode == "circular":
        return np.pad(places[max(-before, 0) : size - max(-after, 0)], added, mode="wrap")
    return np.pad(places, added, mode=PAD_MODES[mode])[cut]  # type: ignore[call-overload]
