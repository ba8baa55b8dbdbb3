"""How a call of a Function is recorded: one Node that holds the context, whose rule is the Function's `backward`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tinygrad_tf import engine
from tinygrad_tf.autograd._context import MISSING, Context, result_node
from tinygrad_tf.engine import Node, Tensor, make
from tinygrad_tf.graph import of_function
from tinygrad_tf.operation import Edges
from tinygrad_tf.ops import inplace

if TYPE_CHECKING:
    from tinygrad_tf.autograd.function import Function


class _Call(engine.Operation):
    """One call of a Function, as the engine sees it."""

    def __init__(self, function: type[Function], context: Context):
        self.function, self.name = function, f"{function.__name__}Backward"
        self.outputs = context._outputs

    def pull(self, node: Node, edges: Edges, g: Any, create_graph: bool, own: bool = False) -> Sequence[Any]:
        context = self.load(node, create_graph)["context"]
        given = [g] if len(self.outputs) == 1 else list(g)
        found = iter([self._tensor(i, g, create_graph, context) for i, g in enumerate(given)])
        gradients = [next(found) if is_tensor else None for is_tensor in context._are_tensors]
        backward = getattr(self.function, "backward", None) or getattr(self.function, "vjp", None)
        if backward is None:
            raise NotImplementedError(f"{self.function.__name__} needs a static method `backward` to be differentiated")
        returned = backward(context, *gradients)
        parts = list(returned) if isinstance(returned, (tuple, list)) else [returned]
        return [p if p is None or create_graph else p.array for p in self._checked(node, parts)]

    def _tensor(self, slot: int, g: Any, create_graph: bool, context: Context) -> Any:
        if g is not MISSING:
            return g if create_graph else make(g)
        shape, dtype = self.outputs[slot]
        return make(np.zeros(shape, dtype)) if context._materialize else None

    def _checked(self, node: Node, parts: list[Any]) -> list[Any]:
        """One gradient for each input, None where none is wanted; clear errors for what does not fit."""
        count = len(node.edges)
        extra = parts[count:]
        if len(parts) < count or any(p is not None for p in extra):
            raise RuntimeError(
                f"{self.name} returned an incorrect number of gradients (expected {count}, got {len(parts)})"
            )
        for i, (part, edge) in enumerate(zip(parts[:count], node.edges, strict=True)):
            if part is not None and not isinstance(part, Tensor):
                raise TypeError(f"{self.name} must return a Tensor or None for input {i}, got {type(part).__name__}")
            if edge is None:
                if part is not None and i in node.options["not_tensors"]:
                    raise RuntimeError(
                        f"{self.name} returned a gradient for input {i}, which was not a Tensor; return None for it"
                    )
                parts[i] = None
            elif part is not None and not _reducible(part.array.shape, edge.shape):
                raise RuntimeError(
                    f"{self.name} returned an invalid gradient for input {i}: got shape {part.array.shape}, "
                    f"expected {edge.shape} (the shape of the input)"
                )
        return parts[:count]

    def attribute(self, node: Node, name: str) -> Any:
        """What PyTorch shows of the context at the Node of its call: saved_tensors, and what forward set."""
        if node.saved is None:
            raise AttributeError(f"{name}: the graph of {self.name} was released, and its context with it")
        return getattr(dict([item[:2] for item in node.saved])["context"], name)


def _reducible(shape: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """Whether summing broadcast axes leads from `shape` to `wanted` (the walk does it)."""
    extra = len(shape) - len(wanted)
    return extra >= 0 and all(n in (1, m) for n, m in zip(wanted, shape[extra:], strict=True))


def check_dirty(cls: type[Function], context: Context, outputs: list[Any], recording: bool) -> None:
    """What forward changed in place must be a result, and must be allowed to change."""
    if {id(t) for t in context._dirty} - {id(t) for t in outputs}:
        raise RuntimeError(f"{cls.__name__}: an input marked dirty must be returned as a result")
    for t in context._dirty:
        inplace.check_writable(cls.__name__, t, recording)


def unrecorded(context: Context, inputs: Sequence[Any], outputs: list[Any]) -> list[Any]:
    """The results without Nodes; an input that is handed on unchanged becomes a tensor of its own on its memory."""
    for t in context._dirty:
        inplace.adopt(t, None)
    given = {id(x) for x in inputs} - {id(t) for t in context._dirty}
    return [make(t.array, None, t.storage) if id(t) in given and isinstance(t, Tensor) else t for t in outputs]


def recorded(
    cls: type[Function], context: Context, inputs: Sequence[Any], nodes: list[Node | None], outputs: list[Any]
) -> list[Any]:
    """The results with their Nodes; what is not a tensor, or has no gradient, as it is."""
    without = {id(t) for t in context._without_gradient}
    dirty = {id(t) for t in context._dirty}
    given = {id(x) for x in inputs}
    context._are_tensors = [isinstance(t, Tensor) for t in outputs]
    tensors = [t for t in outputs if isinstance(t, Tensor)]
    context._outputs.extend((t.array.shape, t.array.dtype) for t in tensors)
    value = tensors[0].array if len(tensors) == 1 else np.empty(len(tensors), object)
    others = frozenset(i for i, x in enumerate(inputs) if not isinstance(x, Tensor))
    node = engine.Node(_Call(cls, context), nodes, {"not_tensors": others}, value)
    node.saved = [("context", context, None, None)]
    results: list[Any] = []
    slot = 0
    for t in outputs:
        if not isinstance(t, Tensor):
            results.append(t)
            continue
        made = None
        if id(t) not in without and t.array.dtype.kind in "fV":
            view_of = None if id(t) in dirty else _lent(cls, t, given)
            made = make(t.array, node if len(tensors) == 1 else result_node(node, slot), t.storage, view_of)
        if id(t) in dirty:
            inplace.adopt(t, made)
            if made is None:  # what it was computed from is no longer what it holds
                t.node, t.view_of = None, None
            made = t
        results.append(make(t.array, None, t.storage) if made is None else made)
        slot += 1
    context._keep(node, inputs, nodes, tensors)
    return results


def _lent(cls: type[Function], t: Tensor, given: set[int]) -> Any:
    """What a result in the memory of an input is a view of: writing to it would change the input unseen."""
    base = t.view_of[0] if t.view_of is not None else t
    if (base is t and id(t) not in given) or base.node is None:
        return None
    if cls.hands_on and base.node.operation is not None:
        return None
    return base, ((of_function, {}),)
