"""C[M, N] = A[M, K] @ B[K, N] in pieces (`_pieces`), by blocks of C: for operands of any layout and depth.

A block of C splits its columns of B, then strips of rows of A, into its second-level cache, and multiplies them. In
large products all of B is split once, by all threads. While the tiles multiply a strip, the vector registers split the
next one, if its rows are contiguous.

Versions, GFLOP/s, two threads:

    NT 768x128x512   NT 16384x384x1152   2048 cubed
         240              225                245      vector registers
         202              230                357      B split once for all, blocks of rows
         288              378                481      no call that counts references between two tiles
         339              290                353      each block splits what it needs
         380              450                440      so below 2^27 multiply-adds, above it B once
         410              490                450      the next strip is split while tiles multiply
                          555                470      blocks of 256 columns, whose B stays in the second-level cache
                                             505      and of no less than 512 rows (1024 cubed: 390 and 475)

Tried without gain: fetching the next columns of B ahead, gaps between groups, 192 or 384 rows in a strip; depths of 64
to 192 at a time, so that 32 columns of B stay in the first-level cache.
"""
# mypy: allow-untyped-defs

from __future__ import annotations

import numpy as np
from numba import types

from tinygrad_tf.kernels._compile import kernel
from tinygrad_tf.kernels._half import floats, is_half
from tinygrad_tf.kernels._half_rows import store_rows
from tinygrad_tf.kernels._matrix_tiles import PIECE, STEP, TILE, close_tiles, open_tiles, pieces_in
from tinygrad_tf.kernels._part import parallel_part, part
from tinygrad_tf.kernels._pieces import PAIR, put_ragged, split, square_product
from tinygrad_tf.kernels._tile_product import make_tile_product
from tinygrad_tf.kernels._tiles import aligned

STRIP = 96  # rows of A in the second-level cache: 96 x 512 x 6 bytes
square_ahead_4, square_ahead_8 = (make_tile_product(2, 2, ahead) for ahead in (4, 8))


@parallel_part
def split_b(index, N, K, B, b0, b_row, b_col, packed, size, each, largest):
    """A unit of B: `each` steps of its depth if its rows are contiguous, else `each` groups of 16 columns."""
    scratch = np.empty(PAIR * PAIR + 16, np.float32)
    j, n, k, depth = 0, N, 0, K
    if b_col == 1:
        k = index * each * STEP
        depth = min(each * STEP, K - k)
    else:
        j = index * each * TILE
        n = min(each * TILE, N - j)
    source, target = (
        b0 + k * b_row + j * b_col,
        aligned(packed) + j // TILE * size + k // STEP * pieces_in(packed) * PIECE,
    )
    found = split(n, depth, B, source, b_col, b_row, True, packed, target, size, scratch, aligned(scratch))
    largest[index] = max(largest[index], found)


@parallel_part
def multiply_blocks(
    index, M, N, K, A, a0, a_row, a_col, B, b0, b_row, b_col, packed, size, C, add, D, d_row,
    rows, columns, shared, largest_a, largest_b,
):  # fmt: skip
    """One block of C, rows x columns, over a stretch K of the depth: C = A @ B (+ D). A C of bfloat16 is made tile by
    tile in `scratch`."""
    down, across = divmod(index, (N + columns - 1) // columns)
    top, left = down * rows, across * columns
    bottom, right = min(top + rows, M), min(left + columns, N)
    steps = (K + STEP - 1) // STEP
    room_a, room_b = STRIP // TILE * size, 0 if shared else (right - left + TILE - 1) // TILE * size
    pieces = np.empty(room_b + 2 * room_a + 16, packed.dtype)
    scratch, made = np.empty(PAIR * PAIR + 16, D.dtype), np.empty(PAIR * PAIR + 16 if is_half(C) else 0, D.dtype)
    s0, pieces_b = aligned(scratch), aligned(pieces)
    pieces_a, pieces_next = pieces_b + room_b, pieces_b + room_b + room_a
    T, made0 = floats(C, made), aligned(made)
    Y, y0 = packed, aligned(packed) + left // TILE * size
    found_a, found_b = 0, 0
    if not shared:
        Y, y0 = pieces, pieces_b
        found_b = split(right - left, K, B, b0 + left * b_col, b_col, b_row, True, pieces, y0, size, scratch, s0)
    rows_done = 0  # of the strip that begins
    for strip in range(top, bottom, STRIP):
        end = min(strip + STRIP, bottom)
        if rows_done < end - strip:
            begin = rows_done // TILE * TILE
            source, target = a0 + (strip + begin) * a_row, pieces_a + begin // TILE * size
            found = split(end - strip - begin, K, A, source, a_row, a_col, False, pieces, target, size, scratch, s0)
            found_a = max(found_a, found)
        across, down = (right - left + PAIR - 1) // PAIR, (end - strip + PAIR - 1) // PAIR
        rows_next, rows_done = min(end + STRIP, bottom) - end, 0
        ahead = rows_ahead(rows_next, across * down) if a_col == 1 and K % STEP == 0 and rows_next % TILE == 0 else 0
        open_tiles()
        for t in range(across * down):
            i, j = t % down * PAIR, t // down * PAIR  # columns of B are used for all rows while they are close
            m, n = min(PAIR, end - strip - i), min(PAIR, right - left - j)
            x0, y = pieces_a + i // TILE * size, y0 + j // TILE * size
            c0, d0 = (strip + i) * N + left + j, (strip + i) * d_row + left + j
            t0, t_row = (made0, PAIR) if is_half(C) else (c0, N)
            if m == PAIR and n == PAIR and rows_done < rows_next and ahead > 0:
                source = a0 + (end + rows_done) * a_row
                target = pieces_next + rows_done // TILE * size + rows_done % TILE * TILE
                found = put_and_split(
                    ahead, steps, pieces, x0, Y, y, size, T, t0, t_row, add, D, d0, d_row, A, source, a_row, target
                )
                found_a = max(found_a, found)
                rows_done += ahead
            elif m == PAIR and n == PAIR:
                square_product(steps, pieces, x0, size, Y, y, size, T, t0, t_row, add, D, d0, d_row, T, 0, 0, 0)
            else:
                put_ragged(m, n, steps, pieces, x0, Y, y, size, T, t0, t_row, add, D, d0, d_row, scratch, s0)
            if is_half(C):
                store_rows(m, n, T, t0, PAIR, C, c0, N)
        close_tiles()
        pieces_a, pieces_next = pieces_next, pieces_a
    largest_a[index] = max(largest_a[index], found_a)
    largest_b[index] = max(largest_b[index], found_b)


@part(types.int64)
def rows_ahead(rows, products):
    """How many rows of the next strip are split during each product of tiles: 4 or 8, or 0 if there are none."""
    if rows == 0:
        return 0
    return 4 if 4 * products >= rows else 8


@part(types.int64)
def put_and_split(ahead, steps, A, a0, B, b0, size, C, c0, c_row, add, D, d0, d_row, S, s0, s_row, p0):
    """C[32, 32] = A @ B (+ D), and the next rows of A's source are split meanwhile."""
    if ahead == 4:
        return square_ahead_4(steps, A, a0, size, B, b0, size, C, c0, c_row, add, D, d0, d_row, S, s0, s_row, p0)
    return square_ahead_8(steps, A, a0, size, B, b0, size, C, c0, c_row, add, D, d0, d_row, S, s0, s_row, p0)


@kernel
def multiply(
    M, N, K, A, a0, a_row, a_col, B, b0, b_row, b_col, C, add, bias, words, rows, columns, blocks, depth, units, each
):  # fmt: skip
    """C = A @ B (+ bias); returns the bits of the largest magnitudes of A and B. words: an array like those to use.

    C may be the bits of bfloat16 if the depth is one stretch.
    """
    size = depth // STEP * pieces_in(words) * PIECE
    shared = units > 0
    packed = np.empty(((N + TILE - 1) // TILE * size if shared else 0) + 16, words.dtype)
    largest_a, largest_b = np.zeros(blocks, np.int64), np.zeros(units + blocks, np.int64)
    D, d_row = bias, 0
    for k in range(0, K, depth):
        stretch = min(depth, K - k)
        if shared:
            split_b(units, N, stretch, B, b0 + k * b_row, b_row, b_col, packed, size, each, largest_b)
        multiply_blocks(
            blocks, M, N, stretch, A, a0 + k * a_col, a_row, a_col, B, b0 + k * b_row, b_row, b_col, packed, size,
            C, add, D, d_row, rows, columns, shared, largest_a, largest_b,
        )  # fmt: skip
        add, D, d_row = True, floats(C, bias), N
    return largest_a.max(), largest_b.max()
