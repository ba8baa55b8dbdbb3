"""check_module: a module's gradients with respect to its inputs and every one of its parameters, by name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from tinygrad_tf import engine
from tinygrad_tf.autograd.arguments import names_of, refuse_foreign
from tinygrad_tf.autograd.check import Settings, examine
from tinygrad_tf.autograd.gradcheck import decide
from tinygrad_tf.autograd.report import RANDOM, Report
from tinygrad_tf.autograd.subjects import TensorSubject
from tinygrad_tf.engine import current_node, make


def check_module(
    module: Any,
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    fast_mode: bool = False,
    seed: int = 0,
) -> Report:
    """Check all gradients of `module(*inputs)`. Returns the report, or raises GradcheckError with it.

    inputs: a Tensor or array, or a tuple of them; those of floating point are checked, and so is every parameter that
    requires a gradient. The check is made in float64, whatever the module's dtype; afterwards the module is as it was,
    to the bit, buffers included. Dropout must be off: call `module.eval()` first.

    >>> import numpy as np
    >>> from tinygrad_tf import nn
    >>> check_module(nn.Linear(3, 2), np.ones((4, 3))).verdicts
    {'input': 'right', 'weight': 'right', 'bias': 'right'}
    """
    given = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    refuse_foreign((module, *given), "check_module")
    if isinstance(module, type) or not hasattr(module, "named_parameters"):
        raise TypeError(_no_module(module))
    arguments = [_argument(x) for x in given]
    names = names_of(getattr(module, "forward", None), len(arguments))
    named = [
        (n, t) for n, t in zip(names, arguments, strict=True) if isinstance(t, engine.Tensor) and t.node is not None
    ]
    with in_float64(module) as parameters:
        taken = {n for n, _ in named}
        named += [(f"parameter {n}" if n in taken else n, p) for n, p in parameters if current_node(p) is not None]
        if not named:
            raise ValueError(
                "check_module: neither an input nor a parameter requires a gradient, so there is nothing to check"
            )
        integers = [t.array for t in arguments if isinstance(t, engine.Tensor) and t.array.dtype.kind in "iu"]
        subject = TensorSubject(lambda: module(*arguments), named, integers)
        report = examine(subject, Settings(eps=eps, fast=fast_mode, seed=seed), type(module).__name__)
    if any(kind == RANDOM for kind, _ in report.problems) and getattr(module, "training", False):
        report.problems.append((RANDOM, "the module is in training mode: call .eval() to switch dropout off"))
    decide(report, atol, rtol, raise_exception)
    return report


def _no_module(thing: Any) -> str:
    if isinstance(thing, type):
        return f"check_module needs a module that is made, got the class {thing.__name__}; pass {thing.__name__}(...)"
    pair = callable(getattr(thing, "forward", None)) and callable(getattr(thing, "backward", None))
    instead = "check_backward(layer.forward, layer.backward, inputs)" if pair else "gradcheck(function, inputs)"
    return f"check_module needs a module, got {type(thing).__name__}; for this there is {instead}"


def _argument(x: Any) -> Any:
    """A float64 leaf of our own for floating point, anything else as it is."""
    if isinstance(x, np.ndarray):
        x = make(x)
    if not isinstance(x, engine.Tensor) or x.array.dtype.kind not in "fV":
        return x
    copy = make(x.array.astype(np.float64))
    engine.leaf(copy)
    return copy


@contextmanager
def in_float64(module: Any) -> Iterator[list[tuple[str, Any]]]:
    """Parameters and buffers as float64 copies for a while; yields the named parameters."""
    parameters = list(module.named_parameters())
    buffers = list(module.named_buffers()) if hasattr(module, "named_buffers") else []
    before = [(t, t.array, t.node) for _, t in [*parameters, *buffers] if isinstance(t, engine.Tensor)]
    try:
        for t, array, node in before:
            t.array = array.astype(np.float64) if array.dtype.kind in "fV" else array.copy()
            if node is not None and node.operation is None:
                engine.leaf(t)
        yield parameters
    finally:
        for t, array, node in before:
            t.array, t.node = array, node
