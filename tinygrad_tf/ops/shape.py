"""Operations that move elements without changing them. Those marked as views share memory with their input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tinygrad_tf.engine import Tensor, expand, primitive
from tinygrad_tf.ops._types import axes, axis, promote_types
from tinygrad_tf.ops.index import getitem


@primitive(view=True, x=lambda g, shapes: reshape(g, shape=shapes[0]))
def reshape(x: np.ndarray, *, shape: tuple[int, ...]) -> np.ndarray:
    return x.reshape(shape)


def resolve_shape(name: str, shape: tuple[int, ...], size: int) -> tuple[int, ...]:
    """Replace one -1 by what is left; an error that shows both sizes if the elements do not fit."""
    known = 1
    for n in shape:
        known *= 1 if n == -1 else n
    if any(n < -1 for n in shape) or shape.count(-1) > 1:
        raise RuntimeError(f"{name}: a shape has sizes from 0 on and at most one -1, got {shape}")
    if -1 in shape and known and size % known == 0:
        return tuple(size // known if n == -1 else n for n in shape)
    if -1 in shape or known != size:
        raise RuntimeError(f"{name}: shape {shape} does not fit {size} elements")
    return shape


def view(x: Tensor, shape: tuple[int, ...]) -> Any:
    """Reshape without copying; an error if the memory does not allow it."""
    shape = resolve_shape("view", shape, x.array.size)
    result = reshape(x, shape=shape)
    if x.array.size and not np.may_share_memory(result.array, x.array):
        raise RuntimeError(
            f"view: a tensor of shape {x.array.shape} whose memory is laid out with strides {x.array.strides} (it was "
            f"transposed or sliced) cannot be viewed as {shape}; use .reshape(...), or .contiguous().view(...)"
        )
    return result


@primitive(view=True, x=lambda g, dims: permute(g, dims=_inverse(dims)))
def permute(x: np.ndarray, *, dims: tuple[int, ...]) -> np.ndarray:
    return x.transpose(dims)


def _inverse(dims: tuple[int, ...]) -> tuple[int, ...]:
    inverse = [0] * len(dims)
    for i, d in enumerate(dims):
        inverse[d] = i
    return tuple(inverse)


def transpose(x: Tensor, dim0: int, dim1: int) -> Any:
    ndim = x.array.ndim
    dims = list(range(ndim))
    if ndim:
        a, b = axis("transpose", dim0, ndim), axis("transpose", dim1, ndim)
        dims[a], dims[b] = b, a
    return permute(x, dims=tuple(dims))


@primitive(x=lambda g, dims: flip(g, dims=dims))
def flip(x: np.ndarray, *, dims: tuple[int, ...]) -> np.ndarray:
    return np.flip(x, dims).copy()


@primitive(x=lambda g: g)
def contiguous(x: np.ndarray) -> np.ndarray:
    return np.array(x, order="C")


@primitive(x=lambda g: g)
def clone(x: np.ndarray) -> np.ndarray:
    return x.copy(order="K")


def movedim(x: Tensor, source: int, destination: int) -> Any:
    ndim = x.array.ndim
    a, b = axis("movedim", source, ndim), axis("movedim", destination, ndim)
    dims = [d for d in range(ndim) if d != a]
    dims.insert(b, a)
    return permute(x, dims=tuple(dims))


def unsqueeze(x: Tensor, dim: int) -> Any:
    shape = x.array.shape
    dim = axis("unsqueeze", dim, len(shape) + 1)
    return reshape(x, shape=(*shape[:dim], 1, *shape[dim:]))


def squeeze(x: Tensor, dim: int | tuple[int, ...] | list[int] | None = None) -> Any:
    """Drop axes of size 1: all, or those named."""
    shape = x.array.shape
    dims = axes("squeeze", dim, len(shape))
    return reshape(x, shape=tuple(n for i, n in enumerate(shape) if n != 1 or i not in dims))


def flatten(x: Tensor, start_dim: int = 0, end_dim: int = -1) -> Any:
    shape = x.array.shape
    if not shape:
        return reshape(x, shape=(1,))
    first, last = axis("flatten", start_dim, len(shape)), axis("flatten", end_dim, len(shape))
    if first > last:
        raise RuntimeError(f"flatten: start_dim {start_dim} comes after end_dim {end_dim} for shape {shape}")
    size = int(np.prod(shape[first : last + 1], dtype=np.int64))
    return reshape(x, shape=(*shape[:first], size, *shape[last + 1 :]))


def narrow(x: Tensor, dim: int, start: int, length: int) -> Any:
    """`length` entries of axis `dim` from `start` on, as a view."""
    return getitem(x, index=(slice(None),) * dim + (slice(start, start + length),))


def split(x: Tensor, split_size: int | Sequence[int], dim: int = 0) -> tuple[Any, ...]:
    """Views of `split_size` entries each (the last may be shorter), or of the sizes given."""
    dim = axis("split", dim, x.array.ndim)
    total = x.array.shape[dim]
    if isinstance(split_size, int):
        if split_size <= 0:
            raise RuntimeError(f"split: split_size must be positive, got {split_size}")
        sizes = [min(split_size, total - start) for start in range(0, total, split_size)] or [0]
    else:
        sizes = list(split_size)
        if sum(sizes) != total or min(sizes, default=0) < 0:
            raise RuntimeError(f"split: sizes {sizes} must add up to {total}, the size of dim {dim}")
    starts = np.cumsum([0, *sizes])
    return tuple(narrow(x, dim, int(start), size) for start, size in zip(starts, sizes, strict=False))


def chunk(x: Tensor, chunks: int, dim: int = 0) -> tuple[Any, ...]:
    if chunks <= 0:
        raise RuntimeError(f"chunk: chunks must be positive, got {chunks}")
    size = x.array.shape[axis("chunk", dim, x.array.ndim)]
    return split(x, max(-(-size // chunks), 1), dim)


def unbind(x: Tensor, dim: int = 0) -> tuple[Any, ...]:
    dim = axis("unbind", dim, x.array.ndim)
    return tuple(getitem(x, index=(slice(None),) * dim + (i,)) for i in range(x.array.shape[dim]))


def stack(tensors: Any, dim: int = 0) -> Any:
    tensors = list(tensors)
    shapes = {t.array.shape for t in tensors}
    if len(shapes) != 1:
        raise RuntimeError(f"stack: needs tensors of one shape, got {sorted(shapes)}")
    dim = axis("stack", dim, tensors[0].array.ndim + 1)
    return cat([unsqueeze(t, dim) for t in tensors], dim)


def broadcast_to(x: Tensor, shape: tuple[int, ...]) -> Any:
    """Expand axes of size 1; -1 keeps a size."""
    before = x.array.shape
    extra = len(shape) - len(before)
    wanted = tuple(before[i - extra] if n == -1 and i >= extra else n for i, n in enumerate(shape))
    if extra < 0 or any(m not in (1, n) for m, n in zip(before, wanted[extra:], strict=False)):
        raise RuntimeError(f"expand: a tensor of shape {before} cannot be expanded to {shape}")
    return expand(x, shape=wanted)


def _cat_rule(g: Any, position: int, shapes: list[tuple[int, ...]], dim: int) -> Any:
    start = 0
    for shape in shapes[:position]:
        start += shape[dim] if len(shape) > dim else 0
    index = (slice(None),) * dim + (slice(start, start + shapes[position][dim]),)
    return getitem(g, index=index)


@primitive(tensors=_cat_rule)
def cat_(*tensors: np.ndarray, dim: int) -> np.ndarray:
    return np.concatenate(tensors, axis=dim)


def cat(tensors: Any, dim: int = 0) -> Any:
    tensors = list(tensors)
    if not tensors:
        raise RuntimeError("cat: needs at least one tensor, got an empty list")
    shapes = [t.array.shape for t in tensors]
    like = next((s for s in shapes if s != (0,)), shapes[0])
    dim = axis("cat", dim, len(like))
    tensors = [t for t in tensors if t.array.shape != (0,)] or tensors[:1]  # an empty 1-d tensor fits everywhere
    for t in tensors:
        shape = t.array.shape
        if len(shape) != len(like) or any(m != n for i, (m, n) in enumerate(zip(shape, like, strict=True)) if i != dim):
            raise RuntimeError(f"cat: sizes must agree in all dimensions but {dim}, got {shapes}")
    dtype = tensors[0].array.dtype
    for t in tensors:
        dtype = promote_types(dtype, t.array.dtype)
    return cat_(*[t if t.array.dtype == dtype else t.to(dtype) for t in tensors], dim=dim)
