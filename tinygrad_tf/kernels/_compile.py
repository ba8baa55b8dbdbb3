"""The only place where numba compiles: how kernels are decorated, cached and spread over threads."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numba
from numba.core import event

from tinygrad_tf.kernels._cache import KernelCache

# NaN and infinity keep their IEEE meaning: neither "nnan" nor "ninf" is among the flags.
FAST_MATH = {"contract", "nsz", "arcp", "reassoc"}


def kernel(function: Callable[..., Any]) -> Any:
    """Compile one function; it may be called from Python and from other kernels."""
    return _compiled(function, function.__code__.co_filename)


def parallel(block: Callable[..., Any]) -> Any:
    """Turn `block(index, *args)` into `run(count, *args)`, which runs indices 0 ... count - 1, on several threads."""
    compiled = kernel(block)

    def run(count: int, *args: Any) -> None:
        for index in range(count):
            compiled(index, *args)

    return _compiled(run, block.__code__.co_filename)


def _compiled(function: Callable[..., Any], source: str) -> Any:
    compiled = numba.njit(nogil=True, error_model="numpy", fastmath=FAST_MATH)(function)
    if not numba.config.DISABLE_JIT:
        compiled._cache = KernelCache(function, source)
    return compiled


class _Stopwatch(event.Listener):
    """Adds up the time that kernels spend in the compiler; those that other kernels ask for lie inside of these."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.callbacks: list[Callable[[], None]] = []
        self._starts: list[float] = []

    def on_start(self, started: Any) -> None:
        if not _is_kernel(started):
            return
        self._starts.append(time.perf_counter())
        while self.callbacks:
            self.callbacks.pop(0)()

    def on_end(self, ended: Any) -> None:
        if _is_kernel(ended):
            started = self._starts.pop()
            if not self._starts:
                self.seconds += time.perf_counter() - started


def _is_kernel(compiling: Any) -> bool:
    return isinstance(compiling.data["dispatcher"]._cache, KernelCache)


_stopwatch = _Stopwatch()
event.register("numba:compile", _stopwatch)


def compile_seconds() -> float:
    """Seconds that this process has spent compiling kernels; loading them from the cache does not count."""
    return _stopwatch.seconds


def on_compile(callback: Callable[[], None]) -> None:
    """Call `callback()` once, when the next kernel has to be compiled (not when it is loaded from the cache)."""
    _stopwatch.callbacks.append(callback)
