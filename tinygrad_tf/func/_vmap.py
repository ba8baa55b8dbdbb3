"""vmap: one function for many inputs, called slice by slice."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tinygrad_tf import random
from tinygrad_tf.autograd.differentiate import more_to_come
from tinygrad_tf.func._trees import filled, leaves_of
from tinygrad_tf.functions import stack
from tinygrad_tf.tensor import Tensor

Func = Callable[..., Any]


def vmap(
    func: Func, in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error", *, chunk_size: int | None = None
) -> Func:
    """The function for a batch: func is called with each slice of the arguments, and the results are stacked.

    in_dims: the axis of each argument that is sliced, None to pass it whole; a number for all, or a tree. out_dims: the
    axis of the results along which they are stacked. randomness: "error" forbids random numbers in func, "different"
    draws new ones for each slice, "same" the same ones. chunk_size changes nothing, as the slices come one by one.

    >>> import tinygrad_tf as tg
    >>> vmap(tg.dot)(tg.ones(3, 2), tg.arange(6.0).view(3, 2))
    tensor([1., 5., 9.])
    """
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(f"vmap: randomness must be 'error', 'different' or 'same', got {randomness!r}")

    @functools.wraps(func)
    def batched(*args: Any, **kwargs: Any) -> Any:
        tree = [*args, kwargs]
        axes = [*_spread(in_dims, list(args)), *([0] * len(leaves_of(kwargs)))]
        leaves = leaves_of(tree)
        size = _batch_size(leaves, axes)
        before, outs = random.get_rng_state(), []
        for i in range(size):
            parts = [x if axis is None else x.select(axis, i) for x, axis in zip(leaves, axes, strict=True)]
            *inputs, options = filled(tree, iter(parts))
            if randomness == "same":
                random.set_rng_state(before)
            outs.append(_called(func, inputs, options, i + 1 < size))
        if randomness == "error" and not np.array_equal(np.asarray(before), np.asarray(random.get_rng_state())):
            raise RuntimeError(
                "vmap: the function draws random numbers; say with randomness='different' or 'same' which it should get"
            )
        return _stacked(outs, out_dims)

    return batched


def _called(func: Func, inputs: list[Any], options: Any, more: bool) -> Any:
    """func for one slice; a graph from outside that it takes gradients of stays for the slices that follow."""
    token = more_to_come.set(more_to_come.get() or more)
    try:
        return func(*inputs, **options)
    finally:
        more_to_come.reset(token)


def _spread(dims: Any, tree: Any) -> list[Any]:
    """One axis for each leaf of the tree, from one for all or from a tree that is not as deep."""
    if dims is None or isinstance(dims, int):
        return [dims] * len(leaves_of(tree))
    parts = list(tree.values()) if isinstance(tree, Mapping) else tree
    given = [dims.get(key) for key in tree] if isinstance(dims, Mapping) and isinstance(tree, Mapping) else list(dims)
    if not isinstance(parts, (tuple, list)) or len(given) != len(parts):
        raise ValueError(f"vmap: in_dims must have an entry for each argument, got {dims!r}")
    return [axis for d, part in zip(given, parts, strict=True) for axis in _spread(d, part)]


def _batch_size(leaves: Sequence[Any], axes: Sequence[Any]) -> int:
    sizes = []
    for x, axis in zip(leaves, axes, strict=True):
        if axis is None:
            continue
        if not isinstance(x, Tensor):
            raise ValueError(f"vmap: in_dims has an axis for {type(x).__name__}, which is no tensor; give it None")
        if not -x.array.ndim <= axis < x.array.ndim:
            raise ValueError(f"vmap: in_dims has the axis {axis} for a tensor of shape {tuple(x.shape)}")
        sizes.append(x.size(axis))
    if not sizes:
        raise ValueError("vmap: in_dims must give an axis for at least one tensor")
    if min(sizes) != max(sizes) or not sizes[0]:
        raise ValueError(f"vmap: the sliced axes must have one and the same size, not 0, got {sizes}")
    return sizes[0]


def _stacked(outs: list[Any], out_dims: Any) -> Any:
    for leaf in (leaves := leaves_of(outs[0])):
        if not isinstance(leaf, Tensor):
            raise ValueError(f"vmap: the function must return tensors, got {type(leaf).__name__}")
    dims = [out_dims] * len(leaves) if isinstance(out_dims, int) else leaves_of(out_dims)
    if len(dims) != len(leaves):
        raise ValueError(f"vmap: out_dims must have {len(leaves)} entries, got {out_dims!r}")
    columns = zip(*[leaves_of(out) for out in outs], strict=True)
    return filled(outs[0], iter([stack(c, d) for c, d in zip(columns, dims, strict=True)]))
