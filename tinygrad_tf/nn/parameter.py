"""Parameter: a tensor that a module trains; Buffer: one that it only keeps."""

from __future__ import annotations

from typing import Any

from tinygrad_tf.ops._types import wants_tensor
from tinygrad_tf.tensor import Tensor


def _checked(name: str, data: Any) -> Tensor:
    if not isinstance(data, Tensor):
        raise wants_tensor(name, "data", data)
    return data


class Parameter(Tensor):
    """A tensor that requires a gradient and that a Module finds by itself when it is set as an attribute.

    >>> from tinygrad_tf import nn, ones
    >>> nn.Parameter(ones(2))
    Parameter containing:
    tensor([1., 1.], requires_grad=True)
    """

    def __init__(self, data: Tensor | None = None, requires_grad: bool = True):
        super().__init__(Tensor(0) if data is None else _checked("Parameter", data), requires_grad=requires_grad)

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return super().__deepcopy__(memo)


class Buffer(Tensor):
    """A tensor that is saved with the module but not trained (masks, tables of positions)."""

    def __init__(self, data: Tensor, persistent: bool = True):
        super().__init__(_checked("Buffer", data))
        self.persistent = persistent
