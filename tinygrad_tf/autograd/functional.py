"""Derivatives of functions: vjp, jvp, jacobian, hessian, hvp, vhp, as in torch.autograd.functional.

All of them take a function of tensors and a tensor or tuple of inputs, work on private copies of the inputs, and
return plain tensors unless `create_graph`. Products with J from the right come without a forward mode (`pushforward`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tinygrad_tf import engine
from tinygrad_tf.autograd.grad_mode import enable_grad
from tinygrad_tf.autograd.pushforward import Pushforward, gradients
from tinygrad_tf.engine import current_node, make
from tinygrad_tf.ops.shape import stack

Func = Callable[..., Any]


def vjp(func: Func, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple[Any, Any]:
    """The outputs, and v^T J: the gradients of the outputs weighted by `v` (None for one output of one element).

    >>> import tinygrad_tf as tg
    >>> vjp(lambda x: x * x, tg.tensor([1.0, 2.0]), tg.ones(2))
    (tensor([1., 4.]), tensor([2., 4.]))
    """
    with enable_grad():
        call = _Call("vjp", func, inputs, create_graph, strict)
        weights = call.vector(v, call.outputs, "output", call.many_outputs)
        found = gradients(call.outputs, call.inputs, weights, create_graph)
        result = call.filled(found, call.inputs, "gradient")
    return call.outside(call.outputs, call.many_outputs), call.outside(result, call.many_inputs)


def jvp(func: Func, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple[Any, Any]:
    """The outputs, and J v: how the outputs change when the inputs move along `v`.

    >>> import tinygrad_tf as tg
    >>> jvp(lambda x: x * x, tg.tensor([1.0, 2.0]), tg.tensor([1.0, 0.0]))
    (tensor([1., 4.]), tensor([2., 0.]))
    """
    with enable_grad():
        call = _Call("jvp", func, inputs, create_graph, strict)
        direction = call.vector(v, call.inputs, "input", call.many_inputs)
        moved = Pushforward(call.outputs, call.inputs).along(direction, create_graph)
        result = call.filled(moved, call.outputs, "derivative")
    return call.outside(call.outputs, call.many_outputs), call.outside(result, call.many_outputs)


def jacobian(
    func: Func,
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """d outputs / d inputs, of shape (*output.shape, *input.shape) for each pair (tuples of tuples for several).

    strategy: "reverse-mode" makes one pass for each element of the outputs, "forward-mode" one for each of the inputs.
    vectorize is accepted and changes nothing: NumPy has no batched passes to offer.

    >>> import tinygrad_tf as tg
    >>> jacobian(lambda x: x * x, tg.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    if strategy not in ("reverse-mode", "forward-mode"):
        raise ValueError(f"jacobian: strategy must be 'reverse-mode' or 'forward-mode', got {strategy!r}")
    with enable_grad():
        call = _Call("jacobian", func, inputs, create_graph, strict)
        if strategy == "forward-mode":
            push = Pushforward(call.outputs, call.inputs)
            columns = [_columns(call, push, i, create_graph) for i in range(len(call.inputs))]
            rows = [[column[j] for column in columns] for j in range(len(call.outputs))]
        else:
            rows = [_rows(call, output, create_graph) for output in call.outputs]
    matrix = [call.outside(row, call.many_inputs) for row in rows]
    return tuple(matrix) if call.many_outputs else matrix[0]


def hessian(
    func: Func,
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The second derivatives of a function with one output of one element: the jacobian of its gradient.

    >>> import tinygrad_tf as tg
    >>> hessian(lambda x: (x**3).sum(), tg.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    _, many = _inputs("hessian", inputs)

    def gradient(*copies: Any) -> Any:
        output = _one_element("hessian", func(*copies))
        found = [None] * len(copies)
        if current_node(output) is not None:
            found = gradients((output,), copies, (None,), True)
        elif strict:
            raise RuntimeError("hessian: the output does not depend on the inputs, which strict=True forbids")
        filled = _fill("hessian", found, copies, strict, "the derivative by input")
        return tuple(filled) if many else filled[0]

    return jacobian(gradient, inputs, create_graph, strict, vectorize, outer_jacobian_strategy)


def hvp(func: Func, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple[Any, Any]:
    """The output, and H v with H the hessian.

    >>> import tinygrad_tf as tg
    >>> hvp(lambda x: (x * x * x).sum(), tg.tensor([1.0, 2.0]), tg.tensor([1.0, 1.0]))
    (tensor(9.), tensor([ 6., 12.]))
    """
    return _hessian_product("hvp", func, inputs, v, create_graph, strict)


def vhp(func: Func, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple[Any, Any]:
    """The output, and v^T H with H the hessian; cheaper than hvp, and equal to it where H is symmetric.

    >>> import tinygrad_tf as tg
    >>> vhp(lambda x: (x * x * x).sum(), tg.tensor([1.0, 2.0]), tg.tensor([1.0, 1.0]))
    (tensor(9.), tensor([ 6., 12.]))
    """
    return _hessian_product("vhp", func, inputs, v, create_graph, strict)


# --- what they share --------------------------------------------------------------------------------------------------


class _Call:
    """A function applied to private copies of its inputs, with what has to be known to hand back results."""

    def __init__(self, name: str, func: Func, inputs: Any, create_graph: bool, strict: bool):
        self.name, self.create_graph, self.strict = name, create_graph, strict
        given, self.many_inputs = _inputs(name, inputs)
        self.inputs = tuple(_private(x, create_graph) for x in given)
        result = func(*self.inputs)
        self.outputs, self.many_outputs = _tensors(name, "the function's output", result)
        for i, output in enumerate(self.outputs):
            if strict and current_node(output) is None:
                raise RuntimeError(f"{name}: output {i} does not depend on the inputs, which strict=True forbids")

    def vector(self, v: Any, like: tuple[Any, ...], what: str, many: bool) -> tuple[Any, ...]:
        """`v` as a tuple that fits `like`; ones where it may be left out."""
        if v is None:
            if len(like) != 1 or like[0].array.size != 1:
                raise RuntimeError(f"{self.name}: v can only be left out for a single {what} of one element")
            return (make(np.ones_like(like[0].array)),)
        found, v_many = _tensors(self.name, "v", v)
        if v_many != many or len(found) != len(like):
            raise RuntimeError(f"{self.name}: v must be built like the {what}s: {len(like)} tensors, got {len(found)}")
        for i, (x, y) in enumerate(zip(found, like, strict=True)):
            if x.array.shape != y.array.shape:
                raise RuntimeError(
                    f"{self.name}: v[{i}] must have the {what}'s shape {y.array.shape}, got {x.array.shape}"
                )
        return found if self.create_graph else tuple(x.detach() for x in found)

    def filled(self, found: list[Any], like: tuple[Any, ...], what: str) -> list[Any]:
        return _fill(self.name, found, like, self.strict, what)

    def outside(self, tensors: Any, many: bool) -> Any:
        """What the caller gets: without history unless it was asked for, and a single tensor where one was given."""
        found = tuple(tensors) if self.create_graph else tuple(t.detach() for t in tensors)
        return found if many else found[0]


def _tensors(name: str, what: str, x: Any) -> tuple[tuple[Any, ...], bool]:
    many = isinstance(x, (tuple, list))
    found = tuple(x) if many else (x,)
    for t in found:
        if not isinstance(t, engine.Tensor):
            raise TypeError(f"{name}: {what} must be a Tensor or a tuple of Tensors, got {type(t).__name__}")
    return found, many


def _inputs(name: str, inputs: Any) -> tuple[tuple[Any, ...], bool]:
    found, many = _tensors(name, "inputs", inputs)
    for i, t in enumerate(found):
        if t.array.dtype.kind not in "fV":
            raise RuntimeError(f"{name}: input {i} has dtype {t.array.dtype}; only floating point has derivatives")
    return found, many


def _private(x: Any, create_graph: bool) -> Any:
    """An input to differentiate by: a link in the caller's graph, or a leaf of its own."""
    if create_graph and current_node(x) is not None:
        return engine.alias(x)
    leaf = make(x.array, None, x.storage)
    engine.leaf(leaf)
    return leaf


def _fill(name: str, found: list[Any], like: tuple[Any, ...], strict: bool, what: str) -> list[Any]:
    """Zeros where nothing arrived; an error with `strict`."""
    if strict and any(g is None for g in found):
        which = [g is None for g in found].index(True)
        raise RuntimeError(f"{name}: {what} {which} is independent of the inputs, which strict=True forbids")
    return [make(np.zeros_like(x.array)) if g is None else g for g, x in zip(found, like, strict=True)]


def _rows(call: _Call, output: Any, create_graph: bool) -> list[Any]:
    """The jacobians of one output, row by row."""
    found: list[list[Any]] = []
    for i in range(output.array.size):
        one = np.zeros(output.array.size, output.array.dtype)
        one[i] = 1
        row = gradients((output,), call.inputs, (make(one.reshape(output.array.shape)),), create_graph)
        found.append(call.filled(row, call.inputs, "the derivative by input"))
    shape = output.array.shape
    if not found:
        return [make(np.zeros((*shape, *x.array.shape), x.array.dtype)) for x in call.inputs]
    return [
        stack(column).reshape(*shape, *x.array.shape)
        for column, x in zip(zip(*found, strict=True), call.inputs, strict=True)
    ]


def _columns(call: _Call, push: Pushforward, position: int, create_graph: bool) -> list[Any]:
    """The jacobians of all outputs with respect to one input, column by column."""
    x = call.inputs[position]
    found: list[list[Any]] = []
    for i in range(x.array.size):
        direction = [make(np.zeros(y.array.shape, y.array.dtype)) for y in call.inputs]
        direction[position].array.reshape(-1)[i] = 1
        found.append(call.filled(push.along(direction, create_graph), call.outputs, "the derivative of output"))
    if not found:
        return [make(np.zeros((*o.array.shape, *x.array.shape), o.array.dtype)) for o in call.outputs]
    return [
        stack(column, -1).reshape(*o.array.shape, *x.array.shape)
        for column, o in zip(zip(*found, strict=True), call.outputs, strict=True)
    ]


def _one_element(name: str, output: Any) -> Any:
    if not isinstance(output, engine.Tensor):
        raise RuntimeError(f"{name}: the function must return one Tensor, got {type(output).__name__}")
    if output.array.size != 1:
        raise RuntimeError(f"{name}: the function must return one element, got shape {output.array.shape}")
    return output


def _hessian_product(name: str, func: Func, inputs: Any, v: Any, create_graph: bool, strict: bool) -> tuple[Any, Any]:
    with enable_grad():
        call = _Call(name, lambda *x: _one_element(name, func(*x)), inputs, create_graph, strict)
        direction = call.vector(v, call.inputs, "input", call.many_inputs)
        first = call.filled(gradients(call.outputs, call.inputs, (None,), True), call.inputs, "the gradient of input")
        if name == "vhp":
            found = gradients(first, call.inputs, direction, create_graph)
        else:
            found = Pushforward(first, call.inputs).along(direction, create_graph)
        result = call.filled(found, call.inputs, "the second derivative by input")
    return call.outside(call.outputs, False), call.outside(result, call.many_inputs)
