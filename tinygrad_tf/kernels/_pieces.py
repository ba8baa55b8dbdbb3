"""Products of float32 on matrix tiles: each number in three pieces of bfloat16, six products of pieces.

A float32 x has 24 bits, a bfloat16 8, and both have the same exponents. Take x0 = x rounded to bfloat16, x1 = x - x0
rounded, x2 = what is left: x0 + x1 + x2 is x, |x1| <= 2^-8 |x| and |x2| <= 2^-16 |x|. Of the nine products of the
pieces of x and y, six are summed, in float32:

    x2 y0 + x1 y0 + x1 y1 + x0 y1 + x0 y2 + x0 y0

The other three are together at most 2^-23 |x y|, and mostly far below what the rounded sums lose. The tiles add 32
products of pieces before they round into C, so the result is closer to the exact one than that of vector registers:
mean error 8.6e-9 of |A| @ |B| against 2.0e-8 at 768 x 128 x 512. Whole numbers, and copies (a single 1 in a row), come
out exactly.

The tiles take numbers below 2^-126 for zero. So the largest element of an operand must lie in 2^-40 ... 2^60 (or all
are zero), which also finds infinity and NaN; other products go to the vector registers. Elements far below that lose
their smaller pieces: below 2^-110 the third, below 2^-118 the second, below 2^-126 all. Beside larger elements of the
same row (of A; column of B) that is below the rounding of the sum. But a row that is as small as a whole, in an operand
whose largest element is not, comes out with an error of 5e-4 at 2^-118 and of an eighth at 2^-126 (of |A| @ |B|), and
as zero below. To look for that would cost a tenth of all splitting; where it matters, scale the row, or do without
tiles (`TINYGRAD_TF_MATRIX_TILES=0`).

How. A sum over the depth may be taken in any order, so a word of a tile pairs element k with k + 16: no shuffles.
Operands that lie the other way round are transposed on the way. `_pieces_product.py` says which products come here and
how they are cut, `_pieces_blocks.py` multiplies by blocks of C, and `_pieces_deep.py` where the depth is what is long.

Cost, on a processor with AVX-512 and AMX: splitting an element 0.2 ns from cache and 0.4 from memory; a multiply-add
0.0045 to 0.006 ns (450 to 330 GFLOP/s a core: a warm chip is slowed down, and random bits cost more than zeros).

Numbers that are bfloat16 as they are (mixed precision) take one piece and one product; `whole` says so. Those of
float32 take fewer pieces if the user wants it (`precision.py`): two, and the products x1 y0 + x0 y0 + x0 y1, keep about
16 bits (mean error 4.9e-7 of |A| @ |B| at 768 x 128 x 512, in 152 microseconds instead of 207), one bfloat16's 8
(2.6e-4, in 88).
"""
# mypy: allow-untyped-defs

from __future__ import annotations

import numpy as np
from numba import types
from numpy.typing import NDArray

from tinygrad_tf.kernels._matrix_tiles import (
    PIECE,
    PIECES,
    STEP,
    TILE,
    number_at,
    pieces_in,
    split_rows,
)
from tinygrad_tf.kernels._part import part
from tinygrad_tf.kernels._tile_product import PRODUCTS, make_tile_product
from tinygrad_tf.kernels._tiles import transpose_square

PAIR = 2 * TILE

# Each of these is compiled into the kernels: few of them, or the first start takes twice as long.
square_product, single_product = make_tile_product(2, 2), make_tile_product(1, 1)


def in_pieces(x: NDArray[np.float32], count: int = PIECES) -> tuple[NDArray[np.float32], ...]:
    """The plain formula of the pieces, as float32: each has at most 8 bits, and the sum of three is x.

    >>> import numpy as np
    >>> [piece.item() for piece in in_pieces(np.float32([1 + 2**-9 + 2**-20]))]
    [1.0, 0.001953125, 9.5367431640625e-07]
    """
    pieces = []
    for _ in range(min(count, PIECES - 1)):
        bits = np.ascontiguousarray(x).view(np.uint32)
        pieces.append(((bits + np.uint32(0x8000)) & np.uint32(0xFFFF0000)).view(np.float32))
        x = x - pieces[-1]
    return (*pieces, x)[:count]


def reference(a: NDArray[np.float32], b: NDArray[np.float32], count: int = PIECES) -> NDArray[np.float32]:
    """The plain formula of the product, on float32."""
    left, right = in_pieces(a, count), in_pieces(b, count)
    result: NDArray[np.float32] = sum(np.matmul(left[i], right[j]) for i, j in PRODUCTS[count])
    return result


@part(types.int64)
def split(n, K, A, a0, a_row, a_col, by_depth, packed, p0, size, scratch, s0):
    """n rows of A, K deep, in pieces, with zeros up to whole tiles; returns the largest magnitude as bits.

    Depth k of a group of 16 rows begins at p0 + group * size + k / 32 * (words of a step). A row of a tile is a row of
    A or, `by_depth`, elements k and k + 16 of all rows (that is how B is read).
    """
    largest = 0
    groups, steps = (n + TILE - 1) // TILE, (K + STEP - 1) // STEP
    for t in range(groups * steps):
        # In the order of memory: along the rows where these are contiguous, else along the depth.
        group, step = (t % groups, t // groups) if a_row == 1 else (t // steps, t % steps)
        height, depth = min(TILE, n - group * TILE), min(STEP, K - step * STEP)
        source, target = (
            a0 + group * TILE * a_row + step * STEP * a_col,
            p0 + group * size + step * pieces_in(packed) * PIECE,
        )
        found = split_step(height, depth, A, source, a_row, a_col, by_depth, packed, target, scratch, s0)
        largest = max(largest, found)
    return largest


@part(types.int64)
def split_step(n, K, A, a0, a_row, a_col, by_depth, packed, p0, scratch, s0):
    """Three tiles of pieces of n <= 16 rows, K <= 32 deep."""
    whole = n == TILE and K == STEP
    if by_depth:
        if whole and a_row == 1:
            return split_rows(A, a0, a_col, TILE * a_col, packed, p0)
        if whole and a_col == 1:  # scratch[k, row]
            transpose_square(A, a0, a_row, scratch, s0, TILE)
            transpose_square(A, a0 + TILE, a_row, scratch, s0 + PIECE, TILE)
        else:
            gather(K, STEP, n, TILE, A, a0, a_col, a_row, scratch, s0)
        return split_rows(scratch, s0, TILE, PIECE, packed, p0)
    if whole and a_col == 1:
        return split_rows(A, a0, a_row, TILE, packed, p0)
    if whole and a_row == 1:  # scratch[row, k]
        transpose_square(A, a0, a_col, scratch, s0, STEP)
        transpose_square(A, a0 + TILE * a_col, a_col, scratch, s0 + TILE, STEP)
    else:
        gather(n, TILE, K, STEP, A, a0, a_row, a_col, scratch, s0)
    return split_rows(scratch, s0, STEP, TILE, packed, p0)


@part()
def gather(m, rows, n, columns, A, a0, a_row, a_col, scratch, s0):
    """scratch[rows, columns] = A[m, n] and zeros."""
    for i in range(rows):
        for j in range(columns):
            scratch[s0 + i * columns + j] = number_at(A, a0 + i * a_row + j * a_col) if i < m and j < n else 0.0


@part()
def put_ragged(m, n, steps, A, a0, B, b0, size, C, c0, c_row, add, D, d0, d_row, scratch, s0):
    """C[m, n] = A @ B (+ D) for any m and n up to 32, tile by tile, by way of `scratch`."""
    if add:
        for i in range(m):
            for j in range(n):
                scratch[s0 + i * PAIR + j] = D[d0 + i * d_row + j]
    for i in range(0, m, TILE):
        for j in range(0, n, TILE):
            x0, y0, t0 = a0 + i // TILE * size, b0 + j // TILE * size, s0 + i * PAIR + j
            single_product(steps, A, x0, size, B, y0, size, scratch, t0, PAIR, add, scratch, t0, PAIR, C, 0, 0, 0)
    for i in range(m):
        for j in range(n):
            C[c0 + i * c_row + j] = scratch[s0 + i * PAIR + j]
