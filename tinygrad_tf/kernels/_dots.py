"""Rows times the rows of a weight, which lies as layers keep it: many dot products at once, in vector registers.

    make_dots(rows, columns)    Y[rows, columns] = X @ W.T, or added to Y
    few_dots                    one row of X with eight of W
    multiply_rows               any number of rows of X with any of W: squares of four by four, and the rest by few_dots

A dot product ends with a sum over the lanes of a register, which takes as many instructions as eight multiply-adds.
Sixteen registers are added up pair by pair instead, until one of them holds all sixteen sums: a third of that.
"""
# mypy: allow-untyped-defs

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from tinygrad_tf.kernels._part import part
from tinygrad_tf.kernels._scalar import instruction
from tinygrad_tf.kernels._vector import HEIGHT, I32, I64, Emitter, _exchange

ROWS, MANY = (4 if HEIGHT == 12 else 2), 4  # of X and of W; as many registers hold sums
FEW = 8  # rows of W for one of X


def make_dots(rows: int, columns: int) -> Callable[..., Any]:
    """An instruction (K, X, x0, x_row, W, w0, last, Y, y0, y_row, add) on flat arrays of one float type.

    W has rows of K >= 1 numbers, one behind the other. Columns 0 ... last of Y are written (last < columns); for those
    beyond there are no rows in W. With `add`, Y is added to.
    """

    @instruction
    def dots(typing, K, X, x0, x_row, W, w0, last, Y, y0, y_row, add):
        n = types.int64
        return types.void(n, X, n, n, W, n, n, Y, n, n, types.boolean), emit

    def emit(context, builder, signature, args):
        K, X, x0, x_row, W, w0, last, Y, y0, y_row, add = args
        of_X, of_W, of_Y = signature.args[1], signature.args[4], signature.args[7]
        e = Emitter(context, builder, of_X)
        inside = [builder.select(builder.icmp_signed("<", I64(j), last), I64(j), last) for j in range(columns)]
        left = [e.pointer(of_X, X, builder.add(x0, builder.mul(x_row, I64(i)))) for i in range(rows)]
        right = [e.pointer(of_W, W, builder.add(w0, builder.mul(K, j))) for j in inside]  # the last row stands in
        sums = [[cgutils.alloca_once_value(builder, e.zero) for _ in right] for _ in left]

        def add_products(k, mask):
            x, w = ([e.load(e.at(row, k), 0, mask) for row in side] for side in (left, right))
            for i in range(rows):
                for j in range(columns):
                    builder.store(e.fma(x[i], w[j], builder.load(sums[i][j])), sums[i][j])

        e.each_vector(K, add_products)
        totals = _sums_of_lanes(e, [builder.load(sum_) for row in sums for sum_ in row])
        for i in range(rows):
            target = e.pointer(of_Y, Y, builder.add(y0, builder.mul(y_row, I64(i))))
            _put(e, _picked(e, totals, i * columns, columns), target, last, add)
        return context.get_dummy_value()

    return dots


def _sums_of_lanes(e, vectors):
    """The sum of the lanes of each vector, in order, in as few vectors as they fill."""
    if len(vectors) > e.lanes:
        return [sums for i in range(0, len(vectors), e.lanes) for sums in _sums_of_lanes(e, vectors[i : i + e.lanes])]
    step = 1
    while step < e.lanes:
        if len(vectors) > 1:  # halves of two vectors' sums become one: the first's lie where lane & step is 0
            upper, lower = _exchange(e.lanes, step)
            pairs = zip(vectors[0::2], vectors[1::2], strict=True)
            vectors = [e.builder.fadd(e.shuffle(a, b, upper), e.shuffle(a, b, lower)) for a, b in pairs]
        else:
            (both,) = vectors
            vectors = [e.builder.fadd(both, e.shuffle(both, both, [lane ^ step for lane in range(e.lanes)]))]
        step *= 2
    return vectors


def _picked(e, totals, first, count):
    """Numbers first ... first + count - 1 of them, as a vector of that many."""
    numbers = [e.builder.extract_element(totals[n // e.lanes], I32(n % e.lanes)) for n in range(first, first + count)]
    vector = ir.Constant(ir.VectorType(e.scalar, count), ir.Undefined)
    for lane, number in enumerate(numbers):
        vector = e.builder.insert_element(vector, number, I32(lane))
    return vector


def _put(e, vector, target, last, add):
    """Write the numbers 0 ... last of a vector, or add them to what is there."""
    builder, count = e.builder, vector.type.count
    where = builder.bitcast(target, vector.type.as_pointer())
    all_of_them = builder.icmp_signed("==", last, I64(count - 1))
    with builder.if_else(all_of_them) as (all_, some):
        with all_:
            total = builder.fadd(vector, builder.load(where, align=e.align, typ=vector.type))
            builder.store(builder.select(add, total, vector), where, align=e.align)
        with some:
            _put_some(e, vector, where, last, add)


def _put_some(e, vector, where, last, add):
    """The same by masks, for fewer than all."""
    builder, count = e.builder, vector.type.count
    numbers = ir.VectorType(I64, count)
    mask = builder.icmp_signed("<=", ir.Constant(numbers, list(range(count))), e.splat(last, numbers))
    align = I32(e.align)
    name = f"v{count}{'f32' if e.scalar == ir.FloatType() else 'f64'}.p0"
    reads = ir.FunctionType(vector.type, [where.type, I32, mask.type, vector.type])
    writes = ir.FunctionType(ir.VoidType(), [vector.type, where.type, I32, mask.type])
    adding, nothing = builder.and_(mask, e.splat(add, mask.type)), ir.Constant(vector.type, [0.0] * count)
    before = builder.call(e._function(f"llvm.masked.load.{name}", reads), [where, align, adding, nothing])
    builder.call(e._function(f"llvm.masked.store.{name}", writes), [builder.fadd(vector, before), where, align, mask])


many_dots, few_dots = make_dots(ROWS, MANY), make_dots(1, FEW)


@part()
def multiply_rows(M, start, stop, K, X, x0, x_row, W, Y, y0, y_row, add):
    """Columns start ... stop - 1 of Y[M, :] = X[M, K] @ W.T, or added to Y; four rows of W serve all of X."""
    together = M // ROWS * ROWS
    for j in range(start, stop if together > 0 else start, MANY):
        for i in range(0, together, ROWS):
            last = min(MANY, stop - j) - 1
            many_dots(K, X, x0 + i * x_row, x_row, W, j * K, last, Y, y0 + i * y_row + j, y_row, add)
    for i in range(together, M):
        for j in range(start, stop, FEW):
            last = min(FEW, stop - j) - 1
            few_dots(K, X, x0 + i * x_row, x_row, W, j * K, last, Y, y0 + i * y_row + j, y_row, add)
