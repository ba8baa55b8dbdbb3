"""Tensors of given data: lists, numbers, arrays, buffers, other tensors."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from tinygrad_tf._quiet import quiet
from tinygrad_tf.creation._kinds import FLOAT64, INT64, UINT64, as_kind, finish
from tinygrad_tf.dtypes import array_dtype, as_dtype
from tinygrad_tf.engine import make
from tinygrad_tf.methods._tools import NUMBERS, plain_data
from tinygrad_tf.ops._types import default_float, fitting, plain_array, promote_types
from tinygrad_tf.tensor import Tensor


def tensor(
    data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False
) -> Tensor:
    """A new tensor with a copy of `data`: numbers, nested lists, arrays. Python floats become float32.

    >>> tensor([[1, 2], [3, 4]])
    tensor([[1, 2],
            [3, 4]])
    """
    if isinstance(data, Tensor):
        array = data.array
    elif isinstance(data, (np.ndarray, np.generic)):
        array = _numbers(plain_array(np.asanyarray(data)))
    else:
        array = _from_sequence(data, dtype)
    if not isinstance(data, (Tensor, np.ndarray)):
        _check_range(array, dtype)
    with quiet():  # a number too large for the dtype becomes infinite
        return finish(np.array(array, dtype=as_kind(dtype, array.dtype), order="C"), requires_grad, device)


def _check_range(array: np.ndarray, dtype: Any) -> None:
    """Numbers that are given one by one must fit into an integer dtype; by themselves they are 64 bits with a sign."""
    by_itself = INT64 if array.dtype == UINT64 else array.dtype
    wanted = by_itself if dtype is None else array_dtype(dtype)
    if wanted.kind in "iu" and wanted != array.dtype and array.size:
        for end in (array.min(), array.max()):
            fitting("tensor", end.item(), wanted)


def _numbers(array: np.ndarray) -> np.ndarray:
    """The array, if its dtype is one that tensors have."""
    try:
        as_dtype(array.dtype)
    except TypeError:
        raise TypeError(
            f"a tensor cannot hold NumPy's {array.dtype}: bools, integers and floating point numbers only"
        ) from None
    return array


def _from_sequence(data: Any, dtype: Any = None) -> np.ndarray:
    """Lists may hold NumPy numbers, and tensors of one element, whose dtype counts; else floats are float32."""
    if isinstance(data, (str, bytes)):
        raise TypeError(f"tensor: needs numbers or nested lists of them, got {type(data).__name__}")
    plain = plain_data(data)
    try:
        array = np.asarray(plain)
    except ValueError:
        raise ValueError("tensor: nested lists must have the same length at each level") from None
    if array.dtype.kind in "OUS":
        raise TypeError(
            f"tensor: needs numbers (integers of at most 64 bits) or nested lists of them, got {data!r:.60}"
        )
    if dtype is None and array.dtype == FLOAT64:
        with quiet():
            array = array.astype(_float_of(plain), copy=False)
    return _numbers(array)


def _float_of(data: Any) -> np.dtype:
    """The dtype that floating point data stands for: that of the NumPy numbers in it, or else the default."""
    if isinstance(data, (np.ndarray, np.generic)):
        return data.dtype
    if not isinstance(data, (list, tuple)) or NUMBERS.issuperset(map(type, data)):
        return default_float()
    return functools.reduce(promote_types, {_float_of(d) for d in data})


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """As `tensor`, but shares memory with an array where it can."""
    if isinstance(data, Tensor):
        return data.to(device, dtype)
    if isinstance(data, np.ndarray) and (dtype is None or data.dtype == array_dtype(dtype)):
        return finish(_numbers(plain_array(data)), False, device)
    return tensor(data, dtype=dtype, device=device)


def asarray(
    obj: Any, *, dtype: Any = None, device: Any = None, copy: bool | None = None, requires_grad: bool | None = None
) -> Tensor:
    """A tensor on the memory of `obj` where that is possible.

    copy: True for memory of its own, False for an error where a copy would be needed. requires_grad: True for a leaf,
    False for a tensor without a graph; by default that of `obj`, with its graph.

    >>> asarray([1.0, 2.0], requires_grad=True)
    tensor([1., 2.], requires_grad=True)
    """
    result = as_tensor(obj, dtype, device)
    memory = obj.array if isinstance(obj, Tensor) else obj if isinstance(obj, np.ndarray) else None
    shared = memory is not None and np.may_share_memory(result.array, memory)
    if copy is False and not shared:
        raise ValueError(f"asarray: copy=False, but a {type(obj).__name__} cannot become this tensor without a copy")
    if requires_grad is not None and requires_grad != result.requires_grad:
        result = result.detach()
    if copy and shared:
        result = result.clone()
    return result.requires_grad_() if requires_grad else result


def from_numpy(array: np.ndarray) -> Tensor:
    """A tensor on the array's own memory."""
    if not isinstance(array, np.ndarray):
        raise TypeError(f"from_numpy: needs a NumPy array, got {type(array).__name__}")
    return make(_numbers(plain_array(array)))


def frombuffer(buffer: Any, *, dtype: Any, count: int = -1, offset: int = 0, requires_grad: bool = False) -> Tensor:
    """A tensor on the memory of bytes (which cannot be written to) or of another buffer."""
    return finish(np.frombuffer(buffer, array_dtype(dtype), count, offset), requires_grad)


# fmt: off
__all__ = [
    "as_tensor", "asarray", "from_numpy", "frombuffer", "tensor",
]
# fmt: on
