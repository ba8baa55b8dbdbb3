"""What attention does to one panel of scores between its products, in vector registers.

A panel holds the scores of `PANEL * lanes` queries: S[j, q] for key j and query q lies at S[s0 + j * width + q]. So the
queries are the lanes, a sum over keys is a sum of rows, and nothing is ever added up across a register.

    memory_at           the flat array at an address, so that one compiled version serves every layout of the caller's
    column_maximum      m[q] = max(m[q], max_j S[j, q])
    exp_and_sum         S = exp(S - m), l[q] += sum_j S[j, q]
    weight_gradients    S = exp(S - logsumexp) = P, and G = P (G - delta) scale, which is 0 wherever P is
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array, populate_array

from tinygrad_tf.kernels._math import FLOAT32, FLOAT64
from tinygrad_tf.kernels._tiles import PANEL
from tinygrad_tf.kernels._vector import Emitter

I64 = ir.IntType(64)
ROWS_AT_ONCE = 4  # maxima kept apart, so that one need not wait for the other


@intrinsic
def memory_at(typing: Any, address: Any, like: Any) -> Any:
    """The memory at `address` as a flat array of like's type, whatever lies there: its length is unknown."""
    return types.Array(like.dtype, 1, "C")(types.int64, like), emit_memory


@intrinsic
def bytes_at(typing: Any, address: Any) -> Any:
    """The memory at `address` as a flat array of bytes."""
    return types.Array(types.uint8, 1, "C")(types.int64), emit_memory


def emit_memory(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    array = make_array(signature.return_type)(context, builder)
    element = context.get_data_type(signature.return_type.dtype)
    itemsize = I64(context.get_abi_sizeof(element))
    pointer = builder.inttoptr(args[0], element.as_pointer())
    # numba adds the length to a negative offset; with a length of 0 such an offset (a negative stride) means what it says.
    populate_array(array, pointer, [I64(0)], [itemsize], itemsize, meminfo=None)
    return array._getvalue()


class PanelEmitter(Emitter):
    """Emits loops over the rows of panels."""

    def __init__(self, context: Any, builder: Any, kind: Any) -> None:
        super().__init__(context, builder, kind)
        self.kind = kind
        self.numbers = FLOAT32 if self.scalar == ir.FloatType() else FLOAT64
        self.bits = ir.VectorType(ir.IntType(32 if self.numbers is FLOAT32 else 64), self.lanes)
        self.width = PANEL * self.lanes

    def constant(self, number: Any) -> Any:
        return ir.Constant(self.vector, [float(number)] * self.lanes)

    def row(self, array: Any, offset: Any) -> list[Any]:
        pointer = self.pointer(self.kind, array, offset)
        return [self.load(pointer, v) for v in range(PANEL)]

    def put_row(self, row: list[Any], array: Any, offset: Any) -> None:
        pointer = self.pointer(self.kind, array, offset)
        for v in range(PANEL):
            self.store(row[v], pointer, v)

    def row_offset(self, start: Any, row: Any) -> Any:
        return self.builder.add(start, self.builder.mul(row, I64(self.width)))

    def variables(self, row: list[Any]) -> list[Any]:
        return [cgutils.alloca_once_value(self.builder, vector) for vector in row]

    def larger(self, a: Any, b: Any) -> Any:
        """b where a is NaN."""
        return self.builder.select(self.builder.fcmp_ordered(">", a, b), a, b)

    def exp(self, x: Any) -> Any:
        """exp(x) for x <= 0, as `_math.exp_negative` computes it."""
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


@intrinsic
def column_maximum(typing: Any, count: Any, S: Any, s0: Any, m: Any, m0: Any) -> Any:
    """m[q] = max(m[q], max_j S[j, q]) for count >= 1 rows."""
    n = types.int64

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        count, S, s0, m, m0 = args
        e = PanelEmitter(context, builder, signature.args[1])
        last = builder.sub(count, I64(1))
        best = [e.variables(e.row(m, m0)) for _ in range(ROWS_AT_ONCE)]
        with cgutils.for_range_slice(builder, I64(0), count, I64(ROWS_AT_ONCE)) as (j, _):
            for i in range(ROWS_AT_ONCE):
                row = builder.add(j, I64(i))
                row = builder.select(builder.icmp_signed("<", row, count), row, last)  # a row twice does no harm
                for variable, vector in zip(best[i], e.row(S, e.row_offset(s0, row)), strict=True):
                    builder.store(e.larger(vector, builder.load(variable)), variable)
        rows = [[builder.load(variable) for variable in row] for row in best]
        while len(rows) > 1:
            rows = [list(map(e.larger, rows[i], rows[i + 1])) for i in range(0, len(rows), 2)]
        e.put_row(rows[0], m, m0)
        return context.get_dummy_value()

    return types.void(n, S, n, m, n), emit


@intrinsic
def exp_and_sum(typing: Any, count: Any, S: Any, s0: Any, m: Any, m0: Any, total: Any, t0: Any) -> Any:
    """S = exp(S - m), and the sums of its columns are added to `total`."""
    n = types.int64

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        count, S, s0, m, m0, total, t0 = args
        e = PanelEmitter(context, builder, signature.args[1])
        top, sums = e.row(m, m0), e.variables(e.row(total, t0))
        with cgutils.for_range(builder, count) as loop:
            offset = e.row_offset(s0, loop.index)
            weights = [e.exp(builder.fsub(s, t)) for s, t in zip(e.row(S, offset), top, strict=True)]
            for variable, weight in zip(sums, weights, strict=True):
                builder.store(builder.fadd(builder.load(variable), weight), variable)
            e.put_row(weights, S, offset)
        e.put_row([builder.load(variable) for variable in sums], total, t0)
        return context.get_dummy_value()

    return types.void(n, S, n, m, n, total, n), emit


@intrinsic
def weight_gradients(
    typing: Any, count: Any, S: Any, s0: Any, g0: Any, logsumexp: Any, l0: Any, delta: Any, d0: Any, scale: Any
) -> Any:
    """S = exp(S - logsumexp), the weights; G, at S[g0 ...], becomes S * (G - delta) * scale, or 0 where the weight is 0."""
    n = types.int64

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        count, S, s0, g0, logsumexp, l0, delta, d0, scale = args
        e = PanelEmitter(context, builder, signature.args[1])
        shift, common, factor = e.row(logsumexp, l0), e.row(delta, d0), e.splat(scale, e.vector)
        with cgutils.for_range(builder, count) as loop:
            at, g_at = e.row_offset(s0, loop.index), e.row_offset(g0, loop.index)
            weights = [e.exp(builder.fsub(s, l)) for s, l in zip(e.row(S, at), shift, strict=True)]
            gradients = []
            for weight, g, d in zip(weights, e.row(S, g_at), common, strict=True):
                gradient = builder.fmul(builder.fmul(weight, factor), builder.fsub(g, d))
                # 0 * NaN would be NaN, but what has no weight has no say.
                gradients.append(builder.select(builder.fcmp_unordered("!=", weight, e.zero), gradient, e.zero))
            e.put_row(weights, S, at)
            e.put_row(gradients, S, g_at)
        return context.get_dummy_value()

    return types.void(n, S, n, n, logsumexp, n, delta, n, S.dtype), emit
