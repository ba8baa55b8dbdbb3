"""exp, sigmoid and tanh of a vector register, for intrinsics that write their LLVM code themselves.

The formulas are those of `_math.py`, step by step: it is where they are explained.
"""
# mypy: allow-untyped-defs

from __future__ import annotations

from llvmlite import ir

from tinygrad_tf.kernels._math_constants import FLOAT32, FLOAT64
from tinygrad_tf.kernels._vector import Emitter


class MathEmitter(Emitter):
    """Emits vector instructions and functions; `kind` is the array type of all that it is given."""

    def __init__(self, context, builder, kind):
        super().__init__(context, builder, kind)
        self.kind = kind
        self.numbers = FLOAT32 if self.scalar == ir.FloatType() else FLOAT64
        self.bits = ir.VectorType(ir.IntType(32 if self.numbers is FLOAT32 else 64), self.lanes)

    def constant(self, number):
        return ir.Constant(self.vector, [float(number)] * self.lanes)

    def polynomial(self, x, terms):
        total = self.constant(terms[-1])
        for term in reversed(terms[:-1]):
            total = self.fma(total, x, self.constant(term))
        return total

    def _reduced(self, x):
        """(2^n, r) with x = n ln 2 + r, for x <= 0 that is not below `exp_smallest`."""
        builder, k = self.builder, self.numbers
        shifted = self.fma(x, self.constant(k.per_ln2), self.constant(k.shifter))
        n = builder.fsub(shifted, self.constant(k.shifter))
        r = self.fma(n, self.constant(-k.ln2_low), self.fma(n, self.constant(-k.ln2_high), x))
        bias, mantissa = (ir.Constant(self.bits, [int(number)] * self.lanes) for number in (k.bias, k.mantissa))
        exponent = builder.shl(builder.add(builder.bitcast(shifted, self.bits), bias), mantissa)
        return builder.bitcast(exponent, self.vector), r

    def exp(self, x):
        """exp(x) for x <= 0, as `_math.exp_negative` computes it: exactly 0 for -inf."""
        lowest = self.constant(self.numbers.exp_smallest)
        x = self.builder.select(self.builder.fcmp_ordered("<", x, lowest), lowest, x)
        scale, r = self._reduced(x)
        return self.builder.fmul(self.polynomial(r, self.numbers.exp_terms), scale)

    def _parts(self, x):
        """(sign bits, |x|)."""
        sign = ir.Constant(self.bits, [-(1 << (self.bits.element.width - 1))] * self.lanes)
        bits = self.builder.bitcast(x, self.bits)
        size = self.builder.and_(bits, self.builder.not_(sign))
        return self.builder.and_(bits, sign), self.builder.bitcast(size, self.vector)

    def sigmoid(self, x):
        builder, one = self.builder, self.constant(1)
        decay = self.exp(builder.fneg(self._parts(x)[1]))
        upper = builder.select(builder.fcmp_ordered("<", x, self.zero), decay, one)
        return builder.fdiv(upper, builder.fadd(one, decay))

    def tanh(self, x):
        builder, k = self.builder, self.numbers
        sign, size = self._parts(x)
        border = self.constant(k.tanh_border)
        size = builder.select(builder.fcmp_ordered(">", size, border), border, size)
        scale, r = self._reduced(builder.fmul(self.constant(-2), size))
        below = builder.fmul(r, self.polynomial(r, k.expm1_terms))
        e = self.fma(scale, below, builder.fsub(scale, self.constant(1)))
        y = builder.fdiv(builder.fneg(e), builder.fadd(self.constant(2), e))
        return builder.bitcast(builder.or_(builder.bitcast(y, self.bits), sign), self.vector)
