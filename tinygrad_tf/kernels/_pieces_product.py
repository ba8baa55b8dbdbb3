"""Which products go to the matrix tiles, and how they are cut: by size and layout alone."""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tinygrad_tf.kernels import precision
from tinygrad_tf.kernels._matrix_tiles import STEP, TILE
from tinygrad_tf.kernels._matrix_tiles import WORDS as WORD_TYPES
from tinygrad_tf.kernels._pieces import PAIR
from tinygrad_tf.kernels._pieces_blocks import multiply
from tinygrad_tf.kernels._pieces_deep import multiply_deep
from tinygrad_tf.kernels._pieces_linear import multiply_gradients

LARGEST = int(np.array(2.0**60, np.float32).view(np.int32))  # the bits of positive floats are ordered as they are
SMALLEST = int(np.array(2.0**-40, np.float32).view(np.int32))
DEPTH = 1536  # of a stretch, times the pieces of a number, after which C is written, to be read again for the next
BLOCKS = 8
COLUMNS = 256  # of a block of a large product: 256 x 512 of B in pieces are 768 KiB
LEAST_ROWS = 512  # of a block of a large product, or half of all: the columns of B that it fetches serve so many
SHARED = 1 << 27  # multiply-adds from which B is split once, for all blocks
MOST_ROWS, MOST_COLUMNS = 512, 512  # of a block of C for a long depth: 1 MiB
STRETCH = 64  # of a long depth, after which the product is added to C
WORTHWHILE = 1 << 21  # multiply-adds
NARROWEST = 2 * PAIR  # rows and columns
LEAST_USED = 0.8  # of the tiles of C: whole ones cost as much as full ones
LEAST_DEPTH = 0.65  # of a tile's depth; 65 of 96 is as fast as on vector registers, whose kernels need not be compiled

WORDS = {pieces: np.empty(0, dtype) for pieces, dtype in WORD_TYPES.items()}
NO_SUMS = np.empty(0, np.float32)


class Cut(NamedTuple):
    """Blocks of rows x columns of C; depth of a stretch; units of B to split before, of `each` steps or groups."""

    rows: int
    columns: int
    blocks: int
    depth: int
    units: int
    each: int


@functools.lru_cache(4096)
def cut(M: int, N: int, K: int, rows_of_b: bool, pieces: int = 3) -> Cut | None:
    """How a product is cut; None for one that vector registers do as fast. rows_of_b: B has contiguous rows."""
    work = M * N * K
    if work < WORTHWHILE or min(M, N) < NARROWEST:
        return None
    used = M * N / (math.ceil(M / TILE) * TILE * math.ceil(N / TILE) * TILE)
    used_depth = K / (math.ceil(K / STEP) * STEP)
    if used < LEAST_USED or used_depth < LEAST_DEPTH:
        return None
    depth = math.ceil(K / math.ceil(K / (DEPTH // pieces)) / STEP) * STEP
    if work < SHARED:
        wanted = 2 if work < SHARED // 2 else 4
        choices = []
        for across in range(1, wanted + 1):
            rows = math.ceil(M / math.ceil(wanted / across) / PAIR) * PAIR
            columns = math.ceil(N / across / PAIR) * PAIR
            down, across = math.ceil(M / rows), math.ceil(N / columns)
            choices.append((M * across + N * down, rows, columns, down * across))
        return Cut(*min(choices)[1:], depth, 0, 0)
    rows = math.ceil(max(M / BLOCKS, min(LEAST_ROWS, M / 2)) / PAIR) * PAIR
    down = math.ceil(M / rows)
    columns = math.ceil(N / max(math.ceil(BLOCKS / down), math.ceil(N / COLUMNS)) / PAIR) * PAIR
    parts = depth // STEP if rows_of_b else math.ceil(N / TILE)
    each = math.ceil(parts / (2 * BLOCKS))
    return Cut(rows, columns, down * math.ceil(N / columns), depth, math.ceil(parts / each), each)


def in_one_stretch(K: int) -> bool:
    """Whether a product of whole numbers is summed up before C is written, which may then be rounded at once."""
    return K <= DEPTH


class DeepCut(NamedTuple):
    """Blocks of rows x columns of C; parts of the depth, `each` long."""

    rows: int
    columns: int
    blocks: int
    parts: int
    each: int


@functools.lru_cache(4096)
def cut_deep(M: int, N: int, K: int) -> DeepCut | None:
    """How a product A.T @ B is cut if its depth is what is long; None if it is to be cut as others are."""
    if cut(M, N, K, True) is None or max(M, N) >= K:
        return None
    work = M * N * K
    wanted = 2 if work < SHARED // 2 else 4 if work < SHARED else BLOCKS
    rows = math.ceil(M / math.ceil(M / MOST_ROWS) / PAIR) * PAIR
    columns = math.ceil(N / math.ceil(N / MOST_COLUMNS) / PAIR) * PAIR
    blocks = math.ceil(M / rows) * math.ceil(N / columns)
    parts = max(1, min(wanted // blocks, K // (2 * STRETCH)))
    each = math.ceil(K / parts / STEP) * STEP
    return DeepCut(rows, columns, blocks, math.ceil(K / each), each)


def multiply_in_pieces(
    M: int, N: int, K: int, A: NDArray[Any], a0: int, a_row: int, a_col: int, B: NDArray[Any], b0: int, b_row: int,
    b_col: int, C: NDArray[Any], has_bias: bool, bias: NDArray[Any], whole: bool,
) -> bool:  # fmt: skip
    """C[M, N] = A[M, K] @ B[K, N] (+ bias); False if the numbers do not suit, and C is then to be computed anew.

    whole: every number is a bfloat16 as it is, so that it needs only one piece, and one product. A and B may then be
    the bits of bfloat16, in uint16, and so may C if `in_one_stretch`.
    """
    pieces = 1 if whole else precision.pieces()
    blocks = cut(M, N, K, b_col == 1, pieces)
    if blocks is None:
        return False
    words = WORDS[pieces]
    may_be_deep = a_row == 1 and b_col == 1 and not has_bias and C.dtype == np.float32
    deep = cut_deep(M, N, K) if may_be_deep else None
    if deep is not None:
        found = multiply_deep(M, N, K, A, a0, a_col, B, b0, b_row, C, NO_SUMS, words, *deep, STRETCH)
    else:
        found = multiply(M, N, K, A, a0, a_row, a_col, B, b0, b_row, b_col, C, has_bias, bias, words, *blocks)
    return suits(*found)


def linear_in_pieces(x: NDArray[Any], weight: NDArray[Any], bias: NDArray[Any] | None, y: NDArray[Any]) -> bool:
    """y = x @ weight.T + bias for contiguous x (M, K) and weight (N, K), as `multiply_in_pieces` makes it."""
    (M, K), N = x.shape, weight.shape[0]
    pieces = precision.pieces()
    blocks = cut(M, N, K, False, pieces)
    if blocks is None:
        return False
    addend = NO_SUMS if bias is None else bias
    found = multiply(
        M, N, K, x.ravel(), 0, K, 1, weight.ravel(), 0, 1, K, y.ravel(), bias is not None, addend, WORDS[pieces],
        *blocks,
    )  # fmt: skip
    return suits(*found)


def weight_gradient_in_pieces(
    g: NDArray[Any], x: NDArray[Any], need_sums: bool
) -> tuple[NDArray[np.float32], NDArray[np.float32]] | None:
    """g.T @ x and the sums of g's columns, for g (rows, M) and x (rows, N), both float32 or the bits of bfloat16, in
    uint16; None if that is to be done elsewhere."""
    (K, M), N = g.shape, x.shape[1]
    deep = cut_deep(M, N, K)
    if deep is None or not (g.flags.carray and x.flags.carray):
        return None
    c, sums = np.empty((M, N), np.float32), np.empty(deep.parts * M if need_sums else 0, np.float32)
    words = WORDS[1 if g.dtype == np.uint16 else precision.pieces()]
    found = multiply_deep(M, N, K, g.ravel(), 0, M, x.ravel(), 0, N, c.ravel(), sums, words, *deep, STRETCH)
    return (c, sums[:M]) if suits(*found) else None


def linear_gradients_in_pieces(
    g: NDArray[Any], x: NDArray[Any], weight: NDArray[Any], need_sums: bool
) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]] | None:
    """g @ weight, g.T @ x and the sums of g's columns, for g (M, N), x (M, K) and weight (N, K) of float32; None if
    they are to be made one by one."""
    (M, N), K = g.shape, x.shape[1]
    pieces = precision.pieces()
    blocks, deep = cut(M, K, N, True, pieces), cut_deep(N, K, M)
    if blocks is None or deep is None or not (g.flags.carray and x.flags.carray and weight.flags.carray):
        return None
    dx, dweight = np.empty((M, K), np.float32), np.empty((N, K), np.float32)
    sums = np.empty(deep.parts * N if need_sums else 0, np.float32)
    of_g, of_weight, of_x = multiply_gradients(
        M, N, K, g.ravel(), x.ravel(), weight.ravel(), dx.ravel(), dweight.ravel(), sums, WORDS[pieces], NO_SUMS,
        *blocks, *deep, STRETCH,
    )  # fmt: skip
    return (dx, dweight, sums[:N]) if suits(of_g, of_weight) and suits(of_g, of_x) else None


def suits(largest_a: int, largest_b: int) -> bool:
    """Whether operands with these largest magnitudes (as bits) are right in pieces."""
    return (SMALLEST <= largest_a <= LARGEST or not largest_a) and (SMALLEST <= largest_b <= LARGEST or not largest_b)
