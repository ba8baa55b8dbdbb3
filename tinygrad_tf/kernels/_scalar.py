"""Instructions that Python has no operator for, for one number at a time; in a loop LLVM makes vectors of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload


def instruction(definition: Callable[..., Any]) -> Any:
    """An intrinsic, which writes its LLVM code itself (numba's type hints take it for its own definition)."""
    return intrinsic(definition)


@instruction
def multiply_add(typingctx: Any, a: Any, b: Any, c: Any) -> Any:
    """a * b + c, rounded once where the processor can."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _multiply_add(builder, *args)

    return a(a, a, a), emit


@instruction
def polynomial(typingctx: Any, x: Any, coefficients: Any) -> Any:
    """c[0] + c[1] x + c[2] x^2 ... by Horner's rule, unrolled; `coefficients` is a tuple of constants of x's type."""
    count = len(coefficients)

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        total = builder.extract_value(args[1], count - 1)
        for i in reversed(range(count - 1)):
            total = _multiply_add(builder, total, args[0], builder.extract_value(args[1], i))
        return total

    return x(x, coefficients), emit


@instruction
def as_integer(typingctx: Any, x: Any) -> Any:
    """The bits of a float, as an integer of the same size."""
    result = types.int32 if x == types.float32 else types.int64

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], context.get_value_type(result))

    return result(x), emit


@instruction
def as_float(typingctx: Any, bits: Any, like: Any) -> Any:
    """The float, of the type of `like`, that has these bits (the low 32 of them for float32)."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        number = context.get_value_type(like)
        size = ir.IntType(32 if like == types.float32 else 64)
        return builder.bitcast(builder.trunc(args[0], size) if args[0].type != size else args[0], number)

    return like(types.int64, like), emit


@instruction
def with_sign_of(typingctx: Any, sign: Any, magnitude: Any) -> Any:
    """`magnitude` with the sign bit of `sign`."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        size = ir.IntType(32 if sign == types.float32 else 64)
        mask = ir.Constant(size, 1 << (size.width - 1))
        sign_bit = builder.and_(builder.bitcast(args[0], size), mask)
        others = builder.and_(builder.bitcast(args[1], size), builder.not_(mask))
        return builder.bitcast(builder.or_(sign_bit, others), args[0].type)

    return sign(sign, sign), emit


@instruction
def select(typingctx: Any, condition: Any, yes: Any, no: Any) -> Any:
    """`yes if condition else no`, both computed: a conditional expression may become a jump, never vector code."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.select(context.cast(builder, args[0], signature.args[0], types.boolean), args[1], args[2])

    return yes(types.boolean, yes, yes), emit


@instruction
def pointer(typingctx: Any, address: Any, like: Any) -> Any:
    """The address as a pointer to numbers of the type that the array `like` has."""
    result = types.CPointer(like.dtype)

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], context.get_value_type(result))

    return result(types.int64, like), emit


@instruction
def _widest_vectors(typingctx: Any) -> Any:
    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        # The typed method takes only the attributes that llvmlite lists; this one is a plain string to LLVM too.
        set.add(builder.function.attributes, '"prefer-vector-width"="512"')
        return context.get_dummy_value()

    return types.none(), emit


def widest_vectors() -> None:
    """As a kernel's first line: use the widest registers that the processor has.

    LLVM keeps to half of AVX-512's width unless it is told, for processors that run slower when they use all of it.
    Loops that compute more than they load are 1.3 to 1.5 times as fast with it; for others it makes no difference.
    """


@overload(widest_vectors, inline="always")
def _inline_widest_vectors() -> Any:
    return lambda: _widest_vectors()


def _multiply_add(builder: Any, a: Any, b: Any, c: Any) -> Any:
    name = "llvm.fmuladd.f32" if a.type == ir.FloatType() else "llvm.fmuladd.f64"
    function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(a.type, [a.type] * 3), name)
    return builder.call(function, [a, b, c])


@instruction
def flip_negative(typingctx: Any, bits: Any) -> Any:
    """Integers that are ordered as the floats with these bits are, and back again."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        size = args[0].type
        sign = builder.ashr(args[0], ir.Constant(size, size.width - 1))
        return builder.xor(args[0], builder.and_(sign, ir.Constant(size, 2 ** (size.width - 1) - 1)))

    return bits(bits), emit
