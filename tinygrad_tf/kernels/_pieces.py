"""Products of float32 on matrix tiles: each number in three pieces of bfloat16, six products of pieces.

A float32 x has 24 bits, a bfloat16 8, and both have the same exponents. Take x0 = x rounded to bfloat16, x1 = x - x0
rounded, x2 = what is left: x0 + x1 + x2 is x, |x1| <= 2^-8 |x| and |x2| <= 2^-16 |x|. Of the nine products of the
pieces of x and y, six are summed, in float32, the smallest first:

    x0 y2 + x0 y1 + x1 y1 + x1 y0 + x2 y0 + x0 y0

The other three are together at most 2^-23 |x y|, and mostly far below what the rounded sums lose. The tiles add 32
products of pieces before they round into C, so the result is closer to the exact one than that of vector registers:
mean error 8.6e-9 of |A| @ |B| against 2.0e-8 at 768 x 128 x 512. Whole numbers, and copies (a single 1 in a row), come
out exactly.

The tiles take numbers below 2^-126 for zero. So the largest element of an operand must lie in 2^-40 ... 2^60 (or all
are zero), which also finds infinity and NaN; other products go to the vector registers. Within an operand, elements
below 2^-100 lose their last bits.

How. A block of C splits its columns of B, then strips of rows of A, into its second-level cache, and multiplies them. A
sum over the depth may be taken in any order, so a word of a tile pairs element k with k + 16: no shuffles. Operands
that lie the other way round are transposed on the way. In large products all of B is split once, by all threads. While
the tiles multiply a strip, the vector registers split the next one, if its rows are contiguous.

Cost, on a processor with AVX-512 and AMX: splitting an element 0.2 ns from cache and 0.4 from memory; a multiply-add
0.006 ns (330 GFLOP/s a core, 440 where all bits are zero: a warm chip is slowed down). Versions, GFLOP/s, two threads:

    NT 768x128x512   TN 512x768x128   NT 16384x384x1152   2048 cubed
         240              205               225                245      vector registers
         202              209               230                357      B split once for all, blocks of rows
         288              161               378                481      no call that counts references between two tiles
         339              260               290                353      each block splits what it needs
         380              260               450                440      so below 2^27 multiply-adds, above it B once
         410              260               490                450      the next strip is split while tiles multiply

Numbers that are bfloat16 as they are (mixed precision) take one piece and one product; `whole` says so.

Tried without gain: fetching the next columns of B ahead, gaps between groups, 192 or 384 rows in a strip.
"""
# mypy: allow-untyped-defs

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tinygrad_tf.kernels._compile import kernel, parallel
from tinygrad_tf.kernels._matrix_tiles import (
    PIECE,
    PIECES,
    PRODUCTS,
    STEP,
    TILE,
    WHOLE,
    close_tiles,
    make_tile_product,
    number_at,
    open_tiles,
    pieces_in,
    split_rows,
)
from tinygrad_tf.kernels._tiles import aligned, transpose_square

LARGEST = int(np.array(2.0**60, np.float32).view(np.int32))  # the bits of positive floats are ordered as they are
SMALLEST = int(np.array(2.0**-40, np.float32).view(np.int32))
PAIR = 2 * TILE
DEPTH = 512  # of a stretch, after which C is written, to be read again for the next
STRIP = 96  # rows of A in the second-level cache: 96 x 512 x 6 bytes
BLOCKS = 8
SHARED = 1 << 27  # multiply-adds from which B is split once, for all blocks
WORTHWHILE = 1 << 23  # multiply-adds
NARROWEST = 2 * PAIR  # rows and columns
LEAST_USED = 0.85  # of the tiles: whole ones cost as much as full ones

WORDS = np.empty(0, np.uint32), np.empty(0, WHOLE)

# Each of these is compiled into the kernel: few of them, or the first start takes twice as long.
square_product, single_product = make_tile_product(2, 2), make_tile_product(1, 1)
square_ahead_4, square_ahead_8 = (make_tile_product(2, 2, ahead) for ahead in (4, 8))


def in_pieces(x: NDArray[np.float32]) -> tuple[NDArray[np.float32], ...]:
    """The plain formula of the pieces, as float32: their sum is x, and each has at most 8 bits.

    >>> import numpy as np
    >>> [piece.item() for piece in in_pieces(np.float32([1 + 2**-9 + 2**-20]))]
    [1.0, 0.001953125, 9.5367431640625e-07]
    """
    pieces = []
    for _ in range(PIECES - 1):
        bits = np.ascontiguousarray(x).view(np.uint32)
        pieces.append(((bits + np.uint32(0x8000)) & np.uint32(0xFFFF0000)).view(np.float32))
        x = x - pieces[-1]
    return (*pieces, x)


def reference(a: NDArray[np.float32], b: NDArray[np.float32]) -> NDArray[np.float32]:
    """The plain formula of the product, on float32."""
    left, right = in_pieces(a), in_pieces(b)
    result: NDArray[np.float32] = sum(np.matmul(left[i], right[j]) for i, j in PRODUCTS)
    return result


@kernel
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


@kernel
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


@kernel
def gather(m, rows, n, columns, A, a0, a_row, a_col, scratch, s0):
    """scratch[rows, columns] = A[m, n] and zeros."""
    for i in range(rows):
        for j in range(columns):
            scratch[s0 + i * columns + j] = number_at(A, a0 + i * a_row + j * a_col) if i < m and j < n else 0.0


@parallel
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


@parallel
def multiply_blocks(
    index, M, N, K, A, a0, a_row, a_col, B, b0, b_row, b_col, packed, size, C, add, D, d_row,
    rows, columns, shared, largest_a, largest_b,
):  # fmt: skip
    """One block of C, rows x columns, over a stretch K of the depth: C = A @ B (+ D)."""
    down, across = divmod(index, (N + columns - 1) // columns)
    top, left = down * rows, across * columns
    bottom, right = min(top + rows, M), min(left + columns, N)
    steps = (K + STEP - 1) // STEP
    room_a, room_b = STRIP // TILE * size, 0 if shared else (right - left + TILE - 1) // TILE * size
    pieces = np.empty(room_b + 2 * room_a + 16, packed.dtype)
    scratch = np.empty(PAIR * PAIR + 16, C.dtype)
    s0, pieces_b = aligned(scratch), aligned(pieces)
    pieces_a, pieces_next = pieces_b + room_b, pieces_b + room_b + room_a
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
            # Along the rows of C, but where B is not in the second-level cache each part of it is used for all rows.
            i, j = (t % down * PAIR, t // down * PAIR) if shared else (t // across * PAIR, t % across * PAIR)
            m, n = min(PAIR, end - strip - i), min(PAIR, right - left - j)
            x0, y = pieces_a + i // TILE * size, y0 + j // TILE * size
            c0, d0 = (strip + i) * N + left + j, (strip + i) * d_row + left + j
            if m == PAIR and n == PAIR and rows_done < rows_next and ahead > 0:
                source = a0 + (end + rows_done) * a_row
                target = pieces_next + rows_done // TILE * size + rows_done % TILE * TILE
                found = put_and_split(
                    ahead, steps, pieces, x0, Y, y, size, C, c0, N, add, D, d0, d_row, A, source, a_row, target
                )
                found_a = max(found_a, found)
                rows_done += ahead
            elif m == PAIR and n == PAIR:
                square_product(steps, pieces, x0, size, Y, y, size, C, c0, N, add, D, d0, d_row, C, 0, 0, 0)
            else:
                put_ragged(m, n, steps, pieces, x0, Y, y, size, C, c0, N, add, D, d0, d_row, scratch, s0)
        close_tiles()
        pieces_a, pieces_next = pieces_next, pieces_a
    largest_a[index] = max(largest_a[index], found_a)
    largest_b[index] = max(largest_b[index], found_b)


@kernel
def rows_ahead(rows, products):
    """How many rows of the next strip are split during each product of tiles: 4 or 8, or 0 if there are none."""
    if rows == 0:
        return 0
    return 4 if 4 * products >= rows else 8


@kernel
def put_and_split(ahead, steps, A, a0, B, b0, size, C, c0, c_row, add, D, d0, d_row, S, s0, s_row, p0):
    """C[32, 32] = A @ B (+ D), and the next rows of A's source are split meanwhile."""
    if ahead == 4:
        return square_ahead_4(steps, A, a0, size, B, b0, size, C, c0, c_row, add, D, d0, d_row, S, s0, s_row, p0)
    return square_ahead_8(steps, A, a0, size, B, b0, size, C, c0, c_row, add, D, d0, d_row, S, s0, s_row, p0)


@kernel
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


class Cut(NamedTuple):
    """Blocks of rows x columns of C; depth of a stretch; units of B to split before, of `each` steps or groups."""

    rows: int
    columns: int
    blocks: int
    depth: int
    units: int
    each: int


@functools.lru_cache(4096)
def cut(M: int, N: int, K: int, rows_of_b: bool) -> Cut | None:
    """How a product is cut; None for one that vector registers do as fast. rows_of_b: B has contiguous rows."""
    work = M * N * K
    used = work / (math.ceil(M / TILE) * TILE * math.ceil(N / TILE) * TILE * math.ceil(K / STEP) * STEP)
    if work < WORTHWHILE or used < LEAST_USED or min(M, N) < NARROWEST:
        return None
    depth = math.ceil(K / math.ceil(K / DEPTH) / STEP) * STEP
    if work < SHARED:
        wanted = 2 if work < SHARED // 2 else 4
        choices = []
        for across in range(1, wanted + 1):
            rows = math.ceil(M / math.ceil(wanted / across) / PAIR) * PAIR
            columns = math.ceil(N / across / PAIR) * PAIR
            down, across = math.ceil(M / rows), math.ceil(N / columns)
            choices.append((M * across + N * down, rows, columns, down * across))
        return Cut(*min(choices)[1:], depth, 0, 0)
    rows = max(PAIR, math.ceil(M / BLOCKS / PAIR) * PAIR)
    down = math.ceil(M / rows)
    columns = math.ceil(N / math.ceil(BLOCKS / down) / PAIR) * PAIR
    parts = depth // STEP if rows_of_b else math.ceil(N / TILE)
    each = math.ceil(parts / (2 * BLOCKS))
    return Cut(rows, columns, down * math.ceil(N / columns), depth, math.ceil(parts / each), each)


@kernel
def multiply(
    M, N, K, A, a0, a_row, a_col, B, b0, b_row, b_col, C, add, bias, words, rows, columns, blocks, depth, units, each
):  # fmt: skip
    """C = A @ B (+ bias); returns the bits of the largest magnitudes of A and B. words: an array like those to use."""
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
        add, D, d_row = True, C, N
    return largest_a.max(), largest_b.max()


def multiply_in_pieces(
    M: int, N: int, K: int, A: NDArray[Any], a0: int, a_row: int, a_col: int, B: NDArray[Any], b0: int, b_row: int,
    b_col: int, C: NDArray[Any], has_bias: bool, bias: NDArray[Any], whole: bool,
) -> bool:  # fmt: skip
    """C[M, N] = A[M, K] @ B[K, N] (+ bias); False if the numbers do not suit, and C is then to be computed anew.

    whole: every number is a bfloat16 as it is, so that it needs only one piece, and one product. A and B may then be
    the bits of bfloat16, in uint16.
    """
    blocks = cut(M, N, K, b_col == 1)
    if blocks is None:
        return False
    found = multiply(M, N, K, A, a0, a_row, a_col, B, b0, b_row, b_col, C, has_bias, bias, WORDS[whole], *blocks)
    return all(SMALLEST <= largest <= LARGEST or not largest for largest in found)
