"""Parameter: a tensor that a module trains; Buffer: one that it only keeps."""

from __future__ import annotations

from typing import Any

from tinygrad_tf.creation import zeros
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
        """A copy without the gradient, as PyTorch's of a Parameter is: what is done with a copied model is its own."""
        copy = super().__deepcopy__(memo)
        copy.grad = None
        return copy


class UninitializedParameter(Parameter):
    """A Parameter of a lazy layer that has not seen an input: it has no shape, and becomes a Parameter with one.

    >>> from tinygrad_tf import nn
    >>> nn.LazyLinear(3).weight
    <UninitializedParameter>
    """

    @property
    def shape(self) -> Any:
        raise RuntimeError("an uninitialized parameter has no shape before its layer's first input: call forward first")

    def materialize(self, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Become a Parameter of zeros of that shape."""
        self.data = zeros(*shape, device=device, dtype=self.dtype if dtype is None else dtype)
        self.__class__ = Parameter  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


class Buffer(Tensor):
    """A tensor that is saved with the module but not trained (masks, tables of positions)."""

    def __init__(self, data: Tensor, persistent: bool = True):
        super().__init__(_checked("Buffer", data))
        self.persistent = persistent
