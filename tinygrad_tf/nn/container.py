"""Modules that hold modules: a sequence, a list, a dictionary."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tinygrad_tf.nn.module import Module


class _Indexed(Module):
    """Children named 0, 1, 2 ..."""

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(list(self._modules.values()))

    def _name(self, i: int) -> str:
        names = list(self._modules)
        if not -len(names) <= i < len(names):
            raise IndexError(f"{type(self).__name__} has {len(names)} modules, got index {i}")
        return names[i]

    def __getitem__(self, i: Any) -> Any:
        if isinstance(i, slice):
            return type(self)(*list(self)[i]) if isinstance(self, Sequential) else type(self)(list(self)[i])  # type: ignore[arg-type]
        return self._modules[self._name(int(i))]

    def __setitem__(self, i: int, module: Module) -> None:
        setattr(self, self._name(i), module)

    def __delitem__(self, i: int) -> None:
        rest = [m for m in self if m is not self[i]]
        for name in list(self._modules):
            delattr(self, name)
        for j, module in enumerate(rest):
            self.add_module(str(j), module)

    def append(self, module: Module) -> Any:
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> Any:
        for module in modules:
            self.append(module)
        return self


class Sequential(_Indexed):
    """Modules applied one after the other.

    >>> from tinygrad_tf import nn, zeros
    >>> nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))(zeros(4, 2)).shape
    Size([4, 1])
    """

    def __init__(self, *modules: Any):
        super().__init__()
        if len(modules) == 1 and isinstance(modules[0], OrderedDict):
            for name, module in modules[0].items():
                self.add_module(name, module)
        else:
            self.extend(modules)

    def forward(self, x: Any) -> Any:
        for module in self._modules.values():
            x = module(x)
        return x


class ModuleList(_Indexed):
    """A list of modules whose parameters are found."""

    def __init__(self, modules: Iterable[Module] = ()):
        super().__init__()
        self.extend(modules)

    def insert(self, i: int, module: Module) -> None:
        rest = list(self)
        rest.insert(i, module)
        for j, m in enumerate(rest):
            self.add_module(str(j), m)


class ModuleDict(Module):
    """A dictionary of modules whose parameters are found; they are attributes as well."""

    def __init__(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]] = ()):
        super().__init__()
        self.update(modules)

    def update(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]]) -> None:
        for name, module in modules.items() if isinstance(modules, Mapping) else modules:
            self.add_module(name, module)

    def __getitem__(self, name: str) -> Any:
        return self._modules[name]

    def __setitem__(self, name: str, module: Module) -> None:
        self.add_module(name, module)

    def __contains__(self, name: str) -> bool:
        return name in self._modules

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def keys(self) -> Any:
        return self._modules.keys()

    def values(self) -> Any:
        return self._modules.values()

    def items(self) -> Any:
        return self._modules.items()
