"""What users see of a Node, as `tensor.grad_fn`: PyTorch's name of the step, the steps behind it, and what was saved.

The engine knows nothing of it. A Node that a user asks for goes on as an object of a class made for its name, since
programs print type(grad_fn).__name__; it stays the same Node.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tinygrad_tf._step_names import SECOND_INPUTS, step_name
from tinygrad_tf.graph import Node, Tensor, make


class GradFn(Node):
    """A Node with PyTorch's names, for walking over a graph by hand."""

    __slots__ = ()
    called: str  # by the class that is made for this name

    def name(self) -> str:
        """PyTorch's way to name the step back: MulBackward0 for mul."""
        return self.called

    @property
    def next_functions(self) -> tuple[tuple[GradFn | None, int], ...]:
        """For each input its Node, or None where no gradient is wanted (all of them once backward released the graph).

        The number says which result of the Node is meant; only calls of a Function have several.
        """
        return tuple([(None, 0) if edge is None else shown(edge) for edge in self.edges])

    @property
    def variable(self) -> Any:
        """The tensor of a leaf; one of NaN that stands for it if it is gone, as a graph does not keep it."""
        if self.operation is not None:
            raise AttributeError(f"variable: {self.name()} is no leaf, and only a leaf belongs to one tensor")
        owner = self.owner() if self.owner is not None else None
        return make(np.full(self.shape, np.nan, self.dtype), self) if owner is None else owner

    register_hook: Callable[..., Any]  # autograd/node_hooks.py gives both
    register_prehook: Callable[..., Any]
    saved_tensor: Callable[..., Any]  # and autograd/_packing.py this: what stands under _raw_saved_self

    def __getattr__(self, name: str) -> Any:  # only when ordinary look-up fails
        """What the rules kept, by PyTorch's names: _saved_self and _saved_other are the first and the second input."""
        if name == "metadata":
            self.metadata = {}
            return self.metadata
        if self.kind.endswith("Backward"):
            return self.operation.attribute(self, name)
        _, start, wanted = name.partition("_saved_")
        if not start or name not in (start + wanted, f"_raw{start}{wanted}") or self.operation is None:
            raise AttributeError(f"{self.kind} has no attribute {name!r}")
        wanted = {named: name for name, named in _input_names(self).items()}.get(wanted, wanted)
        if name.startswith("_raw"):
            return self.saved_tensor(wanted)
        values = self.operation.load(self, True, (wanted,))
        if wanted not in values:
            kept = ", ".join(saved[0] for saved in self.saved or ()) or "nothing"
            raise AttributeError(f"{self.kind} did not keep {wanted!r} for its gradient, but {kept}")
        found = values[wanted]
        edge = found.node if isinstance(found, Tensor) else None
        owner = edge.owner() if edge is not None and edge.operation is None and edge.owner is not None else None
        if owner is not None and owner.array is found.array:
            return owner
        return make(found) if isinstance(found, np.ndarray) else found

    def __dir__(self) -> list[str]:
        """With the names of what the rules kept, which programs that draw graphs look for."""
        kept = {name for name, option in self.options.items() if isinstance(option, (int, float, str, type(None)))}
        kept |= {name for name, *_ in self.saved or ()} - {"kept", "context"}
        named = _input_names(self)
        return [*object.__dir__(self), *[f"_saved_{named.get(name, name)}" for name in kept]]

    def __repr__(self) -> str:
        return f"<{self.name().rpartition('::')[2]} object at {id(self):#x}>"


def _input_names(node: Node) -> dict[str, str]:
    """PyTorch's names of the first two inputs."""
    inputs = getattr(node.operation, "inputs", ())
    return dict(zip(inputs, ("self", SECOND_INPUTS.get(node.kind, "other")), strict=False))


def grad_fn_of(node: Node) -> GradFn:
    """The Node itself, in the class of its name."""
    if isinstance(node, GradFn):
        return node
    if node.operation is None:
        return _called(node, "torch::autograd::AccumulateGrad")
    return _called(node, step_name(getattr(node.operation, "step", None) or node.kind, node.shape, node.options))


def shown(node: Node) -> tuple[GradFn, int]:
    """What users see of a Node, and which result of it: that of the call, where a call of a Function has several."""
    call = node.edges[0] if hasattr(node.operation, "slot") else None
    return (grad_fn_of(node), 0) if call is None else (grad_fn_of(call), node.operation.slot)


def call_step(result: Any, name: str) -> Any:
    """A result of several operations, whose step is one in PyTorch, under the name of that."""
    node = getattr(result, "node", None)
    if node is not None and node.operation is not None:
        _called(node, f"{name}Backward0")
    return result


def _called(node: Any, name: str) -> GradFn:
    """The Node, in a class of this name."""
    kind: Any = type(node)
    if not issubclass(kind, GradFn) or kind.called != name:
        plain = kind.__bases__[1] if issubclass(kind, GradFn) else kind
        if "in_names" not in vars(plain):  # kept by the class itself, since classes of Nodes come and go
            plain.in_names = {}
        if name not in plain.in_names:
            own = {"__slots__": (), "__module__": "builtins", "called": name}  # so that the class prints as PyTorch's
            plain.in_names[name] = type(name.rpartition("::")[2], (GradFn, plain), own)
        node.__class__ = plain.in_names[name]
    found: GradFn = node
    return found
