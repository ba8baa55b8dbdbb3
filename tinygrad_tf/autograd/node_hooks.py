"""Hooks on the steps of a graph: grad_fn.register_prehook sees what comes to a Node, register_hook also what goes on.

A Node that has hooks gets an operation that stands for its own in the walk and calls them around it, so that the walk
knows nothing of them. A leaf has no operation: its gradient comes by a hook of its tensor, and when it was added to
`.grad` by one that runs after the walk.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tinygrad_tf.autograd._context import MISSING
from tinygrad_tf.engine import Node, RemovableHandle, Tensor, cast, check_gradient, make, sum_to
from tinygrad_tf.grad_fn import GradFn
from tinygrad_tf.hooks import after_adding, memory_to_change, put_hook, under_way
from tinygrad_tf.operation import Edges
from tinygrad_tf.regions import Region, assemble

Gradients = tuple[Any, ...]


class _Hooked:
    """Stands for the operation of a Node that has hooks. before: hook(grad_outputs); after: hook(grad_inputs, ...)."""

    gives_new_arrays, view = False, False  # a hook may hold on to what it saw, or hand it out

    def __init__(self, operation: Any):
        self.operation = operation
        self.before: dict[int, Callable[[Gradients], Any]] = {}
        self.after: dict[int, Callable[[Gradients, Gradients], Any]] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.operation, name)

    def pull(self, node: Node, edges: Edges, g: Any, create_graph: bool, own: bool = False) -> Sequence[Any]:
        if not any(edges):  # it was released, and says so
            return self.operation.pull(node, edges, g, create_graph, own)
        several = node.dtype == object  # a call of a Function with several results: their gradients come in slots
        outputs: Gradients = tuple([_output(part, create_graph) for part in (g if several else (g,))])
        results = self.operation.outputs if several else [(node.shape, node.dtype)]
        for before in list(self.before.values()):
            outputs = _replaced("register_prehook", before(outputs), outputs, results)
        arrays = [MISSING if t is None else t if create_graph else t.array for t in outputs]
        parts = self.operation.pull(node, edges, _slots(arrays) if several else arrays[0], create_graph)
        if not self.after:
            return parts
        inputs = tuple([_shown(part, edge) for part, edge in zip(parts, edges, strict=True)])
        wanted = [edge if edge is None else (edge.shape, edge.dtype) for edge in edges]
        for after in list(self.after.values()):
            inputs = _replaced("register_hook", after(inputs, outputs), inputs, wanted)
        return [part if part is None or create_graph else part.array for part in inputs]


def _output(part: Any, create_graph: bool) -> Any:
    """The gradient of a result as a tensor; None for that of a result which nothing was made of."""
    if part is MISSING:
        return None
    return part if create_graph else make(memory_to_change(part))


def _slots(parts: list[Any]) -> np.ndarray:
    slots = np.empty(len(parts), object)
    for i, part in enumerate(parts):
        slots[i] = part
    return slots


def _shown(part: Any, edge: Node | None) -> Any:
    """What a rule gave for an input, as the tensor that the walk will make of it."""
    if edge is None or part is None:
        return None
    if type(part) is Region:
        return make(assemble([part], edge.shape, edge.dtype)[0])
    shown = part if isinstance(part, Tensor) else make(memory_to_change(np.asarray(part)))
    if shown.array.shape != edge.shape:
        shown = sum_to(shown, shape=edge.shape)
    return shown if shown.array.dtype == edge.dtype else cast(shown, dtype=edge.dtype)


def _replaced(
    name: str, returned: Any, before: Gradients, wanted: Sequence[tuple[tuple[int, ...], Any] | None]
) -> Gradients:
    """The gradients that a hook returned, or those before if it returned None. wanted: their shapes and dtypes."""
    if returned is None:
        return before
    found = tuple(returned) if isinstance(returned, (tuple, list)) else (returned,)
    if len(found) != len(before):
        raise RuntimeError(f"{name}: the hook must return {len(before)} gradients or None, got {len(found)}")
    if any(g is not None and was is None for g, was in zip(found, before, strict=True)):
        raise RuntimeError(f"{name}: the hook must return None where there was no gradient, got {found}")
    for g, like in zip(found, wanted, strict=True):
        if g is not None and like is not None:
            check_gradient(f"the gradient that a hook of {name} returns", g, *like)
    return found


def _hooked(name: str, node: Node, hook: Any) -> _Hooked | None:
    """The operation that calls the hooks of this Node; None for a leaf."""
    if not callable(hook):
        raise TypeError(f"{name}: hook must be a function, got {type(hook).__name__}")
    if node.operation is not None and not isinstance(node.operation, _Hooked):
        node.operation = _Hooked(node.operation)
    return node.operation


def register_prehook(self: Node, hook: Callable[[Gradients], Any]) -> RemovableHandle:
    """Call hook(grad_outputs) before this step back; what it returns takes the place of the tuple.

    grad_outputs: a tuple of one; of a Function with several results that of each, None where nothing was made of it.

    It comes after the hooks of the tensor. On a leaf it is called by backward alone.

    >>> import tinygrad_tf as tg
    >>> x = tg.ones(2, requires_grad=True)
    >>> y = x * 3
    >>> handle = y.grad_fn.register_prehook(lambda grad_outputs: (grad_outputs[0] * 2,))
    >>> y.sum().backward()
    >>> x.grad
    tensor([6., 6.])
    """
    hooked = _hooked("register_prehook", self, hook)
    if hooked is not None:
        return put_hook(hooked.before, hook)

    def of_leaf(g: Any) -> Any:
        if under_way.way is not None and under_way.way.targets is not None:
            return None
        return _replaced("register_prehook", hook((g,)), (g,), [(self.shape, self.dtype)])[0]

    self.hooks = self.hooks or {}
    return put_hook(self.hooks, of_leaf)


def register_hook(self: Node, hook: Callable[[Gradients, Gradients], Any]) -> RemovableHandle:
    """Call hook(grad_inputs, grad_outputs) after this step back; what it returns takes the place of grad_inputs.

    grad_inputs: for each input of the step its gradient, None where none is wanted. grad_outputs: as register_prehook
    has them. On a leaf it is called when the gradient was added to `.grad`, where there are no grad_inputs.

    >>> import tinygrad_tf as tg
    >>> x = tg.ones(2, requires_grad=True)
    >>> y = x * 3
    >>> handle = y.grad_fn.register_hook(lambda grad_inputs, grad_outputs: print(grad_inputs, grad_outputs))
    >>> y.sum().backward()
    (tensor([3., 3.]), None) (tensor([1., 1.]),)
    """
    hooked = _hooked("register_hook", self, hook)
    if hooked is not None:
        return put_hook(hooked.after, hook)
    return put_hook(after_adding.setdefault(self, {}), lambda leaf, g: hook((), (g,)))


GradFn.register_hook, GradFn.register_prehook = register_hook, register_prehook
