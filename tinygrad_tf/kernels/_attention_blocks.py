"""The compiled blocks of attention; `attention.py` says what they compute and why they are cut this way.

Arrays come as (address, strides of batch, head, row): no layout is copied, and there is one compiled version for all.
Inside, an operand is a tuple (flat array, start, row stride), a mask (address, kind, start, row stride, column stride).
"""
# mypy: allow-untyped-defs

from __future__ import annotations

import numpy as np

from tinygrad_tf.kernels import _attention_panel as panel
from tinygrad_tf.kernels import _tiles as tiles
from tinygrad_tf.kernels._compile import kernel, parallel
from tinygrad_tf.kernels._math import exp_negative, log

PANEL, lanes, block_product = tiles.PANEL, tiles.lanes, tiles.block_product
memory_at, bytes_at = panel.memory_at, panel.bytes_at
pack_columns, row_dots, hide, add_mask, apply_bools = (
    panel.pack_columns, panel.row_dots, panel.hide, panel.add_mask, panel.apply_bools
)  # fmt: skip
column_maximum, exp_and_sum, weight_gradients, scale_rows = (
    panel.column_maximum, panel.exp_and_sum, panel.weight_gradients, panel.scale_rows
)  # fmt: skip

KEYS = 128  # of a block: their scores, 16 KiB in float32, stay in the first-level cache
UNLIMITED = 1 << 60  # a window that hides nothing
NO_MASK, BOOL_MASK, FLOAT_MASK = 0, 1, 2


# ---------------------------------------------------------------- both directions
@kernel
def scratch_for(size, like):
    """(array, start): `size` elements from start on, which lies on a cache line."""
    scratch = np.empty(size + 64 // like.itemsize, like.dtype)
    return scratch, -np.int64(scratch.ctypes.data) % 64 // scratch.itemsize


@kernel
def round_up(n, step):
    return (n + step - 1) // step * step


@kernel
def operand(place, b, head, i, like):
    """Row i of a head, and how to go on from there."""
    address, batch, head_stride, row = place
    return memory_at(address, like), b * batch + head * head_stride + i * row, row


@kernel
def of_head(mask, b, h):
    address, kind, batch, head, row, column = mask
    return address, kind, b * batch + h * head, row, column


@kernel
def key_range(i0, rows, Tk, is_causal, window):
    """Queries i0 ... i0 + rows - 1 may see, between them, keys first ... last - 1."""
    return max(0, i0 - window + 1), min(Tk, i0 + rows) if is_causal else Tk


@kernel
def product(M, N, K, A, a0, a_row, a_col, B, b0, b_row, C, c0, c_row, add, careful):
    """C = A @ B (+ C). `careful`: where A is 0 nothing is added, even if B is NaN or infinite."""
    if not careful:
        block_product(M, N, K, A, a0, a_row, a_col, B, b0, b_row, C, c0, c_row, add, C, c0, c_row)
        return
    for i in range(M):
        for j in range(N):
            total = C[c0 + i * c_row + j] if add else C.dtype.type(0)
            for k in range(K):
                weight = A[a0 + i * a_row + k * a_col]
                if weight != 0:
                    total += weight * B[b0 + k * b_row + j]
            C[c0 + i * c_row + j] = total


@kernel
def scores(S, s0, packed, key, D, i0, rows, j0, n, mask, is_causal, window, slope):
    """S[j, q] = the score of query i0 + q for key j0 + j; -inf where it may not look."""
    width = PANEL * lanes(S)
    K, k0, k_row = key
    one = width // width  # not a constant: numba compiles a kernel again for each that it is given
    never = n < 0
    product(n, width, D, K, k0 + j0 * k_row, k_row, one, S, packed, width, S, s0, width, never, never)
    if slope != 0:
        for j in range(n):
            for q in range(width):
                S[s0 + j * width + q] += slope * (j0 + j - i0 - q)
    address, kind, start, row, column = mask
    start += i0 * row + j0 * column
    if kind != NO_MASK and column != 1:
        scattered_mask(S, s0, rows, n, address, kind, start, row, column)
    elif kind == BOOL_MASK:
        apply_bools(rows, n, bytes_at(address), start, row, S, s0)
    elif kind == FLOAT_MASK:
        add_mask(rows, n, memory_at(address, S), start, row, S, s0)
    begin = j0 - i0 if is_causal else -UNLIMITED
    end = j0 - i0 + window
    if end < rows or begin + n > 1:
        hide(0 if end < rows else max(0, 1 - begin), n, S, s0, begin, end)


@kernel
def scattered_mask(S, s0, rows, n, address, kind, start, row, column):
    """A mask whose rows are not contiguous, one by one."""
    width = PANEL * lanes(S)
    bools, numbers = bytes_at(address), memory_at(address, S)
    for j in range(n):
        for q in range(rows):
            at = start + q * row + j * column
            if (bools[at] == 0) if kind == BOOL_MASK else (numbers[at] == -np.inf):
                S[s0 + j * width + q] = -np.inf
            elif kind == FLOAT_MASK:
                S[s0 + j * width + q] += numbers[at]


# ---------------------------------------------------------------- forward
@parallel
def attend_panels(index, each, total, shape, query, key, value, mask, out, logsumexp, slopes, is_causal, window, scale):
    """`each` panels of queries; panels are counted along Tq, then H, then B."""
    B, H, group, Tq, Tk, D, Dv = shape
    width = PANEL * lanes(out)
    panels = (Tq + width - 1) // width
    room = round_up(D, lanes(out)) * width
    scratch, s0 = scratch_for((KEYS + 3) * width + room, out)
    packed = s0 + KEYS * width
    top = packed + room
    sums = top + width
    for number in range(index * each, min(total, (index + 1) * each)):
        item, place = divmod(number, panels)
        b, h = divmod(item, H)
        i0 = place * width
        rows = min(width, Tq - i0)
        Q, q0, q_row = operand(query, b, h, i0, out)
        pack_columns(rows, D, Q, q0, q_row, scale, scratch, packed)
        keys, values = operand(key, b, h // group, 0, out), operand(value, b, h // group, 0, out)
        target = out, ((b * Tq + i0) * H + h) * Dv, H * Dv
        slope = slopes[h] if slopes.size else slopes.dtype.type(0)
        careful, spoilt = False, True
        while spoilt:
            attend(
                scratch, s0, packed, top, keys, values, target, D, Dv, i0, rows, Tk,
                of_head(mask, b, h), is_causal, window, slope, careful,
            )  # fmt: skip
            for q in range(rows):
                weight = scratch[sums + q]
                logsumexp[item * Tq + i0 + q] = scratch[top + q] + log(weight)
                scratch[sums + q] = 1 / weight if weight != 0 else weight
            # A NaN may come from what a mask hides, for 0 * NaN is one: then all is done again with more care.
            spoilt = scale_rows(rows, Dv, out, target[1], target[2], scratch, sums, 1) and not careful
            careful = True


@kernel
def attend(S, s0, packed, top, key, value, target, D, Dv, i0, rows, Tk, mask, is_causal, window, slope, careful):
    """One panel, by an online softmax (Milakov and Gimelshein, 2018): sums over the blocks of keys so far, relative to
    the largest score so far."""
    width = PANEL * lanes(S)
    sums, old = top + width, top + 2 * width
    V, v0, v_row = value
    out, o0, o_row = target
    one = width // width
    for q in range(width):
        S[top + q] = np.finfo(S.dtype).min  # and not -inf, which cannot be subtracted from itself
        S[sums + q] = 0
    first, last = key_range(i0, rows, Tk, is_causal, window)
    if first >= last:
        for q in range(width):
            S[old + q] = 0
        scale_rows(rows, Dv, out, o0, o_row, S, old, 1)
    for j0 in range(first, last, KEYS):
        n = min(KEYS, last - j0)
        scores(S, s0, packed, key, D, i0, rows, j0, n, mask, is_causal, window, slope)
        for q in range(width):
            S[old + q] = S[top + q]
        column_maximum(n, S, s0, S, top)
        if j0 > first:
            for q in range(width):
                S[old + q] = exp_negative(S[old + q] - S[top + q])
                S[sums + q] *= S[old + q]
            scale_rows(rows, Dv, out, o0, o_row, S, old, 1)
        exp_and_sum(n, S, s0, S, top, S, sums)
        product(rows, Dv, n, S, s0, one, width, V, v0 + j0 * v_row, v_row, out, o0, o_row, j0 > first, careful)


# ---------------------------------------------------------------- backward
@parallel
def attention_gradients(
    index, chunks, chunk, shape, g, query, key, value, mask, out, logsumexp, slopes, is_causal, window, scale,
    dquery, dkey, dvalue,
):  # fmt: skip
    """All that one key head's keys begin ... end - 1 have a part in: their dkey and dvalue, and a part of dquery."""
    B, H, group, Tq, Tk, D, Dv = shape
    width = PANEL * lanes(dquery)
    heads = H // group
    item, part = divmod(index, chunks)
    b, key_head = divmod(item, heads)
    begin, end = part * chunk, min(Tk, (part + 1) * chunk)
    scratch, s0 = scratch_for((2 * KEYS + 4 + round_up(D, lanes(dquery)) + round_up(Dv, lanes(dquery))) * width, dquery)
    keys, values = operand(key, b, key_head, 0, dquery), operand(value, b, key_head, 0, dquery)
    dkeys = dkey, (b * Tk * heads + key_head) * D, heads * D
    dvalues = dvalue, (b * Tk * heads + key_head) * Dv, heads * Dv
    dkeys_start, dvalues_start = dkeys[1] + begin * dkeys[2], dvalues[1] + begin * dvalues[2]
    factors = s0
    zero, one, scale_at = factors, factors + 1, factors + 2
    scratch[zero], scratch[one], scratch[scale_at] = 0, 1, scale
    careful, spoilt = False, True
    while spoilt:
        spoilt = False
        scale_rows(end - begin, D, dkey, dkeys_start, dkeys[2], scratch, zero, 0)
        scale_rows(end - begin, Dv, dvalue, dvalues_start, dvalues[2], scratch, zero, 0)
        for h in range(key_head * group, (key_head + 1) * group):
            slope = slopes[h] if slopes.size else slopes.dtype.type(0)
            for i0 in range(0, Tq, width):
                rows = min(width, Tq - i0)
                dqueries = dquery, (((part * B + b) * Tq + i0) * H + h) * D, H * D
                first, last = key_range(i0, rows, end, is_causal, window)
                first = max(first, begin)
                if first < last:
                    query_gradients(
                        scratch, s0 + width, operand(g, b, h, i0, dquery), operand(query, b, h, i0, dquery), keys, values,
                        operand(out, b, h, i0, dquery), logsumexp, (b * H + h) * Tq + i0, D, Dv, i0, rows, first, last,
                        of_head(mask, b, h), is_causal, window, slope, scale, dqueries, dkeys, dvalues, careful,
                    )  # fmt: skip
                factor = scale_at if first < last else zero
                spoilt |= scale_rows(rows, D, dquery, dqueries[1], dqueries[2], scratch, factor, 0)
        spoilt |= scale_rows(end - begin, D, dkey, dkeys_start, dkeys[2], scratch, scale_at, 0)
        spoilt |= scale_rows(end - begin, Dv, dvalue, dvalues_start, dvalues[2], scratch, one, 0)
        spoilt = spoilt and not careful
        careful = True


@kernel
def query_gradients(
    S, s0, g, query, key, value, out, logsumexp, l0, D, Dv, i0, rows, first, last,
    mask, is_causal, window, slope, scale, dquery, dkey, dvalue, careful,
):  # fmt: skip
    """One panel of queries: its gradient, and what it adds to those of the keys and values."""
    width = PANEL * lanes(S)
    gradients = s0 + KEYS * width
    packed = gradients + KEYS * width
    packed_g = packed + round_up(D, lanes(S)) * width
    shift = packed_g + round_up(Dv, lanes(S)) * width
    delta = shift + width
    one, never = width // width, rows < 0
    (G, g0, g_row), (Q, q0, q_row), (K, k0, k_row), (V, v0, v_row) = g, query, key, value
    dQ, dq0, dq_row = dquery
    dK, dk0, dk_row = dkey
    dV, dv0, dv_row = dvalue
    pack_columns(rows, D, Q, q0, q_row, scale, S, packed)
    pack_columns(rows, Dv, G, g0, g_row, S.dtype.type(1), S, packed_g)
    for q in range(width):
        S[shift + q] = S[delta + q] = 0
    for q in range(rows):
        if logsumexp[l0 + q] > -np.inf:
            S[shift + q] = logsumexp[l0 + q]
    row_dots(rows, Dv, G, g0, g_row, out[0], out[1], out[2], S, delta)
    for j0 in range(first, last, KEYS):
        n = min(KEYS, last - j0)
        scores(S, s0, packed, key, D, i0, rows, j0, n, mask, is_causal, window, slope)
        product(n, width, Dv, V, v0 + j0 * v_row, v_row, one, S, packed_g, width, S, gradients, width, never, never)
        weight_gradients(n, S, s0, gradients, S, shift, delta)
        dv, dk = dv0 + j0 * dv_row, dk0 + j0 * dk_row
        product(n, Dv, rows, S, s0, width, one, G, g0, g_row, dV, dv, dv_row, not never, careful)
        product(n, D, rows, S, gradients, width, one, Q, q0, q_row, dK, dk, dk_row, not never, careful)
        product(rows, D, n, S, gradients, one, width, K, k0 + j0 * k_row, k_row, dQ, dq0, dq_row, j0 > first, careful)
