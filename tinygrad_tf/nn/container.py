"""Modules that hold modules (a sequence, a list, a dictionary), and a list and a dictionary of parameters."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from typing import Any, Self

from tinygrad_tf.nn.module import Module
from tinygrad_tf.nn.parameter import Parameter
from tinygrad_tf.tensor import Tensor

Pairs = Mapping[str, Any] | Iterable[tuple[str, Any]]


class _Indexed(Module):
    """Entries that are attributes named 0, 1, 2 ..."""

    def __init__(self, entries: Iterable[Any] | None = None):
        super().__init__()
        self.extend(() if entries is None else entries)

    def _entries(self) -> dict[str, Any]:
        return self._modules

    def _set(self, name: str, entry: Any) -> None:
        self.add_module(name, entry)

    def _replace_all(self, entries: Iterable[Any]) -> None:
        for name in self._entries():
            delattr(self, name)
        self.extend(entries)

    def __len__(self) -> int:
        return len(self._entries())

    def __iter__(self) -> Iterator[Any]:
        return iter(list(self._entries().values()))

    def _name(self, i: int) -> str:
        names = list(self._entries())
        if not -len(names) <= i < len(names):
            raise IndexError(f"{type(self).__name__} has {len(names)} entries, got index {i}")
        return names[i]

    def __getitem__(self, i: Any) -> Any:
        return type(self)(list(self)[i]) if isinstance(i, slice) else self._entries()[self._name(int(i))]

    def __setitem__(self, i: int, entry: Any) -> None:
        self._set(self._name(int(i)), entry)

    def __delitem__(self, i: int | slice) -> None:
        entries = list(self)
        del entries[i]
        self._replace_all(entries)

    def append(self, entry: Any) -> Self:
        self._set(str(len(self)), entry)
        return self

    def extend(self, entries: Iterable[Any]) -> Self:
        for entry in list(entries):
            self.append(entry)
        return self

    def insert(self, index: int, module: Any) -> Self:
        entries = list(self)
        entries.insert(index, module)
        self._replace_all(entries)
        return self

    def pop(self, key: int) -> Any:
        entry = self[key]
        del self[key]
        return entry

    def __add__(self, other: Iterable[Any]) -> Self:
        return type(self)([*self, *other])

    def __iadd__(self, other: Iterable[Any]) -> Self:
        return self.extend(other)


class Sequential(_Indexed):
    """Modules applied one after the other; an OrderedDict gives them names.

    >>> from tinygrad_tf import nn, zeros
    >>> nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))(zeros(4, 2)).shape
    torch.Size([4, 1])
    """

    def __init__(self, *modules: Any):
        super().__init__()
        if len(modules) == 1 and isinstance(modules[0], OrderedDict):
            for name, module in modules[0].items():
                self.add_module(name, module)
        else:
            self.extend(modules)

    def __getitem__(self, i: Any) -> Any:
        return (
            type(self)(OrderedDict(list(self._modules.items())[i])) if isinstance(i, slice) else super().__getitem__(i)
        )

    def __add__(self, other: Iterable[Any]) -> Sequential:
        return Sequential(*self, *other)

    def __mul__(self, times: int) -> Sequential:
        """The same modules several times over."""
        if not isinstance(times, int):
            return NotImplemented
        if times < 1:
            raise ValueError(f"Sequential: can be repeated from 1 time on, got {times}")
        return Sequential(*list(self) * times)

    __rmul__ = __mul__

    def __imul__(self, times: int) -> Sequential:
        return self.extend(list(self * times)[len(self) :])

    def forward(self, input: Any) -> Any:
        for module in self._modules.values():
            input = module(input)
        return input


class ModuleList(_Indexed):
    """A list of modules whose parameters are found. None may stand in a place that has no module."""

    def __init__(self, modules: Iterable[Module | None] | None = None):
        super().__init__(modules)

    def _entries(self) -> dict[str, Any]:
        return {name: entry for name, entry in self.__dict__.items() if name.isdigit()}

    def _child_lines(self) -> list[str]:
        """Equal neighbours are printed once: (0-3): 4 x Linear(...)."""
        groups: list[tuple[int, str]] = []
        for text in map(repr, self):
            if groups and groups[-1][1] == text:
                groups[-1] = (groups[-1][0] + 1, text)
            else:
                groups.append((1, text))
        lines, start = [], 0
        for count, text in groups:
            where = f"({start})" if count == 1 else f"({start}-{start + count - 1})"
            lines.append(f"{where}: {text}" if count == 1 else f"{where}: {count} x {text}")
            start += count
        return lines


class ParameterList(_Indexed):
    """A list of parameters that are found; tensors in it become Parameters. Such lists may stand in it, too."""

    def __init__(self, values: Iterable[Any] | None = None):
        super().__init__(values)

    def _entries(self) -> dict[str, Any]:
        return {name: entry for name, entry in self.__dict__.items() if name.isdigit()}

    def _set(self, name: str, entry: Any) -> None:
        setattr(self, name, entry if isinstance(entry, Module) else _as_parameter(entry))

    def extra_repr(self) -> str:
        return "\n".join(f"  ({name}): {_described(p, str(p.dtype))}" for name, p in self._parameters.items())


class _Named(Module):
    """Entries by name, which are attributes as well."""

    def _entries(self) -> dict[str, Any]:
        return self._modules

    def update(self, entries: Pairs) -> None:
        for name, entry in list(entries.items() if isinstance(entries, Mapping) else entries):
            self[name] = entry

    def __getitem__(self, key: str) -> Any:
        return self._entries()[key]

    def __setitem__(self, key: str, entry: Any) -> None:
        self.add_module(key, entry)

    def __delitem__(self, key: str) -> None:
        if key not in self._entries():
            raise KeyError(key)
        delattr(self, key)

    def __contains__(self, key: object) -> bool:
        return key in self._entries()

    def __len__(self) -> int:
        return len(self._entries())

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries())

    def keys(self) -> KeysView[str]:
        return self._entries().keys()

    def values(self) -> ValuesView[Any]:
        return self._entries().values()

    def items(self) -> ItemsView[str, Any]:
        return self._entries().items()

    def pop(self, key: str) -> Any:
        entry = self[key]
        del self[key]
        return entry

    def clear(self) -> None:
        for name in self._entries():
            delattr(self, name)


class ModuleDict(_Named):
    """A dictionary of modules whose parameters are found; they are attributes as well."""

    def __init__(self, modules: Pairs | None = None):
        super().__init__()
        self.update(() if modules is None else modules)


class ParameterDict(_Named):
    """A dictionary of parameters that are found; tensors in it become Parameters."""

    def __init__(self, parameters: Pairs | None = None):
        super().__init__()
        self.update(() if parameters is None else parameters)

    def _entries(self) -> dict[str, Any]:
        return self._parameters

    def __setitem__(self, key: str, entry: Any) -> None:
        self.register_parameter(key, _as_parameter(entry))

    def extra_repr(self) -> str:
        return "\n".join(f"  ({name}): {_described(p, p.type())}" for name, p in self._parameters.items())


def _as_parameter(entry: Any) -> Parameter:
    if not isinstance(entry, Tensor):
        raise TypeError(f"a list or dictionary of parameters holds tensors, got {type(entry).__name__}")
    return entry if isinstance(entry, Parameter) else Parameter(entry)


def _described(p: Parameter, kind: str) -> str:
    return f"Parameter containing: [{kind} of size {'x'.join(map(str, p.shape))}]"
