"""Operations that repeat, turn and pick elements: repeat, roll, triangles, diagonals, windows."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from tinygrad_tf._layout import in_order
from tinygrad_tf.engine import Tensor, expand, make, primitive
from tinygrad_tf.ops._types import axis, told
from tinygrad_tf.ops.elementwise import chosen
from tinygrad_tf.ops.index import index_select, put
from tinygrad_tf.ops.shape import cat, clone, contiguous, flatten, movedim, narrow, reshape

# --- repeating and turning --------------------------------------------------------------------------------------------


def repeat(x: Tensor, sizes: tuple[int, ...]) -> Any:
    """The whole tensor, sizes[i] times along axis i; more sizes than axes make new ones in front."""
    shape = x.array.shape
    if len(sizes) < len(shape) or any(n < 0 for n in sizes):
        raise RuntimeError(f"repeat: needs a number from 0 on for each axis of shape {shape}, got {sizes}")
    old = (1,) * (len(sizes) - len(shape)) + shape
    with_gaps = reshape(x, shape=tuple(k for n in old for k in (1, n)))
    wide = expand(with_gaps, shape=tuple(k for n, times in zip(old, sizes, strict=True) for k in (times, n)))
    return contiguous(reshape(wide, shape=tuple(n * times for n, times in zip(old, sizes, strict=True))))


def tile(x: Tensor, sizes: tuple[int, ...]) -> Any:
    """As repeat, but missing sizes count as 1."""
    return repeat(x, (1,) * (x.array.ndim - len(sizes)) + sizes)


def repeat_interleave(x: Tensor, repeats: Any, dim: int | None = None) -> Any:
    """Each entry of axis `dim` (of the flattened tensor if it is None) `repeats` times, one after the other."""
    if dim is None:
        x, dim = flatten(x), 0
    dim = axis("repeat_interleave", dim, x.array.ndim)
    times = repeats.array if isinstance(repeats, Tensor) else np.asarray(repeats)
    if (
        times.dtype.kind not in "iu"
        or times.min(initial=0) < 0
        or (times.ndim and times.shape != (x.array.shape[dim],))
    ):
        wanted = f"a number from 0 on, or {x.array.shape[dim]} of them"
        raise RuntimeError(f"repeat_interleave: repeats must be {wanted}, got {times.tolist()}")
    return index_select(x, dim, make(np.repeat(np.arange(x.array.shape[dim]), times)))


def roll(x: Tensor, shifts: Any, dims: Any = None) -> Any:
    """Shift along axes (None: along the flattened tensor); what leaves at the end comes back at the start."""
    if dims is None or dims == ():
        return reshape(roll(flatten(x), shifts, 0), shape=x.array.shape)
    shifts = (shifts,) if isinstance(shifts, int) else tuple(shifts)
    dims = (dims,) if isinstance(dims, int) else tuple(dims)
    if len(shifts) != len(dims):
        raise RuntimeError(f"roll: needs one shift for each of dims {dims}, got {shifts}")
    x = clone(x)
    for shift, d in zip(shifts, dims, strict=True):
        dim = axis("roll", d, x.array.ndim)
        n = x.array.shape[dim]
        if n and shift % n:
            back = shift % n
            x = cat([narrow(x, dim, n - back, back), narrow(x, dim, 0, n - back)], dim)
    return x


# --- diagonals, triangles, windows ------------------------------------------------------------------------------------


def _needs_matrix(name: str, x: Tensor) -> None:
    if x.array.ndim < 2:
        raise RuntimeError(f"{name}: needs at least 2 dimensions, got shape {x.array.shape}")


def _diagonal(name: str, diagonal: Any) -> int:
    try:
        return operator.index(diagonal)
    except TypeError:
        raise TypeError(f"{name}: diagonal must be an integer, got {told(diagonal)}") from None


@functools.lru_cache(8)
def _below(m: int, n: int, diagonal: int) -> np.ndarray:
    """Where the matrices (m, n) have their lower triangle, up to the diagonal."""
    return np.tri(m, n, diagonal, dtype=bool)


@primitive(x=lambda g, diagonal: tril_(g, diagonal=diagonal))
def tril_(x: np.ndarray, *, diagonal: int) -> np.ndarray:
    return in_order(chosen(_below(*x.shape[-2:], diagonal), x, x.dtype.type(0)))


@primitive(x=lambda g, diagonal: triu_(g, diagonal=diagonal))
def triu_(x: np.ndarray, *, diagonal: int) -> np.ndarray:
    return in_order(chosen(_below(*x.shape[-2:], diagonal - 1), x.dtype.type(0), x))


def tril(x: Tensor, diagonal: int = 0) -> Any:
    """The lower triangle, zeros above the diagonal."""
    _needs_matrix("tril", x)
    return tril_(x, diagonal=_diagonal("tril", diagonal))


def triu(x: Tensor, diagonal: int = 0) -> Any:
    """The upper triangle, zeros below the diagonal."""
    _needs_matrix("triu", x)
    return triu_(x, diagonal=_diagonal("triu", diagonal))


def _put_back(g: Any, shapes: list[tuple[int, ...]], take: Callable[[np.ndarray], np.ndarray]) -> Any:
    """Every element of g back to where `take` had it from: found by taking the numbers of the places."""
    shape = shapes[0]
    size = int(np.prod(shape, dtype=np.int64))
    places = take(np.arange(size).reshape(shape))
    if not shape:  # a number, of which NumPy knows no index
        return reshape(put(g, index=(places,), shape=(size,)), shape=())
    return put(g, index=np.unravel_index(places, shape), shape=shape)


@primitive(view=True, x=_put_back)
def viewed(x: np.ndarray, *, take: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """The view of x that `take` makes, in which an element may occur several times."""
    return take(x)


def diagonal(x: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """The diagonal of the matrices in axes dim1 and dim2, as a view with that axis last."""
    a, b = axis("diagonal", dim1, x.array.ndim), axis("diagonal", dim2, x.array.ndim)
    if a == b:
        raise RuntimeError(f"diagonal: dim1 and dim2 must differ, got {dim1} and {dim2}")

    def take(array: np.ndarray) -> np.ndarray:
        out = array.diagonal(offset, a, b)
        out.flags.writeable = array.flags.writeable
        return out

    return viewed(x, take=take)


def diag_embed(x: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """Matrices, in the axes dim1 and dim2, with the last axis of x on their diagonal."""
    ndim = x.array.ndim + 1
    a, b = axis("diag_embed", dim1, ndim), axis("diag_embed", dim2, ndim)
    if a == b or ndim < 2:
        raise RuntimeError(f"diag_embed: needs a vector or more, and two different dims, got {dim1} and {dim2}")
    if (a, b) != (ndim - 2, ndim - 1):
        return movedim(diag_embed(x, offset), (-2, -1), (a, b))
    n = x.array.shape[-1]
    rows = np.arange(n) + max(-offset, 0)
    size = n + abs(offset)
    return put(x, index=(..., rows, rows + offset), shape=(*x.array.shape[:-1], size, size))


def diag(x: Tensor, diagonal_: int = 0) -> Any:
    """The diagonal of a matrix, or the matrix with this diagonal."""
    if x.array.ndim not in (1, 2):
        raise RuntimeError(f"diag: needs a vector or a matrix, got shape {x.array.shape}")
    return diag_embed(x, diagonal_) if x.array.ndim == 1 else contiguous(diagonal(x, diagonal_))


def as_strided(x: Tensor, size: tuple[int, ...], stride: tuple[int, ...], storage_offset: int = 0) -> Any:
    """A view with any strides (in elements) of a contiguous tensor; no element outside of it can be reached."""
    last = storage_offset + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
    if not x.array.flags.c_contiguous:
        raise RuntimeError("as_strided: needs a contiguous tensor; use .contiguous()")
    if min((*size, *stride, storage_offset), default=0) < 0 or (0 not in size and last >= x.array.size):
        raise RuntimeError(f"as_strided: size {size}, stride {stride} leave the {x.array.size} elements of the tensor")

    def take(array: np.ndarray) -> np.ndarray:
        flat = np.ascontiguousarray(array).reshape(-1)[storage_offset:]
        steps = tuple(s * array.itemsize for s in stride)
        return np.lib.stride_tricks.as_strided(flat, size, steps)

    return viewed(x, take=take)
