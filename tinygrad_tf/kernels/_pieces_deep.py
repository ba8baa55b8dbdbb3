"""C[M, N] = A.T @ B in pieces (`_pieces`), of a depth that is long beside C: the gradient of a layer's weight.

A (K, M) and B (K, N) lie as a layer's gradient and its input do, with contiguous rows; K counts the rows of the batch.
The parallel blocks are parts of the depth, for blocks of C that stay in the second-level cache. Each block splits short
stretches of its part, of A and of B, and adds their product to C, or for all parts but the first to a C of their own.
So no number is split by two threads unless C is cut, and a thread reads the rows that it wrote in the loop before. Then
the parts are added up, always in the same order. On the way the sums of A's columns are taken: the gradient of a bias.

Cost: splitting an element of A or B 0.2 to 0.25 ns; the sums 0.05 ns.
Versions, GFLOP/s, two threads:

    512x128, 768 deep   384x1536, 16384 deep   1536x384, 16384 deep   384x384, 16384 deep
          288                  324                     409                    283    as `_pieces_blocks` does it
          250                  380                     390                    385    stretches of 192
          282                  430                     430                    425    stretches of 96 to 128
          290                  390                     415                            of 64
          260                  355                     356                    386    as before, in a slow hour
          330                  410                     410                    470    that hour, no references counted
          345                  420                     415                    470    stretches of 64, memory asked ahead

What is asked for ahead counts where operands come from memory: 512x128 then takes 340 instead of 395 us.

Tried without gain: splitting B ahead while the tiles multiply, as `_pieces_blocks` does with A, by strips of columns or
by stretches, with the narrower operand as A and C turned where needed (a fifth to a half slower): each number waits for
its memory then, and the tiles with it.
"""
# mypy: allow-untyped-defs

from __future__ import annotations

import numpy as np

from tinygrad_tf.kernels._compile import kernel
from tinygrad_tf.kernels._matrix_tiles import (
    PIECE,
    STEP,
    TILE,
    ask_for_row,
    close_tiles,
    number_at,
    open_tiles,
    pieces_in,
)
from tinygrad_tf.kernels._part import parallel_part, part
from tinygrad_tf.kernels._pieces import PAIR, put_ragged, split
from tinygrad_tf.kernels._scalar import widest_vectors
from tinygrad_tf.kernels._tile_product import make_tile_product
from tinygrad_tf.kernels._tiles import aligned

square_product = make_tile_product(2, 2, b_changes=True)
ADDED_AT_ONCE = 1 << 15  # elements of C in a block that adds up the parts


@parallel_part
def multiply_part(
    index, M, N, K, A, a0, a_row, B, b0, b_row, C, others, sums, words, rows, columns, blocks, each, depth,
    largest_a, largest_b,
):  # fmt: skip
    """One block of C, rows x columns, of one part of the depth; the part's C is C itself or lies among `others`."""
    number, block = divmod(index, blocks)
    across = (N + columns - 1) // columns
    top, left = block // across * rows, block % across * columns
    m, n = min(rows, M - top), min(columns, N - left)
    size = depth // STEP * pieces_in(words) * PIECE
    room_a, room_b = (m + TILE - 1) // TILE * size, (n + TILE - 1) // TILE * size
    pieces = np.empty(room_a + room_b + 16, words.dtype)
    scratch = np.empty(PAIR * PAIR + 16, C.dtype)
    s0, pieces_a = aligned(scratch), aligned(pieces)
    pieces_b = pieces_a + room_a
    D, d0 = C, top * N + left
    if number > 0:
        D, d0 = others, d0 + (number - 1) * M * N
    total = np.zeros(m if left == 0 and sums.size > 0 else 0, C.dtype)
    rows_sum = np.empty(total.size, C.dtype)
    found_a, found_b = 0, 0
    first, last = number * each, min(number * each + each, K)
    for k in range(first, last, depth):
        stretch = min(depth, last - k)
        x, y = a0 + k * a_row + top, b0 + k * b_row + left
        found_a = max(found_a, split(m, stretch, A, x, 1, a_row, False, pieces, pieces_a, size, scratch, s0))
        found_b = max(found_b, split(n, stretch, B, y, 1, b_row, True, pieces, pieces_b, size, scratch, s0))
        if total.size > 0:
            add_rows(stretch, A, x, a_row, total, rows_sum)
        add_product(
            m, n, stretch, pieces, pieces_a, pieces_b, size, D, d0, N, k > first, scratch, s0,
            min(depth, last - k - depth), A, x + depth * a_row, a_row, B, y + depth * b_row, b_row,
        )  # fmt: skip
    if total.size > 0:
        sums[number * M + top : number * M + top + m] = total
    largest_a[index], largest_b[index] = found_a, found_b


@part()
def add_product(
    m, n, K, pieces, a0, b0, size, C, c0, c_row, add, scratch, s0, rows_next, X, x0, x_row, Y, y0, y_row
):  # fmt: skip
    """C[m, n] = A @ B of operands in pieces, or C += A @ B; memory is asked for the next rows of both meanwhile."""
    products, done, asked = (m + PAIR - 1) // PAIR * ((n + PAIR - 1) // PAIR), 0, 0
    steps = (K + STEP - 1) // STEP
    open_tiles()
    for i in range(0, m, PAIR):
        for j in range(0, n, PAIR):
            x, y, c = a0 + i // TILE * size, b0 + j // TILE * size, c0 + i * c_row + j
            if i + PAIR <= m and j + PAIR <= n:
                square_product(steps, pieces, x, size, pieces, y, size, C, c, c_row, add, C, c, c_row, C, 0, 0, 0)
            else:
                height, width = min(PAIR, m - i), min(PAIR, n - j)
                put_ragged(height, width, steps, pieces, x, pieces, y, size, C, c, c_row, add, C, c, c_row, scratch, s0)
            done += 1
            while asked * products < done * rows_next:
                ask_for_row(X, x0 + asked * x_row, m)
                ask_for_row(Y, y0 + asked * y_row, n)
                asked += 1
    close_tiles()


@part()
def add_rows(K, A, a0, a_row, total, rows):
    """total += the sum of K rows of A, which are added up among themselves first."""
    widest_vectors()
    for i in range(total.size):
        rows[i] = 0
    for k in range(K):
        row = a0 + k * a_row
        for i in range(total.size):
            rows[i] += number_at(A, row + i)
    for i in range(total.size):
        total[i] += rows[i]


@parallel_part
def add_parts(index, C, others, parts):
    """A stretch of C += those of the other parts."""
    widest_vectors()
    first = index * ADDED_AT_ONCE
    last = min(first + ADDED_AT_ONCE, C.size)
    for number in range(parts - 1):
        other = number * C.size
        for i in range(first, last):
            C[i] += others[other + i]


@kernel
def multiply_deep(M, N, K, A, a0, a_row, B, b0, b_row, C, sums, words, rows, columns, blocks, parts, each, depth):
    """C = A.T @ B; returns the bits of the largest magnitudes of A and B.

    sums: empty, or `parts` times M numbers, of which the first M become the sums of A's columns.
    """
    others = np.empty((parts - 1) * M * N, C.dtype)
    largest_a, largest_b = np.zeros(parts * blocks, np.int64), np.zeros(parts * blocks, np.int64)
    multiply_part(
        parts * blocks, M, N, K, A, a0, a_row, B, b0, b_row, C, others, sums, words, rows, columns, blocks, each, depth,
        largest_a, largest_b,
    )  # fmt: skip
    if parts > 1:
        add_parts((C.size + ADDED_AT_ONCE - 1) // ADDED_AT_ONCE, C, others, parts)
        for i in range(M, sums.size):
            sums[i % M] += sums[i]
    return largest_a.max(), largest_b.max()
