"""Attention's products on the matrix tiles, and the memory that is asked for while the tiles multiply.

list_rows    puts rows, which are soon to be read or written, on a list
multiply     left operands by right ones, both in pieces
"""
# mypy: allow-untyped-defs

from __future__ import annotations

from llvmlite import ir
from numba.core import cgutils

from tinygrad_tf.kernels._attention_panel import BOOL, I32, I64, INT, VOID, emitted
from tinygrad_tf.kernels._matrix_tiles import I8, PIECE, TILE, count_pieces
from tinygrad_tf.kernels._scalar import instruction
from tinygrad_tf.kernels._tile_product import TileProduct, bytes_at


@instruction
def list_rows(typing, rows, columns, A, a0, a_row, wanted):
    """Put the cache lines of A[rows, columns] on the list of what `multiply` asks for meanwhile.

    wanted: [lines on the list, how many have been asked for, how many to ask for at a time, *their addresses].
    """
    line = 512 // A.dtype.bitwidth

    def body(e, rows, columns, A, a0, a_row, wanted):
        builder = e.builder
        places = e.pointer(lines, wanted, I64(0))
        count = e.variable(builder.load(places))
        with cgutils.for_range(builder, rows) as loop:
            source = e.pointer(e.kind, A, builder.add(a0, builder.mul(loop.index, a_row)))
            with cgutils.for_range_slice(builder, I64(0), columns, I64(line)) as (d, _):
                number = builder.load(count)
                address = builder.ptrtoint(builder.gep(source, [d]), I64)
                builder.store(address, builder.gep(places, [builder.add(number, I64(3))]))
                builder.store(builder.add(number, I64(1)), count)
        builder.store(builder.load(count), places)

    lines = wanted
    return VOID(INT, INT, A, INT, INT, wanted), emitted(body, 2)


def _fetch(builder, places, count, asked, rate):
    """Ask for the next `rate` lines on the list."""
    first = builder.load(asked)
    last = builder.add(first, rate)
    last = builder.select(builder.icmp_signed("<", last, count), last, count)
    with cgutils.for_range(builder, builder.sub(last, first)) as loop:
        place = builder.gep(places, [builder.add(builder.add(first, loop.index), I64(3))])
        where = builder.inttoptr(builder.load(place), I8.as_pointer())
        kind = ir.FunctionType(ir.VoidType(), [where.type, I32, I32, I32])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(function, [where, I32(0), I32(2), I32(1)])
    builder.store(last, asked)


@instruction
def multiply(typing, rows, columns, steps, A, a0, a_group, B, b0, b_group, C, c0, c_row, add, wanted):
    """C = A @ B (+ C), rows and columns multiples of 32, the depth 32 * steps.

    16 rows of A, and 16 columns of B, are `steps` times a tile of each piece; a_group and b_group words from one such
    group to the next. Meanwhile the lines on the list `wanted` are asked for, evenly: many at once would have to wait.
    """
    n = INT
    return VOID(n, n, n, A, n, n, B, n, n, C, n, n, BOOL, wanted), _emit_multiply


def _emit_multiply(context, builder, signature, args):
    rows, columns, steps, A, a0, a_group, B, b0, b_group, C, c0, c_row, add, wanted = args
    kinds, four = signature.args, I64(4)
    pieces = count_pieces(kinds[3])
    tiles = TileProduct(builder, pieces)
    sides = bytes_at(context, builder, kinds[3], A, a0), bytes_at(context, builder, kinds[6], B, b0)
    groups = [builder.mul(group, four) for group in (a_group, b_group)]
    places = context.make_array(kinds[13])(context, builder, wanted).data
    count, asked, rate = (builder.load(builder.gep(places, [I64(i)])) for i in range(3))
    asked = cgutils.alloca_once_value(builder, asked)
    first_c, row = bytes_at(context, builder, kinds[9], C, c0), builder.mul(c_row, four)
    with (
        cgutils.for_range_slice(builder, I64(0), rows, I64(2 * TILE)) as (i, _),
        cgutils.for_range_slice(builder, I64(0), columns, I64(2 * TILE)) as (j, _),
    ):
        corner = builder.gep(first_c, [builder.add(builder.mul(i, row), builder.mul(j, four))])
        numbers = [builder.mul(builder.sdiv(n, I64(TILE)), group) for n, group in zip((i, j), groups, strict=True)]
        tiles.start(add, corner, row)
        with cgutils.for_range(builder, steps) as loop:
            done = builder.mul(loop.index, I64(4 * pieces * PIECE))
            starts = [builder.gep(side, [builder.add(n, done)]) for side, n in zip(sides, numbers, strict=True)]
            tiles.step(starts, groups, lambda number, products: _fetch(builder, places, count, asked, rate))
        tiles.store(corner, row)
    builder.store(builder.load(asked), builder.gep(places, [I64(1)]))
    return context.get_dummy_value()
