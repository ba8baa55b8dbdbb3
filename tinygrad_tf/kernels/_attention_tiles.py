"""Attention on the processor's matrix tiles: which cases it takes, and how they are cut into units.

The products of `_matrix_tiles.py`, float32 in three pieces and six products or bfloat16 in one, with P and dS cut on
the way. It takes the common cases: causal or not, grouped heads, no mask, window or slopes. All else, and numbers that
the tiles cannot hold, go to the vector registers (`attention.py`), which also have the plain formulas.

In bfloat16, operands are taken as they lie; P and dS are rounded to it, and all sums are float32, as are the softmax
and its logarithms. Nothing is rounded twice.

Cost: for each pair of a query and a key 2 (D + Dv) and 3 (D + Dv) multiply-adds of 0.006 ns (float32) or a sixth of
that, one exponential, and cutting, 0.2 ns forward and 0.4 backward; an element of Q, K, V and G is cut 1, 1, 1 and 0
times forward and 2, 2, 1 and 2 backward, 0.15 ns each.

Versions, two threads, causal, slices of one projection; milliseconds forward / backward of (B, H, T, D)
                                        64 x 6 x 256 x 64             12 x 4 x 64 x 32
                                        float32       bfloat16        float32         bfloat16
    vector registers                    27.6 / 46.7   41.3 / 70.9     0.117 / 0.320   0.315 / 0.677
    tiles, K and V copied first         18.3 / 43.9    7.5 / 18.2     0.117 / 0.322   0.075 / 0.194
    what is read next is asked for      14.4 / 36.5    7.0 / 15.8     0.110 / 0.290   0.076 / 0.200
(Copied: to rows without gaps, and then cut from there.) Heads are slices of long rows, which the processor does not
fetch by itself; nor does it ask for more than some 16 lines at a time, so that all of the next panel's, asked for at
once, still take a quarter of the time. `multiply` asks for some with each product of tiles, for those to be written
too. On a warmer machine, where vector registers took 33 / 57, that was 18 / 39 after 17 / 48.

Under 8192 = length times head size, float32 wins nothing: 0.92 to 1.1 of the vector registers' speed. On one thread and
from cache, half of the backward pass in float32 is products, an eighth is P and dS, an eighth cutting.
"""
# mypy: allow-untyped-defs

from __future__ import annotations

import math

import numpy as np

from tinygrad_tf.kernels import _matrix_tiles as matrix
from tinygrad_tf.kernels import precision
from tinygrad_tf.kernels._attention_layout import arrays_like, place, rows_of
from tinygrad_tf.kernels._attention_tiles_backward import attend_heads_backward
from tinygrad_tf.kernels._attention_tiles_forward import attend_heads
from tinygrad_tf.kernels._attention_tiles_operands import WIDTH
from tinygrad_tf.kernels._half import is_bfloat16
from tinygrad_tf.kernels.cast import cast

FLOAT32 = np.dtype(np.float32)
# The largest magnitudes of operands, as bits of float32: what is multiplied twice stays a normal number, and finite.
SMALLEST, LARGEST = (int(np.array(2.0**power, np.float32).view(np.int32)) for power in (-40, 30))
LONGEST = 4096  # keys whose pieces are still read faster than vector registers multiply
LEAST_USED = 0.7  # of the columns
WORTHWHILE = 8192  # length times head size, in float32; below, cutting takes what the tiles save
SMALLEST_BLOCK = 1 << 20  # multiply-adds
BLOCKS, UNITS = 64, 8  # blocks at most, and units at least
PART, LONGEST_PART = 128, 1024  # keys of a unit of the backward pass: more would not stay in the second-level cache


def takes(query, key, value, scale):
    """Whether the tiles are there, can do it, and are faster: by types and sizes alone."""
    dtype = query.dtype
    if not matrix.AVAILABLE or key.dtype != dtype or value.dtype != dtype:
        return False
    if not (dtype == FLOAT32 or is_bfloat16(dtype)) or not 0 < scale < 1e9:
        return False
    (Tq, D), (Tk, Dv) = query.shape[2:], value.shape[2:]
    shortest, narrowest = min(Tq, Tk), min(D, Dv)
    if shortest < WIDTH or Tk > LONGEST or not query.size:
        return False
    if any(size < LEAST_USED * _up(size) for size in (D, Dv)):
        return False
    return dtype != FLOAT32 or shortest * narrowest >= WORTHWHILE


def attention(query, key, value, is_causal, scale):
    """(out, logsumexp) as `attention.attention` gives them; None if numbers are too large or too small."""
    (B, H, Tq, D), (_, Hk, Tk, Dv) = query.shape, value.shape
    numbers, words = _kinds(query.dtype)
    memory, logsumexp = np.empty((B, Tq, H, Dv), query.dtype), np.empty((B, H, Tq), np.float32)
    parts = max(1, min(math.ceil(UNITS / (B * H)), Tq // PART))
    each, blocks = _cut(B * H * parts, Tq * Tk * (D + Dv) // parts)
    found = np.zeros((blocks, 3), np.int64)
    (query, query_place), (key, key_place), (value, value_place) = map(place, (query, key, value))
    attend_heads(
        blocks, each, B * H * parts, parts, (H, H // Hk, Tq, Tk, D, Dv), query_place, key_place, value_place,
        memory.view(numbers.dtype).ravel(), (Tq * H * Dv, Dv, H * Dv), logsumexp.ravel(), numbers, words,
        bool(is_causal), np.float32(scale), found,
    )  # fmt: skip
    return (memory.transpose(0, 2, 1, 3), logsumexp) if _fits(found) else None


def attention_backward(g, query, key, value, out, logsumexp, is_causal, scale):
    """(dquery, dkey, dvalue) as `attention.attention_backward` gives them; None if numbers are too large or small."""
    (B, H, Tq, D), (_, Hk, Tk, Dv) = query.shape, value.shape
    numbers, words = _kinds(query.dtype)
    parts = max(min(math.ceil(UNITS / (B * Hk)), Tk // PART), math.ceil(Tk / LONGEST_PART))
    part_keys = _up(math.ceil(Tk / parts))
    parts = math.ceil(Tk / part_keys)
    each, blocks = _cut(B * Hk * parts, 3 * H // Hk * Tq * Tk * (D + Dv) // parts)
    gradients = arrays_like(query, key, value)
    shares = np.empty((parts, B, Tq, H, D), np.float32) if parts > 1 else None
    dquery, dkey, dvalue = ((x.view(numbers.dtype), row) for x, row in map(rows_of, gradients))
    found = np.zeros((blocks, 4), np.int64)
    places = [place(x) for x in (g, query, key, value, out)]
    attend_heads_backward(
        blocks, each, B * Hk * parts, parts, part_keys, (B, H, H // Hk, Tq, Tk, D, Dv), *(where for _, where in places),
        np.asarray(logsumexp, np.float32).ravel(), numbers, words, bool(is_causal), np.float32(scale),
        dquery if shares is None else rows_of(shares[0]), dkey, dvalue, found,
    )  # fmt: skip
    if not _fits(found):
        return None
    if shares is not None:
        gradients[0][...] = cast(shares.sum(0), query.dtype)
    return tuple(x.transpose(0, 2, 1, 3) for x in gradients)


def _kinds(dtype):
    """An array of the type that numbers are read as, and one of the words of their pieces."""
    if dtype == FLOAT32:
        return np.empty(0, np.float32), np.empty(0, matrix.WORDS[precision.pieces()])
    return np.empty(0, np.uint16), np.empty(0, matrix.WORDS[1])


def _up(size):
    return math.ceil(size / WIDTH) * WIDTH


def _cut(units, work):
    """(units of a block, blocks): by size alone, so that the results do not depend on the threads."""
    each = max(1, SMALLEST_BLOCK // work, math.ceil(units / BLOCKS))
    return each, math.ceil(units / each)


def _fits(found):
    return all(SMALLEST <= largest <= LARGEST or not largest for largest in found.max(0).tolist())
