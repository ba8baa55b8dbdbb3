"""Lengths brought to 1, and distances."""

from __future__ import annotations

from tinygrad_tf.ops.reduce import norm
from tinygrad_tf.tensor import Tensor


def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    """x / max(p-norm of x along dim, eps)."""
    return input / norm(input, p, dim, keepdim=True).clamp(min=eps)


def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """The p-norm of x1 - x2 + eps along the last axis."""
    return norm(x1 - x2 + eps, p, -1, keepdim)
