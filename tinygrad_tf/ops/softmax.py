"""softmax and log_softmax, along any axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinygrad_tf import kernels
from tinygrad_tf.engine import Tensor, fused
from tinygrad_tf.ops._types import axis, check_floats
from tinygrad_tf.ops.elementwise import exp, log
from tinygrad_tf.ops.reduce import amax, sum_


def softmax_reference(x: Any, *, dim: int) -> Any:
    """exp(x - max) / sum exp(x - max): the maximum changes nothing but the range of exp."""
    if not x.array.shape[dim]:  # of nothing there is no maximum
        return x.clone()
    e = exp(x - amax(x, dims=(dim,), keepdim=True).detach())
    return e / sum_(e, dims=(dim,), keepdim=True)


def log_softmax_reference(x: Any, *, dim: int) -> Any:
    """(x - max) - log sum exp(x - max)."""
    shifted = x - amax(x, dims=(dim,), keepdim=True).detach()
    return shifted - log(sum_(exp(shifted), dims=(dim,), keepdim=True))


def _last(x: np.ndarray, dim: int) -> np.ndarray:
    """x with `dim` as its last axis, where the kernels work."""
    return x if dim == x.ndim - 1 else np.moveaxis(x, dim, -1)


def _back(x: np.ndarray, dim: int) -> np.ndarray:
    return x if dim == x.ndim - 1 else np.ascontiguousarray(np.moveaxis(x, -1, dim))


def _softmax_backward(
    g: np.ndarray, wanted: list[bool], kept: Any, result: np.ndarray, dim: int, own: bool
) -> list[Any]:
    """dx = y (g - sum g y)."""
    return [_back(kernels.softmax.softmax_backward(_last(g, dim), _last(result, dim), own), dim)]


@fused(reference=softmax_reference, backward=_softmax_backward)
def softmax_(x: np.ndarray, *, dim: int) -> tuple[np.ndarray, None]:
    return _back(kernels.softmax.softmax(_last(x, dim)), dim), None


def _log_softmax_backward(
    g: np.ndarray, wanted: list[bool], kept: Any, result: np.ndarray, dim: int, own: bool
) -> list[Any]:
    """dx = g - exp(y) sum g."""
    return [_back(kernels.softmax.log_softmax_backward(_last(g, dim), _last(result, dim), own), dim)]


@fused(reference=log_softmax_reference, backward=_log_softmax_backward)
def log_softmax_(x: np.ndarray, *, dim: int) -> tuple[np.ndarray, None]:
    return _back(kernels.softmax.log_softmax(_last(x, dim)), dim), None


def _apply(name: str, operation: Any, x: Any, dim: int, dtype: Any) -> Any:
    if dtype is not None and x.array.dtype != dtype:
        x = x.to(dtype)
    check_floats(name, x)
    if x.array.ndim == 0:
        axis(name, dim, 0)
        return operation(x.reshape(1), dim=0).reshape(())
    dim = axis(name, dim, x.array.ndim)
    return operation(x, dim=dim) if x.array.shape[dim] else x.clone()  # of nothing there is no maximum


def softmax(x: Tensor, dim: int, dtype: Any = None) -> Any:
    return _apply("softmax", softmax_, x, dim, dtype)


def log_softmax(x: Tensor, dim: int, dtype: Any = None) -> Any:
    return _apply("log_softmax", log_softmax_, x, dim, dtype)
