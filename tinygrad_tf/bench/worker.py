"""The process that one library is measured in. It does what it is told, line by line, in JSON.

    {"build": "step", "arguments": {...}}  ->  {"seconds": of the second run, "first": of the first, "values": [...]}
    {"run": 15}                            ->  {"seconds": the median of 15 runs, "values": [...], "peak": bytes}

`values` are what the libraries must agree on: losses, tokens, or two sums of each result. An error comes back as
{"error": one line}. The library is named in the command; PyTorch's process holds nothing of the rest of this package.
"""

from __future__ import annotations

import importlib
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from tinygrad_tf.bench import gpt, lessons, operations

Run = Callable[[], Any]


def step(torch: Any, bfloat16: bool = False, **sizes: int) -> Run:
    """A training step; its value is the loss."""
    return gpt.trainer(torch, gpt.Sizes(**sizes), bfloat16)


def lesson(torch: Any, name: str) -> Run:
    """A training step of a lesson; its value is the loss."""
    return lessons.make(torch, name)


def operation(torch: Any, name: str) -> Run:
    """One operation."""
    return operations.make(torch, name)


def generation(torch: Any, way: str, tokens: int, **sizes: int) -> Run:
    """Texts, with a `cache` and with `no cache` as written in gpt.py; or by `generate_batch`, where there is one."""
    chosen = gpt.Sizes(**sizes)
    if way == "no cache":
        return gpt.generate_without_cache(torch, chosen, tokens)
    if way == "cache" or torch.__name__ == "torch":
        return gpt.generate_with_cache(torch, chosen)
    from tinygrad_tf.bench.own_generation import generate

    return generate(gpt.generator(torch, chosen), chosen)


def machine(torch: Any, seconds: float, megabytes: int) -> Run:
    """The machine and its peak."""
    from tinygrad_tf.bench.machine import describe

    return lambda: describe(seconds, megabytes)


PROGRAMS: dict[str, Callable[..., Run]] = {
    "step": step,
    "lesson": lesson,
    "operation": operation,
    "generation": generation,
    "machine": machine,
}


def peak_bytes() -> int | None:
    """The most memory that this process has had; None where the system does not say."""
    try:
        with open("/proc/self/status", encoding="ascii") as file:  # ru_maxrss would begin with that of the parent
            return next(int(line.split()[1]) << 10 for line in file if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        pass
    try:
        import resource
    except ImportError:
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def values_of(result: Any) -> Any:
    """What is compared: a loss, tokens, or two numbers for each of several results."""
    if isinstance(result, (float, dict)):
        return result
    if isinstance(result, np.ndarray):
        return result.tolist()
    return [digest(x if isinstance(x, np.ndarray) else x.numpy()) for x in result]


def digest(x: np.ndarray) -> list[float]:
    """The sums of the positive and of the negative elements, weighted by their places: no sign or place is lost."""
    flat = np.asarray(x, np.float64).ravel()
    weighted = flat * (1 + np.arange(flat.size) % 97)
    return [float(weighted[flat > 0].sum()), float(weighted[flat < 0].sum())]


class Desk:
    """Where requests arrive; holds what was built last."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.run: Run | None = None

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """One request, one answer."""
        answer = self._build(request) if "build" in request else self._repeat(request["run"])
        return {**answer, "peak": peak_bytes()}

    def _build(self, request: dict[str, Any]) -> dict[str, Any]:
        self.run = None  # its memory is free again
        started = time.perf_counter()
        run = PROGRAMS[request["build"]](self.torch, **request["arguments"])
        first, result = self._timed(run)
        built = time.perf_counter() - started
        values = [values_of(result)]
        seconds = first
        if request.get("twice", True):  # the first run loads or compiles kernels
            seconds, result = self._timed(run)
            values.append(values_of(result))
        self.run = run
        return {"first": built, "seconds": seconds, "values": values}

    def _repeat(self, times: int) -> dict[str, Any]:
        assert self.run is not None, "build comes first"
        took, losses = [], []
        for _ in range(times):
            seconds, result = self._timed(self.run)
            took.append(seconds)
            if isinstance(result, float):
                losses.append(result)
        return {"seconds": statistics.median(took), "values": losses}

    @staticmethod
    def _timed(run: Run) -> tuple[float, Any]:
        started = time.perf_counter()
        result = run()
        return time.perf_counter() - started, result


def main() -> None:
    """Answer standard input until it ends."""
    library, threads = sys.argv[1], int(sys.argv[2])
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever a library prints is no answer
    try:
        torch = importlib.import_module(library)
        if library == "torch" and threads:
            torch.set_num_threads(threads)
        desk = Desk(torch)
        print(json.dumps({"ready": library}), file=answers, flush=True)
    except Exception as error:
        print(json.dumps({"error": one_line(error)}), file=answers, flush=True)
        return
    for line in sys.stdin:
        try:
            answer = desk.answer(json.loads(line))
        except Exception as error:  # what cannot run is told, never left out
            answer = {"error": one_line(error)}
        print(json.dumps(answer), file=answers, flush=True)


def one_line(error: Exception) -> str:
    """The error's kind and message."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:300]
