"""Operands of bfloat16 for processors that multiply pairs of them: packed into words, each two numbers of one sum.

One instruction (AVX512_BF16) takes words (x0, x1) and (y0, y1) and adds x0 y0 + x1 y1 to a float32: twice the
multiply-adds of a float32 instruction, for half the memory. So the tile of `_vector.make_tile` walks down the depth two
numbers at a time. Where an operand lies along the depth, in rows of A or in columns of B, its words are there as it
is, and are only moved; else the words are made of two rows, a vector of each.

    pack_panel   panel[k / 2, j] = (B[k, j], B[k + 1, j]), for a panel of columns
    pack_rows    packed[k / 2, i] = (A[i, k], A[i, k + 1]), for groups of HEIGHT rows

These stand in for those of `_tiles.py`, and arrays, offsets and strides are in numbers (not words) here, too; K is
even. What is packed takes half of the room, so the panel of B that a tile reads, 384 numbers deep, stays in a
first-level cache of 32 KiB. Numbers below 2^-126 are taken for zero by the instruction.

Cost, on one core of an AMD EPYC (Zen 4, 3.6 GHz) with a measured peak of 236 GFLOP/s, where that of float32 is 118: a
multiply-add 0.0055 ns. GFLOP/s on two threads, operands and result of bfloat16 but for the gradients of weights (TN):

    NT 16384x384x1536   NN 16384x1536x384   TN 1536x16384x384   NT 768x128x512   TN 512x768x128
           197                 192                 197                179              151         as float32
           413                 373                 379                296              239         in pairs
           372                 385                 367                331              312         PyTorch (oneDNN)

Results of bfloat16 are rounded as a tile is stored, where the depth fits one stretch: to write float32 and to round it
in a second pass took up to an eighth longer for 16384x384x1536.
"""
# mypy: allow-untyped-defs

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from tinygrad_tf.kernels import _vector as vector
from tinygrad_tf.kernels._part import part
from tinygrad_tf.kernels._plan import GAP
from tinygrad_tf.kernels._vector import I16, I32, Emitter

HEIGHT = vector.HEIGHT
PANEL = 2  # vectors in a row of a panel

lanes: Any = vector.lanes
move_square: Any = vector.make_transpose(vectors=1)
move_group: Any = vector.make_transpose(rows=HEIGHT)


def make_pairs(rows: int = 0, vectors: int = 0) -> Callable[..., Any]:
    """An intrinsic (A, a0, apart, B, b0): B[b0 + 2 i] = A[a0 + i] and B[b0 + 2 i + 1] = A[a0 + apart + i], for i < n.

    n = rows + vectors * lanes.
    """

    @intrinsic
    def pairs(typing: Any, A: Any, a0: Any, apart: Any, B: Any, b0: Any) -> Any:
        return types.void(A, types.int64, types.int64, B, types.int64), emit

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        e = Emitter(context, builder, signature.args[0])
        count = rows + vectors * e.lanes
        halves, words = ir.VectorType(I16, count), ir.VectorType(I32, count)
        source = e.pointer(signature.args[0], args[0], args[1])
        both = [builder.bitcast(at, halves.as_pointer()) for at in (source, e.at(source, args[2]))]
        low, high = (builder.zext(builder.load(at, align=2, typ=halves), words) for at in both)
        word = builder.or_(low, builder.shl(high, ir.Constant(words, [16] * count)))
        target = e.pointer(signature.args[3], args[3], args[4])
        builder.store(word, builder.bitcast(target, words.as_pointer()), align=2)
        return context.get_dummy_value()

    return pairs


pair_panel_row = make_pairs(vectors=PANEL)
pair_column = make_pairs(rows=HEIGHT)


@part()
def move_pairs(M, K, A, a0, a_row, B, b0, b_row):
    """B[k / 2, i] = (A[i, k], A[i, k + 1]); the rows of both are contiguous."""
    square = lanes(A)
    rows, depth = M - M % square, K - K % (2 * square)
    for i in range(0, rows, square):
        for k in range(0, depth, 2 * square):
            move_square(A, a0 + i * a_row + k, a_row, B, b0 + k // 2 * b_row + 2 * i, b_row)
    for i in range(M):
        for k in range(depth if i < rows else 0, K):
            B[b0 + k // 2 * b_row + 2 * i + k % 2] = A[a0 + i * a_row + k]


def pack_panel(K, n, B, b0, b_row, b_col, panel, p0):
    """Pairs of rows of n columns of B, with any strides; what lies behind them in the panel is never read."""
    width = PANEL * lanes(B)
    if b_col == 1 and n == width:
        for k in range(0, K, 2):
            pair_panel_row(B, b0 + k * b_row, b_row, panel, p0 + k * width)
        return
    if b_row == 1:
        move_pairs(n, K, B, b0, b_col, panel, p0, 2 * width)
    else:
        for k in range(K):
            for j in range(n):
                panel[p0 + k // 2 * 2 * width + 2 * j + k % 2] = B[b0 + k * b_row + j * b_col]


def pack_rows(M, K, A, a0, a_row, a_col, packed, p0):
    """Groups of HEIGHT rows of A, each group as packed[k / 2, row]; the rows or the columns of A are contiguous.

    To be read with a_row = 2, a_col = HEIGHT, a_step = HEIGHT * K + GAP.
    """
    full, whole, step = M - M % HEIGHT, K - K % (2 * lanes(A)), HEIGHT * K + GAP
    if a_row == 1:
        for k in range(0, K, 2):
            source, target = a0 + k * a_col, p0 + k * HEIGHT
            for i in range(0, full, HEIGHT):
                pair_column(A, source + i, a_col, packed, target)
                target += step
    else:
        for i in range(0, full, HEIGHT):
            source, target = a0 + i * a_row, p0 + i // HEIGHT * step
            for k in range(0, whole, 2 * lanes(A)):
                move_group(A, source + k, a_row, packed, target + k * HEIGHT, 2 * HEIGHT)
            for k in range(whole, K):
                for r in range(HEIGHT):
                    packed[target + k // 2 * 2 * HEIGHT + 2 * r + k % 2] = A[source + r * a_row + k]
    for k in range(K):
        for i in range(full, M):
            target = p0 + full // HEIGHT * step + k // 2 * 2 * HEIGHT + 2 * (i - full) + k % 2
            packed[target] = A[a0 + i * a_row + k * a_col]
