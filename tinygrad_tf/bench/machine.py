"""What the machine is, and the most that it does."""

from __future__ import annotations

import platform
import subprocess
import sys
from typing import Any

import llvmlite
import llvmlite.binding
import numba
import numpy as np

from tinygrad_tf._version import __version__
from tinygrad_tf.bench import peak
from tinygrad_tf.kernels._compile import get_num_threads
from tinygrad_tf.kernels._matrix_tiles import AVAILABLE
from tinygrad_tf.kernels._threads import usable_cores
from tinygrad_tf.kernels._vector import HAS_PAIRS, VECTOR_BYTES


def describe(seconds: float, megabytes: int) -> dict[str, Any]:
    """The machine and its peak, each figure measured for that long; copies of so many MiB."""
    return {
        "processor": processor(),
        "architecture": llvmlite.binding.get_host_cpu_name(),
        "system": f"{platform.system()} {platform.release()}",
        "cores": usable_cores(),
        "threads": get_num_threads(),
        "vector_bytes": VECTOR_BYTES,
        "matrix_tiles": AVAILABLE,
        "versions": {
            "tinygrad_tf": __version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "numba": numba.__version__,
            "llvmlite": llvmlite.__version__,
        },
        "peak": measure(seconds, megabytes),
    }


def measure(seconds: float, megabytes: int) -> dict[str, list[float]]:
    """Each peak on one core and on all threads: multiply-adds a second, and bytes a second of a copy."""
    threads = (1, get_num_threads())
    found = {"registers": [peak.register_rate(n, seconds) for n in threads]}
    if HAS_PAIRS:
        found["pairs"] = [peak.pair_rate(n, seconds) for n in threads]
    if AVAILABLE:
        found["tiles"] = [peak.tile_rate(n, seconds) for n in threads]
        found["tiles_float32"] = [rate / peak.PIECEWISE for rate in found["tiles"]]
    found["copy"] = [peak.copy_rate(n, megabytes, seconds) for n in threads]
    return found


def processor() -> str:
    """The processor's name, as the system has it."""
    if sys.platform == "linux":
        try:
            with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
                return next(line.partition(":")[2].strip() for line in file if line.startswith("model name"))
        except (OSError, StopIteration):
            pass
    if sys.platform == "darwin":
        command = ["sysctl", "-n", "machdep.cpu.brand_string"]
        answer = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
        if answer:
            return answer
    return platform.processor() or platform.machine()
