"""Function: your own operation with its own gradient, in PyTorch's words.

One call is recorded as one Node that holds the context. An operation with several results gets a small Node for each of
them besides: it puts the result's gradient into its slot, and the walk hands all slots to `backward` together.
"""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tinygrad_tf import engine
from tinygrad_tf.autograd._packing import kept_of_context
from tinygrad_tf.autograd.grad_mode import no_grad
from tinygrad_tf.engine import Node, Storage, Tensor, make
from tinygrad_tf.graph import of_function
from tinygrad_tf.ops import inplace


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
        self._saved: list[
            tuple[Any, Storage | None, Any]
        ] = []  # array, storage, Node of an input or number of a result
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

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
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
                source = node if len(self._outputs) == 1 else _result_node(node, source)
            found.append(make(array, source, storage))
        return tuple(found)


FunctionCtx = Context  # PyTorch's name, for annotations


def _result_node(node: Node, slot: int) -> Node:
    """The small Node of one result among several."""
    shape, dtype = node.operation.outputs[slot]
    return engine.Node(_Slot(slot, node.kind), (node,), {}, np.broadcast_to(np.zeros((), dtype), shape))


class _Slot(engine.Operation):
    """Puts the gradient of one result into its slot; the walk adds the slots of all results."""

    def __init__(self, slot: int, name: str):
        self.slot, self.name = slot, name

    def pull(self, node: Node, g: Any, create_graph: bool, own: bool = False) -> Sequence[Any]:
        call = node.edges[0]
        assert call is not None
        slots = np.full(call.shape, MISSING, object)
        slots[self.slot] = g
        return [slots]


class _Call(engine.Operation):
    """One call of a Function, as the engine sees it."""

    def __init__(self, function: type[Function], context: Context):
        self.function, self.name = function, f"{function.__name__}Backward"
        self.outputs = context._outputs

    def pull(self, node: Node, g: Any, create_graph: bool, own: bool = False) -> Sequence[Any]:
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


class Function:
    """An operation of your own: static `forward` and `backward`, called by `apply`.

    `forward(ctx, *inputs)` computes the results, from tensors, with recording off. `backward(ctx, *grads)` gets the
    gradient of each result and returns one for each input, None for inputs that have none. If it is written in tensor
    operations, it can be differentiated again. The newer form has `forward(*inputs)` and `setup_context(ctx, inputs,
    output)`.

    >>> import tinygrad_tf as tg
    >>> class Cube(Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x**3
    ...     @staticmethod
    ...     def backward(ctx, g):
    ...         (x,) = ctx.saved_tensors
    ...         return g * 3 * x**2
    >>> x = tg.tensor([1.0, 2.0], requires_grad=True)
    >>> Cube.apply(x).sum().backward()
    >>> x.grad
    tensor([ 3., 12.])
    """

    forward: Callable[..., Any]
    backward: Callable[..., Any]
    setup_context: Callable[..., Any] | None = None
    hands_on = False  # for tensors that nobody else will use: they may be changed in place afterwards

    def __init__(self) -> None:
        raise RuntimeError(f"{type(self).__name__} is not made as an object; call {type(self).__name__}.apply(...)")

    @classmethod
    def apply(cls, *inputs: Any, **named: Any) -> Any:
        """Run forward and record the call, if an input requires a gradient. named: inputs by their names in forward."""
        if not hasattr(cls, "forward"):
            raise NotImplementedError(f"{cls.__name__} needs a static method `forward`")
        context = Context()
        if named or (cls.setup_context is not None and cls.forward.__defaults__):
            inputs = _in_order(cls, context, inputs, named)
        nodes = [engine.current_node(x) if isinstance(x, Tensor) else None for x in inputs]
        context.needs_input_grad = tuple(n is not None for n in nodes)
        with no_grad():
            if cls.setup_context is None:
                output = cls.forward(context, *inputs)
            else:
                output = cls.forward(*inputs)
                cls.setup_context(context, inputs, output)
        single = not isinstance(output, (tuple, list))
        outputs = [output] if single else list(output)
        recording = engine.mode.grad and any(context.needs_input_grad)
        _check_dirty(cls, context, outputs, recording)
        if recording:
            results = _recorded(cls, context, inputs, nodes, outputs)
        else:
            results = _unrecorded(context, inputs, outputs)
        return results[0] if single else tuple(results)


def _in_order(cls: type[Function], context: Context, inputs: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
    """All inputs by their places; those left out by their defaults if setup_context is to see them."""
    before = (context,) if cls.setup_context is None else ()
    try:
        bound = inspect.signature(cls.forward).bind(*before, *inputs, **named)
    except TypeError as error:
        raise TypeError(f"{cls.__name__}.apply: {error}") from None
    if cls.setup_context is not None:
        bound.apply_defaults()
    if bound.kwargs:
        raise TypeError(
            f"{cls.__name__}.apply: inputs are given by place, and `{next(iter(bound.kwargs))}` of forward cannot be; "
            "give those before it, too, and write forward without keyword-only arguments"
        )
    return bound.args[len(before) :]


def _check_dirty(cls: type[Function], context: Context, outputs: list[Any], recording: bool) -> None:
    """What forward changed in place must be a result, and must be allowed to change."""
    if {id(t) for t in context._dirty} - {id(t) for t in outputs}:
        raise RuntimeError(f"{cls.__name__}: an input marked dirty must be returned as a result")
    for t in context._dirty:
        inplace.check_writable(cls.__name__, t, recording)


def _unrecorded(context: Context, inputs: Sequence[Any], outputs: list[Any]) -> list[Any]:
    """The results without Nodes; an input that is handed on unchanged becomes a tensor of its own on its memory."""
    for t in context._dirty:
        inplace.adopt(t, None)
    given = {id(x) for x in inputs} - {id(t) for t in context._dirty}
    return [make(t.array, None, t.storage) if id(t) in given and isinstance(t, Tensor) else t for t in outputs]


def _recorded(
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
            made = make(t.array, node if len(tensors) == 1 else _result_node(node, slot), t.storage, view_of)
        if id(t) in dirty:
            inplace.adopt(t, made)
            if made is None:  # what it was computed from is no longer what it holds
                t.node, t.view_of = None, None
            made = t
        results.append(make(t.array, None, t.storage) if made is None else made)
        slot += 1
    _save(context, node, inputs, nodes, tensors)
    return results


def _lent(cls: type[Function], t: Tensor, given: set[int]) -> Any:
    """What a result in the memory of an input is a view of: writing to it would change the input unseen."""
    base = t.view_of[0] if t.view_of is not None else t
    if (base is t and id(t) not in given) or base.node is None:
        return None
    if cls.hands_on and base.node.operation is not None:
        return None
    return base, ((of_function, {}),)


def _save(context: Context, node: Node, inputs: Sequence[Any], nodes: list[Node | None], tensors: list[Any]) -> None:
    """Turn what was saved into arrays and the places they come from, so that no circle keeps the graph alive."""
    places: dict[int, Any] = {id(x): n for x, n in zip(inputs, nodes, strict=True)}
    places.update({id(t): slot for slot, t in enumerate(tensors)})
    for t in context._to_save:
        if t is None:
            context._saved.append((None, None, None))
        else:
            place = places.get(id(t), t.node)
            context._saved.append((t.array, t.storage, place))
    context._saved = kept_of_context(context._saved)
    context._to_save, context._without_gradient, context._dirty = (), (), ()
    context._node, context._since = weakref.ref(node), next(engine.clock)


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a `backward` that is not written in tensor operations: differentiating its results is an error.

    >>> class Half(Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return x * 0.5
    ...     @staticmethod
    ...     @once_differentiable
    ...     def backward(ctx, g):
    ...         return g * 0.5
    """

    @functools.wraps(backward)
    def wrapper(context: Context, *gradients: Any) -> Any:
        with no_grad():
            returned = backward(context, *[None if g is None else g.detach() for g in gradients])
        if not engine.mode.grad:
            return returned
        parts = list(returned) if isinstance(returned, (tuple, list)) else [returned]
        sources = [n for g in gradients if g is not None and (n := engine.current_node(g)) is not None]
        node = context._node() if context._node is not None else None
        sources += [n for n in (node.edges if node is not None else ()) if n is not None]
        return tuple(
            make(p.array, engine.Node(_NotTwice(backward), sources, {}, p.array)) if isinstance(p, Tensor) else p
            for p in parts
        )

    return wrapper


class _NotTwice(engine.Operation):
    """What stands where a second derivative would have to be."""

    def __init__(self, backward: Callable[..., Any]):
        self.name = backward.__qualname__

    def pull(self, node: Node, g: Any, create_graph: bool, own: bool = False) -> Sequence[Any]:
        raise RuntimeError(
            f"{self.name} is marked once_differentiable and cannot be differentiated again; "
            "write it in tensor operations and drop the mark"
        )
