"""Discrete Fourier transforms, by numpy.fft. A complex array of shape (...) is an array (..., 2) of its parts here.

The transform is a product with a symmetric matrix of the numbers e^(-i k t), so its adjoint, which takes gradients
back, is the transform with the other sign. Nothing is divided by the number of points but by way of `scale`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tinygrad_tf.engine import primitive


def as_complex(pairs: np.ndarray) -> np.ndarray:
    """Pairs (..., 2) as complex numbers (...), in the same memory where its layout allows it."""
    return np.ascontiguousarray(pairs).view(np.result_type(pairs.dtype, np.complex64))[..., 0]


def as_pairs(z: np.ndarray) -> np.ndarray:
    """Complex numbers (...) as pairs (..., 2)."""
    return np.ascontiguousarray(z).view(z.real.dtype).reshape(*z.shape, 2)


def scaled(x: np.ndarray, scale: float) -> np.ndarray:
    """x, which belongs to the caller alone, times scale."""
    if scale != 1.0:
        x *= scale
    return x


def between_ends(n: int, dim: int) -> Any:
    """Of the first half of n frequencies those that stand for two: all but 0, and n / 2 where n is even."""
    return (*[slice(None)] * dim, slice(1, (n + 1) // 2))


@primitive(pairs=lambda g, dims, inverse, scale: transform(g, dims=dims, inverse=not inverse, scale=scale))
def transform(pairs: np.ndarray, *, dims: tuple[int, ...], inverse: bool, scale: float) -> np.ndarray:
    """scale * sum over t of x_t e^(-i 2 pi k t / n), or e^(+i ...) for the inverse, over all of dims."""
    z = as_complex(pairs)
    out = np.fft.ifftn(z, axes=dims, norm="forward") if inverse else np.fft.fftn(z, axes=dims)
    return as_pairs(scaled(out, scale))


@primitive(
    x=lambda g, dim, scale, doubled, shapes: from_half(g, dim=dim, n=shapes[0][dim], scale=scale, halved=not doubled)
)
def to_half(x: np.ndarray, *, dim: int, scale: float, doubled: bool) -> np.ndarray:
    """The first half of the transform of real numbers, k = 0 ... n / 2; the other half mirrors it.

    doubled: what stands for two frequencies counts twice.
    """
    out = np.fft.rfft(x, axis=dim)
    if doubled:
        out[between_ends(x.shape[dim], dim)] *= 2.0
    return as_pairs(scaled(out, scale))


@primitive(pairs=lambda g, dim, scale, halved: to_half(g, dim=dim, scale=scale, doubled=not halved))
def from_half(pairs: np.ndarray, *, dim: int, n: int, scale: float, halved: bool) -> np.ndarray:
    """The n real numbers whose inverse transform has this first half.

    halved: what stands for two frequencies counts half.
    """
    z = as_complex(pairs)
    if halved:
        z = z.copy()
        z[between_ends(n, dim)] *= 0.5
    return scaled(np.fft.irfft(z, n, axis=dim, norm="forward"), scale)
