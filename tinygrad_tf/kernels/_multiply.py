"""A product by the kernel that suits it: few rows of A, matrix tiles, or blocks of register tiles."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tinygrad_tf.kernels import _matrix_tiles
from tinygrad_tf.kernels._operands import Operand, operand
from tinygrad_tf.kernels._pieces_product import multiply_in_pieces
from tinygrad_tf.kernels._plan import PANEL_BYTES, plan_product, plan_thin
from tinygrad_tf.kernels._product import ACCUMULATE, ADD_BIAS, multiply
from tinygrad_tf.kernels._thin import multiply_thin

Array = NDArray[Any]
FLOAT32, FLOAT64, UINT16 = np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.uint16)
NOTHING: dict[Any, Array] = {FLOAT32: np.empty(0, np.float32), FLOAT64: np.empty(0, np.float64)}


def stack_of(a: Array, b: Array) -> tuple[int, ...]:
    """The shape of a stack of products, to which the leading dimensions of both broadcast."""
    try:
        return np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    except ValueError:
        raise ValueError(
            f"matmul: the leading dimensions of a {a.shape} and b {b.shape} do not broadcast against each other"
        ) from None


def multiply_stacks(
    a: Array, b: Array, stack: tuple[int, ...], c: Array, mode: int, bias: Array | None, whole: bool = False
) -> None:
    """c = a @ b, with a bias, or added to c, for (stacks of) matrices; c is C-contiguous."""
    M, K = a.shape[-2:]
    if stack and b.ndim == 2 and a.flags.c_contiguous:
        M *= math.prod(stack)  # one tall product
        a, stack = a.reshape(M, K), ()
    multiply_operands(M, b.shape[-1], K, operand(a, stack), operand(b, stack), c, mode, bias, whole)


def multiply_operands(
    M: int, N: int, K: int, A: Operand, B: Operand, c: Array, mode: int, bias: Array | None, whole: bool = False,
    tiles: bool = True,
) -> None:  # fmt: skip
    """Run the kernels; c is C-contiguous, A is (M, K), B is (K, N), or stacks of them; whole: all are bfloat16.

    tiles: whether matrix tiles may be tried. A and B may be the bits of bfloat16, in uint16, where pairs of them are
    multiplied; so may c, then.
    """
    if not c.size:
        return
    if not K:
        if mode != ACCUMULATE:
            c[...] = 0.0 if bias is None else bias
        return
    a, a_starts, a_row, a_col = A
    b, b_starts, b_row, b_col = B
    if N == 1 and M > 1 and mode != ADD_BIAS:  # a column lies in memory as a row does: C.T = B.T @ A.T
        M, N = N, M
        b, b_starts, b_row, b_col, a, a_starts, a_row, a_col = a, a_starts, a_col, a_row, b, b_starts, b_col, b_row
    pairs = a.dtype == UINT16
    addend = bias if bias is not None else NOTHING[FLOAT32 if pairs else c.dtype]
    items, lanes = a_starts.size, PANEL_BYTES // (8 if pairs else 2 * c.itemsize)
    thin = None if pairs else plan_thin(items, M, N, K, lanes, a_col == 1, b_row == 1, b_col == 1)
    if thin is not None:
        blocks, columns, group = thin
        rows = a, a_starts, a_row, a_col, b, b_starts, b_row, b_col
        multiply_thin(blocks, M, N, K, *rows, c.ravel(), mode, addend, columns, group)
        return
    if tiles and _matrix_tiles.AVAILABLE and items == 1 and c.dtype == FLOAT32 and mode != ACCUMULATE:
        a0, b0 = int(a_starts[0]), int(b_starts[0])
        C, has_bias = c.ravel(), mode == ADD_BIAS
        if multiply_in_pieces(M, N, K, a, a0, a_row, a_col, b, b0, b_row, b_col, C, has_bias, addend, whole):
            return
    plan = plan_product(items, M, N, K, 2 * lanes, a_row, a_col, b_col == 1, pairs)
    multiply(M, N, K, a, a_starts, a_row, a_col, b, b_starts, b_row, b_col, c.ravel(), mode, addend, *plan)
