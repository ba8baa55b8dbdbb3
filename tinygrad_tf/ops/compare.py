"""Comparisons, tests and bits. Their results are bools or integers, so none of them has a gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tinygrad_tf.engine import Tensor, computed, make
from tinygrad_tf.ops._types import category, promoted

Binary = Callable[[Any, Any], Any]


def _array(x: Any) -> Any:
    return x.array if isinstance(x, Tensor) else x


def _binary(name: str, function: Any, prepare: Any = promoted) -> Binary:
    def operation(a: Any, b: Any) -> Any:
        return make(np.asarray(computed(function, prepare(name, [_array(a), _array(b)]), {})))

    operation.__name__ = name
    return operation


eq = _binary("eq", np.equal)
ne = _binary("ne", np.not_equal)
lt = _binary("lt", np.less)
le = _binary("le", np.less_equal)
gt = _binary("gt", np.greater)
ge = _binary("ge", np.greater_equal)

# --- bits and logic ---------------------------------------------------------------------------------------------------


def _integers(name: str, arrays: list[Any]) -> list[Any]:
    arrays = promoted(name, arrays)
    if arrays[0].dtype.kind not in "biu":
        raise _no_bits(name, arrays[0])
    return arrays


def _no_bits(name: str, x: Any) -> NotImplementedError:
    return NotImplementedError(f"{name}: needs bool or integer tensors, got {x.dtype}; compare first (x != 0)")


def _truths(name: str, arrays: list[Any]) -> list[Any]:
    return [np.asarray(x).astype(bool) for x in promoted(name, arrays)]


bitwise_and = _binary("bitwise_and", np.bitwise_and, _integers)
bitwise_or = _binary("bitwise_or", np.bitwise_or, _integers)
bitwise_xor = _binary("bitwise_xor", np.bitwise_xor, _integers)
bitwise_left_shift = _binary("bitwise_left_shift", np.left_shift, _integers)
bitwise_right_shift = _binary("bitwise_right_shift", np.right_shift, _integers)
logical_and = _binary("logical_and", np.logical_and, _truths)
logical_or = _binary("logical_or", np.logical_or, _truths)
logical_xor = _binary("logical_xor", np.logical_xor, _truths)


def bitwise_not(x: Tensor) -> Any:
    if category(x.array.dtype) == 2:
        raise _no_bits("bitwise_not", x.array)
    return make(~x.array)


def logical_not(x: Tensor) -> Any:
    return make(np.logical_not(x.array.astype(bool)))


# --- tests ------------------------------------------------------------------------------------------------------------


def _float_test(function: Any, otherwise: bool) -> Callable[[Tensor], Any]:
    """A test of floating point numbers, whose answer for integers is known."""

    def operation(x: Tensor) -> Any:
        plain = category(x.array.dtype) < 2
        return make(np.full(x.array.shape, otherwise) if plain else np.asarray(function(x.array)))

    operation.__name__ = function.__name__
    return operation


isnan = _float_test(np.isnan, False)
isinf = _float_test(np.isinf, False)
isfinite = _float_test(np.isfinite, True)


def isclose(a: Tensor, b: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Any:
    """Where |a - b| <= atol + rtol |b|."""
    if not (rtol >= 0 and atol >= 0):
        raise RuntimeError(f"isclose: rtol and atol must not be negative, got {rtol} and {atol}")
    if a.array.dtype != b.array.dtype:
        raise RuntimeError(f"isclose: both must have the same dtype, got {a.array.dtype} and {b.array.dtype}")
    promoted("isclose", [a.array, b.array])  # checks the shapes
    first, second = (x.array if category(x.array.dtype) < 2 else x.array.astype(np.float64) for x in (a, b))
    return make(np.asarray(np.isclose(first, second, rtol=rtol, atol=atol, equal_nan=equal_nan)))


def allclose(a: Tensor, b: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
    return bool(isclose(a, b, rtol, atol, equal_nan).array.all())


def equal(a: Tensor, b: Tensor) -> bool:
    """Whether both have the same shape and the same elements."""
    return a.array.shape == b.array.shape and bool(np.all(a.array == b.array))


def isin(elements: Any, test_elements: Any, invert: bool = False) -> Any:
    """Which of the elements occur among `test_elements`."""
    if not all(isinstance(x, (Tensor, int, float)) for x in (elements, test_elements)):
        got = f"{type(elements).__name__} and {type(test_elements).__name__}"
        raise TypeError(f"isin: elements and test_elements must be tensors or numbers, got {got}")
    return make(np.asarray(np.isin(_array(elements), _array(test_elements), invert=invert)))
