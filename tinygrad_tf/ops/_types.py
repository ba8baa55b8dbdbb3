"""Which dtype an operation works in, and which axes a `dim` means: PyTorch's rules on NumPy's arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinygrad_tf._quiet import quiet

ndarray = np.ndarray  # looked up at every call
_defaults: dict[type, np.dtype] = {
    bool: np.dtype(np.bool_),
    int: np.dtype(np.int64),
    float: np.dtype(np.float32),
}


def default_float() -> np.dtype:
    """The dtype of tensors made of Python floats: float32, unless `set_default_dtype` chose another."""
    return _defaults[float]


def set_default_float(dtype: np.dtype) -> None:
    if category(dtype) != 2:
        raise TypeError(f"set_default_dtype: needs a floating point dtype, got {dtype}")
    _defaults[float] = dtype


CATEGORIES = {"b": 0, "i": 1, "u": 1}


def category(dtype: np.dtype) -> int:
    """0 for bool, 1 for integers, 2 for floating point (the bfloat16 of ml_dtypes has kind V)."""
    return CATEGORIES.get(dtype.kind, 2)


def promote_types(a: np.dtype, b: np.dtype) -> np.dtype:
    """The dtype that holds both: a float beside an integer stays as it is, two 16-bit floats meet in float32."""
    if a == b:
        return a
    if category(a) != category(b):
        return max(a, b, key=category)
    if category(a) == 2 and a.itemsize == b.itemsize == 2:
        return np.dtype(np.float32)
    if category(a) == 2 and 2 in (a.itemsize, b.itemsize):
        return max(a, b, key=lambda dtype: dtype.itemsize)
    return np.promote_types(a, b)


def result_type(*operands: Any) -> np.dtype:
    """PyTorch's promotion: arrays with dimensions decide, then 0-d arrays, then Python numbers.

    The later ones count only if their category (bool, integer, float) is higher.
    """
    groups: list[np.dtype | None] = [None, None, None]
    for x in operands:
        rank = 2 if not isinstance(x, np.ndarray) else 0 if x.ndim else 1
        dtype = x.dtype if isinstance(x, (np.ndarray, np.generic)) else python_type(x)
        before = groups[rank]
        groups[rank] = dtype if before is None else promote_types(before, dtype)
    result: np.dtype | None = None
    for dtype in groups:
        if dtype is not None and (result is None or category(dtype) > category(result)):
            result = dtype if result is None else promote_types(result, dtype)
    assert result is not None
    return result


def python_type(x: Any) -> np.dtype:
    """The dtype that a Python number stands for."""
    for kind, dtype in _defaults.items():
        if isinstance(x, kind):
            return dtype
    raise TypeError(f"needs tensors and numbers, got {type(x).__name__}")


def plain_array(x: np.ndarray) -> np.ndarray:
    """An array of NumPy's own class, on the same memory: to a np.matrix `*` means another product."""
    if isinstance(x, np.ma.MaskedArray) and np.ma.is_masked(x):
        hidden = int(np.count_nonzero(np.ma.getmaskarray(x)))
        raise TypeError(f"a tensor has no masked entries, got an array with {hidden}; fill them first: x.filled(value)")
    return np.asarray(x)


def as_number(x: Any, dtype: np.dtype) -> Any:
    """A Python number in `dtype`; integers wrap around, as in C."""
    with quiet():
        return np.asarray(x).astype(dtype)[()]


# By dtype.char (E: the bfloat16 of ml_dtypes), as NumPy spells out a dtype.name anew each time.
LARGEST = {"e": 65504.0, "E": 3.3895313892515355e38, "f": 3.4028234663852886e38}


def fitting(name: str, value: Any, dtype: np.dtype) -> Any:
    """A number as `dtype` holds it: without its fraction, and negative ones wrapped around where there is no sign.

    One that it cannot hold, as -inf among integers and -1e9 in float16, is a RuntimeError: silently it would become
    some other number.
    """
    if dtype.kind not in "iu":
        largest = LARGEST.get(dtype.char, np.inf)
        if largest < abs(value) < np.inf:
            hint = "; for a mask use -inf" if value < 0 else ""
            raise RuntimeError(f"{name}: {value} does not fit into {dtype}, which ends at {largest:.5g}{hint}")
        return value
    most = int(np.iinfo(dtype).max)
    if not -most - 1 <= value <= most:
        hint = "" if abs(value) <= most + 2.0**64 else "; use .float() first"
        raise RuntimeError(f"{name}: {value} does not fit into {dtype}, which ends at {most}{hint}")
    return as_number(int(value), dtype)


def as_factor(name: str, what: str, factor: Any, dtype: np.dtype) -> Any:
    """A factor for tensors of `dtype`: a number must be one that they can hold, and a whole one beside integers."""
    if not isinstance(factor, (int, float)):
        return factor
    if category(dtype) < 2 and isinstance(factor, float):
        raise RuntimeError(f"{name}: integers need an integer for {what}, got {factor}; use .float() first")
    return fitting(f"{name}: {what}", factor, dtype) if category(dtype) else bool(factor)


def promoted(name: str, arrays: list[Any]) -> list[Any]:
    """Bring the operands of an elementwise operation to their common dtype, and check that their shapes broadcast."""
    a, b = arrays
    kind_a, kind_b = type(a), type(b)
    if kind_a is ndarray and kind_b is ndarray:
        if a.shape != b.shape:
            check_broadcast(name, a.shape, b.shape)
        if a.dtype is b.dtype or a.dtype == b.dtype:
            return arrays
    elif kind_b is float or kind_b is int:
        if kind_a is ndarray and a.dtype.kind == "f":
            return arrays
    elif (kind_a is float or kind_a is int) and kind_b is ndarray and b.dtype.kind == "f":
        return arrays
    try:
        dtype = result_type(a, b)
    except TypeError as error:
        raise TypeError(f"{name}: {error}") from None
    with quiet():
        return [x.astype(dtype, copy=False) if isinstance(x, np.ndarray) else as_number(x, dtype) for x in arrays]


def beside_number(a: Any, b: Any) -> bool:
    """Whether one of the operands is a Python number and the other 16-bit floats."""
    kind_a, kind_b = type(a), type(b)
    if kind_b is float or kind_b is int:
        return kind_a is ndarray and a.dtype.itemsize == 2 and a.dtype.kind in "fV"
    return (kind_a is float or kind_a is int) and kind_b is ndarray and b.dtype.itemsize == 2 and b.dtype.kind in "fV"


def factors(name: str, arrays: list[Any]) -> list[Any]:
    """As `promoted`, but a number beside 16-bit floats is not rounded to them: `times` and `over` take it as it is."""
    return arrays if beside_number(*arrays) else promoted(name, arrays)


def float_factors(name: str, arrays: list[Any]) -> list[Any]:
    """As `promoted_to_float`, with numbers as `factors` has them."""
    return arrays if beside_number(*arrays) else promoted_to_float(name, arrays)


def times(a: Any, b: Any) -> Any:
    """a * b, in which a number beside 16-bit floats is not rounded to them."""
    return _rounded_once(np.multiply, a, b) if beside_number(a, b) else a * b


def over(a: Any, b: Any) -> Any:
    """a / b, with numbers as `times` has them."""
    return _rounded_once(np.true_divide, a, b) if beside_number(a, b) else a / b


def _rounded_once(function: Any, a: Any, b: Any) -> np.ndarray:
    """function(a, b) of a number and 16-bit floats: in float32, with only the result rounded, as PyTorch has it."""
    dtype = a.dtype if isinstance(a, ndarray) else b.dtype
    wide_a, wide_b = (x.astype(np.float32) if isinstance(x, ndarray) else np.float32(x) for x in (a, b))
    return np.asarray(function(wide_a, wide_b)).astype(dtype)


def promoted_to_float(name: str, arrays: list[Any]) -> list[Any]:
    """As `promoted`, for operations that have no integer result: where no operand is floating point, all become so.

    Each by itself, and before they meet: in small integers a number of the other operand need not fit.
    """
    a, b = arrays
    return promoted(name, [floating(a), floating(b)] if _whole(a) and _whole(b) else arrays)


def _whole(x: Any) -> bool:
    return isinstance(x, int) or (isinstance(x, (np.ndarray, np.generic)) and category(x.dtype) < 2)


def float_input(name: str, arrays: list[Any]) -> list[Any]:
    """For functions like exp: integer arrays become the default float."""
    return [floating(arrays[0]), *arrays[1:]]


def floating(x: Any) -> Any:
    if isinstance(x, (np.ndarray, np.generic)) and category(x.dtype) < 2:
        return x.astype(default_float())
    return x


def wants_tensor(function: str, name: str, x: Any) -> TypeError:
    """The error for an argument that is no Tensor."""
    return TypeError(f"{function}: {name} must be a tensor, got {type(x).__name__}; make one with tensor(...)")


def check_floats(name: str, x: Any) -> None:
    """Refuse integers, and truths, where PyTorch has no such function of them; its error is a RuntimeError, too."""
    if category(x.array.dtype) < 2:
        raise NotImplementedError(f"{name}: needs a floating point tensor, got {x.array.dtype}; use .float()")


def check_broadcast(name: str, a: tuple[int, ...], b: tuple[int, ...]) -> None:
    for m, n in zip(reversed(a), reversed(b), strict=False):
        if m != n and m != 1 and n != 1:
            raise RuntimeError(f"{name}: shapes {a} and {b} do not broadcast: {m} against {n}")


def told(x: Any) -> str:
    """What came, for an error of one line: a tensor or an array by its shape."""
    if isinstance(x, (tuple, list)):
        return f"({', '.join(map(told, x))})"
    if hasattr(x, "shape"):
        return f"{type(x).__name__} of shape {tuple(x.shape)}"
    return repr(x)


def axis(name: str, dim: int, ndim: int) -> int:
    """`dim` as a number from 0 on; an error that names the operation and the range if there is no such axis."""
    if type(dim) is int and -ndim <= dim < ndim:
        return dim if dim >= 0 else dim + ndim
    limit = max(ndim, 1)
    if not isinstance(dim, (int, np.integer)) or isinstance(dim, bool):
        raise TypeError(f"{name}: dim must be an integer, got {told(dim)}")
    if not -limit <= dim < limit:
        raise IndexError(f"{name}: dim must be in [{-limit}, {limit - 1}] for {ndim} dimensions, got {dim}")
    return int(dim) % limit


def axes(name: str, dim: int | tuple[int, ...] | list[int] | None, ndim: int) -> tuple[int, ...]:
    """`dim` as a tuple of axes: None and () mean all."""
    if type(dim) is int and ndim:
        return (axis(name, dim, ndim),)
    if dim is None or (isinstance(dim, (tuple, list)) and not dim):
        return tuple(range(ndim))
    found = tuple(axis(name, d, ndim) for d in (dim if isinstance(dim, (tuple, list)) else (dim,)))
    if len(set(found)) != len(found):
        raise RuntimeError(f"{name}: dim {dim} names the same axis twice")
    return found if ndim else ()
