"""The tables as text: a line for each row as soon as it is measured, and what they come to."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tinygrad_tf.bench.measure import Row
from tinygrad_tf.bench.processes import NUMPY, OWN, PYTORCH, SHOWN

MISSING = "-"
Column = tuple[str, Callable[[Row], str]]

TITLES = {
    "steps": "One training step: forward, backward, clipping, AdamW",
    "lessons": "One training step of small models, as lessons write them",
    "ops": "Single operations, float32, at the sizes of the mac configuration",
    "growth": "How a training step grows with context T, channels C and layers",
    "generation": "Text, greedily, after one token until the context is full; without a cache each costs a context",
}


def machine_lines(machine: dict[str, Any], torch_version: str | None) -> list[str]:
    """What the machine is, and its measured peak."""
    versions, peak = machine["versions"], machine["peak"]
    tiles = "with matrix tiles" if machine["matrix_tiles"] else "no matrix tiles"
    names = f"tinygrad_tf {versions['tinygrad_tf']}, Python {versions['python']}, NumPy {versions['numpy']}"
    names += f", numba {versions['numba']}" + (f", PyTorch {torch_version}" if torch_version else ", without PyTorch")
    lines = [
        f"processor      {machine['processor']} ({machine['architecture']}), {machine['system']}",
        f"used           {_count(machine['threads'], 'thread')} on {_count(machine['cores'], 'core')}, "
        f"vectors of {machine['vector_bytes']} bytes, {tiles}",
        f"versions       {names}",
        f"measured peak  {'one core':>42}{_count(machine['threads'], 'thread'):>12}",
        _peak("float32 on vector registers, GFLOP/s", peak["registers"], 2),
    ]
    if "pairs" in peak:
        lines.append(_peak("bfloat16 on vector registers, in pairs, GFLOP/s", peak["pairs"], 2))
    if "tiles" in peak:
        lines += [
            _peak("bfloat16 on matrix tiles, GFLOP/s", peak["tiles"], 2),
            _peak("float32 on matrix tiles, in pieces, GFLOP/s", peak["tiles_float32"], 2),
        ]
    lines.append(_peak("copy, GB/s read and written", peak["copy"], 1))
    return lines


NOTES = """A multiply-add is two FLOP. 'of peak' compares ours with float32 on the vector registers of all threads;
matrix tiles and bfloat16 can pass 100 %. The libraries take turns in processes of their own; shown are medians over the
rounds, of times and of their ratios: above 1, the library to the left takes longer than this one."""
QUICK = "--quick: everything runs, and the libraries must agree; the times mean nothing."


def _peak(what: str, rates: Sequence[float], factor: float) -> str:
    one, every = (rate * factor / 1e9 for rate in rates)
    return f"  {what:<48}{one:7.1f}{every:12.1f}"


def _count(number: int, word: str) -> str:
    return f"{number} {word}" + ("" if number == 1 else "s")


class Table:
    """The columns of one section; names: of its rows."""

    def __init__(self, section: str, libraries: Sequence[str], peak: float, names: Sequence[str]) -> None:
        self.section = section
        self.libraries = [library for library in libraries if library != NUMPY or section == "ops"]
        self.peak = peak  # multiply-adds a second of all threads
        self.width = max(map(len, names)) + 1
        self.columns = self._columns()

    def _columns(self) -> list[Column]:
        columns: list[Column] = []
        for name in self.libraries:
            figure = (
                (f"{SHOWN[name]} tokens/s", _rate(name)) if self.section == "generation" else (SHOWN[name], _time(name))
            )
            columns += [figure] if name == OWN else [figure, ("ratio", _ratio(name))]
        if self.section != "generation":
            columns.append(("of peak", self._share))
        if self.section in ("steps", "growth"):
            columns += [("MiB" if name == OWN else f"{SHOWN[name]} MiB", _memory(name)) for name in self.libraries]
        if len(self.libraries) > 1:
            columns.append(("differ by", _difference))
        return columns

    def _share(self, row: Row) -> str:
        rate = row.multiply_adds_per_second.get(OWN)
        share = None if rate is None else rate / self.peak
        return MISSING if share is None else f"{share:.0%}" if share >= 0.1 else f"{share:.1%}"

    def head(self) -> str:
        """The line above the rows."""
        return " " * self.width + "".join(f"{name:>{_column_width(name)}}" for name, _ in self.columns)

    def line(self, row: Row) -> str:
        """One row; what is wrong with it stands below it."""
        cells = "".join(f"{show(row):>{_column_width(name)}}" for name, show in self.columns)
        problem = row.problem()
        return f"{row.name:<{self.width}}{cells}" + (f"\n  wrong: {problem}" if problem else "")


def _column_width(name: str) -> int:
    return 7 if name == "ratio" else max(len(name), 8) + 2


def _time(library: str) -> Callable[[Row], str]:
    def show(row: Row) -> str:
        seconds = row.seconds.get(library)
        if seconds is None:
            return MISSING
        unit, factor = ("s", 1.0) if seconds >= 1 else ("ms", 1e3) if seconds >= 1e-3 else ("us", 1e6)
        return f"{seconds * factor:.1f} {unit}" if seconds * factor >= 10 else f"{seconds * factor:.2f} {unit}"

    return show


def _rate(library: str) -> Callable[[Row], str]:
    return lambda row: f"{row.tokens_per_second[library]:,.0f}" if library in row.tokens_per_second else MISSING


def _ratio(library: str) -> Callable[[Row], str]:
    return lambda row: f"{row.ratios[library]:.2f}" if library in row.ratios else MISSING


def _memory(library: str) -> Callable[[Row], str]:
    def show(row: Row) -> str:
        peak = row.peak_bytes.get(library)
        return MISSING if peak is None else f"{peak / (1 << 20):,.0f}"

    return show


def _difference(row: Row) -> str:
    return MISSING if row.difference is None else f"{row.difference:.0e}" if row.difference else "0"


def summary(section: str, rows: Sequence[Row]) -> list[str]:
    """What the rows of a section come to, against each other library."""
    lines = []
    for library in (PYTORCH, NUMPY):
        ratios = {row.name: row.ratios[library] for row in rows if library in row.ratios}
        if len(ratios) > 1:
            mean = math.exp(math.fsum(map(math.log, ratios.values())) / len(ratios))
            worst = min(ratios, key=lambda name: ratios[name])
            lines.append(
                f"{SHOWN[library]}'s time divided by ours: geometric mean {mean:.2f} of {len(ratios)} rows, "
                f"smallest {ratios[worst]:.2f} ({worst})"
            )
    if section == "generation":
        lines += _against_no_cache(rows)
    return lines


def _against_no_cache(rows: Sequence[Row]) -> list[str]:
    """generate_batch beside what one has without a cache in PyTorch."""
    rates = {row.name: row.tokens_per_second for row in rows}
    lines = []
    for name, ours in rates.items():
        theirs = rates.get(name.replace("generate_batch", "no cache"), {}).get(PYTORCH)
        if name.endswith("generate_batch") and theirs and OWN in ours:
            batch = name.partition(",")[0]
            lines.append(
                f"generate_batch against PyTorch without a cache, {batch}: {ours[OWN] / theirs:.2f} times as fast"
            )
    return lines
