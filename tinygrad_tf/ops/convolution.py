"""Convolutions and their adjoints, fused: the columns of all windows are never stored."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinygrad_tf import kernels
from tinygrad_tf.engine import Tensor, fused
from tinygrad_tf.ops._precision import state as precision
from tinygrad_tf.ops.linalg import matmul
from tinygrad_tf.ops.shape import contiguous, movedim
from tinygrad_tf.ops.windows import Look, Sizes, columns, from_columns


def takes(x: Tensor, *others: Any) -> bool:
    """Whether the kernels are for these: images or rows of one native float type, computed as they are."""
    arrays = [t.array for t in (x, *others) if t is not None]
    alike = all(a.dtype == arrays[0].dtype and a.size for a in arrays)
    return alike and precision.dtype is None and kernels.windows.takes(arrays[0], arrays[0].ndim - 2)


def convolution_reference(x: Any, weight: Any, bias: Any, *, look: Look, groups: int) -> Any:
    """One product of the weight with every window of x as a column: (N, O, *places)."""
    n, out = x.shape[0], weight.shape[0]
    width, places = math.prod(weight.shape[1:]), n * math.prod(look.places)
    seen = columns(x, look=look)  # (C, *size, N, *places)
    if groups == 1:
        y = matmul(weight.reshape(out, width), seen.reshape(width, places))
    else:
        filters = weight.reshape(groups, out // groups, width)
        y = matmul(filters, seen.reshape(groups, width, places))
    y = contiguous(movedim(y.reshape(out, n, *look.places), 0, 1))
    return with_bias(y, bias)


def transposed_reference(x: Any, weight: Any, bias: Any, *, shape: Sizes, look: Look, groups: int) -> Any:
    """Every entry of x (N, C, *places) adds its copy of the kernel to an image of this shape."""
    n, channels = x.shape[:2]
    out, size = weight.shape[1], weight.shape[2:]
    filters = weight.reshape(groups, channels // groups, out * math.prod(size)).transpose(1, 2)
    inputs = movedim(x, 1, 0).reshape(groups, channels // groups, n * math.prod(look.places))
    copies = matmul(filters, inputs).reshape(groups * out, *size, n, *look.places)
    return with_bias(from_columns(copies, shape=shape, look=look), bias)


def with_bias(y: Any, bias: Any) -> Any:
    """A number more for each channel; under autocast it is rounded as the products are."""
    if bias is None:
        return y
    bias = bias.to(y.dtype) if precision.dtype is not None else bias
    return y + bias.reshape(-1, *(1,) * (y.ndim - 2))


def _convolution_backward(
    g: np.ndarray, wanted: list[bool], kept: Any, x: np.ndarray, weight: np.ndarray, look: Look, groups: int
) -> tuple[Any, Any, Any]:
    """dx = g's transposed convolution, dweight = sum over the images of g with the columns of x, dbias = sum g."""
    return kernels.convolution.convolve_backward(g, x, weight, look, groups, x.shape, wanted)


@fused(reference=convolution_reference, backward=_convolution_backward)
def convolution(x: np.ndarray, weight: np.ndarray, bias: Any, *, look: Look, groups: int) -> tuple[np.ndarray, Any]:
    """x (N, C, *lengths), weight (O, C / groups, *size), bias (O,) or None: (N, O, *places)."""
    return kernels.convolution.convolve(x, weight, bias, look, groups), None


def _transposed_backward(
    g: np.ndarray,
    wanted: list[bool],
    kept: Any,
    x: np.ndarray,
    weight: np.ndarray,
    shape: Sizes,
    look: Look,
    groups: int,
) -> tuple[Any, Any, Any]:
    """dx = g's convolution, dweight as that of a convolution with x and g in each other's place, dbias = sum g."""
    module = kernels.convolution
    dx = module.convolve(g, weight, None, look, groups) if wanted[0] else None
    needs = False, wanted[1], False
    _, dweight, _ = (
        module.convolve_backward(x, g, weight, look, groups, shape, needs) if wanted[1] else (None, None, None)
    )
    return dx, dweight, g.sum((0, *range(2, g.ndim))) if wanted[2] else None


@fused(reference=transposed_reference, backward=_transposed_backward)
def transposed_convolution(
    x: np.ndarray, weight: np.ndarray, bias: Any, *, shape: Sizes, look: Look, groups: int
) -> tuple[np.ndarray, Any]:
    """x (N, C, *places), weight (C, O / groups, *size), bias (O,) or None: (N, O, *lengths), which is the shape."""
    y, _, _ = kernels.convolution.convolve_backward(x, None, weight, look, groups, shape, (True, False, False))
    assert y is not None
    if bias is not None:
        y += bias.reshape(-1, *(1,) * (y.ndim - 2))
    return y, None
