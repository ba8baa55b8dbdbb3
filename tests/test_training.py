"""The training loop, run folders and calibration, on models that are as small as they get."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import os
import shutil

import numpy as np
import pytest

from tinygrad_tf import nn, tensor
from tinygrad_tf.generation import generate
from tinygrad_tf.nn.utils import get_total_norm
from tinygrad_tf.training import Run, TrainConfig, Trainer, TrainingError
from tinygrad_tf.training.calibrate import Calibration, calibrate, expected_seconds, sizes_to_try, steps_for
from tinygrad_tf.training.picture import block_means, draw_loss
from tinygrad_tf.utils.data import CharTokenizer
from tinygrad_tf.utils.errors import InputError

TINY = TrainConfig(layers=1, heads=2, channels=8, context=8, batch=2, steps=6, eval_interval=2, dropout=0.1)
TEXT = "the cat sat on the mat.\n" * 20


def make_trainer(config=TINY, **changes):
    tokenizer = CharTokenizer(TEXT)
    return Trainer(dataclasses.replace(config, **changes), tokenizer.encode(TEXT), len(tokenizer))


def make_run(folder, trainer):
    tokenizer = CharTokenizer(TEXT)
    text = {"source": "test", "files": 1, "characters": len(TEXT)}
    return Run.create(folder, trainer.config, tokenizer, tokenizer.encode(TEXT), text)


def losses(trainer, steps=None):
    records = trainer.train()
    return [next(records).loss for _ in range(steps)] if steps else [record.loss for record in records]


def weights(trainer):
    return {name: p.array.copy() for name, p in trainer.model.named_parameters()}


def same(a, b):
    return a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)


# --- configuration ----------------------------------------------------------------------------------------------------


def test_defaults_are_nanogpts_small_configuration():
    c = TrainConfig()
    assert (c.layers, c.heads, c.channels, c.context, c.batch, c.steps) == (4, 4, 128, 64, 12, 2000)
    assert (c.learning_rate, c.floor, c.warmup, c.decay) == (1e-3, 1e-4, 100, 2000)
    assert (c.beta1, c.beta2, c.weight_decay, c.gradient_clip) == (0.9, 0.99, 0.1, 1.0)
    assert c.dropout == 0.0 and c.bias is False and c.validation_fraction == 0.1
    assert all(field.metadata["help"] for field in dataclasses.fields(c))
    assert TrainConfig.from_dict(json.loads(json.dumps(c.as_dict()))) == c


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"layers": 0}, "--layers must be at least 1, got 0"),
        ({"context": 0}, "--context must be at least 1, got 0"),
        ({"layers": 2.0}, "--layers must be a whole number, got 2.0"),
        ({"batch": True}, "--batch must be a whole number"),
        ({"steps": 2**63}, "--steps must be below"),
        ({"learning_rate": math.nan}, "--learning-rate must be"),
        ({"learning_rate": math.inf}, "--learning-rate must be finite"),
        ({"learning_rate": "fast"}, "--learning-rate must be a number"),
        ({"dropout": 1.0}, "--dropout must be below 1"),
        ({"dropout": math.nan}, "--dropout must be a number, got nan"),
        ({"dropout": -0.1}, "--dropout must be at least 0"),
        ({"bias": 1}, "--bias must be true or false"),
        ({"heads": 3}, "--channels 128 cannot be divided among --heads 3"),
        ({"min_learning_rate": 0.1}, "--min-learning-rate 0.1 is above --learning-rate 0.001"),
        ({"validation_fraction": 0.0}, "--validation-fraction must lie between 0 and 1"),
        ({"validation_fraction": 1.0}, "--validation-fraction must lie between 0 and 1, got 1"),
    ],
)
def test_unusable_settings(settings, message):
    with pytest.raises(InputError) as error:
        TrainConfig(**settings)
    assert message in str(error.value)


def test_the_least_of_each_is_allowed():
    least = dict.fromkeys(("layers", "heads", "channels", "context", "batch", "steps"), 1)
    assert TrainConfig(**least).as_dict().items() >= least.items()


def test_whole_numbers_are_numbers_too():
    assert TrainConfig(dropout=0).dropout == 0.0 and isinstance(TrainConfig(dropout=0).dropout, float)


# --- the loop ---------------------------------------------------------------------------------------------------------


def test_learning_rate_at_its_borders():
    trainer = make_trainer(learning_rate=6e-4, warmup_steps=2000, steps=5000)
    rate = trainer.learning_rate
    assert rate(1) == pytest.approx(2.998501e-07, rel=1e-6)
    assert rate(2001) == pytest.approx(6e-4) and rate(5001) == rate(9000) == pytest.approx(6e-5)
    rates = [rate(step) for step in range(1, 5003)]
    assert max(abs(a - b) for a, b in itertools.pairwise(rates)) < 1e-6
    only_warmup = make_trainer(learning_rate=6e-4, warmup_steps=100, steps=100)
    assert only_warmup.learning_rate(101) == 6e-4 and only_warmup.learning_rate(1000) == pytest.approx(6e-5)
    assert make_trainer(warmup_steps=0).learning_rate(1) == 1e-3


def test_records_and_evaluations():
    records = list(make_trainer(steps=5).train())
    assert [r.step for r in records] == [1, 2, 3, 4, 5]
    assert [r.validation_loss is not None for r in records] == [False, True, False, True, True]
    assert [r.full_validation_loss is not None for r in records] == [False] * 4 + [True]
    assert all(r.gradient_norm > 0 and r.tokens_per_second > 0 for r in records)
    assert [r.seconds for r in records] == sorted(r.seconds for r in records)
    assert "validation_loss" not in records[0].as_dict() and records[0].as_dict()["learning_rate"] == 1e-3


def test_it_learns():
    trainer = make_trainer(channels=16, steps=150, batch=8, dropout=0.0, learning_rate=0.02, eval_interval=1000)
    records = list(trainer.train())
    assert records[0].loss > 2.2 and records[-1].full_validation_loss < 0.6


def test_matrices_decay_and_vectors_do_not():
    trainer = make_trainer(weight_decay=0.3, bias=True)
    decay = {id(p): group["weight_decay"] for group in trainer.optimizer.param_groups for p in group["params"]}
    named = dict(trainer.model.named_parameters())
    assert len(decay) == len(named)
    assert all(decay[id(p)] == (0.3 if p.dim() >= 2 else 0.0) for p in named.values())
    assert any(p.dim() < 2 for p in named.values())


def test_gradients_are_clipped_together():
    trainer = make_trainer(gradient_clip=0.01)
    _, norm = trainer._gradients(1)
    clipped = get_total_norm(p.grad for p in trainer.model.parameters()).item()
    assert norm > 0.02 and clipped == pytest.approx(0.01, rel=1e-3)
    trainer = make_trainer(gradient_clip=0.0)  # no clipping
    _, norm = trainer._gradients(1)
    assert get_total_norm(p.grad for p in trainer.model.parameters()).item() == pytest.approx(norm)


def test_evaluation_is_the_mean_over_every_target():
    trainer = make_trainer(validation_fraction=0.11, batch=3)  # 52 tokens: six windows of 8, and 3 targets more
    tokens = trainer.validation_tokens
    assert (len(tokens) - 1) % 8
    trainer.model.eval()
    total = 0.0
    for first in range(0, len(tokens) - 1, 8):
        ids = tokens[first : first + 9]
        logits = trainer.model(tensor(ids[None, :-1])).detach().numpy()[0].astype(np.float64)
        shares = np.exp(logits - logits.max(1, keepdims=True))
        shares /= shares.sum(1, keepdims=True)
        total -= np.log(shares[np.arange(len(ids) - 1), ids[1:]]).sum()
    assert trainer.evaluate() == pytest.approx(total / (len(tokens) - 1), rel=1e-5)


def test_evaluating_calibrating_and_sampling_change_nothing():
    expected = losses(make_trainer(eval_interval=100))
    watched = make_trainer(eval_interval=1)
    calibrate(watched, patience=0.0)
    found = []
    for record in watched.train():
        found.append(record.loss)
        list(generate(watched.model, [1, 2], 3))
    assert found == expected and watched.model.training


def test_two_runs_of_one_seed_are_equal_and_of_two_seeds_are_not():
    assert losses(make_trainer()) == losses(make_trainer()) != losses(make_trainer(seed=1))


def test_a_short_text_is_refused_before_training():
    with pytest.raises(InputError, match="validation split has 48 characters of 480, needs at least 65"):
        make_trainer(context=64)


class Table(nn.Module):
    """Logits are a row of a table; `bad` adds nothing but, at 0, a gradient of NaN."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(20, 20)
        self.bad = nn.Parameter(tensor([1.0, 0.0]))

    def forward(self, ids):
        return self.table(ids) + self.bad.sqrt().sum() * 0.0


def test_a_loss_that_is_not_finite_stops_the_run(tmp_path):
    trainer = make_trainer()
    run = make_run(tmp_path / "run", trainer)
    records = run.follow(trainer)
    for _ in range(3):
        next(records)
    name, parameter = next((n, p) for n, p in trainer.model.named_parameters() if p.dim() == 1)
    parameter.array[0] = math.inf
    with pytest.raises(TrainingError, match=rf"step 4: the loss is nan because the parameter {name} is not finite"):
        next(records)
    with pytest.raises(TrainingError, match=name):
        run.save(trainer)
    fresh = make_trainer()
    run.load(fresh)
    assert fresh.step == 2 and all(np.isfinite(w).all() for w in weights(fresh).values())
    assert [r["step"] for r in run.metrics()] == [1, 2, 3]


@pytest.mark.parametrize("reason", [OSError(28, "No space left on device"), KeyboardInterrupt()], ids=repr)
def test_a_run_folder_is_whole_or_not_there(tmp_path, monkeypatch, reason):
    def fail(*_):
        raise reason

    (tmp_path / "empty").mkdir()
    for name in ("new", "empty"):
        with monkeypatch.context() as patch:
            patch.setattr(Run, "write_config", fail)
            with pytest.raises((InputError, KeyboardInterrupt)):
                make_run(tmp_path / name, make_trainer())
        assert (tmp_path / name).exists() == (name == "empty") and not list((tmp_path / name).glob("*"))
        make_run(tmp_path / name, make_trainer())


def test_of_two_processes_one_gets_the_folder(tmp_path, monkeypatch):
    monkeypatch.setattr("tinygrad_tf.training.checkpoint.check_free", lambda folder: None)  # both have found it free
    run = make_run(tmp_path / "run", make_trainer())
    with pytest.raises(InputError, match="run: another run has just begun there; choose another --out"):
        make_run(tmp_path / "run", make_trainer())
    assert Run.open(run.folder).config == run.config


@pytest.mark.parametrize("part", ["_gradients", "_evaluations"])
def test_a_step_that_is_broken_off_has_not_been(part, monkeypatch):
    """Weights, moments and random numbers are as before, and the step gives the same when it is done again."""
    settings = {"eval_interval": 2, "dropout": 0.3, "patience": 2}
    other = make_trainer(**settings)
    whole = [other.train_step() for _ in range(3)]
    trainer = make_trainer(**settings)
    trainer.train_step()
    real = getattr(trainer, part)

    def interrupted(*arguments):
        real(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(trainer, part, interrupted)
        with pytest.raises(KeyboardInterrupt):
            trainer.train_step()
    assert trainer.step == 1 and trainer.best_step == 0 and not trainer.stopped
    for wanted in whole[1:]:
        got = trainer.train_step()
        assert (got.loss, got.gradient_norm, got.validation_loss) == (
            wanted.loss,
            wanted.gradient_norm,
            wanted.validation_loss,
        )
    assert same(weights(trainer), weights(other))


def test_an_evaluation_tells_how_far_it_is():
    trainer, told = make_trainer(context=4, batch=2), []
    trainer.evaluated = lambda done, total: told.append((done, total))
    trainer.evaluate(3)
    assert told == [(12, 12)]
    trainer.evaluate()
    assert told[-1][0] == told[-1][1] == len(trainer.validation_tokens) - 1


def test_a_gradient_that_is_not_finite_is_named_and_not_applied():
    trainer = Trainer(TINY, np.arange(400) % 20, 20, Table())
    before = weights(trainer)
    with pytest.raises(TrainingError, match="step 1: the gradient of bad is not finite"):
        next(trainer.train())
    assert same(weights(trainer), before) and trainer.step == 0


# --- run folders ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stop", [1, 2, 3])
def test_a_resumed_run_is_the_same_bit_for_bit(tmp_path, stop):
    whole = make_trainer()
    expected = [record.as_dict() for record in whole.train()]

    first = make_trainer()
    run = make_run(tmp_path / "run", first)
    records = run.follow(first)
    for _ in range(stop):
        next(records)
    run.save(first)
    records.close()

    again = Run.open(tmp_path / "run")
    second = Trainer(again.config, again.tokens(), len(again.tokenizer))
    again.load(second)
    for _ in again.follow(second):
        pass
    timed = {"seconds", "tokens_per_second", "format"}
    found = [{k: v for k, v in record.items() if k not in timed} for record in again.metrics()]
    assert found == [{k: v for k, v in record.items() if k not in timed} for record in expected]
    assert same(weights(second), weights(whole))
    assert (second.best_step, second.best_validation_loss) == (whole.best_step, whole.best_validation_loss)
    assert second.seconds > first.seconds


def test_steps_after_the_checkpoint_are_done_again_and_told_once(tmp_path):
    trainer = make_trainer(eval_interval=100)
    run = make_run(tmp_path / "run", trainer)
    records = run.follow(trainer)
    for _ in range(4):
        next(records)  # no checkpoint but the first, at step 0
    with open(run.folder / "metrics.jsonl", "a") as file:
        file.write('{"format": 1, "step": 5, "lo')  # cut off by a crash
    (run.folder / ".loss.png.x.part").touch()
    second = make_trainer(eval_interval=100)
    run.load(second)
    assert second.step == 0
    for _ in run.follow(second):
        pass
    assert [r["step"] for r in run.metrics()] == [1, 2, 3, 4, 5, 6] and not list(run.folder.glob(".*.part"))
    assert all(json.loads(line)["format"] == 1 for line in (run.folder / "metrics.jsonl").read_text().splitlines())


def test_best_and_latest_weights(tmp_path):
    trainer = make_trainer()
    run = make_run(tmp_path / "run", trainer)
    run.save(trainer)
    best = weights(trainer)
    trainer.step, trainer.best_step, trainer.best_validation_loss = 2, 2, 1.0
    run.save(trainer)
    for step in (3, 4, 5):
        trainer.step = step
        next(trainer.model.parameters()).array[...] += 1
        run.save(trainer)
    assert run.weights("best")[0] == 2 and run.weights()[0] == 5
    assert same({k: v for k, v in run.weights("best")[1].items() if k in best}, best)
    assert not np.array_equal(run.weights()[1]["token_embedding.weight"], best["token_embedding.weight"])
    assert len(list((run.folder / "checkpoints").iterdir())) == 3  # best, latest, and the one before


def test_a_crash_at_any_point_of_saving_leaves_a_whole_checkpoint(tmp_path, monkeypatch):
    trainer = make_trainer()
    run = make_run(tmp_path / "run", trainer)
    run.save(trainer)
    next(trainer.train())
    after_one = weights(trainer)
    names = ("replace", "rename", "fsync", "open", "unlink", "chmod", "mkdir")
    real = {name: getattr(os, name) for name in names}
    crashes, countdown = 0, 0

    class Crash(BaseException):
        pass

    def crashing(name):
        def call(*args, **kwargs):
            nonlocal countdown
            countdown -= 1
            if countdown < 0:  # from now on nothing reaches the disk, as if the process were dead
                raise Crash
            return real[name](*args, **kwargs)

        return call

    for limit in range(200):
        copy = tmp_path / f"copy{limit}"
        shutil.copytree(run.folder, copy)
        opened = Run.open(copy)
        countdown = limit
        with monkeypatch.context() as patch:
            for name in names:
                patch.setattr(os, name, crashing(name))
            try:
                opened.save(trainer)
            except Crash:
                crashes += 1
            crashed = countdown < 0
        fresh = make_trainer()
        Run.open(copy).load(fresh)
        assert fresh.step in (0, 1) and (fresh.step == 0 or same(weights(fresh), after_one))
        next(fresh.train())
        assert same(weights(fresh), after_one) or fresh.step == 2
        Run.open(copy).save(fresh)  # leftovers are no obstacle
        if not crashed:
            break
    assert crashes > 10 and not crashed


def test_broken_run_folders_are_refused(tmp_path):
    trainer = make_trainer()
    run = make_run(tmp_path / "run", trainer)
    run.save(trainer)
    files = [path.relative_to(run.folder) for path in run.folder.rglob("*") if path.is_file()]
    assert {path.name for path in files} == {
        "config.json",
        "tokenizer.json",
        "tokens.npy",
        "checkpoint.json",
        "weights.safetensors",
        "optimizer.safetensors",
        "state.json",
    }

    def load(folder):
        opened = Run.open(folder)
        fresh = Trainer(opened.config, opened.tokens(), len(opened.tokenizer))
        opened.load(fresh)

    load(run.folder)
    for file in files:
        for damage in ("missing", "empty", "half", "other format"):
            copy = tmp_path / "copy"
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(run.folder, copy)
            content = (copy / file).read_bytes()
            if damage == "missing":
                (copy / file).unlink()
            elif damage == "other format":
                changed = content.replace(b'"format": 1', b'"format": 9').replace(b'"format":"1"', b'"format":"9"')
                (copy / file).write_bytes(changed)
                if changed == content:  # tokens.npy has NumPy's own format
                    continue
            else:
                (copy / file).write_bytes(content[: len(content) // 2] if damage == "half" else b"")
            with pytest.raises(InputError) as error:
                load(copy)
            assert "copy" in str(error.value) and "\n" not in str(error.value), (file, damage)
            if damage == "missing" and file.name == "tokens.npy":
                assert "start a new run" in str(error.value)
            if damage == "other format":
                assert "9" in str(error.value)


def test_files_of_different_steps_are_not_mixed(tmp_path):
    trainer = make_trainer()
    run = make_run(tmp_path / "run", trainer)
    run.save(trainer)
    next(trainer.train())
    run.save(trainer)
    folder = run.folder / "checkpoints"
    shutil.copy(folder / "step-00000000" / "weights.safetensors", folder / "step-00000001" / "weights.safetensors")
    with pytest.raises(InputError, match=r"is of step 0, but state\.json of step 1"):
        run.load(make_trainer())
    other = make_trainer(channels=4)
    run.folder.joinpath("checkpoint.json").write_text('{"format": 1, "latest": "step-00000000", "best": "../x"}')
    with pytest.raises(InputError, match=r"does not fit the run's configuration \(was config.json edited\?"):
        run.load(other)
    with pytest.raises(InputError, match="names no best checkpoint"):
        run.weights("best")


def test_foreign_folders(tmp_path):
    with pytest.raises(InputError, match="no such run folder"):
        Run.open(tmp_path / "none")
    with pytest.raises(InputError, match="is not a run folder"):
        Run.open(tmp_path)
    (tmp_path / "config.json").write_text('{"layers": 3}')
    with pytest.raises(InputError, match="was not written by tinygrad-tf"):
        Run.open(tmp_path)
    with pytest.raises(InputError, match="exists and is not empty"):
        make_run(tmp_path, make_trainer())
    assert (tmp_path / "config.json").read_text() == '{"layers": 3}'


def test_one_process_at_a_time(tmp_path):
    pytest.importorskip("fcntl")
    run = make_run(tmp_path / "run", make_trainer())
    with run.lock(), pytest.raises(InputError, match="another process"), run.lock():
        pass
    with run.lock():
        pass


# --- calibration ------------------------------------------------------------------------------------------------------


def test_steps_for_is_the_most_that_fits():
    trainer, measured = make_trainer(eval_interval=50), Calibration(step=0.01, evaluation=0.001)
    for seconds in (5.0, 20.0, 100.0):
        steps = steps_for(trainer, measured, seconds)
        assert expected_seconds(trainer, measured, steps) <= seconds
        assert expected_seconds(trainer, measured, steps + 1) > seconds
    assert steps_for(trainer, measured, -3.0) == 1
    assert expected_seconds(trainer, measured) == expected_seconds(trainer, measured, 6)


def test_more_time_gives_larger_models():
    config, measured = TrainConfig(), Calibration(step=0.01, evaluation=0.003)
    largest = [max(c.channels for c in sizes_to_try(minutes * 60, measured, config)) for minutes in (1, 10, 600)]
    assert largest == sorted(largest) and largest[0] < largest[-1]
    assert sizes_to_try(0.1, measured, config) == []


def test_calibration_measures_and_leaves_no_trace():
    trainer = make_trainer(learning_rate=1e30)  # would diverge at once
    before = weights(trainer)
    measured = calibrate(trainer, patience=0.01)
    assert 0 < measured.step < 5 and 0 < measured.evaluation < 5
    assert same(weights(trainer), before) and not trainer.optimizer.state and trainer.step == 0


# --- the picture ------------------------------------------------------------------------------------------------------


def test_loss_picture(tmp_path):
    records = [
        {"step": i, "loss": 3.0 / i, **({"validation_loss": 3.1 / i} if i % 50 == 0 else {})} for i in range(1, 301)
    ]
    for name, some in (("many", records), ("one", records[:1]), ("none", [])):
        draw_loss(tmp_path / f"{name}.png", some, name)
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG\r\n")
    steps, means = block_means(np.arange(1.0, 5001.0), np.arange(1.0, 5001.0))
    assert len(means) == 200 and np.array_equal(steps, means) and means[0] == 13.0


def test_a_long_run_has_its_legend_where_it_always_is(tmp_path, monkeypatch):
    """To search for the best place takes so long among many steps that matplotlib warns of it."""
    monkeypatch.setattr("matplotlib.legend.Legend._find_best_position", lambda *_, **__: pytest.fail("searched"))
    draw_loss(tmp_path / "loss.png", [{"step": 1, "loss": 2.0}, {"step": 2, "loss": 1.0}], "run")


@pytest.mark.filterwarnings("error")
def test_the_title_of_a_loss_picture_may_have_letters_that_the_font_lacks(tmp_path):
    draw_loss(tmp_path / "loss.png", [{"step": 1, "loss": 2.0}], "\u8ba4")
    assert (tmp_path / "loss.png").read_bytes().startswith(b"\x89PNG")
