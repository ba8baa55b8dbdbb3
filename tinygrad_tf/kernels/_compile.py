"""The only place where numba compiles: how kernels are decorated, cached and spread over threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba

# NaN and infinity keep their IEEE meaning: neither "nnan" nor "ninf" is among the flags.
FAST_MATH = {"contract", "nsz", "arcp", "reassoc"}


def kernel(function: Callable[..., Any]) -> Any:
    """Compile one function; it may be called from Python and from other kernels."""
    return numba.njit(nogil=True, error_model="numpy", fastmath=FAST_MATH, cache=True)(function)


def parallel(block: Callable[..., Any]) -> Any:
    """Turn `block(index, *args)` into `run(count, *args)`, which runs indices 0 ... count - 1, on several threads."""
    compiled = kernel(block)

    @numba.njit(nogil=True, error_model="numpy")
    def run(count: int, *args: Any) -> None:
        for index in range(count):
            compiled(index, *args)

    return run
