"""`tinygrad-tf train`: a new run, a resumed one, or a try-out."""

from __future__ import annotations

import dataclasses
import datetime
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tinygrad_tf.cli.display import PlainDisplay, describe, duration, make_display, one_line
from tinygrad_tf.cli.session import go, sample_text
from tinygrad_tf.training.calibrate import (
    ENOUGH_STEPS,
    MARGIN,
    SIZE,
    Calibration,
    calibrate,
    expected_seconds,
    sizes_to_try,
    steps_for,
)
from tinygrad_tf.training.checkpoint import Run, check_free, new_folder
from tinygrad_tf.training.config import TrainConfig, flag
from tinygrad_tf.training.trainer import Trainer, build_model
from tinygrad_tf.utils.data import CharTokenizer, Text, read_texts, split_tokens, standard_library_text, token_dtype
from tinygrad_tf.utils.data.tokens import Tokens
from tinygrad_tf.utils.errors import InputError

STARTED = time.monotonic()


@dataclass(frozen=True)
class Request:
    """What the command line asks for."""

    files: tuple[str, ...]
    settings: dict[str, Any]  # of TrainConfig, those that were named
    out: str | None
    resume: str | None
    minutes: float | None
    dry_run: bool
    encoding: str


@dataclass(frozen=True)
class Data:
    """A text as tokens."""

    tokens: Tokens
    tokenizer: CharTokenizer
    text: dict[str, Any]


def train(request: Request) -> int:
    """Do what is asked; gives the exit code."""
    _check(request)
    display = make_display()
    if request.resume is not None:
        return _resume(request, display)
    config = TrainConfig(**request.settings)
    if request.out is not None:
        check_free(Path(request.out))
    data = _read(request)
    split_tokens(data.tokens, config.context, config.validation_fraction)
    _describe_text(display, data, config)
    return _try_out(config, data, display) if request.dry_run else _new(request, config, data, display)


def _check(request: Request) -> None:
    """Options that contradict each other."""
    for one, other in (("minutes", "dry_run"), ("resume", "dry_run"), ("resume", "out")):
        if getattr(request, one) is not None and getattr(request, other) not in (None, False):
            raise InputError(f"{flag(one)} and {flag(other)} cannot be combined")
    if request.minutes is not None and "steps" in request.settings:
        raise InputError("--minutes and --steps cannot be combined: --minutes chooses the steps")
    if request.minutes == 0:
        raise InputError("--minutes must be above 0")


def _read(request: Request) -> Data:
    text = read_texts(request.files, request.encoding) if request.files else standard_library_text()
    return _data(text)


def _data(text: Text) -> Data:
    tokenizer = CharTokenizer(text.content)
    tokens = tokenizer.encode(text.content).astype(token_dtype(len(tokenizer)))
    return Data(tokens, tokenizer, {"source": text.source, "files": text.files, "characters": text.characters})


# --- the three ways ---------------------------------------------------------------------------------------------------


def _new(request: Request, config: TrainConfig, data: Data, display: PlainDisplay) -> int:
    with _compiling(display):
        if request.minutes is None:
            trainer = Trainer(config, data.tokens, len(data.tokenizer))
            measured = calibrate(trainer)
        else:
            trainer, measured = _fitting(config, data, request)
    _describe_run(display, trainer, measured)
    stamp = datetime.datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
    folder = Path(request.out) if request.out is not None else new_folder(Path("runs"), stamp)
    run = Run.create(folder, trainer.config, data.tokenizer, data.tokens, data.text)
    display.message(describe("run folder", folder))
    trainer.use_tokens(run.tokens())
    with run.lock():
        return go(run, trainer, display)


def _resume(request: Request, display: PlainDisplay) -> int:
    run = Run.open(request.resume or "")
    with run.lock():
        config, changes = _merged(run, request)
        trainer = Trainer(config, run.tokens(), len(run.tokenizer))
        run.load(trainer)
        display.message(describe("run folder", f"{run.folder}, at step {trainer.step:,}"))
        for change in changes:
            display.message(describe("changed", change))
        _describe_text(display, Data(run.tokens(), run.tokenizer, run.text), config)
        if request.minutes is None and config.steps <= trainer.step:
            if config.steps < trainer.step:
                raise InputError(
                    f"--steps {config.steps} is less than the {trainer.step} steps that {run.folder} has done"
                )
            display.message(f"all {trainer.step:,} steps are done; to train on, give more: --steps {2 * trainer.step}")
            return 0
        with _compiling(display):
            measured = calibrate(trainer)
        if request.minutes is not None:
            steps = trainer.step + steps_for(trainer, measured, _seconds_left(request))
            trainer.config = dataclasses.replace(config, steps=steps)
            display.message(describe("changed", f"steps {config.steps} -> {steps}"))
        _describe_run(display, trainer, measured)
        run.config = trainer.config
        run.write_config()
        return go(run, trainer, display)


def _merged(run: Run, request: Request) -> tuple[TrainConfig, list[str]]:
    """The run's configuration with what the command line changes, and the changes in words."""
    fixed = {f.name for f in dataclasses.fields(TrainConfig) if f.metadata["fixed"]}
    changes: list[str] = []
    for name, value in request.settings.items():
        before = getattr(run.config, name)
        if value != before and name in fixed:
            raise InputError(
                f"{flag(name)} {value} contradicts {run.folder}, which was begun with {before}; "
                f"leave it out, or start a new run"
            )
        if value != before:
            changes.append(f"{name.replace('_', ' ')} {before} -> {value}")
    config = dataclasses.replace(run.config, **request.settings)
    if request.files and not _same_text(_read(request), run):
        given, had = ", ".join(request.files), run.text.get("source")
        raise InputError(
            f"{given} is not the text that {run.folder} was begun with ({had}); leave it out, or start a new run"
        )
    return config, changes


def _same_text(data: Data, run: Run) -> bool:
    return data.tokenizer == run.tokenizer and np.array_equal(data.tokens, run.tokens())


def _try_out(config: TrainConfig, data: Data, display: PlainDisplay) -> int:
    """Every stage once, as small as it gets, in a folder that is thrown away."""
    import tempfile

    from tinygrad_tf.training.picture import draw_loss

    count = parameter_count(build_model(config, len(data.tokenizer)))
    display.message(describe("model", f"{_shape(config)}: {count:,} parameters"))
    small = dataclasses.replace(
        config, batch=1, context=min(config.context, 10), steps=1, eval_batches=1, decay_steps=1
    )
    share = min(config.validation_fraction, 1 - config.validation_fraction)
    tokens = data.tokens[: math.ceil(3 * (small.context + 1) / share)]
    watch = Stopwatch(display)
    with tempfile.TemporaryDirectory(prefix="tinygrad-tf-") as folder, _compiling(display):
        trainer = Trainer(small, tokens, len(data.tokenizer))
        run = Run.create(Path(folder) / "run", small, data.tokenizer, tokens, data.text)
        for record in run.follow(trainer):
            watch.done(f"one training step: loss {record.loss:.3f}")
            watch.done(f"one evaluation: loss {record.validation_loss:.3f}")
        run.load(Trainer(small, tokens, len(data.tokenizer)))
        watch.done("checkpoint written and read")
        watch.done(f"sample: {one_line(sample_text(trainer, data.tokenizer, 10))!r}")
        draw_loss(run.folder / "loss.png", run.metrics(), "dry run")
        watch.done("loss curve drawn")
    display.message("everything works; nothing was kept")
    return 0


class Stopwatch:
    """Tells what is done and how long it took."""

    def __init__(self, display: PlainDisplay):
        self.display, self.last = display, time.perf_counter()

    def done(self, what: str) -> None:
        now = time.perf_counter()
        self.display.message(f"{now - self.last:6.2f} s  {what}")
        self.last = now


# --- before the first step --------------------------------------------------------------------------------------------


@contextmanager
def _compiling(display: PlainDisplay) -> Iterator[None]:
    """Say that kernels are being compiled, if they are, and afterwards how long it took."""
    from tinygrad_tf.kernels import _compile

    _compile.on_compile(
        lambda: display.message(
            "compiling the kernels for this processor: once, about a minute; later starts are quick"
        )
    )
    before = _compile.compile_seconds()
    yield
    seconds = _compile.compile_seconds() - before
    if seconds > 0:
        display.message(f"compiled in {seconds:.1f} s")


def _fitting(config: TrainConfig, data: Data, request: Request) -> tuple[Trainer, Calibration]:
    """The trainer with the steps, and unless the user chose it the size, for the given minutes."""
    trainer, measured = _measured(config, data)
    if not set(request.settings) & set(SIZE):
        for size in sizes_to_try(_seconds_left(request), measured, config):
            try:
                candidate = _measured(size, data)
            except InputError:  # the text is too short for such a context
                continue
            trainer, measured = candidate
            if steps_for(*candidate, _seconds_left(request)) >= ENOUGH_STEPS:
                break
    steps = steps_for(trainer, measured, _seconds_left(request))
    trainer.config = dataclasses.replace(trainer.config, steps=steps)
    return trainer, measured


def _measured(config: TrainConfig, data: Data) -> tuple[Trainer, Calibration]:
    trainer = Trainer(config, data.tokens, len(data.tokenizer))
    return trainer, calibrate(trainer)


def _seconds_left(request: Request) -> float:
    return (request.minutes or 0.0) * 60 * MARGIN - (time.monotonic() - STARTED)


def _describe_text(display: PlainDisplay, data: Data, config: TrainConfig) -> None:
    train, validation = split_tokens(data.tokens, config.context, config.validation_fraction)
    files = int(data.text.get("files", 1))
    of = f" ({files} files)" if files > 1 else ""
    display.message(
        describe(
            "text",
            f"{data.text.get('source')}{of}: {len(data.tokens):,} characters, {len(data.tokenizer)} different ones; "
            f"{len(train):,} to train on, {len(validation):,} for validation",
        )
    )


def _describe_run(display: PlainDisplay, trainer: Trainer, measured: Calibration) -> None:
    c = trainer.config
    display.message(describe("model", f"{_shape(c)}: {parameter_count(trainer.model):,} parameters"))
    left = c.steps - trainer.step
    tokens = left * c.tokens_per_step
    passes = tokens / len(trainer.train_tokens)
    display.message(
        describe(
            "training", f"{left:,} steps of {c.batch} x {c.context} characters: {tokens:,}, {passes:.2g} times the text"
        )
    )
    if trainer.step < c.decay <= c.warmup:
        display.message(describe("note", f"the warmup of {c.warmup} steps is not over when the run ends"))
    seconds = expected_seconds(trainer, measured)
    finish = datetime.datetime.now() + datetime.timedelta(seconds=seconds)
    day = "" if finish.date() == datetime.date.today() else f"{finish:%Y-%m-%d} "
    display.message(
        describe(
            "time", f"{measured.step * 1000:.3g} ms a step: about {duration(seconds)}, done at {day}{finish:%H:%M:%S}"
        )
    )


def _shape(config: TrainConfig) -> str:
    return f"{config.layers} layers, {config.heads} heads, {config.channels} channels, context {config.context}"


def parameter_count(model: Any) -> int:
    """The numbers that are trained."""
    return sum(p.numel() for p in model.parameters())
