"""Freed memory stays in the process, to be used again by the next step.

A training step makes and frees the same arrays again and again. By itself, the C library of Linux gives large ones back
to the system at once, which then hands out zeroed pages anew: for the arrays of a small GPT that costs a quarter of a
step. (Measured, processor time of a step of 4 layers of 128 channels on one thread: 58 to 65 ms by itself, 42 to 49 ms
so. Of a step with arrays of 100 MiB, 6.3 s by itself and 4.7 s so.) The price is that the process keeps the memory of
its largest step until it ends, as other tensor libraries do.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from functools import cache

VARIABLE = "TINYGRAD_TF_KEEP_MEMORY"  # 0 leaves the C library as it is
TRIM_THRESHOLD, TOP_PAD, MMAP_MAX = -1, -2, -4  # of mallopt, in malloc.h
SETTINGS = {
    TRIM_THRESHOLD: 2**31 - 1,  # give memory back when this much, the most that is allowed, is free at the heap's end
    MMAP_MAX: 0,  # arrays are never mapped and unmapped one by one
    TOP_PAD: 1 << 26,  # ask the system for this much at a time
}


@cache
def keep_freed_memory() -> bool:
    """Set the C library so, once; True if it can be (glibc) and is not refused by the environment."""
    if not sys.platform.startswith("linux") or os.environ.get(VARIABLE, "1").strip() == "0":
        return False
    with contextlib.suppress(OSError, AttributeError):  # another C library
        mallopt = ctypes.CDLL(None).mallopt
        return all(mallopt(setting, value) == 1 for setting, value in SETTINGS.items())
    return False
