"""What users hang onto gradients: hooks that see and replace them on the way, and `.grad`, kept or set by hand.

What comes from users is checked here, so that no walk goes on with a gradient of another shape or dtype.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from tinygrad_tf.graph import Node, Tensor, clock, current_node


def check_gradient(name: str, gradient: Any, shape: tuple[int, ...], dtype: np.dtype) -> None:
    """Refuse what cannot be the gradient of a tensor of this shape and dtype."""
    if not isinstance(gradient, Tensor):
        raise TypeError(f"{name} must be a tensor or None, got {type(gradient).__name__}")
    array = gradient.array
    if array.shape != shape:
        raise RuntimeError(f"{name} must have the shape of its tensor, {shape}, got {array.shape}")
    if array.dtype != dtype:
        raise RuntimeError(f"{name} must have the dtype of its tensor, {dtype}, got {array.dtype}; use .to(dtype)")


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


after_adding: weakref.WeakKeyDictionary[Node, dict[int, Callable[[Any], Any]]] = weakref.WeakKeyDictionary()


def add_hook_after(t: Tensor, hook: Callable[[Any], Any]) -> RemovableHandle:
    """A hook that is given the leaf itself, when a backward pass has added to its `.grad`."""
    node = current_node(t)
    if node is None or node.operation is not None:
        raise RuntimeError("register_post_accumulate_grad_hook: only a leaf that requires a gradient gathers one")
    return put_hook(after_adding.setdefault(node, {}), hook)


def run_hooks_after(nodes: Iterable[Node]) -> None:
    """Call the hooks of the leaves whose `.grad` was added to."""
    for node in list(nodes) if after_adding else ():
        t = node.owner() if node.owner is not None else None
        for hook in list(after_adding.get(node, {}).values()) if t is not None else ():
            if hook(t) is not None:
                raise RuntimeError("a hook of register_post_accumulate_grad_hook must return None; it may set t.grad")


def run_hooks(node: Node, g: Tensor) -> Tensor:
    """Let the hooks see the complete gradient of a tensor, and replace it by what they return."""
    if not g.array.flags.writeable:  # what was broadcast; a hook may write into its gradient, too
        g.array = g.array.copy()
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
