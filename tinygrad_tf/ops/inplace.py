"""Changing a tensor in place, with gradients: what PyTorch does for `x.mul_(y)`, `x[i] = y` and writes through views.

The tensor keeps its memory and takes over the graph of the new value. Whoever saved the old value is told by the clock
when it asks for it. After a write through a view, the base has a new Node in which the written part comes from the
written value; other views of that base are taken again when they are used next (`engine.current_node`).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinygrad_tf.engine import Storage, Tensor, computed, current_node, hand_over, make, mode, primitive
from tinygrad_tf.graph import NoWayBack
from tinygrad_tf.ops._types import category, fitting
from tinygrad_tf.ops.index import assign, getitem, mixes, normal_index, split_index
from tinygrad_tf.ops.shape import reshape


def write(name: str, target: Any, operation: Any, *inputs: Any, **options: Any) -> Any:
    """Put operation(target, *inputs) into target's memory; returns target."""
    recording = mode.grad and any(isinstance(x, Tensor) and current_node(x) is not None for x in (target, *inputs))
    check_writable(name, target, recording)
    old = make(target.array.copy(), target.node) if recording else target
    result = operation(old, *inputs, **options)
    value = result.array if isinstance(result, Tensor) else np.asarray(result)
    if value.shape != target.array.shape:
        raise RuntimeError(
            f"{name}: the result of shape {value.shape} does not fit in place into shape {target.array.shape}"
        )
    if category(value.dtype) > category(target.array.dtype):
        raise RuntimeError(
            f"{name}: the result of dtype {value.dtype} cannot be written into {target.array.dtype}; use {name[:-1]}"
        )
    computed(target.array.__setitem__, (..., value), {})
    adopt(target, result if recording and category(target.array.dtype) == 2 else None)
    return target


def check_writable(name: str, target: Tensor, recording: bool) -> None:
    """Refuse to change a leaf (or a view of one) whose gradient is wanted, and memory that several elements share.

    Assigning (as fill_ and copy_ do) may meet windows that overlap: the last value stays. What is computed from the
    elements would depend on their order, and so would gradients.
    """
    if target.storage.of_inference and not mode.inference:
        raise RuntimeError(f"{name}: a tensor made in inference mode can be changed in place there alone; use .clone()")
    flags = target.array.flags
    if not (flags.writeable and flags.c_contiguous):
        why = _why_not_written(target.array, recording or name != "setitem_")
        if why is not None:
            raise RuntimeError(f"{name}: {why}; use .clone() first")
    if mode.grad and target.view_of is not None and target.view_of[0].node is not None:
        first = target.view_of[1][0][0]
        if type(first) is NoWayBack:
            raise RuntimeError(f"{name}: {first.what} cannot be changed in place; {first.instead}")
    if not recording:
        return
    root = target if target.view_of is None else target.view_of[0]
    if root.node is not None and root.node.operation is None:
        what = "a leaf that requires a gradient" if root is target else "a view of a leaf that requires a gradient"
        raise RuntimeError(f"{name}: {what} cannot be changed in place; use no_grad(), or the out-of-place {name[:-1]}")


def _why_not_written(array: np.ndarray, each_once: bool) -> str | None:
    """What is wrong with memory that is to be written to. each_once: no two elements may share it."""
    if any(step == 0 and n > 1 for n, step in zip(array.shape, array.strides, strict=True)):
        return "several elements of this expanded tensor share memory"
    if not array.flags.writeable:
        root = array
        while isinstance(root.base, np.ndarray):
            root = root.base
        if root.flags.writeable:
            return "this is a read-only view of an array that can be written to"
        return "this tensor lies in the memory of a read-only array or buffer"
    if each_once and overlaps(array):
        return "elements of this tensor share memory, as those of overlapping windows do (unfold, as_strided)"
    return None


def overlaps(array: np.ndarray) -> bool:
    """Whether two elements share memory. They do not if each axis, the smallest first, steps over all those before it;
    where one does not, the places are counted."""
    axes = sorted((abs(step), n) for n, step in zip(array.shape, array.strides, strict=True) if n > 1)
    end, places = array.itemsize, np.zeros(1, np.int64)
    clear = True
    for step, n in axes:
        clear &= step >= end
        end += step * (n - 1)
    if clear or not array.size:
        return False
    for step, n in axes:
        places = np.add.outer(places, np.arange(n) * step).reshape(-1)
    return np.unique(places).size < places.size


def adopt(target: Tensor, result: Tensor | None) -> None:
    """Stamp the memory as changed; with a result, make its graph the target's (and that of the base of a view)."""
    target.storage.written()
    if result is None:
        return
    if target.view_of is None:
        hand_over(target.node, result.node)
        target.node = result.node
        return
    base, path = target.view_of
    order = tuple(int(i) for i in np.argsort([-abs(s) for s in base.array.strides], kind="stable"))
    before = make(base.array, base.node, base.storage)
    written = _put_view(before, result, path=path, order=order).node
    hand_over(base.node, written)
    base.node = written


def set_item(target: Any, key: Any, value: Any) -> None:
    """target[key] = value."""
    key = normal_index("setitem", key, target.array.shape)
    try:
        if mixes(key):
            first, second = split_index(key)
            _set(getitem(target, index=first), second, value)
        elif 0 in target.array.strides and np.may_share_memory(target.array[key], target.array):
            _set(getitem(target, index=key), (...,), value)  # where elements share memory, a part may be clear of it
        else:
            _set(target, key, value)
    except (IndexError, ValueError, TypeError) as error:
        if isinstance(error, TypeError) and not isinstance(value, Tensor):
            raise
        kind = IndexError if isinstance(error, IndexError) else RuntimeError
        raise kind(f"setitem: {error} (the tensor has shape {target.array.shape})") from None


def _fitting_axes(value: Tensor, region: np.ndarray) -> Any:
    """The value without the axes of size 1 in front that the region it goes to does not have."""
    more = value.array.ndim - region.ndim
    return getitem(value, index=(0,) * more) if more > 0 and value.array.shape[:more] == (1,) * more else value


def _set(target: Any, key: Any, value: Any) -> None:
    if isinstance(value, Tensor) and value.array.shape[:1] == (1,):
        value = _fitting_axes(value, target.array[key])
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        kind = target.array.dtype
        if category(kind) < 2 or kind.itemsize > 2:  # among 16-bit floats PyTorch lets it become inf here
            value = fitting("setitem", value, kind)
    inputs = (target, value) if isinstance(value, Tensor) else (target,)
    if isinstance(value, Tensor) and value.array.dtype != target.array.dtype:
        _check_cast(value.array, target.array.dtype, key)
    if mode.grad and any(current_node(x) is not None for x in inputs):
        write("setitem_", target, assign, value, index=key)
        return
    check_writable("setitem_", target, False)
    computed(target.array.__setitem__, (key, value.array if isinstance(value, Tensor) else value), {})
    adopt(target, None)


def _check_cast(value: np.ndarray, dtype: np.dtype, key: tuple[Any, ...]) -> None:
    """A slice, or a mask for one number, takes other dtypes; what lies at index arrays has to have the tensor's own."""
    arrays = [p for p in key if isinstance(p, np.ndarray)]
    if arrays and (value.size > 1 or any(p.dtype != bool for p in arrays)):
        raise RuntimeError(f"setitem: values at index tensors must have dtype {dtype}, got {value.dtype}; use .to()")


def become(target: Any, turn: Any) -> Any:
    """Make the tensor its own view: `target.unsqueeze_(0)` is the same memory with another shape."""
    if target.node is not None and target.node.operation is None:
        raise RuntimeError("a leaf that requires a gradient cannot change its shape in place; use the form without _")
    before = make(target.array, target.node, target.storage, target.view_of)
    after = turn(before)
    target.array, target.node, target.view_of = after.array, after.node, after.view_of
    return target


def resize(target: Any, sizes: tuple[int, ...]) -> Any:
    """Make the tensor one of these sizes, of as many of its elements as there are."""
    if current_node(target) is not None:
        raise RuntimeError("resize_: a tensor with a graph cannot be resized; use reshape, or detach() it first")
    if min(sizes, default=0) < 0 or not target.array.flags.c_contiguous:
        wanted = f"sizes from 0 on, got {sizes}" if min(sizes, default=0) < 0 else "a contiguous tensor"
        raise RuntimeError(f"resize_: needs {wanted}; reshape works with others, too")
    count, size = math.prod(sizes), target.array.size
    if count <= size:
        first = (slice(0, count),)
        return become(target, lambda x: reshape(getitem(reshape(x, shape=(size,)), index=first), shape=sizes))
    more = np.zeros(count - size, target.array.dtype)
    target.array, target.view_of = np.concatenate([target.array.reshape(-1), more]).reshape(sizes), None
    target.storage = Storage()
    return target


def _follow(x: Any, path: Any) -> Any:
    """The view of x that the operations of `path` take."""
    for operation, options in path:
        x = operation(x, **options)
    return x


@primitive(
    base=lambda g, path, order: _erase(g, path=path, order=order),
    value=lambda g, path: _follow(g, path),
)
def _put_view(base: np.ndarray, value: np.ndarray, *, path: Any, order: tuple[int, ...]) -> np.ndarray:
    return base  # the value was already written


@primitive(g=lambda h, path, order: _erase(h, path=path, order=order))
def _erase(g: np.ndarray, *, path: Any, order: tuple[int, ...]) -> np.ndarray:
    """g with zeros where the view goes; laid out like the base, so that following the path copies nothing."""
    memory = np.empty([g.shape[i] for i in order], g.dtype)
    copy = memory.transpose(np.argsort(order))
    copy[...] = g
    _follow(copy, path)[...] = 0
    return copy
