"""Maps with a weight: linear in one input, or in each of two."""

from __future__ import annotations

from tinygrad_tf import ops
from tinygrad_tf.tensor import Tensor


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x W^T + b for x (..., in), weight (out, in), bias (out)."""
    return ops.linear.linear(input, weight, bias)


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """y_k = x1^T W_k x2 + b_k for x1 (..., in1), x2 (..., in2), weight (out, in1, in2)."""
    left = ops.linalg.matmul(input1.unsqueeze(-2).unsqueeze(-3), weight).squeeze(-2)  # (..., out, in2)
    out = ops.linalg.matmul(left, input2.unsqueeze(-1)).squeeze(-1)
    return out if bias is None else out + bias
