"""A case is measured in rounds of turns; its row holds medians, ratios, memory, and how far the libraries differ."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tinygrad_tf.bench.processes import OWN, PYTORCH, SHOWN, Team, WorkerError

AGREE = 1e-4  # the largest relative difference between two libraries that counts as the same, in float32
AGREE_TOKENS = 0.9  # the share of equal tokens that does: where two are almost equally likely, the last bit decides
COMPARED_STEPS = 20  # training steps whose losses are compared: later ones wander apart as rounding errors grow


@dataclass(frozen=True)
class Case:
    """What one row of a table measures."""

    name: str
    program: str  # of worker.PROGRAMS
    arguments: dict[str, Any]
    libraries: tuple[str, ...] = (OWN, PYTORCH)
    multiply_adds: float = 0.0  # of one run; 0 where they are not what counts
    tokens: int = 0  # of one run
    rounds: int = 5
    agree: float = AGREE


@dataclass(frozen=True)
class Pace:
    """How long and how often: the same for all cases of a run."""

    threads: int | None = None  # None: as many as this package takes by itself
    turn_seconds: float = 0.2  # of the slowest library; the others run as often
    most_runs: int = 500  # in one turn
    rounds: int | None = None  # instead of the case's own
    share_processes: bool = False  # one process for all cases of a library: quick, but memory adds up
    peak_seconds: float = 0.3
    copy_megabytes: int = 128


@dataclass
class Row:
    """What came out. Dictionaries are by library; seconds are of one run."""

    name: str
    seconds: dict[str, float] = field(default_factory=dict)
    first: dict[str, float] = field(default_factory=dict)  # to build it and run it once
    ratios: dict[str, float] = field(default_factory=dict)  # another library's time divided by ours
    peak_bytes: dict[str, int | None] = field(default_factory=dict)
    difference: float | None = None  # the largest relative one between the libraries' values
    agree: float = AGREE  # what it may be
    errors: dict[str, str] = field(default_factory=dict)
    rounds: int = 0
    runs: int = 0  # in each round
    tokens_per_second: dict[str, float] = field(default_factory=dict)
    multiply_adds: float = 0.0
    multiply_adds_per_second: dict[str, float] = field(default_factory=dict)

    def problem(self) -> str | None:
        """What is wrong with this row, in one line; None if nothing is."""
        if self.errors:
            return "; ".join(self.errors.values())
        numbers = [*self.seconds.values(), *self.ratios.values()]
        if not all(math.isfinite(n) and n > 0 for n in numbers):
            return f"a time or a ratio is not a positive number: {numbers}"
        if self.difference is not None and not self.difference <= self.agree:
            return f"the libraries differ by {self.difference:.1e}, more than {self.agree:.0e}"
        return None


class Measurer:
    """Measures cases, each in fresh processes, or some or all of them in the same ones."""

    def __init__(self, pace: Pace) -> None:
        self.pace = pace
        self._kept: Team | None = None

    def close(self) -> None:
        """End all processes."""
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    @contextmanager
    def _team(self, libraries: Sequence[str], shared: bool) -> Iterator[Team]:
        """Processes of these libraries, and perhaps of others that wait."""
        if shared or self.pace.share_processes:
            self._kept = self._kept or Team(self.pace.threads)
            self._kept.gather(libraries)
            yield self._kept
            return
        team = Team(self.pace.threads)
        try:
            team.gather(libraries)
            yield team
        finally:
            team.close()

    def ask_once(self, case: Case) -> Any:
        """What a case's program gives, run once by its one library; WorkerError if it cannot."""
        (library,) = case.libraries
        with self._team(case.libraries, False) as team:
            if library not in team.workers:
                raise WorkerError(team.errors[library])
            with team.trying(library):
                answer = team.workers[library].ask(build=case.program, arguments=case.arguments, twice=False)
                return answer["values"][0]
            raise WorkerError(team.errors[library])

    def measure(self, case: Case, libraries: Sequence[str], shared: bool = False) -> Row:
        """The row of a case, for those of its libraries that are wanted. shared: its processes may be used again."""
        wanted = [library for library in case.libraries if library in libraries]
        with self._team(wanted, shared) as team:
            return self._measure(case, wanted, team)

    def _measure(self, case: Case, wanted: Sequence[str], team: Team) -> Row:
        row = Row(case.name, multiply_adds=case.multiply_adds, agree=case.agree)
        row.rounds = self.pace.rounds or case.rounds
        slowest, values = 0.0, {}
        for library in _present(wanted, team):
            with team.trying(library):
                built = team.workers[library].ask(build=case.program, arguments=case.arguments)
                slowest = max(slowest, built["seconds"])
                row.first[library], row.peak_bytes[library] = built["first"], built["peak"]
                values[library] = built["values"]
        row.runs = max(1, min(self.pace.most_runs, round(self.pace.turn_seconds / max(slowest, 1e-9))))
        rounds: list[dict[str, float]] = []
        for number in range(row.rounds):
            rounds.append({})
            for library in _present(wanted, team)[:: -1 if number % 2 else 1]:  # who goes first goes last the next time
                with team.trying(library):
                    answer = team.workers[library].ask(run=row.runs)
                    rounds[-1][library] = answer["seconds"]
                    row.peak_bytes[library] = answer["peak"]
                    values[library] += answer["values"]
        row.errors = dict(team.errors)
        present = _present(wanted, team)
        row.errors |= {name: f"{SHOWN[name]}: a result is not finite" for name in present if not _finite(values[name])}
        _fill(row, case, present, rounds)
        if OWN in present and len(present) > 1:
            row.difference = max(difference(values[OWN], values[other]) for other in present if other != OWN)
        return row


def _present(wanted: Sequence[str], team: Team) -> list[str]:
    return [library for library in wanted if library in team.workers]


def _finite(values: Sequence[Any]) -> bool:
    return all(np.isfinite(np.asarray(value)).all() for value in values)


def _fill(row: Row, case: Case, libraries: Sequence[str], rounds: Sequence[dict[str, float]]) -> None:
    """Medians over the rounds, of times and of the ratios in each round."""
    for library in libraries:
        row.seconds[library] = statistics.median(times[library] for times in rounds)
        if case.tokens:
            row.tokens_per_second[library] = case.tokens / row.seconds[library]
        if case.multiply_adds:
            row.multiply_adds_per_second[library] = case.multiply_adds / row.seconds[library]
        if library != OWN and OWN in libraries:
            row.ratios[library] = statistics.median(times[library] / times[OWN] for times in rounds)


def difference(ours: Sequence[Any], theirs: Sequence[Any]) -> float:
    """The largest relative difference of two lists of losses, or of other values; NaN if one is not finite.

    >>> difference([1.0, 2.0], [1.0, 2.5]), difference([[[3, 5]]], [[[3, 5]]])
    (0.2, 0.0)
    """
    largest = 0.0
    for own, other in list(zip(ours, theirs, strict=True))[:COMPARED_STEPS]:
        a, b = np.asarray(own), np.asarray(other)
        if a.shape != b.shape:
            return math.inf
        if a.dtype.kind == "i":
            largest = max(largest, 0.0 if (a == b).mean() >= AGREE_TOKENS else math.inf)
            continue
        if not (np.isfinite(a).all() and np.isfinite(b).all()):
            return math.nan
        largest = max(largest, float((np.abs(a - b) / np.maximum(np.abs(b), 1e-30)).max()))
    return float(f"{largest:.6g}")
