"""What one call of a Function leaves for the way back: its context, and small Nodes for several results.

An operation with several results gets a Node for each of them besides that of the call: it puts the result's gradient
into its slot, and the walk hands all slots to `backward` together.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from tinygrad_tf import engine
from tinygrad_tf.autograd._packing import kept_of_context
from tinygrad_tf.engine import Node, Storage, Tensor, make
from tinygrad_tf.operation import Edges

Saved = tuple[Any, Storage | None, Any]  # array, its storage, and the Node of an input or the number of a result


class _Missing:
    """The gradient of a result that nothing depends on: adding it changes nothing."""

    __array_ufunc__ = None

    def __add__(self, other: Any) -> Any:
        return other

    __radd__ = __add__


MISSING = _Missing()


class Context:
    """What `forward` leaves for `backward`: saved tensors, and any attribute you set."""

    def __init__(self) -> None:
        self.needs_input_grad: tuple[bool, ...] = ()
        self._to_save: tuple[Any, ...] = ()
        self._without_gradient: tuple[Any, ...] = ()
        self._dirty: tuple[Any, ...] = ()
        self._materialize = True
        self._saved: list[Saved] = []
        self._node: weakref.ref[Node] | None = None  # the Node holds the context, so the way back must be weak
        self._since = 0  # saved memory that was written to later than this has lost its value
        self._outputs: list[tuple[tuple[int, ...], Any]] = []
        self._are_tensors: list[bool] = []  # all results in order; backward gets None for those that are none

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep inputs and results (or None) for backward, which gets them as `ctx.saved_tensors`."""
        for i, t in enumerate(tensors):
            if t is not None and not isinstance(t, Tensor):
                raise TypeError(
                    f"save_for_backward keeps tensors or None, but argument {i} is {type(t).__name__}; "
                    "keep other things as attributes (ctx.name = ...)"
                )
        self._to_save = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """PyTorch keeps these for `jvp`. Tangents come by way of `backward` here, so nothing asks for them."""

    def mark_non_differentiable(self, *outputs: Any) -> None:
        """Say that these results have no gradient; integer results never have one."""
        self._without_gradient = outputs

    def mark_dirty(self, *inputs: Any) -> None:
        """Say that `forward` changed these inputs in place and returns them."""
        for i, t in enumerate(inputs):
            if not isinstance(t, Tensor):
                raise TypeError(
                    f"mark_dirty takes the tensors that were changed, but argument {i} is {type(t).__name__}"
                )
        self._dirty = inputs

    def set_materialize_grads(self, value: bool) -> None:
        """False: backward gets None instead of zeros for a result that nothing depends on."""
        self._materialize = bool(value)

    def _keep(self, node: Node, inputs: Sequence[Any], nodes: list[Node | None], tensors: list[Any]) -> None:
        """Turn what was saved into arrays and the places they come from, so that no circle keeps the graph alive."""
        places: dict[int, Any] = {id(x): n for x, n in zip(inputs, nodes, strict=True)}
        places.update({id(t): slot for slot, t in enumerate(tensors)})
        for t in self._to_save:
            if t is None:
                self._saved.append((None, None, None))
            else:
                place = places.get(id(t), t.node)
                self._saved.append((t.array, t.storage, place))
        self._saved = kept_of_context(self._saved)
        self._to_save, self._without_gradient, self._dirty = (), (), ()
        self._node, self._since = weakref.ref(node), next(engine.clock)

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What `save_for_backward` kept, with its graph; an error if it was changed in place since."""
        if self._node is None:
            return self._to_save
        node = self._node()
        if node is None or node.saved is None:
            raise RuntimeError("the graph of this call was released, and its saved tensors with it")
        found: list[Any] = []
        for position, (array, storage, source) in enumerate(self._saved):
            if storage is None:
                found.append(None)
                continue
            if storage.changed > self._since:
                raise RuntimeError(
                    f"saved tensor {position} of {node.kind}, of shape {array.shape}, was changed in place after "
                    "it was saved; use the out-of-place operation, or change a copy (.clone())"
                )
            if isinstance(source, int):
                source = node if len(self._outputs) == 1 else result_node(node, source)
            found.append(make(array, source, storage))
        return tuple(found)


def result_node(node: Node, slot: int) -> Node:
    """The small Node of one result among several."""
    shape, dtype = node.operation.outputs[slot]
    return engine.Node(_Slot(slot, node.kind), (node,), {}, np.broadcast_to(np.zeros((), dtype), shape))


class _Slot(engine.Operation):
    """Puts the gradient of one result into its slot; the walk adds the slots of all results."""

    def __init__(self, slot: int, name: str):
        self.slot, self.name = slot, name

    def pull(self, node: Node, edges: Edges, g: Any, create_graph: bool, own: bool = False) -> Sequence[Any]:
        call = node.edges[0]
        assert call is not None
        slots = np.full(call.shape, MISSING, object)
        slots[self.slot] = g
        return [slots]
