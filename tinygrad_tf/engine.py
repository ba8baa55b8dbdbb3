"""The engine: the walk that sends gradients back through what graph.py holds, and operations fused into kernels.

The walk takes the youngest Node first. A Node is younger than its inputs, so every gradient is complete when its Node
is reached: there is no sort and no recursion. Broadcasting and casts are undone here, in one place, for all operations.
The graph is released on the way, unless it is to be walked again, and `.grad` is written only when the walk has come
through.
"""

from __future__ import annotations

import heapq
import inspect
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from tinygrad_tf import kernels
from tinygrad_tf._layout import stretched
from tinygrad_tf._quiet import computed, quiet
from tinygrad_tf.graph import (
    Node,
    Saved,
    Storage,
    Tensor,
    Watched,
    clock,
    current_node,
    hand_over,
    leaf,
    make,
    mode,
    recording,
    use_reference,
    watched,
)
from tinygrad_tf.hooks import (
    RemovableHandle,
    Way,
    add_hook,
    add_hook_after,
    check_gradient,
    nodes_of,
    retain_grad,
    run_hooks,
    run_hooks_after,
    starting_gradient,
)
from tinygrad_tf.operation import Edges, Operation, Primitive, primitive
from tinygrad_tf.regions import Pending, Region, laid_out, memory_order, wide

__all__ = [
    "Fused",
    "Node",
    "Operation",
    "Primitive",
    "RemovableHandle",
    "Storage",
    "Tensor",
    "Watched",
    "add_hook",
    "add_hook_after",
    "alias",
    "backward",
    "cast",
    "check_gradient",
    "clock",
    "computed",
    "current_node",
    "expand",
    "fused",
    "grad",
    "hand_over",
    "leaf",
    "make",
    "mode",
    "primitive",
    "recording",
    "retain_grad",
    "sum_to",
    "use_reference",
    "walk",
    "watched",
]

writing_gradients = threading.Lock()

# --- The operations that the walk itself needs ------------------------------------------------------------------------


@primitive(view=True, x=lambda g: g)
def expand(x: np.ndarray, *, shape: tuple[int, ...]) -> np.ndarray:
    return stretched(x, shape)


@primitive(g=lambda h, shapes: expand(h, shape=shapes[0]))
def sum_to(g: np.ndarray, *, shape: tuple[int, ...]) -> np.ndarray:
    extra = g.ndim - len(shape)
    axes = [*range(extra), *[i for i, n in enumerate(shape, extra) if n == 1 and g.shape[i] != 1]]
    total: np.ndarray = np.add.reduce(g, axis=tuple(axes), dtype=wide(g.dtype), keepdims=True)
    if total.shape[extra:] != shape:
        raise RuntimeError(f"a gradient of shape {g.shape} does not fit its tensor, whose data now has shape {shape}")
    return total.reshape(shape)


@primitive(x=lambda g: g)
def cast(x: np.ndarray, *, dtype: np.dtype) -> np.ndarray:
    large = x.size >= 1 << 14 and "V" in (x.dtype.kind, np.dtype(dtype).kind)  # V: the bfloat16 of ml_dtypes
    return kernels.cast.cast(x, dtype) if large else x.astype(dtype)


@primitive(x=lambda g: g)
def alias(x: np.ndarray) -> np.ndarray:
    return x


# --- Fused operations -------------------------------------------------------------------------------------------------


class Fused(Operation):
    """Fast twin of `reference`: kernels for values and first derivatives; above that the reference is differentiated.

    forward(*arrays, **options) -> (value, kept), where `kept` is whatever the backward kernel wants to see again.
    backward(g, wanted, kept, ...) -> one gradient an input, None where `wanted` is False; it names the inputs and
    options that it reads, and may name `result`, and `own`: whether nobody else holds g, so that it may be overwritten.
    """

    gives_new_arrays = True

    def __init__(self, forward: Callable[..., Any], reference: Callable[..., Any], backward: Callable[..., Any]):
        super().__init__(forward)
        self.reference, self.backward = reference, backward
        self.reads = tuple(inspect.signature(backward).parameters)[3:]
        self.needs = ("kept", *self.reads)

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        if mode.reference:
            return self.reference(*inputs, **options)
        for x in inputs:
            if isinstance(x, Tensor):
                break
        else:
            return self.on_arrays(inputs, options)[0]
        arrays, edges, wanted = self.unpack(inputs)
        saved: list[Saved] = self.unpack_options(options) if self.arrays else []
        value, kept = computed(self.forward, arrays, options)
        if not wanted:
            return make(value)
        node = Node(self, edges, options, value)
        result = make(value, node)
        saved.append(("kept", kept, None, None))
        for i, x in enumerate(inputs):
            saved.append((self.inputs[i], arrays[i], x.storage if isinstance(x, Tensor) else None, edges[i]))
        if "result" in self.reads:
            saved.append(("result", value, result.storage, None))
        node.saved = saved
        return result

    def pull(self, node: Node, edges: Edges, g: Any, create_graph: bool, own: bool = False) -> Sequence[Any]:
        if not create_graph:
            values = self.load(node, False, self.needs)
            values["own"] = own
            wanted = [edge is not None for edge in edges]
            return self.backward(g, wanted, *[values[n] for n in self.needs])
        values = self.load(node, True, (*self.inputs, *self.arrays))
        inputs = [values[n] for n in self.inputs]
        twins = [alias(x) if edge is not None else x for x, edge in zip(inputs, edges, strict=True)]
        for twin, x, edge in zip(twins, inputs, edges, strict=True):
            if edge is not None:  # what is written to the input after this is written to its twin
                twin.storage = x.storage
        out = self.reference(*twins, **{n: values[n] for n in node.options})
        wanted_nodes = [t.node for t, edge in zip(twins, edges, strict=True) if edge is not None]
        found = walk([(out, g)], True, True, wanted_nodes)
        return [found.get(t.node) if edge is not None else None for t, edge in zip(twins, edges, strict=True)]


def fused(*, reference: Callable[..., Any], backward: Callable[..., Any]) -> Callable[..., Fused]:
    """Turn a forward kernel into a differentiable operation with a backward kernel and a plain reference."""
    return lambda forward: Fused(forward, reference, backward)


# --- The walk ---------------------------------------------------------------------------------------------------------


def walk(
    roots: Sequence[tuple[Tensor, Any]], keep: bool, create_graph: bool, wanted: Iterable[Node | None] | None = None
) -> dict[Node, Any]:
    """Send the roots' gradients back; return {node: Tensor} for the wanted Nodes, or for all that have an owner.

    On the way to the wanted Nodes those that retain their gradient are found, too; what leads to none is left alone.
    keep: leave what the rules saved in place, so that the graph can be walked again.
    """
    targets = None if wanted is None else {n for n in wanted if n is not None}
    pending: dict[Node, Pending] = {}
    found: dict[Node, Any] = {}
    queue: list[tuple[int, Node]] = []
    way = Way(targets, queue, [current_node(root) for root, _ in roots])
    needed = way.needed

    def send(edge: Node, part: Any, fresh: bool) -> None:
        """Add one contribution to the gradient of an edge, in the shape and dtype of its forward value."""
        if type(part) is Region:
            part = [part]
        else:
            if type(part) is not np.ndarray and not create_graph:
                part = np.asarray(part)
            if part.shape != edge.shape:
                part, fresh = sum_to(part, shape=edge.shape), True
            if part.dtype is not edge.dtype and part.dtype != edge.dtype:
                part, fresh = cast(part, dtype=edge.dtype), True
        if edge in pending:
            pending[edge].add(part, fresh)
        else:
            first = pending[edge] = Pending()
            first.node, first.value, first.own = edge, part, fresh
            heapq.heappush(queue, (-edge.age, edge))

    with recording(create_graph), way, quiet():  # infinite gradients are values, not warnings
        for root, g in roots:
            node = current_node(root)
            assert node is not None
            if needed is None or node in needed:
                send(node, g if create_graph else g.array, False)
        while queue:
            node = heapq.heappop(queue)[1]
            held = pending.pop(node)
            if type(held.value) is list:
                held.assemble()
            g, own, operation = held.value, held.own, node.operation
            if node.hooks:
                g, own = run_hooks(node, g) if create_graph else run_hooks(node, make(g)).array, False
            owned = node.owner is not None
            if owned if targets is None else node in targets or (owned and operation is not None):
                found[node] = g if create_graph else make(kept(node, g, own))
            edges = node.edges if needed is None else needed[node]
            if operation is None or not edges:
                continue
            fresh = operation.gives_new_arrays or (own and operation.view)  # a view of what is ours alone is ours too
            parts = operation.pull(node, edges, g, create_graph, own)
            for i, edge in enumerate(edges):  # zip(..., strict=True) takes twice as long
                if edge is not None and parts[i] is not None:
                    send(edge, parts[i], fresh)
            if not keep and node.saved:
                node.saved, node.edges = None, (None,) * len(node.edges)
    return found


def kept(node: Node, g: np.ndarray, own: bool) -> np.ndarray:
    """The gradient of a tensor in memory that no other gradient shares; that of a leaf is laid out as the leaf is."""
    if node.operation is not None:
        return laid_out(g, None)
    owner = node.owner() if node.owner is not None else None
    return laid_out(g, None if owner is None else memory_order(owner.array), own)


def backward(
    roots: Sequence[Tensor],
    gradients: Sequence[Any],
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Iterable[Tensor] | None = None,
) -> None:
    """Add the gradients of the roots to `.grad` of the leaves, or of `inputs` alone. On an error no `.grad` changes."""
    starts = [(root, starting_gradient(root, g)) for root, g in zip(roots, gradients, strict=True)]
    keep = create_graph if retain_graph is None else retain_graph
    chosen = None
    if inputs is not None:
        wanted = list(inputs)
        chosen = dict(zip(nodes_of("backward", wanted), wanted, strict=True))
        if not chosen:
            raise RuntimeError("`inputs` of backward is empty; leave it out to reach all leaves")
        for t in wanted:
            retain_grad(t)  # of those that are no leaves, as in PyTorch
    found = walk(starts, keep, create_graph, chosen)
    gather(found, chosen or {}, create_graph)
    run_hooks_after(found)


def gather(found: dict[Node, Any], chosen: dict[Node, Tensor], create_graph: bool) -> None:
    """Add what was found to `.grad` of the tensors that it belongs to: those chosen, or the owners of the Nodes."""
    with writing_gradients, quiet():
        for node, g in found.items():
            owner = chosen[node] if node in chosen else node.owner() if node.owner is not None else None
            if owner is None:
                continue
            if create_graph:
                with_graph = cast(g, dtype=g.array.dtype)  # a copy: no two gradients share memory
                with_graph.array = laid_out(with_graph.array, memory_order(owner.array), own=True)
                owner._grad = with_graph if owner._grad is None else owner._grad + with_graph
            elif owner._grad is None:
                owner._grad = g
            else:
                check_gradient("what is added to .grad", g, owner._grad.array.shape, owner._grad.array.dtype)
                owner._grad.array[...] += g.array
                owner._grad.storage.written()


def grad(
    roots: Sequence[Tensor],
    inputs: Sequence[Tensor],
    gradients: Sequence[Any],
    retain_graph: bool | None = None,
    create_graph: bool = False,
) -> list[Any]:
    """The gradients of the roots with respect to `inputs`, None for an input that no root depends on.

    No `.grad` is written to but those of tensors on the way that asked for it, which are no leaves.
    """
    starts = [(root, starting_gradient(root, g)) for root, g in zip(roots, gradients, strict=True)]
    keep = create_graph if retain_graph is None else retain_graph
    nodes = nodes_of("grad", inputs)
    found = walk(starts, keep, create_graph, nodes)
    retained = {n: g for n, g in found.items() if n.operation is not None and n.owner is not None}
    gather({n: g if create_graph else make(g.array.copy()) for n, g in retained.items()}, {}, create_graph)
    return [found.get(node) for node in nodes]
