"""The order in which an array's elements lie in memory. PyTorch's results depend on it in two ways.

Random numbers go into a tensor in the order of its memory, and what works element by element leaves its results as its
inputs lie; all other operations lay theirs out in the order of the axes. NumPy's results lie as its inputs do.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class layout(enum.Enum):
    """How PyTorch keeps the numbers of a tensor. Here each has its place in memory."""

    strided = 0

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    __str__ = __repr__


def axes_as_they_lie(array: Array) -> list[int]:
    """The axes of an array, sorted as its elements lie in memory, the one with the longest steps first.

    PyTorch goes through memory in this order. An axis of one entry, or one that was expanded, has no steps to compare.

    >>> axes_as_they_lie(np.zeros((2, 3, 4)).transpose(2, 0, 1))
    [1, 2, 0]
    """
    steps = [abs(stride) if size > 1 else 0 for size, stride in zip(array.shape, array.strides, strict=True)]
    order: list[int] = []
    for axis in range(array.ndim):
        place = len(order)
        for before in reversed(range(len(order))):
            if steps[axis] > steps[order[before]] > 0:
                place = before
            elif steps[axis] and steps[order[before]]:
                break
        order.insert(place, axis)
    return order


def laid_out_like(array: Array, make: Callable[[tuple[int, ...]], Array]) -> Array:
    """What `make` gives for the shape of an array, laid out in memory as the array is.

    So PyTorch fills a tensor with random numbers, makes `rand_like` and the mask of dropout: of a transposed tensor,
    the second number goes to the place that comes second in memory.

    >>> laid_out_like(np.zeros((3, 2)).T, lambda shape: np.arange(6).reshape(shape))
    array([[0, 2, 4],
           [1, 3, 5]])
    """
    if array.flags.c_contiguous:
        return make(array.shape)
    axes = axes_as_they_lie(array)
    return make(tuple(array.shape[axis] for axis in axes)).transpose(np.argsort(axes))


def stretched(x: Array, shape: tuple[int, ...]) -> Array:
    """What np.broadcast_to gives, and writeable where x is; of contiguous arrays in a fifth of the time.

    >>> stretched(np.array([[1.0], [2.0]]), (2, 3))
    array([[1., 1., 1.],
           [2., 2., 2.]])
    """
    lead = len(shape) - x.ndim
    if lead >= 0 and x.size and x.flags.c_contiguous and type(x) is np.ndarray:
        strides = [0] * lead
        for size, step, wanted in zip(x.shape, x.strides, shape[lead:], strict=True):
            if size != wanted and size != 1:
                break
            strides.append(step if size == wanted else 0)
        else:
            return np.ndarray(shape, x.dtype, x, 0, strides)
    found = np.broadcast_to(x, shape)
    if x.flags.writeable and type(x) is np.ndarray:  # what may not be written to is told by the strides
        found.flags.writeable = True
    return found


def in_order(array: Any) -> Array:
    """The array laid out in the order of its axes, so that `.view()` takes it. NumPy lays results out as the inputs
    lie; PyTorch only those of operations element by element.
    """
    return np.asarray(array, order="C")


def as_it_lies(function: Callable[[Array], Array], x: Array) -> Array:
    """function(x), where it is one that goes element by element and returns an array in the order of its axes; the
    result lies as x does.
    """
    if x.flags.c_contiguous:
        return function(x)
    axes = axes_as_they_lie(x)
    return function(x.transpose(axes)).transpose(np.argsort(axes))
