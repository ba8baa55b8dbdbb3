"""What makes methods of methods: the in-place form, and NumPy's names of arguments."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np

from tinygrad_tf.ops import inplace

P = ParamSpec("P")
S = TypeVar("S")
R = TypeVar("R")


def operand(x: Any) -> Any:
    """A NumPy number as a Python number, so that it never widens a float32 tensor."""
    return x.item() if isinstance(x, np.generic) else x


def in_place(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """The method that writes its result into the tensor's own memory (ops/inplace.py), and returns the tensor."""
    name = method.__name__.strip("_") + "_"

    def write(self: S, *args: P.args, **options: P.kwargs) -> R:
        return inplace.write(name, self, method, *args, **options)

    write.__name__, write.__qualname__ = name, name
    write.__doc__ = f"`{name[:-1]}`, written into this tensor's own memory; returns this tensor."
    return write


def numpy_names(method: Callable[P, R]) -> Callable[P, R]:
    """Let a reduction be called with NumPy's names too: axis for dim, keepdims for keepdim."""

    @functools.wraps(method)
    def renamed(*args: P.args, **options: P.kwargs) -> R:
        if options:
            if "axis" in options:
                options["dim"] = options.pop("axis")
            if "keepdims" in options:
                options["keepdim"] = options.pop("keepdims")
        return method(*args, **options)

    return renamed
