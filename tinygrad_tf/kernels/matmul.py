"""Matrix products: C[M, N] = A[M, K] @ B[K, N], stacks of them, and the linear layer with its gradients."""
# mypy: allow-untyped-defs

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tinygrad_tf.kernels import _tiles as tiles
from tinygrad_tf.kernels import _vector as vector
from tinygrad_tf.kernels._compile import parallel
from tinygrad_tf.kernels._operands import flatten, stack_starts

Array = NDArray[Any]
FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)
NO_BIAS = {FLOAT32: np.empty(0, np.float32), FLOAT64: np.empty(0, np.float64)}

DEPTH = 256  # a panel of B, 256 x 128 bytes, stays in the first-level cache
PUT, ADD_BIAS, ACCUMULATE = 0, 1, 2  # what the first stretch of the depth finds in C
SUM_ROWS, SUM_COLUMNS = 128, 64

HEIGHT, PANEL, HAS_MASKED_LOADS = tiles.HEIGHT, tiles.PANEL, vector.HAS_MASKED_LOADS
lanes, pack_panel, pack_rows, panel_product = tiles.lanes, tiles.pack_panel, tiles.pack_rows, tiles.panel_product


def accepts(a: Array, b: Array) -> bool:
    """Whether `matmul` takes these operands: matrices or stacks of them, both float32 or both float64.

    Everything else (vectors, other dtypes, mixed dtypes) is for `np.matmul`.
    """
    dtype = a.dtype
    return a.ndim > 1 and b.ndim > 1 and dtype in (FLOAT32, FLOAT64) and b.dtype == dtype


def reference(a: Array, b: Array) -> Array:
    """The plain formula: c[..., i, j] = sum over k of a[..., i, k] * b[..., k, j]."""
    return np.matmul(a, b)


def matmul(a: Array, b: Array, out: Array | None = None, accumulate: bool = False) -> Array:
    """The matrix product a @ b of operands that `accepts` takes, with NumPy's broadcasting of leading dimensions.

    a (..., M, K) and b (..., K, N), any strides; returns (..., M, N) of the same dtype: a new array, or `out`, which
    must have that shape and dtype and may overlap the operands. With `accumulate` the product is added to `out`.

    >>> import numpy as np
    >>> matmul(np.ones((2, 3)), np.ones((3, 1)))
    array([[3.],
           [3.]])
    """
    M, K = a.shape[-2:]
    N = b.shape[-1]
    if b.shape[-2] != K:
        raise ValueError(
            f"matmul: a of shape {a.shape} has {K} columns but b of shape {b.shape} has {b.shape[-2]} rows; "
            "these must be the same"
        )
    stack = _stack(a, b) if a.ndim > 2 or b.ndim > 2 else ()
    shape = (*stack, M, N)
    if out is None:
        c = np.empty(shape, a.dtype)
    else:
        if out.shape != shape or out.dtype != a.dtype:
            raise ValueError(f"matmul: out must be {a.dtype} of shape {shape}, got {out.dtype} of shape {out.shape}")
        direct = out.flags.carray and not np.may_share_memory(out, a) and not np.may_share_memory(out, b)
        c = out if direct else np.array(out, order="C") if accumulate else np.empty(shape, a.dtype)
    if stack and b.ndim == 2 and a.flags.c_contiguous:
        M *= math.prod(stack)  # one tall product
        a, stack = a.reshape(M, K), ()
    flat_a, start_a, strides_a = flatten(a)
    flat_b, start_b, strides_b = flatten(b)
    starts_a = stack_starts(stack, a.shape, strides_a, start_a)
    starts_b = stack_starts(stack, b.shape, strides_b, start_b)
    mode = ACCUMULATE if accumulate and out is not None else PUT
    _multiply(M, N, K, flat_a, starts_a, strides_a[-2:], flat_b, starts_b, strides_b[-2:], c, mode)
    if out is None or c is out:
        return c
    out[...] = c
    return out


def linear(x: Array, weight: Array, bias: Array | None = None) -> Array:
    """x @ weight.T + bias: x (M, K), weight (N, K), bias (N,) or None, of one float type; returns (M, N)."""
    (M, K), N = x.shape, weight.shape[0]
    y = np.empty((M, N), x.dtype)
    flat_x, start_x, strides_x = flatten(x)
    flat_w, start_w, (w_row, w_col) = flatten(weight)
    starts_x = stack_starts((), x.shape, strides_x, start_x)
    starts_w = stack_starts((), weight.shape, (w_row, w_col), start_w)
    mode = PUT if bias is None else ADD_BIAS
    flat_bias = None if bias is None else np.require(bias, None, ["C", "A", "W"])
    _multiply(M, N, K, flat_x, starts_x, strides_x, flat_w, starts_w, (w_col, w_row), y, mode, flat_bias)
    return y


def linear_reference(x: Array, weight: Array, bias: Array | None = None) -> Array:
    """The plain formula of `linear`."""
    y = np.matmul(x, weight.T)
    return y if bias is None else y + bias


def linear_backward(
    g: Array, x: Array, weight: Array, need_x: bool = True, need_weight: bool = True, need_bias: bool = True
) -> tuple[Array | None, Array | None, Array | None]:
    """Gradients of `linear` for x (M, K), weight (N, K) and bias (N,), given g (M, N); None for those not needed."""
    return (
        matmul(g, weight) if need_x else None,
        matmul(g.T, x) if need_weight else None,
        column_sums(g) if need_bias else None,
    )


def linear_backward_reference(g: Array, x: Array, weight: Array) -> tuple[Array, Array, Array]:
    """The plain formulas of `linear_backward`."""
    return np.matmul(g, weight), np.matmul(g.T, x), g.sum(0)


def column_sums(g: Array) -> Array:
    """g.sum(0) for g (M, N), in an order that depends on the shape alone."""
    M, N = g.shape
    flat_g, start, (row, column) = flatten(g)
    if column != 1:
        flat_g, start, row = np.array(g, order="C").ravel(), 0, N
    total = np.zeros(N, g.dtype)
    columns = N if M * N <= 1 << 15 else SUM_COLUMNS
    if N:
        sum_columns(math.ceil(N / columns), M, N, flat_g, start, row, total, columns)
    return total


def _stack(a: Array, b: Array) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    except ValueError:
        raise ValueError(
            f"matmul: the leading dimensions of a {a.shape} and b {b.shape} do not broadcast against each other"
        ) from None


def _multiply(M, N, K, A, a_starts, a_strides, B, b_starts, b_strides, c, mode, bias=None):
    """Run the kernel; c is C-contiguous."""
    if not c.size:
        return
    if not K:
        if mode != ACCUMULATE:
            c[...] = 0 if bias is None else bias
        return
    (a_row, a_col), (b_row, b_col) = a_strides, b_strides
    if N == 1:
        b_col = 1
    count, rows, columns, group = _grid(a_starts.size, M, N, K, PANEL * vector.lane_count(c.itemsize))
    pack_a, pack_b = a_row == 1 and a_col != 1 and columns >= 64, b_col != 1 or rows >= 96
    multiply_blocks(
        count, M, N, K, A, a_starts, a_row, a_col, B, b_starts, b_row, b_col, c.ravel(), mode,
        NO_BIAS[c.dtype] if bias is None else bias, rows, columns, group, pack_a, pack_b,
    )  # fmt: skip


@functools.lru_cache(4096)
def _grid(items: int, M: int, N: int, K: int, width: int) -> tuple[int, int, int, int]:
    """(blocks, rows and columns of C in one, matrices in one): by size alone, so that no result depends on threads."""
    work = M * N * K
    if items * work <= 1 << 19:
        return 1, M, N, items
    target = max(1 << 20, min(items * work // 8, 1 << 27))
    if work <= target:
        group = target // work
        return math.ceil(items / group), M, N, group
    parts = math.ceil(work / target)
    panels, tiles_down = math.ceil(N / width), math.ceil(M / HEIGHT)
    choices = []
    for across in range(1, min(parts, panels) + 1):
        columns = math.ceil(panels / across) * width
        rows = math.ceil(tiles_down / math.ceil(parts / across)) * HEIGHT
        choices.append((1 / rows + 1 / columns, rows, columns))
    _, rows, columns = min(choices)
    return items * math.ceil(M / rows) * math.ceil(N / columns), rows, columns, 1


@parallel
def multiply_blocks(
    index, M, N, K, A, a_starts, a_row, a_col, B, b_starts, b_row, b_col, C, mode, bias,
    rows, columns, group, pack_a, pack_b,
):  # fmt: skip
    """`group` blocks of C, rows x columns each; they are counted along N, then along M, then through the stack."""
    width = PANEL * lanes(A)
    across, down = (N + columns - 1) // columns, (M + rows - 1) // rows
    depth = min(DEPTH, K)
    room_a = (rows + HEIGHT - 1) // HEIGHT * HEIGHT * depth if pack_a else 0
    scratch = np.empty(room_a + depth * width, A.dtype)
    for unit in range(index * group, min((index + 1) * group, a_starts.size * across * down)):
        item, within = divmod(unit, across * down)
        i, j = within // across * rows, within % across * columns
        m, stop = min(rows, M - i), min(j + columns, N)
        a0, b0, c0 = a_starts[item] + i * a_row, b_starts[item], item * M * N + i * N
        for k in range(0, K, DEPTH):
            kb = min(DEPTH, K - k)
            if pack_a:
                pack_rows(m, kb, A, a0 + k * a_col, a_row, a_col, scratch, 0)
                left, l0, l_row, l_col, l_step = scratch, 0, 1, HEIGHT, HEIGHT * kb
            else:
                left, l0, l_row, l_col, l_step = A, a0 + k * a_col, a_row, a_col, HEIGHT * a_row
            for jj in range(j, stop, width):
                n = min(width, stop - jj)
                if pack_b or (n < width and not HAS_MASKED_LOADS):
                    pack_panel(kb, n, B, b0 + k * b_row + jj * b_col, b_row, b_col, scratch, room_a)
                    right, r0, r_row = scratch, room_a, width
                else:
                    right, r0, r_row = B, b0 + k * b_row + jj, b_row
                if k == 0 and mode != ACCUMULATE:
                    add, addend, d0, d_row = mode == ADD_BIAS, bias, jj, 0
                else:
                    add, addend, d0, d_row = True, C, c0 + jj, N
                panel_product(
                    m, n, kb, left, l0, l_row, l_col, l_step, right, r0, r_row, C, c0 + jj, N, add, addend, d0, d_row
                )


@parallel
def sum_columns(index, M, N, G, start, row, total, columns):
    """total[j] += sum of G[:, j] for one block of columns: SUM_ROWS rows at a time, so that rounding stays small."""
    first = index * columns
    n = min(columns, N - first)
    partial = np.empty(n, total.dtype)
    for i in range(0, M, SUM_ROWS):
        partial[:] = 0
        for r in range(i, min(i + SUM_ROWS, M)):
            source = start + r * row + first
            for j in range(n):
                partial[j] += G[source + j]
        for j in range(n):
            total[first + j] += partial[j]
