"""What attention does to a panel of scores between its products, in vector registers.

A panel holds the scores of `PANEL * lanes` queries: S[j, q], of key j and query q, is S[s0 + j * width + q]. So the
queries are the lanes, what is summed over keys is a sum of rows, and nothing is ever added up across a register.

    memory_at, bytes_at     the flat array at an address, so that one compiled version serves every layout
    pack_columns            panel[d, q] = source[q, d] * scale
    row_dots                total[q] = sum_d G[q, d] * O[q, d]
    hide                    S[j, q] = -inf outside of a band around the diagonal
    add_mask, apply_bools   S[j, q] += mask[q, j], and S[j, q] = -inf where a mask says no
    column_maximum          m[q] = max(m[q], max_j S[j, q])
    exp_and_sum             S = exp(S - m), total[q] += sum_j S[j, q]
    weight_gradients        S = exp(S - logsumexp), G = S * (G - delta)
    scale_rows              C[i, :] *= factor[i], and whether there is a NaN

Panels have whole vectors: lanes beyond the last query repeat it, and so do rows beyond a block's last key.
"""
# mypy: allow-untyped-defs

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.np.arrayobj import make_array, populate_array

from tinygrad_tf.kernels._math_constants import FLOAT32, FLOAT64
from tinygrad_tf.kernels._scalar import instruction
from tinygrad_tf.kernels._tiles import PANEL
from tinygrad_tf.kernels._vector import Emitter

I8, I32, I64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)
INT, BOOL, VOID = types.int64, types.boolean, types.void
INFINITY = float("inf")
ROWS_AT_ONCE = 4  # maxima kept apart, so that one need not wait for the other


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


class PanelEmitter(Emitter):
    """Emits loops over the rows of panels; `kind` is the array type of all that it is given."""

    def __init__(self, context, builder, kind):
        super().__init__(context, builder, kind)
        self.kind = kind
        self.numbers = FLOAT32 if self.scalar == ir.FloatType() else FLOAT64
        self.bits = ir.VectorType(ir.IntType(32 if self.numbers is FLOAT32 else 64), self.lanes)
        self.width = PANEL * self.lanes

    def constant(self, number):
        return ir.Constant(self.vector, [float(number)] * self.lanes)

    def element(self, array, offset):
        """Element `offset` in every lane."""
        return self.broadcast(self.pointer(self.kind, array, offset))

    def row(self, array, offset):
        pointer = self.pointer(self.kind, array, offset)
        return [self.load(pointer, v) for v in range(PANEL)]

    def put_row(self, row, array, offset):
        pointer = self.pointer(self.kind, array, offset)
        for v in range(PANEL):
            self.store(row[v], pointer, v)

    def row_offset(self, start, row):
        return self.builder.add(start, self.builder.mul(row, I64(self.width)))

    def variable(self, value):
        return cgutils.alloca_once_value(self.builder, value)

    def smaller(self, a, b):
        """The smaller of two integers."""
        return self.builder.select(self.builder.icmp_signed("<", a, b), a, b)

    def larger(self, a, b):
        """Lane by lane; b where a is NaN."""
        return self.builder.select(self.builder.fcmp_ordered(">", a, b), a, b)

    def vectors_of(self, columns):
        """A loop over `columns` elements, a vector at a time: (offset, mask of the lanes that are inside)."""
        return cgutils.for_range_slice(self.builder, I64(0), columns, I64(self.lanes))

    def inside(self, columns, offset):
        return self.mask(self.builder.sub(columns, offset), 0)

    def transposed(self, rows):
        """A square of `lanes` vectors; round s exchanges the off-diagonal s x s blocks of every 2s x 2s block."""
        rows, step = list(rows), 1
        while step < self.lanes:
            upper = [p if not p & step else p - step + self.lanes for p in range(self.lanes)]
            lower = [p + step if not p & step else p + self.lanes for p in range(self.lanes)]
            for i in range(self.lanes):
                if not i & step:
                    pair = rows[i], rows[i + step]
                    rows[i], rows[i + step] = self.shuffle(*pair, upper), self.shuffle(*pair, lower)
            step *= 2
        return rows

    def exp(self, x):
        """exp(x) for x <= 0, as `_math.exp_negative` computes it: exactly 0 for -inf."""
        builder, k = self.builder, self.numbers
        lowest = self.constant(k.exp_smallest)
        x = builder.select(builder.fcmp_ordered("<", x, lowest), lowest, x)
        shifted = self.fma(x, self.constant(k.per_ln2), self.constant(k.shifter))
        n = builder.fsub(shifted, self.constant(k.shifter))
        r = self.fma(n, self.constant(-k.ln2_low), self.fma(n, self.constant(-k.ln2_high), x))
        total = self.constant(k.exp_terms[-1])
        for term in reversed(k.exp_terms[:-1]):
            total = self.fma(total, r, self.constant(term))
        bias, mantissa = (ir.Constant(self.bits, [int(number)] * self.lanes) for number in (k.bias, k.mantissa))
        exponent = builder.shl(builder.add(builder.bitcast(shifted, self.bits), bias), mantissa)
        return builder.fmul(total, builder.bitcast(exponent, self.vector))


def emitted(body, kind):
    """What an instruction emits: body(emitter, *arguments); argument number `kind` has the emitter's array type."""

    def emit(context, builder, signature, args):
        result = body(PanelEmitter(context, builder, signature.args[kind]), *args)
        return context.get_dummy_value() if signature.return_type == VOID else result

    return emit


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
        for i, vector in enumerate(e.transposed(square)):
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


# ---------------------------------------------------------------- row by row
@instruction
def hide(typing, first, count, S, s0, begin, end):
    """S[j, q] = -inf unless begin + j <= q < end + j, in rows first ... count - 1."""

    def body(e, first, count, S, s0, begin, end):
        builder, nothing = e.builder, e.constant(-INFINITY)
        whole = ir.VectorType(I64, e.lanes)
        with cgutils.for_range(builder, count, start=first) as loop:
            offset = e.row_offset(s0, loop.index)
            low, high = (e.splat(builder.add(border, loop.index), whole) for border in (begin, end))
            row = e.row(S, offset)
            for v in range(PANEL):
                q = ir.Constant(whole, [v * e.lanes + lane for lane in range(e.lanes)])
                seen = builder.and_(builder.icmp_signed(">=", q, low), builder.icmp_signed("<", q, high))
                row[v] = builder.select(seen, row[v], nothing)
            e.put_row(row, S, offset)

    return VOID(INT, INT, S, INT, INT, INT), emitted(body, 2)


@instruction
def column_maximum(typing, count, S, s0, m, m0):
    """m[q] = max(m[q], max_j S[j, q]) over count >= 1 rows; NaN is passed over."""

    def body(e, count, S, s0, m, m0):
        builder = e.builder
        last = builder.sub(count, I64(1))
        best = [[e.variable(vector) for vector in e.row(m, m0)] for _ in range(ROWS_AT_ONCE)]
        with cgutils.for_range_slice(builder, I64(0), count, I64(ROWS_AT_ONCE)) as (j, _):
            for i in range(ROWS_AT_ONCE):
                row = e.row(S, e.row_offset(s0, e.smaller(builder.add(j, I64(i)), last)))  # a row twice does no harm
                for variable, vector in zip(best[i], row, strict=True):
                    builder.store(e.larger(vector, builder.load(variable)), variable)
        rows = [[builder.load(variable) for variable in row] for row in best]
        while len(rows) > 1:
            rows = [list(map(e.larger, rows[i], rows[i + 1])) for i in range(0, len(rows), 2)]
        e.put_row(rows[0], m, m0)

    return VOID(INT, S, INT, m, INT), emitted(body, 1)


@instruction
def exp_and_sum(typing, count, S, s0, m, m0, total, t0):
    """S = exp(S - m), and the sums of its columns are added to `total`."""

    def body(e, count, S, s0, m, m0, total, t0):
        builder = e.builder
        top, sums = e.row(m, m0), [e.variable(vector) for vector in e.row(total, t0)]
        with cgutils.for_range(builder, count) as loop:
            offset = e.row_offset(s0, loop.index)
            weights = [e.exp(builder.fsub(s, t)) for s, t in zip(e.row(S, offset), top, strict=True)]
            for variable, weight in zip(sums, weights, strict=True):
                builder.store(builder.fadd(builder.load(variable), weight), variable)
            e.put_row(weights, S, offset)
        e.put_row([builder.load(variable) for variable in sums], total, t0)

    return VOID(INT, S, INT, m, INT, total, INT), emitted(body, 1)


@instruction
def weight_gradients(typing, count, S, s0, g0, logsumexp, l0, d0):
    """S = exp(S - logsumexp), the weights; G, at S[g0 ...], becomes S * (G - delta), but 0 where the weight is 0."""

    def body(e, count, S, s0, g0, logsumexp, l0, d0):
        builder = e.builder
        shift, delta = e.row(logsumexp, l0), e.row(logsumexp, d0)
        with cgutils.for_range(builder, count) as loop:
            at, g_at = e.row_offset(s0, loop.index), e.row_offset(g0, loop.index)
            weights = [e.exp(builder.fsub(s, l)) for s, l in zip(e.row(S, at), shift, strict=True)]
            gradients = []
            for weight, g, d in zip(weights, e.row(S, g_at), delta, strict=True):
                gradient = builder.fmul(weight, builder.fsub(g, d))
                # 0 * NaN would be NaN, but what has no weight has no say.
                gradients.append(builder.select(builder.fcmp_unordered("!=", weight, e.zero), gradient, e.zero))
            e.put_row(weights, S, at)
            e.put_row(gradients, S, g_at)

    return VOID(INT, S, INT, INT, logsumexp, INT, INT), emitted(body, 1)


# ---------------------------------------------------------------- rows of the callers' arrays
@instruction
def row_dots(typing, rows, columns, G, g0, g_row, O, o0, o_row, total, t0):
    """total[q] = sum_d G[q, d] * O[q, d]."""

    def body(e, rows, columns, G, g0, g_row, O, o0, o_row, total, t0):
        builder = e.builder
        add_up = e._function(f"llvm.vector.reduce.fadd.{e.suffix}", ir.FunctionType(e.scalar, [e.scalar, e.vector]))
        with cgutils.for_range(builder, rows) as loop:
            q = loop.index
            left = e.pointer(e.kind, G, builder.add(g0, builder.mul(q, g_row)))
            right = e.pointer(e.kind, O, builder.add(o0, builder.mul(q, o_row)))
            products = e.variable(e.zero)
            with e.vectors_of(columns) as (d, _):
                mask = e.inside(columns, d)
                both = (e.load(e.at(side, d), 0, mask) for side in (left, right))
                builder.store(e.fma(*both, builder.load(products)), products)
            sum_ = builder.call(add_up, [e.scalar(0.0), builder.load(products)], fastmath=("reassoc",))
            builder.store(sum_, e.pointer(e.kind, total, builder.add(t0, q)))

    return VOID(INT, INT, G, INT, INT, O, INT, INT, total, INT), emitted(body, 2)


@instruction
def scale_rows(typing, rows, columns, C, c0, c_row, factors, f0, f_step):
    """C[i, :] *= factors[f0 + i * f_step], where a factor 0 makes even a NaN 0; whether a NaN has come out."""

    def body(e, rows, columns, C, c0, c_row, factors, f0, f_step):
        builder = e.builder
        flags = ir.VectorType(ir.IntType(1), e.lanes)
        spoilt = e.variable(ir.Constant(flags, [0] * e.lanes))
        with cgutils.for_range(builder, rows) as loop:
            row = e.pointer(e.kind, C, builder.add(c0, builder.mul(loop.index, c_row)))
            factor = e.element(factors, builder.add(f0, builder.mul(loop.index, f_step)))
            none = builder.fcmp_ordered("==", factor, e.zero)
            with e.vectors_of(columns) as (d, _):
                mask, where = e.inside(columns, d), e.at(row, d)
                product = builder.select(none, e.zero, builder.fmul(e.load(where, 0, mask), factor))
                builder.store(
                    builder.or_(builder.load(spoilt), builder.fcmp_unordered("uno", product, product)), spoilt
                )
                e.store(product, where, 0, mask)
        number = builder.bitcast(builder.load(spoilt), ir.IntType(e.lanes))
        return builder.icmp_unsigned("!=", number, number.type(0))

    return BOOL(INT, INT, C, INT, INT, factors, INT, INT), emitted(body, 2)
