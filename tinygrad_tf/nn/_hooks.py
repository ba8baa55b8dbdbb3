"""Hooks: functions of the user that run before and behind a module's forward."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tinygrad_tf.engine import clock

if TYPE_CHECKING:
    from tinygrad_tf.nn.module import Module

Hook = tuple[Callable[..., Any], bool]  # the function, and whether it is given keyword arguments, too


class RemovableHandle:
    """Removes the hook that it stands for."""

    def __init__(self, hooks: dict[int, Any], key: int):
        self.hooks, self.key = hooks, key

    def remove(self) -> None:
        self.hooks.pop(self.key, None)


def add_hook(hooks: dict[int, Hook], hook: Callable[..., Any], prepend: bool, with_kwargs: bool) -> RemovableHandle:
    """Put `hook` behind the others, or before them."""
    if not callable(hook):
        raise TypeError(f"hook must be a function to be called with the module, got {type(hook).__name__}")
    others = list(hooks.items())
    key = next(clock)
    hooks[key] = (hook, with_kwargs)
    if prepend:
        hooks.clear()
        hooks.update([(key, (hook, with_kwargs)), *others])
    return RemovableHandle(hooks, key)


def call_with_hooks(module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The module's forward with its hooks around it: each may replace what it is given, by returning something."""
    for hook, with_kwargs in list(module._forward_pre_hooks.values()):
        changed = hook(module, args, kwargs) if with_kwargs else hook(module, args)
        if changed is not None and with_kwargs:
            args, kwargs = changed
        elif changed is not None:
            args = changed if isinstance(changed, tuple) else (changed,)
    out = module.forward(*args, **kwargs)
    for hook, with_kwargs in list(module._forward_hooks.values()):
        changed = hook(module, args, kwargs, out) if with_kwargs else hook(module, args, out)
        out = out if changed is None else changed
    return out
