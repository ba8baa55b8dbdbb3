"""The only place where numba compiles: how kernels are decorated, cached and spread over threads."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import config, types
from numba.core import cgutils, event
from numba.core.targetconfig import ConfigStack
from numba.extending import intrinsic

from tinygrad_tf.kernels import _threads
from tinygrad_tf.kernels._cache import KernelCache, compiled
from tinygrad_tf.kernels._threads import BLOCK_FUNCTION, BYTES, ENTRY, INT, JOB_FUNCTION, slot_pointer

get_num_threads = _threads.pool.get_num_threads
set_num_threads = _threads.pool.set_num_threads


def kernel(function: Callable[..., Any]) -> Any:
    """Compile one function; it may be called from Python and from other kernels."""
    return compiled(function)


def parallel(block: Callable[..., Any]) -> Any:
    """Turn `block(index, *args)` into `run(count, *args)`, which runs indices 0 ... count - 1, on several threads."""
    names = list(inspect.signature(block).parameters)[1:]
    if config.DISABLE_JIT:
        return _plain_loop(block)
    # numba unboxes named parameters faster than a tuple *args, so `run` is made with the names of the block's.
    source = f"lambda count, {', '.join(names)}: launch(count, ({''.join(name + ', ' for name in names)}))"
    run = eval(source, {"launch": _launch(block), "__name__": block.__module__})
    run.__name__, run.__qualname__, run.__doc__ = block.__name__, block.__qualname__, block.__doc__
    return compiled(run, block.__code__.co_filename)


def _plain_loop(block: Callable[..., Any]) -> Callable[..., None]:
    def run(count: int, *args: Any) -> None:
        for index in range(count):
            block(index, *args)

    return run


def _launch(block: Callable[..., Any]) -> Any:
    """`launch(count, args)` for compiled code: pack the arguments, hand the job to the pool."""

    @intrinsic
    def launch(typing: Any, count: Any, args: Any) -> Any:
        return types.void(types.intp, args), emit

    def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        count, arguments = values[0], cgutils.unpack_tuple(builder, values[1])
        kinds = signature.args[1].types
        # The block is compiled here and nowhere else, without an entry of its own for Python.
        block_signature = types.none(types.intp, *kinds)
        result = context.compile_subroutine(
            builder, block, block_signature, flags=ConfigStack().top().copy(), caching=False
        )
        packed = cgutils.alloca_once_value(builder, cgutils.pack_struct(builder, arguments))
        run_block = _unpacking(context, builder.module, result.fndesc, packed.type, block_signature)
        packed = builder.bitcast(packed, BYTES)
        with builder.if_else(builder.icmp_signed("==", count, INT(1))) as (one, several):
            with one:
                builder.call(run_block, [packed, INT(0)])
            with several:
                entry = builder.load(slot_pointer(context, builder, ENTRY))
                run_job = builder.inttoptr(entry, JOB_FUNCTION.as_pointer())
                builder.call(run_job, [builder.ptrtoint(run_block, INT), builder.ptrtoint(packed, INT), count])
        return context.get_dummy_value()

    return launch


def _unpacking(context: Any, module: Any, block: Any, packed: Any, signature: Any) -> Any:
    """A function of (packed arguments, index) that calls the block: what workers are given."""
    function = ir.Function(module, BLOCK_FUNCTION, module.get_unique_name("run_block"))
    function.linkage = "internal"
    function.attributes.add("noinline")
    builder = ir.IRBuilder(function.append_basic_block())
    arguments = cgutils.unpack_tuple(builder, builder.load(builder.bitcast(function.args[0], packed)))
    callee = context.declare_function(module, block)
    context.call_conv.call_function(
        builder, callee, signature.return_type, signature.args, [function.args[1], *arguments]
    )
    builder.ret_void()
    return function


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
