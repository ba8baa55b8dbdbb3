"""What the pool of threads needs and Python lacks: shared memory, atomic operations, and calls through pointers.

The shared memory is one array of 8-byte slots. Compiled code finds it through the symbol `POOL_SYMBOL`, and the
functions of the system through symbols made from that, so no address is baked into code on disk.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any

import numba.extending
from llvmlite import ir
from numba import types
from numba.core import cgutils

POOL_SYMBOL = "tinygrad_tf_pool"

# Slots. What different threads write lies 128 bytes apart: two cache lines, as processors fetch them in pairs.
ENTRY, START, PROCESS, NUM_WORKERS, SPINS, SHIFT = 0, 1, 2, 3, 4, 5
GATE = 16  # a sequence number (odd: open) in the upper half, the number of workers inside in the lower half
NEXT = 32  # the next block to take
FUNCTION, ARGUMENTS, COUNT, CALLER_CORE = 48, 49, 50, 51  # the job
BUSY = 64  # 1 while a job has the workers
SLEEPERS, CALLED, CALLER_SLEEPS = 80, 81, 82  # CALLED: how many of those who sleep may get up
MUTEX, WORK, DONE = 96, 112, 128  # a lock and two condition variables, at most 64 bytes each on all known systems
CORES, NUM_CORE_SLOTS = 144, 16  # a set of 1024 cores, a bit each
NUM_SLOTS = 160

INT, BYTES = ir.IntType(64), ir.IntType(8).as_pointer()
BLOCK_FUNCTION = ir.FunctionType(ir.VoidType(), [BYTES, INT])
START_FUNCTION = ir.FunctionType(ir.VoidType(), [])
JOB_FUNCTION = ir.FunctionType(ir.VoidType(), [INT, INT, INT])
intrinsic: Any = numba.extending.intrinsic


def slot_pointer(builder: Any, slot: int) -> Any:
    """The address of a slot of the shared block, as LLVM code; the linker puts in where the block lies."""
    module = builder.module
    pool = module.globals.get(POOL_SYMBOL) or ir.GlobalVariable(module, ir.ArrayType(INT, NUM_SLOTS), POOL_SYMBOL)
    return builder.gep(pool, [INT(0), INT(slot)])


@intrinsic
def slot_address(typing: Any, slot: Any) -> Any:
    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        first = builder.ptrtoint(slot_pointer(builder, 0), INT)
        return builder.add(first, builder.mul(args[0], INT(8)))

    return types.int64(types.int64), emit


def _atomic(operation: Callable[..., Any], count: int, returns: Any = types.int64) -> Any:
    """An intrinsic of a slot number and `count` integers."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        first = slot_pointer(builder, 0)
        pointer = builder.gep(builder.bitcast(first, INT.as_pointer()), [args[0]])
        result = operation(builder, pointer, *args[1:])
        return context.get_dummy_value() if returns is types.void else result

    signature = returns(*[types.int64] * (count + 1))
    definitions = {
        0: lambda typing, slot: (signature, emit),
        1: lambda typing, slot, value: (signature, emit),
        2: lambda typing, slot, expected, value: (signature, emit),
    }
    return intrinsic(definitions[count])


load = _atomic(lambda builder, pointer: builder.load_atomic(pointer, "seq_cst", 8), 0)
store = _atomic(lambda builder, pointer, value: builder.store_atomic(value, pointer, "release", 8), 1, types.void)
add = _atomic(lambda builder, pointer, value: builder.atomic_rmw("add", pointer, value, "seq_cst"), 1)
swap_if = _atomic(
    lambda builder, pointer, expected, value: builder.extract_value(
        builder.cmpxchg(pointer, expected, value, "seq_cst", "seq_cst"), 1
    ),
    2,
    types.boolean,
)


@intrinsic
def call_block(typing: Any, function: Any, arguments: Any, index: Any) -> Any:
    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        function = builder.inttoptr(args[0], BLOCK_FUNCTION.as_pointer())
        builder.call(function, [builder.inttoptr(args[1], BYTES), args[2]])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), emit


_X86_PAUSE: tuple[str, list[Any]] = ("llvm.x86.sse2.pause", [])
_ARM_PAUSE = ("llvm.aarch64.isb", [ir.IntType(32)(15)])
_PAUSES = {"x86_64": _X86_PAUSE, "amd64": _X86_PAUSE, "aarch64": _ARM_PAUSE, "arm64": _ARM_PAUSE}


@intrinsic
def pause(typing: Any) -> Any:
    """Tell the processor that this thread spins; it saves power and gives way to its sibling."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        machine = builder.module.triple.split("-")[0]
        name, numbers = _PAUSES.get(machine, ("llvm.donothing", []))
        kind = ir.FunctionType(ir.VoidType(), [number.type for number in numbers])
        builder.call(cgutils.get_or_insert_function(builder.module, kind, name), numbers)
        return context.get_dummy_value()

    return types.void(), emit


# What the pool needs of the system, by what it does. On Windows, locks and conditions are new where memory is zero.
_POSIX = {
    "lock": "pthread_mutex_lock",
    "unlock": "pthread_mutex_unlock",
    "wait": "pthread_cond_wait",
    "signal": "pthread_cond_signal",
    "broadcast": "pthread_cond_broadcast",
    "process": "getpid",
    "new_lock": "pthread_mutex_init",
    "new_condition": "pthread_cond_init",
}
KNOWS_CORE = sys.platform == "linux" and hasattr(ctypes.CDLL(None), "sched_getcpu")
if KNOWS_CORE:
    _POSIX |= {"core": "sched_getcpu", "get_cores": "sched_getaffinity", "set_cores": "sched_setaffinity"}
_WINDOWS = {
    "lock": "AcquireSRWLockExclusive",
    "unlock": "ReleaseSRWLockExclusive",
    "wait": "SleepConditionVariableSRW",
    "signal": "WakeConditionVariable",
    "broadcast": "WakeAllConditionVariable",
    "process": "GetCurrentProcessId",
}


def system_functions() -> dict[str, Any]:
    """The system's functions, for Python, which gives each the address of its lock or condition and None."""
    if sys.platform == "win32":
        library, names = ctypes.WinDLL("kernel32"), _WINDOWS
    else:
        library, names = ctypes.CDLL(None), _POSIX
    return {role: getattr(library, name) for role, name in names.items()}


def _symbol(role: str, count: int) -> Any:
    """A function of the system for compiled code; it may be given more arguments than it takes, and ignores them."""
    return types.ExternalFunction(f"{POOL_SYMBOL}_{role}", types.int32(*[types.int64] * count))


lock, unlock, signal = (_symbol(role, 1) for role in ("lock", "unlock", "signal"))
wait = _symbol("wait", 4)  # condition, lock, and for Windows: no time limit, no flags
process = _symbol("process", 0)
core = _symbol("core", 0)
get_cores, set_cores = _symbol("get_cores", 3), _symbol("set_cores", 3)
