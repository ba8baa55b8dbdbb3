"""Axes added, cut and turned; several tensors brought together; copies with a part replaced."""

from __future__ import annotations

import builtins
import itertools
from collections.abc import Callable, Sequence
from typing import Any, overload

import numpy as np

from tinygrad_tf.creation import arange
from tinygrad_tf.engine import expand, make
from tinygrad_tf.methods._tools import all_tensors, check_all
from tinygrad_tf.methods.composed import as_methods
from tinygrad_tf.ops import shape
from tinygrad_tf.tensor import Size, Tensor


def _at_least(n: int, tensors: tuple[Any, ...], widen: Any) -> Any:
    given = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)) else tensors
    all_tensors(f"atleast_{n}d", given)
    found = tuple(t if t.ndim >= n else widen(t) for t in given)
    return found[0] if len(found) == 1 and given is tensors else found


@overload
def atleast_1d(tensors: Tensor, /) -> Tensor: ...


@overload
def atleast_1d(*tensors: Any) -> tuple[Tensor, ...]: ...


def atleast_1d(*tensors: Any) -> Any:
    """Numbers as vectors of one element."""
    return _at_least(1, tensors, lambda t: t.reshape(1))


@overload
def atleast_2d(tensors: Tensor, /) -> Tensor: ...


@overload
def atleast_2d(*tensors: Any) -> tuple[Tensor, ...]: ...


def atleast_2d(*tensors: Any) -> Any:
    """Vectors as rows, numbers as (1, 1)."""
    return _at_least(2, tensors, lambda t: t.reshape(1, -1))


@overload
def atleast_3d(tensors: Tensor, /) -> Tensor: ...


@overload
def atleast_3d(*tensors: Any) -> tuple[Tensor, ...]: ...


def atleast_3d(*tensors: Any) -> Any:
    """Vectors as (1, n, 1), matrices as (m, n, 1)."""
    return _at_least(3, tensors, lambda t: t.unsqueeze(-1) if t.ndim == 2 else t.reshape(1, -1, 1))


def column_stack(tensors: Sequence[Tensor]) -> Tensor:
    """Side by side; vectors count as columns."""
    all_tensors("column_stack", tensors)
    return shape.cat([t.reshape(-1, 1) if t.ndim < 2 else t for t in tensors], 1)


def dstack(tensors: Sequence[Tensor]) -> Tensor:
    """One behind the other, along the third axis."""
    return shape.cat(list(atleast_3d(list(tensors))), 2)


def _equal_parts(name: str, input: Tensor, parts: Any, dim: int, least: int) -> None:
    """Refuse tensors of too few axes, and a number of parts that leaves a rest."""
    if input.ndim < least:
        raise RuntimeError(f"{name}: needs at least {least} dimension{'s' if least > 1 else ''}, got {input.ndim}")
    if isinstance(parts, int) and parts > 0 and input.size(dim) % parts:
        raise RuntimeError(f"{name}: dim {dim} of shape {tuple(input.shape)} has no {parts} equal parts; see chunk")


def hsplit(input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """Apart along the second axis, or the only one."""
    _equal_parts("hsplit", input, indices_or_sections, 0 if input.ndim == 1 else 1, 1)
    return input.tensor_split(indices_or_sections, 0 if input.ndim == 1 else 1)


def vsplit(input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """Apart along the first axis."""
    _equal_parts("vsplit", input, indices_or_sections, 0, 2)
    return input.tensor_split(indices_or_sections, 0)


def rot90(input: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """Turned k times by 90 degrees, from the first of both axes towards the second."""
    if len(dims) != 2 or input.ndim < 2:
        raise RuntimeError(f"rot90: needs two dims of a tensor that has as many, got dims {dims} of {input.ndim}")
    if (dims[0] - dims[1]) % input.ndim == 0:
        raise RuntimeError(f"rot90: needs two different dims, got {dims}")
    a, b = dims
    if k % 4 == 2:
        return input.flip((a, b))
    turned = input.flip((b,)).transpose(a, b) if k % 4 == 1 else input.transpose(a, b).flip((b,))
    return turned if k % 2 else input.clone()


def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    """The matrix with the flattened tensor on its diagonal."""
    return input.reshape(-1).diag_embed(offset)


def unravel_index(indices: Tensor, shape: Any) -> tuple[Tensor, ...]:
    """The indices along every axis of `shape` that numbers of elements stand for."""
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    return tuple(make(np.asarray(i)) for i in np.unravel_index(indices.array, sizes))


def range(start: float = 0, end: float | None = None, step: float = 1, **options: Any) -> Tensor:
    """As arange with `end` included; PyTorch advises against it."""
    start, end = (0, start) if end is None else (start, end)
    return arange(float(start), end + step / 2.0, step, **options)


def broadcast_shapes(*shapes: Any) -> Size:
    """The shape that all of them broadcast to."""
    return Size(
        shape.broadcast_shapes("broadcast_shapes", *(tuple(s) if not isinstance(s, int) else (s,) for s in shapes))
    )


def broadcast_tensors(*tensors: Tensor) -> tuple[Tensor, ...]:
    """All of them as views of their common shape."""
    all_tensors("broadcast_tensors", tensors)
    common = shape.broadcast_shapes("broadcast_tensors", *(t.array.shape for t in tensors))
    return tuple(expand(t, shape=common) for t in tensors)


def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Tensor, ...]:
    """Coordinates of a grid; 'ij': the first vector varies along the first axis, 'xy': along the second."""
    vectors = list(tensors[0]) if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else list(tensors)
    all_tensors("meshgrid", vectors)
    if any(v.array.ndim > 1 or v.dtype != vectors[0].dtype for v in vectors):
        got = ", ".join(f"{v.dtype} of shape {tuple(v.shape)}" for v in vectors)
        raise RuntimeError(f"meshgrid: needs vectors of one dtype, got {got}")
    if indexing not in ("ij", "xy"):
        raise RuntimeError(f"meshgrid: indexing must be 'ij' or 'xy', got {indexing!r}")
    turn = indexing == "xy" and len(vectors) > 1
    if turn:
        vectors[:2] = vectors[1::-1]
    n = len(vectors)
    sizes = tuple(v.array.size for v in vectors)
    grids = [
        expand(v.reshape([-1 if i == k else 1 for i in builtins.range(n)]), shape=sizes) for k, v in enumerate(vectors)
    ]
    if turn:
        grids[:2] = grids[1::-1]
    return tuple(grids)


def cartesian_prod(*tensors: Tensor) -> Tensor:
    """All combinations of one element of each vector, a row each."""
    if len(tensors) == 1:
        return tensors[0]
    return shape.stack([g.reshape(-1) for g in meshgrid(*tensors)], 1)


def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """All choices of r elements of a vector, a row each."""
    if input.ndim != 1 or r < 0:
        raise RuntimeError(f"combinations: needs a vector and r from 0 on, got shape {tuple(input.shape)} and r = {r}")
    if not r:
        return input.new_empty(0)
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    rows = np.array(list(choose(builtins.range(input.numel()), r)), np.int64).reshape(-1, r)
    return input[make(rows)]


def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """A copy of input with `src` in place of input.select(dim, index); gradients reach both.

    >>> from tinygrad_tf import ones
    >>> select_scatter(ones(2, 2), ones(2) * 5.0, dim=0, index=1)
    tensor([[1., 1.],
            [5., 5.]])
    """
    return _with_part("select_scatter", input, lambda x: x.select(dim, index), src)


def slice_scatter(
    input: Tensor, src: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    """A copy of input with `src` in place of the slice start:end:step of axis dim; gradients reach both."""
    return _with_part("slice_scatter", input, lambda x: x.movedim(dim, 0)[start:end:step].movedim(0, dim), src)


def diagonal_scatter(input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """A copy of input with `src` in place of input.diagonal(offset, dim1, dim2); gradients reach both."""
    return _with_part("diagonal_scatter", input, lambda x: x.diagonal(offset, dim1, dim2), src)


def _with_part(name: str, input: Tensor, part: Callable[[Tensor], Tensor], src: Tensor) -> Tensor:
    """A copy of input, in which `part` finds the view that src is written to."""
    changed = input.clone()
    place = part(changed)
    if place.shape != src.shape:
        raise RuntimeError(
            f"{name}: src must have the shape of what it replaces, {tuple(place.shape)}, got {tuple(src.shape)}"
        )
    place.copy_(src)
    return changed


# fmt: off
__all__ = [
    "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_shapes", "broadcast_tensors", "cartesian_prod",
    "column_stack", "combinations", "diagflat", "diagonal_scatter", "dstack", "hsplit", "meshgrid", "range",
    "rot90", "select_scatter", "slice_scatter", "unravel_index", "vsplit",
]
# fmt: on

check_all(__all__, globals())
as_methods(Tensor, "diagflat diagonal_scatter hsplit rot90 select_scatter slice_scatter vsplit", globals())
