"""One kernel call over many arrays of different sizes: a table of where they lie, cut into blocks of nearly equal work.

A model has some fifty parameters, most of them small; a call for each would cost more than the work. So a kernel gets
a table of int64 numbers, one row a piece of at most PIECE elements: an address for each list of arrays, and the number
of elements. `starts[block] ... starts[block + 1]` are the pieces of a block. The cuts depend on the sizes only.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from typing import Any

import numba
import numpy as np
from numba.extending import overload

from tinygrad_tf.kernels._operands import address_of
from tinygrad_tf.kernels._rows import NATIVE
from tinygrad_tf.kernels._scalar import pointer

PIECE = 16384  # elements: 10 to 20 microseconds of work


def addresses(arrays: Sequence[np.ndarray]) -> np.ndarray:
    return np.array([address_of(array) for array in arrays], np.int64)


def overlapping(arrays: Sequence[np.ndarray]) -> set[int]:
    """The numbers of those arrays that share memory with another one."""
    found: set[int] = set()
    last, end = 0, 0  # of the array that reaches furthest so far
    bounds = sorted((*np.lib.array_utils.byte_bounds(array), i) for i, array in enumerate(arrays) if array.size)
    for start, stop, i in bounds:
        if start < end:
            found |= {i, last}
        if stop > end:
            last, end = i, stop
    return found


def table(lists: Sequence[np.ndarray], sizes: tuple[int, ...], itemsize: int) -> tuple[np.ndarray, np.ndarray]:
    """(table, starts) for arrays of these sizes, from one vector of addresses for each list."""
    owners, offsets, counts, starts = _cut(sizes)
    rows = np.empty((len(owners), len(lists) + 1), np.int64)
    for column, found in enumerate(lists):
        rows[:, column] = found[owners] + offsets * itemsize
    rows[:, -1] = counts
    return rows, starts


@functools.lru_cache(maxsize=32)
def _cut(sizes: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """For each piece: its array, where it begins and how long it is; and the first piece of each block."""
    pieces = [
        (owner, begin, min(PIECE, size - begin)) for owner, size in enumerate(sizes) for begin in range(0, size, PIECE)
    ]
    starts, filled = [0], 0
    for number, (_, _, count) in enumerate(pieces):
        if filled + count > 2 * PIECE:
            starts.append(number)
            filled = 0
        filled += count
    owners, begins, counts = np.array(pieces, np.int64).reshape(-1, 3).T
    return owners, begins, counts, np.array([*starts, len(pieces)], np.int64)


def is_plain(array: np.ndarray) -> bool:
    """Whether kernels may take the array by its address."""
    flags = array.flags
    return array.dtype in NATIVE and flags.c_contiguous and flags.aligned and flags.writeable


def array_at(address: int, count: int, like: np.ndarray) -> Any:
    """The flat array of `count` numbers of the type of `like` that begins at an address."""
    kind = ctypes.c_float if like.dtype == np.float32 else ctypes.c_double
    return np.ctypeslib.as_array((kind * count).from_address(int(address)))


@overload(array_at)
def _array_at(address: Any, count: Any, like: Any) -> Any:
    def array_at(address: Any, count: Any, like: Any) -> Any:
        return numba.carray(pointer(address, like), (count,))

    return array_at
