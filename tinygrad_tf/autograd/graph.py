"""The graph itself, as in torch.autograd.graph: its Nodes, hooks on several tensors at once, and what is saved in it.

While hooks on saved tensors are on, operations record Nodes that hand what they save to `pack`; when hooks are off,
operations know nothing of them, and cost what they always cost.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from tinygrad_tf.autograd import _packing, node_hooks  # node_hooks gives Node its hooks
from tinygrad_tf.autograd.differentiate import GradientEdge
from tinygrad_tf.engine import Node, RemovableHandle, clock, current_node
from tinygrad_tf.grad_fn import grad_fn_of
from tinygrad_tf.hooks import under_way
from tinygrad_tf.ops._types import wants_tensor
from tinygrad_tf.tensor import Tensor

__all__ = [
    "GradientEdge",
    "Node",
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
]

assert node_hooks


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """The place in the graph where the gradient of a tensor arrives, which `grad` and `backward` take for the tensor.

    It keeps the graph, and not the tensor's memory.

    >>> import tinygrad_tf as tg
    >>> x = tg.ones(2, requires_grad=True)
    >>> edge = get_gradient_edge(x * 3)
    >>> tg.autograd.grad(edge, x, tg.ones(2))
    (tensor([3., 3.]),)
    """
    if not isinstance(tensor, Tensor):
        raise wants_tensor("get_gradient_edge", "tensor", tensor)
    node = current_node(tensor)
    if node is None:
        raise RuntimeError("get_gradient_edge: this tensor does not require a gradient; set requires_grad first")
    return GradientEdge(grad_fn_of(node), 0)


class _Handles(RemovableHandle):
    """Removes several hooks."""

    def __init__(self, handles: Sequence[RemovableHandle]):
        self.handles = tuple(handles)

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()


def register_multi_grad_hook(
    tensors: Sequence[Tensor], fn: Callable[[Any], None], *, mode: str = "all"
) -> RemovableHandle:
    """Call `fn` once in each backward pass, when the gradients of all (mode="any": one) of the tensors are there.

    With "all" fn is given a list with the gradient of each, None for those that the pass does not come to, or whose
    gradients are not needed for what was asked for; with "any" the gradient that came first. The hook must not change
    what it is given.

    >>> import tinygrad_tf as tg
    >>> a, b = (tg.ones(1, requires_grad=True) for _ in range(2))
    >>> handle = register_multi_grad_hook((a, b), lambda grads: print([g is not None for g in grads]))
    >>> (a * b).sum().backward()
    [True, True]
    >>> (a * 2).sum().backward()
    [True, False]
    """
    if mode not in ("all", "any"):
        raise ValueError(f"register_multi_grad_hook: mode must be 'all' or 'any', got {mode!r}")
    if not callable(fn):
        raise TypeError(f"register_multi_grad_hook: fn must be a function, got {type(fn).__name__}")
    nodes = [get_gradient_edge(t).node for t in tensors if mode == "all" or t.requires_grad]
    seen = _SeenByAll(nodes, fn) if mode == "all" else _SeenFirst(fn)
    watched = [t for t in tensors if t.requires_grad]
    return _Handles([t.register_hook(seen.hook(i)) for i, t in enumerate(watched)])


class _SeenFirst:
    """What hooks in mode "any" share."""

    def __init__(self, fn: Callable[[Any], None]):
        self.fn = fn

    def hook(self, place: int) -> Callable[[Tensor], None]:
        def run(gradient: Tensor) -> None:
            way = under_way.way
            assert way is not None
            if self not in way.noted:
                way.noted[self] = place
                self.fn(gradient)

        return run


class _SeenByAll:
    """What hooks in mode "all" share: the gradients of each walk so far, and how many more will come."""

    def __init__(self, nodes: list[Node], fn: Callable[[Any], None]):
        self.nodes, self.fn = nodes, fn

    def hook(self, place: int) -> Callable[[Tensor], None]:
        def run(gradient: Tensor) -> None:
            way = under_way.way
            assert way is not None
            if self not in way.noted:
                ahead = way.ahead(self.nodes[place])
                way.noted[self] = [None] * len(self.nodes), [sum(node in ahead for node in self.nodes)]
            gradients, missing = way.noted[self]
            gradients[place] = gradient
            missing[0] -= 1
            if not missing[0]:
                self.fn(gradients)

        return run


def increment_version(tensor: Tensor | Iterable[Tensor]) -> None:
    """Say that the memory of a tensor, or of several, was written to by other means, as with NumPy.

    What is saved of it is then known to have lost its value, as after an in-place operation.

    >>> import tinygrad_tf as tg
    >>> x = tg.ones(2)
    >>> x.numpy()[0] = 5.0
    >>> increment_version(x)
    >>> x._version
    1
    """
    for t in (tensor,) if isinstance(tensor, Tensor) else tensor:
        if not isinstance(t, Tensor):
            raise wants_tensor("increment_version", "tensor", t)
        t.storage.written()


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


class _Copies:
    """What allow_mutation_on_saved_tensors gives: the copies that it made, which are dropped at its end."""

    def __init__(self) -> None:
        self.cloned: dict[int, Tensor] = {}

    def clear(self) -> None:
        self.cloned.clear()


@contextlib.contextmanager
def allow_mutation_on_saved_tensors() -> Iterator[_Copies]:
    """Inside, what operations save for their gradients may be changed in place: a copy of it is saved.

    Both the operations and backward belong inside. PyTorch copies when a tensor is changed, here all are copied when
    they are saved: the gradients are the same.

    >>> import tinygrad_tf as tg
    >>> x = tg.ones(2, requires_grad=True)
    >>> with allow_mutation_on_saved_tensors():
    ...     y = x.clone()
    ...     z = (y**2).sum()
    ...     y = y.mul_(5)
    ...     z.backward()
    >>> x.grad
    tensor([2., 2.])
    """
    copies = _Copies()

    def pack(t: Tensor) -> int:
        copies.cloned[key := next(clock)] = t.detach().clone()
        return key

    def unpack(key: int) -> Tensor:
        if key not in copies.cloned:
            raise RuntimeError("backward outside of the allow_mutation_on_saved_tensors that recorded the graph")
        return copies.cloned[key]

    with saved_tensors_hooks(pack, unpack):
        try:
            yield copies
        finally:
            copies.clear()
