"""Hooks: functions of the user that run before and behind a module's forward, when gradients come back to it, and when
its state is saved or loaded.

For the gradients, what goes into a module and what comes out of it passes through operations that change nothing and
call the hooks on the way back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tinygrad_tf.autograd.function import Function
from tinygrad_tf.hooks import RemovableHandle, put_hook
from tinygrad_tf.tensor import Tensor

if TYPE_CHECKING:
    from tinygrad_tf.nn.module import Module

Hook = Callable[..., Any]


class GivenMore:
    """A hook that asked to be given more than others: the keyword arguments, or the module."""

    def __init__(self, hook: Hook):
        self.hook = hook

    def __call__(self, *args: Any) -> Any:
        return self.hook(*args)


class Hooked:
    """The half of Module that takes hooks: for its calls and their gradients, and for its state_dict."""

    _hooked: bool = False  # whether there ever was a hook for calls
    _forward_hooks: dict[int, Hook] = {}  # noqa: RUF012 - replaced by an own dictionary at the first hook
    _forward_pre_hooks: dict[int, Hook] = {}  # noqa: RUF012
    _backward_hooks: dict[int, Hook] = {}  # noqa: RUF012
    _backward_pre_hooks: dict[int, Hook] = {}  # noqa: RUF012
    _state_hooks: dict[int, Hook] = {}  # noqa: RUF012
    _state_pre_hooks: dict[int, Hook] = {}  # noqa: RUF012
    _load_pre_hooks: dict[int, Hook] = {}  # noqa: RUF012
    _load_post_hooks: dict[int, Hook] = {}  # noqa: RUF012

    def _add_hook(self, kind: str, hook: Hook, prepend: bool = False, more: bool = False) -> RemovableHandle:
        """Put `hook` behind the others of its kind, or before them. more: it is to be given more than others."""
        if not callable(hook):
            raise TypeError(f"hook must be a function to be called with the module, got {type(hook).__name__}")
        return put_hook(self.__dict__.setdefault(kind, {}), GivenMore(hook) if more else hook, prepend)

    def _add_call_hook(self, kind: str, hook: Hook, prepend: bool, more: bool = False) -> RemovableHandle:
        handle = self._add_hook(kind, hook, prepend, more)
        object.__setattr__(self, "_hooked", True)
        return handle

    def register_forward_hook(self, hook: Hook, *, prepend: bool = False, with_kwargs: bool = False) -> RemovableHandle:
        """Call hook(module, args, output) after each forward; what it returns replaces the output."""
        return self._add_call_hook("_forward_hooks", hook, prepend, with_kwargs)

    def register_forward_pre_hook(
        self, hook: Hook, *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call hook(module, args) before each forward; what it returns replaces the arguments."""
        return self._add_call_hook("_forward_pre_hooks", hook, prepend, with_kwargs)

    def register_full_backward_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call hook(module, grad_input, grad_output) when the gradients of the arguments are there.

        Both are tuples with a gradient or None for each positional argument and each result; a tuple that the hook
        returns replaces grad_input. Where no argument wants a gradient, grad_input is all None.
        """
        return self._add_call_hook("_backward_hooks", hook, prepend)

    register_backward_hook = register_full_backward_hook

    def register_full_backward_pre_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call hook(module, grad_output) when the gradients of the results are there; what it returns replaces them."""
        return self._add_call_hook("_backward_pre_hooks", hook, prepend)

    def register_state_dict_post_hook(self, hook: Hook) -> RemovableHandle:
        """Call hook(module, state_dict, prefix, local_metadata) when the module's tensors are in the state_dict."""
        return self._add_hook("_state_hooks", hook)

    _register_state_dict_hook = register_state_dict_post_hook

    def register_state_dict_pre_hook(self, hook: Hook) -> RemovableHandle:
        """Call hook(module, prefix, keep_vars) before the module's tensors go into a state_dict."""
        return self._add_hook("_state_pre_hooks", hook)

    def register_load_state_dict_pre_hook(self, hook: Hook) -> RemovableHandle:
        """Call hook(module, ...) with the arguments of `_load_from_state_dict` before the module is loaded."""
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def _register_load_state_dict_pre_hook(self, hook: Hook, with_module: bool = False) -> RemovableHandle:
        return self._add_hook("_load_pre_hooks", hook, more=with_module)

    def register_load_state_dict_post_hook(self, hook: Hook) -> RemovableHandle:
        """Call hook(module, incompatible_keys) when the module is loaded; it may empty the lists of these keys."""
        return self._add_hook("_load_post_hooks", hook)


def call_with_hooks(module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The module's forward with its hooks around it: each may replace what it is given, by returning something."""
    for hook in list(module._forward_pre_hooks.values()):
        with_kwargs = isinstance(hook, GivenMore)
        changed = hook(module, args, kwargs) if with_kwargs else hook(module, args)
        if changed is not None and with_kwargs:
            args, kwargs = changed
        elif changed is not None:
            args = changed if isinstance(changed, tuple) else (changed,)
    way_back = WayBack(module) if module._backward_hooks or module._backward_pre_hooks else None
    if way_back is not None:
        args = way_back.into(args)
    out = module.forward(*args, **kwargs)
    for hook in list(module._forward_hooks.values()):
        changed = hook(module, args, kwargs, out) if isinstance(hook, GivenMore) else hook(module, args, out)
        out = out if changed is None else changed
    return out if way_back is None else way_back.out_of(out)


class Passing(Function):
    """Hands tensors on, and their gradients through a function."""

    hands_on = True

    @staticmethod
    def forward(ctx: Any, through: Callable[..., Any], *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.through = through
        ctx.set_materialize_grads(False)
        return tensors

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Any, ...]:
        return (None, *ctx.through(gradients))


class WayBack:
    """One call of a module: the gradients of its results on their way to those of its arguments."""

    def __init__(self, module: Module):
        self.module = module
        self.places: list[int] = []  # of the arguments that want a gradient
        self.count = 0
        self.of_results: tuple[Any, ...] | None = None

    def into(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        self.places, self.count = _wanting(args), len(args)
        return self._pass(args, self.places, self._to_arguments)

    def out_of(self, out: Any) -> Any:
        results = out if isinstance(out, tuple) else (out,)
        places, count = _wanting(results), len(results)
        passed = self._pass(results, places, lambda found: self._from_results(found, places, count))
        return passed if isinstance(out, tuple) else passed[0]

    @staticmethod
    def _pass(values: tuple[Any, ...], places: list[int], through: Callable[..., Any]) -> tuple[Any, ...]:
        if not places:
            return values
        passed = list(values)
        for i, t in zip(places, Passing.apply(through, *[values[i] for i in places]), strict=True):
            passed[i] = t
        return tuple(passed)

    def _from_results(self, found: Sequence[Any], places: list[int], count: int) -> list[Any]:
        """The gradients of the results, as the module's backward pre-hooks leave them."""
        gradients = _spread(found, places, count)
        for hook in list(self.module._backward_pre_hooks.values()):
            gradients = _replaced("register_full_backward_pre_hook", hook(self.module, gradients), gradients)
        self.of_results = gradients
        if not self.places:  # no argument wants a gradient, so nothing comes back to them
            self._to_arguments(())
        return [gradients[i] for i in places]

    def _to_arguments(self, found: Sequence[Any]) -> list[Any]:
        """The gradients of the arguments, as the module's backward hooks leave them."""
        gradients = _spread(found, self.places, self.count)
        if self.of_results is not None:
            for hook in list(self.module._backward_hooks.values()):
                changed = hook(self.module, gradients, self.of_results)
                gradients = _replaced("register_full_backward_hook", changed, gradients)
        return [gradients[i] for i in self.places]


def _wanting(values: Sequence[Any]) -> list[int]:
    """The places of those that want a gradient."""
    return [i for i, x in enumerate(values) if isinstance(x, Tensor) and x.requires_grad]


def _spread(found: Sequence[Any], places: list[int], count: int) -> tuple[Any, ...]:
    """One gradient for each of `count` values: those found at their places, None elsewhere."""
    at = dict(zip(places, found, strict=True))
    return tuple([at.get(i) for i in range(count)])


def _replaced(name: str, changed: Any, before: tuple[Any, ...]) -> tuple[Any, ...]:
    """What a hook returned in place of the gradients, if it returned something."""
    if changed is None:
        return before
    after = changed if isinstance(changed, tuple) else (changed,)
    if len(after) != len(before):
        raise RuntimeError(f"{name}: the hook must return {len(before)} gradients or None, got {len(after)}")
    return after
