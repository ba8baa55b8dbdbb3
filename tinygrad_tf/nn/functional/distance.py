"""Lengths brought to 1, and distances."""

from __future__ import annotations

import numpy as np

from tinygrad_tf.engine import make
from tinygrad_tf.ops.reduce import norm
from tinygrad_tf.tensor import Tensor


def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    """x / max(p-norm of x along dim, eps)."""
    return input / norm(input, p, dim, keepdim=True).clamp(min=eps)


def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """The p-norm of x1 - x2 + eps along the last axis."""
    return norm(x1 - x2 + eps, p, -1, keepdim)


def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """The p-norms of the differences of all pairs of rows of (N, D): (N (N - 1) / 2,), in the order of combinations.

    >>> import tinygrad_tf as tg
    >>> tg.nn.functional.pdist(tg.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]]))
    tensor([5.0000, 1.0000, 4.2426])
    """
    if input.ndim != 2:
        raise RuntimeError(f"pdist: input must be a matrix (N, D), got shape {tuple(input.shape)}")
    if not p >= 0:
        raise RuntimeError(f"pdist: p must not be negative, got {p}")
    first, second = np.triu_indices(input.array.shape[0], 1)
    return norm(input[make(first)] - input[make(second)], p, -1)
