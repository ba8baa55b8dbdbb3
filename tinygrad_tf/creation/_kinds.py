"""What functions that make tensors have in common: shapes, dtypes, devices, and `out`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec

import numpy as np

from tinygrad_tf import _twister, random
from tinygrad_tf._device import checked
from tinygrad_tf.dtypes import array_dtype
from tinygrad_tf.engine import make
from tinygrad_tf.ops._types import default_float
from tinygrad_tf.ops.shape import sizes_of
from tinygrad_tf.tensor import Tensor

Generator = random.Generator


_twister.given_out = make


_P = ParamSpec("_P")


INT64, UINT64, FLOAT64 = np.dtype(np.int64), np.dtype(np.uint64), np.dtype(np.float64)


def into_out(function: Callable[_P, Tensor]) -> Callable[_P, Tensor]:
    """The function, with PyTorch's `out`: a tensor that takes the result over, in its own dtype and at any size."""

    @functools.wraps(function)
    def made(*args: _P.args, **options: _P.kwargs) -> Tensor:
        if "out" not in options:
            return function(*args, **options)
        out: Any = options.pop("out")
        if out is None:
            return function(*args, **options)
        if not isinstance(out, Tensor):
            raise TypeError(f"{function.__name__}: out must be a tensor, got {type(out).__name__}")
        options.setdefault("dtype", out.dtype)
        result = function(*args, **options)
        if result.shape != out.shape:
            out.resize_(result.shape)
        return out.copy_(result)

    return made


def finish(array: np.ndarray, requires_grad: bool, device: Any = None) -> Tensor:
    checked(device)
    t: Tensor = make(array)
    return t.requires_grad_() if requires_grad else t


def as_kind(dtype: Any, otherwise: Any = None) -> np.dtype:
    """The NumPy dtype asked for, or else the default."""
    if dtype is not None:
        return array_dtype(dtype)
    return default_float() if otherwise is None else np.dtype(otherwise)


def given_sizes(name: str, sizes: tuple[Any, ...], size: Any = None) -> tuple[int, ...]:
    """A shape given as zeros(2, 3), zeros((2, 3)) or zeros(size=(2, 3))."""
    found = sizes_of(name, sizes if size is None else (*sizes, size))
    if min(found, default=0) < 0:
        raise RuntimeError(f"{name}: a shape has no negative sizes, got {found}")
    return found
