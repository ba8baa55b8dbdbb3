"""What the row kernels share: arrays as (rows, cols), blocks of rows, and the way out for other dtypes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tinygrad_tf.kernels._compile import kernel
from tinygrad_tf.kernels._half import is_bfloat16
from tinygrad_tf.kernels._math import from_order, in_order
from tinygrad_tf.kernels._scalar import widest_vectors
from tinygrad_tf.kernels.cast import cast

NATIVE = (np.dtype(np.float32), np.dtype(np.float64))
# Elements of a block, at least, and blocks, at most: a few microseconds of work each, which two to sixteen threads can
# share evenly. Less than SMALL blocks are not worth a second thread.
GRAIN, MOST, SMALL = 8192, 64, 4


def has_kernels(dtype: np.dtype) -> bool:
    """Whether elementwise kernels take arrays of this dtype: the native ones, and bfloat16 as its bits (`_half.py`)."""
    return dtype in NATIVE or is_bfloat16(dtype)


def rows_of(x: np.ndarray) -> np.ndarray:
    """x, of any shape and strides, as a C-contiguous (rows, cols) array; a copy only where x is not contiguous."""
    cols = x.shape[-1] if x.ndim else 1
    return np.ascontiguousarray(x).reshape(x.size // cols if cols else 0, cols)


def require_shape(name: str, array: np.ndarray, shape: tuple[int, ...]) -> None:
    """Kernels do not check bounds: an array that is too small would be read beyond its end."""
    if array.shape != shape:
        raise ValueError(f"{name} must have shape {shape}, got {array.shape}")


def blocks(rows: int, cols: int, grain: int = GRAIN) -> tuple[int, int]:
    """(count, step): blocks of `step` rows, of nearly equal size; one block if the work is small."""
    count = rows * cols // grain
    step = max(1, -(-rows // min(count, MOST))) if count >= SMALL else max(1, rows)
    return -(-rows // step), step


def room_beside(g: np.ndarray, own: bool) -> np.ndarray:
    """Where a kernel puts the gradient that it makes of g: into g itself if that is `own`, nobody else's. To write to
    memory that is not in cache costs two to three times as much as to change what was read."""
    return g if own and g.flags.carray else np.empty(g.shape, g.dtype)


@kernel
def copy_unless_same(source: Any, target: Any, same: bool) -> None:
    """Bring a stretch to where the kernel changes it: loops over two arrays that may overlap are not vectorised."""
    if not same:
        for i in range(source.size):
            target[i] = source[i]


def elsewhere(function: Callable[..., Any], reference: Callable[..., Any], dtype: np.dtype, *arguments: Any) -> Any:
    """What `function` gives for arrays of a dtype that has no kernel: float16 and bfloat16 go through float32 and back,
    the other byte order becomes this machine's, long doubles go to `reference`."""
    if dtype.kind not in "fV":
        raise TypeError(f"{function.__name__} takes arrays of floating-point numbers, got {dtype}")
    half = dtype.itemsize <= 2
    working = np.dtype(np.float32) if half else np.result_type(dtype.newbyteorder("="), np.float32)
    converted = [cast(a, working) if isinstance(a, np.ndarray) and a.dtype.kind in "fV" else a for a in arguments]
    results = (function if working in NATIVE else reference)(*converted)
    if not half:
        return results
    if isinstance(results, tuple):
        return tuple(None if r is None else cast(r, dtype) for r in results)
    return cast(results, dtype)


@kernel
def largest(row: Any) -> Any:
    """The largest number of a row (cols >= 1); a NaN may or may not win, and spreads from wherever it is used."""
    widest_vectors()
    # Compilers do not vectorise a maximum of floats that may be NaN, but they do one of integers of the same order.
    best = in_order(row[0])
    for col in range(row.size):
        key = in_order(row[col])
        best = key if key > best else best
    return from_order(best, row[0])
