"""How long a statement takes, measured as PyTorch's tutorials do: Timer, what it returns, and a table of several.

    timer = Timer("a @ a", globals={"a": a}, label="product", description="tinygrad_tf")
    print(timer.blocked_autorange())

As in PyTorch, one thread is used unless num_threads says otherwise, and the statement runs once before it is measured,
so that neither a first compilation nor cold memory is counted.
"""

from __future__ import annotations

import statistics
import sys
import time
import timeit
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

__all__ = ["Compare", "Measurement", "Timer"]

UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))
FEWEST_SECONDS = 1e-2  # of one block of runs: what is shorter is lost in the clock's steps


def _unit(seconds: float) -> tuple[float, str]:
    """The largest unit in which a time is at least 1."""
    return next((unit for unit in UNITS if seconds >= unit[0]), UNITS[-1])


@dataclass(frozen=True)
class Measurement:
    """What was measured: `raw_times` holds the seconds of blocks of `number_per_run` runs; all else is of one run."""

    number_per_run: int
    raw_times: list[float]
    stmt: str = ""
    setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def times(self) -> list[float]:
        return [seconds / self.number_per_run for seconds in self.raw_times]

    @property
    def mean(self) -> float:
        return statistics.fmean(self.times)

    @property
    def median(self) -> float:
        return statistics.median(self.times)

    @property
    def iqr(self) -> float:
        """The distance between the quartiles: half of the runs lie between them."""
        if len(self.raw_times) < 2:
            return 0.0
        low, _, high = statistics.quantiles(self.times, n=4, method="inclusive")
        return high - low

    @property
    def title(self) -> str:
        title = self.label or self.stmt
        return title if self.sub_label is None else f"{title}: {self.sub_label}"

    @property
    def as_row_name(self) -> str:
        return self.sub_label or self.stmt or "[Unknown]"

    def __repr__(self) -> str:
        size, unit = _unit(self.median)
        times = f"{self.median / size:.2f} {unit}"
        if len(self.raw_times) > 1:
            times = f"Median: {times}\n  IQR: {self.iqr / size:.2f} {unit}"
        lines = [f"<{__name__}.Measurement>", self.title]
        lines += [line for line in (self.description, f"setup: {self.setup}" if self.setup != "pass" else None) if line]
        blocks = f"{len(self.raw_times)} measurements, {self.number_per_run} runs per measurement"
        threads = f"{self.num_threads} thread{'s' if self.num_threads > 1 else ''}"
        return "\n".join([*lines, f"  {times}", f"  {blocks}, {threads}"])


class Timer:
    """Runs `stmt`, Python code, after `setup`, and measures how long it takes.

    The code sees the names of `globals`, and `torch`, which is this package.

    >>> timer = Timer("x + 1", "x = 2", label="sum")
    >>> measured = timer.timeit(100)
    >>> measured.number_per_run, measured.title, 0 < measured.median < 0.01
    (100, 'sum', True)
    """

    def __init__(
        self,
        stmt: str = "pass",
        setup: str = "pass",
        global_setup: str = "",
        timer: Callable[[], float] = time.perf_counter,
        globals: dict[str, Any] | None = None,
        label: str | None = None,
        sub_label: str | None = None,
        description: str | None = None,
        env: str | None = None,
        num_threads: int = 1,
    ):
        if not isinstance(stmt, str):
            raise TypeError(f"Timer: stmt must be Python code in a string, got {type(stmt).__name__}")
        if global_setup:
            raise ValueError("Timer: global_setup is for code in C++, which cannot be measured here")
        names = {"__builtins__": __builtins__, "torch": sys.modules["tinygrad_tf"], **(globals or {})}
        self.names: dict[str, Any] = {"stmt": stmt, "setup": setup, "label": label, "sub_label": sub_label}
        self.names |= {"description": description, "env": env}
        self.num_threads = num_threads
        self.timer = timeit.Timer(_dedented(stmt), _dedented(setup), timer, names)

    def timeit(self, number: int = 1_000_000) -> Measurement:
        """One block of `number` runs, after a few that are not counted."""
        with _threads(self.num_threads):
            self.timer.timeit(max(number // 100, 2))
            return self._measured(number, [self.timer.timeit(number)])

    def blocked_autorange(
        self, callback: Callable[[int, float], Any] | None = None, min_run_time: float = 0.2
    ) -> Measurement:
        """Blocks of so many runs that the clock is exact enough, until min_run_time seconds have been measured."""
        with _threads(self.num_threads):
            number = self._runs_of_a_block(min_run_time)
            seconds = list(self._blocks(number, min_run_time, callback))
        return self._measured(number, seconds)

    def _runs_of_a_block(self, min_run_time: float) -> int:
        number = 1
        self.timer.timeit(1)
        while self.timer.timeit(number) < min(FEWEST_SECONDS, min_run_time / 10):
            number *= 10
        return number

    def _blocks(
        self, number: int, min_run_time: float, callback: Callable[[int, float], Any] | None
    ) -> Iterator[float]:
        total = 0.0
        while total < min_run_time:
            seconds = self.timer.timeit(number)
            total += seconds
            if callback is not None:
                callback(number, seconds)
            yield seconds

    def _measured(self, number: int, seconds: list[float]) -> Measurement:
        return Measurement(number, seconds, num_threads=self.num_threads, **self.names)


def _dedented(code: str) -> str:
    """Code whose lines may be indented together, as they are in a string inside of a function."""
    lines = code.strip("\n").split("\n")
    margin = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    return "\n".join(line[margin:] for line in lines).rstrip() or "pass"


@contextmanager
def _threads(count: int) -> Iterator[None]:
    """Inside, the kernels use so many threads."""
    from tinygrad_tf.kernels._threads import pool  # imports numba: not before something is measured

    before = pool.get_num_threads()
    pool.set_num_threads(count)
    try:
        yield
    finally:
        pool.set_num_threads(before)


class Compare:
    """A table of measurements: a row for each sub_label and number of threads, a column for each description.

    >>> Compare([Measurement(10, [0.5], label="sums", sub_label="small", description="ours")]).print()
    sums, times in ms
              ours
    1 thread
      small   50.0
    """

    def __init__(self, results: Sequence[Measurement]):
        self.results = list(results)

    def extend_results(self, results: Sequence[Measurement]) -> None:
        self.results += results

    def print(self) -> None:
        print(self)

    def __str__(self) -> str:
        labels = list(dict.fromkeys(m.label for m in self.results))
        return "\n\n".join("\n".join(_table([m for m in self.results if m.label == label])) for label in labels)


def _table(results: list[Measurement]) -> Iterator[str]:
    """The lines for what shares one label; where several measurements share a place, their median is shown."""
    size, unit = _unit(min(m.median for m in results))
    columns = list(dict.fromkeys(m.description or "" for m in results))
    places: dict[tuple[int, str, str], list[float]] = {}
    for m in results:
        places.setdefault((m.num_threads, m.as_row_name, m.description or ""), []).extend(m.times)
    shown = {place: f"{statistics.median(times) / size:.1f}" for place, times in places.items()}
    first = max([len(name) + 2 for _, name, _ in places] + [8]) + 2
    widths = [max(len(text) for text in [c, *(t for place, t in shown.items() if place[2] == c)]) for c in columns]
    yield f"{results[0].label or results[0].stmt}, times in {unit}"
    yield (" " * first + "  ".join(c.rjust(w) for c, w in zip(columns, widths, strict=True))).rstrip()
    for threads in sorted({m.num_threads for m in results}):
        yield f"{threads} thread{'s' if threads > 1 else ''}"
        for row in dict.fromkeys(m.as_row_name for m in results if m.num_threads == threads):
            cells = [shown.get((threads, row, c), "").rjust(w) for c, w in zip(columns, widths, strict=True)]
            yield (f"  {row}".ljust(first) + "  ".join(cells)).rstrip()
