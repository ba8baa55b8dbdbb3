"""What both directions of attention share: operands, products of blocks in cache, and the scores of one block.

The callers' arrays come as (address, strides of batch, head and row), so that no layout is copied and one compiled
version serves all. Inside, an operand is a tuple (flat array, start, row stride), its rows contiguous.
"""
# mypy: allow-untyped-defs

from __future__ import annotations

import numpy as np

from tinygrad_tf.kernels import _tiles as tiles
from tinygrad_tf.kernels._attention_panel import hide
from tinygrad_tf.kernels._attention_rows import add_mask, apply_bools, bytes_at, memory_at
from tinygrad_tf.kernels._compile import kernel
from tinygrad_tf.kernels._part import part
from tinygrad_tf.kernels._tiles import PANEL, lanes
from tinygrad_tf.kernels._vector import make_tile

# Panels, blocks and heads are mostly multiples of 8: tiles of 8 rows, or of 6 and 4 where fewer registers are.
HEIGHT, LOW_HEIGHT = min(8, tiles.HEIGHT), 4
tile = make_tile(HEIGHT, PANEL, ragged_rows=False, ragged_columns=False)
low_tile = make_tile(LOW_HEIGHT, PANEL, ragged_rows=False, ragged_columns=False)
ragged_tile = make_tile(HEIGHT, PANEL, ragged_rows=True, ragged_columns=True)

KEYS = 128  # of a block: their scores, 16 KiB in float32, stay in the first-level cache
UNLIMITED = 1 << 60  # a window that hides nothing
NO_MASK, BOOL_MASK, FLOAT_MASK = 0, 1, 2


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


@part()
def product(M, N, K, A, a0, a_row, a_col, B, b0, b_row, C, c0, c_row, add, careful, low, high):
    """C = A @ B (+ C), where rows of B and C are contiguous; `careful` as below.

    A[i, k] may be taken for 0 unless i + low <= k <= i + high: on the diagonal of causal attention, half of it is.
    """
    width = PANEL * lanes(A)
    if careful:
        careful_product(M, N, K, A, a0, a_row, a_col, B, b0, b_row, C, c0, c_row, 1, add)
        return
    for j in range(0, N, width):
        n, i = min(width, N - j), 0
        while i < M:
            m = min(HEIGHT, M - i)
            if (M - i) % HEIGHT != 0 and m >= LOW_HEIGHT:
                m = LOW_HEIGHT
            k = min(max(0, i + low), K - 1)
            depth = max(1, min(K, i + m + high) - k)
            a, b, c = a0 + i * a_row + k * a_col, b0 + k * b_row + j, c0 + i * c_row + j
            if n == width and m == HEIGHT:
                tile(depth, m, n, A, a, a_row, a_col, B, b, b_row, C, c, c_row, add, C, c, c_row)
            elif n == width and m == LOW_HEIGHT:
                low_tile(depth, m, n, A, a, a_row, a_col, B, b, b_row, C, c, c_row, add, C, c, c_row)
            else:
                ragged_tile(depth, m, n, A, a, a_row, a_col, B, b, b_row, C, c, c_row, add, C, c, c_row)
            i += m


@part()
def careful_product(M, N, K, A, a0, a_row, a_col, B, b0, b_row, C, c0, c_row, c_col, add):
    """C = A @ B (+ C); where A is 0 nothing is added, even if B is NaN or infinite."""
    for i in range(M):
        for j in range(N):
            total = C[c0 + i * c_row + j * c_col] if add else C.dtype.type(0)
            for k in range(K):
                weight = A[a0 + i * a_row + k * a_col]
                if weight != 0:
                    total += weight * B[b0 + k * b_row + j]
            C[c0 + i * c_row + j * c_col] = total


@part()
def scores(S, s0, packed, key, D, i0, rows, j0, n, mask, is_causal, window, slope):
    """S[j, q] = the score of query i0 + q for key j0 + j; -inf where it may not look. `key` begins with key j0."""
    width = PANEL * lanes(S)
    K, k0, k_row = key
    product(n, width, D, K, k0, k_row, 1, S, packed, width, S, s0, width, False, False, -UNLIMITED, UNLIMITED)
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


@part()
def scattered_mask(S, s0, rows, n, address, kind, start, row, column):
    """A mask whose rows are not contiguous, one element after the other."""
    width = PANEL * lanes(S)
    bools, numbers = bytes_at(address), memory_at(address, S)
    for j in range(n):
        for q in range(rows):
            at = start + q * row + j * column
            if (bools[at] == 0) if kind == BOOL_MASK else (numbers[at] == -np.inf):
                S[s0 + j * width + q] = -np.inf
            elif kind == FLOAT_MASK:
                S[s0 + j * width + q] += numbers[at]
