"""Parameter: a tensor that a module trains; Buffer: one that it only keeps."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinygrad_tf import engine
from tinygrad_tf.tensor import Tensor


class Parameter(Tensor):
    """A tensor that requires a gradient and that a Module finds by itself when it is set as an attribute.

    >>> from tinygrad_tf import nn, ones
    >>> nn.Parameter(ones(2))
    Parameter containing:
    tensor([1., 1.], requires_grad=True)
    """

    def __init__(self, data: Tensor | None = None, requires_grad: bool = True):
        array = np.zeros(0, np.float32) if data is None else data.array
        self.array, self.node, self.grad, self.storage, self.view_of = array, None, None, engine.Storage(), None
        if requires_grad:
            engine.leaf(self)

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return super().__deepcopy__(memo)


class Buffer(Tensor):
    """A tensor that is saved with the module but not trained (masks, tables of positions)."""

    def __init__(self, data: Tensor, persistent: bool = True):
        self.array, self.node, self.grad, self.storage, self.view_of = data.array, None, None, data.storage, None
        self.persistent = persistent
