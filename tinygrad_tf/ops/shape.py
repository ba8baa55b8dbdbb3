"""Operations that move elements without changing them. Those marked as views share memory with their input."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from tinygrad_tf import kernels
from tinygrad_tf._layout import in_order
from tinygrad_tf.engine import Tensor, cast, expand, make, mode, primitive
from tinygrad_tf.ops._cut import chunk as chunk
from tinygrad_tf.ops._cut import narrow as narrow
from tinygrad_tf.ops._cut import select as select
from tinygrad_tf.ops._cut import split as split
from tinygrad_tf.ops._cut import tensor_split as tensor_split
from tinygrad_tf.ops._cut import unbind as unbind
from tinygrad_tf.ops._types import axes, axis, promote_types, told
from tinygrad_tf.ops.index import getitem


@primitive(view=True, x=lambda g, shapes: reshape(g, shape=shapes[0]))
def reshape(x: np.ndarray, *, shape: tuple[int, ...]) -> np.ndarray:
    return x.reshape(shape)


unsqueezed, squeezed = reshape.twin("unsqueeze"), reshape.twin("squeeze")


def sizes_of(name: str, sizes: tuple[Any, ...]) -> tuple[int, ...]:
    """A shape given as view(2, 3) or view((2, 3)); the sizes may be 0-d tensors."""
    if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)):
        sizes = tuple(sizes[0])
    for n in sizes:
        if type(n) is not int:
            break
    else:
        return sizes
    try:
        return tuple([operator.index(n) for n in sizes])
    except TypeError:
        raise TypeError(f"{name}: sizes must be integers, got {told(sizes)}") from None


def resolve_shape(name: str, shape: tuple[int, ...], size: int) -> tuple[int, ...]:
    """Replace one -1 by what is left; an error that shows both sizes if the elements do not fit."""
    if math.prod(shape) == size and min(shape, default=0) >= 0:
        return shape
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
    if result.storage is not x.storage and x.array.size:
        raise RuntimeError(
            f"view: a tensor of shape {x.array.shape} whose memory is laid out with strides {x.array.strides} (it was "
            f"transposed or sliced) cannot be viewed as {shape}; use .reshape(...), or .contiguous().view(...)"
        )
    return result


def view_dtype(x: Tensor, dtype: np.dtype) -> Any:
    """The same bytes read as another dtype; no gradient passes."""
    try:
        return make(x.array.view(dtype), None, x.storage)
    except ValueError as error:
        raise RuntimeError(f"view: {x.array.dtype} of shape {x.array.shape} as {dtype}: {error}") from None


@primitive(view=True, x=lambda g, dims: permute(g, dims=_inverse(dims)))
def permute(x: np.ndarray, *, dims: tuple[int, ...]) -> np.ndarray:
    return x.transpose(dims)


@functools.lru_cache(1024)
def _inverse(dims: tuple[int, ...]) -> tuple[int, ...]:
    inverse = [0] * len(dims)
    for i, d in enumerate(dims):
        inverse[d] = i
    return tuple(inverse)


def permute_all(x: Tensor, dims: tuple[int, ...]) -> Any:
    if len(dims) != x.array.ndim:
        raise RuntimeError(f"permute: needs all {x.array.ndim} dimensions of shape {x.array.shape}, got {dims}")
    return permute(x, dims=axes("permute", dims, x.array.ndim))


turned, exchanged = permute.twin("t"), permute.twin("transpose")


def t(x: Tensor) -> Any:
    """The transpose of a matrix; a vector stays as it is."""
    if x.array.ndim > 2:
        raise RuntimeError(f"t: needs at most 2 dimensions, got {x.array.shape}; use .transpose(-2, -1)")
    return turned(x, dims=tuple(reversed(range(x.array.ndim))))


def matrix_transpose(x: Tensor) -> Any:
    if x.array.ndim < 2:
        raise RuntimeError(f"mT: needs at least 2 dimensions, got {x.array.shape}")
    return transpose(x, -2, -1)


def transpose(x: Tensor, dim0: int, dim1: int) -> Any:
    ndim = x.array.ndim
    a, b = axis("transpose", dim0, ndim), axis("transpose", dim1, ndim)
    return exchanged(x, dims=_exchanged(ndim, a, b) if ndim else ())


@functools.lru_cache(1024)
def _exchanged(ndim: int, a: int, b: int) -> tuple[int, ...]:
    dims = list(range(ndim))
    dims[a], dims[b] = b, a
    return tuple(dims)


@primitive(x=lambda g, dims: flip(g, dims=dims))
def flip(x: np.ndarray, *, dims: tuple[int, ...]) -> np.ndarray:
    return np.flip(x, dims).copy()


LARGE = 1 << 16  # elements; from here on several cores are faster than NumPy's one


@primitive(x=lambda g: g)
def contiguous(x: np.ndarray) -> np.ndarray:
    return np.array(x, order="C") if x.size < LARGE or mode.reference else kernels.elementwise.copied(x)


@primitive(x=lambda g: g)
def clone(x: np.ndarray) -> np.ndarray:
    large = x.size >= LARGE and x.flags.c_contiguous and not mode.reference
    return kernels.elementwise.copied(x) if large else x.copy(order="K")


def movedim(x: Tensor, source: int | Sequence[int], destination: int | Sequence[int]) -> Any:
    """Put the axes `source` at the places `destination`; the others keep their order."""
    ndim = x.array.ndim
    a = axes("movedim", source if isinstance(source, int) else list(source), ndim)
    b = axes("movedim", destination if isinstance(destination, int) else list(destination), ndim)
    if len(a) != len(b):
        raise RuntimeError(f"movedim: source {source} and destination {destination} must have the same length")
    dims = [d for d in range(ndim) if d not in a]
    for place, d in sorted(zip(b, a, strict=True)):
        dims.insert(place, d)
    return permute(x, dims=tuple(dims))


def unsqueeze(x: Tensor, dim: int) -> Any:
    shape = x.array.shape
    dim = axis("unsqueeze", dim, len(shape) + 1)
    return unsqueezed(x, shape=(*shape[:dim], 1, *shape[dim:]))


def squeeze(x: Tensor, dim: int | tuple[int, ...] | list[int] | None = None) -> Any:
    """Drop axes of size 1: all, or those named."""
    shape = x.array.shape
    dims = () if dim == () or dim == [] else axes("squeeze", dim, len(shape))
    return squeezed(x, shape=tuple(n for i, n in enumerate(shape) if n != 1 or i not in dims))


def flatten(x: Tensor, start_dim: int = 0, end_dim: int = -1) -> Any:
    shape = x.array.shape
    if not shape:
        return reshape(x, shape=(1,))
    first, last = axis("flatten", start_dim, len(shape)), axis("flatten", end_dim, len(shape))
    if first > last:
        raise RuntimeError(f"flatten: start_dim {start_dim} comes after end_dim {end_dim} for shape {shape}")
    if first == last:
        return x
    return reshape(x, shape=(*shape[:first], math.prod(shape[first : last + 1]), *shape[last + 1 :]))


def unflatten(x: Tensor, dim: int, sizes: tuple[int, ...]) -> Any:
    """Axis `dim` as several axes; one size may be -1."""
    shape, dim = x.array.shape, axis("unflatten", dim, x.array.ndim)
    if not shape:
        raise RuntimeError("unflatten: a 0-d tensor has no dimension to take apart")
    parts = resolve_shape("unflatten", sizes_of("unflatten", sizes), shape[dim])
    return reshape(x, shape=(*shape[:dim], *parts, *shape[dim + 1 :]))


def broadcast_to(x: Tensor, shape: tuple[int, ...]) -> Any:
    """Expand axes of size 1; -1 keeps a size."""
    before = x.array.shape
    extra, wanted = len(shape) - len(before), shape
    if shape and min(shape) < 0:
        if any(n < -1 or (n == -1 and i < extra) for i, n in enumerate(shape)):
            raise RuntimeError(
                f"expand: -1 keeps the size of an axis that is there, got {shape} for a tensor of shape {before}"
            )
        wanted = tuple([before[i - extra] if n == -1 else n for i, n in enumerate(shape)])
    fits = extra >= 0
    for m, n in zip(before, wanted[max(extra, 0) :], strict=False):
        fits &= m == n or m == 1
    if not fits:
        raise RuntimeError(f"expand: a tensor of shape {before} cannot be expanded to {shape}")
    return expand(x, shape=wanted)


def broadcast_shapes(name: str, *shapes: tuple[int, ...]) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise RuntimeError(f"{name}: shapes {', '.join(map(str, shapes))} do not broadcast") from None


# --- joining ----------------------------------------------------------------------------------------------------------


def _tensors(name: str, tensors: Any) -> list[Any]:
    """A list or tuple of tensors, and not an empty one."""
    if isinstance(tensors, Tensor) or not hasattr(tensors, "__iter__"):
        raise TypeError(f"{name}: needs a list or tuple of tensors, got {type(tensors).__name__}")
    found = list(tensors)
    for i, t in enumerate(found):
        if not isinstance(t, Tensor):
            raise TypeError(f"{name}: element {i} must be a tensor, got {type(t).__name__}")
    if not found:  # PyTorch's cat raises this, its stack that
        raise (ValueError if name == "cat" else RuntimeError)(f"{name}: needs at least one tensor, got an empty list")
    return found


@primitive(tensors=lambda g, position, dim: getitem(g, index=(*(slice(None),) * dim, position, ...)))
def stack_(*tensors: np.ndarray, dim: int) -> np.ndarray:
    new_axis = (*(slice(None),) * dim, None)
    return in_order(np.concatenate([t[new_axis] for t in tensors], axis=dim))


def stack(tensors: Any, dim: int = 0) -> Any:
    tensors = _tensors("stack", tensors)
    shapes = {t.array.shape for t in tensors}
    if len(shapes) != 1:
        raise RuntimeError(f"stack: needs tensors of one shape, got {sorted(shapes)}")
    return _joined(stack_, tensors, axis("stack", dim, tensors[0].array.ndim + 1), tensors)


def _cat_rule(g: Any, position: int, shapes: list[tuple[int, ...]], dim: int) -> Any:
    start = 0
    for shape in shapes[:position]:
        start += shape[dim] if len(shape) > dim else 0
    index = (slice(None),) * dim + (slice(start, start + shapes[position][dim]),)
    return getitem(g, index=index)


@primitive(tensors=_cat_rule)
def cat_(*tensors: np.ndarray, dim: int) -> np.ndarray:
    return in_order(np.concatenate(tensors, axis=dim))


def cat(tensors: Any, dim: int = 0) -> Any:
    tensors = _tensors("cat", tensors)
    shapes = [t.array.shape for t in tensors]
    like = next((s for s in shapes if s != (0,)), shapes[0])
    if not like:
        raise RuntimeError("cat: 0-d tensors cannot be joined; use stack")
    dim = axis("cat", dim, len(like))
    joined = [t for t in tensors if t.array.shape != (0,)] or tensors[:1]  # an empty 1-d tensor fits everywhere
    for t in joined:
        shape = t.array.shape
        if shape != like and (
            len(shape) != len(like) or shape[:dim] != like[:dim] or shape[dim + 1 :] != like[dim + 1 :]
        ):
            raise RuntimeError(f"cat: sizes must agree in all dimensions but {dim}, got {shapes}")
    return _joined(cat_, joined, dim, tensors)


def _joined(join: Any, tensors: list[Any], dim: int, given: list[Any]) -> Any:
    """Tensors that fit, joined in the dtype that all of those given can have."""
    dtypes = {t.array.dtype for t in given}
    if len(dtypes) > 1:
        dtype = functools.reduce(promote_types, [t.array.dtype for t in given])
        tensors = [t if t.array.dtype == dtype else cast(t, dtype=dtype) for t in tensors]
    return join(*tensors, dim=dim)


def hstack(tensors: Any) -> Any:
    """Side by side: along the second axis, or the only one."""
    tensors = [t if t.array.ndim else reshape(t, shape=(1,)) for t in _tensors("hstack", tensors)]
    return cat(tensors, 0 if tensors[0].array.ndim == 1 else 1)


def vstack(tensors: Any) -> Any:
    """On top of each other; vectors count as rows."""
    rows = [t if t.array.ndim > 1 else reshape(t, shape=(1, t.array.size)) for t in _tensors("vstack", tensors)]
    return cat(rows, 0)
