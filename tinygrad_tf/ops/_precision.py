"""What autocast lowers: products of matrices work on operands rounded to a 16-bit dtype, and give that dtype."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

from tinygrad_tf.dtypes import float32
from tinygrad_tf.engine import Tensor


class _State(threading.local):
    """The dtype that autocast asks for in this thread; None outside of it."""

    dtype: Any = None


state = _State()


def lowered(operation: Callable[..., Any]) -> Callable[..., Any]:
    """Let autocast reach an operation: its float32 operands are rounded, the products are summed up in float32 (as
    processors with bfloat16 units do), and the result is rounded. Gradients pass through the roundings.
    """

    @functools.wraps(operation)
    def call(*args: Any, **kwargs: Any) -> Any:
        wanted = state.dtype
        if wanted is None:
            return operation(*args, **kwargs)
        state.dtype = None
        try:
            out = operation(*(_rounded(a, wanted) for a in args), **{k: _rounded(a, wanted) for k, a in kwargs.items()})
        finally:
            state.dtype = wanted
        return out.to(wanted) if out.array.dtype == "float32" else out

    return call


def _rounded(x: Any, dtype: Any) -> Any:
    """A 32-bit or 16-bit floating point tensor with the values that it has in `dtype`, in float32."""
    if not isinstance(x, Tensor) or not x.is_floating_point() or x.array.dtype == "float64":  # type: ignore[attr-defined]
        return x
    return x.to(dtype).to(float32)  # type: ignore[attr-defined]
