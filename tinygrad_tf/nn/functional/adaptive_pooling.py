"""Pooling to a given size: windows that divide every axis into so many parts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinygrad_tf.nn.functional._sizes import Sizes, batched, sizes_for
from tinygrad_tf.nn.functional.pooling import largest_of, numbers_in, returned
from tinygrad_tf.ops.elementwise import bent
from tinygrad_tf.ops.shape import stack
from tinygrad_tf.ops.windows import taken
from tinygrad_tf.tensor import Tensor


def _bounds(length: int, parts: int) -> list[tuple[int, int]]:
    """An axis in `parts` windows that cover it and overlap where it does not divide."""
    return [(i * length // parts, -(-(i + 1) * length // parts)) for i in range(parts)]


def _wanted(name: str, x: Tensor, output_size: Any, count: int) -> tuple[int, ...]:
    given = (output_size,) * count if isinstance(output_size, int) or output_size is None else tuple(output_size)
    given = given * count if len(given) == 1 else given
    if len(given) != count:
        raise RuntimeError(f"{name}: output_size must be an integer or {count} of them, got {output_size!r}")
    own = tuple(x.shape[2:])
    return sizes_for(name, "output_size", [n if g is None else g for g, n in zip(given, own, strict=True)], count, 0)


def adaptive_mean(name: str, count: int, input: Tensor, output_size: Any) -> Tensor:
    """Each mean of its own window alone: a product with a matrix would carry NaN from one window to all."""
    x = batched(name, input, count)
    wanted = _wanted(name, x, output_size, count)
    x = bent(x) if math.prod(wanted) != 1 else x
    for dim, parts in enumerate(wanted, 2):
        length = x.shape[dim]
        if parts and length % parts == 0:
            x = x.unflatten(dim, (parts, length // parts)).mean(dim + 1)
        elif parts:
            x = stack([x.narrow(dim, a, b - a).mean(dim) for a, b in _bounds(length, parts)], dim)
        else:
            x = x.narrow(dim, 0, 0)
    return x if input.ndim == x.ndim else x.squeeze(0)


def _adaptive_max(name: str, count: int, input: Tensor, output_size: Any, return_indices: bool) -> Any:
    """The largest entries of the windows that the axes make together, row by row; those of one size are filled up."""
    x = bent(batched(name, input, count))
    index: Any = (slice(None), slice(None))
    for i, parts in enumerate(_wanted(name, x, output_size, count)):
        bounds = _bounds(x.shape[2 + i], parts)
        longest = max((b - a for a, b in bounds), default=1)
        places = np.array([[min(a + k, b - 1) for k in range(longest)] for a, b in bounds], np.int64)
        shape = [1] * (2 * count)
        shape[i], shape[count + i] = parts, longest
        index = (*index, places.reshape(shape))
    numbered = numbers_in(x.shape)[index]
    if not numbered.size:
        found = np.zeros((*x.shape[:2], *numbered.shape[2 : 2 + count]), np.int64)
        return returned(input, x.new_zeros(*found.shape), found, return_indices)
    seen = x.array[index].reshape(*x.shape[:2], *numbered.shape[2 : 2 + count], -1)
    found = largest_of(seen, numbered.reshape(*numbered.shape[: 2 + count], -1), False)
    return returned(input, taken(x, places=found), found, return_indices)


def adaptive_avg_pool1d(input: Tensor, output_size: Sizes) -> Tensor:
    """Means over windows that divide input (N, C, L) into `output_size` parts."""
    return adaptive_mean("adaptive_avg_pool1d", 1, input, output_size)


def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """Means over windows that divide images (N, C, H, W) into `output_size` parts; None keeps an axis."""
    return adaptive_mean("adaptive_avg_pool2d", 2, input, output_size)


def adaptive_max_pool1d(input: Tensor, output_size: Sizes, return_indices: bool = False) -> Any:
    """The largest entries of windows that divide input (N, C, L) into `output_size` parts; if asked for, with places.

    >>> from tinygrad_tf import tensor
    >>> adaptive_max_pool1d(tensor([[[1.0, 5.0, 2.0, 3.0]]]), 2, return_indices=True)
    (tensor([[[5., 3.]]]), tensor([[[1, 3]]]))
    """
    return _adaptive_max("adaptive_max_pool1d", 1, input, output_size, return_indices)


def adaptive_max_pool2d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """The largest entries of windows that divide images (N, C, H, W) into `output_size` parts; None keeps an axis.

    return_indices: also the number of each in the image, counted row by row. Of equal entries the first is taken.
    """
    return _adaptive_max("adaptive_max_pool2d", 2, input, output_size, return_indices)


def adaptive_avg_pool3d(input: Tensor, output_size: Any) -> Tensor:
    """Means over windows that divide volumes (N, C, D, H, W) into `output_size` parts; None keeps an axis."""
    return adaptive_mean("adaptive_avg_pool3d", 3, input, output_size)


def adaptive_max_pool3d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """As adaptive_max_pool2d, of volumes (N, C, D, H, W)."""
    return _adaptive_max("adaptive_max_pool3d", 3, input, output_size, return_indices)
