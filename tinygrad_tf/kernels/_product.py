"""The compiled matrix product of whole arrays: packing, and the blocks of C that threads share."""
# mypy: allow-untyped-defs

from __future__ import annotations

import numpy as np

from tinygrad_tf.kernels._compile import kernel
from tinygrad_tf.kernels._half import floats, is_half
from tinygrad_tf.kernels._part import parallel_part
from tinygrad_tf.kernels._plan import BEFORE, BY_BLOCK, DEPTH, GAP, IN_PLACE, LINE, PACKED_AT_ONCE, STRIP
from tinygrad_tf.kernels._tiles import (
    HAS_MASKED_LOADS,
    HEIGHT,
    PANEL,
    aligned,
    lanes,
    pack_panel,
    pack_rows,
    panel_product,
)  # fmt: skip

PUT, ADD_BIAS, ACCUMULATE = 0, 1, 2  # what becomes of the product: C, C with a bias, or an addition to C


@kernel
def packed_panel(N, K, k, j, width):
    """Where column j of B, at depth k, begins among what is packed before: stretches of the depth, panels in each."""
    return k * ((N + width - 1) // width * width) + j * min(DEPTH, K - k)


@kernel
def packed_group(M, K, k, i):
    """The same for row i of A; what is packed of A lies behind what is packed of B."""
    groups = (M + HEIGHT - 1) // HEIGHT
    return groups * (k * HEIGHT + k // DEPTH * GAP) + i // HEIGHT * (HEIGHT * min(DEPTH, K - k) + GAP)


@kernel
def packed_at_once(width, K):
    """How many panels, or groups of rows, one parallel unit packs."""
    return max(1, PACKED_AT_ONCE // (width * min(K, DEPTH)))


@kernel
def packing_units(count, width, K):
    """Units that pack `count` panels, or groups of rows, of depth K."""
    each = packed_at_once(width, K)
    return (K + DEPTH - 1) // DEPTH * ((count + each - 1) // each)


@parallel_part
def pack_operands(index, M, N, K, A, a0, a_row, a_col, B, b0, b_row, b_col, packed, left, right, right_units):
    """One stretch of the depth of some panels of B, or of some groups of rows of A."""
    width = PANEL * lanes(B)
    panels, groups = (N + width - 1) // width, (M + HEIGHT - 1) // HEIGHT
    if index < right_units:
        each = packed_at_once(width, K)
        stretch, run = divmod(index, (panels + each - 1) // each)
        k = stretch * DEPTH
        for panel in range(run * each, min((run + 1) * each, panels)):
            j = panel * width
            source, target = b0 + k * b_row + j * b_col, aligned(packed) + packed_panel(N, K, k, j, width)
            pack_panel(min(DEPTH, K - k), min(width, N - j), B, source, b_row, b_col, packed, target)
    else:
        each = packed_at_once(HEIGHT, K)
        stretch, run = divmod(index - right_units, (groups + each - 1) // each)
        k, i = stretch * DEPTH, run * each * HEIGHT
        target = aligned(packed) + (panels * width * K if right == BEFORE else 0) + packed_group(M, K, k, i)
        pack_rows(
            min(each * HEIGHT, M - i), min(DEPTH, K - k), A, a0 + i * a_row + k * a_col, a_row, a_col, packed, target
        )


@parallel_part
def multiply_blocks(
    index, M, N, K, A, a_starts, a_row, a_col, B, b_starts, b_row, b_col, C, mode, bias,
    packed, rows, columns, group, left, right,
):  # fmt: skip
    """`group` blocks of C, rows x columns each; they are counted along N, then along M, then through the stack."""
    width = PANEL * lanes(A)
    across, down = (N + columns - 1) // columns, (M + rows - 1) // rows
    if right == IN_PLACE and N % width != 0 and not HAS_MASKED_LOADS:
        right = BY_BLOCK
    depth, strip, packed_row = min(DEPTH, K), min(STRIP, rows), 2 if is_half(A) else 1
    room_a = (strip + HEIGHT - 1) // HEIGHT * (HEIGHT * depth + GAP) if left == BY_BLOCK else 0
    room_b = (columns + width - 1) // width * width * depth if right == BY_BLOCK else 0
    packed_b = aligned(packed)
    packed_a = packed_b + ((N + width - 1) // width * width * K if right == BEFORE else 0)
    scratch = np.empty(room_a + room_b + LINE, A.dtype)
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
                    X, x0, x_row, x_col, x_step = scratch, scratch_a, packed_row, HEIGHT, HEIGHT * kb + GAP
                elif left == BEFORE:
                    X, x0, x_row, x_col = packed, packed_a + packed_group(M, K, k, i), packed_row, HEIGHT
                    x_step = HEIGHT * kb + GAP
                for j in range(0, n_block, width):
                    Y, y0, y_row = B, b0 + j, b_row
                    if right == BY_BLOCK:
                        Y, y0, y_row = scratch, scratch_b + j * kb, width
                    elif right == BEFORE:
                        Y, y0, y_row = packed, packed_b + packed_panel(N, K, k, j0 + j, width), width
                    add, D, d0, d_row = True, floats(C, bias), c0 + j, N
                    if k == 0 and mode != ACCUMULATE:
                        add, D, d0, d_row = mode == ADD_BIAS, bias, j0 + j, 0
                    n = min(width, n_block - j)
                    panel_product(m, n, kb, X, x0, x_row, x_col, x_step, Y, y0, y_row, C, c0 + j, N, add, D, d0, d_row)


@kernel
def multiply(
    M, N, K, A, a_starts, a_row, a_col, B, b_starts, b_row, b_col, C, mode, bias,
    blocks, rows, columns, group, left, right, stretch, packed_size,
):  # fmt: skip
    """A stack of products, as `_plan.plan_product` has it: what is packed before, and then the blocks."""
    packed = np.empty(packed_size, A.dtype)
    width = PANEL * lanes(A)
    for k in range(0, K, stretch):
        depth, a_places, b_places = min(stretch, K - k), a_starts + k * a_col, b_starts + k * b_row
        left_units = packing_units((M + HEIGHT - 1) // HEIGHT, HEIGHT, depth) if left == BEFORE else 0
        right_units = packing_units((N + width - 1) // width, width, depth) if right == BEFORE else 0
        pack_operands(
            left_units + right_units, M, N, depth, A, a_places[0], a_row, a_col, B, b_places[0], b_row, b_col, packed,
            left, right, right_units,
        )  # fmt: skip
        multiply_blocks(
            blocks, M, N, depth, A, a_places, a_row, a_col, B, b_places, b_row, b_col, C, mode, bias, packed, rows,
            columns, group, left, right,
        )  # fmt: skip
        mode = ACCUMULATE
