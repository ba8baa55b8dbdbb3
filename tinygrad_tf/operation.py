"""Operations: what runs forward on plain arrays, with the rules for their gradients, and records a Node.

    @primitive(a=lambda g, b: g * b, b=lambda g, a: g * a)     # the gradient of a needs b, and that of b needs a
    def mul(a, b):
        return a * b                                           # forward, on plain NumPy arrays

Every rule serves two purposes. In an ordinary backward pass it is run on NumPy arrays. With `create_graph` it is run on
Tensors, so that it is recorded itself and derivatives of any order come for free. What no rule that will run needs is
not saved.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from tinygrad_tf._quiet import computed
from tinygrad_tf.graph import Node, Saved, Tensor, Watched, current_node, make, mode, of_no_grad

ndarray = np.ndarray  # looked up at every call
Edges = Sequence[Node | None]


def is_view(value: np.ndarray, x: np.ndarray) -> bool:
    """Whether `value`, made of `x`, lies in its memory. Mostly the array that owns it tells; NumPy knows the rest."""
    base = value.base
    if base is None:  # it owns its memory
        return value is x
    return ((base is x or base is x.base) and value.size > 0) or np.may_share_memory(value, x)


class Operation:
    """What primitive and fused operations share: unpacking the inputs, running the forward, recording a Node."""

    gives_new_arrays = False  # whether gradients come in arrays that nobody else holds
    view = False
    step: str | None = None  # the name of the step back, if it is not that of the operation

    def __init__(self, forward: Callable[..., Any]):
        self.forward = forward
        self.name = forward.__name__.strip("_")
        self.__name__, self.__doc__, self.__wrapped__ = self.name, forward.__doc__, forward
        self.variadic = False
        self.inputs: list[str] = []
        self.arrays: list[str] = []  # the options that may be Tensors: those annotated as arrays, or as Any
        for p in inspect.signature(forward).parameters.values():
            self.variadic |= p.kind is p.VAR_POSITIONAL
            if p.kind is not p.KEYWORD_ONLY:
                self.inputs.append(p.name)
            elif "ndarray" in str(p.annotation) or "Any" in str(p.annotation):
                self.arrays.append(p.name)

    def twin(self, step: str) -> Any:
        """The same operation, whose step back has a name of its own."""
        other = copy.copy(self)
        other.step = step
        return other

    def on_arrays(self, inputs: Sequence[Any], options: dict[str, Any]) -> Any:
        """The forward alone, for inputs none of which is a Tensor: a rule is at work."""
        if self.arrays:
            self.unpack_options(options)
        return self.forward(*inputs, **options)

    def unpack(self, inputs: Sequence[Any]) -> tuple[list[Any], list[Node | None], int]:
        """Arrays and Nodes of the inputs, and a bit for each input that is to get a gradient.

        There are no Nodes where nothing is recorded.
        """
        edges: list[Node | None] = []
        if not mode.grad:  # nothing is recorded, and Nodes are of no use
            return [x.array if isinstance(x, Tensor) else x for x in inputs], edges, 0
        arrays: list[Any] = []
        wanted = 0
        for x in inputs:
            if isinstance(x, Tensor):
                node = x.node if x.view_of is None else current_node(x)
                if node is not None:
                    wanted |= 1 << len(edges)
                arrays.append(x.array)
                edges.append(node)
            else:
                arrays.append(x)
                edges.append(None)
        return arrays, edges, wanted

    def unpack_options(self, options: dict[str, Any]) -> list[Saved]:
        """Put the arrays of options that are Tensors in their place; return what is to be saved of their memory."""
        saved: list[Saved] = []
        for name in self.arrays:
            value = options.get(name)
            if isinstance(value, Tensor):
                options[name] = value.array
                saved.append((name, value.array, value.storage, None))
            elif type(value) is Watched:
                saved.extend([(name, value, storage, None) for storage in value.storages])
        return saved

    def pull(self, node: Node, edges: Edges, g: Any, create_graph: bool, own: bool = False) -> Sequence[Any]:
        """The gradient of every input, from the gradient g of the output. own: nobody else holds the array g.

        edges: those of the Node, with None for inputs whose gradient this walk does not ask for.
        """
        raise NotImplementedError

    def load(self, node: Node, create_graph: bool, names: Iterable[str] | None = None) -> dict[str, Any]:
        """What was saved, by name: arrays, or Tensors that still have their graph. Changed memory is an error."""
        if node.saved is None:
            raise RuntimeError(
                f"the graph of {self.name} was released by an earlier backward; pass retain_graph=True to that one"
            )
        values = dict(node.options)
        for name, array, storage, edge in node.saved:
            if names is not None and name not in names:
                continue
            if storage is not None and storage.changed > node.age:
                what = repr(name) if type(array) is Watched else f"{name!r} of shape {array.shape}"
                raise RuntimeError(
                    f"{what}, needed for the gradient of {self.name}, was changed in place after it was used; "
                    "use the out-of-place operation, or change a copy (.clone())"
                )
            if create_graph and storage is not None and type(array) is not Watched:
                array = make(array, node if name == "result" else edge, storage)
            values[name] = array
        return values


def _parameters(rule: Callable[..., Any]) -> tuple[str, ...]:
    """The names of what a rule takes; of a plain function at a fiftieth of the calls that inspect.signature makes."""
    code = getattr(rule, "__code__", None)
    return code.co_varnames[: code.co_argcount] if code else tuple(inspect.signature(rule).parameters)


class Primitive(Operation):
    """A forward on arrays, and for each differentiable input a rule made of operations.

    A rule takes the output's gradient and, by name, what else it needs: inputs, `result`, options, `shapes` (of all
    inputs) or, where the number of inputs varies, `position` (which of them).
    """

    def __init__(self, forward: Callable[..., Any], rules: dict[str, Callable[..., Any]], view: bool, prepare: Any):
        super().__init__(forward)
        self.rules = [rules.get(name) for name in self.inputs]
        self.needs = [_parameters(rule)[1:] if rule else () for rule in self.rules]
        self.view, self.prepare = view, prepare
        self.plans: dict[int, tuple[list[int], bool, bool]] = {}

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        for x in inputs:
            if isinstance(x, Tensor):
                break
        else:
            return self.on_arrays(self.prepare(self.name, list(inputs)) if self.prepare else inputs, options)
        arrays, edges, wanted = self.unpack(inputs)
        if self.prepare is not None:
            arrays = self.prepare(self.name, arrays)
        saved: list[Saved] = self.unpack_options(options) if self.arrays else []
        value = self.forward(*arrays, **options) if self.view else computed(self.forward, arrays, options)
        if type(value) is not ndarray:
            value = np.asarray(value)
        storage, view_of = None, None
        if self.view and is_view(value, arrays[0]):
            storage = inputs[0].storage
            base, path = inputs[0].view_of or (inputs[0], ())
            if mode.grad:
                view_of = base, (*path, (self, options))
            elif base.node is not None:
                view_of = base, ((of_no_grad, {}),)
        if not wanted:
            return make(value, None, storage, view_of)
        key = 0 if self.variadic else wanted
        keep, keep_result, keep_shapes = self.plans.get(key) or self.plan(key)
        if keep_shapes:
            options = {**options, "shapes": [a.shape if type(a) is np.ndarray else np.shape(a) for a in arrays]}
        node, result = Node(self, edges, options, value), make(value, None, storage, view_of)
        for i in keep:
            x = inputs[i]
            if isinstance(x, Tensor):
                saved.append((self.inputs[i], x.array, x.storage, edges[i]))
            else:
                saved.append((self.inputs[i], x, None, None))
        if keep_result:
            saved.append(("result", value, result.storage, None))
        node.saved, result.node = saved, node
        return result

    def needed(self, edges: Edges) -> set[str]:
        """What the rules for these edges need."""
        return {n for i, edge in enumerate(edges) if edge for n in self.needs[0 if self.variadic else i]}

    def plan(self, wanted: int) -> tuple[list[int], bool, bool]:
        """Which inputs to save, whether the result and the shapes, when these inputs want a gradient."""
        names = {n for i, need in enumerate(self.needs) if self.variadic or wanted >> i & 1 for n in need}
        self.plans[wanted] = [i for i, n in enumerate(self.inputs) if n in names], "result" in names, "shapes" in names
        return self.plans[wanted]

    def pull(self, node: Node, edges: Edges, g: Any, create_graph: bool, own: bool = False) -> Sequence[Any]:
        values = self.load(node, create_graph, None if edges is node.edges else self.needed(edges))
        parts: list[Any] = []
        for position, edge in enumerate(edges):
            which = 0 if self.variadic else position
            rule, needs = self.rules[which], self.needs[which]
            if edge is None or rule is None:
                parts.append(None)
            elif not needs:
                parts.append(rule(g))
            else:
                values["position"] = position
                parts.append(rule(g, *[values[n] for n in needs]))
        return parts


def primitive(*, view: bool = False, prepare: Any = None, **rules: Callable[..., Any]) -> Callable[..., Primitive]:
    """Turn a forward on arrays into a differentiable operation, with one rule for each input that has a gradient.

    view: the result may share memory with the first input. prepare: called with the name and the arrays before forward.
    """
    return lambda forward: Primitive(forward, rules, view, prepare)
