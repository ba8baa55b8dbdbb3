"""The backward blocks of attention.

A unit is a part of one key head's keys, with all queries that see them: it owns their dkey and dvalue, and its own
part of dquery. So no two units write the same memory, and the sums have one order, whatever the number of threads.

Within, `CHUNK` keys at a time are copied, with their values and gradients, to rows that begin on cache lines: every
panel of queries reads and adds to them. Then for each panel and each block of its keys, in the notation of the paper,
    P = exp(S - logsumexp)    dV += P^T G    dP = G V^T    dS = P (dP - delta) scale    dK += dS^T Q    dQ += dS K
"""
# mypy: allow-untyped-defs

from __future__ import annotations

import numpy as np
from numba import types

from tinygrad_tf.kernels._attention_panel import weight_gradients
from tinygrad_tf.kernels._attention_rows import pack_columns, row_dots, scale_rows
from tinygrad_tf.kernels._attention_scores import (
    KEYS,
    UNLIMITED,
    key_range,
    of_head,
    operand,
    product,
    round_up,
    scores,
    scratch_for,
)
from tinygrad_tf.kernels._compile import parallel
from tinygrad_tf.kernels._part import part
from tinygrad_tf.kernels._tiles import PANEL, lanes

CHUNK = 1024  # keys that stay in the second-level cache with their values and gradients: 1 MiB for D = 64 in float32


@parallel
def attention_gradients(
    index, each, total, parts, shape, g, query, key, value, mask, out, logsumexp, slopes, is_causal, window, scale,
    dquery, dkey, dvalue,
):  # fmt: skip
    """`each` units; units are counted along the parts of the keys, then Hk, then B.

    The gradients come as (flat array, elements from one row, of all heads, to the next).
    """
    _, H, group, _, Tk, D, Dv = shape
    heads, part_keys = H // group, (Tk + parts - 1) // parts
    wide, wide_v = round_up(D, lanes(dquery[0])), round_up(Dv, lanes(dquery[0]))
    width, chunk = PANEL * lanes(dquery[0]), min(CHUNK, part_keys)
    scratch, s0 = scratch_for((2 * KEYS + 2) * width + (2 * width + 2 * chunk) * (wide + wide_v), dquery[0])
    for unit in range(index * each, min(total, (index + 1) * each)):
        item, share = divmod(unit, parts)
        b, key_head = divmod(item, heads)
        begin, end = share * part_keys, min(Tk, (share + 1) * part_keys)
        careful, spoilt = False, True
        while spoilt:  # see the forward blocks
            spoilt = False
            for j0 in range(begin, max(end, begin + 1), CHUNK):  # once even without keys, for dquery
                spoilt |= chunk_gradients(
                    scratch, s0, shape, g, query, key, value, mask, out, logsumexp, slopes, is_causal, window, scale,
                    dquery, dkey, dvalue, b, key_head, share, j0, min(CHUNK, end - j0), j0 == begin, careful,
                )  # fmt: skip
            spoilt = spoilt and not careful
            careful = True


@part(types.boolean)
def chunk_gradients(
    scratch, s0, shape, g, query, key, value, mask, out, logsumexp, slopes, is_causal, window, scale,
    dquery, dkey, dvalue, b, key_head, share, begin, n, fresh, careful,
):  # fmt: skip
    """Keys begin ... begin + n - 1 of one head, and all queries; whether a NaN has come out.

    `fresh`: these are the first keys, so dquery holds nothing yet.
    """
    B, H, group, Tq, Tk, D, Dv = shape
    (dquery, dq_row), (dkey, dk_row), (dvalue, dv_row) = dquery, dkey, dvalue
    width, one = PANEL * lanes(dquery), dquery.dtype.type(1)
    wide, wide_v = round_up(D, lanes(dquery)), round_up(Dv, lanes(dquery))
    kept = s0 + (2 * KEYS + 2) * width + 2 * width * (wide + wide_v)
    keys, values = (scratch, kept, wide), (scratch, kept + n * wide, wide_v)
    dkeys = scratch, values[1] + n * wide_v, wide
    dvalues = scratch, dkeys[1] + n * wide, wide_v
    K, k0, k_row = operand(key, b, key_head, begin, dquery)
    V, v0, v_row = operand(value, b, key_head, begin, dquery)
    scale_rows(n, D, K, k0, k_row, scratch, keys[1], wide, one)
    scale_rows(n, Dv, V, v0, v_row, scratch, values[1], wide_v, one)
    scratch[dkeys[1] : dkeys[1] + n * (wide + wide_v)] = 0
    spoilt = False
    for h in range(key_head * group, (key_head + 1) * group):
        slope = slopes[h] if slopes.size else slopes.dtype.type(0)
        for i0 in range(0, Tq, width):
            rows = min(width, Tq - i0)
            first, last = key_range(i0, rows, begin + n, is_causal, window)
            first = max(first, begin)
            dq0 = ((share * B + b) * Tq + i0) * dq_row + h * D
            if first < last:
                panel_gradients(
                    scratch, s0, operand(g, b, h, i0, dquery), operand(query, b, h, i0, dquery), keys, values,
                    operand(out, b, h, i0, dquery), logsumexp, (b * H + h) * Tq + i0, D, Dv, i0, rows, begin,
                    first - begin, last - begin, of_head(mask, b, h), is_causal, window, slope, scale,
                    (dquery, dq0, dq_row), dkeys, dvalues, fresh, careful,
                )  # fmt: skip
                spoilt |= scale_rows(rows, D, dquery, dq0, dq_row, dquery, dq0, dq_row, one)
            elif fresh:
                scale_rows(rows, D, dquery, dq0, dq_row, dquery, dq0, dq_row, 0 * one)
    row = b * Tk + begin
    spoilt |= scale_rows(n, D, scratch, dkeys[1], wide, dkey, row * dk_row + key_head * D, dk_row, one)
    spoilt |= scale_rows(n, Dv, scratch, dvalues[1], wide_v, dvalue, row * dv_row + key_head * Dv, dv_row, one)
    return spoilt


@part()
def panel_gradients(
    S, s0, g, query, key, value, out, logsumexp, l0, D, Dv, i0, rows, begin, first, last,
    mask, is_causal, window, slope, scale, dquery, dkey, dvalue, fresh, careful,
):  # fmt: skip
    """One panel of queries and keys begin + first ... begin + last - 1: adds to dquery, dkey and dvalue."""
    width = PANEL * lanes(S)
    (_, k0, k_row), (_, v0, v_row), (_, dk0, _), (_, dv0, _) = key, value, dkey, dvalue
    (G, g0, g_row), (Q, q0, q_row), (O, o0, o_row), (dQ, dq0, dq_row) = g, query, out, dquery
    gradients = s0 + KEYS * width
    shift = gradients + KEYS * width
    delta = shift + width
    packed = delta + width
    packed_g = packed + k_row * width
    rows_of_q = packed_g + v_row * width
    rows_of_g = rows_of_q + k_row * width
    scale_rows(rows, D, Q, q0, q_row, S, rows_of_q, k_row, S.dtype.type(1))
    scale_rows(rows, Dv, G, g0, g_row, S, rows_of_g, v_row, S.dtype.type(1))
    pack_columns(rows, D, S, rows_of_q, k_row, scale, S, packed)
    pack_columns(rows, Dv, S, rows_of_g, v_row, S.dtype.type(1), S, packed_g)
    for q in range(width):
        S[shift + q] = S[delta + q] = 0
    for q in range(rows):
        if logsumexp[l0 + q] > -np.inf:
            S[shift + q] = logsumexp[l0 + q]
    row_dots(rows, Dv, S, rows_of_g, v_row, O, o0, o_row, S, delta)
    for j0 in range(first, last, KEYS):
        n = min(KEYS, last - j0)
        k, v, dk, dv = k0 + j0 * k_row, v0 + j0 * v_row, dk0 + j0 * k_row, dv0 + j0 * v_row
        scores(S, s0, packed, (S, k, k_row), D, i0, rows, begin + j0, n, mask, is_causal, window, slope)
        product(
            n, width, Dv, S, v, v_row, 1, S, packed_g, width, S, gradients, width, False, False, -UNLIMITED, UNLIMITED
        )
        weight_gradients(n, S, s0, gradients, S, shift, delta, scale)
        low, high = (begin + j0 - i0 if is_causal else -UNLIMITED), begin + j0 - i0 + window - 1
        product(n, Dv, rows, S, s0, width, 1, S, rows_of_g, v_row, S, dv, v_row, True, careful, low, high)
        product(n, D, rows, S, gradients, width, 1, S, rows_of_q, k_row, S, dk, k_row, True, careful, low, high)
        product(
            rows, D, n, S, gradients, 1, width, S, k, k_row, dQ, dq0, dq_row,
            not fresh or j0 > first, careful, -high, -low,
        )  # fmt: skip
