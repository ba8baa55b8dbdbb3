"""Vector registers from Python: how wide they are here, and the pieces of LLVM code that use them.

numba compiles through LLVM, and an `@intrinsic` may emit LLVM instructions itself. The intrinsics here work on flat
arrays with offsets and strides counted in elements, and keep whole tiles in registers, which plain numba loops do not:

    lanes(A)            how many elements of A's type one register holds (a constant when compiled)
    tile_height(A)      rows of the largest tile (a constant when compiled)
    make_tile(...)      C[rows, vectors * lanes] = A @ B (+ D), summed in registers; of bfloat16, in pairs
    make_add_rows(...)  C += x @ B for a few rows of B
    make_copy(...)      copies a fixed number of elements
    make_transpose(...) B = A.T for lanes columns of A, by register shuffles

The width follows the processor: 64 bytes with AVX-512, 32 with AVX, 16 otherwise (NEON, SSE, or what LLVM makes of it
on a machine without vectors). `TINYGRAD_TF_VECTOR_BYTES=64|32|16` overrides it, so that each can be tested anywhere.
Multiply-adds are `llvm.fmuladd`: fused where the processor can, never a slow library call where it cannot.
No flag here lets LLVM assume that NaN or infinity do not occur.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from typing import Any

import llvmlite.binding
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

I1, I16, I32, I64 = (ir.IntType(bits) for bits in (1, 16, 32, 64))
SETTING = "TINYGRAD_TF_VECTOR_BYTES"


class _BFloat16(ir.Type):
    """LLVM's type, which llvmlite has no name for."""

    def _to_string(self) -> str:
        return "bfloat"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _BFloat16)

    def __hash__(self) -> int:
        return hash(_BFloat16)


def _vector_bytes() -> int:
    """The width of a vector register in bytes: the override, or what the processor has."""
    wanted = os.environ.get(SETTING, "")
    if wanted:
        if wanted not in ("16", "32", "64"):
            raise ValueError(f"{SETTING} must be 16, 32 or 64, got {wanted!r}: unset it to use this processor's width")
        return int(wanted)
    features = llvmlite.binding.get_host_cpu_features()
    return 64 if features.get("avx512f") else 32 if features.get("avx") else 16


VECTOR_BYTES = _vector_bytes()
# A tile of HEIGHT x 2 vectors of sums, 2 vectors of B and a broadcast element of A must fit in the register file:
# 12 * 2 + 3 = 27 of 32 registers (AVX-512, ARM), 6 * 2 + 3 = 15 of 16 (AVX2, SSE).
HEIGHT = 12 if VECTOR_BYTES == 64 or platform.machine().lower() in ("aarch64", "arm64") else 6
LOW_HEIGHT = HEIGHT // 3
# Whether the processor multiplies pairs of bfloat16 and adds both products to a float32: twice as many multiply-adds.
HAS_PAIRS = VECTOR_BYTES == 64 and bool(llvmlite.binding.get_host_cpu_features().get("avx512bf16"))
# Without masked instructions LLVM turns a masked load into a branch for each lane: too slow inside a loop.
HAS_MASKED_LOADS = VECTOR_BYTES > 16


def lane_count(itemsize: int) -> int:
    """How many elements of `itemsize` bytes one register holds."""
    return VECTOR_BYTES // itemsize


def _element(array: Any) -> tuple[ir.Type, int]:
    """The LLVM type of numbers of an array (float32 or float64), and how many a register holds.

    An array of uint16 is one of bfloat16: its numbers are read as float32.
    """
    return (ir.DoubleType(), lane_count(8)) if array.dtype == types.float64 else (ir.FloatType(), lane_count(4))


@intrinsic
def lanes(typing: Any, A: Any) -> Any:
    """Elements of A's type in one register; known when compiled."""
    count = _element(A)[1]
    return types.int64(A), lambda context, builder, signature, args: I64(count)


class Emitter:
    """Emits vector instructions for arrays of one element type into one function."""

    def __init__(self, context: Any, builder: Any, array_type: Any) -> None:
        self.context, self.builder = context, builder
        self.scalar, self.lanes = _element(array_type)
        self.align = self.scalar.get_abi_size(context.target_data)
        self.vector = ir.VectorType(self.scalar, self.lanes)
        letter = "f32" if self.scalar == ir.FloatType() else "f64"
        self.suffix = f"v{self.lanes}{letter}"
        self.zero = ir.Constant(self.vector, [0.0] * self.lanes)

    def pointer(self, kind: Any, array: Any, offset: Any) -> Any:
        """Address of element `offset` of a flat array."""
        return self.builder.gep(self.context.make_array(kind)(self.context, self.builder, array).data, [offset])

    def at(self, pointer: Any, offset: Any) -> Any:
        return self.builder.gep(pointer, [offset])

    def words(self, pointer: Any) -> Any:
        """The address of pairs of bfloat16 as one of words, which lie in registers as floats of the same size."""
        return self.builder.bitcast(pointer, self.scalar.as_pointer())

    def wide(self, bits: Any) -> Any:
        """float32 from the bits of as many bfloat16."""
        whole = ir.VectorType(I32, bits.type.count)
        shifted = self.builder.shl(self.builder.zext(bits, whole), ir.Constant(whole, [16] * bits.type.count))
        return self.builder.bitcast(shifted, ir.VectorType(ir.FloatType(), bits.type.count))

    def narrow(self, value: Any) -> Any:
        """The bits of the nearest bfloat16; those below 2^-126 become zero."""
        rounded = self.builder.fptrunc(value, ir.VectorType(_BFloat16(), self.lanes))
        return self.builder.bitcast(rounded, ir.VectorType(I16, self.lanes))

    def _vector_pointer(self, pointer: Any, vector: int) -> Any:
        moved = self.builder.gep(pointer, [I64(vector * self.lanes)]) if vector else pointer
        return self.builder.bitcast(moved, self.vector.as_pointer())

    def load(self, pointer: Any, vector: int = 0, mask: Any = None) -> Any:
        """The vector at `pointer + vector * lanes`; lanes that the mask leaves out are not read and give 0."""
        if pointer.type.pointee == I16 and mask is None:
            halves = ir.VectorType(I16, self.lanes)
            at = self.builder.bitcast(self.at(pointer, I64(vector * self.lanes)), halves.as_pointer())
            return self.wide(self.builder.load(at, align=2, typ=halves))
        where = self._vector_pointer(pointer, vector)
        if mask is None:
            return self.builder.load(where, align=self.align, typ=self.vector)
        arguments = [where.type, I32, mask.type, self.vector]
        name = f"llvm.masked.load.{self.suffix}.p0"
        function = self._function(name, ir.FunctionType(self.vector, arguments))
        return self.builder.call(function, [where, I32(self.align), mask, self.zero])

    def store(self, value: Any, pointer: Any, vector: int = 0, mask: Any = None) -> None:
        """Write a vector to `pointer + vector * lanes`, but no lanes that the mask leaves out; round it to bfloat16."""
        align, suffix = self.align, self.suffix
        if pointer.type.pointee == I16:
            value, align, suffix = self.narrow(value), 2, f"v{self.lanes}i16"
            at = self.builder.gep(pointer, [I64(vector * self.lanes)])
            where = self.builder.bitcast(at, value.type.as_pointer())
        else:
            where = self._vector_pointer(pointer, vector)
        if mask is None:
            self.builder.store(value, where, align=align)
            return
        arguments = [value.type, where.type, I32, mask.type]
        function = self._function(f"llvm.masked.store.{suffix}.p0", ir.FunctionType(ir.VoidType(), arguments))
        self.builder.call(function, [value, where, I32(align), mask])

    def prefetch(self, pointer: Any, to_write: bool = True, cache: int = 1) -> None:
        """Ask for the cache line at `pointer`, to write to it or to read, in the first- or second-level cache."""
        where = self.builder.bitcast(pointer, ir.IntType(8).as_pointer())
        function_type = ir.FunctionType(ir.VoidType(), [where.type, I32, I32, I32])
        arguments = [where, I32(int(to_write)), I32(4 - cache), I32(1)]
        self.builder.call(self._function("llvm.prefetch.p0", function_type), arguments)

    def broadcast(self, pointer: Any) -> Any:
        """One element in every lane."""
        return self.splat(self.builder.load(pointer, align=self.align, typ=self.scalar), self.vector)

    def splat(self, scalar: Any, vector_type: Any) -> Any:
        undefined = ir.Constant(vector_type, ir.Undefined)
        first = self.builder.insert_element(undefined, scalar, I32(0))
        return self.builder.shuffle_vector(first, undefined, self._index([0] * vector_type.count))

    def fma(self, a: Any, b: Any, c: Any) -> Any:
        """a * b + c, lane by lane."""
        function = self._function(f"llvm.fmuladd.{self.suffix}", ir.FunctionType(self.vector, [self.vector] * 3))
        return self.builder.call(function, [a, b, c])

    def fma_of_pairs(self, a: Any, b: Any, c: Any) -> Any:
        """a0 * b0 + a1 * b1 + c for the pairs of bfloat16 in each word of a and of b."""
        pairs = ir.VectorType(_BFloat16(), 2 * self.lanes)
        function_type = ir.FunctionType(self.vector, [self.vector, pairs, pairs])
        function = self._function("llvm.x86.avx512bf16.dpbf16ps.512", function_type)
        return self.builder.call(function, [c, self.builder.bitcast(a, pairs), self.builder.bitcast(b, pairs)])

    def shuffle(self, a: Any, b: Any, index: list[int]) -> Any:
        """Lanes picked from a (0 ... lanes - 1) and b (lanes ... 2 * lanes - 1)."""
        return self.builder.shuffle_vector(a, b, self._index(index))

    def mask(self, count: Any, vector: int) -> Any:
        """True in the lanes of vector number `vector` that lie below `count` elements."""
        number = ir.VectorType(I64, self.lanes)
        position = ir.Constant(number, [vector * self.lanes + lane for lane in range(self.lanes)])
        return self.builder.icmp_signed("<", position, self.splat(count, number))

    def each_vector(self, columns: Any, body: Callable[[Any, Any], None]) -> None:
        """body(offset, mask) for `columns` elements, a vector at a time; the mask is None where all lanes are inside.

        Only the last vector is masked: on AMD's processors with AVX2, a masked store takes ten times a plain one.
        """
        whole = self.builder.sub(columns, self.builder.srem(columns, I64(self.lanes)))
        with cgutils.for_range_slice(self.builder, I64(0), whole, I64(self.lanes), intp=I64) as (offset, _):
            body(offset, None)
        with self.builder.if_then(self.builder.icmp_signed("<", whole, columns)):
            body(whole, self.mask(self.builder.sub(columns, whole), 0))

    def _function(self, name: str, function_type: Any) -> Any:
        return cgutils.get_or_insert_function(self.builder.module, function_type, name)

    @staticmethod
    def _index(lanes: list[int]) -> Any:
        return ir.Constant(ir.VectorType(I32, len(lanes)), lanes)


def make_tile(rows: int, vectors: int, ragged_rows: bool, ragged_columns: bool) -> Callable[..., Any]:
    """The inner loop of a matrix product: C[rows, vectors * lanes] = A[rows, depth] @ B[depth, ...] (+ D).

    The compiled intrinsic takes (depth, height, width, A, a0, a_row, a_col, B, b0, b_row, C, c0, c_row, add, D, d0,
    d_row): flat arrays of one float type, where each begins, and its strides in elements. B, C and D have contiguous
    rows. depth >= 1. With `add`, D is added to the product: C itself to accumulate, or a bias with d_row = 0.

    Only a tile with ragged rows heeds height, 1 <= height <= rows: rows beyond repeat the last one (they read and write
    the same memory as it, and all reading comes before all writing). Only one with ragged columns heeds width, 1 <=
    width <= vectors * lanes: columns beyond are masked. Where masked loads are slow, it reads whole vectors of B (a
    packed panel).

    Where A and B are of bfloat16 (`HAS_PAIRS`), depth is even, and a word holds the numbers of two steps of it: B is a
    panel that `_pairs.pack_panel` has packed. C is float32, or bfloat16 that is not accumulated; D is float32.
    """

    @intrinsic
    def tile(
        typing: Any, depth: Any, height: Any, width: Any, A: Any, a0: Any, a_row: Any, a_col: Any,
        B: Any, b0: Any, b_row: Any, C: Any, c0: Any, c_row: Any, add: Any, D: Any, d0: Any, d_row: Any,
    ) -> Any:  # fmt: skip
        n = types.int64
        signature = types.void(n, n, n, A, n, n, n, B, n, n, C, n, n, types.boolean, D, n, n)
        return signature, emit

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        depth, height, width, A, a0, a_row, a_col, B, b0, b_row, C, c0, c_row, add, D, d0, d_row = args
        kinds = signature.args
        e = Emitter(context, builder, kinds[3])
        in_pairs = kinds[3].dtype == types.uint16
        multiply_add, stride = (e.fma_of_pairs, 2) if in_pairs else (e.fma, 1)
        a, b = e.pointer(kinds[3], A, a0), e.pointer(kinds[7], B, b0)
        c, d = e.pointer(kinds[10], C, c0), e.pointer(kinds[14], D, d0)
        masks = [e.mask(width, v) if ragged_columns else None for v in range(vectors)]
        load_masks = masks if HAS_MASKED_LOADS else [None] * vectors
        index = [_clamped(builder, i, height) if ragged_rows else I64(i) for i in range(rows)]
        a_rows = [e.at(a, builder.mul(a_row, i)) for i in index]

        if not ragged_rows and not ragged_columns:
            for i in index:  # C is written at the end: bring its lines (three, where it is not aligned) meanwhile
                row_c = e.at(c, builder.mul(c_row, i))
                for column in [*range(0, vectors * e.lanes, e.lanes), vectors * e.lanes - 1]:
                    e.prefetch(e.at(row_c, I64(column)))
        before, loop, after = builder.block, builder.append_basic_block("depth"), builder.append_basic_block("done")
        builder.branch(loop)
        builder.position_at_end(loop)
        k = builder.phi(I64)
        sums = [[builder.phi(e.vector) for _ in range(vectors)] for _ in range(rows)]
        row_b, column_a = e.words(e.at(b, builder.mul(k, b_row))), builder.mul(k, a_col)
        b_vectors = [e.load(row_b, v, load_masks[v]) for v in range(vectors)]
        new = []
        for i in range(rows):
            element = e.broadcast(e.words(e.at(a_rows[i], column_a)))
            new.append([multiply_add(element, b_vectors[v], sums[i][v]) for v in range(vectors)])
        next_k = builder.add(k, I64(stride))
        k.add_incoming(I64(0), before)
        k.add_incoming(next_k, loop)
        for i in range(rows):
            for v in range(vectors):
                sums[i][v].add_incoming(e.zero, before)
                sums[i][v].add_incoming(new[i][v], loop)
        builder.cbranch(builder.icmp_signed("<", next_k, depth), loop, after)

        builder.position_at_end(after)
        adding, putting, end = (builder.append_basic_block(name) for name in ("add", "put", "end"))
        builder.cbranch(add, adding, putting)
        for block in (adding, putting):
            builder.position_at_end(block)
            total = new
            if block is adding:
                d_rows = [e.at(d, builder.mul(d_row, i)) for i in index]
                total = [
                    [builder.fadd(new[i][v], e.load(d_rows[i], v, masks[v])) for v in range(vectors)]
                    for i in range(rows)
                ]
            for i in range(rows):
                c_i = e.at(c, builder.mul(c_row, index[i]))
                for v in range(vectors):
                    e.store(total[i][v], c_i, v, masks[v])
            builder.branch(end)
        builder.position_at_end(end)
        return context.get_dummy_value()

    return tile


def _clamped(builder: Any, row: int, height: Any) -> Any:
    """min(row, height - 1)."""
    return builder.select(builder.icmp_signed("<", I64(row), height), I64(row), builder.sub(height, I64(1)))


def make_add_rows(count: int) -> Callable[..., Any]:
    """An intrinsic (n, A, a0, a_col, B, b0, b_row, C, c0): C[j] += sum over k < count of A[k] * B[k, j], for j < n."""

    @intrinsic
    def add_rows(typing: Any, n: Any, A: Any, a0: Any, a_col: Any, B: Any, b0: Any, b_row: Any, C: Any, c0: Any) -> Any:
        number = types.int64
        return types.void(number, A, number, number, B, number, number, C, number), emit

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        n, A, a0, a_col, B, b0, b_row, C, c0 = args
        e = Emitter(context, builder, signature.args[1])
        a, b = e.pointer(signature.args[1], A, a0), e.pointer(signature.args[4], B, b0)
        c = e.pointer(signature.args[7], C, c0)
        weights = [e.broadcast(e.at(a, builder.mul(a_col, I64(k)))) for k in range(count)]
        rows = [e.at(b, builder.mul(b_row, I64(k))) for k in range(count)]

        def add_at(j: Any, mask: Any) -> None:
            total = e.load(e.at(c, j), 0, mask)
            for weight, row in zip(weights, rows, strict=True):
                total = e.fma(weight, e.load(e.at(row, j), 0, mask), total)
            e.store(total, e.at(c, j), 0, mask)

        e.each_vector(n, add_at)
        return context.get_dummy_value()

    return add_rows


def make_copy(rows: int = 0, vectors: int = 0) -> Callable[..., Any]:
    """An intrinsic (A, a0, B, b0): B[b0 : b0 + n] = A[a0 : a0 + n] for n = rows + vectors * lanes elements."""

    @intrinsic
    def copy(typing: Any, A: Any, a0: Any, B: Any, b0: Any) -> Any:
        return types.void(A, types.int64, B, types.int64), emit

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        e = Emitter(context, builder, signature.args[0])
        row = ir.VectorType(e.scalar, rows + vectors * e.lanes).as_pointer()
        source = builder.bitcast(e.pointer(signature.args[0], args[0], args[1]), row)
        target = builder.bitcast(e.pointer(signature.args[2], args[2], args[3]), row)
        builder.store(builder.load(source, align=e.align, typ=row.pointee), target, align=e.align)
        return context.get_dummy_value()

    return copy


def make_copy_of_every_second() -> Callable[..., Any]:
    """An intrinsic (A, a0, B, b0): B[b0 + i] = A[a0 + 2 * i] for i < lanes; nothing behind the last of them is read."""

    @intrinsic
    def copy(typing: Any, A: Any, a0: Any, B: Any, b0: Any) -> Any:
        return types.void(A, types.int64, B, types.int64), emit

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        e = Emitter(context, builder, signature.args[0])
        source = e.pointer(signature.args[0], args[0], args[1])
        low, high = e.load(source), e.load(e.at(source, I64(e.lanes - 1)))
        chosen = e.shuffle(low, high, [*range(0, e.lanes, 2), *range(e.lanes + 1, 2 * e.lanes, 2)])
        e.store(chosen, e.pointer(signature.args[2], args[2], args[3]))
        return context.get_dummy_value()

    return copy


def make_transpose(rows: int = 0, vectors: int = 0) -> Callable[..., Any]:
    """An intrinsic (A, a0, a_row, B, b0, b_row): B[j, i] = A[i, j], i < rows + vectors * lanes and j < lanes.

    The rows of both are contiguous, a_row and b_row elements apart. Where B is of bfloat16, so is A, and what is moved
    are words, pairs of numbers in a row of A.
    """

    @intrinsic
    def transpose(typing: Any, A: Any, a0: Any, a_row: Any, B: Any, b0: Any, b_row: Any) -> Any:
        n = types.int64
        return types.void(A, n, n, B, n, n), emit

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        e = Emitter(context, builder, signature.args[0])
        source = e.pointer(signature.args[0], args[0], args[1])
        target = e.pointer(signature.args[3], args[3], args[4])
        height, size = rows + vectors * e.lanes, 2 if signature.args[3].dtype == types.uint16 else 1
        moved = e.words if size == 2 else lambda pointer: pointer
        for first in range(0, height, e.lanes):
            count = min(e.lanes, height - first)
            square = [e.load(moved(e.at(source, builder.mul(args[2], I64(first + i))))) for i in range(count)]
            square = _transposed(e, square + [e.zero] * (e.lanes - count))
            for j, row in enumerate(square):
                part = row if count == e.lanes else e.shuffle(row, row, list(range(count)))
                where = e.at(target, builder.add(builder.mul(args[5], I64(j)), I64(size * first)))
                builder.store(part, builder.bitcast(where, part.type.as_pointer()), align=e.align)
        return context.get_dummy_value()

    return transpose


def _transposed(e: Emitter, rows: list[Any]) -> list[Any]:
    """A lanes x lanes square, transposed: round s exchanges the off-diagonal s x s parts of every 2s x 2s part."""
    rows, step = list(rows), 1
    while step < e.lanes:
        upper, lower = _exchange(e.lanes, step)
        for i in range(e.lanes):
            if not i & step:
                first, second = rows[i], rows[i + step]
                rows[i], rows[i + step] = e.shuffle(first, second, upper), e.shuffle(first, second, lower)
        step *= 2
    return rows


def _exchange(lanes: int, step: int) -> tuple[list[int], list[int]]:
    """Shuffles of two rows a, b that pick [a0 b0 a2 b2 ...] and [a1 b1 a3 b3 ...], in units of `step` lanes."""
    upper = [p if not p & step else p - step + lanes for p in range(lanes)]
    lower = [p + step if not p & step else p + lanes for p in range(lanes)]
    return upper, lower
