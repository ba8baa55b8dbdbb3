"""Training loops: batches in parts, precision, schedules, decay by part, early stopping, and the one-batch check."""

from __future__ import annotations

import dataclasses
import itertools
import math
import threading
from typing import Any

import numpy as np
import pytest

import tinygrad_tf as tg
from tests.test_training import TINY, losses, make_run, make_trainer, same, weights
from tinygrad_tf import nn
from tinygrad_tf.amp import get_float32_matmul_precision, set_float32_matmul_precision
from tinygrad_tf.kernels import _matrix_tiles
from tinygrad_tf.models import GPT, GPTConfig
from tinygrad_tf.nn import functional as F
from tinygrad_tf.optim import AdamW
from tinygrad_tf.training import (
    EarlyStopping,
    Part,
    Run,
    TrainConfig,
    Trainer,
    TrainingError,
    accumulate_gradients,
    lowest_loss,
    overfit_one_batch,
    parameter_groups,
    rate_at,
)
from tinygrad_tf.training.groups import parse_decays
from tinygrad_tf.training.loop import Loop
from tinygrad_tf.utils.errors import InputError

# --- a batch in parts -------------------------------------------------------------------------------------------------


def gradients(sizes: list[int], ignored: float, label_smoothing: float = 0.0) -> tuple[float | None, list[np.ndarray]]:
    """Loss and gradients of the same seven rows, in parts of these sizes; some targets are ignored."""
    tg.manual_seed(0)
    model = GPT(GPTConfig(9, 6, 1, 2, 8, dropout=0.0)).double()
    rng = np.random.default_rng(1)
    ids, targets = rng.integers(0, 9, (7, 5)), rng.integers(0, 9, (7, 5))
    targets[rng.random((7, 5)) < ignored] = -100
    assert sum(sizes) == 7
    parts, first = [], 0
    for size in sizes:
        inputs, wanted = ids[first : first + size], targets[first : first + size]
        first += size

        def loss(inputs: Any = inputs, wanted: Any = wanted) -> tg.Tensor:
            logits = model(tg.tensor(inputs)).reshape(-1, 9)
            return F.cross_entropy(logits, tg.tensor(wanted.reshape(-1)), label_smoothing=label_smoothing)

        parts.append(Part(loss, int((wanted != -100).sum())))
    value = accumulate_gradients(parts)
    return value, [p.grad.numpy() for p in model.parameters() if p.grad is not None]


@pytest.mark.parametrize("ignored", [0.0, 0.6])
@pytest.mark.parametrize("sizes", [[3, 3, 1], [6, 1], [1] * 7])
def test_parts_add_up_to_the_whole_batch(sizes: list[int], ignored: float) -> None:
    """Also where the last part is smaller, and where each has another number of targets that count."""
    whole_loss, whole = gradients([7], ignored, 0.1)
    loss, found = gradients(sizes, ignored, 0.1)
    assert loss == pytest.approx(whole_loss, rel=1e-12)
    assert len(found) == len(whole) > 5
    for a, b in zip(found, whole, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-12)


def test_parts_without_targets_do_not_count() -> None:
    loss, found = gradients([3, 4], 1.0)
    assert loss is None and not found
    w = tg.tensor([2.0], requires_grad=True)
    assert accumulate_gradients([Part(lambda: w.sum() * math.nan, 0), Part(lambda: w.sum(), 3)]) == 2.0
    assert w.grad is not None and w.grad.tolist() == [1.0]


def test_a_trainer_in_parts_takes_the_same_steps() -> None:
    expected = losses(make_trainer(dropout=0.0, batch=7))
    found = losses(make_trainer(dropout=0.0, batch=7, micro_batch=3))
    assert found == pytest.approx(expected, rel=1e-5) and found != expected
    assert losses(make_trainer(dropout=0.0, batch=7, micro_batch=9)) == expected


def test_recomputed_blocks_take_the_same_steps_bit_for_bit() -> None:
    assert losses(make_trainer(recompute=True)) == losses(make_trainer())
    assert make_trainer(recompute=True).model.config.recompute


def test_label_smoothing_is_for_training_alone() -> None:
    plain, smooth = make_trainer(dropout=0.0), make_trainer(dropout=0.0, label_smoothing=0.5)
    assert plain.evaluate() == smooth.evaluate()
    windows = plain.next_windows()
    V = len("the cat sat on the mat.\n") and plain.model.lm_head.weight.shape[0]
    logits = plain.model(tg.tensor(windows[0])).detach().numpy().reshape(-1, V).astype(np.float64)
    log_p = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    own = log_p[np.arange(len(log_p)), windows[1].reshape(-1)]
    expected = -(0.5 * own + 0.5 * log_p.mean(1)).mean()
    assert smooth.update(1, 0.0)[0] == pytest.approx(expected, rel=1e-5)


# --- precision --------------------------------------------------------------------------------------------------------


def test_products_of_fewer_bits_are_the_loops_alone() -> None:
    """Inside of steps and evaluations the setting is the loop's, outside the process's, also after an error."""
    seen = []

    class Watching(Trainer):
        def loss(self, *args: Any) -> Any:
            seen.append(get_float32_matmul_precision())
            if len(seen) == 3:
                raise KeyboardInterrupt
            return super().loss(*args)

    config = TrainConfig(layers=1, heads=1, channels=8, context=4, batch=2, steps=3, matmul_precision="high")
    trainer = Watching(config, np.arange(100) % 5, vocabulary_size=5)
    trainer.train_step()
    trainer.evaluate(1)
    assert get_float32_matmul_precision() == "highest"
    with pytest.raises(KeyboardInterrupt):
        trainer.train_step()
    assert get_float32_matmul_precision() == "highest" and seen == ["high"] * 3
    plain = Watching(dataclasses.replace(config, matmul_precision=None), np.arange(100) % 5, vocabulary_size=5)
    set_float32_matmul_precision("medium")
    try:
        plain.train_step()
    finally:
        set_float32_matmul_precision("highest")
    assert seen[3:] == ["medium"]


def test_loops_in_two_threads_have_each_its_own_products() -> None:
    """One makes a step while another is in the middle of its own: neither sees the other's setting, nor leaves it."""
    seen: dict[str, list[str]] = {"high": [], "medium": []}
    begun, ended = threading.Event(), threading.Event()

    class First(Trainer):
        def loss(self, *args: Any) -> Any:
            begun.set()
            assert ended.wait(60)
            seen["high"].append(get_float32_matmul_precision())
            return super().loss(*args)

    class Second(Trainer):
        def loss(self, *args: Any) -> Any:
            seen["medium"].append(get_float32_matmul_precision())
            return super().loss(*args)

    sizes: dict[str, Any] = {"layers": 1, "heads": 1, "channels": 8, "context": 4, "batch": 2, "steps": 3}
    first, second = (
        kind(TrainConfig(**sizes, matmul_precision=name), np.arange(100) % 5, vocabulary_size=5)
        for kind, name in ((First, "high"), (Second, "medium"))
    )
    thread = threading.Thread(target=first.train_step)
    thread.start()
    try:
        assert begun.wait(60) and get_float32_matmul_precision() == "highest"
        second.train_step()
    finally:
        ended.set()
        thread.join()
    assert seen == {"high": ["high"], "medium": ["medium"]} and get_float32_matmul_precision() == "highest"


def test_a_loop_refuses_unknown_products_before_it_begins() -> None:
    model = nn.Linear(1, 1)
    with pytest.raises(InputError, match="matmul_precision must be one of highest, high, medium; got 'low'"):
        Loop(model, AdamW(model.parameters()), matmul_precision="low")


@pytest.mark.skipif(not _matrix_tiles.AVAILABLE, reason="this processor or system has no matrix tiles")
def test_a_run_with_fewer_bits_learns_as_well() -> None:
    """On products large enough for tiles; the losses tell the settings apart, by little."""
    settings: dict[str, Any] = {"layers": 1, "heads": 2, "channels": 128, "context": 64, "batch": 12, "steps": 40}
    losses = {}
    for name in ("highest", "high", "medium"):
        config = TrainConfig(**settings, learning_rate=3e-3, matmul_precision=name)
        losses[name] = [r.loss for r in Trainer(config, np.arange(5000) ** 2 % 61, vocabulary_size=61).train()]
    assert losses["high"] != losses["highest"] != losses["medium"] != losses["high"]
    np.testing.assert_allclose(losses["high"], losses["highest"], rtol=1e-3)
    np.testing.assert_allclose(losses["medium"], losses["highest"], rtol=5e-2)
    assert losses["high"][-1] < losses["high"][0] / 2


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_a_run_in_16_bits_learns_and_resumes_bit_for_bit(precision: str, tmp_path: Any) -> None:
    settings: dict[str, Any] = {"channels": 16, "steps": 60, "batch": 8, "dropout": 0.0, "learning_rate": 0.02}
    exact = make_trainer(**settings, eval_interval=60)
    expected = list(exact.train())[-1].full_validation_loss
    trainer = make_trainer(**settings, eval_interval=60, precision=precision)
    records = list(trainer.train())
    assert records[0].loss != exact and expected is not None
    assert records[-1].full_validation_loss == pytest.approx(expected, abs=0.2) and expected < 1.5
    assert (records[0].loss_scale == 2.0**16) == (precision == "float16")
    assert all(p.array.dtype == np.float32 for p in trainer.model.parameters())

    half = make_trainer(**settings, eval_interval=60, precision=precision)
    run = make_run(tmp_path / "run", half)
    steps = half.train()
    for _ in range(5):
        next(steps)
    half.scaler.set_growth_interval(7)
    run.save(half)
    again = make_trainer(**settings, eval_interval=60, precision=precision)
    Run.open(run.folder).load(again)
    assert again.scaler.state_dict() == half.scaler.state_dict()
    assert [r.loss for r in again.train()] == [r.loss for r in steps]


def test_a_step_that_overflows_float16_is_left_out_and_the_scale_falls() -> None:
    trainer = make_trainer(precision="float16")
    trainer.scaler.update(new_scale=2.0**30)
    before = weights(trainer)
    record = trainer.train_step()
    assert record.gradient_norm is None and record.loss_scale == 2.0**30 and same(weights(trainer), before)
    assert trainer.scaler.get_scale() == 2.0**29 and "gradient_norm" not in record.as_dict()
    trainer.scaler.update(new_scale=1.0)
    name, parameter = next((n, p) for n, p in trainer.model.named_parameters() if p.dim() == 1)
    parameter.array[0] = np.inf
    with pytest.raises(TrainingError, match=f"because the parameter {name} is not finite"):
        trainer.train_step()


# --- schedules --------------------------------------------------------------------------------------------------------


def test_the_schedules_and_their_borders() -> None:
    c: dict[str, Any] = {"peak": 1.0, "floor": 0.1, "warmup": 10, "total": 50}
    steps = range(70)
    for kind in ("cosine", "linear", "constant", "noam"):
        rates = [rate_at(kind, s, **c) for s in steps]
        assert max(rates) == pytest.approx(1.0) and min(rates) > 0 and rates[0] < 0.2
        assert rates[:9] == sorted(rates[:9])
        assert max(abs(a - b) for a, b in itertools.pairwise(rates)) < 0.11  # no jumps
        assert rate_at(kind, 0, peak=1.0, floor=0.1, warmup=0, total=50) == 1.0
    assert rate_at("linear", 30, **c) == pytest.approx(0.55) and rate_at("linear", 99, **c) == 0.1
    assert rate_at("constant", 99, **c) == 1.0
    # Vaswani et al., 2017, equation 3, with 512 channels and 4000 steps of warmup
    peak = 512**-0.5 * 4000**-0.5
    for step in (1, 100, 4000, 100_000):
        wanted = 512**-0.5 * min(step**-0.5, step * 4000**-1.5)
        assert rate_at("noam", step - 1, peak=peak, floor=0.0, warmup=4000, total=1) == pytest.approx(wanted)
    assert rate_at("noam", 10**9, **c) == 0.1
    trainer = make_trainer(schedule="linear", warmup_steps=0, steps=10)
    assert trainer.learning_rate(6) == pytest.approx(0.55e-3)


# --- decay by part ----------------------------------------------------------------------------------------------------


def test_parts_decay_as_they_are_told_to() -> None:
    model = GPT(GPTConfig(9, 6, 2, 2, 8, bias=True, tied=False))
    groups = parameter_groups(model, 0.1, {"embedding": 0.2, "blocks": 0.3, "blocks.1.attention": 0.5})
    decay = {id(p): g["weight_decay"] for g in groups for p in g["params"]}
    named = dict(model.named_parameters())
    assert len(decay) == len(named)
    for name, p in named.items():
        own = [d for part, d in (("embedding", 0.2), ("blocks", 0.3), ("blocks.1.attention", 0.5)) if part in name]
        assert decay[id(p)] == (own[-1] if own else 0.1 if p.dim() >= 2 else 0.0), name
    deep = nn.Sequential(*(nn.Linear(1, 1, bias=False) for _ in range(12)))
    assert [len(g["params"]) for g in parameter_groups(deep, 0.1, {"1": 0.0})] == [11, 1]  # not 10 and 11
    tied = GPT(GPTConfig(9, 6, 1, 2, 8))
    assert sum(len(g["params"]) for g in parameter_groups(tied, 0.1, {"token_embedding": 0.0})) == len(
        list(tied.parameters())
    )
    with pytest.raises(
        InputError, match=r"no parameter has a part named 'atention'; there are attention, bias, blocks"
    ):
        parameter_groups(model, 0.1, {"atention": 0.0})
    trainer = make_trainer(decay_of="token_embedding=0,blocks=0.25")
    decay = {id(p): g["weight_decay"] for g in trainer.optimizer.param_groups for p in g["params"]}
    assert decay[id(trainer.model.token_embedding.weight)] == 0.0
    assert decay[id(trainer.model.blocks[0].norm1.weight)] == 0.25


@pytest.mark.parametrize("text", ["embedding", "embedding=", "=1", "a=-1", "a=x", "", "a=1,,b=2", "a=inf", "a=nan"])
def test_unreadable_decays_are_told(text: str) -> None:
    with pytest.raises(InputError, match="--decay-of must be parts and their decay, as embedding=0"):
        parse_decays(text)


# --- early stopping ---------------------------------------------------------------------------------------------------


def test_patience_counts_evaluations_without_progress_and_the_best_weights_come_back() -> None:
    model = nn.Linear(1, 1, bias=False)
    stopping = EarlyStopping(patience=2, min_delta=0.1)
    answers = []
    for i, loss in enumerate([1.0, 0.95, 0.7, math.nan, 0.65, 0.4]):
        with tg.no_grad():
            model.weight.fill_(float(i))
        answers.append(stopping.step(loss, model))
    assert answers == [False, False, False, False, True, False]  # 0.65 is lower, but not by 0.1
    assert stopping.best == 0.4
    with tg.no_grad():
        model.weight.fill_(99.0)  # what was kept is a copy
    stopping.restore(model)
    assert model.weight.item() == 5.0
    again = EarlyStopping(patience=2, min_delta=0.1)
    again.load_state(stopping.state())
    assert (again.best, again.reference, again.waited) == (stopping.best, stopping.reference, stopping.waited)
    for settings in ({"patience": 0}, {"patience": 1, "min_delta": -1.0}):
        with pytest.raises(InputError, match="must be at least"):
            EarlyStopping(**settings)  # type: ignore[arg-type]


def worse_and_worse(trainer: Any, from_evaluation: int) -> None:
    """Validation losses that fall, and rise from then on."""
    real, count = trainer.evaluate, iter(range(10**6))
    found: dict[int, float] = {}

    def evaluate(windows: int = 0) -> float:
        if not windows:
            return real(windows)
        i = next(count)
        found[i] = 3.0 - 0.1 * i if i < from_evaluation else 5.0
        return found[i]

    trainer.evaluate = evaluate


def test_a_run_stops_early_with_its_best_weights_also_when_it_was_resumed(tmp_path: Any) -> None:
    settings: dict[str, Any] = {"steps": 40, "eval_interval": 2, "patience": 3, "eval_batches": 1}
    trainer = make_trainer(**settings)
    worse_and_worse(trainer, 4)
    best: dict[str, np.ndarray] = {}
    records = []
    for record in trainer.train():
        records.append(record)
        if record.step == 8:
            best = weights(trainer)
    assert [r.step for r in records] == list(range(1, 15)) and trainer.best_step == 8
    assert [bool(r.stopped_early) for r in records] == [False] * 13 + [True]
    assert records[-1].full_validation_loss is not None and same(weights(trainer), best)

    first = make_trainer(**settings)
    worse_and_worse(first, 4)
    run = make_run(tmp_path / "run", first)
    follow = run.follow(first)
    for _ in range(11):
        next(follow)
    run.save(first)
    follow.close()
    second = make_trainer(**settings)
    Run.open(run.folder).load(second)
    worse_and_worse(second, 0)
    assert [r.step for r in run.follow(second)] == [12, 13, 14]
    assert same(weights(second), best)
    run.save(second)
    third = make_trainer(**settings)
    run.load(third)
    assert third.stopped and list(third.train()) == []


# --- one batch by heart -----------------------------------------------------------------------------------------------


def test_the_lowest_loss_is_the_entropy_of_what_follows_equal_beginnings() -> None:
    inputs, targets = np.array([[1, 2], [1, 2], [1, 3]]), np.array([[2, 5], [2, 6], [3, 5]])
    first = -(2 * math.log(2 / 3) + math.log(1 / 3))  # behind 1 come 2, 2 and 3
    second = 2 * math.log(2)  # behind 1 2 come 5 and 6
    assert lowest_loss(inputs, targets) == pytest.approx((first + second) / 6)
    assert lowest_loss(inputs[:1], targets[:1]) == 0.0
    assert lowest_loss(np.array([[1, 2], [3, 2]]), np.array([[2, 5], [2, 6]])) == 0.0  # it is the whole beginning


def test_a_model_that_works_learns_one_batch_and_has_its_own_weights_again() -> None:
    trainer = make_trainer(channels=16, dropout=0.3)
    before = weights(trainer)
    batch = trainer.next_windows()
    found = overfit_one_batch(trainer.model, lambda: trainer.loss(batch), learning_rate=1e-2, floor=lowest_loss(*batch))
    assert found.passed and not found.advice and found.losses[-1] < found.floor + 0.05 < found.losses[0]
    assert str(found).startswith("learned by heart: loss 2.") and not found.without_gradient
    assert same(weights(trainer), before) and trainer.model.training


def broken(fault: str) -> Any:
    """A loss of a small network with a fault."""
    tg.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3))
    x, y = tg.randn(12, 4), tg.randint(0, 3, (12,))

    def loss() -> tg.Tensor:
        h = model[1](model[0](x if fault != "blind" else x * 0.0))
        if fault == "detached":
            h = h.detach()
        value = F.cross_entropy(model[2](h), y)
        return value * math.nan if fault == "nan" else value

    return model, loss


@pytest.mark.parametrize(
    "fault, settings, advice",
    [
        ("detached", {}, "no gradient reaches 0.weight, 0.bias: look for a detach"),
        ("blind", {}, "no gradient reaches 0.weight: look for"),
        ("nan", {}, "the loss is not finite before the first step"),
        ("", {"learning_rate": 1e-7}, "it hardly moves: try a higher learning rate than 1e-07"),
        ("", {"learning_rate": 1e4}, "it diverges: lower the learning rate"),
        ("", {"learning_rate": 1e-3, "steps": 150}, "it still falls: give it more than 150 steps"),
    ],
)
def test_a_model_that_does_not_learn_is_told_where_to_look(fault: str, settings: dict[str, Any], advice: str) -> None:
    model, loss = broken(fault)
    found = overfit_one_batch(model, loss, **settings)
    assert not found.passed and advice in found.advice and "not learned: loss" in str(found)
    assert all(np.isfinite(p.detach().numpy()).all() for p in model.parameters())
    with pytest.raises(InputError, match="steps must be at least 1"):
        overfit_one_batch(model, loss, steps=0)


# --- settings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"schedule": "sine"}, "--schedule must be one of cosine, noam, linear, constant; got 'sine'"),
        ({"precision": "int8"}, "--precision must be one of float32, bfloat16, float16; got 'int8'"),
        ({"precision": 16}, "--precision must be text, got 16"),
        ({"micro_batch": 0}, "--micro-batch must be at least 1, got 0"),
        ({"label_smoothing": 1.0}, "--label-smoothing must be below 1, got 1"),
        ({"patience": 0}, "--patience must be at least 1, got 0"),
        ({"min_delta": 0.1}, "--min-delta is about --patience: give that, too"),
        ({"decay_of": "norm"}, "--decay-of must be parts and their decay"),
    ],
)
def test_unusable_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as error:
        TrainConfig(**settings)
    assert message in str(error.value)


def test_configurations_of_older_versions_are_read() -> None:
    saved = TINY.as_dict()
    newer = (
        "micro_batch",
        "schedule",
        "decay_of",
        "label_smoothing",
        "precision",
        "matmul_precision",
        "recompute",
        "patience",
    )
    for name in newer:
        del saved[name]
    assert TrainConfig.from_dict(saved) == TINY
    del saved["layers"]
    with pytest.raises(InputError, match="missing setting layers"):
        TrainConfig.from_dict(saved)
    assert dataclasses.replace(TINY, patience=2).patience == 2
