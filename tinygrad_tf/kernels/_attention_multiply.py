"""Attention's products on the matrix tiles, and the memory that is asked for while the tiles multiply.

list_rows    puts rows, which are soon to be read or written, on a list
multiply     left operands by right ones, both in pieces
"""
# mypy: allow-untyped-defs

from __future__ import annotations

from llvmlite import ir
from numba.core import cgutils

from tinygrad_tf.kernels._attention_panel import BOOL, I32, I64, INT, VOID, emitted
from tinygrad_tf.kernels._matrix_tiles import PIECE, PIECES, PRODUCTS, TILE, _call, _pieces_in
from tinygrad_tf.kernels._scalar import instruction

I8 = ir.IntType(8)


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
    rows, columns, steps, _, _, a_group, _, _, b_group, C, c0, c_row, add, wanted = args
    pieces = _pieces_in(signature.args[3])
    products = PRODUCTS if pieces == PIECES else ((0, 0),)
    sides = [_bytes(context, builder, signature.args[i], args[i], args[i + 1]) for i in (3, 6)]
    groups = [builder.mul(group, I64(4)) for group in (a_group, b_group)]
    places = context.make_array(signature.args[13])(context, builder, wanted).data
    count, asked, rate = (builder.load(builder.gep(places, [I64(i)])) for i in range(3))
    asked = cgutils.alloca_once_value(builder, asked)
    first_c, row = _bytes(context, builder, signature.args[9], C, c0), builder.mul(c_row, I64(4))
    with (
        cgutils.for_range_slice(builder, I64(0), rows, I64(2 * TILE)) as (i, _),
        cgutils.for_range_slice(builder, I64(0), columns, I64(2 * TILE)) as (j, _),
    ):
        starts = [builder.gep(side, [builder.mul(builder.sdiv(n, I64(TILE)), group)])
                  for side, group, n in zip(sides, groups, (i, j), strict=True)]  # fmt: skip
        corner = builder.gep(first_c, [builder.add(builder.mul(i, row), builder.mul(j, I64(4)))])
        tiles = [builder.gep(corner, [builder.add(builder.mul(row, I64(TILE * (t // 2))), I64(64 * (t % 2)))])
                 for t in range(4)]  # fmt: skip
        with builder.if_else(add) as (adding, putting):
            with adding:
                for t, where in enumerate(tiles):
                    _call(builder, "tileloadd64", I8(t), where, row)
            with putting:
                for t in range(4):
                    _call(builder, "tilezero", I8(t))
        with cgutils.for_range(builder, steps) as loop:
            done = builder.mul(loop.index, I64(4 * pieces * PIECE))
            held: list[int | None] = [None, None]
            for pair in products:
                for side, piece in enumerate(pair):
                    for t in range(2) if held[side] != piece else ():
                        offset = builder.add(done, I64(4 * PIECE * piece))
                        offset = builder.add(offset, groups[side]) if t else offset
                        _call(
                            builder, "tileloadd64", I8(4 + 2 * side + t), builder.gep(starts[side], [offset]), I64(64)
                        )
                held = list(pair)
                for t in range(4):
                    _call(builder, "tdpbf16ps", I8(t), I8(4 + t // 2), I8(6 + t % 2))
                _fetch(builder, places, count, asked, rate)
        for t, where in enumerate(tiles):
            _call(builder, "tilestored64", I8(t), where, row)
    builder.store(builder.load(asked), builder.gep(places, [I64(1)]))
    return context.get_dummy_value()


def _bytes(context, builder, kind, array, offset):
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [offset]), I8.as_pointer())
