"""A small pool of threads that runs the blocks of one parallel loop at a time.

A job is a function pointer, a pointer to its packed arguments, and the number of its blocks. The thread that brings it
opens the gate; workers that look pass the gate, and everyone, the caller too, takes the next block until none is left.
Then the caller closes the gate, and waits for those still inside. So a worker that another process keeps off its core
is simply missed: nobody waits for it at the start, and at the end only for a block it has begun. Blocks are never tied
to a thread, so the results do not depend on the number of threads. But some threads take them from the front and some
from the back (the halves of one atomic number count both), so that each finds much of what it wrote in the loop before
in its own cache: a step of a small GPT takes 32 ms instead of 34.

Only one job has the workers. A second Python thread that comes meanwhile, and a loop inside of a block, run their
blocks by themselves. Idle workers look at the gate for some hundred microseconds, then sleep until a job wakes them.
Before a fork and at exit the workers are sent home, so that a child never inherits half of a job.

Everything shared lies in one block of memory, see `_atomics`. Its slot ENTRY holds the compiled function that runs a
job. While it is empty (at first, after a fork, which threads do not survive, and after `set_num_threads`), a job calls
back into Python through START, which starts the threads. It may find that it cannot, or had better not; then the job
runs on its own thread. So Python needs no say in the common case, and importing starts nothing.
"""

from __future__ import annotations

import functools

from tinygrad_tf.kernels._atomics import (
    ARGUMENTS,
    BUSY,
    CALLED,
    CALLER_CORE,
    CALLER_SLEEPS,
    CORES,
    COUNT,
    DONE,
    FUNCTION,
    GATE,
    KNOWS_CORE,
    MUTEX,
    NEXT,
    NUM_CORE_SLOTS,
    NUM_WORKERS,
    PROCESS,
    SHIFT,
    SLEEPERS,
    SPINS,
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
    unlock,
    wait,
)
from tinygrad_tf.kernels._cache import compiled

OPEN = 1 << 32
INSIDE = OPEN - 1
FRONT, BACK = 1, 1 << 32  # what is added to NEXT to take a block


@compiled
def pause_many(times: int) -> None:
    for _ in range(times):
        pause()


@compiled
def _take_blocks(function: int, arguments: int, count: int, side: int) -> None:
    """Take blocks from the front (side FRONT) or from the back (BACK) until none is left in between."""
    while True:
        taken = add(NEXT, side)
        front, back = taken & (BACK - 1), taken >> 32
        if front + back >= count:
            return
        call_block(function, arguments, front if side == FRONT else count - 1 - back)


@functools.partial(compiled, for_c=True)
def run_job(function: int, arguments: int, count: int) -> None:
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
    _take_blocks(function, arguments, count, FRONT)
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
def work(shift: int, side: int) -> None:
    """What a worker thread does until its shift ends; it takes blocks from that side."""
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
                _take_blocks(load(FUNCTION), load(ARGUMENTS), load(COUNT), side)
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
