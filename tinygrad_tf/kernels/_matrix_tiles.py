"""The processor's matrix tiles (Intel's AMX): products of bfloat16 summed in float32, as LLVM code.

A tile is a register of 16 rows of 64 bytes; there are eight. One instruction multiplies a tile of 16 x 32 bfloat16 by
one of 32 x 16 and adds the product to a tile of 16 x 16 float32: 8,192 multiply-adds in 16 cycles, eight times as many
as the vector registers do. `_pieces.py` says how float32 comes out of that.

    pieces_in(packed)          bfloat16 that stand for a number: 3 in an array of uint32, 1 in one of int32
    AVAILABLE                  the processor and the system have tiles, and nobody has switched them off
    split_rows(...)            float32 to that many bfloat16, laid out as tiles
    make_tile_product(i, j)    C[16 i, 16 j] = A @ B (+ D), i and j 1 or 2
    open_tiles(), close_tiles()  around them, in the thread that runs them

Linux gives a process the tiles' 8 KiB of registers on demand. `TINYGRAD_TF_MATRIX_TILES=0` does without them.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from collections.abc import Callable
from typing import Any

import llvmlite.binding
import numba.extending
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from tinygrad_tf.kernels._vector import I16, I32, I64, VECTOR_BYTES, Emitter

TILE = 16  # rows of a tile, and columns of float32
STEP = 32  # bfloat16 in a row of a tile: the depth of one instruction
PIECES = 3  # bfloat16 that together hold a float32
WHOLE = np.dtype(np.int32)  # words of numbers that are bfloat16 as they are; those of pieces are uint32
PIECE = TILE * TILE  # 4-byte words (pairs of bfloat16) in a tile
SETTING = "TINYGRAD_TF_MATRIX_TILES"
# (pieces of A, pieces of B), the largest last; one operand changes from each to the next, and A's are loaded once.
PRODUCTS = ((2, 0), (1, 0), (1, 1), (0, 1), (0, 2), (0, 0))

I8 = ir.IntType(8)
BYTES = I8.as_pointer()
intrinsic: Any = numba.extending.intrinsic


def _available() -> bool:
    wanted = os.environ.get(SETTING, "1")
    if wanted not in ("0", "1"):
        raise ValueError(f"{SETTING} must be 0 or 1, got {wanted!r}: unset it to use matrix tiles where there are any")
    features = llvmlite.binding.get_host_cpu_features()
    if wanted == "0" or VECTOR_BYTES != 64 or not (features.get("amx-tile") and features.get("amx-bf16")):
        return False
    return sys.platform == "linux" and platform.machine() == "x86_64" and _permitted()


def _permitted() -> bool:
    """Ask Linux for the registers, for all threads of this process; False where it refuses, as before version 5.16."""
    arch_prctl, request_permission, tile_data = 158, 0x1023, 18
    return ctypes.CDLL(None).syscall(arch_prctl, request_permission, tile_data) == 0


AVAILABLE = _available()


def _call(builder: Any, name: str, *args: Any) -> None:
    function_type = ir.FunctionType(ir.VoidType(), [argument.type for argument in args])
    builder.call(cgutils.get_or_insert_function(builder.module, function_type, f"llvm.x86.{name}"), args)


@intrinsic
def open_tiles(typing: Any) -> Any:
    """Make all eight tiles 16 rows of 64 bytes in this thread."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        layout = bytearray(64)  # palette 1; bytes in a row from byte 16 on, rows from byte 48 on
        layout[0] = 1
        for tile in range(8):
            layout[16 + 2 * tile], layout[48 + tile] = 64, TILE
        constant = ir.Constant(ir.ArrayType(I8, 64), layout)
        where = cgutils.global_constant(builder, "tile_layout", constant)
        _call(builder, "ldtilecfg", builder.bitcast(where, BYTES))
        return context.get_dummy_value()

    return types.void(), emit


@intrinsic
def close_tiles(typing: Any) -> Any:
    """Give the tiles back, so that the system need not save them."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        _call(builder, "tilerelease")
        return context.get_dummy_value()

    return types.void(), emit


def _pieces_in(packed: Any) -> int:
    return 1 if packed.dtype == types.int32 else PIECES


@intrinsic
def pieces_in(typing: Any, packed: Any) -> Any:
    """How many bfloat16 stand for a number among `packed` words; known when compiled."""
    return types.int64(packed), lambda context, builder, signature, args: I64(_pieces_in(packed))


@intrinsic
def number_at(typing: Any, A: Any, index: Any) -> Any:
    """A[index] as float32; an array of uint16 is one of bfloat16."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        e = Emitter(context, builder, signature.args[0])
        pointer = e.pointer(signature.args[0], *args)
        if signature.args[0].dtype != types.uint16:
            return builder.load(pointer)
        one = ir.VectorType(I16, 1)
        bits = builder.load(builder.bitcast(pointer, one.as_pointer()), align=2, typ=one)
        return builder.extract_element(e.wide(bits), I32(0))

    return types.float32(A, types.int64), emit


@intrinsic
def split_rows(typing: Any, A: Any, a0: Any, a_row: Any, apart: Any, packed: Any, p0: Any) -> Any:
    """A tile of each piece from 16 rows of 32 elements; returns the bits of the largest magnitude, without the sign.

    Row r, word i of a tile holds the pieces of A[a0 + r * a_row + i] and, above it, of A[a0 + r * a_row + apart + i].
    The pieces are those of `_pieces.in_pieces`.
    """
    n = types.int64
    return n(A, n, n, n, packed, n), _emit_split_rows


def _emit_split_rows(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    A, a0, a_row, apart, packed, p0 = args
    splitter = _Splitter(context, builder, signature.args[0], signature.args[4])
    source, target = splitter.e.pointer(signature.args[0], A, a0), splitter.e.pointer(signature.args[4], packed, p0)
    with cgutils.for_range(builder, I64(TILE)) as loop:
        row = builder.gep(source, [builder.mul(loop.index, a_row)])
        splitter.split_row(row, apart, builder.gep(target, [builder.mul(loop.index, I64(TILE))]))
    return splitter.largest()


class _Splitter:
    """Emits the splitting of rows of a tile, and remembers the largest magnitude."""

    def __init__(self, context: Any, builder: Any, array_type: Any, packed_type: Any) -> None:
        self.e, self.builder, self.pieces = Emitter(context, builder, array_type), builder, _pieces_in(packed_type)
        self.words = ir.VectorType(I32, TILE)
        self.found = cgutils.alloca_once_value(builder, self._every(0))

    def split_row(self, source: Any, apart: Any, target: Any) -> None:
        """Sixteen words of each of the tiles from the elements at `source` and `apart` further on."""
        builder, words, every = self.builder, self.words, self._every
        pair = [self.e.load(source), self.e.load(builder.gep(source, [apart]))]
        for x in pair:
            doubled = builder.shl(builder.bitcast(x, words), every(1))
            builder.store(self._call("umax", words, doubled, builder.load(self.found)), self.found)
        for piece in range(self.pieces):
            bits = [builder.bitcast(x, words) for x in pair]
            if piece < self.pieces - 1:  # the last has no more than 8 bits as it is
                bits = [builder.add(b, every(0x8000)) for b in bits]
            bits = [builder.and_(b, every(0xFFFF0000)) for b in bits]  # also the last: a subnormal number has others
            word = builder.or_(builder.lshr(bits[0], every(16)), bits[1])
            where = builder.bitcast(builder.gep(target, [I64(piece * PIECE)]), words.as_pointer())
            builder.store(word, where, align=4)
            pair = [builder.fsub(x, builder.bitcast(b, self.e.vector)) for x, b in zip(pair, bits, strict=True)]

    def largest(self) -> Any:
        """The bits of the largest magnitude so far, without the sign."""
        found = self._call("vector.reduce.umax", I32, self.builder.load(self.found))
        return self.builder.lshr(self.builder.zext(found, I64), I64(1))

    def _every(self, value: int) -> Any:
        return ir.Constant(self.words, [value] * TILE)

    def _call(self, name: str, returns: Any, *args: Any) -> Any:
        function_type = ir.FunctionType(returns, [argument.type for argument in args])
        return self.builder.call(
            cgutils.get_or_insert_function(self.builder.module, function_type, f"llvm.{name}.v{TILE}i32"), args
        )


def make_tile_product(rows: int, columns: int, ahead: int = 0, b_changes: bool = False) -> Callable[..., Any]:
    """C[16 * rows, 16 * columns] = A @ B (+ D) for operands in pieces, each group of 16 rows of A or columns of B as
    `steps` times a tile of each piece; the second group lies a_group or b_group words after the first.

    The compiled intrinsic takes (steps, A, a0, a_group, B, b0, b_group, C, c0, c_row, add, D, d0, d_row, S, s0, s_row,
    p0): the first as the tiles of `_vector.make_tile` do. While the tiles multiply, the vector registers are idle, so
    they split `ahead` rows of S that begin at s0, as `split_rows` does, into A[p0]; the largest magnitude is returned.
    b_changes: from call to call it is B that moves on, and not A; the one that does is loaded once, and fetched ahead.
    """

    @intrinsic
    def product(
        typing: Any, steps: Any, A: Any, a0: Any, a_group: Any, B: Any, b0: Any, b_group: Any,
        C: Any, c0: Any, c_row: Any, add: Any, D: Any, d0: Any, d_row: Any, S: Any, s0: Any, s_row: Any, p0: Any,
    ) -> Any:  # fmt: skip
        n = types.int64
        return n(n, A, n, n, B, n, n, C, n, n, types.boolean, D, n, n, S, n, n, n), emit

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        steps, A, a0, a_group, B, b0, b_group, C, c0, c_row, add, D, d0, d_row, S, s0, s_row, p0 = args
        kinds = signature.args

        def address(kind: Any, array: Any, offset: Any) -> Any:
            data = context.make_array(kind)(context, builder, array).data
            return builder.bitcast(builder.gep(data, [offset]), BYTES)

        def tiles_of(first: Any, row: Any) -> list[tuple[int, Any]]:
            """(register, address) of each tile of C, or of what is added to it; rows in bytes."""
            return [
                (i * columns + j, builder.gep(first, [builder.add(builder.mul(row, I64(TILE * i)), I64(64 * j))]))
                for i in range(rows)
                for j in range(columns)
            ]

        c_bytes, d_bytes = builder.mul(c_row, I64(4)), builder.mul(d_row, I64(4))
        with builder.if_else(add) as (adding, putting):
            with adding:
                for tile, where in tiles_of(address(kinds[11], D, d0), d_bytes):
                    _call(builder, "tileloadd64", I8(tile), where, d_bytes)
            with putting:
                for tile in range(rows * columns):
                    _call(builder, "tilezero", I8(tile))
        e = Emitter(context, builder, kinds[7])
        c = e.pointer(kinds[7], C, c0)
        for i in range(TILE * rows):  # C is written at the end: bring its lines meanwhile
            row_c = e.at(c, builder.mul(c_row, I64(i)))
            for column in [*range(0, TILE * columns, TILE), TILE * columns - 1]:
                e.prefetch(e.at(row_c, I64(column)))
        splitter = _Splitter(context, builder, kinds[14], kinds[1])
        pieces_each = splitter.pieces
        products: tuple[tuple[int, int], ...] = PRODUCTS if pieces_each == PIECES else ((0, 0),)
        if b_changes:
            products = tuple((j, i) for i, j in products)
        source, target = e.pointer(kinds[14], S, s0), e.pointer(kinds[1], A, p0)
        with cgutils.for_range(builder, steps) as loop:
            done = builder.mul(loop.index, I64(pieces_each * PIECE))
            sides = ((address(kinds[1], A, builder.add(a0, done)), a_group, rows, 4),
                     (address(kinds[4], B, builder.add(b0, done)), b_group, columns, 6))  # fmt: skip
            first, group, count, _ = sides[b_changes]
            following = [
                builder.gep(first, [builder.add(builder.mul(group, I64(4 * i)), I64(4 * pieces_each * PIECE))])
                for i in range(count)
            ]
            soon = [(tile, 64 * line) for tile in following for line in range(TILE * pieces_each)]
            held: list[int | None] = [None, None]
            for number, pieces in enumerate(products):
                changed = [side for side in (0, 1) if held[side] != pieces[side]]
                held = list(pieces)
                order = [(i, j) for i in range(rows) for j in range(columns)]
                if changed == [1]:
                    order.sort(key=lambda tile: tile[::-1])
                loaded = {(side, i) for side in (0, 1) if side not in changed for i in range(2)}
                for i, j in order:
                    for side, index in ((0, i), (1, j)):
                        if (side, index) in loaded:
                            continue
                        loaded.add((side, index))
                        first, group, _, register = sides[side]
                        offset = builder.add(builder.mul(group, I64(4 * index)), I64(4 * PIECE * pieces[side]))
                        _call(builder, "tileloadd64", I8(register + index), builder.gep(first, [offset]), I64(64))
                    _call(builder, "tdpbf16ps", I8(i * columns + j), I8(4 + i), I8(6 + j))
                for tile, line in soon[len(soon) * number // len(products) : len(soon) * (number + 1) // len(products)]:
                    e.prefetch(builder.gep(tile, [I64(line)]), to_write=False)
                for r in range(number * ahead // len(products), (number + 1) * ahead // len(products)):
                    row = builder.add(builder.mul(s_row, I64(r)), builder.mul(loop.index, I64(STEP)))
                    where = builder.add(builder.mul(loop.index, I64(pieces_each * PIECE)), I64(r * TILE))
                    splitter.split_row(builder.gep(source, [row]), I64(TILE), builder.gep(target, [where]))
        for tile, where in tiles_of(address(kinds[7], C, c0), c_bytes):
            _call(builder, "tilestored64", I8(tile), where, c_bytes)
        return splitter.largest() if ahead else I64(0)

    return product
