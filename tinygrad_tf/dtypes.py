"""The dtypes by PyTorch's names, and their limits.

A dtype here is a name for a NumPy dtype: it prints as PyTorch's does, compares equal to NumPy's, and NumPy's functions
take it (`numpy.zeros(3, tinygrad_tf.float32)`). `bfloat16` is NumPy's missing dtype; the package ml_dtypes, which
brings it, is imported when a bfloat16 array is made, not before.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np


class DType:
    """The type of a tensor's elements.

    >>> float32, float32.itemsize, float32.is_floating_point
    (torch.float32, 4, True)
    >>> float32 == np.float32
    True
    """

    __slots__ = ("_array_dtype", "name")

    def __init__(self, name: str):
        self.name = name
        self._array_dtype: np.dtype | None = None

    @property
    def dtype(self) -> np.dtype:
        """NumPy's dtype; NumPy itself looks for this attribute."""
        if self._array_dtype is None:
            if self.name == "bfloat16":
                import ml_dtypes

                self._array_dtype = np.dtype(ml_dtypes.bfloat16)
            else:
                self._array_dtype = np.dtype(self.name)
        return self._array_dtype

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    @property
    def kind(self) -> str:
        """NumPy's letter: b bool, i integer, u unsigned, f floating point, V bfloat16."""
        return self.dtype.kind

    @property
    def type(self) -> Any:
        """NumPy's class of one element."""
        return self.dtype.type

    @property
    def is_floating_point(self) -> bool:
        return "float" in self.name

    @property
    def is_complex(self) -> bool:
        return "complex" in self.name

    @property
    def is_signed(self) -> bool:
        return self.name[0] not in "ub" or self.name == "bfloat16"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, DType):
            return self is other
        return isinstance(other, (np.dtype, type)) and as_dtype(other) is self

    def __hash__(self) -> int:
        return hash(self.dtype)

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> Any:
        return as_dtype, (self.name,)


bool_, uint8, uint16, uint32, uint64 = map(DType, ("bool", "uint8", "uint16", "uint32", "uint64"))
int8, int16, int32, int64 = map(DType, ("int8", "int16", "int32", "int64"))
float16, bfloat16, float32, float64 = map(DType, ("float16", "bfloat16", "float32", "float64"))
ALL = (bool_, uint8, uint16, uint32, uint64, int8, int16, int32, int64, float16, bfloat16, float32, float64)

NAMES = {d.name: d for d in ALL}
_PYTHON = {bool: bool_, int: int64, float: float64}


@functools.cache
def _numpy_name(dtype: np.dtype) -> str:
    """NumPy's name, which it spells out anew each time it is asked for."""
    return dtype.name if dtype.isnative else str(dtype)


def as_dtype(dtype: Any) -> DType:
    """The DType that a dtype of any kind means: ours, NumPy's, Python's bool, int and float, or a name."""
    if isinstance(dtype, DType):
        return dtype
    if isinstance(dtype, str):
        name = dtype.removeprefix("torch.")
    elif isinstance(dtype, np.dtype):
        name = _numpy_name(dtype)
    elif dtype in _PYTHON:
        return _PYTHON[dtype]
    else:
        name = getattr(dtype, "__name__", str(dtype)).rstrip("_")
    found = NAMES.get(name)
    if found is None:
        raise TypeError(f"dtype must be one of {', '.join(NAMES)}, got {dtype!r}")
    return found


def array_dtype(dtype: Any) -> np.dtype:
    """NumPy's dtype for a dtype of any kind."""
    found = dtype if type(dtype) is np.dtype else as_dtype(dtype).dtype
    if found.kind == "c":
        raise TypeError(f"tensors are real, and {found} is not; complex(real, imag) makes a complex one of two of them")
    return found


class finfo:
    """The limits of a floating point dtype: bits, min, max, eps (of 1), smallest_normal (tiny), resolution.

    >>> finfo(float32).eps
    1.1920928955078125e-07
    """

    def __init__(self, dtype: Any = None):
        kind = float32 if dtype is None else as_dtype(dtype)
        if not kind.is_floating_point:
            raise TypeError(f"finfo: needs a floating point dtype, got {kind}; use iinfo for integers")
        if kind is bfloat16:
            import ml_dtypes

            limits: Any = ml_dtypes.finfo("bfloat16")
        else:
            limits = np.finfo(kind.dtype)
        self.bits, self.dtype = 8 * kind.itemsize, kind.name
        self.min, self.max, self.eps = float(limits.min), float(limits.max), float(limits.eps)
        self.smallest_normal = self.tiny = float(limits.smallest_normal)
        self.resolution = float(f"{float(limits.resolution):.0e}")

    def __repr__(self) -> str:
        numbers = ", ".join(
            f"{n}={getattr(self, n):.6g}" for n in ("resolution", "min", "max", "eps", "smallest_normal", "tiny")
        )
        return f"finfo({numbers}, dtype={self.dtype})"


class iinfo:
    """The limits of an integer dtype: bits, min, max.

    >>> iinfo(uint8).max
    255
    """

    def __init__(self, dtype: Any):
        kind = as_dtype(dtype)
        if kind.is_floating_point or kind is bool_:
            raise TypeError(f"iinfo: needs an integer dtype, got {kind}" + ("" if kind is bool_ else "; use finfo"))
        limits = np.iinfo(kind.dtype)
        self.bits, self.min, self.max, self.dtype = limits.bits, int(limits.min), int(limits.max), kind.name

    def __repr__(self) -> str:
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"
