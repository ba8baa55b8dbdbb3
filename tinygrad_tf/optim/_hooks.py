"""Hooks of an optimiser: functions of the user that run around its step, its state_dict, and loading."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tinygrad_tf.hooks import RemovableHandle, put_hook

Hook = Callable[..., Any]


def _with_hooks(step: Callable[..., Any]) -> Callable[..., Any]:
    """The step between its hooks; a step that calls another class's step is one step."""

    @functools.wraps(step)
    def hooked(self: Any, *args: Any, **kwargs: Any) -> Any:
        self._stepped = True
        hooks = self.__dict__.get("_hooks")
        if not hooks or hooks.get("stepping"):
            return step(self, *args, **kwargs)
        hooks["stepping"] = True
        try:
            args = (self, *args)
            for hook in list(hooks.get("step_pre", {}).values()):
                changed = hook(self, args, kwargs)
                if changed is not None and not (isinstance(changed, tuple) and len(changed) == 2):
                    raise RuntimeError(f"a hook before a step must return None or (args, kwargs), got {changed!r:.60}")
                args, kwargs = (args, kwargs) if changed is None else changed
            out = step(*args, **kwargs)
            for hook in list(hooks.get("step_post", {}).values()):
                hook(self, args, kwargs)
            return out
        finally:
            hooks["stepping"] = False

    return hooked


class Hooked:
    """What has hooks: each `register_` returns a handle whose remove() takes the hook away again.

    >>> from tinygrad_tf import nn, ones, optim
    >>> optimizer = optim.SGD([nn.Parameter(ones(1))], lr=0.1)
    >>> handle = optimizer.register_step_post_hook(lambda optimizer, args, kwargs: print("a step"))
    >>> optimizer.step()
    a step
    """

    _hooks: dict[str, Any]
    _stepped = False  # which a schedule looks at: its own step comes second

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        if "step" in vars(cls):
            cls.step = _with_hooks(cls.step)  # type: ignore[attr-defined]

    def __getstate__(self) -> dict[str, Any]:
        """A copy of an optimiser has no hooks."""
        return {name: value for name, value in self.__dict__.items() if name != "_hooks"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """What a copy is made of, or what was loaded: a class may add settings that an older state has not got."""
        self.__dict__.update(state)

    def _add_hook(self, when: str, hook: Hook, prepend: bool = False) -> RemovableHandle:
        if not callable(hook):
            raise TypeError(f"hook must be a function to be called with the optimizer, got {type(hook).__name__}")
        return put_hook(self.__dict__.setdefault("_hooks", {}).setdefault(when, {}), hook, prepend)

    def _changed_by_hooks(self, when: str, *given: Any) -> Any:
        """What was given last, or what hooks returned in its place."""
        for hook in list(self.__dict__.get("_hooks", {}).get(when, {}).values()):
            changed = hook(self, *given)
            given = given if changed is None or not given else (changed,)
        return given[0] if given else None

    def register_step_pre_hook(self, hook: Hook) -> RemovableHandle:
        """Call hook(optimizer, args, kwargs) before each step; it may return other (args, kwargs)."""
        return self._add_hook("step_pre", hook)

    def register_step_post_hook(self, hook: Hook) -> RemovableHandle:
        """Call hook(optimizer, args, kwargs) behind each step."""
        return self._add_hook("step_post", hook)

    def register_state_dict_pre_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call hook(optimizer) before state_dict."""
        return self._add_hook("state_pre", hook, prepend)

    def register_state_dict_post_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call hook(optimizer, state_dict) with what state_dict returns; it may return another one."""
        return self._add_hook("state_post", hook, prepend)

    def register_load_state_dict_pre_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call hook(optimizer, state_dict) before that is loaded; it may return another one."""
        return self._add_hook("load_pre", hook, prepend)

    def register_load_state_dict_post_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call hook(optimizer) when a state_dict was loaded."""
        return self._add_hook("load_post", hook, prepend)
