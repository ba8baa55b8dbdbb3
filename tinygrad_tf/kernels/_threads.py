"""A small pool of threads that runs the blocks of one parallel loop at a time.

A job is a function pointer, a pointer to its packed arguments, and the number of its blocks. The thread that brings it
opens the gate; workers that look pass the gate, and everyone, the caller too, takes the next block off one atomic
counter until none is left. Then the caller closes the gate, and waits for those still inside. So a worker that another
process keeps off its core is simply missed: nobody waits for it at the start, and at the end only for a block it has
begun. Blocks are never tied to a thread, so the results do not depend on the number of threads.

Only one job has the workers. A second Python thread that comes meanwhile, and a loop inside of a block, run their
blocks by themselves. Idle workers look at the gate for some tens of microseconds, then sleep until a job wakes them.

Everything shared lies in one block of memory that compiled code finds through the symbol `POOL_SYMBOL`, so no address
is baked into code on disk. Its slot ENTRY holds the function that runs a job; at first that is a Python callback, which
starts the threads and puts the compiled function in its place. It is the callback again after a fork (threads do not
survive one) and after `set_num_threads`.
"""

from __future__ import annotations

import _thread
import atexit
import contextlib
import ctypes
import functools
import math
import operator
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import llvmlite.binding
import numpy
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from tinygrad_tf.kernels._cache import compiled

POOL_SYMBOL = "tinygrad_tf_pool"

# Slots of the shared block, in units of 8 bytes. What different threads write lies 128 bytes apart.
ENTRY, PROCESS, NUM_WORKERS, SPINS, SHIFT = 0, 1, 2, 3, 4
GATE = 16  # sequence number (odd: open) in the upper half, number of workers inside in the lower half
NEXT = 32  # the next block to take
FUNCTION, ARGUMENTS, COUNT = 48, 49, 50
BUSY = 64  # 1 while a job has the workers
SLEEPERS, CALLED, CALLER_SLEEPS = 80, 81, 82  # CALLED: those who may wake up
MUTEX, WORK, DONE = 96, 112, 128  # pthread objects, at most 64 bytes each on all known systems
NUM_SLOTS = 144

OPEN = 1 << 32
INSIDE = OPEN - 1
SPIN_SECONDS = 40e-6
MAX_THREADS = 1024

INT, BYTES = ir.IntType(64), ir.IntType(8).as_pointer()
BLOCK_FUNCTION = ir.FunctionType(ir.VoidType(), [BYTES, INT])
JOB_FUNCTION = ir.FunctionType(ir.VoidType(), [INT, INT, INT])
JOB = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
BLOCK = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64)


# --- What compiled code needs and Python lacks: the shared block, atomic memory, calls through pointers ---------------


def slot_pointer(builder: Any, slot: int) -> Any:
    """The address of a slot of the shared block, as LLVM code; the linker puts in where the block lies."""
    module = builder.module
    pool = module.globals.get(POOL_SYMBOL) or ir.GlobalVariable(module, ir.ArrayType(INT, NUM_SLOTS), POOL_SYMBOL)
    return builder.gep(pool, [INT(0), INT(slot)])


@intrinsic
def _slot_address(typing: Any, slot: Any) -> Any:
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


_load = _atomic(lambda builder, pointer: builder.load_atomic(pointer, "seq_cst", 8), 0)
_store = _atomic(lambda builder, pointer, value: builder.store_atomic(value, pointer, "release", 8), 1, types.void)
_add = _atomic(lambda builder, pointer, value: builder.atomic_rmw("add", pointer, value, "seq_cst"), 1)
_swap_if = _atomic(
    lambda builder, pointer, expected, value: builder.extract_value(
        builder.cmpxchg(pointer, expected, value, "seq_cst", "seq_cst"), 1
    ),
    2,
    types.boolean,
)


@intrinsic
def _call_block(typing: Any, function: Any, arguments: Any, index: Any) -> Any:
    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        function = builder.inttoptr(args[0], BLOCK_FUNCTION.as_pointer())
        builder.call(function, [builder.inttoptr(args[1], BYTES), args[2]])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), emit


_X86_PAUSE, _ARM_PAUSE = ("llvm.x86.sse2.pause", []), ("llvm.aarch64.isb", [ir.IntType(32)(15)])
_PAUSES = {"x86_64": _X86_PAUSE, "amd64": _X86_PAUSE, "aarch64": _ARM_PAUSE, "arm64": _ARM_PAUSE}


@intrinsic
def _pause(typing: Any) -> Any:
    """Tell the processor that this thread spins; it saves power and gives way to its sibling."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        machine = builder.module.triple.split("-")[0]
        name, numbers = _PAUSES.get(machine, ("llvm.donothing", []))
        kind = ir.FunctionType(ir.VoidType(), [number.type for number in numbers])
        builder.call(cgutils.get_or_insert_function(builder.module, kind, name), numbers)
        return context.get_dummy_value()

    return types.void(), emit


def _system(name: str, count: int) -> Any:
    """A function of the system, which compiled code finds through a symbol; see `_SYSTEM_FUNCTIONS`."""
    return types.ExternalFunction(f"{POOL_SYMBOL}_{name}", types.int32(*[types.int64] * count))


_lock, _unlock, _signal, _wait, _process = (
    _system(name, count) for name, count in (("lock", 1), ("unlock", 1), ("signal", 1), ("wait", 4), ("process", 0))
)


# --- The pool, compiled -----------------------------------------------------------------------------------------------


@compiled
def _pause_many(times: int) -> None:
    for _ in range(times):
        _pause()


@compiled
def _take_blocks(function: int, arguments: int, count: int) -> None:
    index = _add(NEXT, 1)
    while index < count:
        _call_block(function, arguments, index)
        index = _add(NEXT, 1)


@functools.partial(compiled, for_c=True)
def _run_job(function: int, arguments: int, count: int) -> None:
    """Run the blocks 0 ... count - 1 of a job, with the workers if they are free."""
    if count < 2 or _load(NUM_WORKERS) == 0 or _load(BUSY) != 0 or not _swap_if(BUSY, 0, 1):
        for index in range(count):
            _call_block(function, arguments, index)
        return
    _store(FUNCTION, function)
    _store(ARGUMENTS, arguments)
    _store(COUNT, count)
    _store(NEXT, 0)
    _add(GATE, OPEN)
    if _load(SLEEPERS) > 0:
        _wake(count - 1)
    _take_blocks(function, arguments, count)
    _add(GATE, OPEN)
    _wait_for_workers()
    _store(BUSY, 0)


@compiled
def _wake(wanted: int) -> None:
    """Wake as many sleepers as there is work for."""
    if _process() != _load(PROCESS):  # a fork that Python did not see: there are no threads, and the lock may be held
        _store(NUM_WORKERS, 0)
        return
    _lock(_slot_address(MUTEX))
    waking = min(wanted, _load(SLEEPERS))
    _add(SLEEPERS, -waking)
    _add(CALLED, waking)
    for _ in range(waking):
        _signal(_slot_address(WORK))
    _unlock(_slot_address(MUTEX))


@compiled
def _wait_for_workers() -> None:
    spins = _load(SPINS)
    while _load(GATE) & INSIDE != 0:
        if spins > 0:
            _pause()
            spins -= 1
            continue
        _lock(_slot_address(MUTEX))
        _add(CALLER_SLEEPS, 1)
        while _load(GATE) & INSIDE != 0:
            _wait(_slot_address(DONE), _slot_address(MUTEX), -1, 0)
        _add(CALLER_SLEEPS, -1)
        _unlock(_slot_address(MUTEX))


@compiled
def _work(shift: int) -> None:
    """What a worker thread does until its shift ends."""
    seen, spins = -1, 0
    while _load(SHIFT) == shift:
        gate = _load(GATE)
        sequence = gate >> 32
        if sequence & 1 != 0 and sequence != seen:
            if _swap_if(GATE, gate, gate + 1):
                seen, spins = sequence, 0
                _take_blocks(_load(FUNCTION), _load(ARGUMENTS), _load(COUNT))
                _leave()
        elif spins < _load(SPINS):
            _pause()
            spins += 1
        else:
            _sleep(shift, sequence)
            spins = 0


@compiled
def _leave() -> None:
    inside = _add(GATE, -1) & INSIDE
    if inside == 1 and _load(CALLER_SLEEPS) != 0:
        _lock(_slot_address(MUTEX))
        _signal(_slot_address(DONE))
        _unlock(_slot_address(MUTEX))


@compiled
def _sleep(shift: int, sequence: int) -> None:
    """Sleep until a job calls for workers, unless one has come since the gate was looked at."""
    _lock(_slot_address(MUTEX))
    _add(SLEEPERS, 1)
    if _load(GATE) >> 32 != sequence:
        _add(SLEEPERS, -1)
    else:
        while _load(CALLED) == 0 and _load(SHIFT) == shift:
            _wait(_slot_address(WORK), _slot_address(MUTEX), -1, 0)
        if _load(SHIFT) == shift:
            _add(CALLED, -1)
    _unlock(_slot_address(MUTEX))


# --- The pool, seen from Python ---------------------------------------------------------------------------------------


def usable_cores() -> int:
    """The number of cores that this process may use, by its affinity and by the quota of its container."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    try:
        with open("/sys/fs/cgroup/cpu.max") as file:
            quota, period = file.read().split()
        return max(1, min(cores, math.ceil(int(quota) / int(period))))
    except (OSError, ValueError):
        return cores


def _checked(num_threads: Any, name: str) -> int:
    try:
        number = operator.index(num_threads)
    except TypeError:
        number = 0
    if not 1 <= number <= MAX_THREADS:
        raise ValueError(f"{name} must be an integer from 1 to {MAX_THREADS}, got {num_threads!r}")
    return number


def _initial_threads() -> int:
    name = "TINYGRAD_TF_NUM_THREADS"
    text = os.environ.get(name, "").strip()
    if not text:
        return usable_cores()
    return _checked(int(text) if text.isdecimal() else text, name)


_POSIX = {
    "lock": "pthread_mutex_lock",
    "unlock": "pthread_mutex_unlock",
    "wait": "pthread_cond_wait",
    "signal": "pthread_cond_signal",
    "broadcast": "pthread_cond_broadcast",
    "process": "getpid",
}
_WINDOWS = {
    "lock": "AcquireSRWLockExclusive",
    "unlock": "ReleaseSRWLockExclusive",
    "wait": "SleepConditionVariableSRW",
    "signal": "WakeConditionVariable",
    "broadcast": "WakeAllConditionVariable",
    "process": "GetCurrentProcessId",
}


class Pool:
    """The threads and the memory that they share; a process has one, `pool`."""

    def __init__(self) -> None:
        memory = numpy.zeros(NUM_SLOTS + 16, numpy.int64)
        start = -memory.ctypes.data % 128 // 8
        self._slots = memory[start : start + NUM_SLOTS]
        self._num_threads = _initial_threads()
        self._threads: list[threading.Thread] = []
        self._guard = threading.RLock()
        self._closed = False
        self._start_and_run = JOB(self._start_and_run_job)
        self._library: Any = ctypes.WinDLL("kernel32") if sys.platform == "win32" else ctypes.CDLL(None)
        self._system = _WINDOWS if sys.platform == "win32" else _POSIX
        llvmlite.binding.add_symbol(POOL_SYMBOL, self._slots.ctypes.data)
        for role, name in self._system.items():
            address = ctypes.cast(getattr(self._library, name), ctypes.c_void_p).value
            llvmlite.binding.add_symbol(f"{POOL_SYMBOL}_{role}", address)
        self._reset()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(
                before=self._before_fork, after_in_parent=self._after_fork, after_in_child=self._after_fork_in_child
            )
        atexit.register(self._close)

    def get_num_threads(self) -> int:
        return self._num_threads

    def set_num_threads(self, num_threads: int) -> None:
        number = _checked(num_threads, "num_threads")
        with self._guard:
            self._stop()
            self._num_threads = number

    def _start_and_run_job(self, function: int, arguments: int, count: int) -> None:
        """What ENTRY holds at first: start the threads, then run the job. Whatever happens, the job is run once."""
        run = None
        try:
            run = self._start()
        except KeyboardInterrupt:
            _thread.interrupt_main()
        finally:
            if run is not None:
                run(function, arguments, count)
            else:
                for index in range(count):
                    BLOCK(function)(arguments, index)

    def _start(self) -> Any:
        """Start the threads if they are not running; return the compiled function that runs jobs."""
        with self._guard:
            if self._closed:
                return None
            run = _c_function(_run_job)
            if self._slots[ENTRY] != run:
                self._slots[SPINS] = _spins()
                _work.compile((types.int64,))
                shift = int(self._slots[SHIFT])
                with contextlib.suppress(RuntimeError, MemoryError):  # no more threads to be had: fewer will do
                    for number in range(1, self._num_threads):
                        thread = threading.Thread(
                            target=_work, args=(shift,), name=f"tinygrad_tf-{number}", daemon=True
                        )
                        thread.start()
                        self._threads.append(thread)
                self._slots[NUM_WORKERS] = len(self._threads)
                self._slots[ENTRY] = run
            return JOB(run)

    def _stop(self) -> None:
        """Send the workers home and wait until they have gone; the next job starts new ones."""
        with self._guard:
            self._slots[ENTRY] = _address_of(self._start_and_run)
            self._slots[NUM_WORKERS] = 0
            self._slots[SHIFT] += 1
            if not self._threads:
                return
            self._call("lock", MUTEX)
            self._call("broadcast", WORK)
            self._call("unlock", MUTEX)
            for thread in self._threads:
                thread.join()
            self._threads.clear()
            self._call("lock", MUTEX)
            self._slots[SLEEPERS] = self._slots[CALLED] = 0
            self._call("unlock", MUTEX)

    def _close(self) -> None:
        """At exit: compiled code is about to be unmapped, so nobody may be in it."""
        with self._guard:
            self._closed = True
            self._stop()

    def _before_fork(self) -> None:
        self._guard.acquire()  # no thread is started between here and the fork
        self._stop()

    def _after_fork(self) -> None:
        self._guard.release()

    def _after_fork_in_child(self) -> None:
        self._guard = threading.RLock()
        self._threads = []
        self._reset()

    def _reset(self) -> None:
        """Make the memory that of a pool that has not been started."""
        self._slots[:] = 0
        self._slots[PROCESS] = os.getpid()
        self._slots[ENTRY] = _address_of(self._start_and_run)
        if sys.platform != "win32":  # there, zeros are what a new lock looks like
            for initialise, slot in (("mutex_init", MUTEX), ("cond_init", WORK), ("cond_init", DONE)):
                getattr(self._library, f"pthread_{initialise}")(self._pointer(slot), None)

    def _call(self, role: str, slot: int) -> None:
        getattr(self._library, self._system[role])(self._pointer(slot))

    def _pointer(self, slot: int) -> ctypes.c_void_p:
        return ctypes.c_void_p(int(self._slots.ctypes.data) + 8 * slot)


def _address_of(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def _c_function(function: Any) -> int:
    """The address of a compiled function of three integers, with the calling convention of C."""
    signature = (types.int64,) * 3
    function.compile(signature)
    result = function.overloads[signature]
    return int(result.library.get_pointer_to_function(result.fndesc.llvm_cfunc_wrapper_name))


def _spins() -> int:
    """How many pauses fill SPIN_SECONDS: between one and a hundred nanoseconds each, as the processor has it."""
    times = 1000
    _pause_many(times)
    started = time.perf_counter()
    _pause_many(times)
    return int(SPIN_SECONDS * times / max(time.perf_counter() - started, 1e-6))


pool = Pool()
