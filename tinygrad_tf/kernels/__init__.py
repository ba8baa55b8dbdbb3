"""Compiled kernels: NumPy arrays in, NumPy arrays out; nothing here knows what a Tensor is.

One file a kernel family. A family is imported when it is first used (`kernels.softmax.softmax(...)`), so that importing
the package neither imports numba nor compiles anything.
"""

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(name)
    return import_module(f"{__name__}.{name}")
