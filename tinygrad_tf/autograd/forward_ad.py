"""Dual tensors, as in torch.autograd.forward_ad: a value together with the direction in which it moves.

There are no rules for tangents here. A tangent is found when it is asked for, by two passes backwards (`pushforward`).
So operations must be recorded between `make_dual` and `unpack_dual`: what is computed under no_grad, or by a backward
pass without create_graph, does not move.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from tinygrad_tf.autograd.dependence import depends_on_others
from tinygrad_tf.autograd.grad_mode import enable_grad
from tinygrad_tf.autograd.pushforward import Pushforward
from tinygrad_tf.engine import Tensor, alias, leaf, make, mode
from tinygrad_tf.ops._types import category, wants_tensor

__all__ = ["UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual"]


class UnpackedDualTensor(NamedTuple):
    """What unpack_dual returns; tangent is None where a tensor does not depend on a dual one."""

    primal: Any
    tangent: Any


class _Level(threading.local):
    """What was made dual in the level that is open, with its tangent; None if none is open."""

    pairs: list[tuple[Tensor, Tensor]] | None = None


_level = _Level()


def enter_dual_level() -> int:
    """Open the level in which tensors can be dual: there is one, number 0. `with dual_level()` is the better way."""
    if _level.pairs is not None:
        raise RuntimeError("enter_dual_level: a level is open already, and there is only one; see func.jvp")
    _level.pairs = []
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """Close the level: no tensor is dual any more."""
    if _level.pairs is None or level not in (None, 0):
        raise RuntimeError(f"exit_dual_level: no level is open that is {'the last' if level is None else level}")
    _level.pairs = None


@contextmanager
def dual_level() -> Iterator[int]:
    """The level in which tensors can be dual.

    >>> import tinygrad_tf as tg
    >>> with dual_level():
    ...     x = make_dual(tg.tensor([1.0, 2.0]), tg.tensor([1.0, 0.5]))
    ...     unpack_dual(x * x).tangent
    tensor([2., 2.])
    """
    level = enter_dual_level()
    try:
        yield level
    finally:
        exit_dual_level(level=level)


def _of_level(name: str, level: int | None) -> list[tuple[Tensor, Tensor]] | None:
    if level not in (None, 0):
        raise RuntimeError(f"{name}: level must be 0 or None, as there is one, got {level!r}")
    return _level.pairs


def make_dual(tensor: Any, tangent: Any, *, level: int | None = None) -> Any:
    """The tensor, on its memory, as one that moves along `tangent`, which has its shape; see dual_level."""
    pairs = _of_level("make_dual", level)
    if pairs is None:
        raise RuntimeError("make_dual: no level is open; use it in `with dual_level():`")
    for name, t in (("tensor", tensor), ("tangent", tangent)):
        if not isinstance(t, Tensor):
            raise wants_tensor("make_dual", name, t)
        if category(t.array.dtype) != 2:
            raise ValueError(f"make_dual: {name} must have a floating point dtype, got {t.array.dtype}")
    if tensor.array.shape != tangent.array.shape:
        shapes = f"{tensor.array.shape} and {tangent.array.shape}"
        raise RuntimeError(f"make_dual: tensor and tangent must have the same shape, got {shapes}")
    if not mode.grad:
        raise RuntimeError("make_dual: not under no_grad: tangents come by way of gradients here")
    moving: Any = alias(tensor)
    if moving.node is None:
        leaf(moving)
    pairs.append((moving, tangent))
    return alias(moving)


def unpack_dual(tensor: Any, *, level: int | None = None) -> UnpackedDualTensor:
    """The value of a tensor, and its tangent: J times the tangents of the dual tensors that it was computed from."""
    pairs = _of_level("unpack_dual", level)
    if not isinstance(tensor, Tensor):
        raise wants_tensor("unpack_dual", "tensor", tensor)
    if not pairs or not tensor.requires_grad:  # type: ignore[attr-defined]
        return UnpackedDualTensor(tensor, None)
    with enable_grad():
        tangent, weights = _pushed(tensor, pairs)
    own = {moving.node for moving, _ in pairs} | {weights.node}
    results = [t if t is None or depends_on_others(t, own) else make(t.array) for t in (alias(tensor), tangent)]
    return UnpackedDualTensor(*results)


def _pushed(output: Any, pairs: list[tuple[Tensor, Tensor]]) -> tuple[Any, Tensor]:
    """J v, or None, and the v of v^T J, by which it was differentiated."""
    moving, tangents = zip(*pairs, strict=True)
    push = Pushforward([output], moving)
    (found,) = push.along(tangents, create_graph=True)
    if found is None and push.reaches:
        found = make(np.zeros_like(output.array))
    return found, push.weights[0]
