"""What is recorded on the way forward: tensors, the Nodes that made them, and primitive operations.

A Tensor points at the Node that made it. A Node points at the Nodes of its inputs (its edges), never at their arrays;
what a gradient rule needs of the forward pass is saved by name, and only if that rule will run:

    @primitive(a=lambda g, b: g * b, b=lambda g, a: g * a)     # the gradient of a needs b, and that of b needs a
    def mul(a, b):
        return a * b                                           # forward, on plain NumPy arrays

Every rule serves two purposes. In an ordinary backward pass it is run on NumPy arrays. With `create_graph` it is run on
Tensors, so that it is recorded itself and derivatives of any order come for free.

One clock counts the Nodes recorded and the in-place changes made. A saved array whose memory was written to after its
Node was recorded is noticed when a rule asks for it; so are options that hold arrays: indices, targets, class weights.
engine.py walks what is recorded here.
"""

from __future__ import annotations

import contextvars
import inspect
import itertools
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

clock = itertools.count(1)
new_object = object.__new__
ndarray = np.ndarray  # looked up at every call


inside = contextvars.ContextVar("inside", default=False)


class Mode(threading.local):
    """What each thread has switched on: recording for gradients, and fused operations by their references.

    quietly(function, *arguments) calls the function where NumPy warns of nothing: NaN and infinity are values. NumPy's
    settings belong to a context, and to enter one that is there costs a tenth of what np.errstate does.
    """

    grad = True
    reference = False

    def __init__(self) -> None:
        context = contextvars.Context()
        context.run(np.seterr, all="ignore")
        context.run(inside.set, True)
        self.quietly = context.run


mode = Mode()


def computed(forward: Callable[..., Any], arrays: Sequence[Any], options: dict[str, Any]) -> Any:
    """forward(*arrays, **options), without NumPy's warnings."""
    try:
        return mode.quietly(forward, *arrays, **options)
    except RuntimeError:
        if not inside.get():
            raise
        return forward(*arrays, **options)  # in the context already, which cannot be entered twice


@contextmanager
def use_reference(on: bool = True) -> Iterator[None]:
    """Run every fused operation by its plain reference instead of its kernels (to read, step through, compare)."""
    before, mode.reference = mode.reference, on
    try:
        yield
    finally:
        mode.reference = before


@contextmanager
def recording(on: bool) -> Iterator[None]:
    """Record operations for gradients, or not, for a while."""
    before, mode.grad = mode.grad, on
    try:
        yield
    finally:
        mode.grad = before


class Storage:
    """The memory behind a tensor and its views: the time at which it was last written to."""

    changed = 0  # of the class until it is written to: most never are, and there is one for each result


class Watched(tuple[Any, ...]):
    """An option made of several things, as an index is, some of which are arrays in the memory of `storages`."""

    storages: tuple[Storage, ...] = ()


def watched(parts: Iterable[Any], tensors: Iterable[Tensor]) -> Watched:
    """The parts, some of which are arrays in the memory of the tensors, as an option for an operation."""
    found = Watched(parts)
    found.storages = tuple([t.storage for t in tensors])
    return found


class Node:
    """One recorded operation, or (without an operation) a leaf.

    edges: the Nodes of the inputs, None where no gradient is wanted. shape and dtype are those of the result.
    saved: (name, array, storage, edge) of what the rules need; None once it was released.
    owner: a weak reference to the tensor whose `.grad` is written: a leaf, or one that asked to retain it.
    """

    __slots__ = ("__weakref__", "age", "dtype", "edges", "hooks", "operation", "options", "owner", "saved", "shape")

    def __init__(self, operation: Any, edges: Sequence[Node | None], options: dict[str, Any], value: np.ndarray):
        self.operation, self.edges, self.options = operation, edges, options
        self.shape, self.dtype = value.shape, value.dtype
        self.saved: list[Saved] | None = None
        self.hooks: dict[int, Callable[[Any], Any]] | None = None
        self.owner: weakref.ref[Tensor] | None = None
        self.age = next(clock)

    @property
    def kind(self) -> str:
        """The operation, as `mul`, or `leaf`."""
        return self.operation.name if self.operation is not None else "leaf"

    # What PyTorch offers of a grad_fn, for walking over a graph by hand.

    def name(self) -> str:
        """PyTorch's way to name the step back: MulBackward0 for mul."""
        return "torch::autograd::AccumulateGrad" if self.operation is None else backward_name(self.kind)

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        """For each input its Node, or None where no gradient is wanted (all of them once backward released the graph).

        The number is 0: which of several results of one Node is meant is a Node of its own here.
        """
        return tuple([(edge, 0) for edge in self.edges])

    @property
    def variable(self) -> Any:
        """The tensor of a leaf, or None where it is gone."""
        if self.operation is not None or self.owner is None:
            raise AttributeError(f"variable: {self.name()} is no leaf, and only a leaf belongs to one tensor")
        return self.owner()

    def __repr__(self) -> str:
        return f"<{self.name().rpartition('::')[2]} object at {id(self):#x}>"


def backward_name(operation: str) -> str:
    """AddBackward0 for add; the call of a Function, as ExpBackward, has its name already."""
    words = [word[:1].upper() + word[1:] for word in operation.split("_")]
    return "".join(words) + ("" if operation.endswith("Backward") else "Backward0")


class Tensor:
    """The bare tensor: an array, the Node that made it, its gradient. tensor.py gives it operators and methods.

    _grad: what users read and set as `.grad`, where it is checked.
    view_of: None, or the tensor whose memory this one shares, with the operations that lead from there to here.
    """

    __slots__ = ("__weakref__", "_grad", "array", "node", "storage", "view_of")
    array: np.ndarray
    node: Node | None
    _grad: Any
    storage: Storage
    view_of: View | None

    def __init_subclass__(cls, results: bool = False) -> None:
        """`class Tensor(engine.Tensor, results=True)` is the class that all operations return."""
        global tensor_class
        if results:
            tensor_class = cls


Saved = tuple[str, Any, "Storage | None", "Node | None"]
View = tuple[Tensor, tuple[tuple[Any, dict[str, Any]], ...]]
tensor_class: type[Tensor] = Tensor


def make(
    array: np.ndarray, node: Node | None = None, storage: Storage | None = None, view_of: View | None = None
) -> Any:
    """A tensor of the user's class around an array, with no checks."""
    t = new_object(tensor_class)
    t.array, t.node, t._grad, t.storage, t.view_of = array, node, None, storage or Storage(), view_of
    return t


def leaf(t: Tensor) -> None:
    """Make `t` a leaf that gathers a gradient."""
    if t.array.dtype.kind not in "fV":  # V: the bfloat16 of ml_dtypes
        raise RuntimeError(f"only tensors of floating point dtype can require gradients, got {t.array.dtype}")
    t.node, t.view_of = Node(None, (), {}, t.array), None
    t.node.owner = weakref.ref(t)


def current_node(t: Tensor) -> Node | None:
    """The Node of `t`; a view whose base was written to since it was taken is taken again from the base."""
    if t.view_of is None or (made := t.view_of[0].node) is None:
        return t.node
    base_got_a_graph = t.node is None and made.operation is not None
    base_was_written_to = t.node is not None and t.storage.changed > t.node.age
    if base_got_a_graph or base_was_written_to:
        again, operations = t.view_of
        with recording(True):
            for operation, options in operations:
                again = operation(again, **options)
        assert again.node is not None
        if t.node is not None:
            again.node.owner = t.node.owner
        t.node = again.node
    return t.node


def is_view(value: np.ndarray, x: np.ndarray) -> bool:
    """Whether `value`, made of `x`, lies in its memory. Mostly the array that owns it tells; NumPy knows the rest."""
    base = value.base
    known = base is not None and (base is x or base is x.base) and value.size > 0
    return known or np.may_share_memory(value, x)


# --- Operations -------------------------------------------------------------------------------------------------------


class Operation:
    """What primitive and fused operations share: unpacking the inputs, running the forward, recording a Node."""

    gives_new_arrays = False  # whether gradients come in arrays that nobody else holds
    view = False

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

    def unpack(self, inputs: Sequence[Any]) -> tuple[list[Any], list[Node | None], int, bool]:
        """Arrays and Nodes of the inputs, a bit for each input that is to get a gradient, and whether any is a Tensor.

        There are no Nodes where nothing is recorded.
        """
        arrays: list[Any] = []
        edges: list[Node | None] = []
        wanted, boxed = 0, False
        if not mode.grad:  # nothing is recorded, and Nodes are of no use
            for x in inputs:
                if isinstance(x, Tensor):
                    boxed = True
                    x = x.array
                arrays.append(x)
            return arrays, edges, 0, boxed
        for x in inputs:
            if isinstance(x, Tensor):
                boxed = True
                node = x.node if x.view_of is None else current_node(x)
                if node is not None:
                    wanted |= 1 << len(edges)
                arrays.append(x.array)
                edges.append(node)
            else:
                arrays.append(x)
                edges.append(None)
        return arrays, edges, wanted, boxed

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

    def pull(self, node: Node, g: Any, create_graph: bool, own: bool = False) -> Sequence[Any]:
        """The gradient of every input, from the gradient g of the output. own: nobody else holds the array g."""
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


class Primitive(Operation):
    """A forward on arrays, and for each differentiable input a rule made of operations.

    A rule takes the output's gradient and, by name, what else it needs: inputs, `result`, options, `shapes` (of all
    inputs) or, where the number of inputs varies, `position` (which of them).
    """

    def __init__(self, forward: Callable[..., Any], rules: dict[str, Callable[..., Any]], view: bool, prepare: Any):
        super().__init__(forward)
        self.rules = [rules.get(name) for name in self.inputs]
        self.needs = [tuple(inspect.signature(r).parameters)[1:] if r else () for r in self.rules]
        self.view, self.prepare = view, prepare
        self.plans: dict[int, tuple[list[int], bool, bool]] = {}

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        arrays, edges, wanted, boxed = self.unpack(inputs)
        if self.prepare is not None:
            arrays = self.prepare(self.name, arrays)
        saved: list[Saved] = self.unpack_options(options) if self.arrays else []
        if not boxed:
            return self.forward(*arrays, **options)
        value = computed(self.forward, arrays, options)
        if type(value) is not ndarray:
            value = np.asarray(value)
        storage, view_of = None, None
        if self.view and is_view(value, arrays[0]):
            storage = inputs[0].storage
            if mode.grad:
                base, path = inputs[0].view_of or (inputs[0], ())
                view_of = base, (*path, (self, options))
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

    def plan(self, wanted: int) -> tuple[list[int], bool, bool]:
        """Which inputs to save, whether the result and the shapes, when these inputs want a gradient."""
        names = {n for i, need in enumerate(self.needs) if self.variadic or wanted >> i & 1 for n in need}
        self.plans[wanted] = [i for i, n in enumerate(self.inputs) if n in names], "result" in names, "shapes" in names
        return self.plans[wanted]

    def pull(self, node: Node, g: Any, create_graph: bool, own: bool = False) -> Sequence[Any]:
        values = self.load(node, create_graph)
        parts: list[Any] = []
        for position, edge in enumerate(node.edges):
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
