"""Products of vectors and matrices, powers, and matrices of matrices."""

from __future__ import annotations

import builtins
import math
from typing import Any

import numpy as np

from tinygrad_tf.engine import make
from tinygrad_tf.functions import stack
from tinygrad_tf.methods._tools import all_tensors, check_all
from tinygrad_tf.methods.composed import as_methods
from tinygrad_tf.ops import elementwise, linalg, shape
from tinygrad_tf.tensor import Tensor


def inner(input: Tensor, other: Tensor) -> Tensor:
    """Sums of products over the last axes of both; a plain product where one has no axes."""
    if not input.ndim or not other.ndim:
        return input * other
    return linalg.tensordot(input, other, ([input.ndim - 1], [other.ndim - 1]))


def vdot(input: Tensor, other: Tensor) -> Tensor:
    """The sum of the products of two vectors' elements."""
    return input.dot(other)


def cross(input: Tensor, other: Tensor, dim: int | None = None) -> Tensor:
    """The cross product of vectors along `dim`, or along the first axis of 3 entries."""
    axis = next((i for i, n in enumerate(input.shape) if n == 3), 0) if dim is None else dim
    if not input.ndim or input.shape[axis] != 3 or other.shape[axis] != 3:
        shapes = f"{tuple(input.shape)} and {tuple(other.shape)}"
        raise RuntimeError(f"cross: needs 3 entries along dim {axis}, got {shapes}")
    (a, b, c), (x, y, z) = input.unbind(axis), other.unbind(axis)
    return stack([b * z - c * y, c * x - a * z, a * y - b * x], axis)


def chain_matmul(*matrices: Tensor) -> Tensor:
    """The product of all matrices, from left to right."""
    product = matrices[0]
    for m in matrices[1:]:
        product = product @ m
    return product


def matrix_power(input: Tensor, n: int) -> Tensor:
    """The product of n times the same square matrix; negative n: of its inverse."""
    if n < 0:
        return matrix_power(input.inverse(), -n)
    if not n:
        size = input.shape[-1]
        identity = make(np.broadcast_to(np.eye(size, dtype=input.array.dtype), input.array.shape).copy())
        chosen = make(np.ones((), bool))
        return elementwise.where(chosen, identity, input) if input.requires_grad else identity  # with the gradient 0
    half = matrix_power(input, n // 2) if n > 1 else None
    if half is None:
        return input
    return half @ half if n % 2 == 0 else half @ half @ input


def matrix_exp(input: Tensor) -> Tensor:
    """e^input of square matrices (..., N, N): the sum of input^k / k!.

    Taken of input / 2^s, so small that 16 terms are enough, and then squared s times (Moler and Van Loan, 2003).

    >>> from tinygrad_tf import tensor
    >>> A = tensor([[0.0, 1.0], [0.0, 0.0]])
    >>> matrix_exp(A)
    tensor([[1., 1.],
            [0., 1.]])
    """
    if input.dtype.itemsize == 2 and input.is_floating_point():
        return matrix_exp(input.float()).to(input.dtype)
    if input.ndim < 2 or input.shape[-1] != input.shape[-2] or input.array.dtype.kind != "f":
        raise RuntimeError(f"matrix_exp: input must be square matrices of floats, got shape {tuple(input.shape)}")
    size = float(np.abs(input.array).sum(-1, dtype=np.float64).max(initial=0.0))
    squarings = max(math.ceil(math.log2(size)) + 1, 0) if 0.0 < size < math.inf else 0
    part = input * 2.0**-squarings
    identity = matrix_power(input.detach(), 0)
    exponential = identity
    for k in builtins.range(16, 0, -1):
        exponential = identity + part @ exponential / k
    for _ in builtins.range(squarings):
        exponential = exponential @ exponential
    return exponential


def block_diag(*tensors: Tensor) -> Tensor:
    """Matrices along the diagonal of a large one."""
    all_tensors("block_diag", tensors)
    matrices = [t.reshape(1, -1) if t.array.ndim < 2 else t for t in tensors]
    width = builtins.sum(m.size(1) for m in matrices)
    rows, column = [], 0
    for m in matrices:
        left, right = m.new_zeros(m.size(0), column), m.new_zeros(m.size(0), width - column - m.size(1))
        rows.append(shape.cat([left, m, right], 1))
        column += m.size(1)
    return shape.cat(rows, 0)


def tensordot(a: Tensor, b: Tensor, dims: Any = 2) -> Tensor:
    """Sum of products over axes of both: the last `dims` of a with the first of b, or those that two lists name."""
    return linalg.tensordot(a, b, dims)


# fmt: off
__all__ = [
    "block_diag", "chain_matmul", "cross", "inner", "matrix_exp", "matrix_power", "tensordot", "vdot",
]
# fmt: on

check_all(__all__, globals())
as_methods(Tensor, "cross inner matrix_exp matrix_power vdot", globals())
