"""What happens to the tensors that operations save for their gradients, as in torch.autograd.graph.

While hooks are on, operations record Nodes that hand what they save to `pack`; when hooks are off, operations know
nothing of them, and cost what they always cost.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from tinygrad_tf.autograd import _packing
from tinygrad_tf.engine import Node
from tinygrad_tf.tensor import Tensor

__all__ = ["Node", "disable_saved_tensors_hooks", "save_on_cpu", "saved_tensors_hooks"]


class saved_tensors_hooks:
    """Keep what operations save for the backward pass as `pack_hook` returns it, until `unpack_hook` makes it a tensor.

    Inside the `with` block, in this thread, every tensor that an operation saves goes through pack_hook(tensor), which
    may return anything: a smaller copy, the name of a file. When the gradient of the operation is computed,
    unpack_hook(that) must return a tensor of the same shape and dtype. Neither may change its argument in place. Of
    several pairs the innermost counts. What is saved: inputs and results that a gradient rule reads, indices and
    targets, what fused kernels keep, and what the context of an autograd.Function was given; a checkpoint saves
    its arguments alone.

    >>> import tinygrad_tf as tg
    >>> shapes = []
    >>> x = tg.ones(3, requires_grad=True)
    >>> with saved_tensors_hooks(lambda t: (shapes.append(tuple(t.shape)), t.half())[1], lambda t: t.float()):
    ...     y = (x * x).sum()
    >>> y.backward()
    >>> shapes, x.grad
    ([(3,), (3,)], tensor([2., 2., 2.]))
    """

    def __init__(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]):
        for name, hook in (("pack_hook", pack_hook), ("unpack_hook", unpack_hook)):
            if not callable(hook):
                raise TypeError(f"saved_tensors_hooks: {name} must be a function, got {type(hook).__name__}")
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook

    def __enter__(self) -> None:
        if _packing.state.refusal is not None:
            raise RuntimeError(_packing.state.refusal)
        _packing.enter(_packing.Hooks(self.pack_hook, self.unpack_hook))

    def __exit__(self, *_: Any) -> None:
        _packing.leave()


class save_on_cpu(saved_tensors_hooks):
    """Keep what is saved on the CPU, where every tensor is already; with pin_memory=True, as in PyTorch, a copy of it.

    >>> import tinygrad_tf as tg
    >>> x = tg.ones(2, requires_grad=True)
    >>> with save_on_cpu():
    ...     y = x.exp().sum()
    >>> y.backward()
    >>> x.grad
    tensor([2.7183, 2.7183])
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda"):
        super().__init__((lambda t: t.detach().clone()) if pin_memory else (lambda t: t.cpu()), lambda t: t)


@contextlib.contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """Inside, hooks may not be switched on in this thread: a RuntimeError with this message.

    >>> with disable_saved_tensors_hooks("not here"):
    ...     try:
    ...         with save_on_cpu():
    ...             pass
    ...     except RuntimeError as error:
    ...         print(error)
    not here
    """
    if _packing.state.innermost() is not None:
        raise RuntimeError(error_message)
    before, _packing.state.refusal = _packing.state.refusal, error_message
    try:
        yield
    finally:
        _packing.state.refusal = before
