"""Comparing values in tests, as PyTorch's torch.testing does."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tinygrad_tf._quiet import quiet
from tinygrad_tf.creation import as_tensor
from tinygrad_tf.tensor import Tensor

__all__ = ["assert_allclose", "assert_close"]

# By dtype: the relative and the absolute difference that rounding may make. Whole numbers must be the same.
TOLERANCES = {"float64": (1e-7, 1e-7), "float32": (1.3e-6, 1e-5), "bfloat16": (1.6e-2, 1e-5), "float16": (1e-3, 1e-5)}


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """An AssertionError that names the worst place, unless |actual - expected| <= atol + rtol |expected| everywhere.

    Tensors, arrays, numbers, and sequences and mappings of these. Without tolerances, those of the coarser dtype count
    (float32: rtol 1.3e-6, atol 1e-5; float64: 1e-7 both). There is one device and one layout, so these always agree.

    >>> from tinygrad_tf import tensor
    >>> assert_close(tensor([1.0, 2.0]), tensor([1.0, 2.0 + 1e-7]))
    >>> assert_close([1, 2.0], [1, 2.5], rtol=0.0, atol=0.1)
    Traceback (most recent call last):
    AssertionError: Scalars are not close: 2.0 is not 2.5; they differ by 0.5 (up to 0.1 allowed); item [1]
    """
    if (rtol is None) != (atol is None):
        raise ValueError(f"assert_close: give both rtol and atol, or none, got rtol={rtol} and atol={atol}")
    fault = _difference(actual, expected, "", (rtol, atol), equal_nan, (check_dtype, check_stride, allow_subclasses))
    if fault:
        raise AssertionError(fault if msg is None else msg(fault) if callable(msg) else msg)


def assert_allclose(
    actual: Any,
    expected: Any,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
    msg: str | None = None,
) -> None:
    """The older function: dtypes may differ, NaN equals NaN, and numbers and arrays are taken as tensors."""
    pair = as_tensor(actual), as_tensor(expected)
    assert_close(*pair, rtol=rtol, atol=atol, equal_nan=equal_nan, check_dtype=False, msg=msg)


def _difference(
    actual: Any, expected: Any, place: str, limits: tuple[Any, Any], equal_nan: bool, checks: tuple[bool, bool, bool]
) -> str:
    """What is wrong with the first pair that differs; nothing if none does."""
    where = f"; item {place}" if place else ""
    if isinstance(actual, Mapping) and isinstance(expected, Mapping):
        if actual.keys() != expected.keys():
            only = sorted(map(repr, actual.keys() ^ expected.keys()))
            return f"The keys of the mappings do not match: only one has {', '.join(only)}{where}"
        pairs = [(f"{place}[{key!r}]", actual[key], expected[key]) for key in expected]
    elif _is_sequence(actual) and _is_sequence(expected):
        if len(actual) != len(expected):
            return f"The length of the sequences mismatch: {len(actual)} != {len(expected)}{where}"
        pairs = [(f"{place}[{i}]", *pair) for i, pair in enumerate(zip(actual, expected, strict=True))]
    else:
        return _difference_of_values(actual, expected, limits, equal_nan, checks, where)
    faults = (_difference(a, e, inner, limits, equal_nan, checks) for inner, a, e in pairs)
    return next(filter(None, faults), "")


def _is_sequence(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _difference_of_values(
    actual: Any, expected: Any, limits: tuple[Any, Any], equal_nan: bool, checks: tuple[bool, bool, bool], where: str
) -> str:
    check_dtype, check_stride, allow_subclasses = checks
    if actual is None or expected is None:
        return "" if actual is expected else f"{actual} is not {expected}{where}"
    tensors = isinstance(actual, Tensor) and isinstance(expected, Tensor)
    arrays = all(isinstance(v, (np.ndarray, np.generic)) for v in (actual, expected))
    numbers_ = all(isinstance(v, numbers.Number) for v in (actual, expected))
    if not (tensors or arrays or numbers_) or not (allow_subclasses or type(actual) is type(expected)):
        names = f"{type(actual).__name__} and {type(expected).__name__}"
        raise TypeError(f"assert_close: compares tensors, or arrays, or numbers, with their like, got {names}{where}")
    a, e = (v.array if isinstance(v, Tensor) else np.asarray(v) for v in (actual, expected))
    if a.shape != e.shape:
        return f"The values for attribute 'shape' do not match: {a.shape} != {e.shape}{where}"
    if check_dtype and a.dtype != e.dtype:
        return f"The values for attribute 'dtype' do not match: {a.dtype} != {e.dtype}{where}"
    if check_stride and tensors and actual.stride() != expected.stride():
        return f"The values for attribute 'stride()' do not match: {actual.stride()} != {expected.stride()}{where}"
    return _worst_place(a, e, _limits(limits, a, e), equal_nan, where)


def _limits(limits: tuple[Any, Any], *arrays: np.ndarray) -> tuple[float, float]:
    if limits[0] is not None:
        return limits
    found = [TOLERANCES.get(a.dtype.name, (0.0, 0.0)) for a in arrays]
    return max(rtol for rtol, _ in found), max(atol for _, atol in found)


def _worst_place(
    actual: np.ndarray, expected: np.ndarray, limits: tuple[float, float], equal_nan: bool, where: str
) -> str:
    rtol, atol = limits
    exact = actual.dtype.kind in "biu" and expected.dtype.kind in "biu"
    a, e = (actual, expected) if exact else (actual.astype(np.float64), expected.astype(np.float64))
    with quiet():
        apart = np.abs(a.astype(np.float64) - e.astype(np.float64))
        relative = apart / np.abs(e.astype(np.float64))
        close = a == e
        if rtol or atol:  # without them, large integers would be the same as their neighbours in float64
            close |= (apart <= atol + rtol * np.abs(e)) & np.isfinite(e)
    if equal_nan:
        close |= np.isnan(a) & np.isnan(e)
    wrong = np.asarray(~close)
    if not wrong.any():
        return ""
    if not actual.ndim:
        far = f"they differ by {apart} (up to {atol + rtol * float(np.abs(e))} allowed)"
        return f"Scalars are not close: {actual} is not {expected}; {far}{where}"
    (most, place), (share, other_place) = (_largest(np.where(wrong, sizes, 0.0)) for sizes in (apart, relative))
    count = int(wrong.sum())
    return (
        "Tensor-likes are not close!\n\n"
        f"Mismatched elements: {count} / {wrong.size} ({100 * count / wrong.size:.1f}%)\n"
        f"Greatest absolute difference: {most} at index {place} (up to {atol} allowed)\n"
        f"Greatest relative difference: {share} at index {other_place} (up to {rtol} allowed){where}"
    )


def _largest(sizes: np.ndarray) -> tuple[float, tuple[int, ...]]:
    """The largest of the sizes (NaN counts as larger than any), and its place."""
    place = np.unravel_index(int(np.argmax(sizes)), sizes.shape)
    return float(sizes[place]), tuple(int(i) for i in place)
