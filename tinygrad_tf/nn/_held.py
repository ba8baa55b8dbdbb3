"""What a module holds, by name, as a dictionary: changing that changes the module."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tinygrad_tf.nn.module import Module


class Held(dict[str, Any]):
    """The parameters or modules that are attributes of a module. Code that exchanges layers writes into it."""

    __slots__ = ("module",)

    def __init__(self, module: Module, found: dict[str, Any]):
        super().__init__(found)
        self.module = module

    def __setitem__(self, name: str, value: Any) -> None:
        object.__setattr__(self.module, name, value)
        super().__setitem__(name, value)

    def __delitem__(self, name: str) -> None:
        super().__delitem__(name)
        delattr(self.module, name)

    pop, popitem, clear = MutableMapping.pop, MutableMapping.popitem, MutableMapping.clear
    update, setdefault = MutableMapping.update, MutableMapping.setdefault

    def __reduce__(self) -> Any:
        return dict, (dict(self),)


class HeldBuffers(Held):
    """The buffers of a module; a new one belongs to its state_dict."""

    __slots__ = ()

    def __setitem__(self, name: str, value: Any) -> None:
        if name not in self.module._buffer_names:
            object.__setattr__(self.module, "_buffer_names", {**self.module._buffer_names, name: True})
        super().__setitem__(name, value)

    def __delitem__(self, name: str) -> None:
        super().__delitem__(name)
        names = {k: v for k, v in self.module._buffer_names.items() if k != name}
        object.__setattr__(self.module, "_buffer_names", names)
