"""Function: your own operation with its own gradient, in PyTorch's words.

The context is what its `forward` leaves for its `backward` (`_context`), and `_call` records both as one operation.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from tinygrad_tf import engine
from tinygrad_tf.autograd._call import check_dirty, recorded, unrecorded
from tinygrad_tf.autograd._context import Context
from tinygrad_tf.autograd.grad_mode import no_grad
from tinygrad_tf.engine import Node, Tensor, make
from tinygrad_tf.operation import Edges

FunctionCtx = Context  # PyTorch's name, for annotations


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
        check_dirty(cls, context, outputs, recording)
        results = recorded(cls, context, inputs, nodes, outputs) if recording else unrecorded(context, inputs, outputs)
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

    def pull(self, node: Node, edges: Edges, g: Any, create_graph: bool, own: bool = False) -> Sequence[Any]:
        raise RuntimeError(
            f"{self.name} is marked once_differentiable and cannot be differentiated again; "
            "write it in tensor operations and drop the mark"
        )
