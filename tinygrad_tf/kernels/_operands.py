"""How NumPy arrays reach the compiled kernels: as flat arrays with a start and strides, so that one compiled version
serves every layout (numba compiles anew for each kind of array: dimensions, order, read-only)."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

Array = NDArray[Any]
FIRST = np.zeros(1, np.int64)


# Matrices in a flat array, as (flat, starts, row, column): element (i, j) of number `item` is
# flat[starts[item] + i * row + j * column]. A plain tuple, because a named one costs 0.2 microseconds more.
Operand = tuple[Array, Array, int, int]


def _interface_address(array: Array) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


def _structure_address(array: Array) -> int:
    address: int = _word_at(id(array) + _HEAD).value
    return address


# NumPy's C structure of an array (PyArrayObject) has the address right behind what every Python object begins with.
# To read it there takes 0.25 microseconds, to ask for `__array_interface__` 1.1; a step of a small GPT asks 200 times.
_HEAD = object.__basicsize__
_word_at = ctypes.c_size_t.from_address
_is_structure = _structure_address(FIRST) == _interface_address(FIRST)
address_of: Callable[[Array], int] = _structure_address if _is_structure else _interface_address


def operand(array: Array, stack: tuple[int, ...]) -> Operand:
    """A matrix, or a stack of them whose leading dimensions are broadcast to `stack`.

    Where neither rows nor columns are contiguous they are made so: loops would take single elements, and several times.
    """
    if array.itemsize not in array.strides[-2:]:
        array = np.array(array, order="C")
    if not stack and array.ndim == 2:
        flags = array.flags
        if flags.carray:
            return array.ravel(), FIRST, array.shape[1], 1
        if flags.f_contiguous and flags.behaved:
            return array.T.ravel(), FIRST, 1, array.shape[0]
    flat, start, strides = flatten(array)
    return flat, stack_starts(stack, array.shape, strides, start), strides[-2], strides[-1]


def flatten(array: Array) -> tuple[Array, int, tuple[int, ...]]:
    """(flat, start, strides): array[i, j, ...] is flat[start + i * strides[0] + j * strides[1] + ...].

    Nothing is copied unless the array is read-only, not aligned, or has strides that are no whole elements. `flat` is
    writable, aligned and contiguous; it begins at the array's lowest address and ends at its highest.
    """
    flags = array.flags
    if flags.carray:
        return array.ravel(), 0, contiguous_strides(array.shape)
    if flags.f_contiguous and flags.behaved:  # NumPy's own `farray` is true of any array that is not C-contiguous
        return array.T.ravel(), 0, contiguous_strides(array.shape[::-1])[::-1]
    size = array.itemsize
    if not flags.behaved or not array.size or any(stride % size for stride in array.strides):
        return np.array(array, order="C").ravel(), 0, contiguous_strides(array.shape)
    strides = tuple(stride // size for stride in array.strides)
    reach = [(n - 1) * stride for n, stride in zip(array.shape, strides, strict=True)]
    lowest = array[tuple(slice(None, None, -1 if stride < 0 else 1) for stride in strides)]
    flat = as_strided(lowest, (1 + sum(map(abs, reach)),), (size,))
    return flat, -sum(step for step in reach if step < 0), strides


@functools.lru_cache(1024)
def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides, in elements, of a C-contiguous array."""
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= n
    return tuple(reversed(strides))


@functools.lru_cache(1024)
def stack_starts(stack: tuple[int, ...], shape: tuple[int, ...], strides: tuple[int, ...], start: int) -> Array:
    """Where each matrix of a stack begins, once the leading dimensions of `shape` are broadcast to `stack`; int64."""
    starts = np.full((1,) * len(stack), start, np.int64)
    dimensions = zip(shape[:-2], strides[:-2], strict=True)
    for axis, (n, stride) in enumerate(dimensions, start=len(stack) - len(shape) + 2):
        if n > 1:
            starts = starts + (np.arange(n) * stride).reshape((n,) + (1,) * (len(stack) - axis - 1))
    return np.broadcast_to(starts, stack).flatten()  # a copy: what is read-only would be compiled for once more
