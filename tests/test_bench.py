"""`tinygrad-tf bench`: that everything runs and the libraries agree, in almost no time; nothing here is about speed."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tinygrad_tf as tg
from tinygrad_tf.bench import gpt, lessons, operations, peak, processes, sections
from tinygrad_tf.bench.machine import processor
from tinygrad_tf.bench.measure import Case, Measurer, Pace, Row, difference
from tinygrad_tf.bench.own_generation import generate
from tinygrad_tf.bench.processes import NUMPY, OWN, PYTORCH, Worker, WorkerError
from tinygrad_tf.bench.report import MISSING, Table, summary
from tinygrad_tf.bench.worker import Desk, digest
from tinygrad_tf.cli import bench, main
from tinygrad_tf.kernels import _matrix_tiles, _vector

HAS_TORCH = importlib.util.find_spec("torch") is not None
SIZES = gpt.Sizes(layers=2, heads=2, channels=16, context=8, batch=3, vocabulary=11)


# --- the whole --------------------------------------------------------------------------------------------------------


def test_quick_runs_everything_and_the_libraries_agree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every row of every section, in each library that is here: a time, a ratio, and the same results to 1e-4."""
    assert main(["bench", "--quick", "--json", str(tmp_path / "all.json")]) == 0
    out, found = capsys.readouterr().out, json.loads((tmp_path / "all.json").read_text())
    assert list(found["sections"]) == ["steps", "lessons", "ops", "growth", "generation"]
    products = operations.products()
    for section, rows in found["sections"].items():
        assert [row["name"] for row in rows] == [case.name for case in sections.SECTIONS[section](False, True)]
        for row in rows:
            libraries = {OWN} | ({PYTORCH} if HAS_TORCH else set()) | ({NUMPY} if row["name"] in products else set())
            assert row["problem"] is None and not row["errors"]
            assert set(row["seconds"]) == libraries == set(row["first"]) == set(row["peak_bytes"])
            assert set(row["ratios"]) == libraries - {OWN}
            numbers = [*row["seconds"].values(), *row["first"].values(), *row["ratios"].values()]
            assert all(math.isfinite(n) and n > 0 for n in numbers)
            assert len(libraries) == 1 or row["difference"] <= (2e-3 if "bfloat16" in row["name"] else 1e-4)
            assert any(line.startswith(row["name"] + " ") for line in out.splitlines())
            assert row["multiply_adds_per_second"] or "x" not in row["name"] or row["name"] not in products
    machine = found["machine"]
    assert machine["cores"] >= machine["threads"] == 1 and machine["versions"]["numpy"] == np.__version__
    for rates in machine["peak"].values():
        assert len(rates) == 2 and all(math.isfinite(rate) and rate > 1e6 for rate in rates)
    assert ("pairs" in machine["peak"]) == _vector.HAS_PAIRS
    assert ("tiles" in machine["peak"]) == machine["matrix_tiles"] == _matrix_tiles.AVAILABLE
    assert processor() in out and "GFLOP/s" in out and "nan" not in out and "wrong" not in out


@pytest.mark.parametrize(
    "words, message",
    [
        (["stps"], "there is no section 'stps'; did you mean steps?"),
        (["xyz"], "there is no section 'xyz'; there are steps, lessons, ops, growth, generation"),
        (["--full", "--quick"], "--full and --quick cannot be combined"),
        (["--rounds", "0"], "--rounds must be at least 1, got 0"),
        (["--threads", "two"], "--threads must be a whole number, got 'two'"),
        (["--threads", "9999"], "must be an integer from 1 to 1024, got 9999"),
        (["--json", "nowhere/figures.json"], "there is no folder"),
        (["--json", "."], "that is a folder"),
        (["--quik"], "did you mean --quick?"),
    ],
)
def test_wrong_input_is_one_line(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["bench", *words]) == 2
    out, err = capsys.readouterr()
    assert err.startswith("tinygrad-tf bench: ") and err.count("\n") == 1 and message in err
    assert not out and not list(tmp_path.iterdir())


MACHINE = {
    "processor": "A", "architecture": "b", "system": "C", "cores": 2, "threads": 2, "vector_bytes": 32,
    "matrix_tiles": False, "versions": dict.fromkeys(("tinygrad_tf", "python", "numpy", "numba"), "1"),
    "peak": {"registers": [1e9, 2e9], "copy": [1e9, 1e9]},
}  # fmt: skip


def test_what_is_wrong_is_said_and_what_is_measured_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A row on which the libraries differ gives exit code 1; Ctrl-C in the next section leaves the rows before it."""
    monkeypatch.setattr(bench, "_machine", lambda measurer: MACHINE)

    def measure(self: Measurer, case: Case, libraries: object, shared: bool) -> Row:
        wrong = 1e-3 if case.name == "mac" else 0.0
        return Row(case.name, {OWN: 1.0, PYTORCH: 2.0}, ratios={PYTORCH: 2.0}, difference=wrong, agree=case.agree)

    monkeypatch.setattr(Measurer, "measure", measure)
    target = tmp_path / "kept.json"
    assert main(["bench", "steps", "--json", str(target)]) == 1
    out = capsys.readouterr().out
    assert "wrong: the libraries differ by 1.0e-03, more than 1e-04" in out and "1 row is wrong" in out
    kept = json.loads(target.read_text())["sections"]["steps"]
    assert [row["problem"] is None for row in kept] == [True, False, True] and kept[0]["ratios"] == {PYTORCH: 2.0}

    names = [row["name"] for row in kept]
    assert names == ["tiny", "mac", "mac, bfloat16"]

    def stop(self: Measurer, case: Case, libraries: object, shared: bool) -> Row:
        if case.program == "step":
            return Row(case.name, {OWN: math.nan})
        raise KeyboardInterrupt

    monkeypatch.setattr(Measurer, "measure", stop)
    assert main(["bench", "steps", "ops", "--json", str(target)]) == 130
    found = json.loads(target.read_text())
    assert found["machine"] == MACHINE and [row["name"] for row in found["sections"]["steps"]] == names
    assert found["sections"]["steps"][0]["seconds"] == {OWN: "nan"}


@pytest.mark.parametrize("name", lessons.LESSONS)
def test_a_lesson_begins_anew_and_goes_on(name: str) -> None:
    def losses() -> list[float]:
        step = lessons.make(tg, name)
        return [step() for _ in range(3)]

    found = losses()
    assert found == losses() and len(set(found)) == 3 and all(map(math.isfinite, found))


# --- processes --------------------------------------------------------------------------------------------------------


def test_the_other_library_has_its_process_to_itself() -> None:
    """Nothing of this package but what is run, and no settings that slow NumPy down."""
    code = f"import sys; {processes.START_OTHER}; print([m for m in sys.modules if m.startswith('tinygrad_tf')])"
    environment = {**os.environ, "OPENBLAS_CORETYPE": "Prescott"}
    run = subprocess.run(
        [sys.executable, "-P", "-c", code, "numpy", "1"], input="", capture_output=True, text=True, env=environment
    )
    modules = "", ".worker", ".gpt", ".lessons", ".operations"
    names = {"tinygrad_tf", *(f"tinygrad_tf.bench{name}" for name in modules)}
    assert set(eval(run.stderr)) == names


def test_settings_of_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Prescott")
    monkeypatch.setenv("OPENBLAS_L2_SIZE", "1")
    monkeypatch.setenv("TINYGRAD_TF_NUM_THREADS", "7")
    environment = processes._environment(3)
    assert "OPENBLAS_CORETYPE" not in environment and "OPENBLAS_L2_SIZE" not in environment
    assert environment["TINYGRAD_TF_NUM_THREADS"] == environment["OMP_NUM_THREADS"] == "3"
    assert processes._environment(None)["TINYGRAD_TF_NUM_THREADS"] == "7"


def test_a_library_that_fails_leaves_the_others_their_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(processes.SHOWN, "no_such_library", "Another")
    name = next(iter(operations.products()))
    pace = Pace(1, turn_seconds=0.0, rounds=1)
    row = Measurer(pace).measure(
        Case(name, "operation", {"name": name}, (NUMPY, "no_such_library")), (NUMPY, "no_such_library")
    )
    assert row.seconds[NUMPY] > 0 and set(row.seconds) == {NUMPY}
    assert row.problem() == "Another: ModuleNotFoundError: No module named 'no_such_library'"


def test_a_row_that_fails_says_so_and_the_next_one_begins_anew() -> None:
    measurer = Measurer(Pace(1, turn_seconds=0.0, rounds=1))
    try:
        name = next(iter(operations.products()))
        bad, good = (Case(n, "operation", {"name": n}, (NUMPY,)) for n in ("nothing", name))
        assert (measurer.measure(bad, (NUMPY,), shared=True).problem() or "").startswith("NumPy: KeyError")
        rows = [measurer.measure(good, (NUMPY,), shared=True) for _ in range(2)]
        assert all(row.problem() is None and row.seconds[NUMPY] > 0 for row in rows)
    finally:
        measurer.close()


def test_errors_of_a_worker_are_one_line() -> None:
    worker = Worker(NUMPY, 1)
    assert processes.START_OTHER in worker._process.args  # type: ignore[operator]
    try:
        worker.answer()
        with pytest.raises(WorkerError, match=r"^NumPy: KeyError: 'no such operation'$"):
            worker.ask(build="operation", arguments={"name": "no such operation forward"})
        worker._process.kill()
        with pytest.raises(WorkerError, match="NumPy: its process ended with code"):
            worker.ask(run=1)
    finally:
        worker.close()


class Clerk:
    """In a worker's place: the seconds that it is told, a loss for each run, and a note of who was asked when."""

    def __init__(self, name: str, seconds: list[float], diary: list[tuple[str, object]], late: float = 0.0) -> None:
        self.name, self.seconds, self.diary, self.late = name, list(seconds), diary, late

    def ask(self, **request: object) -> dict[str, object]:
        self.diary.append((self.name, request.get("run", "build")))
        loss = 1.0 if "build" in request else 1.0 + self.late
        return {"first": 9.0, "seconds": self.seconds.pop(0), "values": [loss], "peak": len(self.diary)}


def test_rounds_of_turns() -> None:
    """Who goes first changes; the slowest decides how often; medians are of ratios in each round; late losses count."""
    diary: list[tuple[str, object]] = []
    team = processes.Team(1)
    team.workers = {
        OWN: Clerk(OWN, [0.01, 1.0, 2.0, 4.0], diary),  # type: ignore[dict-item]
        PYTORCH: Clerk(PYTORCH, [0.05, 5.0, 4.0, 12.0], diary, 3e-4),  # type: ignore[dict-item]
    }
    case = Case("x", "step", {}, multiply_adds=6.0, tokens=10, rounds=3)
    row = Measurer(Pace(1, turn_seconds=0.2))._measure(case, (OWN, PYTORCH), team)
    assert [name for name, _ in diary] == [OWN, PYTORCH, OWN, PYTORCH, PYTORCH, OWN, OWN, PYTORCH]
    assert [what for _, what in diary] == ["build"] * 2 + [4] * 6 and (row.runs, row.rounds) == (4, 3)
    assert row.seconds == {OWN: 2.0, PYTORCH: 5.0} and row.ratios == {PYTORCH: 3.0}
    assert row.tokens_per_second == {OWN: 5.0, PYTORCH: 2.0}
    assert row.multiply_adds_per_second == {OWN: 3.0, PYTORCH: 1.2}
    assert row.peak_bytes == {OWN: 7, PYTORCH: 8} and row.difference == pytest.approx(3e-4, rel=1e-3)
    assert not row.errors


def test_results_that_are_not_finite_are_wrong_without_another_library() -> None:
    team = processes.Team(1)
    team.workers = {OWN: Clerk(OWN, [1.0, 1.0], [], math.nan)}  # type: ignore[dict-item]
    row = Measurer(Pace(1, rounds=1))._measure(Case("x", "step", {}), (OWN,), team)
    assert row.problem() == "tinygrad_tf: a result is not finite"


# --- rows -------------------------------------------------------------------------------------------------------------


def test_difference_and_problems() -> None:
    assert difference([1.0, 2.0], [1.0, 2.002]) == pytest.approx(1e-3, rel=1e-2)
    assert difference([[[1.0, -4.0]]], [[[1.0, -2.0]]]) == 1.0
    assert math.isnan(difference([1.0, math.nan], [1.0, 1.0])) and math.isnan(difference([1.0], [math.inf]))
    assert difference([[[1, 2, 3]]], [[[1, 2]]]) == math.inf
    assert difference([[list(range(10))]], [[[0, *range(1, 9), 0]]]) == 0.0
    assert difference([[list(range(10))]], [[[0, *range(1, 8), 0, 0]]]) == math.inf
    good = Row("x", {OWN: 1.0, PYTORCH: 1.0}, ratios={PYTORCH: 1.0}, difference=1e-4)
    assert good.problem() is None
    for bad in (
        replace(good, difference=math.nan),
        replace(good, difference=1.1e-4),
        replace(good, seconds={OWN: math.inf}),
        replace(good, ratios={PYTORCH: 0.0}),
        replace(good, errors={PYTORCH: "broken"}),
    ):
        assert bad.problem()


def test_a_digest_notices_signs_places_and_sizes() -> None:
    x = np.random.default_rng(0).standard_normal((6, 6))
    for other in (-x, x.T, x * 1.001, x[::-1], np.abs(x), np.maximum(x, 0), np.minimum(x, 0)):
        assert difference([digest(x)], [digest(other)]) > 1e-4
    assert difference([digest(x)], [digest(x.astype(np.float32))]) < 1e-6


def test_table_and_summary() -> None:
    row = Row("a", {OWN: 2e-3, PYTORCH: 8e-3, NUMPY: 1e-3}, ratios={PYTORCH: 4.0, NUMPY: 0.5}, difference=2e-7)
    row.multiply_adds_per_second = {OWN: 5e8}
    table = Table("ops", (OWN, PYTORCH, NUMPY), 1e9, ["a", "b"])
    assert table.head().split() == ["tinygrad_tf", "PyTorch", "ratio", "NumPy", "ratio", "of", "peak", "differ", "by"]
    assert table.line(row).split() == ["a", "2.00", "ms", "8.00", "ms", "4.00", "1.00", "ms", "0.50", "50%", "2e-07"]
    alone = Table("growth", (OWN, NUMPY), 1e9, ["a"])
    assert alone.head().split() == ["tinygrad_tf", "of", "peak", "MiB"]
    assert alone.line(Row("a", {OWN: 12.0}, peak_bytes={OWN: 3 << 20})).split() == ["a", "12.0", "s", MISSING, "3"]
    first, second = summary("ops", [row, replace(row, name="b", ratios={PYTORCH: 1.0, NUMPY: 2.0})])
    assert "geometric mean 2.00 of 2 rows, smallest 1.00 (b)" in first and first.startswith("PyTorch")
    assert "geometric mean 1.00 of 2 rows, smallest 0.50 (a)" in second and second.startswith("NumPy")


# --- what is measured -------------------------------------------------------------------------------------------------


def test_multiply_adds_of_a_step() -> None:
    """Counted from the shapes of every product."""
    L, H, C, T, B, V = SIZES.layers, SIZES.heads, SIZES.channels, SIZES.context, SIZES.batch, SIZES.vocabulary
    model = gpt.build(tg, SIZES)
    matrices = sum(
        p.numel()
        for name, p in model.named_parameters()
        if p.dim() == 2 and "token" not in name and "position" not in name
    )
    pairs = sum(1 for query in range(T) for key in range(T) if key <= query)
    attention = L * B * H * pairs * (C // H) * 2
    assert matrices == L * 12 * C * C + C * V and SIZES.multiply_adds == 3 * (B * T * matrices + attention)


def test_a_training_step_learns() -> None:
    step = gpt.trainer(tg, SIZES)
    losses = [step() for _ in range(80)]
    assert losses[0] == pytest.approx(math.log(SIZES.vocabulary), abs=0.05) and losses[-1] < losses[0] - 0.1


def test_all_ways_to_write_give_the_same_text() -> None:
    """A cache by hand, generate_batch, and the model run again on all of the text for each token."""
    by_hand = gpt.generate_with_cache(tg, SIZES)()
    assert by_hand.shape == (SIZES.batch, SIZES.context - 1) and len(set(by_hand.ravel().tolist())) > 2
    model = gpt.generator(tg, SIZES)
    text = gpt.first_tokens(SIZES)
    with tg.no_grad():
        for _ in range(SIZES.context - 1):
            text = np.concatenate([text, model(tg.from_numpy(text)).numpy()[:, -1].argmax(-1)[:, None]], 1)
    assert (by_hand == text[:, 1:]).all() and (generate(model, SIZES)() == text[:, 1:]).all()
    window = np.tile(gpt.first_tokens(SIZES), SIZES.context)
    with tg.no_grad():
        following = model(tg.from_numpy(window)).numpy()[:, -1].argmax(-1)
    assert (gpt.generate_without_cache(tg, SIZES, 1)()[:, 0] == following).all()


def test_products_are_those_of_linear_layers() -> None:
    """y = x W.T, dx = dy W and dW = dy.T x, for 12 x 64 rows."""
    found = list(operations.products().values())
    assert found[:3] == [("NT", 768, 128, 384), ("NN", 768, 384, 128), ("TN", 384, 768, 128)]
    assert found[9:12] == [("NT", 768, 512, 128), ("NN", 768, 128, 512), ("TN", 128, 768, 512)]
    assert found[12] == ("NT", 768, 128, 65) and len(found) == 15


@pytest.mark.parametrize("name", list(operations.products())[:3])
def test_products(name: str) -> None:
    """Each layout against NumPy, which is given the same numbers."""
    layout, M, K, N = operations.products()[name]
    generator = np.random.default_rng(0)
    a = generator.standard_normal((M, K) if layout[0] == "N" else (K, M)).astype(np.float32)
    b = generator.standard_normal((K, N) if layout[1] == "N" else (N, K)).astype(np.float32)
    right = (a if layout[0] == "N" else a.T) @ (b if layout[1] == "N" else b.T)
    assert np.allclose(operations.make(tg, name)()[0].numpy(), right, atol=1e-3)
    assert np.allclose(operations.make(np, name)()[0], right)


def test_backward_passes_give_every_gradient() -> None:
    names = [name for name in operations.names() if name.endswith(" forward + backward")]
    assert len(names) == len(operations.functions())
    for name in names:
        _, shapes = operations.functions()[name.removesuffix(" forward + backward")]
        y, *gradients = operations.make(tg, name)()
        assert [tuple(g.shape) for g in gradients] == shapes and all(g.abs().sum().item() > 0 for g in gradients)
        assert (
            difference(
                [digest(operations.make(tg, name.removesuffix(" + backward"))()[0].numpy())], [digest(y.numpy())]
            )
            < 1e-6
        )


@pytest.mark.parametrize(("name", "gates"), operations.recurrent_layers().items())
def test_recurrent_layers_give_every_gradient(name: str, gates: int) -> None:
    y, *gradients = operations.make(tg, name)()
    rows = gates * 128
    assert tuple(y.shape) == (64, 12, 128)
    assert [tuple(g.shape) for g in gradients] == [(rows, 128), (rows, 128), (rows,), (rows,), (64, 12, 128)]
    assert all(g.abs().sum().item() > 0 for g in gradients)


def test_adamw_moves_every_weight_of_the_model() -> None:
    sizes = sorted(p.numel() for p in gpt.build(tg, gpt.CONFIGURATIONS["mac"]).parameters())
    run = operations.make(tg, "AdamW, all weights")
    before = [x.numpy().copy() for x in run()]
    assert sorted(x.size for x in before) == sizes
    assert all((x.numpy() != old).all() for x, old in zip(run(), before, strict=True))


def test_a_desk_times_and_counts() -> None:
    desk = Desk(tg)
    sizes = {"layers": 1, "heads": 1, "channels": 8, "context": 4, "batch": 1}
    built = desk.answer({"build": "step", "arguments": sizes})
    answer = desk.answer({"run": 3})
    assert len(built["values"]) == 2 and len(answer["values"]) == 3 and min(built["seconds"], built["first"]) > 0
    assert len({*built["values"], *answer["values"]}) == 5 and answer["seconds"] > 0
    assert answer["peak"] is None or answer["peak"] > 10 << 20


# --- the peak ---------------------------------------------------------------------------------------------------------


def test_registers_do_the_multiply_adds_that_are_counted() -> None:
    A = np.random.default_rng(0).uniform(0.5, 1.0, (2, (peak.SUMS + 2) * peak.LANES)).astype(np.float32)
    rows = A.reshape(2, peak.SUMS + 2, peak.LANES).astype(np.float64)
    x = rows[:, :-2]
    for _ in range(5):
        x = x * rows[:, -2:-1] + rows[:, -1:]
    peak._run_registers(2, 5, A)
    assert np.allclose(A.reshape(rows.shape)[:, :-2], x, rtol=1e-5)


@pytest.mark.skipif(not _vector.HAS_PAIRS, reason="this processor does not multiply pairs of bfloat16")
def test_pairs_do_the_multiply_adds_that_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = np.random.default_rng(0).integers(-4, 5, (2, peak.SUMS + 2, peak.LANES, 2)).astype(np.float32)
    A = np.ascontiguousarray((numbers.view(np.uint32) >> 16).astype(np.uint16)).view(np.float32).reshape(2, -1)
    A[:, : peak.SUMS * peak.LANES] = 0.0
    peak._run_pairs(2, 3, A)
    sums = 3 * (numbers[:, -2] * numbers[:, -1]).sum(-1)
    assert np.array_equal(A.reshape(2, -1, peak.LANES)[:, :-2], np.repeat(sums[:, None], peak.SUMS, 1))
    monkeypatch.setattr(peak, "_rate", lambda run, work, seconds: work)
    assert peak.pair_rate(1) == 2 * peak.register_rate(1)


@pytest.mark.skipif(not _matrix_tiles.AVAILABLE, reason="this processor has no matrix tiles")
def test_tiles_do_the_multiply_adds_that_are_counted() -> None:
    """A tile of 16 x 32 times one of 32 x 16, whose words hold the numbers at depths 2 k and 2 k + 1."""
    numbers = np.random.default_rng(0).integers(-4, 5, (4, 16, 16, 2)).astype(np.float32)
    A = np.ascontiguousarray((numbers.view(np.uint32) >> 16).astype(np.uint16)).view(np.float32).reshape(1, -1)
    peak._run_tiles(1, 3, A)
    right = numbers[2].transpose(0, 2, 1).reshape(32, 16)
    assert np.array_equal(A[0, :256].reshape(16, 16), 3 * numbers[0].reshape(16, 32) @ right)
    assert right.shape[0] * 16 * 16 == peak.MULTIPLY_ADDS_OF_A_TILE


def test_copy_copies_everything() -> None:
    A, B = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    peak._run_copy(4, 16, A, B)
    assert (A == B).all()


def test_rates_are_work_by_the_best_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run of n times takes n milliseconds, or twice as long; n is what fills the seconds."""
    asked: list[int] = []

    def seconds(run: object, times: int) -> float:
        asked.append(times)
        return times * 1e-3 * (1 + len(asked) % 2)

    monkeypatch.setattr(peak, "_seconds", seconds)
    assert peak._rate(lambda times: None, 5, seconds=2.0) == pytest.approx(5e3)
    assert asked[-1] * peak.RUNS * 2e-3 >= 1.0 and len(asked) > peak.RUNS
    monkeypatch.setattr(peak, "_rate", lambda run, work, seconds: work)
    assert peak.register_rate(1) == peak.SUMS * peak.LANES and peak.copy_rate(1, 8) == 2 * (8 << 20)
    assert peak.tile_rate(1) == 4 * 16 * 16 * 32
