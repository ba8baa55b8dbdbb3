"""Pooling: the largest entry, the mean or the p-norm of every window."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tinygrad_tf import kernels
from tinygrad_tf.engine import make, mode
from tinygrad_tf.nn.functional._sizes import Sizes, batched, sizes_for
from tinygrad_tf.ops._types import category
from tinygrad_tf.ops.elementwise import bent, where
from tinygrad_tf.ops.reduce import mean_over
from tinygrad_tf.ops.windows import Look, columns, count_windows, taken, windows
from tinygrad_tf.tensor import Tensor


class _Windows(NamedTuple):
    """The windows of an input with a batch axis: their size, their distance, and what is put around the input."""

    size: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    ends: list[tuple[int, int]]  # the entries before and after each axis

    def of(self, x: Any) -> Any:
        """(N, C, ...), with the entries at its ends already, to (N, C, *places, *size)."""
        return windows(x, size=self.size, stride=self.stride, dilation=self.dilation)

    def look(self, lengths: Sequence[int]) -> Look:
        """The same, over an image with axes of these lengths."""
        whole = [n + a + b for n, (a, b) in zip(lengths, self.ends, strict=True)]
        places = tuple(map(count_windows, whole, self.size, self.stride, self.dilation))
        return Look(self.size, self.stride, self.dilation, self.padding, places)


def _windows(
    name: str,
    x: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None,
    padding: Sizes,
    dilation: Sizes,
    ceil_mode: bool,
) -> _Windows:
    """The windows that the arguments of `name` mean; ceil_mode adds what the last one lacks, if it starts inside."""
    count = x.ndim - 2
    size = sizes_for(name, "kernel_size", kernel_size, count)
    steps = size if stride is None else sizes_for(name, "stride", stride, count)
    spread = sizes_for(name, "dilation", dilation, count)
    around = sizes_for(name, "padding", padding, count, 0)
    ends = []
    for length, k, s, p, d in zip(x.shape[2:], size, steps, around, spread, strict=True):
        if 2 * p > k:
            raise RuntimeError(f"{name}: padding must be at most half of kernel_size, got {p} and {k}")
        places = count_windows(length + 2 * p, k, s, d)
        if ceil_mode:
            last = -(-(length + 2 * p - d * (k - 1) - 1) // s)  # where a last window would begin
            places = last + 1 if last * s < length + p else last
        if places < 1:
            raise RuntimeError(f"{name}: a window of {k} does not fit into an axis of {length} with padding {p}")
        ends.append((p, max((places - 1) * s + d * (k - 1) + 1 - length - p, p)))
    return _Windows(size, steps, around, spread, ends)


def _max_pooled(
    name: str,
    count: int,
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None,
    padding: Sizes,
    dilation: Sizes,
    ceil_mode: bool,
    return_indices: bool,
) -> Any:
    x = bent(batched(name, input, count))
    w = _windows(name, x, kernel_size, stride, padding, dilation, ceil_mode)
    always_inside = not any(w.padding) or max(w.dilation) == 1  # every window has an entry of the image
    if always_inside and not mode.reference and kernels.pooling.takes(x.array, count):
        found = kernels.pooling.largest(x.array, *w.look(x.shape[2:]))
        return returned(input, taken(x, places=found), found, return_indices)
    found = _largest_in(x.array, w)
    best, around = taken(x, places=np.maximum(found, 0)), found < 0
    best = where(make(around), _lowest(x.array.dtype), best) if around.any() else best
    return returned(input, best, found, return_indices)


def _largest_in(x: np.ndarray, w: _Windows) -> np.ndarray:
    """Where the largest entries of the windows are, in NumPy."""
    count, lowest = len(w.size), _lowest(x.dtype)
    seen = w.of(np.pad(x, [(0, 0), (0, 0), *w.ends], constant_values=lowest))
    numbered = w.of(np.pad(numbers_in(x.shape), [(0, 0), (0, 0), *w.ends], constant_values=-1))
    rows, numbers = (y.reshape(*y.shape[: 2 + count], math.prod(w.size)) for y in (seen, numbered))
    return largest_of(rows, numbers, any(any(e) for e in w.ends))


def _lowest(dtype: np.dtype) -> Any:
    return -math.inf if category(dtype) == 2 else int(np.iinfo(dtype).min)


def numbers_in(shape: Sequence[int]) -> np.ndarray:
    """The number of each entry in its image, counted row by row: (1, 1, *places)."""
    return np.arange(math.prod(shape[2:])).reshape(1, 1, *shape[2:])


def returned(input: Tensor, best: Tensor, found: np.ndarray, return_indices: bool) -> Any:
    """The largest entries and, if asked for, their numbers; without a batch axis if the input has none."""
    if input.ndim < best.ndim:
        best, found = best.squeeze(0), found[0]
    return (best, make(found)) if return_indices else best


def largest_of(seen: np.ndarray, numbers: np.ndarray, padded: bool) -> np.ndarray:
    """The number in the image of each window's largest entry (..., K); numbers are -1 for entries around the image.

    Of equal ones the first; the last NaN, if there are any; never one around the image, however low the others are.
    """
    seen = seen.astype(np.float32) if seen.dtype.kind == "V" else seen
    chosen = seen.argmax(-1)
    values = np.take_along_axis(seen, chosen[..., None], -1)[..., 0]
    unknown, low = values != values, values == _lowest(seen.dtype)
    if unknown.any() or (padded and low.any()):
        last = numbers.shape[-1] - 1 - (seen != seen)[..., ::-1].argmax(-1)
        inside = np.broadcast_to((numbers >= 0).argmax(-1), chosen.shape)
        chosen = np.where(unknown, last, np.where(low, inside, chosen))
    spread = np.broadcast_to(numbers, (*chosen.shape, numbers.shape[-1]))
    return np.take_along_axis(spread, chosen[..., None], -1)[..., 0]


def max_pool1d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest entry of every window of input (N, C, L); of equal ones the first gets the gradient."""
    return _max_pooled("max_pool1d", 1, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool2d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest entry of every window of input (N, C, H, W) and, if asked for, its number in the image.

    >>> from tinygrad_tf import arange
    >>> max_pool2d(arange(16.0).reshape(1, 4, 4), 2)
    tensor([[[ 5.,  7.],
             [13., 15.]]])
    """
    return _max_pooled("max_pool2d", 2, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool3d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest entry of every window of input (N, C, D, H, W) and, if asked for, its number in the volume."""
    return _max_pooled("max_pool3d", 3, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def _mean_pooled(
    name: str,
    count: int,
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None,
    padding: Sizes,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor: int | None = None,
) -> Tensor:
    x = bent(batched(name, input, count))
    w = _windows(name, x, kernel_size, stride, padding, 1, ceil_mode)
    seen = columns(x, look=w.look(x.shape[2:]))  # (C, *size, N, *places)
    if divisor == 0:
        raise RuntimeError(f"{name}: divisor_override must not be 0")
    axes = tuple(range(1, 1 + count))
    all_count = all(b == p and (not p or count_include_pad) for (_, b), p in zip(w.ends, w.padding, strict=True))
    if divisor is not None or all_count:
        y = mean_over(divisor or math.prod(w.size), seen, axes)
    else:
        inside = [(p, p) if count_include_pad else (0, 0) for p in w.padding]  # what ceil_mode adds never counts
        counted = np.pad(np.ones(x.shape[2:], x.array.dtype), inside, constant_values=1)
        rest = [(a - c, b - d) for (a, b), (c, d) in zip(w.ends, inside, strict=True)]
        y = mean_over(make(w.of(np.pad(counted, rest)).sum(tuple(range(-count, 0)))), seen, axes)
    y = y.movedim(0, 1).contiguous()
    return y.squeeze(0) if input.ndim < x.ndim else y


def avg_pool1d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """The mean of every window of input (N, C, L)."""
    return _mean_pooled("avg_pool1d", 1, input, kernel_size, stride, padding, ceil_mode, count_include_pad)


def avg_pool2d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """The mean of every window of input (N, C, H, W)."""
    return _mean_pooled(
        "avg_pool2d", 2, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )


def avg_pool3d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """The mean of every window of input (N, C, D, H, W)."""
    return _mean_pooled(
        "avg_pool3d", 3, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )


def _by_norm(mean: Tensor, norm_type: float, count: int) -> Tensor:
    """The p-th root of count times the means of x^p, and 0 where these are not positive."""
    return (mean.sign() * mean.abs().relu() * count) ** (1.0 / norm_type)


def lp_pool1d(
    input: Tensor, norm_type: float, kernel_size: int, stride: Sizes | None = None, ceil_mode: bool = False
) -> Tensor:
    """(sum x^p)^(1/p) of every window of input (N, C, L), with p = norm_type.

    >>> from tinygrad_tf import tensor
    >>> lp_pool1d(tensor([[[3.0, 4.0]]]), 2, 2)
    tensor([[[5.]]])
    """
    return _by_norm(avg_pool1d(input**norm_type, kernel_size, stride, 0, ceil_mode), norm_type, kernel_size)


def lp_pool2d(
    input: Tensor, norm_type: float, kernel_size: Sizes, stride: Sizes | None = None, ceil_mode: bool = False
) -> Tensor:
    """(sum x^p)^(1/p) of every window of images (N, C, H, W), with p = norm_type."""
    count = math.prod(sizes_for("lp_pool2d", "kernel_size", kernel_size, 2))
    return _by_norm(avg_pool2d(input**norm_type, kernel_size, stride, 0, ceil_mode), norm_type, count)
