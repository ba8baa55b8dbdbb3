"""Weighted sums of a few entries along an axis, which interpolation is made of, and their adjoint.

A product with the matrix of all weights would be the same for numbers. Here only the entries that a result is made of
are looked at, so that a NaN or an infinity reaches no other.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tinygrad_tf.engine import primitive
from tinygrad_tf.regions import wide


class Tap(NamedTuple):
    """One of the entries that each of the results is made of: its place (in ascending order) and its weight."""

    places: np.ndarray
    weights: np.ndarray


def _beside(weights: np.ndarray, x: np.ndarray, dim: int) -> np.ndarray:
    """Weights along axis `dim`, in a dtype that sums of x are made in."""
    return weights.astype(wide(x.dtype)).reshape((-1,) + (1,) * (x.ndim - dim - 1))


@primitive(x=lambda g, shapes, dim, taps: spread_out(g, dim=dim, taps=taps, length=shapes[0][dim]))
def resample(x: np.ndarray, *, dim: int, taps: tuple[Tap, ...]) -> np.ndarray:
    """The sums of x[places] weights over all taps, along axis `dim` (from 0 on)."""
    total: Any = 0
    for tap in taps:
        total = total + x.take(tap.places, dim) * _beside(tap.weights, x, dim)
    return total.astype(x.dtype, copy=False)


@primitive(g=lambda h, dim, taps: resample(h, dim=dim, taps=taps))
def spread_out(g: np.ndarray, *, dim: int, taps: tuple[Tap, ...], length: int) -> np.ndarray:
    """The adjoint: every entry of g, times its weights, is added at the places that it was made of."""
    total = np.zeros((*g.shape[:dim], length, *g.shape[dim + 1 :]), wide(g.dtype))
    before: tuple[Any, ...] = (slice(None),) * dim
    for tap in taps:
        reached, starts = np.unique(tap.places, return_index=True)  # each place's results lie side by side
        if len(reached):
            total[(*before, reached)] += np.add.reduceat(g * _beside(tap.weights, g, dim), starts, axis=dim)
    return total.astype(g.dtype, copy=False)
