"""Matrix products: C[M, N] = A[M, K] @ B[K, N], stacks of them, and the linear layer with its gradients."""
# mypy: allow-untyped-defs

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tinygrad_tf.kernels import _tiles as tiles
from tinygrad_tf.kernels import _vector as vector
from tinygrad_tf.kernels._compile import kernel, parallel
from tinygrad_tf.kernels._operands import flatten, stack_starts
from tinygrad_tf.kernels._plan import BEFORE, BY_BLOCK, DEPTH, IN_PLACE, PACKED_AT_ONCE, STRIP, plan_product

Array = NDArray[Any]
FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)
NOTHING = {FLOAT32: np.empty(0, np.float32), FLOAT64: np.empty(0, np.float64)}

PUT, ADD_BIAS, ACCUMULATE = 0, 1, 2  # what the first stretch of the depth finds in C
SUM_ROWS, SUM_COLUMNS = 128, 64

HEIGHT, PANEL, GAP, HAS_MASKED_LOADS = tiles.HEIGHT, tiles.PANEL, tiles.GAP, vector.HAS_MASKED_LOADS
aligned, lanes, pack_panel, pack_rows, panel_product = (
    tiles.aligned, tiles.lanes, tiles.pack_panel, tiles.pack_rows, tiles.panel_product
)  # fmt: skip


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
    """Run the kernels; c is C-contiguous."""
    if not c.size:
        return
    if not K:
        if mode != ACCUMULATE:
            c[...] = 0 if bias is None else bias
        return
    (a_row, a_col), (b_row, b_col) = a_strides, b_strides
    nothing = NOTHING[c.dtype]
    width = PANEL * vector.lane_count(c.itemsize)
    shared = a_starts.size == b_starts.size == 1
    plan = plan_product(a_starts.size, shared, M, N, K, width, a_row, a_col, b_col == 1)
    packed = nothing
    if plan.packed_size:
        packed = np.empty(plan.packed_size, c.dtype)
        pack_operands(
            plan.left_units + plan.right_units, M, N, K, A, int(a_starts[0]), a_row, a_col,
            B, int(b_starts[0]), b_row, b_col, packed, plan.left, plan.right, plan.right_units,
        )  # fmt: skip
    multiply_blocks(
        plan.blocks, M, N, K, A, a_starts, a_row, a_col, B, b_starts, b_row, b_col, c.ravel(),
        mode, nothing if bias is None else bias, packed, plan.rows, plan.columns, plan.group, plan.left, plan.right,
    )  # fmt: skip


@kernel
def packed_panel(N, K, k, j, width):
    """Where column j of B, at depth k, begins among what is packed before: stretches of the depth, panels in each."""
    return k * ((N + width - 1) // width * width) + j * min(DEPTH, K - k)


@kernel
def packed_group(M, K, k, i):
    """The same for row i of A; what is packed of A lies behind what is packed of B."""
    groups = (M + HEIGHT - 1) // HEIGHT
    return groups * (k * HEIGHT + k // DEPTH * GAP) + i // HEIGHT * (HEIGHT * min(DEPTH, K - k) + GAP)


@parallel
def pack_operands(index, M, N, K, A, a0, a_row, a_col, B, b0, b_row, b_col, packed, left, right, right_units):
    """One stretch of the depth of some panels of B, or of some groups of rows of A."""
    width = PANEL * lanes(B)
    panels, groups = (N + width - 1) // width, (M + HEIGHT - 1) // HEIGHT
    if index < right_units:
        each = max(1, PACKED_AT_ONCE // (width * min(K, DEPTH)))
        stretch, run = divmod(index, (panels + each - 1) // each)
        k = stretch * DEPTH
        for panel in range(run * each, min((run + 1) * each, panels)):
            j = panel * width
            source, target = b0 + k * b_row + j * b_col, aligned(packed) + packed_panel(N, K, k, j, width)
            pack_panel(min(DEPTH, K - k), min(width, N - j), B, source, b_row, b_col, packed, target)
    else:
        each = max(1, PACKED_AT_ONCE // (HEIGHT * min(K, DEPTH)))
        stretch, run = divmod(index - right_units, (groups + each - 1) // each)
        k, i = stretch * DEPTH, run * each * HEIGHT
        target = aligned(packed) + (panels * width * K if right == BEFORE else 0) + packed_group(M, K, k, i)
        pack_rows(
            min(each * HEIGHT, M - i), min(DEPTH, K - k), A, a0 + i * a_row + k * a_col, a_row, a_col, packed, target
        )


@parallel
def multiply_blocks(
    index, M, N, K, A, a_starts, a_row, a_col, B, b_starts, b_row, b_col, C, mode, bias,
    packed, rows, columns, group, left, right,
):  # fmt: skip
    """`group` blocks of C, rows x columns each; they are counted along N, then along M, then through the stack."""
    width = PANEL * lanes(A)
    across, down = (N + columns - 1) // columns, (M + rows - 1) // rows
    if right == IN_PLACE and N % width != 0 and not HAS_MASKED_LOADS:
        right = BY_BLOCK
    depth, strip = min(DEPTH, K), min(STRIP, rows)
    room_a = (strip + HEIGHT - 1) // HEIGHT * (HEIGHT * depth + GAP) if left == BY_BLOCK else 0
    room_b = (columns + width - 1) // width * width * depth if right == BY_BLOCK else 0
    packed_b = aligned(packed)
    packed_a = packed_b + ((N + width - 1) // width * width * K if right == BEFORE else 0)
    scratch = np.empty(room_a + room_b + 16, A.dtype)
    scratch_b = aligned(scratch)
    scratch_a = scratch_b + room_b
    for unit in range(index * group, min((index + 1) * group, a_starts.size * across * down)):
        item, within = divmod(unit, across * down)
        top, j0 = within // across * rows, within % across * columns
        bottom, n_block = min(top + rows, M), min(columns, N - j0)
        for k in range(0, K, DEPTH):
            kb = min(DEPTH, K - k)
            b0 = b_starts[item] + k * b_row + j0 * b_col
            if right == BY_BLOCK:
                for j in range(0, n_block, width):
                    n = min(width, n_block - j)
                    pack_panel(kb, n, B, b0 + j * b_col, b_row, b_col, scratch, scratch_b + j * kb)
            for i in range(top, bottom, STRIP):
                m = min(STRIP, bottom - i)
                c0 = (item * M + i) * N + j0
                X, x0, x_row, x_col, x_step = A, a_starts[item] + i * a_row + k * a_col, a_row, a_col, HEIGHT * a_row
                if left == BY_BLOCK:
                    pack_rows(m, kb, A, x0, a_row, a_col, scratch, scratch_a)
                    X, x0, x_row, x_col, x_step = scratch, scratch_a, 1, HEIGHT, HEIGHT * kb + GAP
                elif left == BEFORE:
                    X, x0, x_row, x_col = packed, packed_a + packed_group(M, K, k, i), 1, HEIGHT
                    x_step = HEIGHT * kb + GAP
                for j in range(0, n_block, width):
                    Y, y0, y_row = B, b0 + j, b_row
                    if right == BY_BLOCK:
                        Y, y0, y_row = scratch, scratch_b + j * kb, width
                    elif right == BEFORE:
                        Y, y0, y_row = packed, packed_b + packed_panel(N, K, k, j0 + j, width), width
                    add, D, d0, d_row = True, C, c0 + j, N
                    if k == 0 and mode != ACCUMULATE:
                        add, D, d0, d_row = mode == ADD_BIAS, bias, j0 + j, 0
                    n = min(width, n_block - j)
                    panel_product(m, n, kb, X, x0, x_row, x_col, x_step, Y, y0, y_row, C, c0 + j, N, add, D, d0, d_row)


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
