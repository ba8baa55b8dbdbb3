"""The backward blocks of attention on matrix tiles; see `_attention_tiles.py`.

A unit is a part of one key head's keys, with all queries that see them, as in `_attention_backward.py`. It cuts its
keys, in two ways, and its values once; then for each panel of 32 queries Q and G, in two ways each, and for each block
of keys P and dS, as soon as they are known, so that neither is stored as float32:
    S = K Q^T    dP = V G^T    P, dS cut    dV += P G    dK += dS Q    dQ^T += K^T dS
"""
# mypy: allow-untyped-defs

from __future__ import annotations

import numpy as np

from tinygrad_tf.kernels._attention_multiply import list_rows, multiply
from tinygrad_tf.kernels._attention_pieces import gradients_and_split
from tinygrad_tf.kernels._attention_rows import memory_at, row_dots
from tinygrad_tf.kernels._attention_scores import round_up, scratch_for
from tinygrad_tf.kernels._attention_tiles_forward import hide_outside
from tinygrad_tf.kernels._attention_tiles_operands import KEYS, WIDTH, at_once, cut, transpose
from tinygrad_tf.kernels._compile import parallel
from tinygrad_tf.kernels._half_rows import store_rows
from tinygrad_tf.kernels._matrix_tiles import PIECE, STEP, TILE, close_tiles, open_tiles, pieces_in
from tinygrad_tf.kernels._part import part


@parallel
def attend_heads_backward(
    index, each, total, parts, part_keys, shape, g, query, key, value, out, logsumexp, numbers, words, is_causal, scale,
    dquery, dkey, dvalue, found,
):  # fmt: skip
    """`each` units; units are counted along the parts, of `part_keys` keys, then Hk, then B."""
    B, H, group, Tq, Tk, D, Dv = shape
    heads, unit = H // group, pieces_in(words) * PIECE
    wide, wide_v = round_up(D, WIDTH), round_up(Dv, WIDTH)
    key_group, value_group = wide // STEP * unit, wide_v // STEP * unit
    room = part_keys * (wide + wide_v) + (wide + 2 * KEYS + 2) * WIDTH
    S, dkeys = scratch_for(room + 2 * part_keys * max(wide, wide_v), logsumexp)
    dvalues, result = dkeys + part_keys * wide, dkeys + part_keys * (wide + wide_v)
    scores, spare = result + wide * WIDTH, dkeys + room
    room = part_keys // TILE * (2 * key_group + value_group)
    W, keys = scratch_for(room + 4 * (key_group + value_group) + 6 * (KEYS // STEP) * unit, words)
    turned, values = keys + part_keys // TILE * key_group, keys + 2 * (part_keys // TILE) * key_group
    panels = keys + room
    Q, K, V = memory_at(query[0], numbers), memory_at(key[0], numbers), memory_at(value[0], numbers)
    G, O = memory_at(g[0], numbers), memory_at(out[0], numbers)
    (dQ, dq_row), (dK, dk_row), (dV, dv_row) = dquery, dkey, dvalue
    largest_q, largest_k, largest_v, largest_g = 0, 0, 0, 0
    wanted = np.empty(3 + 8 * WIDTH * (max(D, Dv) // TILE + 2), np.int64)
    open_tiles()
    stop = min(total, (index + 1) * each)
    for number in range(index * each, stop):
        item, share = divmod(number, parts)
        b, key_head = divmod(item, heads)
        begin = share * part_keys
        n = min(part_keys, Tk - begin)
        length = round_up(n, WIDTH)
        k0, v0 = b * key[1] + key_head * key[2] + begin * key[3], b * value[1] + key_head * value[2] + begin * value[3]
        largest_k = max(largest_k, cut(True, False, n, D, K, k0, key[3], length, wide, S, spare, W, keys))
        cut(True, True, n, D, K, k0, key[3], length, wide, S, spare, W, turned)
        largest_v = max(largest_v, cut(True, False, n, Dv, V, v0, value[3], length, wide_v, S, spare, W, values))
        b_next, head_next = divmod(min(number + 1, stop - 1) // parts, heads)
        k0, v0 = b_next * key[1] + head_next * key[2], b_next * value[1] + head_next * value[2]
        for i in range(dkeys, result):
            S[i] = 0
        for h in range(key_head * group, (key_head + 1) * group):
            for i0 in range(0, Tq, WIDTH):
                rows, row = min(WIDTH, Tq - i0), b * Tk + begin
                q0, g0 = b * query[1] + h * query[2] + i0 * query[3], b * g[1] + h * g[2] + i0 * g[3]
                o0, dq0 = b * out[1] + h * out[2] + i0 * out[3], ((share * B + b) * Tq + i0) * dq_row + h * D
                last = min(n, i0 + rows - begin) if is_causal else n
                wanted[0] = wanted[1] = 0
                list_rows(rows, D, dQ, dq0, dq_row, wanted)
                list_rows(min(WIDTH, n - i0), D, K, k0 + i0 * key[3], key[3], wanted)
                list_rows(min(WIDTH, n - i0), Dv, V, v0 + i0 * value[3], value[3], wanted)
                list_rows(min(WIDTH, n - i0), D, dK, (row + i0) * dk_row + key_head * D, dk_row, wanted)
                list_rows(min(WIDTH, n - i0), Dv, dV, (row + i0) * dv_row + key_head * Dv, dv_row, wanted)
                b2, h2, i2 = (b, h, i0 + WIDTH) if i0 + WIDTH < Tq else (b_next, head_next * group, 0)
                rows_next = min(WIDTH, Tq - i2)
                list_rows(rows_next, D, Q, b2 * query[1] + h2 * query[2] + i2 * query[3], query[3], wanted)
                list_rows(rows_next, Dv, G, b2 * g[1] + h2 * g[2] + i2 * g[3], g[3], wanted)
                list_rows(rows_next, Dv, O, b2 * out[1] + h2 * out[2] + i2 * out[3], out[3], wanted)
                wanted[2] = at_once(wanted[0], last, 3 * wide + 2 * wide_v, W)
                # Q, turned and as it is, then G
                right, right_g = panels + 2 * key_group, panels + 4 * key_group + 2 * value_group
                found_q = cut(False, True, rows, D, Q, q0, query[3], WIDTH, wide, S, spare, W, panels)
                cut(False, False, rows, D, Q, q0, query[3], WIDTH, wide, S, spare, W, right)
                found_g = cut(False, True, rows, Dv, G, g0, g[3], WIDTH, wide_v, S, spare, W, panels + 4 * key_group)
                cut(False, False, rows, Dv, G, g0, g[3], WIDTH, wide_v, S, spare, W, right_g)
                largest_q, largest_g = max(largest_q, found_q), max(largest_g, found_g)
                shift = scores + 2 * KEYS * WIDTH
                for q in range(2 * WIDTH):
                    S[shift + q] = 0
                for q in range(rows):
                    S[shift + q] = logsumexp[(b * H + h) * Tq + i0 + q]
                row_dots(rows, Dv, G, g0, g[3], O, o0, out[3], S, shift + WIDTH)
                for i in range(wide * WIDTH if last <= 0 else 0):
                    S[result + i] = 0
                panel_gradients(
                    S, dkeys, dvalues, result, scores, W, keys, turned, values, panels, key_group, value_group,
                    length // STEP * unit, wide, wide_v, i0 - begin, last, is_causal, scale, wanted,
                )  # fmt: skip
                transpose(wide, WIDTH, S, result, WIDTH, S, spare)
                store_rows(rows, D, S, spare, wide, dQ, dq0, dq_row)
        row = b * Tk + begin
        store_rows(n, D, S, dkeys, wide, dK, row * dk_row + key_head * D, dk_row)
        store_rows(n, Dv, S, dvalues, wide_v, dV, row * dv_row + key_head * Dv, dv_row)
    close_tiles()
    found[index, 0], found[index, 1], found[index, 2], found[index, 3] = largest_q, largest_k, largest_v, largest_g


@part()
def panel_gradients(
    S, dkeys, dvalues, result, scores, W, keys, turned, values, queries, key_group, value_group, turned_group,
    wide, wide_v, i0, last, is_causal, scale, wanted,
):  # fmt: skip
    """Adds to dkeys and dvalues; S[result ...] = dQ^T. i0 counts from the first of the keys."""
    unit = pieces_in(W) * PIECE
    gradients, shift = scores + KEYS * WIDTH, scores + 2 * KEYS * WIDTH
    query_rows, upper = queries + 2 * key_group, queries + 4 * key_group
    upper_rows, weights = upper + 2 * value_group, upper + 4 * value_group
    weight_group = KEYS // STEP * unit
    by_queries, by_keys = weights + 2 * weight_group, weights + 4 * weight_group
    for j0 in range(0, last, KEYS):
        n = round_up(min(KEYS, last - j0), WIDTH)
        rows_of_keys, rows_of_values = keys + j0 // TILE * key_group, values + j0 // TILE * value_group
        multiply(
            n, WIDTH, wide // STEP, W, rows_of_keys, key_group, W, queries, key_group, S, scores, WIDTH, False, wanted
        )
        multiply(
            n,
            WIDTH,
            wide_v // STEP,
            W,
            rows_of_values,
            value_group,
            W,
            upper,
            value_group,
            S,
            gradients,
            WIDTH,
            False,
            wanted,
        )
        hide_outside(S, scores, min(KEYS, last - j0), i0, j0, is_causal)
        gradients_and_split(
            n // STEP, S, scores, gradients, S, shift, shift + WIDTH, scale, W, weights, by_queries, by_keys,
            weight_group,
        )  # fmt: skip
        multiply(n, wide_v, 1, W, weights, unit, W, upper_rows, unit, S, dvalues + j0 * wide_v, wide_v, True, wanted)
        multiply(n, wide, 1, W, by_queries, unit, W, query_rows, unit, S, dkeys + j0 * wide, wide, True, wanted)
        columns = turned + j0 // STEP * unit
        multiply(
            wide, WIDTH, n // STEP, W, columns, turned_group, W, by_keys, weight_group, S, result, WIDTH, j0 > 0, wanted
        )
