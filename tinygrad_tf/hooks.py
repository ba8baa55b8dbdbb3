"""What users hang onto gradients: hooks that see and replace them on the way, and `.grad`, kept or set by hand.

What comes from users is checked here, so that no walk goes on with a gradient of another shape or dtype.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any

import numpy as np

from tinygrad_tf.graph import Node, Tensor, clock, current_node, make


def check_gradient(name: str, gradient: Any, shape: tuple[int, ...], dtype: np.dtype) -> None:
    """Refuse what cannot be the gradient of a tensor of this shape and dtype."""
    if not isinstance(gradient, Tensor):
        raise TypeError(f"{name} must be a tensor or None, got {type(gradient).__name__}")
    array = gradient.array
    if array.shape != shape:
        raise RuntimeError(f"{name} must have the shape of its tensor, {shape}, got {array.shape}")
    if array.dtype != dtype:
        raise RuntimeError(f"{name} must have the dtype of its tensor, {dtype}, got {array.dtype}; use .to(dtype)")


def nodes_of(name: str, inputs: Sequence[Tensor]) -> list[Node]:
    """The Nodes of tensors that a gradient is asked for."""
    nodes = []
    for i, t in enumerate(inputs):
        node = current_node(t)
        if node is None:
            raise RuntimeError(f"input {i} of {name} does not require a gradient; set requires_grad first")
        nodes.append(node)
    return nodes


def starting_gradient(root: Tensor, gradient: Any) -> Tensor:
    """The gradient that a walk starts with: the one given, or 1 for a scalar."""
    if current_node(root) is None:
        raise RuntimeError("backward of a tensor that does not require a gradient: none of its inputs does")
    if gradient is None:
        if root.array.size != 1:
            raise RuntimeError(f"backward of a tensor of shape {root.array.shape} needs a gradient of that shape")
        found: Tensor = make(np.ones_like(root.array))
        return found
    if not isinstance(gradient, Tensor):
        raise TypeError(f"backward: gradient must be a tensor or None, got {type(gradient).__name__}")
    if gradient.array.shape != root.array.shape:
        raise RuntimeError(f"gradient must have the output's shape {root.array.shape}, got {gradient.array.shape}")
    return gradient


class Way:
    """The way of one walk: from the Nodes that it starts at back to its targets (None: to all leaves).

    needed: the Nodes on the way to the targets, each with its edges, None for those that lead to none; not looked for
    if there are no targets. `with way:` says that the walk is under way in this thread.
    """

    def __init__(self, targets: set[Node] | None, queue: list[tuple[int, Node]], starts: Iterable[Node | None]):
        self.targets, self.queue = targets, queue
        self.needed = None if targets is None else _leading(targets, starts)
        self.all: set[Node] | None = None
        self.noted: dict[Any, Any] = {}  # what hooks of several tensors have seen of this walk

    def ahead(self, node: Node) -> Collection[Node]:
        """The Nodes on the way from this one on, which the walk is at; those before were looked for then."""
        if self.needed is not None:
            return self.needed
        if self.all is None:
            self.all = _behind([node, *[other for _, other in self.queue]], 0)
        return self.all

    def __enter__(self) -> None:
        self.before, under_way.way = under_way.way, self

    def __exit__(self, *_: Any) -> None:
        under_way.way = self.before


def _behind(starts: Iterable[Node | None], oldest: int) -> set[Node]:
    """These Nodes, and all that they were made of, but for those that are older."""
    found = {node for node in starts if node is not None}
    stack = list(found)
    while stack:
        for edge in stack.pop().edges:
            if edge is not None and edge not in found and edge.age >= oldest:
                found.add(edge)
                stack.append(edge)
    return found


def _leading(targets: set[Node], starts: Iterable[Node | None]) -> dict[Node, Sequence[Node | None]]:
    """The Nodes on all ways from the starts to the targets, each with its edges that lead there, and None for others.

    Those that an earlier walk has released, and taken the edges of, are among them: their error is to be seen.
    """
    needed: dict[Node, Sequence[Node | None]] = {}
    oldest = min([node.age for node in targets], default=0)
    for node in sorted(_behind(starts, oldest), key=attrgetter("age")):  # the inputs of a Node are older than it is
        edges, leads, strays = node.edges, False, False
        for edge in edges:
            if edge in needed:
                leads = True
            elif edge is not None:
                strays = True
        if leads:
            needed[node] = [edge if edge in needed else None for edge in edges] if strays else edges
        elif node in targets:
            needed[node] = ()
        elif node.operation is not None and not strays:
            needed[node] = edges
    return needed


class UnderWay(threading.local):
    """The innermost walk that is under way in this thread."""

    way: Way | None = None


under_way = UnderWay()


class RemovableHandle:
    """Removes the hook that it stands for; in a `with` statement at the end of the block."""

    def __init__(self, hooks: dict[int, Any], key: int):
        self.hooks, self.key = hooks, key

    def remove(self) -> None:
        self.hooks.pop(self.key, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *_: Any) -> None:
        self.remove()


def put_hook(hooks: dict[int, Any], hook: Any, prepend: bool = False) -> RemovableHandle:
    """Put a hook behind the others, or before them."""
    others, key = list(hooks), next(clock)
    hooks[key] = hook
    if prepend:
        hooks.update([(other, hooks.pop(other)) for other in others])
    return RemovableHandle(hooks, key)


def add_hook(t: Tensor, hook: Callable[[Any], Any]) -> RemovableHandle:
    node = current_node(t)
    if node is None:
        raise RuntimeError("register_hook: this tensor does not require a gradient")
    node.hooks = node.hooks or {}
    return put_hook(node.hooks, hook)


after_adding: weakref.WeakKeyDictionary[Node, dict[int, Callable[[Any, Any], Any]]] = weakref.WeakKeyDictionary()


def add_hook_after(t: Tensor, hook: Callable[[Any], Any]) -> RemovableHandle:
    """A hook that is given the leaf itself, when a backward pass has added to its `.grad`."""
    node = current_node(t)
    if node is None or node.operation is not None:
        raise RuntimeError("register_post_accumulate_grad_hook: only a leaf that requires a gradient gathers one")

    def run(leaf: Any, gradient: Any) -> None:
        if hook(leaf) is not None:
            raise RuntimeError("a hook of register_post_accumulate_grad_hook must return None; it may set t.grad")

    return put_hook(after_adding.setdefault(node, {}), run)


def run_hooks_after(found: Mapping[Node, Any]) -> None:
    """Call the hooks of the leaves whose `.grad` was added to, with the leaf and with what was added."""
    for node, gradient in list(found.items()) if after_adding else ():
        t = node.owner() if node.owner is not None else None
        for hook in list(after_adding.get(node, {}).values()) if t is not None else ():
            hook(t, gradient)


def memory_to_change(g: np.ndarray) -> np.ndarray:
    """A hook may write into its gradient: what was broadcast is copied."""
    return g if g.flags.writeable and 0 not in g.strides else g.copy()


def run_hooks(node: Node, g: Tensor) -> Tensor:
    """Let the hooks see the complete gradient of a tensor, and replace it by what they return."""
    g.array = memory_to_change(g.array)
    for hook in list((node.hooks or {}).values()):
        replaced = hook(g)
        if replaced is not None:
            check_gradient("the gradient that a hook returns", replaced, node.shape, node.dtype)
            g = replaced
    return g


def retain_grad(t: Tensor) -> None:
    """Have the walk write `.grad` of a tensor that is not a leaf, too."""
    node = current_node(t)
    if node is None:
        raise RuntimeError("retain_grad: this tensor does not require a gradient")
    node.owner = weakref.ref(t)
