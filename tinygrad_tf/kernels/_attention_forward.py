"""The forward blocks of attention: panels of queries, or, where there are few, one query after the other.

Both go through the keys in blocks with an online softmax (Milakov and Gimelshein, 2018): all sums are kept relative to
the largest score so far, and are scaled down when a larger one comes.

A sum with NaN in it may owe that to a value that no query may see, for 0 * NaN is NaN. It is cheaper to look at the
results than at the inputs: where there is a NaN, all is done again, and carefully.
"""
# mypy: allow-untyped-defs

from __future__ import annotations

import numpy as np

from tinygrad_tf.kernels._attention_panel import column_maximum, exp_and_sum, scale_columns
from tinygrad_tf.kernels._attention_rows import bytes_at, memory_at, pack_columns, row_dots, scale_rows, unpack_columns
from tinygrad_tf.kernels._attention_scores import (
    BOOL_MASK,
    FLOAT_MASK,
    KEYS,
    UNLIMITED,
    careful_product,
    key_range,
    of_head,
    operand,
    product,
    round_up,
    scores,
    scratch_for,
)
from tinygrad_tf.kernels._compile import parallel
from tinygrad_tf.kernels._math import exp_negative, log
from tinygrad_tf.kernels._part import part
from tinygrad_tf.kernels._rows import largest
from tinygrad_tf.kernels._scalar import select
from tinygrad_tf.kernels._tiles import PANEL, lanes
from tinygrad_tf.kernels._vector import HAS_MASKED_LOADS, make_tile

ROW_VECTORS = 4  # of a value that are summed at a time
row_tile = make_tile(1, ROW_VECTORS, ragged_rows=False, ragged_columns=False)
ragged_row_tile = make_tile(1, ROW_VECTORS, ragged_rows=False, ragged_columns=True)


@parallel
def attend_panels(
    index, each, total, shape, query, key, value, mask, out, target, logsumexp, slopes, is_causal, window, scale
):
    """`each` panels of queries; panels are counted along Tq, then H, then B."""
    H, group, Tq, Tk, D, Dv = shape
    width = PANEL * lanes(out)
    panels = (Tq + width - 1) // width
    scratch, s0 = scratch_for((KEYS + 3 + round_up(D, lanes(out)) + round_up(Dv, lanes(out))) * width, out)
    top = s0 + KEYS * width
    sums, packed = top + width, top + 3 * width
    sum_of_values = packed + round_up(D, lanes(out)) * width
    for number in range(index * each, min(total, (index + 1) * each)):
        item, place = divmod(number, panels)
        b, h = divmod(item, H)
        i0 = place * width
        rows = min(width, Tq - i0)
        Q, q0, q_row = operand(query, b, h, i0, out)
        pack_columns(rows, D, Q, q0, q_row, scale, scratch, packed)
        keys, values = operand(key, b, h // group, 0, out), operand(value, b, h // group, 0, out)
        slope = slopes[h] if slopes.size else slopes.dtype.type(0)
        careful, spoilt = False, True
        while spoilt:
            attend(
                scratch, s0, packed, top, sum_of_values, keys, values, D, Dv, i0, rows, Tk,
                of_head(mask, b, h), is_causal, window, slope, careful,
            )  # fmt: skip
            totals, tops = scratch[sums : sums + width], scratch[top : top + width]
            logs = logsumexp[item * Tq + i0 : item * Tq + i0 + rows]
            for q in range(width):
                tops[q] += log(totals[q])
                totals[q] = select(totals[q] == 0, totals[q], 1 / totals[q])
            for q in range(rows):
                logs[q] = tops[q]
            o0 = b * target[0] + h * target[1] + i0 * target[2]
            spoilt = unpack_columns(rows, Dv, scratch, sum_of_values, scratch, sums, out, o0, target[2]) and not careful
            careful = True


@part()
def attend(S, s0, packed, top, target, key, value, D, Dv, i0, rows, Tk, mask, is_causal, window, slope, careful):
    """One panel. The target, the sum of weighted values, is a panel as well: target[d, q]."""
    width = PANEL * lanes(S)
    sums, factors = top + width, top + 2 * width
    (K, k0, k_row), (V, v0, v_row) = key, value
    for q in range(width):
        S[top + q] = np.finfo(S.dtype).min  # and not -inf, which cannot be subtracted from itself
        S[sums + q] = 0
    first, last = key_range(i0, rows, Tk, is_causal, window)
    for j0 in range(first, last, KEYS):
        n = min(KEYS, last - j0)
        scores(S, s0, packed, (K, k0 + j0 * k_row, k_row), D, i0, rows, j0, n, mask, is_causal, window, slope)
        for q in range(width):
            S[factors + q] = S[top + q]
        column_maximum(n, S, s0, S, top)
        if j0 > first:
            for q in range(width):
                S[factors + q] = exp_negative(S[factors + q] - S[top + q])
                S[sums + q] *= S[factors + q]
            scale_columns(Dv, S, target, S, factors)
        exp_and_sum(n, S, s0, S, top, S, sums)
        v = v0 + j0 * v_row
        if careful:
            careful_product(rows, Dv, n, S, s0, 1, width, V, v, v_row, S, target, 1, width, j0 > first)
        else:
            product(
                Dv, width, n, V, v, 1, v_row, S, s0, width, S, target, width, j0 > first, False, -UNLIMITED, UNLIMITED
            )


@parallel
def attend_rows(
    index, each, total, shape, query, key, value, mask, out, target, logsumexp, slopes, is_causal, window, scale
):
    """`each` heads with few queries, which would leave most lanes of a panel empty: here the lanes are keys."""
    H, group, Tq, Tk, D, Dv = shape
    wide, wide_v = round_up(D, lanes(out)), round_up(Dv, lanes(out))
    scratch, s0 = scratch_for(KEYS + Tq * (wide + wide_v + 2), out)
    packed = s0 + KEYS
    sums_of_values = packed + Tq * wide
    states = sums_of_values + Tq * wide_v
    for item in range(index * each, min(total, (index + 1) * each)):
        b, h = divmod(item, H)
        Q, q0, q_row = operand(query, b, h, 0, out)
        scale_rows(Tq, D, Q, q0, q_row, scratch, packed, wide, scale)
        keys, values = operand(key, b, h // group, 0, out), operand(value, b, h // group, 0, out)
        slope = slopes[h] if slopes.size else slopes.dtype.type(0)
        careful, spoilt = False, True
        while spoilt:
            spoilt = False
            scratch[sums_of_values:states] = 0
            for i in range(Tq):
                scratch[states + 2 * i], scratch[states + 2 * i + 1] = np.finfo(out.dtype).min, 0
            for j0 in range(0, Tk, KEYS):
                for i in range(Tq):
                    first, last = key_range(i, 1, Tk, is_causal, window)
                    first, last = max(first, j0), min(last, j0 + KEYS)
                    if first < last:
                        attend_row(
                            scratch, s0, packed + i * wide, states + 2 * i, sums_of_values + i * wide_v,
                            keys, values, D, Dv, i, first, last - first, of_head(mask, b, h), slope, careful,
                        )  # fmt: skip
            for i in range(Tq):
                total_weight, o0 = scratch[states + 2 * i + 1], target[0] * b + target[1] * h + target[2] * i
                logsumexp[item * Tq + i] = scratch[states + 2 * i] + log(total_weight)
                factor = 1 / total_weight if total_weight != 0 else total_weight
                spoilt |= scale_rows(1, Dv, scratch, sums_of_values + i * wide_v, wide_v, out, o0, wide_v, factor)
            spoilt = spoilt and not careful
            careful = True


@part()
def attend_row(S, s0, packed, state, target, key, value, D, Dv, i, first, n, mask, slope, careful):
    """One query, and the keys first ... first + n - 1."""
    (K, k0, k_row), (V, v0, v_row) = key, value
    row_dots(n, D, K, k0 + first * k_row, k_row, S, packed, 0, S, s0)
    row = S[s0 : s0 + n]
    if slope != 0:
        for j in range(n):
            row[j] += slope * (first + j - i)
    address, kind, start, mask_row, column = mask
    bools, numbers = bytes_at(address), memory_at(address, S)
    start += i * mask_row + first * column
    if kind == BOOL_MASK:
        for j in range(n):
            row[j] = row[j] if bools[start + j * column] != 0 else -np.inf
    elif kind == FLOAT_MASK:
        for j in range(n):
            number = numbers[start + j * column]
            row[j] = number if number == -np.inf else row[j] + number
    old = S[state]
    top = max(old, largest(row))
    factor, total = exp_negative(old - top), S.dtype.type(0)
    for j in range(n):
        row[j] = exp_negative(row[j] - top)
        total += row[j]
    S[state], S[state + 1] = top, S[state + 1] * factor + total
    if factor != 1:
        scale_rows(1, Dv, S, target, Dv, S, target, Dv, factor)
    v = v0 + first * v_row
    if careful or (Dv % (ROW_VECTORS * lanes(S)) != 0 and not HAS_MASKED_LOADS):
        careful_product(1, Dv, n, S, s0, 0, 1, V, v, v_row, S, target, 0, 1, True)
    else:
        for d in range(0, Dv, ROW_VECTORS * lanes(S)):
            width = min(Dv - d, ROW_VECTORS * lanes(S))
            if width == ROW_VECTORS * lanes(S):
                row_tile(n, 1, width, S, s0, 0, 1, V, v + d, v_row, S, target + d, 0, True, S, target + d, 0)
            else:
                ragged_row_tile(n, 1, width, S, s0, 0, 1, V, v + d, v_row, S, target + d, 0, True, S, target + d, 0)
