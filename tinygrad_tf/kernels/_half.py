"""The numbers of an array of floats, or of bfloat16 as its bits in uint16: kernels written with these take either.

    bits(x)            an array as kernels take it: one of bfloat16 as its bits
    get(x, i)          x[i] as a float
    put(x, i, number)  x[i] = number, rounded to the nearest bfloat16, ties to even, where x is one of those
    is_half(x)         whether it is; known when compiled
    floats(x, room)    x itself, or room where x is of bfloat16: where numbers are made before they are rounded

A bfloat16 is the upper half of a float32. To round, add 0x7FFF, and one more if the last bit that stays is odd, and
cut; a NaN stays one. (The processor's own instruction takes numbers below 2^-126 for zero.) Loops over arrays of bits
become vector code as those over floats do.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import overload

from tinygrad_tf.kernels._scalar import instruction

I16, I32 = ir.IntType(16), ir.IntType(32)


def is_bfloat16(dtype: np.dtype) -> bool:
    return dtype.itemsize == 2 and dtype.name == "bfloat16"


def bits(x: np.ndarray) -> np.ndarray:
    return x.view(np.uint16) if is_bfloat16(x.dtype) else x


def get(x: np.ndarray, i: int) -> Any:
    return (np.uint32(x[i]) << np.uint32(16)).view(np.float32) if is_half(x) else x[i]


def put(x: np.ndarray, i: int, number: Any) -> None:
    x[i] = _rounded(int(np.float32(number).view(np.uint32))) if is_half(x) else number


def is_half(x: np.ndarray) -> bool:
    return x.dtype == np.uint16


def floats(x: np.ndarray, room: np.ndarray) -> np.ndarray:
    return room if is_half(x) else x


def _rounded(whole: int) -> int:
    """The bits of a float32 to those of a bfloat16."""
    upper = whole >> 16
    return upper | 0x40 if whole & 0x7FFFFFFF > 0x7F800000 else (whole + 0x7FFF + (upper & 1)) >> 16


@instruction
def _widened(typingctx: Any, half: Any) -> Any:
    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(builder.shl(builder.zext(args[0], I32), I32(16)), ir.FloatType())

    return types.float32(types.uint16), emit


@instruction
def _narrowed(typingctx: Any, number: Any) -> Any:
    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        whole = builder.bitcast(args[0], I32)
        upper = builder.lshr(whole, I32(16))
        last = builder.and_(upper, I32(1))
        rounded = builder.lshr(builder.add(builder.add(whole, I32(0x7FFF)), last), I32(16))
        is_nan = builder.icmp_unsigned(">", builder.and_(whole, I32(0x7FFFFFFF)), I32(0x7F800000))
        return builder.trunc(builder.select(is_nan, builder.or_(upper, I32(0x40)), rounded), I16)

    return types.uint16(types.float32), emit


@overload(get)
def _get(x: Any, i: Any) -> Any:
    def get_half(x: Any, i: Any) -> Any:
        return _widened(x[i])

    def get_float(x: Any, i: Any) -> Any:
        return x[i]

    return get_half if x.dtype == types.uint16 else get_float


@overload(put)
def _put(x: Any, i: Any, number: Any) -> Any:
    def put_half(x: Any, i: Any, number: Any) -> None:
        x[i] = _narrowed(np.float32(number))

    def put_float(x: Any, i: Any, number: Any) -> None:
        x[i] = number

    return put_half if x.dtype == types.uint16 else put_float


@overload(is_half)
def _is_half(x: Any) -> Any:
    half = x.dtype == types.uint16

    def is_half(x: Any) -> bool:
        return half

    return is_half


@overload(floats)
def _floats(x: Any, room: Any) -> Any:
    def room_itself(x: Any, room: Any) -> Any:
        return room

    def x_itself(x: Any, room: Any) -> Any:
        return x

    return room_itself if x.dtype == types.uint16 else x_itself
