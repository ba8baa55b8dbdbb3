"""What users hang onto gradients: hooks that see and replace them on the way, and `.grad`, kept or set by hand.

What comes from users is checked here, so that no walk goes on with a gradient of another shape or dtype.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
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


class HookHandle:
    """Removes the hook that it stands for."""

    def __init__(self, node: Node, key: int):
        self.node, self.key = node, key

    def remove(self) -> None:
        (self.node.hooks or {}).pop(self.key, None)


def add_hook(t: Tensor, hook: Callable[[Any], Any]) -> HookHandle:
    node = current_node(t)
    if node is None:
        raise RuntimeError("register_hook: this tensor does not require a gradient")
    node.hooks = node.hooks or {}
    key = next(clock)
    node.hooks[key] = hook
    return HookHandle(node, key)


def run_hooks(node: Node, g: Tensor) -> Tensor:
    """Let the hooks see the complete gradient of a tensor, and replace it by what they return."""
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
