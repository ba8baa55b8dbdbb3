"""Making tensors: from data, filled, counted, random."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tinygrad_tf import random
from tinygrad_tf.engine import make
from tinygrad_tf.ops import elementwise, shape
from tinygrad_tf.ops._types import DEFAULT_FLOAT
from tinygrad_tf.tensor import Tensor

Generator = random.Generator


def _finish(array: np.ndarray, requires_grad: bool) -> Tensor:
    t: Tensor = make(array)
    return t.requires_grad_() if requires_grad else t


def _sizes(sizes: tuple[Any, ...]) -> tuple[int, ...]:
    if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)):
        sizes = tuple(sizes[0])
    found = tuple(int(n) for n in sizes)
    if any(n < 0 for n in found):
        raise RuntimeError(f"a shape has no negative sizes, got {found}")
    return found


def tensor(data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A new tensor with a copy of `data`: numbers, nested lists, arrays. Python floats become float32.

    >>> tensor([[1, 2], [3, 4]])
    tensor([[1, 2],
            [3, 4]])
    """
    if isinstance(data, Tensor):
        array = data.array
    elif isinstance(data, (np.ndarray, np.generic)):
        array = np.asarray(data)
    else:
        array = _from_sequence(data, dtype)
    if dtype is not None:
        array = array.astype(dtype)
    return _finish(np.array(array, order="C"), requires_grad)


def _from_sequence(data: Any, dtype: Any = None) -> np.ndarray:
    """Lists may hold tensors and NumPy numbers, whose dtype then counts; Python floats are float32 unless told."""
    if isinstance(data, (list, tuple)) and data and isinstance(data[0], Tensor):
        data = [d.array if isinstance(d, Tensor) else d for d in data]
    try:
        array = np.asarray(data)
    except ValueError:
        raise ValueError("tensor: nested lists must have the same length at each level") from None
    if array.dtype == object:
        raise TypeError(f"tensor: cannot make a tensor of {type(data).__name__} with entries that are not numbers")
    if dtype is None and array.dtype == np.float64 and not _has_numpy(data):
        array = array.astype(DEFAULT_FLOAT)
    return array if array.size or array.dtype != np.float64 else array.astype(DEFAULT_FLOAT)


def _has_numpy(data: Any) -> bool:
    while isinstance(data, (list, tuple)) and data:
        data = data[0]
    return isinstance(data, (np.ndarray, np.generic))


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """As `tensor`, but shares memory with an array where it can."""
    if isinstance(data, Tensor):
        return data.to(dtype) if dtype is not None else data
    if isinstance(data, np.ndarray) and (dtype is None or data.dtype == dtype):
        return make(data)
    return tensor(data, dtype=dtype)


def from_numpy(array: np.ndarray) -> Tensor:
    """A tensor on the array's own memory."""
    if not isinstance(array, np.ndarray):
        raise TypeError(f"from_numpy: needs a NumPy array, got {type(array).__name__}")
    return make(array)


def full(size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    if dtype is None:
        kind = type(fill_value)
        dtype = np.bool_ if kind is bool else np.int64 if kind is int else DEFAULT_FLOAT
    fill = fill_value.array if isinstance(fill_value, Tensor) else fill_value
    return _finish(np.full(_sizes((size,) if isinstance(size, int) else tuple(size)), fill, dtype), requires_grad)


def zeros(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    return _finish(np.zeros(_sizes(size), DEFAULT_FLOAT if dtype is None else dtype), requires_grad)


def ones(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    return _finish(np.ones(_sizes(size), DEFAULT_FLOAT if dtype is None else dtype), requires_grad)


def empty(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Zeros: memory with leftovers of other arrays in it has cost people days."""
    return zeros(*size, dtype=dtype, requires_grad=requires_grad)


def zeros_like(like: Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    return zeros(like.array.shape, dtype=like.dtype if dtype is None else dtype, requires_grad=requires_grad)


def ones_like(like: Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    return ones(like.array.shape, dtype=like.dtype if dtype is None else dtype, requires_grad=requires_grad)


def full_like(like: Tensor, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    return full(like.array.shape, fill_value, dtype=like.dtype if dtype is None else dtype, requires_grad=requires_grad)


def arange(*bounds: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """arange(end), arange(start, end) or arange(start, end, step); int64 for integers, float32 otherwise."""
    start, end, step = {1: (0, *bounds, 1), 2: (*bounds, 1), 3: bounds}[len(bounds)]
    values = [v.item() if isinstance(v, (Tensor, np.generic)) else v for v in (start, end, step)]
    if values[2] == 0:
        raise RuntimeError("arange: step must not be 0")
    if dtype is None:
        dtype = np.int64 if all(isinstance(v, int) for v in values) else DEFAULT_FLOAT
    return _finish(np.arange(*values).astype(dtype, copy=False), requires_grad)


def linspace(start: float, end: float, steps: int, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    return _finish(np.linspace(start, end, steps).astype(DEFAULT_FLOAT if dtype is None else dtype), requires_grad)


def eye(n: int, m: int | None = None, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    return _finish(np.eye(n, m, dtype=DEFAULT_FLOAT if dtype is None else dtype), requires_grad)


# --- random -----------------------------------------------------------------------------------------------------------


def _generator(generator: Generator | None) -> Generator:
    return random.default_generator if generator is None else generator


def rand(*size: Any, generator: Generator | None = None, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Uniform in [0, 1)."""
    wanted = DEFAULT_FLOAT if dtype is None else np.dtype(dtype)
    return _finish(_generator(generator).uniform(_sizes(size), dtype=wanted), requires_grad)


def randn(*size: Any, generator: Generator | None = None, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Normal with mean 0 and standard deviation 1."""
    wanted = DEFAULT_FLOAT if dtype is None else np.dtype(dtype)
    return _finish(_generator(generator).normal(_sizes(size), dtype=wanted), requires_grad)


def rand_like(like: Tensor, *, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    return rand(like.array.shape, dtype=like.dtype if dtype is None else dtype, requires_grad=requires_grad)


def randn_like(like: Tensor, *, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    return randn(like.array.shape, dtype=like.dtype if dtype is None else dtype, requires_grad=requires_grad)


def randint(*args: Any, size: Any = None, low: int | None = None, high: int | None = None, generator: Generator | None = None, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """randint(high, size) or randint(low, high, size): integers from low to high - 1."""
    rest = list(args)
    if size is None and rest and isinstance(rest[-1], (tuple, list)):
        size = rest.pop()
    if size is None:
        raise TypeError("randint: size is missing, as in randint(0, 10, (2, 3))")
    low, high = (rest[0], rest[1]) if len(rest) == 2 else (low or 0, rest[0] if rest else high)
    values = _generator(generator).integers(low, high, _sizes(tuple(size)))
    return _finish(values.astype(np.int64 if dtype is None else dtype, copy=False), requires_grad)


def randperm(n: int, *, generator: Generator | None = None, dtype: Any = None, device: Any = None) -> Tensor:
    values = _generator(generator).permutation(n)
    return _finish(values.astype(np.int64 if dtype is None else dtype, copy=False), False)


def multinomial(input: Tensor, num_samples: int, replacement: bool = False, *, generator: Generator | None = None) -> Tensor:
    """Draw indices with the given weights, for each row; an entry of weight 0 is never drawn."""
    rows = input.array.reshape(-1, input.array.shape[-1])
    drawn = _generator(generator).multinomial(rows, num_samples, replacement)
    return _finish(np.asarray(drawn, np.int64).reshape(*input.array.shape[:-1], num_samples), False)


# --- of tensors -------------------------------------------------------------------------------------------------------


def cat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    return shape.cat(tensors, dim)


def stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    return shape.stack(tensors, dim)


def where(condition: Tensor, input: Any, other: Any) -> Tensor:
    return elementwise.where(condition, input, other)


def tril(input: Tensor, diagonal: int = 0) -> Tensor:
    """The lower triangle, zeros above the diagonal."""
    keep = np.tri(*input.array.shape[-2:], diagonal, dtype=bool)
    return elementwise.where(make(keep), input, 0) if input.dtype != bool else make(input.array & keep)


def triu(input: Tensor, diagonal: int = 0) -> Tensor:
    """The upper triangle, zeros below the diagonal."""
    keep = ~np.tri(*input.array.shape[-2:], diagonal - 1, dtype=bool)
    return elementwise.where(make(keep), input, 0) if input.dtype != bool else make(input.array & keep)
