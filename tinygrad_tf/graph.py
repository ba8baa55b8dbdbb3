"""What is recorded on the way forward: tensors, and the Nodes that made them.

A Tensor points at the Node that made it. A Node points at the Nodes of its inputs (its edges), never at their arrays;
what a gradient rule needs of the forward pass is saved by name. operation.py makes Nodes, engine.py walks over them.

One clock counts the Nodes recorded and the in-place changes made. A saved array whose memory was written to after its
Node was recorded is noticed when a rule asks for it; so are options that hold arrays: indices, targets, class weights.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

clock = itertools.count(1)
new_object = object.__new__


class Mode(threading.local):
    """What each thread has switched on: recording for gradients, fused operations' references, inference mode."""

    grad = True
    reference = False
    inference = False


mode = Mode()


@contextmanager
def use_reference(on: bool = True) -> Iterator[None]:
    """Run every fused operation by its plain reference instead of its kernels (to read, step through, compare)."""
    before, mode.reference = mode.reference, on
    try:
        yield
    finally:
        mode.reference = before


class recording:
    """`with recording(on):` operations are recorded for gradients, or not."""

    __slots__ = ("before", "on")

    def __init__(self, on: bool):
        self.on = on

    def __enter__(self) -> None:
        self.before, mode.grad = mode.grad, self.on

    def __exit__(self, *_: Any) -> None:
        mode.grad = self.before


class Storage:
    """The memory behind a tensor and its views: the time at which it was last written to, and how often it was."""

    changed = 0  # of the class until it is written to: most never are, and there is one for each result
    version = 0
    of_inference = False

    def written(self) -> None:
        """Note that the memory was changed in place, now."""
        self.changed = next(clock)
        self.version += 1

    def __call__(self) -> Any:
        """What PyTorch's old x.storage() is told."""
        raise TypeError(
            "x.storage() is not here: x.flatten().tolist() gives its numbers, x.untyped_storage().data_ptr() its place"
        )


class OfInference(Storage):
    """Memory that was made in inference mode."""

    of_inference = True


class Watched(tuple[Any, ...]):
    """An option made of several things, as an index is, some of which are arrays in the memory of `storages`.

    once: of an index, whether it is known to mean no element twice.
    """

    storages: tuple[Storage, ...] = ()
    once = False


def watched(parts: Iterable[Any], tensors: Iterable[Tensor]) -> Watched:
    """The parts, some of which are arrays in the memory of the tensors, as an option for an operation."""
    found = Watched(parts)
    found.storages = tuple([t.storage for t in tensors])
    return found


class Node:
    """One recorded operation, or (without an operation) a leaf.

    edges: the Nodes of the inputs, None where no gradient is wanted. shape and dtype are those of the result.
    saved: (name, array, storage, edge) of what the rules need; None once it was released.
    owner: a weak reference to the tensor whose `.grad` is written: a leaf, or one that asked to retain it.
    metadata: what users note of it. They see a Node as a GradFn (grad_fn.py), which has PyTorch's names.
    """

    __slots__ = (
        "__weakref__",
        "age",
        "dtype",
        "edges",
        "hooks",
        "metadata",
        "operation",
        "options",
        "owner",
        "saved",
        "shape",
    )
    metadata: dict[str, Any]

    def __init__(self, operation: Any, edges: Sequence[Node | None], options: dict[str, Any], value: np.ndarray):
        self.operation, self.edges, self.options = operation, edges, options
        self.shape, self.dtype = value.shape, value.dtype
        self.saved: list[Saved] | None = None
        self.hooks: dict[int, Callable[[Any], Any]] | None = None
        self.owner: weakref.ref[Tensor] | None = None
        self.age = next(clock)

    @property
    def kind(self) -> str:
        """The operation, as `mul`, or `leaf`."""
        return self.operation.name if self.operation is not None else "leaf"


class Tensor:
    """The bare tensor: an array, the Node that made it, its gradient. tensor.py gives it operators and methods.

    _grad: what users read and set as `.grad`, where it is checked.
    view_of: None, or the tensor whose memory this one shares, with the operations that lead from there to here.
    """

    __slots__ = ("__weakref__", "_grad", "array", "node", "storage", "view_of")
    array: np.ndarray
    node: Node | None
    _grad: Any
    storage: Storage
    view_of: View | None

    def __init_subclass__(cls, results: bool = False) -> None:
        """`class Tensor(engine.Tensor, results=True)` is the class that all operations return."""
        global tensor_class
        if results:
            tensor_class = cls


Saved = tuple[str, Any, "Storage | None", "Node | None"]
View = tuple[Tensor, tuple[tuple[Any, dict[str, Any]], ...]]
tensor_class: type[Tensor] = Tensor


def make(
    array: np.ndarray, node: Node | None = None, storage: Storage | None = None, view_of: View | None = None
) -> Any:
    """A tensor of the user's class around an array, with no checks."""
    t = new_object(tensor_class)
    t.array, t.node, t._grad = array, node, None  # for more than three at once Python makes a tuple
    t.storage, t.view_of = storage or Storage(), view_of
    return t


def leaf(t: Tensor) -> None:
    """Make `t` a leaf that gathers a gradient."""
    if t.array.dtype.kind not in "fV":  # V: the bfloat16 of ml_dtypes
        raise RuntimeError(f"only tensors of floating point dtype can require gradients, got {t.array.dtype}")
    t.node, t.view_of = Node(None, (), {}, t.array), None
    t.node.owner = weakref.ref(t)


class NoWayBack:
    """First on the path of a view that may be read but not written to: a gradient cannot follow it to the base."""

    def __init__(self, what: str, instead: str):
        self.what, self.instead = what, instead

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError(f"{self.what} lies in memory that was changed in place since; {self.instead}")


of_no_grad = NoWayBack(
    "a view that was taken under no_grad, of a tensor that requires a gradient,",
    "take the view where gradients are recorded, or change it under no_grad, too",
)
of_function = NoWayBack(
    "what a Function returned of its input's memory", "return a copy of it from forward (.clone()), or change a copy"
)


def current_node(t: Tensor) -> Node | None:
    """The Node of `t`; a view whose base was written to since it was taken is taken again from the base."""
    if t.view_of is None:
        return t.node
    if t.view_of[0].view_of is not None:  # the base has changed its shape in place; what it was has the old one still
        t.view_of = t.view_of[0].view_of[0], t.view_of[1]
    again, operations = t.view_of
    if again.node is None:
        return t.node
    if type(operations[0][0]) is NoWayBack:
        if t.node is not None and again.node.age > t.node.age:
            operations[0][0]()
        return t.node
    base_got_a_graph = t.node is None and again.node.operation is not None
    base_was_written_to = t.node is not None and t.storage.changed > t.node.age
    if base_got_a_graph or base_was_written_to:
        with recording(True):
            for operation, options in operations:
                again = operation(again, **options)
        assert again.node is not None
        hand_over(t.node, again.node)
        t.node = again.node
    return t.node


def hand_over(before: Node | None, after: Node | None) -> None:
    """A tensor that asked to retain its gradient means that of the value which it has now."""
    if before is not None and after is not None and before.operation is not None and after is not before:
        after.owner, before.owner = before.owner, None
