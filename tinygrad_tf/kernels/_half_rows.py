"""Rows of float32, float64, or of bfloat16 as uint16 (`_half.py`), to and from vector registers.

load_rows     to rows of floats, with zeros around them
store_rows    back, rounded if the array is one of bfloat16
load_numbers  one vector, for loops that are emitted elsewhere
"""
# mypy: allow-untyped-defs

from __future__ import annotations

from llvmlite import ir
from numba.core import cgutils

from tinygrad_tf.kernels._attention_panel import I32, I64, INT, VOID, emitted
from tinygrad_tf.kernels._scalar import instruction

I16 = ir.IntType(16)


@instruction
def load_rows(typing, height, columns, rows, wide, A, a0, a_row, C, c0):
    """C[rows, wide] = A[height, columns] and zeros; wide is a multiple of a vector."""

    def body(e, height, columns, rows, wide, A, a0, a_row, C, c0):
        builder = e.builder
        with cgutils.for_range(builder, rows) as loop:
            inside = builder.select(builder.icmp_signed("<", loop.index, height), columns, I64(0))
            source = e.pointer(kind, A, builder.add(a0, builder.mul(loop.index, a_row)))
            target = e.pointer(e.kind, C, builder.add(c0, builder.mul(loop.index, wide)))
            with e.vectors_of(wide) as (d, _):
                mask = e.inside(inside, d)
                e.store(load_numbers(e, e.at(source, d), mask), e.at(target, d))

    kind = A
    return VOID(INT, INT, INT, INT, A, INT, INT, C, INT), emitted(body, 7)


@instruction
def store_rows(typing, rows, columns, A, a0, a_row, C, c0, c_row):
    """C[rows, columns] = A[rows, columns], rounded if C is bfloat16."""

    def body(e, rows, columns, A, a0, a_row, C, c0, c_row):
        builder = e.builder
        with cgutils.for_range(builder, rows) as loop:
            source = e.pointer(e.kind, A, builder.add(a0, builder.mul(loop.index, a_row)))
            target = e.pointer(kind, C, builder.add(c0, builder.mul(loop.index, c_row)))

            def copy(d, mask):
                _store(e, e.load(e.at(source, d), 0, mask), e.at(target, d), mask)

            e.each_vector(columns, copy)

    kind = C
    return VOID(INT, INT, A, INT, INT, C, INT, INT), emitted(body, 2)


def _store(e, vector, pointer, mask):
    if pointer.type.pointee != I16:
        e.store(vector, pointer, 0, mask)
        return
    builder, halves = e.builder, ir.VectorType(I16, e.lanes)
    bits = builder.bitcast(vector, e.bits)
    odd = builder.and_(builder.lshr(bits, every(e, 16)), every(e, 1))
    rounded = builder.lshr(builder.add(builder.add(bits, every(e, 0x7FFF)), odd), every(e, 16))
    quiet = builder.or_(builder.lshr(bits, every(e, 16)), every(e, 0x40))
    rounded = builder.select(builder.fcmp_unordered("uno", vector, vector), quiet, rounded)
    where = builder.bitcast(pointer, halves.as_pointer())
    if mask is None:
        builder.store(builder.trunc(rounded, halves), where, align=2)
        return
    function = e._function(
        f"llvm.masked.store.v{e.lanes}i16.p0", ir.FunctionType(ir.VoidType(), [halves, where.type, I32, mask.type])
    )
    builder.call(function, [builder.trunc(rounded, halves), where, I32(2), mask])


def every(e, value):
    """A number in all lanes of bits."""
    return ir.Constant(e.bits, [value] * e.lanes)


def load_numbers(e, pointer, mask):
    """A vector of numbers; those of bfloat16 as float32."""
    if pointer.type.pointee != I16 or mask is None:
        return e.load(pointer, 0, mask)
    halves = ir.VectorType(I16, e.lanes)
    where = e.builder.bitcast(pointer, halves.as_pointer())
    kind = ir.FunctionType(halves, [where.type, I32, mask.type, halves])
    function = e._function(f"llvm.masked.load.v{e.lanes}i16.p0", kind)
    return e.wide(e.builder.call(function, [where, I32(2), mask, ir.Constant(halves, [0] * e.lanes)]))
