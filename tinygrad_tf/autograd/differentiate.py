"""backward and grad for several outputs, with PyTorch's arguments and errors; the walk itself is the engine's."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, NamedTuple

import numpy as np

from tinygrad_tf import engine
from tinygrad_tf.tensor import Tensor


class GradientEdge(NamedTuple):
    """A place in the graph where a gradient arrives; see graph.get_gradient_edge. output_nr: 0, of its only result."""

    node: engine.Node
    output_nr: int
    ownership_token: engine.Node | None = None


Tensors = Tensor | GradientEdge | Iterable[Tensor | GradientEdge]
more_to_come: ContextVar[bool] = ContextVar("more_to_come", default=False)  # func.vmap has further slices for a graph


def _as_tuple(name: str, x: Any) -> tuple[Any, ...]:
    """One tensor or several, also those of model.parameters(), as a tuple; an error that says what else came."""
    if isinstance(x, (engine.Tensor, GradientEdge)):
        return (_tensor_at(x),)
    if not isinstance(x, Iterable) or isinstance(x, (str, Mapping, np.ndarray)):
        raise TypeError(f"{name} must be a Tensor or several, as in a list, got {type(x).__name__}")
    found = tuple([_tensor_at(t) for t in x])
    for i, t in enumerate(found):
        if not isinstance(t, engine.Tensor):
            raise TypeError(f"{name}[{i}] must be a Tensor, got {type(t).__name__}")
    return found


def _tensor_at(x: Any) -> Any:
    """The leaf of a GradientEdge, or a tensor that stands for what is gone: the graph alone is asked for."""
    if not isinstance(x, GradientEdge):
        return x
    node = x.node
    owner = node.owner() if node.operation is None and node.owner is not None else None
    return engine.make(np.broadcast_to(np.zeros((), node.dtype), node.shape), node) if owner is None else owner


def _gradients(name: str, gradients: Any, outputs: tuple[Any, ...]) -> list[Any]:
    """One gradient or None for each output."""
    if gradients is None:
        return [None] * len(outputs)
    if not isinstance(gradients, (engine.Tensor, Iterable)):
        raise TypeError(f"{name} must be a Tensor, several, or None, got {type(gradients).__name__}")
    found = [gradients] if isinstance(gradients, engine.Tensor) else list(gradients)
    if len(found) != len(outputs):
        raise RuntimeError(
            f"got {len(outputs)} tensors and {len(found)} gradients in {name}; give one for each, or None"
        )
    for i, g in enumerate(found):
        if g is not None and not isinstance(g, engine.Tensor):
            raise TypeError(f"{name}[{i}] must be a Tensor or None, got {type(g).__name__}")
    return found


def backward(
    tensors: Tensors,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Any = None,
    inputs: Tensors | None = None,
) -> None:
    """Add the gradients of `tensors`, weighted by `grad_tensors`, to `.grad` of the leaves (or of `inputs` alone).

    tensors: a tensor or several that require gradients. grad_tensors: for each a tensor of its shape, or None, which
    means 1 and needs a tensor of one element. retain_graph: keep the graph for another pass (default: as
    create_graph). create_graph: record the pass itself, so that its results can be differentiated.

    >>> import tinygrad_tf as tg
    >>> x = tg.tensor([1.0, 2.0], requires_grad=True)
    >>> backward([(x * x).sum(), 3 * x], [None, tg.ones(2)])
    >>> x.grad
    tensor([5., 7.])
    """
    roots = _as_tuple("tensors", tensors)
    given = grad_tensors if grad_tensors is not None else grad_variables
    chosen = None if inputs is None else _as_tuple("inputs", inputs)
    engine.backward(roots, _gradients("grad_tensors", given, roots), retain_graph, create_graph, chosen)


def grad(
    outputs: Tensors,
    inputs: Tensors,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Any, ...]:
    """The gradients of `outputs`, weighted by `grad_outputs`, with respect to each of `inputs`; no `.grad` is touched.

    allow_unused: give None for an input that the outputs do not depend on, instead of an error; materialize_grads:
    give zeros. is_grads_batched: each grad_output has a leading axis; the pass is made for each entry and the results
    stacked.

    >>> import tinygrad_tf as tg
    >>> x = tg.tensor(3.0, requires_grad=True)
    >>> (first,) = grad(x**3, x, create_graph=True)
    >>> (second,) = grad(first, x)
    >>> first.item(), second.item()
    (27.0, 18.0)
    """
    roots, sources = _as_tuple("outputs", outputs), _as_tuple("inputs", inputs)
    if not only_inputs:
        warnings.warn("grad: only_inputs=False is ignored, as in PyTorch; use backward()", FutureWarning, stacklevel=2)
    if not sources:
        raise RuntimeError("grad: `inputs` is empty; name the tensors whose gradients are wanted")
    if materialize_grads and allow_unused is False:
        raise ValueError("allow_unused must not be False when materialize_grads is True: zeros stand for unused inputs")
    gradients = _gradients("grad_outputs", grad_outputs, roots)
    retain_graph = True if more_to_come.get() else retain_graph
    if is_grads_batched:
        found = _batched(roots, sources, gradients, retain_graph, create_graph)
    else:
        found = engine.grad(roots, sources, gradients, retain_graph, create_graph)
    _separate(found)
    if materialize_grads:
        return tuple(_nothing(x, create_graph) if g is None else g for g, x in zip(found, sources, strict=True))
    if None in [g if g is None else 0 for g in found] and not allow_unused:
        unused = [g is None for g in found].index(True)
        raise RuntimeError(
            f"input {unused} of grad was not used for the outputs; pass allow_unused=True to get None for it"
        )
    return tuple(found)


def _nothing(x: Any, create_graph: bool) -> Any:
    """Zeros for the gradient of what was not used; those of a graph have a gradient themselves, as in PyTorch."""
    zeros = engine.make(np.zeros_like(x.array))
    if create_graph:
        engine.leaf(zeros)
    return zeros


def _batched(
    roots: tuple[Any, ...],
    sources: tuple[Any, ...],
    gradients: list[Any],
    retain_graph: bool | None,
    create_graph: bool,
) -> list[Any]:
    """One pass for each entry of the gradients' leading axis, stacked."""
    sizes = {g.array.shape[0] if g is not None and g.array.ndim else None for g in gradients}
    if len(sizes) != 1 or None in sizes:
        raise ValueError("is_grads_batched: each of grad_outputs needs a leading axis, of the same size in all")
    count = sizes.pop()
    assert count is not None
    keep_at_end = create_graph if retain_graph is None else retain_graph
    rows = []
    for i in range(count):
        keep = True if i + 1 < count else keep_at_end
        rows.append(engine.grad(roots, sources, [g[i] for g in gradients], keep, create_graph))
    return [None if column[0] is None else _stack(column) for column in zip(*rows, strict=True)]


def _stack(tensors: Sequence[Any]) -> Any:
    from tinygrad_tf.ops.shape import stack

    return stack(tensors)


def _separate(found: list[Any]) -> None:
    """An input named twice gets two gradients that share no memory."""
    seen: set[int] = set()
    for i, g in enumerate(found):
        if g is not None and id(g) in seen:
            found[i] = g.clone()
        seen.add(id(g))
