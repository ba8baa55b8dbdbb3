"""What attention does to a panel of scores between its products, in vector registers.

A panel holds the scores of `PANEL * lanes` queries: S[j, q], of key j and query q, is S[s0 + j * width + q]. So the
queries are the lanes, what is summed over keys is a sum of rows, and nothing is ever added up across a register.

    hide                S[j, q] = -inf outside of a band around the diagonal
    column_maximum      m[q] = max(m[q], max_j S[j, q])
    exp_and_sum         S = exp(S - m), total[q] += sum_j S[j, q]
    scale_columns       S[j, q] *= factor[q]
    weight_gradients    S = exp(S - logsumexp), G = S (G - delta) scale
"""
# mypy: allow-untyped-defs

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils

from tinygrad_tf.kernels._scalar import instruction
from tinygrad_tf.kernels._tiles import PANEL
from tinygrad_tf.kernels._vector_math import MathEmitter

I32, I64 = ir.IntType(32), ir.IntType(64)
INT, BOOL, VOID = types.int64, types.boolean, types.void
INFINITY = float("inf")
ROWS_AT_ONCE = 4  # maxima kept apart, so that one need not wait for the other


class PanelEmitter(MathEmitter):
    """Emits loops over the rows of panels; `kind` is the array type of all that it is given."""

    def __init__(self, context, builder, kind):
        super().__init__(context, builder, kind)
        self.width = PANEL * self.lanes

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


def emitted(body, kind):
    """What an instruction emits: body(emitter, *arguments); argument number `kind` has the emitter's array type."""

    def emit(context, builder, signature, args):
        result = body(PanelEmitter(context, builder, signature.args[kind]), *args)
        return context.get_dummy_value() if signature.return_type == VOID else result

    return emit


# ---------------------------------------------------------------- the instructions
@instruction
def hide(typing, first, count, S, s0, begin, end):
    """S[j, q] = -inf unless begin + j <= q < end + j, in rows first ... count - 1."""

    def body(e, first, count, S, s0, begin, end):
        builder, nothing = e.builder, e.constant(-INFINITY)
        whole, width = ir.VectorType(I32, e.lanes), I64(e.width)
        with cgutils.for_range(builder, count, start=first) as loop:
            offset = e.row_offset(s0, loop.index)
            low = e.smaller(builder.add(begin, loop.index), width)
            high = e.smaller(builder.add(end, loop.index), width)
            low, high = (
                e.splat(builder.trunc(builder.select(builder.icmp_signed("<", x, I64(0)), I64(0), x), I32), whole)
                for x in (low, high)
            )
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
def scale_columns(typing, count, S, s0, factors, f0):
    """S[j, q] *= factors[f0 + q]."""

    def body(e, count, S, s0, factors, f0):
        factor = e.row(factors, f0)
        with cgutils.for_range(e.builder, count) as loop:
            offset = e.row_offset(s0, loop.index)
            e.put_row([e.builder.fmul(*pair) for pair in zip(e.row(S, offset), factor, strict=True)], S, offset)

    return VOID(INT, S, INT, factors, INT), emitted(body, 1)


@instruction
def weight_gradients(typing, count, S, s0, g0, logsumexp, l0, d0, scale):
    """S = exp(S - logsumexp), the weights; G, at S[g0 ...], = S (G - delta) scale, and 0 where the weight is 0."""

    def body(e, count, S, s0, g0, logsumexp, l0, d0, scale):
        builder = e.builder
        shift, delta, factor = e.row(logsumexp, l0), e.row(logsumexp, d0), e.splat(scale, e.vector)
        with cgutils.for_range(builder, count) as loop:
            at, g_at = e.row_offset(s0, loop.index), e.row_offset(g0, loop.index)
            weights = [e.exp(builder.fsub(s, l)) for s, l in zip(e.row(S, at), shift, strict=True)]
            gradients = []
            for weight, g, d in zip(weights, e.row(S, g_at), delta, strict=True):
                gradient = builder.fmul(builder.fmul(weight, factor), builder.fsub(g, d))
                # 0 * NaN would be NaN, but what has no weight has no say.
                gradients.append(builder.select(builder.fcmp_unordered("!=", weight, e.zero), gradient, e.zero))
            e.put_row(weights, S, at)
            e.put_row(gradients, S, g_at)

    return VOID(INT, S, INT, INT, logsumexp, INT, INT, S.dtype), emitted(body, 1)
