"""The only place where kernels are made: compiled by numba, cached on disk (`_cache`), run on threads (`_threads`).

    @kernel                                   @parallel
    def scale(x, factor): ...                 def scale_rows(index, x, factor): ...
    scale(x, 2.0)                             scale_rows(number_of_blocks, x, 2.0)

Why a pool of our own, and not numba's `prange`? Measured on two cores, 200 loops of 8 blocks of 25 microseconds with
20 microseconds of other work in between, in milliseconds, and the same while another process holds one core:

                         alone      one core taken     worst
    this pool            27         48                 62
    GNU OpenMP, prange   29         73                 282          (a busier machine: 147 against 618)
    one thread           47         52                 95

OpenMP hands out the blocks beforehand and spins until all threads have come, so it waits for a thread that has no core;
here the others take its blocks. OpenMP also aborts a forked child, and numba's second layer aborts the process when two
threads enter it. A loop of two empty blocks costs 0.3 to 0.8 microseconds here and 1.9 there.

Compiling a block of three loops with its `run` takes 0.22 s; by itself it takes 0.2 s, behind a serial loop 0.34 s, in
a `prange` 0.95 s. Loading it from disk takes 4 ms. Calling `run(1, a, b, c)` from Python takes 0.28 microseconds.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils, event
from numba.core.callconv import Status, excinfo_ptr_t
from numba.core.compiler import compile_internal
from numba.core.targetconfig import ConfigStack

from tinygrad_tf.kernels import _threads
from tinygrad_tf.kernels._atomics import (
    BLOCK_FUNCTION,
    BYTES,
    ENTRY,
    INT,
    JOB_FUNCTION,
    START,
    START_FUNCTION,
    intrinsic,
    slot_pointer,
)
from tinygrad_tf.kernels._cache import KernelCache, compiled, config
from tinygrad_tf.kernels._memory import keep_freed_memory

keep_freed_memory()  # here, as the package can be imported without a kernel, and then changes nothing of the process
get_num_threads = _threads.pool.get_num_threads
set_num_threads = _threads.pool.set_num_threads


def kernel(function: Callable[..., Any]) -> Any:
    """Compile one function; it may be called from Python and from other kernels, and runs on the calling thread."""
    return compiled(function)


def parallel(block: Callable[..., Any]) -> Any:
    """Turn `block(index, *args)` into `run(count, *args)`, which runs indices 0 ... count - 1, on several threads.

    Blocks run in any order, so none may write what another reads or writes. Where one raises, `run` raises the same
    error after the others have ended. `run` may be called from kernels too.
    """
    names = arguments_of(block)
    if config.DISABLE_JIT:
        return plain_loop(block)
    # numba unboxes named parameters faster than a tuple *args, so `run` is made with the names of the block's.
    source = f"lambda {', '.join(['_count', *names])}: _launch(_count, ({''.join(name + ', ' for name in names)}))"
    run = eval(source, {"_launch": _launch(block), "__name__": block.__module__})
    run.__name__, run.__qualname__, run.__doc__ = block.__name__, block.__qualname__, block.__doc__
    code = block.__code__  # profilers tell functions by file, line and name
    run.__code__ = run.__code__.replace(
        co_filename=code.co_filename, co_firstlineno=code.co_firstlineno, co_name=code.co_name
    )
    return compiled(run, code.co_filename)


def arguments_of(block: Callable[..., Any]) -> list[str]:
    """The names of what a parallel block takes besides the index."""
    parameters = list(inspect.signature(block).parameters.values())
    if not parameters or any(p.kind != p.POSITIONAL_OR_KEYWORD or p.default is not p.empty for p in parameters):
        raise TypeError(
            f"a parallel block takes an index and named arguments without defaults, got "
            f"{block.__name__}{inspect.signature(block)}"
        )
    return [parameter.name for parameter in parameters[1:]]


def plain_loop(block: Callable[..., Any]) -> Callable[..., None]:
    def run(count: int, *args: Any) -> None:
        for index in range(count):
            block(index, *args)

    return run


def _launch(block: Callable[..., Any]) -> Any:
    """`launch(count, args)` for compiled code: pack the arguments, and hand the job to the pool."""

    @intrinsic
    def launch(typing: Any, count: Any, args: Any) -> Any:
        return types.void(types.intp, args), emit

    def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        kinds = signature.args[1].types
        return emit_loop(context, builder, block, kinds, values[0], cgutils.unpack_tuple(builder, values[1]))

    return launch


def emit_loop(context: Any, builder: Any, block: Callable[..., Any], kinds: Any, count: Any, values: Any) -> Any:
    """Compiled code that runs indices 0 ... count - 1 of a block with arguments of these kinds."""
    block_signature = types.none(types.intp, *kinds)
    descriptor = _compile_into_caller(context, block, block_signature)
    no_error = [ir.IntType(32)(0), excinfo_ptr_t(None)]
    lent = [_lent(context, builder, kind, value) for kind, value in zip(kinds, values, strict=True)]
    packed = cgutils.pack_struct(builder, [*no_error, *lent])
    job = cgutils.alloca_once_value(builder, packed)
    run_block = _unpacking(context, builder.module, descriptor, packed.type, block_signature)
    _run(builder, run_block, builder.bitcast(job, BYTES), count)
    code, error = (builder.load(cgutils.gep_inbounds(builder, job, 0, field)) for field in (0, 1))
    status = Status(code, None, None, None, None, None, None, error)
    with cgutils.if_unlikely(builder, cgutils.is_not_null(builder, code)):
        context.call_conv.return_status_propagate(builder, status)
    return context.get_dummy_value()


def _lent(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    """An array as one of which no references are counted: its owner waits for the job to end.

    All threads would count them in one place of memory, and take turns: what calls a function with the array for each
    small piece of work took as long on two threads as on one.
    """
    if not isinstance(kind, types.Array):
        return value
    array = context.make_array(kind)(context, builder, value)
    array.meminfo = cgutils.get_null_value(array.meminfo.type)
    return array._getvalue()


def _compile_into_caller(context: Any, block: Callable[..., Any], signature: Any, counts: bool = True) -> Any:
    """Compile the block into the library of the function being compiled, which saves optimising it twice.

    One that does not count references cannot make arrays.
    """
    flags = ConfigStack().top().copy()
    if not counts:
        flags.nrt, context = False, context.subtarget(enable_nrt=False)
    flags.no_compile = flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
    library = context.active_code_library
    result = compile_internal(
        context.typing_context, context, library, block, signature.args, signature.return_type, flags, {}
    )
    library._final_module.get_function(result.fndesc.mangled_name).linkage = "linkonce_odr"  # gone where inlined
    return result.fndesc


def _unpacking(context: Any, module: Any, block: Any, packed: Any, signature: Any) -> Any:
    """A function of (packed arguments, index) that calls the block: what workers are given."""
    function = ir.Function(module, BLOCK_FUNCTION, module.get_unique_name("run_block"))
    function.linkage = "internal"
    function.attributes.add("noinline")
    builder = ir.IRBuilder(function.append_basic_block())
    job = builder.bitcast(function.args[0], packed.as_pointer())
    arguments = [builder.load(cgutils.gep_inbounds(builder, job, 0, field)) for field in range(2, len(packed))]
    callee = context.declare_function(module, block)
    status, _ = context.call_conv.call_function(
        builder, callee, signature.return_type, signature.args, [function.args[1], *arguments]
    )
    with cgutils.if_unlikely(builder, status.is_error):  # the first error is the one that the caller raises
        code, error = (cgutils.gep_inbounds(builder, job, 0, field) for field in (0, 1))
        swapped = builder.cmpxchg(code, status.code.type(0), status.code, "acq_rel", "monotonic")
        with builder.if_then(builder.extract_value(swapped, 1)):
            builder.store(status.excinfoptr, error)
    builder.ret_void()
    return function


def _run(builder: Any, run_block: Any, job: Any, count: Any) -> None:
    """Run the blocks of a job: in the pool, or right here if there is one block only, or no pool."""
    entry = slot_pointer(builder, ENTRY)
    several = builder.icmp_signed(">", count, INT(1))
    with builder.if_then(builder.and_(several, cgutils.is_null(builder, builder.load(entry))), likely=False):
        start = builder.load(slot_pointer(builder, START))
        builder.call(builder.inttoptr(start, START_FUNCTION.as_pointer()), [])
    found = builder.load(entry)
    with builder.if_else(builder.and_(several, cgutils.is_not_null(builder, found))) as (pooled, alone):
        with pooled:
            run_job = builder.inttoptr(found, JOB_FUNCTION.as_pointer())
            builder.call(run_job, [builder.ptrtoint(run_block, INT), builder.ptrtoint(job, INT), count])
        with alone, cgutils.for_range(builder, count) as loop:
            builder.call(run_block, [job, loop.index])


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
