"""Between the callers' arrays and attention's panels, in vector registers: rows in, panels out, and back.

    memory_at, bytes_at     the flat array at an address, so that one compiled version serves every layout
    pack_columns            panel[d, q] = source[q, d] * scale
    unpack_columns          C[q, d] = panel[d, q] * factor[q], and whether there is a NaN
    add_mask, apply_bools   S[j, q] += mask[q, j], and S[j, q] = -inf where a mask says no
    row_dots                total[q] = sum_d G[q, d] * O[q, d]
    scale_rows              C[i, :] = A[i, :] * factor, and whether there is a NaN

A panel may be written beyond its last row, up to whole vectors; lanes beyond the last query repeat it.
"""
# mypy: allow-untyped-defs

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.np.arrayobj import make_array, populate_array

from tinygrad_tf.kernels._attention_panel import BOOL, I32, I64, INFINITY, INT, VOID, emitted
from tinygrad_tf.kernels._half_rows import load_numbers
from tinygrad_tf.kernels._scalar import instruction
from tinygrad_tf.kernels._vector import _transposed

I8 = ir.IntType(8)


@instruction
def memory_at(typing, address, like):
    """The memory at `address` as a flat array of like's type, whatever lies there: its length is unknown."""
    return types.Array(like.dtype, 1, "C")(INT, like), _emit_memory


@instruction
def bytes_at(typing, address):
    """The memory at `address` as a flat array of bytes."""
    return types.Array(types.uint8, 1, "C")(INT), _emit_memory


def _emit_memory(context, builder, signature, args):
    array = make_array(signature.return_type)(context, builder)
    element = context.get_data_type(signature.return_type.dtype)
    itemsize = I64(context.get_abi_sizeof(element))
    pointer = builder.inttoptr(args[0], element.as_pointer())
    # numba adds the length to a negative offset; with a length of 0 such an offset (a negative stride) means itself.
    populate_array(array, pointer, [I64(0)], [itemsize], itemsize, meminfo=None)
    return array._getvalue()


# ---------------------------------------------------------------- from rows to panels
def _squares(e, rows, columns, load, use):
    """Transpose a block square by square: load(row, column, mask) a vector, use(column, its place in a row, vector)."""
    builder = e.builder
    last = builder.sub(rows, I64(1))
    with (
        cgutils.for_range_slice(builder, I64(0), I64(e.width), I64(e.lanes)) as (q, _),
        e.vectors_of(columns) as (c, _),
    ):
        mask = e.inside(columns, c)
        square = [load(e.smaller(builder.add(q, I64(i)), last), c, mask) for i in range(e.lanes)]
        for i, vector in enumerate(_transposed(e, square)):
            use(builder.add(c, I64(i)), q, vector)


@instruction
def pack_columns(typing, rows, columns, source, start, row, scale, panel, p0):
    """panel[d, q] = source[q, d] * scale; the panel has room for whole vectors of d."""

    def body(e, rows, columns, source, start, row, scale, panel, p0):
        first, factor = e.pointer(e.kind, source, start), e.splat(scale, e.vector)

        def load(q, d, mask):
            offset = e.builder.add(e.builder.mul(q, row), d)
            return e.builder.fmul(e.load(e.at(first, offset), 0, mask), factor)

        def use(d, q, vector):
            e.store(vector, e.at(e.pointer(e.kind, panel, e.row_offset(p0, d)), q))

        _squares(e, rows, columns, load, use)

    return VOID(INT, INT, source, INT, INT, source.dtype, panel, INT), emitted(body, 2)


@instruction
def unpack_columns(typing, rows, columns, panel, p0, factors, f0, C, c0, c_row):
    """C[q, d] = panel[d, q] * factors[f0 + q], and 0 for the factor 0; whether a NaN has come out."""

    def body(e, rows, columns, panel, p0, factors, f0, C, c0, c_row):
        builder = e.builder
        flags = ir.VectorType(ir.IntType(1), e.lanes)
        spoilt = e.variable(ir.Constant(flags, [0] * e.lanes))
        with cgutils.for_range_slice(builder, I64(0), rows, I64(e.lanes)) as (q, _):
            factor = e.load(e.at(e.pointer(e.kind, factors, f0), q))
            none = builder.fcmp_ordered("==", factor, e.zero)

            def unpack(d, mask):
                start = e.at(e.pointer(e.kind, panel, e.row_offset(p0, d)), q)
                square = [builder.fmul(e.load(e.at(start, I64(i * e.width))), factor) for i in range(e.lanes)]
                square = _transposed(e, [builder.select(none, e.zero, row) for row in square])
                for i, row in enumerate(square):
                    at = builder.add(q, I64(i))
                    with builder.if_then(builder.icmp_signed("<", at, rows)):
                        _note_nan(e, row, mask, spoilt)
                        e.store(row, e.at(e.pointer(e.kind, C, builder.add(c0, builder.mul(at, c_row))), d), 0, mask)

            e.each_vector(columns, unpack)
        return _any(e, spoilt)

    return BOOL(INT, INT, panel, INT, factors, INT, C, INT, INT), emitted(body, 2)


def _add_squares(e, rows, columns, load, S, s0):
    """S[j, q] += what is loaded from (q, j), and -inf if that is -inf, even if S is NaN."""
    builder, nothing = e.builder, e.constant(-INFINITY)

    def use(j, q, addend):
        where = e.at(e.pointer(e.kind, S, e.row_offset(s0, j)), q)
        total = builder.fadd(e.load(where), addend)
        e.store(builder.select(builder.fcmp_ordered("==", addend, nothing), nothing, total), where)

    _squares(e, rows, columns, load, use)


@instruction
def add_mask(typing, rows, columns, mask, start, row, S, s0):
    """S[j, q] += mask[q, j], whose rows are contiguous; -inf hides even a NaN."""

    def body(e, rows, columns, mask, start, row, S, s0):
        first = e.pointer(e.kind, mask, start)

        def load(q, j, inside):
            return e.load(e.at(first, e.builder.add(e.builder.mul(q, row), j)), 0, inside)

        _add_squares(e, rows, columns, load, S, s0)

    return VOID(INT, INT, mask, INT, INT, S, INT), emitted(body, 5)


@instruction
def apply_bools(typing, rows, columns, mask, start, row, S, s0):
    """S[j, q] = -inf where mask[q, j], a byte in contiguous rows, is 0."""

    def body(e, rows, columns, mask, start, row, S, s0):
        builder, bytes_ = e.builder, ir.VectorType(I8, e.lanes)
        first = e.pointer(types.Array(types.uint8, 1, "C"), mask, start)
        none = ir.Constant(bytes_, [0] * e.lanes)

        def load(q, j, inside):
            where = builder.bitcast(e.at(first, builder.add(builder.mul(q, row), j)), bytes_.as_pointer())
            kind = ir.FunctionType(bytes_, [where.type, I32, inside.type, bytes_])
            function = e._function(f"llvm.masked.load.v{e.lanes}i8.p0", kind)
            allowed = builder.icmp_unsigned("!=", builder.call(function, [where, I32(1), inside, none]), none)
            return builder.select(allowed, e.zero, e.constant(-INFINITY))

        _add_squares(e, rows, columns, load, S, s0)

    return VOID(INT, INT, mask, INT, INT, S, INT), emitted(body, 5)


# ---------------------------------------------------------------- rows of the callers' arrays
@instruction
def row_dots(typing, rows, columns, G, g0, g_row, O, o0, o_row, total, t0):
    """total[q] = sum_d G[q, d] * O[q, d], for rows of float32, float64, or of bfloat16 as uint16."""

    def body(e, rows, columns, G, g0, g_row, O, o0, o_row, total, t0):
        builder = e.builder
        add_up = e._function(f"llvm.vector.reduce.fadd.{e.suffix}", ir.FunctionType(e.scalar, [e.scalar, e.vector]))
        with cgutils.for_range(builder, rows) as loop:
            q = loop.index
            left = e.pointer(kind, G, builder.add(g0, builder.mul(q, g_row)))
            right = e.pointer(kind, O, builder.add(o0, builder.mul(q, o_row)))
            products = e.variable(e.zero)

            def add_products(d, mask):
                both = (load_numbers(e, e.at(side, d), mask) for side in (left, right))
                builder.store(e.fma(*both, builder.load(products)), products)

            e.each_vector(columns, add_products)
            sum_ = builder.call(add_up, [e.scalar(0.0), builder.load(products)], fastmath=("reassoc",))
            builder.store(sum_, e.pointer(e.kind, total, builder.add(t0, q)))

    kind = G
    return VOID(INT, INT, G, INT, INT, O, INT, INT, total, INT), emitted(body, 8)


@instruction
def scale_rows(typing, rows, columns, A, a0, a_row, C, c0, c_row, factor):
    """C[i, :] = A[i, :] * factor, and 0 for the factor 0, even from a NaN; whether a NaN has come out."""

    def body(e, rows, columns, A, a0, a_row, C, c0, c_row, factor):
        builder = e.builder
        flags = ir.VectorType(ir.IntType(1), e.lanes)
        spoilt = e.variable(ir.Constant(flags, [0] * e.lanes))
        none, factor = builder.fcmp_ordered("==", factor, e.scalar(0.0)), e.splat(factor, e.vector)
        with cgutils.for_range(builder, rows) as loop:
            source = e.pointer(e.kind, A, builder.add(a0, builder.mul(loop.index, a_row)))
            target = e.pointer(e.kind, C, builder.add(c0, builder.mul(loop.index, c_row)))

            def scale(d, mask):
                product = builder.select(none, e.zero, builder.fmul(e.load(e.at(source, d), 0, mask), factor))
                e.store(product, e.at(target, d), 0, mask)
                _note_nan(e, product, mask, spoilt)

            e.each_vector(columns, scale)
        return _any(e, spoilt)

    return BOOL(INT, INT, A, INT, INT, C, INT, INT, A.dtype), emitted(body, 2)


def _note_nan(e, vector, mask, spoilt):
    """Remember in `spoilt` the lanes of a vector, within the mask, that hold a NaN."""
    bad = e.builder.fcmp_unordered("uno", vector, vector)
    bad = bad if mask is None else e.builder.and_(mask, bad)
    e.builder.store(e.builder.or_(e.builder.load(spoilt), bad), spoilt)


def _any(e, flags):
    number = e.builder.bitcast(e.builder.load(flags), ir.IntType(e.lanes))
    return e.builder.icmp_unsigned("!=", number, number.type(0))
