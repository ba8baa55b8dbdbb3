"""Tensors of counted numbers: equal steps, ones on a diagonal, indices of triangles."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinygrad_tf._quiet import quiet
from tinygrad_tf.creation._kinds import as_kind, finish, given_sizes, into_out
from tinygrad_tf.ops._types import fitting
from tinygrad_tf.tensor import Tensor


@into_out
def arange(
    start: Any = 0,
    end: Any = None,
    step: Any = 1,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """arange(end), arange(start, end), arange(start, end, step), without `end`; int64 for integers, else float32."""
    if end is None:
        start, end = 0, start
    values = [v.item() if isinstance(v, (Tensor, np.generic)) else v for v in (start, end, step)]
    start, end, step = values
    if not all(isinstance(v, (int, float)) and math.isfinite(v) for v in values):
        raise RuntimeError(f"arange: needs finite numbers, got start {start}, end {end} and step {step}")
    if step == 0 or (end - start) * step < 0:
        raise RuntimeError(f"arange: no step of {step} leads from {start} to {end}")
    kind = as_kind(dtype, np.int64 if all(isinstance(v, int) for v in values) else None)
    count = math.ceil((end - start) / step)
    if kind.kind in "iu":  # as PyTorch has it: integers start and go on at whole numbers
        start, end, step = map(int, values)
        if not step:
            raise RuntimeError(f"arange: step must not be 0 in {kind}, got {values[2]}")
        count = max(math.ceil((end - start) / step), 0) if kind == np.int64 else count
        return finish((start + step * np.arange(count)).astype(kind, copy=False), requires_grad, device)
    if kind.itemsize == 2:  # which are counted in float32
        for value in values:
            fitting("arange", value, np.dtype(np.float32))
    with quiet():  # beyond the largest number there is inf, as in PyTorch
        return finish((start + step * np.arange(count, dtype=np.float64)).astype(kind), requires_grad, device)


def _equal_steps(name: str, start: Any, end: Any, steps: Any, kind: np.dtype) -> np.ndarray:
    """`steps` float64 numbers from start to end at equal distances; those for integers start and end at whole ones."""
    for what, value in (("start", start), ("end", end)):
        if isinstance(value, Tensor) and value.ndim:
            raise RuntimeError(f"{name}: {what} must be a number or a 0-d tensor, got shape {tuple(value.shape)}")
        fitting(f"{name}: {what}", float(value), kind)
    if not hasattr(steps, "__index__"):
        raise TypeError(f"{name}: steps must be an integer, got {steps!r}")
    if steps < 0:
        raise RuntimeError(f"{name}: steps must not be negative, got {steps}")
    number: Any = int if kind.kind in "iu" else float
    return np.linspace(number(start), number(end), int(steps))


@into_out
def linspace(
    start: Any, end: Any, steps: int, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """`steps` numbers at equal distances from start to end, both included."""
    kind = as_kind(dtype)
    if kind.kind == "b":
        raise RuntimeError("linspace: makes numbers, not bools; compare them to get a mask")
    return finish(_equal_steps("linspace", start, end, steps, kind).astype(kind), requires_grad, device)


@into_out
def logspace(
    start: Any,
    end: Any,
    steps: int,
    base: float = 10.0,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """base ** start to base ** end in `steps` equal factors."""
    kind = as_kind(dtype)
    exponents = _equal_steps("logspace", start, end, steps, kind)
    with quiet():
        return finish(np.power(float(base), exponents).astype(kind), requires_grad, device)


@into_out
def eye(n: int, m: int | None = None, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Ones on the diagonal."""
    rows, columns = given_sizes("eye", (n, n if m is None else m))
    return finish(np.eye(rows, columns, dtype=as_kind(dtype)), requires_grad, device)


def tril_indices(row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None) -> Tensor:
    """The row and column numbers of the lower triangle, (2, count)."""
    row, col = given_sizes("tril_indices", (row, col))
    return finish(np.stack(np.tril_indices(row, offset, col)).astype(as_kind(dtype, np.int64)), False, device)


def triu_indices(row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None) -> Tensor:
    """The row and column numbers of the upper triangle, (2, count)."""
    row, col = given_sizes("triu_indices", (row, col))
    return finish(np.stack(np.triu_indices(row, offset, col)).astype(as_kind(dtype, np.int64)), False, device)


# fmt: off
__all__ = [
    "arange", "eye", "linspace", "logspace", "tril_indices", "triu_indices",
]
# fmt: on
