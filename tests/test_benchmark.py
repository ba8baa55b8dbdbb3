"""utils.benchmark: what a Timer measures and shows, as PyTorch's does."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

import tinygrad_tf as tg
from tinygrad_tf.utils.benchmark import Compare, Measurement, Timer


def clock(step: float) -> Any:
    """A timer that says that each block of runs took `step` seconds."""
    ticks = itertools.count()
    return lambda: next(ticks) * step


def test_a_block_is_divided_by_its_runs_and_its_warm_up_is_not_counted() -> None:
    runs: list[int] = []
    measured = Timer("runs.append(n)", "n = 7", globals={"runs": runs}, timer=clock(5.0)).timeit(number=10)
    assert measured.raw_times == [5.0] and measured.times == [0.5] and measured.mean == measured.median == 0.5
    assert runs == [7] * 12 and measured.number_per_run == 10 and measured.iqr == 0.0


def test_blocks_are_run_until_enough_was_measured() -> None:
    seen: list[tuple[int, float]] = []
    timer = Timer(timer=clock(0.25), label="nothing", sub_label="at all", description="here")
    measured = timer.blocked_autorange(lambda number, seconds: seen.append((number, seconds)), min_run_time=1.0)
    assert measured.raw_times == [0.25] * 4 and seen == [(1, 0.25)] * 4
    assert measured.title == "nothing: at all"
    assert repr(measured).split("\n")[1:] == [
        "nothing: at all", "here", "  Median: 250.00 ms", "  IQR: 0.00 ms",
        "  4 measurements, 1 runs per measurement, 1 thread",
    ]  # fmt: skip


def test_short_statements_are_run_in_blocks() -> None:
    measured = Timer("x + 1", globals={"x": 1}).blocked_autorange(min_run_time=0.02)
    assert measured.number_per_run >= 1000 and sum(measured.raw_times) >= 0.02
    assert 1e-9 < measured.median < 1e-5


def test_threads_are_set_for_the_measurement_only() -> None:
    before = tg.get_num_threads()
    seen: list[int] = []
    names = {"seen": seen, "tg": tg}
    Timer("torch.ones(1)").timeit(1)  # which statements know without being told
    Timer("seen.append(tg.get_num_threads())", globals=names, num_threads=before + 1).timeit(1)
    with pytest.raises(ZeroDivisionError):
        Timer("1 / 0", num_threads=before + 1).timeit(1)
    assert set(seen) == {before + 1} and tg.get_num_threads() == before


def test_the_quartiles_and_several_lines_of_code() -> None:
    assert Measurement(2, [2.0, 4.0, 6.0, 8.0, 10.0]).iqr == 2.0
    found: list[int] = []
    Timer("\n        a = 1\n        if a:\n            found.append(a)\n    ", globals={"found": found}).timeit(1)
    assert found == [1, 1, 1]


def test_a_table_has_rows_for_inputs_and_threads_and_columns_for_descriptions() -> None:
    places = itertools.product(("small", "large"), ("ours", "theirs"), (1, 2))
    results = [Measurement(1, [0.002 * (i + 1)], "f", "", "sums", s, d, None, n) for i, (s, d, n) in enumerate(places)]
    other = Measurement(1, [3.0], "other")
    table = Compare(results[:-1])
    table.extend_results([other])
    assert str(table).split("\n") == [
        "sums, times in ms",
        "          ours  theirs",
        "1 thread",
        "  small    2.0     6.0",
        "  large   10.0    14.0",
        "2 threads",
        "  small    4.0     8.0",
        "  large   12.0",
        "",
        "other, times in s",
        "",
        "1 thread",
        "  other   3.0",
    ]


def test_what_cannot_be_measured_is_told() -> None:
    with pytest.raises(TypeError, match="stmt must be Python code in a string, got function"):
        Timer(lambda: 1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="global_setup is for code in C"):
        Timer(global_setup="#include <vector>")
