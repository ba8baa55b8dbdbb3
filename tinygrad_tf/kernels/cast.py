"""Between float32 and bfloat16, by several threads; every other change of dtype is NumPy's.

`_half.py` says how a number is rounded. NumPy converts ml_dtypes' bfloat16 number by number.

Milliseconds for 16384 x 1536, two threads: up 13 by NumPy, 7 here; down 47 by NumPy, 6 here: what memory takes. Rows
of a larger array, as the queries among queries, keys and values, are read where they lie.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tinygrad_tf.kernels._compile import parallel
from tinygrad_tf.kernels._half import bits, get, is_bfloat16, put
from tinygrad_tf.kernels._operands import flatten
from tinygrad_tf.kernels._scalar import widest_vectors

FLOAT32, UINT16 = np.dtype(np.float32), np.dtype(np.uint16)
GRAIN, MOST = 16384, 64  # elements of a block, at least, and blocks, at most
SHORTEST = 16  # elements of a row: shorter ones are NumPy's


@parallel
def convert(block: int, step: int, x: Any, y: Any) -> None:
    """y = x, of which one is an array of float32 and one of the bits of bfloat16."""
    widest_vectors()
    source, target = x[block * step : block * step + step], y[block * step : block * step + step]
    for i in range(source.size):
        put(target, i, get(source, i))


@parallel
def convert_rows(block: int, step: int, x: Any, x_row: int, y: Any, columns: int) -> None:
    """The same for rows that lie x_row elements apart in x, and one behind the other in y."""
    widest_vectors()
    for row in range(block * step, min(block * step + step, y.size // columns)):
        source, target = x[row * x_row : row * x_row + columns], y[row * columns : row * columns + columns]
        for i in range(columns):
            put(target, i, get(source, i))


def cast(x: np.ndarray, dtype: Any) -> np.ndarray:
    """x in `dtype`: x itself if it has it, else a new array that lies in memory in the same order.

    >>> import numpy as np
    >>> cast(np.ones(3, np.float16), np.float32)
    array([1., 1., 1.], dtype=float32)
    """
    dtype = np.dtype(dtype)
    if x.dtype == dtype:
        return x
    up = dtype == FLOAT32 and is_bfloat16(x.dtype)
    if x.size >= GRAIN and (up or (x.dtype == FLOAT32 and is_bfloat16(dtype))):
        axes = _in_memory(x)
        y = _converted(x.transpose(axes), dtype)
        if y is not None:
            return y.transpose(np.argsort(axes))
    with np.errstate(all="ignore"):
        return x.astype(dtype)


def rounded_bits(x: np.ndarray) -> np.ndarray:
    """The bits of the bfloat16 nearest to numbers of float32, in uint16, in the same order in memory.

    >>> import numpy as np
    >>> rounded_bits(np.float32([1.0, 1.0 + 2**-9, -2.0])).tolist()
    [16256, 16256, 49152]
    """
    axes = _in_memory(x)
    inner = x.transpose(axes)
    y = _converted(inner, UINT16)
    if y is None:
        y = _converted_at_once(np.array(inner, order="C"), UINT16)
    return y.transpose(np.argsort(axes))


def _in_memory(x: np.ndarray) -> list[int]:
    """The axes of x, from the one whose elements lie furthest apart."""
    return sorted(range(x.ndim), key=lambda axis: -x.strides[axis])


def _converted(x: np.ndarray, dtype: np.dtype) -> np.ndarray | None:
    """A copy in `dtype`, or as bits, by the kernels; None if x lies neither in one piece nor in long rows alike."""
    if not x.flags.aligned:
        return None
    if x.flags.c_contiguous:
        return _converted_at_once(x, dtype)
    columns, x_row = _as_rows(x)
    if columns < SHORTEST:
        return None
    y = np.empty(x.shape, dtype)
    step = -(-_step(x.size) // columns)
    flat, start, _ = flatten(bits(x))
    convert_rows(-(-x.size // columns // step), step, flat[start:], x_row, bits(y.reshape(-1)), columns)
    return y


def _converted_at_once(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    y, step = np.empty(x.shape, dtype), _step(x.size)
    convert(-(-x.size // step), step, bits(x.reshape(-1)), bits(y.reshape(-1)))
    return y


def _step(size: int) -> int:
    return -(-size // max(1, min(MOST, size // GRAIN)))


def _as_rows(x: np.ndarray) -> tuple[int, int]:
    """(columns, from one row to the next, in elements) of the matrix as which x lies; (0, 0) if there is none."""
    columns, rows, x_row = 1, 1, 0
    for n, stride in zip(x.shape[::-1], x.strides[::-1], strict=True):
        step = stride // x.itemsize
        if n == 1 or stride % x.itemsize:
            continue
        if rows == 1 and step == columns:
            columns *= n
        elif rows == 1 or step == rows * x_row:
            x_row = step if rows == 1 else x_row
            rows *= n
        else:
            return 0, 0
    return (columns, x_row) if columns * rows == x.size else (0, 0)


def reference(x: np.ndarray, dtype: Any) -> np.ndarray:
    """The same by NumPy alone."""
    return x.astype(dtype, copy=False)
