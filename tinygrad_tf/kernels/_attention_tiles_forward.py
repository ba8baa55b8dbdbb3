"""The forward blocks of attention on matrix tiles; see `_attention_tiles.py`.

A unit is one head, or a share of its panels where heads are few. It cuts its keys and values once; then, for a panel of
32 queries, in blocks of keys, with an online softmax:
    S = K Q^T        P = exp((S - max) scale), cut        out^T += V^T P
Only Q and V are turned. What is read and written next is put on a list, and asked for while the tiles multiply.
"""
# mypy: allow-untyped-defs

from __future__ import annotations

import numpy as np

from tinygrad_tf.kernels._attention_multiply import list_rows, multiply
from tinygrad_tf.kernels._attention_panel import column_maximum, hide, scale_columns
from tinygrad_tf.kernels._attention_pieces import exp_and_split
from tinygrad_tf.kernels._attention_rows import memory_at, unpack_columns
from tinygrad_tf.kernels._attention_scores import UNLIMITED, round_up, scratch_for
from tinygrad_tf.kernels._attention_tiles_operands import KEYS, WIDTH, at_once, cut
from tinygrad_tf.kernels._compile import parallel
from tinygrad_tf.kernels._half_rows import store_rows
from tinygrad_tf.kernels._math import exp_negative, log
from tinygrad_tf.kernels._matrix_tiles import PIECE, STEP, TILE, close_tiles, open_tiles, pieces_in
from tinygrad_tf.kernels._part import part


@part()
def hide_outside(S, s0, n, i0, j0, is_causal):
    """-inf in the scores of keys j0 + n ... up to a multiple of 32, and of those that a query may not see."""
    for i in range(n * WIDTH, round_up(n, WIDTH) * WIDTH):
        S[s0 + i] = -np.inf
    if is_causal and j0 + n > i0 + 1:
        hide(max(0, i0 - j0), n, S, s0, j0 - i0, UNLIMITED)


@parallel
def attend_heads(
    index, each, total, parts, shape, query, key, value, out, target, logsumexp, numbers, words, is_causal, scale, found
):
    """`each` units; units are counted along the parts, then H, then B. found[index] gets the largest magnitudes."""
    H, group, Tq, Tk, D, Dv = shape
    unit = pieces_in(words) * PIECE
    wide, wide_v, length = round_up(D, WIDTH), round_up(Dv, WIDTH), round_up(Tk, WIDTH)
    key_group, value_group, weight_group = wide // STEP * unit, length // STEP * unit, KEYS // STEP * unit
    room = 2 * max(length, WIDTH) * max(wide, wide_v)
    S, scores = scratch_for((KEYS + 3 + wide_v) * WIDTH + room, logsumexp)
    top, sums, result = scores + KEYS * WIDTH, scores + (KEYS + 1) * WIDTH, scores + (KEYS + 3) * WIDTH
    spare = result + wide_v * WIDTH
    room = length // TILE * key_group + wide_v // TILE * value_group
    W, keys = scratch_for(room + 2 * key_group + 2 * weight_group, words)
    values, queries = keys + length // TILE * key_group, keys + room
    Q, K, V = memory_at(query[0], numbers), memory_at(key[0], numbers), memory_at(value[0], numbers)
    largest_q, largest_k, largest_v = 0, 0, 0
    wanted = np.empty(3 + 4 * WIDTH * (max(D, Dv) // TILE + 2), np.int64)
    open_tiles()
    end = min(total, (index + 1) * each)
    for number in range(index * each, end):
        b, h = divmod(number // parts, H)
        k0, v0 = b * key[1] + h // group * key[2], b * value[1] + h // group * value[2]
        largest_k = max(largest_k, cut(True, False, Tk, D, K, k0, key[3], length, wide, S, spare, W, keys))
        largest_v = max(largest_v, cut(True, True, Tk, Dv, V, v0, value[3], length, wide_v, S, spare, W, values))
        b_next, h_next = divmod(min(number + 1, end - 1) // parts, H)
        k0, v0 = b_next * key[1] + h_next // group * key[2], b_next * value[1] + h_next // group * value[2]
        for i0 in range(number % parts * WIDTH, Tq, parts * WIDTH):
            rows, q0 = min(WIDTH, Tq - i0), b * query[1] + h * query[2] + i0 * query[3]
            last = min(Tk, i0 + rows) if is_causal else Tk
            wanted[0] = wanted[1] = 0
            b2, h2, i2 = (b, h, i0 + parts * WIDTH) if i0 + parts * WIDTH < Tq else (b_next, h_next, 0)
            list_rows(min(WIDTH, Tq - i2), D, Q, b2 * query[1] + h2 * query[2] + i2 * query[3], query[3], wanted)
            list_rows(min(WIDTH, Tk - i0), D, K, k0 + i0 * key[3], key[3], wanted)
            list_rows(min(WIDTH, Tk - i0), Dv, V, v0 + i0 * value[3], value[3], wanted)
            list_rows(rows, Dv, out, b * target[0] + h * target[1] + i0 * target[2], target[2], wanted)
            wanted[2] = at_once(wanted[0], last, wide + wide_v, W)
            found_q = cut(False, True, rows, D, Q, q0, query[3], WIDTH, wide, S, spare, W, queries)
            largest_q = max(largest_q, found_q)
            attend_panel(
                S, scores, result, W, keys, values, queries, queries + 2 * key_group, key_group, value_group,
                weight_group, wide, wide_v, i0, last, is_causal, scale, wanted,
            )  # fmt: skip
            for q in range(rows):
                logsumexp[(b * H + h) * Tq + i0 + q] = S[top + q] * scale + log(S[sums + q])
            for q in range(WIDTH):
                S[sums + q] = 1 / S[sums + q]
            unpack_columns(WIDTH, wide_v, S, result, S, sums, S, spare, wide_v)
            store_rows(rows, Dv, S, spare, wide_v, out, b * target[0] + h * target[1] + i0 * target[2], target[2])
    close_tiles()
    found[index, 0], found[index, 1], found[index, 2] = largest_q, largest_k, largest_v


@part()
def attend_panel(
    S, scores, result, W, keys, values, queries, weights, key_group, value_group, weight_group, wide, wide_v, i0, last,
    is_causal, scale, wanted,
):  # fmt: skip
    """S[result ...] = the sums of weighted values, [wide_v, 32]; behind the scores the maxima and the sums."""
    top, sums, factors = scores + KEYS * WIDTH, scores + (KEYS + 1) * WIDTH, scores + (KEYS + 2) * WIDTH
    for q in range(WIDTH):
        S[top + q] = np.finfo(np.float32).min
        S[sums + q] = 0
    for j0 in range(0, last, KEYS):
        n = round_up(min(KEYS, last - j0), WIDTH)
        rows = keys + j0 // TILE * key_group
        multiply(n, WIDTH, wide // STEP, W, rows, key_group, W, queries, key_group, S, scores, WIDTH, False, wanted)
        hide_outside(S, scores, min(KEYS, last - j0), i0, j0, is_causal)
        for q in range(WIDTH):
            S[factors + q] = S[top + q]
        column_maximum(n, S, scores, S, top)
        if j0 > 0:
            for q in range(WIDTH):
                S[factors + q] = exp_negative((S[factors + q] - S[top + q]) * scale)
                S[sums + q] *= S[factors + q]
            scale_columns(wide_v, S, result, S, factors)
        exp_and_split(n // STEP, S, scores, S, top, sums, scale, W, weights, weight_group)
        columns = values + j0 // STEP * pieces_in(W) * PIECE
        multiply(
            wide_v,
            WIDTH,
            n // STEP,
            W,
            columns,
            value_group,
            W,
            weights,
            weight_group,
            S,
            result,
            WIDTH,
            j0 > 0,
            wanted,
        )
