"""Module: the base of all layers and models. What it contains is what its attributes are: there is no second list."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import NoneType
from typing import Any, Self

import numpy as np

from tinygrad_tf._device import checked
from tinygrad_tf.complex_numbers import ComplexTensor
from tinygrad_tf.dtypes import DType, array_dtype, bfloat16
from tinygrad_tf.engine import RemovableHandle as RemovableHandle
from tinygrad_tf.engine import make
from tinygrad_tf.nn._held import Held, HeldBuffers
from tinygrad_tf.nn._hooks import GivenMore, Hooked, call_with_hooks
from tinygrad_tf.nn._hooks import Hook as Hook
from tinygrad_tf.nn._state import IncompatibleKeys as IncompatibleKeys
from tinygrad_tf.nn._state import collect_state, empty_state, load_state, names_of_own
from tinygrad_tf.nn.parameter import Buffer, Parameter
from tinygrad_tf.tensor import Tensor


class Module(Hooked):
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
    _buffer_names: Mapping[str, bool] = {}

    def __init__(self) -> None:
        self.training = True

    _version = 1  # of what its state_dict holds: classes that change that count on
    _without: tuple[str, ...] = ()  # parameters that were registered as None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self._hooked:
            return self.forward(*args, **kwargs)
        return call_with_hooks(self, args, kwargs)

    def _missing_forward(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no forward method: define forward(self, ...)")

    forward: Callable[..., Any] = _missing_forward  # so declared, one of a class may take any arguments

    def __setattr__(self, name: str, value: Any) -> None:
        before = self.__dict__.get(name)
        if isinstance(before, Parameter) and value is not None and not isinstance(value, Parameter):
            raise TypeError(f"{name} is a Parameter: replace it by a Parameter or None, or use copy_ under no_grad")
        if isinstance(before, Module) and value is not None and not isinstance(value, (Module, Parameter)):
            raise TypeError(f"{name} is a module: replace it by a Module or None, got {type(value).__name__}")
        if isinstance(value, Buffer) and name not in self._buffer_names:
            object.__setattr__(self, "_buffer_names", {**self._buffer_names, name: value.persistent})
        elif name in self._buffer_names and not isinstance(value, (Tensor, ComplexTensor, NoneType)):
            raise TypeError(f"{name} is a buffer: replace it by a Tensor or None, got {type(value).__name__}")
        if before is not None and isinstance(value, HELD) and not isinstance(before, HELD):
            del self.__dict__[name]  # self.dropout = p, and later the layer: it comes behind those set in between
        object.__setattr__(self, name, value)

    def __setstate__(self, state: dict[str, Any]) -> None:  # layers written after PyTorch's call it from their own
        self.__dict__.update(state)

    def __getattr__(self, name: str) -> Any:  # only when ordinary look-up fails
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    # --- what it contains -----------------------------------------------------------------------------------------

    @property
    def _parameters(self) -> dict[str, Parameter]:
        found = {k: v for k, v in self.__dict__.items() if isinstance(v, Parameter)}
        return Held(self, found | {k: None for k in self._without if self.__dict__.get(k) is None})

    @property
    def _modules(self) -> dict[str, Module]:
        return Held(self, {k: v for k, v in self.__dict__.items() if isinstance(v, Module)})

    @property
    def _buffers(self) -> dict[str, Any]:
        return HeldBuffers(self, {k: self.__dict__.get(k) for k in self._buffer_names})

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Keep a tensor that is not trained; `persistent` says whether it belongs to the state_dict."""
        if tensor is not None and not isinstance(tensor, (Tensor, ComplexTensor)):
            raise TypeError(f"buffer {name!r} must be a Tensor or None, got {type(tensor).__name__}")
        self._check_name(name, self._buffer_names)
        object.__setattr__(self, "_buffer_names", {**self._buffer_names, name: persistent})
        object.__setattr__(self, name, tensor)

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """As setting the attribute, but an error where that would hide something else."""
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(f"parameter {name!r} must be a Parameter or None, got {type(param).__name__}")
        self._check_name(name, self._parameters)
        if param is None:
            object.__setattr__(self, "_without", (*self._without, name))
        setattr(self, name, param)

    def add_module(self, name: str, module: Module | None) -> None:
        """As setting the attribute, but an error where that would hide something else."""
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"module {name!r} must be a Module or None, got {type(module).__name__}")
        self._check_name(name, self._modules)
        setattr(self, name, module)

    register_module = add_module

    def _check_name(self, name: str, own: Mapping[str, Any]) -> None:
        if not isinstance(name, str) or "." in name or not name:
            raise (KeyError if isinstance(name, str) else TypeError)(
                f"the name of a parameter, buffer or module must be a string without '.', got {name!r}"
            )
        if hasattr(type(self), name) or (name not in own and self.__dict__.get(name) is not None):
            raise KeyError(f"{type(self).__name__} already has an attribute {name!r}; choose another name")

    def named_modules(
        self, memo: set[Any] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """This module and all inside it, each once, with dotted names."""
        memo = set() if memo is None else memo
        if id(self) in memo:
            return
        if remove_duplicate:
            memo.add(id(self))
        yield prefix, self
        for name, child in self._modules.items():
            yield from child.named_modules(memo, f"{prefix}.{name}" if prefix else name, remove_duplicate)

    def modules(self) -> Iterator[Module]:
        """This module and all inside it, each once, in the order of `named_modules`."""
        seen: set[int] = set()
        waiting = [self]
        while waiting:
            module = waiting.pop()
            if id(module) not in seen:
                seen.add(id(module))
                yield module
                waiting.extend([v for v in module.__dict__.values() if isinstance(v, Module)][::-1])

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The modules directly inside, each once."""
        first = {id(child): name for name, child in reversed(self._modules.items())}
        return ((name, child) for name, child in self._modules.items() if first[id(child)] == name)

    def children(self) -> Iterator[Module]:
        """The modules directly inside, each once."""
        return (child for _, child in self.named_children())

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Each parameter once (a shared one by its first name), with dotted names."""
        return self._named("_parameters", prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Each parameter once, in the order of `named_parameters`."""
        if type(self).named_parameters is not Module.named_parameters:  # a class with an opinion of its own
            yield from (parameter for _, parameter in self.named_parameters(recurse=recurse))
            return
        seen: set[int] = set()
        for module in self.modules() if recurse else (self,):
            for value in module.__dict__.values():
                if isinstance(value, Parameter) and id(value) not in seen:
                    seen.add(id(value))
                    yield value

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Each buffer once, with dotted names."""
        return self._named("_buffers", prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Each buffer once."""
        return (buffer for _, buffer in self.named_buffers(recurse=recurse))

    def _named(self, kind: str, prefix: str, recurse: bool, remove_duplicate: bool) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
        for path, module in modules if recurse else [(prefix, self)]:
            for name, tensor in getattr(module, kind).items():
                if tensor is not None and id(tensor) not in seen:
                    if remove_duplicate:
                        seen.add(id(tensor))
                    yield f"{path}.{name}" if path else name, tensor

    def get_submodule(self, target: str) -> Module:
        """The module at a dotted name; '' is this one."""
        module: Any = self
        for part in target.split(".") if target else ():
            if not isinstance(getattr(module, part, None), Module):
                raise AttributeError(f"{type(module).__name__} has no module {part!r} (looking for {target!r})")
            module = getattr(module, part)
        return module

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Put a module at a dotted name, in place of what is there; strict: only if something is."""
        path, _, name = target.rpartition(".")
        if not name or not isinstance(module, Module):
            raise ValueError(
                f"set_submodule: needs a dotted name and a module, got {target!r}, {type(module).__name__}"
            )
        if strict:
            self.get_submodule(target)
        setattr(self.get_submodule(path), name, module)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter at a dotted name."""
        return _looked_up(self, "parameter", "_parameters", target)

    def get_buffer(self, target: str) -> Tensor:
        """The buffer at a dotted name."""
        return _looked_up(self, "buffer", "_buffer_names", target)

    # --- modes and types ------------------------------------------------------------------------------------------

    def train(self, mode: bool = True) -> Self:
        """Switch dropout and the like on (or, with mode=False, off) in this module and all inside it."""
        if not isinstance(mode, bool):
            raise ValueError(f"train: mode must be True or False, got {mode!r:.60}")
        if self.training is not mode:
            self.training = mode
        for module in self.children():  # by their own train: a part may stay as it is, or do something more
            module.train(mode)
        return self

    def eval(self) -> Self:
        """As train(False)."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Say whether the parameters, here and inside, are to get gradients; False freezes them."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters, or (set_to_none=False) fill them with zeros."""
        for parameter in self.parameters():
            if set_to_none or parameter.grad is None:
                parameter.grad = None
            else:
                parameter.grad.array[...] = 0

    def apply(self, fn: Callable[[Module], Any]) -> Self:
        """Call `fn` with every module inside, children first, then with this one."""
        for child in self.children():
            child.apply(fn)
        fn(self)
        return self

    def to(
        self,
        *args: Any,
        dtype: Any = None,
        device: Any = None,
        non_blocking: bool = False,
        memory_format: Any = None,
    ) -> Self:
        """Cast all floating point parameters and buffers, in place: to(dtype), to(tensor); the device is the CPU."""
        for a in args:
            if isinstance(a, Tensor):
                dtype = a.dtype
            elif isinstance(a, (DType, np.dtype, type)):
                dtype = a
            elif not isinstance(a, bool):
                device = a
        checked(device)
        if dtype is not None:
            dtype = array_dtype(dtype)
            for tensor in [*self.parameters(), *self.buffers()]:
                if tensor.is_floating_point():
                    tensor.data = make(tensor.array.astype(dtype, copy=False))
                    tensor.grad = None if tensor.grad is None else tensor.grad.to(dtype)
        return self

    def type(self, dst_type: Any) -> Self:
        """Cast to a dtype, or to that of a type of tensors: torch.FloatTensor, or its name."""
        return self.to(dtype=make(np.zeros(0)).type(dst_type).dtype)

    def float(self) -> Self:
        """Cast all floating point parameters and buffers to float32."""
        return self.to(np.float32)

    def double(self) -> Self:
        """Cast all floating point parameters and buffers to float64."""
        return self.to(np.float64)

    def half(self) -> Self:
        """Cast all floating point parameters and buffers to float16."""
        return self.to(np.float16)

    def bfloat16(self) -> Self:
        """Cast all floating point parameters and buffers to bfloat16."""
        return self.to(bfloat16)

    def to_empty(self, *, device: Any, recurse: bool = True) -> Self:
        """The module itself: it has its memory, on the CPU."""
        return self.to(device=device)

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Changes nothing: kernels are compiled already."""

    def share_memory(self) -> Self:
        """The module itself: threads share it already."""
        return self

    def cpu(self) -> Self:
        """The module itself: it is on the CPU."""
        return self

    def cuda(self, device: Any = None) -> Self:
        """An error that says that there is the CPU alone."""
        return self.to(device="cuda")

    # --- saving ---------------------------------------------------------------------------------------------------

    def state_dict(
        self, *, destination: dict[str, Any] | None = None, prefix: str = "", keep_vars: bool = False
    ) -> dict[str, Any]:
        """All parameters and persistent buffers by name. They share memory with the module: copy to keep a snapshot."""
        state: dict[str, Any] = empty_state() if destination is None else destination
        collect_state(self, state, prefix, keep_vars)
        return state

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> IncompatibleKeys:
        """Copy values in by name (with assign=True, take the tensors themselves). On any error nothing is changed."""
        return load_state(self, state_dict, strict, assign)

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """What a module of one's own overrides in order to change what it is given, before it calls this one.

        The tensors are copied when all modules were asked, and only if nothing is wrong.
        """
        arguments = (state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        for hook in list(self._load_pre_hooks.values()):
            hook(self, *arguments) if isinstance(hook, GivenMore) else hook(*arguments)
        missing_keys += [name for name in names_of_own(self, prefix) if name not in state_dict]

    # --- printing -------------------------------------------------------------------------------------------------

    def extra_repr(self) -> str:
        """What stands between the brackets when the module is printed."""
        return ""

    def _get_name(self) -> str:
        return type(self).__name__

    def _child_lines(self) -> list[str]:
        return [f"({name}): {child!r}" for name, child in self._modules.items()]

    def __repr__(self) -> str:
        extra = self.extra_repr().split("\n") if self.extra_repr() else []
        children = [line.replace("\n", "\n  ") for line in self._child_lines()]
        if len(extra) <= 1 and not children:
            return f"{self._get_name()}({''.join(extra)})"
        return f"{self._get_name()}(\n  " + "\n  ".join(extra + children) + "\n)"


HELD = (Module, Parameter)


def _looked_up(root: Module, kind: str, names: str, target: str) -> Any:
    path, _, name = target.rpartition(".")
    module = root.get_submodule(path)
    if name not in getattr(module, names):
        raise AttributeError(f"{type(module).__name__} has no {kind} {name!r} (looking for {target!r})")
    return getattr(module, name)
