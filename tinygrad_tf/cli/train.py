"""`tinygrad-tf train`: a new run, a resumed one, or a try-out."""

from __future__ import annotations

import dataclasses
import datetime
import math
import os
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tinygrad_tf.cli.display import PlainDisplay, make_display, one_line
from tinygrad_tf.cli.plan import (
    Data,
    check_memory,
    compiling,
    fitting_trainer,
    measured_trainer,
    seconds_left,
    tell,
    tell_model,
    tell_plan,
    tell_text,
    tell_twice,
)
from tinygrad_tf.cli.session import go, sample_text
from tinygrad_tf.training.calibrate import calibrate, steps_for
from tinygrad_tf.training.checkpoint import Run, check_free, check_writable, new_folder
from tinygrad_tf.training.config import TrainConfig, flag
from tinygrad_tf.training.loop import TrainingError
from tinygrad_tf.training.overfit import lowest_loss, overfit_one_batch
from tinygrad_tf.training.presets import preset
from tinygrad_tf.training.trainer import Trainer, build_model
from tinygrad_tf.utils.data import CharTokenizer, read_texts, split_tokens, standard_library_text, token_dtype
from tinygrad_tf.utils.errors import InputError

OVERFIT_STEPS = 300
MOST_MINUTES = 525_600


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
    overfit: bool = False
    preset: str | None = None


def train(request: Request) -> int:
    """Do what is asked; gives the exit code."""
    try:
        return _train(request)
    except TrainingError as error:  # before the first step, or in a try-out: there is nothing to save
        why = str(error)
    except BrokenPipeError:  # `train | head`: success is not what to report
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        why = "standard output was closed, and nobody would see how it goes"
    print(f"tinygrad-tf train: {why}", file=sys.stderr, flush=True)
    return 1


def _train(request: Request) -> int:
    _check(request)
    display = make_display()
    if request.resume is not None:
        run = Run.open(request.resume)
        with run.lock():
            return _resume(run, request, display)
    config = TrainConfig(**{**preset("small" if request.preset is None else request.preset), **request.settings})
    if request.out is not None:
        check_free(Path(request.out))
    if not request.dry_run and not request.overfit:
        check_writable(_folder(request))
    data = _read(request)
    split_tokens(data.tokens, config.context, config.validation_fraction)  # long enough?
    check_memory(config, data)
    tell_text(display, data, config)
    tell_twice(display, request.files)
    if request.overfit:
        return _overfit(config, data, display)
    return _try_out(config, data, display) if request.dry_run else _begin(config, data, request, display)


def _check(request: Request) -> None:
    """Options that name nothing, or contradict each other."""
    for name in ("out", "resume"):
        if getattr(request, name) == "":
            raise InputError(f"{flag(name)} must name a folder, got ''")
    if request.encoding != "utf-8" and not request.files:
        raise InputError(f"--encoding {request.encoding!r} says how the FILEs are encoded; name one, or leave it out")
    pairs = [("minutes", "dry_run"), ("resume", "dry_run"), ("resume", "out")]
    pairs += [("preset", "resume"), ("preset", "minutes")]
    pairs += [("overfit", "dry_run"), ("overfit", "resume"), ("overfit", "minutes"), ("overfit", "out")]
    for one, other in pairs:
        if getattr(request, one) not in (None, False) and getattr(request, other) not in (None, False):
            names = [flag("overfit_one_batch" if name == "overfit" else name) for name in (one, other)]
            why = ": --minutes chooses the steps and the size itself" if one == "preset" and other == "minutes" else ""
            raise InputError(f"{names[0]} and {names[1]} cannot be combined{why}")
    if request.minutes is not None and "steps" in request.settings:
        raise InputError("--minutes and --steps cannot be combined: --minutes chooses the steps")
    if request.minutes is not None and not 0.0 < request.minutes <= MOST_MINUTES:
        raise InputError(f"--minutes must be above 0 and at most {MOST_MINUTES:,} (a year), got {request.minutes:g}")


def _read(request: Request) -> Data:
    text = read_texts(request.files, request.encoding) if request.files else standard_library_text()
    tokenizer = CharTokenizer(text.content)
    tokens = tokenizer.encode(text.content).astype(token_dtype(len(tokenizer)))
    return Data(tokens, tokenizer, {"source": text.source, "files": text.files, "characters": text.characters})


def _begin(config: TrainConfig, data: Data, request: Request, display: PlainDisplay) -> int:
    """A new run."""
    with compiling(display):
        if request.minutes is None:
            trainer, measured = measured_trainer(config, data)
        else:
            trainer, measured = fitting_trainer(config, data, request.minutes, set(request.settings))
    tell_model(display, trainer.config, trainer.model)
    tell_plan(display, trainer, measured)
    folder = _folder(request)
    run = Run.create(folder, trainer.config, data.tokenizer, data.tokens, data.text)
    tell(display, "run folder", folder)
    trainer.use_tokens(run.tokens())
    with run.lock():
        return go(run, trainer, display)


def _folder(request: Request) -> Path:
    """Where a run that begins now is written."""
    if request.out is not None:
        return Path(request.out)
    return new_folder(Path("runs"), datetime.datetime.now().strftime("%Y-%m-%d_%H-%M-%S"))


def _resume(run: Run, request: Request, display: PlainDisplay) -> int:
    """Go on with a run, with the settings that may change."""
    config, changes = _merged(run, request)
    data = Data(run.tokens(), run.tokenizer, run.text)
    check_memory(config, data)
    trainer = Trainer(config, data.tokens, len(data.tokenizer))
    if run.begun():
        run.load(trainer)
    if config.steps < trainer.step:
        raise InputError(f"--steps {config.steps}: {run.folder} has done {trainer.step} steps already")
    tell(display, "run folder", f"{run.folder}, at step {trainer.step:,}")
    tell_text(display, data, config)
    tell_model(display, config, trainer.model)
    if trainer.stopped and trainer.stopping is not None:
        if "patience" not in request.settings:
            display.message("this run stopped early, without progress; to train on, give it a --patience again")
            return 0
        trainer.stopped, trainer.stopping.waited = False, 0
    if config.steps == trainer.step and request.minutes is None:
        display.message(f"all {trainer.step:,} steps are done; to train on, give more: --steps {2 * trainer.step}")
        return 0
    with compiling(display):
        measured = calibrate(trainer)
    if request.minutes is not None:
        steps = trainer.step + steps_for(trainer, measured, seconds_left(request.minutes))
        changes.append(f"steps {config.steps} -> {steps}")
        trainer.config = dataclasses.replace(config, steps=steps)
    for change in changes:
        tell(display, "changed", change)
    tell_plan(display, trainer, measured)
    run.config = trainer.config
    run.write_config()
    return go(run, trainer, display)


def _merged(run: Run, request: Request) -> tuple[TrainConfig, list[str]]:
    """The run's configuration with what the command line changes, and the changes in words."""
    fixed = {field.name for field in dataclasses.fields(TrainConfig) if field.metadata["fixed"]}
    changes: list[str] = []
    for name, value in request.settings.items():
        before = getattr(run.config, name)
        if value != before and name in fixed:
            begun = f"{run.folder}, which was begun with {before}"
            raise InputError(f"{flag(name)} {value} contradicts {begun}; leave it out, or start a new run")
        if value != before:
            changes.append(f"{name.replace('_', ' ')} {'default' if before is None else before} -> {value}")
    if request.files and not _same_text(data := _read(request), run):
        begun = f"{run.folder} was begun with, {run.text.get('source')}"
        raise InputError(f"{data.text['source']}: is not the text that {begun}; leave it out, or start a new run")
    return dataclasses.replace(run.config, **request.settings), changes


def _same_text(data: Data, run: Run) -> bool:
    return data.tokenizer == run.tokenizer and np.array_equal(data.tokens, run.tokens())


def _try_out(config: TrainConfig, data: Data, display: PlainDisplay) -> int:
    """Every stage once, as small as it gets, in a folder that is thrown away."""
    from tinygrad_tf.training.picture import draw_loss

    tell_model(display, config, build_model(config, len(data.tokenizer)))
    small = dataclasses.replace(config, batch=1, context=min(config.context, 10), steps=1, eval_batches=1)
    share = min(config.validation_fraction, 1 - config.validation_fraction)
    tokens = data.tokens[: math.ceil(3 * (small.context + 1) / share)]
    watch = Stopwatch(display)
    with tempfile.TemporaryDirectory(prefix="tinygrad-tf-") as folder, compiling(display):
        trainer = Trainer(small, tokens, len(data.tokenizer))
        run = Run.create(Path(folder) / "run", small, data.tokenizer, tokens, data.text)
        for record in run.follow(trainer):
            watch.done(f"one training step, loss {record.loss:.3f}; validation loss {record.validation_loss:.3f}")
        run.load(Trainer(small, tokens, len(data.tokenizer)))
        watch.done("checkpoint written and read")
        watch.done(f"sample: {one_line(sample_text(trainer, data.tokenizer, 10))!r}")
        draw_loss(run.folder / "loss.png", run.metrics(), "dry run")
        watch.done("loss curve drawn")
    display.message("everything works; nothing was kept")
    return 0


def _overfit(config: TrainConfig, data: Data, display: PlainDisplay) -> int:
    """Learn the run's first batch by heart, with the run's own model; 0 if that works."""
    trainer = Trainer(config, data.tokens, len(data.tokenizer))
    tell_model(display, config, trainer.model)
    batch = trainer.next_windows()
    tell(display, "one batch", f"{config.batch} x {config.context} characters, up to {OVERFIT_STEPS} steps")
    with compiling(display):
        found = overfit_one_batch(
            trainer.model,
            trainer.lowered(lambda: trainer.loss(batch)),
            steps=OVERFIT_STEPS,
            learning_rate=config.learning_rate,
            floor=lowest_loss(*batch),
        )
    display.message(str(found))
    return 0 if found.passed else 1


class Stopwatch:
    """Tells what is done and how long it took."""

    def __init__(self, display: PlainDisplay):
        self.display, self.last = display, time.perf_counter()

    def done(self, what: str) -> None:
        now = time.perf_counter()
        self.display.message(f"{now - self.last:6.2f} s  {what}")
        self.last = now
