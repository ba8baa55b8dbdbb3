"""Parameters that are computed from others each time they are read: symmetric, masked, of a given norm.

A module that has one becomes of a class of its own, `Parametrized...`, on which the parameter is a property; what it is
computed from is trained, and stands in module.parametrizations.NAME.original.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tinygrad_tf.autograd.grad_mode import no_grad
from tinygrad_tf.nn.container import ModuleDict, ModuleList
from tinygrad_tf.nn.module import Module
from tinygrad_tf.nn.parameter import Parameter
from tinygrad_tf.tensor import Tensor

_cache: dict[tuple[int, str], Tensor] | None = None  # of the values read inside `cached`


@contextmanager
def cached() -> Iterator[None]:
    """Inside, each parametrized tensor is computed once, however often it is read."""
    global _cache
    before, _cache = _cache, {} if _cache is None else _cache
    try:
        yield
    finally:
        _cache = before


class ParametrizationList(ModuleList):
    """The functions that one tensor goes through, and what they start from: `original`, or original0, original1, ..."""

    def __init__(self, parametrizations: list[Module], original: Tensor):
        super().__init__(parametrizations)
        start = self._inverted(original)
        self.is_tensor = isinstance(start, Tensor)
        trained = isinstance(original, Parameter)
        for name, tensor in zip(self._names(start), [start] if self.is_tensor else start, strict=True):
            if trained:
                keep = tensor is original
                setattr(self, name, original if keep else Parameter(tensor.detach(), original.requires_grad))
            else:
                self.register_buffer(name, tensor)

    def _names(self, start: Any) -> list[str]:
        return ["original"] if self.is_tensor else [f"original{i}" for i in range(len(start))]

    def _inverted(self, value: Any) -> Any:
        """What the functions make `value` of, where they say so by a method right_inverse."""
        with no_grad():
            for function in reversed(list(self)):
                if hasattr(function, "right_inverse"):
                    value = function.right_inverse(value)
        return value

    def right_inverse(self, value: Tensor) -> None:
        """Write to the originals, so that the tensor becomes `value`."""
        start = self._inverted(value)
        with no_grad():
            for name, tensor in zip(self._names(start), [start] if self.is_tensor else start, strict=True):
                getattr(self, name).copy_(tensor)

    def forward(self) -> Tensor:
        first, *others = list(self)
        if self.is_tensor:
            value = first(self.original)
        else:
            starts = [getattr(self, f"original{i}") for i in range(sum(k.startswith("original") for k in vars(self)))]
            value = first(*starts)
        for function in others:
            value = function(value)
        return value


def _read(module: Module, name: str) -> Tensor:
    key = (id(module), name)
    if _cache is None:
        return module.parametrizations[name]()
    if key not in _cache:
        _cache[key] = module.parametrizations[name]()
    return _cache[key]


def _property(name: str) -> property:
    def write(module: Any, value: Tensor) -> None:
        module.parametrizations[name].right_inverse(value)

    return property(lambda module: _read(module, name), write)


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Have module.NAME computed by `parametrization` from what it was; several are applied in their order.

    A method right_inverse(value) of the parametrization says what to start from, so that the value stays, and lets
    module.NAME be assigned to. unsafe=True allows another shape or dtype.

    >>> from tinygrad_tf import nn
    >>> class Symmetric(nn.Module):
    ...     def forward(self, x):
    ...         return x.triu() + x.triu(1).T
    >>> layer = register_parametrization(nn.Linear(3, 3), "weight", Symmetric())
    >>> bool((layer.weight == layer.weight.T).all()), [name for name, _ in layer.named_parameters()]
    (True, ['bias', 'parametrizations.weight.original'])
    """
    if not isinstance(parametrization, Module):
        raise TypeError(f"parametrization must be a Module, got {type(parametrization).__name__}")
    if is_parametrized(module, tensor_name):
        if not unsafe:
            with no_grad():
                value = getattr(module, tensor_name)
                _check(tensor_name, value, parametrization(value))
        module.parametrizations[tensor_name].append(parametrization)
        return module
    original = module.__dict__.get(tensor_name)
    if not isinstance(original, Tensor):
        kind = type(module).__name__
        raise ValueError(f"register_parametrization: {kind} has no parameter or buffer {tensor_name!r}")
    functions = ParametrizationList([parametrization], original)
    if not unsafe:
        _check(tensor_name, original, functions())
    if not is_parametrized(module):
        base = type(module)
        module.__class__ = type(f"Parametrized{base.__name__}", (base,), {"__module__": base.__module__})
        module.parametrizations = ModuleDict()
    del module.__dict__[tensor_name]
    names = {name: kept for name, kept in module._buffer_names.items() if name != tensor_name}
    object.__setattr__(module, "_buffer_names", names)
    setattr(type(module), tensor_name, _property(tensor_name))
    module.parametrizations[tensor_name] = functions
    return module


def _check(name: str, before: Tensor, after: Tensor) -> None:
    if after.shape != before.shape or after.dtype != before.dtype:
        raise ValueError(
            f"register_parametrization: {name!r} of shape {tuple(before.shape)} and {before.dtype} would become of "
            f"shape {tuple(after.shape)} and {after.dtype}; pass unsafe=True to allow it"
        )


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether the module has parametrized tensors, or the one of this name."""
    parametrizations = module.__dict__.get("parametrizations")
    if not isinstance(parametrizations, ModuleDict) or not len(parametrizations):
        return False
    return tensor_name is None or tensor_name in parametrizations


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Make module.NAME an ordinary parameter again: with the computed value, or (False) with the original."""
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"remove_parametrizations: {type(module).__name__} has no parametrization on {tensor_name!r}")
    functions = module.parametrizations[tensor_name]
    if not leave_parametrized and not functions.is_tensor:
        raise ValueError(
            f"remove_parametrizations: {tensor_name!r} is computed from several tensors; pass leave_parametrized=True"
        )
    trained = isinstance(getattr(functions, "original" if functions.is_tensor else "original0"), Parameter)
    with no_grad():
        value = getattr(module, tensor_name) if leave_parametrized else functions.original
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    if trained:
        kept = value if isinstance(value, Parameter) else Parameter(value.detach().clone())
        setattr(module, tensor_name, kept)
    else:
        module.register_buffer(tensor_name, value)
    if not len(module.parametrizations):
        del module.__dict__["parametrizations"]
        module.__class__ = type(module).__bases__[0]
    return module


__all__ = ["ParametrizationList", "cached", "is_parametrized", "register_parametrization", "remove_parametrizations"]
