"""Module: the base of all layers and models. What it contains is what its attributes are; nothing is registered twice."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

import numpy as np

from tinygrad_tf.engine import clock as _clock
from tinygrad_tf.engine import make
from tinygrad_tf.nn.parameter import Buffer, Parameter
from tinygrad_tf.tensor import Tensor

Self = TypeVar("Self", bound="Module")


class IncompatibleKeys(NamedTuple):
    """What load_state_dict(strict=False) found missing in the dictionary, and what it had no use for."""

    missing_keys: list[str]
    unexpected_keys: list[str]


class RemovableHandle:
    """Removes the hook that it stands for."""

    def __init__(self, hooks: dict[int, Any], key: int):
        self.hooks, self.key = hooks, key

    def remove(self) -> None:
        self.hooks.pop(self.key, None)


class Module:
    """Base class: set Parameters and Modules as attributes, write `forward`, and call the module.

    >>> from tinygrad_tf import nn, ones
    >>> class Double(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.scale = nn.Parameter(2 * ones(1))
    ...     def forward(self, x):
    ...         return x * self.scale
    >>> [name for name, _ in Double().named_parameters()]
    ['scale']
    """

    training: bool = True
    _forward_hooks: dict[int, Callable[..., Any]] = {}  # noqa: RUF012 - replaced by an own dictionary at the first hook
    _forward_pre_hooks: dict[int, Callable[..., Any]] = {}  # noqa: RUF012
    _buffer_names: Mapping[str, bool] = {}  # noqa: RUF012 - name: persistent
    forward: Callable[..., Any]

    def __init__(self) -> None:
        self.training = True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._forward_pre_hooks:
            for hook in list(self._forward_pre_hooks.values()):
                changed = hook(self, args)
                if changed is not None:
                    args = changed if isinstance(changed, tuple) else (changed,)
        out = self.forward(*args, **kwargs)
        if self._forward_hooks:
            for hook in list(self._forward_hooks.values()):
                changed = hook(self, args, out)
                out = out if changed is None else changed
        return out

    def __setattr__(self, name: str, value: Any) -> None:
        before = self.__dict__.get(name)
        if isinstance(value, Tensor) and not isinstance(value, Parameter) and isinstance(before, Parameter):
            raise TypeError(f"{name} is a Parameter and can only be replaced by a Parameter or None; use copy_ under no_grad")
        if isinstance(value, Buffer) and name not in self._buffer_names:
            object.__setattr__(self, "_buffer_names", {**self._buffer_names, name: value.persistent})
        object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:  # only when ordinary look-up fails
        if name == "forward":
            raise NotImplementedError(f"{type(self).__name__} has no forward method: define forward(self, ...)")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    # --- what it contains -----------------------------------------------------------------------------------------

    @property
    def _parameters(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if isinstance(v, Parameter)}

    @property
    def _modules(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if isinstance(v, Module)}

    @property
    def _buffers(self) -> dict[str, Any]:
        return {k: self.__dict__.get(k) for k in self._buffer_names}

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Keep a tensor that is not trained; `persistent` says whether it belongs to the state_dict."""
        self._check_name(name)
        object.__setattr__(self, "_buffer_names", {**self._buffer_names, name: persistent})
        object.__setattr__(self, name, tensor)

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        self._check_name(name)
        setattr(self, name, param)

    def add_module(self, name: str, module: Module | None) -> None:
        self._check_name(name)
        setattr(self, name, module)

    register_module = add_module

    def _check_name(self, name: str) -> None:
        if "." in name or not name:
            raise KeyError(f"a name of a parameter, buffer or module cannot be empty or contain '.', got {name!r}")
        if hasattr(type(self), name):
            raise KeyError(f"{type(self).__name__} already has an attribute {name!r}; choose another name")

    def named_modules(self, memo: set[int] | None = None, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """This module and all inside it, each once, with dotted names."""
        memo = set() if memo is None else memo
        if id(self) in memo:
            return
        memo.add(id(self))
        yield prefix, self
        for name, child in self._modules.items():
            yield from child.named_modules(memo, f"{prefix}.{name}" if prefix else name)

    def modules(self) -> Iterator[Module]:
        return (module for _, module in self.named_modules())

    def named_children(self) -> Iterator[tuple[str, Module]]:
        return iter(self._modules.items())

    def children(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def named_parameters(self, prefix: str = "", recurse: bool = True) -> Iterator[tuple[str, Parameter]]:
        """Each parameter once (a shared one by its first name), with dotted names."""
        seen: set[int] = set()
        for path, module in self.named_modules(prefix=prefix) if recurse else [(prefix, self)]:
            for name, parameter in module._parameters.items():
                if id(parameter) not in seen:
                    seen.add(id(parameter))
                    yield f"{path}.{name}" if path else name, parameter

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        return (parameter for _, parameter in self.named_parameters(recurse=recurse))

    def named_buffers(self, prefix: str = "", recurse: bool = True) -> Iterator[tuple[str, Tensor]]:
        for path, module in self.named_modules(prefix=prefix) if recurse else [(prefix, self)]:
            for name, buffer in module._buffers.items():
                if buffer is not None:
                    yield f"{path}.{name}" if path else name, buffer

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        return (buffer for _, buffer in self.named_buffers(recurse=recurse))

    def get_submodule(self, target: str) -> Module:
        module: Any = self
        for part in target.split(".") if target else ():
            if not isinstance(getattr(module, part, None), Module):
                raise AttributeError(f"{type(module).__name__} has no module {part!r} (looking for {target!r})")
            module = getattr(module, part)
        return module

    def get_parameter(self, target: str) -> Parameter:
        path, _, name = target.rpartition(".")
        return getattr(self.get_submodule(path), name)

    # --- modes and types ------------------------------------------------------------------------------------------

    def train(self: Self, mode: bool = True) -> Self:
        """Switch dropout and the like on (or, with mode=False, off) in this module and all inside it."""
        for module in self.modules():
            module.training = mode
        return self

    def eval(self: Self) -> Self:
        return self.train(False)

    def requires_grad_(self: Self, requires_grad: bool = True) -> Self:
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        for parameter in self.parameters():
            if set_to_none or parameter.grad is None:
                parameter.grad = None
            else:
                parameter.grad.array[...] = 0

    def apply(self: Self, function: Callable[[Module], Any]) -> Self:
        """Call `function` with every module inside, children first, then with this one."""
        for child in self.children():
            child.apply(function)
        function(self)
        return self

    def to(self: Self, *args: Any, dtype: Any = None, **ignored: Any) -> Self:
        """Cast all floating point parameters and buffers; the device can only be the CPU."""
        for a in args:
            if isinstance(a, Tensor):
                dtype = a.dtype
            elif isinstance(a, np.dtype) or (isinstance(a, type) and issubclass(a, np.generic)):
                dtype = np.dtype(a)
        if dtype is not None:
            for tensor in [*self.parameters(), *self.buffers()]:
                if tensor.is_floating_point():
                    tensor.data = make(tensor.array.astype(dtype, copy=False))
                    tensor.grad = None if tensor.grad is None else tensor.grad.to(dtype)
        return self

    def float(self: Self) -> Self:
        return self.to(np.dtype(np.float32))

    def double(self: Self) -> Self:
        return self.to(np.dtype(np.float64))

    def half(self: Self) -> Self:
        return self.to(np.dtype(np.float16))

    def cpu(self: Self) -> Self:
        return self

    # --- saving ---------------------------------------------------------------------------------------------------

    def state_dict(self, prefix: str = "") -> OrderedDict[str, Tensor]:
        """All parameters and persistent buffers by name. They share memory with the module: copy to keep a snapshot."""
        state: OrderedDict[str, Tensor] = OrderedDict()
        for name, parameter in self._parameters.items():
            state[prefix + name] = parameter.detach()
        for name, persistent in self._buffer_names.items():
            if persistent and self.__dict__.get(name) is not None:
                state[prefix + name] = self.__dict__[name].detach()
        for name, child in self._modules.items():
            state.update(child.state_dict(f"{prefix}{name}."))
        return state

    def load_state_dict(self, state_dict: Mapping[str, Tensor], strict: bool = True, assign: bool = False) -> IncompatibleKeys:
        """Copy values in by name. On any error the module is left unchanged."""
        own = self.state_dict()
        missing = [name for name in own if name not in state_dict]
        unexpected = [name for name in state_dict if name not in own]
        errors = []
        if strict and missing:
            errors.append(f"missing: {', '.join(missing)}")
        if strict and unexpected:
            errors.append(f"unexpected: {', '.join(unexpected)}")
        for name, value in state_dict.items():
            if name in own and tuple(value.shape) != own[name].array.shape:
                errors.append(f"{name} must have the shape {own[name].array.shape}, got {tuple(value.shape)}")
        if errors:
            raise RuntimeError(f"load_state_dict of {type(self).__name__}: " + "; ".join(errors))
        for name, tensor in own.items():
            if name in state_dict:
                tensor.array[...] = np.asarray(state_dict[name].detach().array)
                tensor.storage.changed = next(_clock)
        return IncompatibleKeys(missing, unexpected)

    # --- hooks and printing ---------------------------------------------------------------------------------------

    def register_forward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call hook(module, args, output) after each forward; what it returns replaces the output."""
        return self._register("_forward_hooks", hook)

    def register_forward_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call hook(module, args) before each forward; what it returns replaces the arguments."""
        return self._register("_forward_pre_hooks", hook)

    def _register(self, kind: str, hook: Callable[..., Any]) -> RemovableHandle:
        hooks = self.__dict__.setdefault(kind, {})
        key = max(hooks, default=-1) + 1
        hooks[key] = hook
        return RemovableHandle(hooks, key)

    def extra_repr(self) -> str:
        """What stands between the brackets when the module is printed."""
        return ""

    def __repr__(self) -> str:
        lines = [self.extra_repr()] if self.extra_repr() else []
        for name, child in self._modules.items():
            lines.append(f"({name}): " + repr(child).replace("\n", "\n  "))
        if not self._modules:
            return f"{type(self).__name__}({', '.join(lines)})"
        return f"{type(self).__name__}(\n  " + "\n  ".join(lines) + "\n)"
