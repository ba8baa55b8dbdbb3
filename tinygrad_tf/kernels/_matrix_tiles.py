"""The processor's matrix tiles (Intel's AMX): whether there are any, and how numbers get into them, as LLVM code.

A tile is a register of 16 rows of 64 bytes; there are eight. One instruction multiplies a tile of 16 x 32 bfloat16 by
one of 32 x 16 and adds the product to a tile of 16 x 16 float32: 8,192 multiply-adds in 16 cycles, eight times as many
as the vector registers do. `_tile_product.py` multiplies; `_pieces.py` says how float32 comes out of that.

    pieces_in(packed)          bfloat16 that stand for a number, by the dtype of the array that they are packed in
    AVAILABLE                  the processor and the system have tiles, and nobody has switched them off
    split_rows(...)            float32 to that many bfloat16, laid out as tiles
    ask_for_row(...)           memory that is soon to be split
    open_tiles(), close_tiles()  around them, in the thread that runs them

Linux gives a process the tiles' 8 KiB of registers on demand. `TINYGRAD_TF_MATRIX_TILES=0` does without them.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
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
# The dtype of an array of packed words tells the compiler how many bfloat16 stand for a number in it. They are no
# numbers of that dtype.
WORDS = {3: np.dtype(np.uint32), 2: np.dtype(np.float32), 1: np.dtype(np.int32)}
PIECE = TILE * TILE  # 4-byte words (pairs of bfloat16) in a tile
SETTING = "TINYGRAD_TF_MATRIX_TILES"

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


def call(builder: Any, name: str, *args: Any) -> None:
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
        call(builder, "ldtilecfg", builder.bitcast(where, BYTES))
        return context.get_dummy_value()

    return types.void(), emit


@intrinsic
def close_tiles(typing: Any) -> Any:
    """Give the tiles back, so that the system need not save them."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        call(builder, "tilerelease")
        return context.get_dummy_value()

    return types.void(), emit


def count_pieces(packed: Any) -> int:
    return {types.uint32: 3, types.float32: 2, types.int32: 1}[packed.dtype]


@intrinsic
def pieces_in(typing: Any, packed: Any) -> Any:
    """How many bfloat16 stand for a number among `packed` words; known when compiled."""
    return types.int64(packed), lambda context, builder, signature, args: I64(count_pieces(packed))


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
    splitter = Splitter(context, builder, signature.args[0], signature.args[4])
    source, target = splitter.e.pointer(signature.args[0], A, a0), splitter.e.pointer(signature.args[4], packed, p0)
    with cgutils.for_range(builder, I64(TILE)) as loop:
        row = builder.gep(source, [builder.mul(loop.index, a_row)])
        splitter.split_row(row, apart, builder.gep(target, [builder.mul(loop.index, I64(TILE))]))
    return splitter.largest()


@intrinsic
def ask_for_row(typing: Any, A: Any, a0: Any, n: Any) -> Any:
    """Ask memory for n elements of A, which are soon to be split, to have them in the second-level cache."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = signature.args[0]
        e = Emitter(context, builder, kind)
        first, line = e.pointer(kind, *args[:2]), 512 // kind.dtype.bitwidth
        with cgutils.for_range_slice(builder, I64(0), args[2], I64(line)) as (i, _):
            e.prefetch(builder.gep(first, [i]), to_write=False, cache=2)
        return context.get_dummy_value()

    return types.void(A, types.int64, types.int64), emit


class Splitter:
    """Emits the splitting of rows of a tile, and remembers the largest magnitude."""

    def __init__(self, context: Any, builder: Any, array_type: Any, packed_type: Any) -> None:
        self.e, self.builder, self.pieces = Emitter(context, builder, array_type), builder, count_pieces(packed_type)
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
            if piece < PIECES - 1:  # the third has no more than 8 bits as it is
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
