"""Attention's operands for the matrix tiles: callers' rows and columns, cut into pieces and laid out as tiles."""
# mypy: allow-untyped-defs

from __future__ import annotations

from numba import types

from tinygrad_tf.kernels._half_rows import load_rows
from tinygrad_tf.kernels._matrix_tiles import PIECE, STEP, TILE, pieces_in, split_rows
from tinygrad_tf.kernels._part import part
from tinygrad_tf.kernels._tiles import transpose_square

WIDTH = 32  # queries of a panel; what the tiles multiply is a multiple of 32 in all directions
KEYS = 128  # of a block


@part(types.int64)
def cut(is_left, turned, height, D, A, a0, a_row, rows, wide, S, spare, packed, p0):
    """A[height, D], with zeros up to [rows, wide], in pieces; returns the bits of the largest magnitude.

    is_left: a left operand, in groups of 16 rows, and not a right one, in groups of 16 columns. turned: A transposed
    is. Each group is as many times a tile of each piece as its depth is long. S[spare ...] has room for A twice.
    """
    whole = wide == D and height == rows
    copy = spare + rows * wide
    if turned:
        if whole:
            transpose(rows, wide, A, a0, a_row, S, spare)
        else:
            load_rows(height, D, rows, wide, A, a0, a_row, S, copy)
            transpose(rows, wide, S, copy, wide, S, spare)
        return split(is_left, wide, rows, S, spare, rows, packed, p0)
    if whole:
        return split(is_left, rows, wide, A, a0, a_row, packed, p0)
    load_rows(height, D, rows, wide, A, a0, a_row, S, copy)
    return split(is_left, rows, wide, S, copy, wide, packed, p0)


@part(types.int64)
def split(is_left, rows, columns, A, a0, a_row, packed, p0):
    """The same where nothing is to be filled up or turned."""
    largest = 0
    if is_left:  # word i of a row of a tile pairs its elements i and i + 16
        for i in range(0, rows, TILE):
            for k in range(0, columns, STEP):
                largest = max(largest, split_rows(A, a0 + i * a_row + k, a_row, TILE, packed, p0))
                p0 += pieces_in(packed) * PIECE
    else:  # a row of a tile pairs rows k and k + 16
        for j in range(0, columns, TILE):
            for k in range(0, rows, STEP):
                largest = max(largest, split_rows(A, a0 + k * a_row + j, a_row, TILE * a_row, packed, p0))
                p0 += pieces_in(packed) * PIECE
    return largest


@part()
def transpose(rows, columns, A, a0, a_row, B, b0):
    """B[columns, rows] = A[rows, columns].T, multiples of 16."""
    for i in range(0, rows, TILE):
        for j in range(0, columns, TILE):
            transpose_square(A, a0 + i * a_row + j, a_row, B, b0 + j * rows + i, rows)


@part(types.int64)
def at_once(lines, keys, columns, packed):
    """How many lines to ask for with each product of tiles, of those that `keys` times `columns` multiply-adds take."""
    products = (keys + STEP - 1) // STEP * (columns // STEP) * (pieces_in(packed) * (pieces_in(packed) + 1) // 2)
    return (lines + products - 1) // max(products, 1)
