"""What autocast lowers, and what it raises, as PyTorch's lists for the CPU have it.

Lowered: products of matrices and attention take their float32 operands rounded to a 16-bit dtype and give that dtype.
They save for their gradients what they were given, so that activations take half of the memory. No processor's 16-bit
arithmetic is used: inside, products are summed up in float32, as hardware for 16 bits does it.
Raised: losses take 16-bit operands in float32.
Everything else works in whatever dtype it is given.
"""

from __future__ import annotations

import functools
import inspect
import threading
import weakref
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import numpy as np

from tinygrad_tf.engine import Tensor, cast, current_node, mode

P = ParamSpec("P")
R = TypeVar("R")
FLOAT32 = np.dtype(np.float32)
MASKS = ("mask", "attn_mask")

# id(tensor): (the tensor, when its memory had last changed, whether the cast was recorded, the cast)
Casts = dict[int, tuple["weakref.ref[Tensor]", int, bool, Any]]


class _State(threading.local):
    """The dtype that autocast asks for in this thread, None outside of it; and what was cast already."""

    dtype: Any = None  # a NumPy dtype
    cache = True
    depth = 0  # how many autocast blocks are open

    def __init__(self) -> None:
        self.weights: Casts = {}  # leaves, kept until the outermost autocast ends
        self.last: Casts = {}  # the last operand that is no leaf: three projections read the same one

    def forget(self) -> None:
        self.weights.clear()
        self.last.clear()


state = _State()


def lowered(operation: Callable[P, R]) -> Callable[P, R]:
    """Let autocast reach an operation: its float32 operands are cast to autocast's dtype, but for masks.

    A mask is added to scores that exist in float32 only; rounding a bias of -250 would move it by a whole unit.
    Operations that are called at every turn ask `state.dtype` themselves, which costs less than this call in between.
    """
    names = tuple(inspect.signature(operation).parameters)
    mask = next((i for i, name in enumerate(names) if name in MASKS), len(names))

    @functools.wraps(operation)
    def call(*args: Any, **kwargs: Any) -> Any:
        wanted = state.dtype
        if wanted is None:
            return operation(*args, **kwargs)
        state.dtype = None
        try:
            given = [a if i == mask else _lower(a, wanted) for i, a in enumerate(args)]
            return operation(*given, **{k: a if k in MASKS else _lower(a, wanted) for k, a in kwargs.items()})
        finally:
            state.dtype = wanted

    return call


def composed(operation: Callable[..., Any]) -> Callable[..., Any]:
    """For what is lowered but made of many steps: it takes operands rounded to 16 bits, works in float32, rounds once.

    Under autocast, and for 16-bit operands outside of it, too: with every step rounded, errors would add up.
    """

    @functools.wraps(operation)
    def call(*args: Any, **kwargs: Any) -> Any:
        wanted = state.dtype
        if wanted is None and not any(isinstance(a, Tensor) and _is_float(a.array.dtype, (2,)) for a in args):
            return operation(*args, **kwargs)
        state.dtype = None
        try:
            given = args if wanted is None else [_lower(a, wanted) for a in args]
            dtype = next((a.array.dtype for a in given if isinstance(a, Tensor)), FLOAT32)
            out = operation(*(_raise(a) for a in given), **{k: _raise(a) for k, a in kwargs.items()})
            return out if out.array.dtype == dtype else cast(out, dtype=dtype)
        finally:
            state.dtype = wanted

    return call


def raised(operation: Callable[P, R]) -> Callable[P, R]:
    """Have an operation take 16-bit operands in float32 under autocast."""

    @functools.wraps(operation)
    def call(*args: Any, **kwargs: Any) -> Any:
        if state.dtype is None:
            return operation(*args, **kwargs)
        return operation(*(_raise(a) for a in args), **{k: _raise(a) for k, a in kwargs.items()})

    return call


def _raise(x: Any) -> Any:
    return cast(x, dtype=FLOAT32) if isinstance(x, Tensor) and _is_float(x.array.dtype, (2,)) else x


def _lower(x: Any, dtype: Any) -> Any:
    """A 32-bit or 16-bit floating point tensor in `dtype`; anything else as it is."""
    if not isinstance(x, Tensor) or x.array.dtype == dtype or not _is_float(x.array.dtype, (2, 4)):
        return x
    node = current_node(x)
    is_weight = node is not None and node.operation is None
    casts = state.weights if is_weight else state.last
    recorded = mode.grad and node is not None
    known = casts.get(id(x)) if state.cache else None
    fits = known is not None and known[0]() is x and known[1:3] == (x.storage.changed, recorded)
    if known is not None and fits and known[3].array.dtype == dtype:
        return known[3]
    result = cast(x, dtype=dtype)
    if state.cache:
        if not is_weight:
            casts.clear()
        casts[id(x)] = weakref.ref(x), x.storage.changed, recorded, result
    return result


def _is_float(dtype: np.dtype, sizes: tuple[int, ...]) -> bool:
    return dtype.kind in "fV" and dtype.itemsize in sizes
