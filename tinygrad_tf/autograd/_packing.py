"""Saved tensors in the keeping of hooks (grad_fn.py says what users see of it).

While hooks are on, operations record Nodes that hand every array which they are to save to `pack`, and keep what that
returns. Whoever goes over what a Node saved gets the arrays of what `unpack` makes of it. Nothing else knows of it.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from tinygrad_tf.autograd._recording import PlainNode, record_with
from tinygrad_tf.engine import Node, Storage, Tensor, Watched, clock, current_node, make, recording
from tinygrad_tf.grad_fn import GradFn
from tinygrad_tf.graph import Saved


class Hooks(NamedTuple):
    pack: Callable[[Any], Any]
    unpack: Callable[[Any], Any]


class State(threading.local):
    """The hooks of each thread, the innermost last (None: there are to be none), and why there may be none, if so."""

    stack: tuple[Hooks | None, ...] = ()
    refusal: str | None = None

    def innermost(self) -> Hooks | None:
        return self.stack[-1] if self.stack else None


state = State()
_lock = threading.Lock()
_open = 0  # how many pairs of hooks are on, in all threads


def enter(hooks: Hooks | None) -> None:
    """From now on, in this thread, these hooks; None: none."""
    global _open
    state.stack = (*state.stack, hooks)
    with _lock:
        _open += 1
        record_with(PackingNode, True)


def leave() -> None:
    """The hooks before the last that were entered."""
    global _open
    state.stack = state.stack[:-1]
    with _lock:
        _open -= 1
        record_with(PackingNode, _open > 0)


class Packed:
    """What `pack` made of an array."""

    def __init__(self, hooks: Hooks, tensor: Tensor):
        array, changed = tensor.array, tensor.storage.changed
        self.unpack, self.shape, self.dtype, self.original = hooks.unpack, array.shape, array.dtype, weakref.ref(array)
        with recording(False):
            self.kept = hooks.pack(tensor)
        if tensor.storage.changed != changed:
            raise RuntimeError("saved_tensors_hooks: pack changed its tensor in place; change a copy (.clone())")

    def array(self) -> np.ndarray:
        tensor = self.unpack(self.kept)
        if not isinstance(tensor, Tensor):
            raise TypeError(f"saved_tensors_hooks: unpack must return a tensor, got {type(tensor).__name__}")
        if tensor.array.shape != self.shape or tensor.array.dtype != self.dtype:
            raise RuntimeError(
                f"saved_tensors_hooks: unpack must return what was packed, of shape {self.shape} and {self.dtype}, "
                f"got shape {tensor.array.shape} and {tensor.array.dtype}"
            )
        return tensor.array


def with_parts(value: Any, parts: list[Any]) -> Any:
    """A tuple or list like `value` of other parts."""
    if isinstance(value, Watched):
        found = Watched(parts)
        found.storages = value.storages
        return found
    return value._make(parts) if hasattr(value, "_make") else type(value)(parts)


def packed(value: Any, hooks: Hooks, shown: Callable[[Any], Tensor]) -> Any:
    """`value` with every array in it, in tuples and lists, too, packed. shown: what pack is to see of an array."""
    if isinstance(value, np.ndarray):
        return Packed(hooks, shown(value))
    if isinstance(value, (tuple, list)):
        return with_parts(value, [packed(part, hooks, make) for part in value])
    return value


def unpacked(value: Any, storages: list[bool]) -> Any:
    """What was packed. storages gets for each array whether it is the very one that was there."""
    if isinstance(value, Packed):
        array = value.array()
        storages.append(array is value.original())
        return array
    if isinstance(value, (tuple, list)):
        return with_parts(value, [unpacked(part, storages) for part in value])
    return value


class PackedItems:
    """What a Node, or the context of a Function, saved, packed: going over it unpacks.

    Memory that came from elsewhere gets a Storage of its own: what is done to the old one does not concern it.
    """

    def __init__(self, saved: list[Saved], hooks: Hooks):
        self.items: list[Saved] = []
        for i, (name, value, storage, edge) in enumerate(saved):
            again = next((k for k in range(i) if saved[k][1] is value and type(value) is Watched), None)
            if again is None:
                value = packed(value, hooks, functools.partial(_shown, storage, edge))
            else:
                value = self.items[again][1]
            self.items.append((name, value, storage, edge))

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Saved]:
        for name, kept, storage, edge in self.items:
            same: list[bool] = []
            value = unpacked(kept, same)
            yield name, value, storage if storage is None or all(same) else Storage(), edge


class PackedTriples(PackedItems):
    """The same as a context keeps it: without names."""

    def __iter__(self) -> Iterator[Any]:
        return (item[1:] for item in super().__iter__())


def _shown(storage: Storage | None, edge: Any, array: np.ndarray) -> Tensor:
    """What pack sees: a leaf itself, an input with its Node, a result without: its Node will hold what pack returns."""
    if not isinstance(edge, Node):
        return make(array, None, storage)
    owner = edge.owner() if edge.operation is None and edge.owner is not None else None
    return owner if owner is not None and owner.array is array else make(array, edge, storage)


_slot: Any = PlainNode.saved  # type: ignore[misc]


class PackingNode(PlainNode):
    """A Node whose saved arrays go to the hooks of the thread that records it."""

    __slots__ = ()

    @property
    def saved(self) -> Any:
        return _slot.__get__(self)

    @saved.setter
    def saved(self, value: Any) -> None:
        hooks = state.innermost()
        if hooks is not None and type(value) is list and _slot.__get__(self) is None:
            value = PackedItems(value, hooks)
            arrays = {name for name, *_ in value.items} & self.options.keys()
            if arrays:  # the options hold them, too
                self.options = {**self.options, **dict.fromkeys(arrays)}
        _slot.__set__(self, value)


class SavedTensor:
    """One array that a Node saved, under its name with _raw_saved_ before it: hooks can be given to it alone."""

    def __init__(self, node: Node, name: str):
        self.node, self.name = node, name
        if name not in [item[0] for item in self.items()]:
            raise AttributeError(f"{node.kind} did not keep {name!r} for its gradient")

    def items(self) -> list[Saved]:
        saved: Any = self.node.saved
        if saved is None:
            raise RuntimeError(f"the graph of {self.node.kind} was released by an earlier backward")
        found: list[Saved] = saved.items if isinstance(saved, PackedItems) else saved
        return found

    def register_hooks(self, pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]) -> None:
        """Keep it as pack_hook returns it, until unpack_hook makes it a tensor; see saved_tensors_hooks."""
        hooks, packed_items = Hooks(pack_hook, unpack_hook), PackedItems([], Hooks(pack_hook, unpack_hook))
        for name, value, storage, edge in self.items():
            if name == self.name and isinstance(value, Packed):
                raise RuntimeError(f"register_hooks: {name} of {self.node.kind} has hooks already")
            if name == self.name:
                value = packed(value, hooks, functools.partial(_shown, storage, edge))
            packed_items.items.append((name, value, storage, edge))
        self.node.saved = packed_items  # type: ignore[assignment]


def _saved_tensor(self: Node, name: str) -> SavedTensor:
    return SavedTensor(self, name)


GradFn.saved_tensor = _saved_tensor


def kept_of_context(saved: list[Any]) -> Any:
    """What the context of a Function saved, in the keeping of the hooks that are on."""
    hooks = state.innermost()
    return saved if hooks is None else PackedTriples([("", *item) for item in saved], hooks)


# --- checkpoints ------------------------------------------------------------------------------------------------------


@contextmanager
def suspended() -> Iterator[None]:
    """No hooks: what is recorded inside will be computed again, not kept."""
    if state.innermost() is None:
        yield
        return
    enter(None)
    try:
        yield
    finally:
        leave()


class HeldTensor:
    """A tensor in the keeping of hooks."""

    def __init__(self, hooks: Hooks, tensor: Tensor):
        self.node, self.packed = current_node(tensor), Packed(hooks, tensor)
        self.storage, self.since = tensor.storage, next(clock)

    def tensor(self) -> Tensor:
        array = self.packed.array()
        if array is self.packed.original() and self.storage.changed > self.since:
            raise RuntimeError(
                f"checkpoint: an argument of shape {array.shape} was changed in place before the backward pass, where "
                "the hooks on saved tensors had left it; change a copy (.clone())"
            )
        return make(array, self.node)


def held(value: Any, hooks: Hooks) -> Any:
    """`value` with every tensor in it packed."""
    if isinstance(value, Tensor):
        return HeldTensor(hooks, value)
    if isinstance(value, dict):
        return {name: held(part, hooks) for name, part in value.items()}
    return with_parts(value, [held(part, hooks) for part in value]) if isinstance(value, (tuple, list)) else value


def released(value: Any) -> Any:
    """What `held` was given."""
    if isinstance(value, HeldTensor):
        return value.tensor()
    if isinstance(value, dict):
        return {name: released(part) for name, part in value.items()}
    return with_parts(value, [released(part) for part in value]) if isinstance(value, (tuple, list)) else value
