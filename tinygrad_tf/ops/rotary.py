"""Rotation of pairs of channels by angles, the operation behind rotary positions (Su et al., 2021, equation 34)."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinygrad_tf.engine import primitive


def _pairs(x: np.ndarray, interleaved: bool) -> tuple[np.ndarray, np.ndarray]:
    """The first and the second channel of every pair, as views: neighbours, or channels half the width apart."""
    half = x.shape[-1] // 2
    return (x[..., 0::2], x[..., 1::2]) if interleaved else (x[..., :half], x[..., half:])


def _backwards(g: Any, cos: np.ndarray, sin: np.ndarray, interleaved: bool) -> Any:
    """A rotation's gradient is the rotation by the opposite angle."""
    return rotate(g, cos=cos, sin=-sin, interleaved=interleaved)


@primitive(x=_backwards)
def rotate(x: np.ndarray, *, cos: np.ndarray, sin: np.ndarray, interleaved: bool) -> np.ndarray:
    """x (..., T, D) with each pair (a, b) as (a cos - b sin, b cos + a sin); cos and sin are (T, D / 2)."""
    a, b = _pairs(x, interleaved)
    cos, sin = cos.astype(x.dtype, copy=False), sin.astype(x.dtype, copy=False)
    out = np.empty(x.shape, x.dtype)
    first, second = _pairs(out, interleaved)
    np.multiply(a, cos, out=first)
    first -= b * sin
    np.multiply(b, cos, out=second)
    second += a * sin
    return out
