"""What undoes max pooling."""

from __future__ import annotations

import math
from typing import Any

from tinygrad_tf.nn.functional._sizes import Sizes, batched, sizes_for
from tinygrad_tf.tensor import Tensor


def _unpooled(
    name: str,
    count: int,
    input: Tensor,
    indices: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None,
    padding: Sizes,
    output_size: Any,
) -> Tensor:
    x = batched(name, input, count)
    if str(indices.array.dtype) != "int64":
        raise RuntimeError(f"{name}: indices must be int64, got {indices.dtype}")
    if indices.shape != input.shape:
        raise RuntimeError(f"{name}: indices must have input's shape {tuple(input.shape)}, got {tuple(indices.shape)}")
    size = sizes_for(name, "kernel_size", kernel_size, count)
    steps = size if stride is None else sizes_for(name, "stride", stride, count)
    cut = sizes_for(name, "padding", padding, count, 0)
    usual = [(n - 1) * s - 2 * p + k for n, s, p, k in zip(x.shape[2:], steps, cut, size, strict=True)]
    if output_size is not None and len(output_size) not in (count, count + 2):
        raise ValueError(f"{name}: output_size must be {count} or {count + 2} integers, got {tuple(output_size)}")
    sizes = usual if output_size is None else list(output_size)[-count:]
    if any(not u - s < n < u + s for n, u, s in zip(sizes, usual, steps, strict=True)):
        raise ValueError(f"{name}: output_size must differ from {usual} by less than the stride {steps}, got {sizes}")
    places, total = indices.reshape(*x.shape[:2], math.prod(x.shape[2:])), math.prod(sizes)
    if indices.numel() and not 0 <= int(indices.array.min()) <= int(indices.array.max()) < total:
        found = f"{indices.array.min()} to {indices.array.max()}"
        raise RuntimeError(f"{name}: indices must be in [0, {total - 1}] for an output of {sizes}, got {found}")
    whole = x.new_zeros(*x.shape[:2], total).scatter(2, places, x.reshape(places.shape))
    whole = whole.reshape(*x.shape[:2], *sizes)
    return whole if input.ndim == x.ndim else whole.squeeze(0)


def max_unpool1d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    output_size: Any = None,
) -> Tensor:
    """The entries that max_pool1d kept, back at their `indices`, and 0 between them.

    output_size: several lengths are pooled to the same one; this is the one that is meant.

    >>> from tinygrad_tf import tensor
    >>> from tinygrad_tf.nn.functional import max_pool1d
    >>> max_unpool1d(*max_pool1d(tensor([[[1.0, 2.0, 4.0, 3.0]]]), 2, return_indices=True), 2)
    tensor([[[0., 2., 4., 0.]]])
    """
    return _unpooled("max_unpool1d", 1, input, indices, kernel_size, stride, padding, output_size)


def max_unpool2d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    output_size: Any = None,
) -> Tensor:
    """The entries that max_pool2d kept, back at their `indices` in images (N, C, H, W), and 0 between them."""
    return _unpooled("max_unpool2d", 2, input, indices, kernel_size, stride, padding, output_size)
