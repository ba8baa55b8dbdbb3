"""A small pool of threads that runs the blocks of one parallel loop at a time.

A job is a function pointer, a pointer to its packed arguments, and the number of its blocks. The thread that brings it
opens the gate; workers that look pass the gate, and everyone, the caller too, takes the next block off one atomic
counter until none is left. Then the caller closes the gate, and waits for those still inside. So a worker that another
process keeps off its core is simply missed: nobody waits for it at the start, and at the end only for a block it has
begun. Blocks are never tied to a thread, so the results do not depend on the number of threads.

Only one job has the workers. A second Python thread that comes meanwhile, and a loop inside of a block, run their
blocks by themselves. Idle workers look at the gate for some tens of microseconds, then sleep until a job wakes them.
Before a fork and at exit the workers are sent home, so that a child never inherits half of a job.

Everything shared lies in one block of memory, see `_atomics`. Its slot ENTRY holds the compiled function that runs a
job. While it is empty (at first, after a fork, which threads do not survive, and after `set_num_threads`), a job calls
back into Python through START, which starts the threads. It may find that it cannot, or had better not; then the job
runs on its own thread. So Python needs no say in the common case, and importing starts nothing.
"""

from __future__ import annotations

import _thread
import atexit
import contextlib
import ctypes
import functools
import logging
import math
import operator
import os
import sys
import threading
import time
from typing import Any

import llvmlite.binding
import numpy as np
from numba import types

from tinygrad_tf.kernels._atomics import (
    ARGUMENTS,
    BUSY,
    CALLED,
    CALLER_CORE,
    CALLER_SLEEPS,
    CORES,
    COUNT,
    DONE,
    ENTRY,
    FUNCTION,
    GATE,
    KNOWS_CORE,
    MUTEX,
    NEXT,
    NUM_CORE_SLOTS,
    NUM_SLOTS,
    NUM_WORKERS,
    POOL_SYMBOL,
    PROCESS,
    SHIFT,
    SLEEPERS,
    SPINS,
    START,
    WORK,
    add,
    call_block,
    core,
    get_cores,
    load,
    lock,
    pause,
    process,
    set_cores,
    signal,
    slot_address,
    store,
    swap_if,
    system_functions,
    unlock,
    wait,
)
from tinygrad_tf.kernels._cache import compiled

OPEN = 1 << 32
INSIDE = OPEN - 1
SPIN_SECONDS = 40e-6
MAX_THREADS = 1024
THREADS_VARIABLE = "TINYGRAD_TF_NUM_THREADS"


# --- The pool, compiled -----------------------------------------------------------------------------------------------


@compiled
def _pause_many(times: int) -> None:
    for _ in range(times):
        pause()


@compiled
def _take_blocks(function: int, arguments: int, count: int) -> None:
    index = add(NEXT, 1)
    while index < count:
        call_block(function, arguments, index)
        index = add(NEXT, 1)


@functools.partial(compiled, for_c=True)
def _run_job(function: int, arguments: int, count: int) -> None:
    """Run the blocks 0 ... count - 1 of a job, with the workers if they are free."""
    if count < 2 or load(NUM_WORKERS) == 0 or load(BUSY) != 0 or not swap_if(BUSY, 0, 1):
        for index in range(count):
            call_block(function, arguments, index)
        return
    store(FUNCTION, function)
    store(ARGUMENTS, arguments)
    store(COUNT, count)
    store(CALLER_CORE, core() if KNOWS_CORE else -1)
    store(NEXT, 0)
    add(GATE, OPEN)
    if load(SLEEPERS) > 0:
        _wake(count - 1)
    _take_blocks(function, arguments, count)
    add(GATE, OPEN)
    _wait_for_workers()
    store(BUSY, 0)


@compiled
def _wake(wanted: int) -> None:
    """Wake as many sleepers as there is work for."""
    if process() != load(PROCESS):  # a fork that Python did not see: there are no threads, and the lock may be held
        store(NUM_WORKERS, 0)
        return
    lock(slot_address(MUTEX))
    waking = min(wanted, load(SLEEPERS))
    add(SLEEPERS, -waking)
    add(CALLED, waking)
    for _ in range(waking):
        signal(slot_address(WORK))
    unlock(slot_address(MUTEX))


@compiled
def _wait_for_workers() -> None:
    spins = load(SPINS)
    while load(GATE) & INSIDE != 0:
        if spins > 0:
            pause()
            spins -= 1
            continue
        lock(slot_address(MUTEX))
        add(CALLER_SLEEPS, 1)
        while load(GATE) & INSIDE != 0:
            wait(slot_address(DONE), slot_address(MUTEX), -1, 0)
        add(CALLER_SLEEPS, -1)
        unlock(slot_address(MUTEX))


@compiled
def _work(shift: int) -> None:
    """What a worker thread does until its shift ends."""
    seen, moved, spins, knows_core = -1, -1, 0, KNOWS_CORE
    while load(SHIFT) == shift:
        gate = load(GATE)
        sequence = gate >> 32
        if knows_core and spins & 15 == 0 and core() == load(CALLER_CORE):
            if moved == sequence:
                _sleep(shift, sequence)
            else:
                moved, knows_core = sequence, _move_to_another_core()
        elif sequence & 1 != 0 and sequence != seen:
            if swap_if(GATE, gate, gate + 1):
                seen, spins = sequence, 0
                _take_blocks(load(FUNCTION), load(ARGUMENTS), load(COUNT))
                _leave()
        elif spins < load(SPINS):
            pause()
            spins += 1
        else:
            _sleep(shift, sequence)
            spins = 0


@compiled
def _move_to_another_core() -> bool:
    """Leave the caller's core to the caller; False where that cannot be done.

    If all cores are busy, Linux likes to wake a thread on the core of the one that wakes it, where it is of no use.
    """
    here = core()
    word, size = here >> 6, 8 * NUM_CORE_SLOTS
    if not 0 <= word < NUM_CORE_SLOTS:
        return False
    lock(slot_address(MUTEX))
    if get_cores(0, size, slot_address(CORES)) >= 0:
        allowed = load(CORES + word)
        store(CORES + word, allowed & ~(1 << (here & 63)))
        set_cores(0, size, slot_address(CORES))  # fails if no core is left
        store(CORES + word, allowed)
        set_cores(0, size, slot_address(CORES))
    unlock(slot_address(MUTEX))
    return core() != here


@compiled
def _leave() -> None:
    inside = add(GATE, -1) & INSIDE
    if inside == 1 and load(CALLER_SLEEPS) != 0:
        lock(slot_address(MUTEX))
        signal(slot_address(DONE))
        unlock(slot_address(MUTEX))


@compiled
def _sleep(shift: int, sequence: int) -> None:
    """Sleep until a job calls for workers, unless one has come since the gate was looked at."""
    lock(slot_address(MUTEX))
    add(SLEEPERS, 1)
    if load(GATE) >> 32 != sequence:
        add(SLEEPERS, -1)
    else:
        while load(CALLED) == 0 and load(SHIFT) == shift:
            wait(slot_address(WORK), slot_address(MUTEX), -1, 0)
        if load(SHIFT) == shift:
            add(CALLED, -1)
    unlock(slot_address(MUTEX))


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
    with contextlib.suppress(TypeError):
        if 1 <= operator.index(num_threads) <= MAX_THREADS:
            return operator.index(num_threads)
    raise ValueError(f"{name} must be an integer from 1 to {MAX_THREADS}, got {num_threads!r}")


def _initial_threads() -> int:
    text = os.environ.get(THREADS_VARIABLE, "").strip()
    if not text:
        return min(usable_cores(), MAX_THREADS)
    return _checked(int(text) if text.isdecimal() else text, THREADS_VARIABLE)


class Pool:
    """The threads and the memory that they share; a process has one, `pool`."""

    def __init__(self) -> None:
        memory = np.zeros(NUM_SLOTS + 16, np.int64)
        start = -memory.ctypes.data % 128 // 8
        self._slots = memory[start : start + NUM_SLOTS]
        self._num_threads = _initial_threads()
        self._threads: list[threading.Thread] = []
        self._guard = threading.RLock()
        self._closed = False
        self._start_callback = ctypes.CFUNCTYPE(None)(self._start_for_job)
        self._system = system_functions()
        llvmlite.binding.add_symbol(POOL_SYMBOL, self._slots.ctypes.data)
        for role, function in self._system.items():
            llvmlite.binding.add_symbol(f"{POOL_SYMBOL}_{role}", _address_of(function))
        self._reset()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(
                before=self._before_fork, after_in_parent=self._after_fork, after_in_child=self._after_fork_in_child
            )
        atexit.register(self._close)

    def get_num_threads(self) -> int:
        """The number of threads that a parallel loop runs on at most."""
        return self._num_threads

    def set_num_threads(self, num_threads: int) -> None:
        """Let parallel loops use `num_threads` threads, the caller's among them; results do not depend on it."""
        number = _checked(num_threads, "num_threads")
        with self._guard:
            self._stop()
            self._num_threads = number

    def _start_for_job(self) -> None:
        """What START holds: a job finds no threads. If ENTRY is still empty afterwards, it runs on its own thread."""
        # A worker may come here, from a loop inside of a block, while `_stop` waits for it: do not wait for the guard.
        if self._closed or not self._guard.acquire(blocking=False):
            return
        try:
            self._start()
        except KeyboardInterrupt:  # it would be lost in the compiled code between here and the user; once more
            threading.Timer(0.02, _thread.interrupt_main).start()
        except Exception as error:
            self._closed = True
            logging.getLogger("tinygrad_tf").warning("loops run on one thread, as others fail: %s", error)
        finally:
            self._guard.release()

    def _start(self) -> None:
        run_job = _c_function(_run_job)
        if self._slots[ENTRY] != run_job:
            self._forget_threads_of_parent()
            self._slots[SPINS] = _spins()
            self._start_threads()
            self._slots[NUM_WORKERS] = len(self._threads)
            self._slots[ENTRY] = run_job

    def _start_threads(self) -> None:
        _work.compile((types.int64,))
        shift = int(self._slots[SHIFT])
        with contextlib.suppress(RuntimeError, MemoryError):  # no more threads to be had, so fewer must do
            while len(self._threads) < self._num_threads - 1:
                name = f"tinygrad_tf-{len(self._threads) + 1}"
                thread = threading.Thread(target=_work, args=(shift,), name=name, daemon=True)
                thread.start()
                self._threads.append(thread)

    def _stop(self) -> None:
        """Send the workers home and wait until they have gone; the next job starts new ones."""
        with self._guard:
            self._forget_threads_of_parent()
            self._slots[ENTRY] = 0
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
        self._forget_threads_of_parent()

    def _forget_threads_of_parent(self) -> None:
        if self._slots[PROCESS] != os.getpid():  # asked again, as a fork by C code runs none of our functions
            self._threads = []
            self._reset()

    def _reset(self) -> None:
        """Make the memory that of a pool that has not been started."""
        self._slots[:] = 0
        self._slots[PROCESS] = os.getpid()
        self._slots[START] = _address_of(self._start_callback)
        if sys.platform != "win32":  # there, zeros are what a new lock looks like
            self._call("new_lock", MUTEX)
            self._call("new_condition", WORK)
            self._call("new_condition", DONE)

    def _call(self, role: str, slot: int) -> None:
        self._system[role](ctypes.c_void_p(int(self._slots.ctypes.data) + 8 * slot), None)


def _address_of(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def _c_function(function: Any) -> int:
    """The address of a compiled function of three integers, with the calling convention of C."""
    signature = (types.int64,) * 3
    function.compile(signature)
    result = function.overloads[signature]
    return int(result.library.get_pointer_to_function(result.fndesc.llvm_cfunc_wrapper_name))


def _spins() -> int:
    """How many pauses fill SPIN_SECONDS; one takes between one and a hundred nanoseconds, as the processor has it."""
    times, fastest = 1000, math.inf
    for _ in range(4):  # the first one may compile
        started = time.perf_counter()
        _pause_many(times)
        fastest = min(fastest, time.perf_counter() - started)
    return int(SPIN_SECONDS * times / max(fastest, 1e-6))


pool = Pool()
