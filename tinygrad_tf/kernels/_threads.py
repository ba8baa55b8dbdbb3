"""Starting and stopping the threads that run blocks; what they do in between is in `_pool`.

Threads are started by the first loop that can use them, so importing starts nothing. Before a fork, and at exit, the
workers are sent home: a child inherits no half of a job, and no thread is in compiled code when it is unmapped.
"""

from __future__ import annotations

import _thread
import atexit
import contextlib
import ctypes
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
    CALLED,
    DONE,
    ENTRY,
    MUTEX,
    NUM_SLOTS,
    NUM_WORKERS,
    POOL_SYMBOL,
    PROCESS,
    SHIFT,
    SLEEPERS,
    SPINS,
    START,
    WORK,
    system_functions,
)
from tinygrad_tf.kernels._pool import BACK, FRONT, pause_many, run_job, work

SPIN_SECONDS = 400e-6  # longer than Python takes between two kernels of a training step (with 150, 3 % slower)
MAX_THREADS = 1024
THREADS_VARIABLE = "TINYGRAD_TF_NUM_THREADS"


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
        run = _c_function(run_job)
        if self._slots[ENTRY] != run:
            self._forget_threads_of_parent()
            self._slots[SPINS] = _spins()
            self._start_threads()
            self._slots[NUM_WORKERS] = len(self._threads)
            self._slots[ENTRY] = run

    def _start_threads(self) -> None:
        work.compile((types.int64, types.int64))
        shift = int(self._slots[SHIFT])
        with contextlib.suppress(RuntimeError, MemoryError):  # no more threads to be had, so fewer must do
            while len(self._threads) < self._num_threads - 1:
                name = f"tinygrad_tf-{len(self._threads) + 1}"
                side = FRONT if len(self._threads) % 2 else BACK
                thread = threading.Thread(target=work, args=(shift, side), name=name, daemon=True)
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
        pause_many(times)
        fastest = min(fastest, time.perf_counter() - started)
    return int(SPIN_SECONDS * times / max(fastest, 1e-6))


pool = Pool()
