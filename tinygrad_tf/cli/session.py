"""A training session: from the first step to its end, whether the run is done, stopped, or broken off."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import time
from contextlib import suppress

import numpy as np

from tinygrad_tf.cli.display import PlainDisplay, duration, visible
from tinygrad_tf.cli.interrupts import Interrupts
from tinygrad_tf.cli.plan import tell
from tinygrad_tf.cli.sample import DARING, characters, default_prompt
from tinygrad_tf.generation import GenerationConfig
from tinygrad_tf.training.checkpoint import Run
from tinygrad_tf.training.loop import TrainingError
from tinygrad_tf.training.trainer import Record, Trainer
from tinygrad_tf.utils.data import CharTokenizer

SECONDS_BETWEEN_SAMPLES = 15.0


def go(run: Run, trainer: Trainer, display: PlainDisplay) -> int:
    """Train, and end well: finished, stopped by a signal, or broken off; gives the exit code."""
    with Interrupts() as interrupts:
        trainer.undisturbed, trainer.evaluated = interrupts.held, display.evaluated
        try:
            return _train(run, trainer, display, interrupts)
        except (TrainingError, OSError) as error:
            with interrupts.held():
                _broken_off(run, trainer, display, error)
                return 128 + interrupts.received if interrupts.received else 1
        finally:
            with suppress(OSError):
                display.stop()


def _train(run: Run, trainer: Trainer, display: PlainDisplay, interrupts: Interrupts) -> int:
    last = None
    with suppress(KeyboardInterrupt):  # the step that it met is as if it had not been begun
        display.start(trainer.step, trainer.config.steps)
        last = _follow(run, trainer, display, interrupts)
    with interrupts.held():
        display.stop()
        run.save(trainer)
        _picture(run, display)
    with suppress(KeyboardInterrupt):
        if last is not None:
            return _finished(run, trainer, display, last)
    with interrupts.held():
        return _stopped(run, trainer, display, interrupts)


def _follow(run: Run, trainer: Trainer, display: PlainDisplay, interrupts: Interrupts) -> Record | None:
    """Show the steps; gives the last one, or None after a signal."""
    last_sample = time.monotonic()
    for record in run.follow(trainer):
        display.show(record)
        if record.step == trainer.config.steps or record.stopped_early:
            return record
        if interrupts.received:
            return None
        if record.validation_loss is not None and time.monotonic() - last_sample > SECONDS_BETWEEN_SAMPLES:
            display.sample(record.step, sample_text(trainer, run.tokenizer, 80))
            last_sample = time.monotonic()
    return None


def _finished(run: Run, trainer: Trainer, display: PlainDisplay, record: Record) -> int:
    sample = sample_text(trainer, run.tokenizer, 300).strip()
    display.message("\n" + visible(sample, but="\n\t") + "\n")
    tell(display, "done", f"{trainer.step:,} step{'' if trainer.step == 1 else 's'} in {duration(trainer.seconds)}")
    tell(display, "loss", f"{record.full_validation_loss:.4f} over the whole validation split")
    if trainer.stopped:
        why = f"no progress in {trainer.config.patience} evaluations"
        tell(display, "note", f"stopped early: {why}; these are the weights of step {trainer.best_step:,}")
    elif record.validation_loss is not None and record.validation_loss > trainer.best_validation_loss:
        tell(display, "note", f"the validation loss was lowest at step {trainer.best_step:,}; sample that with --best")
    picture = ", loss.png" if (run.folder / "loss.png").exists() else ""
    tell(display, "results", f"{run.folder}: model, metrics.jsonl{picture}")
    tell(display, "more text", f"{_program()} sample {_folder(run)}")
    return 0


def _stopped(run: Run, trainer: Trainer, display: PlainDisplay, interrupts: Interrupts) -> int:
    display.message(f"stopped after step {trainer.step:,} of {trainer.config.steps:,}, and saved")
    tell(display, "go on with", _again(run))
    return 128 + (interrupts.received or signal.SIGINT)


def _broken_off(run: Run, trainer: Trainer, display: PlainDisplay, error: Exception) -> None:
    """Say why, which step is on disk, and how to go on."""
    if isinstance(error, OSError):  # perhaps of standard output alone: there is no reason to lose what is done
        why = "standard output was closed" if isinstance(error, BrokenPipeError) else f"{error.strerror or error}"
        try:
            run.save(trainer)
        except (OSError, TrainingError) as second:
            why = f"cannot save: {getattr(second, 'strerror', None) or second}"
    else:
        why = str(error)
    with suppress(OSError):
        display.stop()
        if isinstance(error, TrainingError):
            _picture(run, display)
    with suppress(OSError):
        kept = f"The checkpoint of step {run.weights()[0]} is kept" if run.begun() else "There is no checkpoint yet"
        kept = f"{kept}; go on with: {_again(run)}"
        if not run.folder.is_dir():
            kept = "The run folder is gone, and all that was in it: start a new run"
        print(f"tinygrad-tf train: {why}. {kept}", file=sys.stderr, flush=True)


def sample_text(trainer: Trainer, tokenizer: CharTokenizer, length: int) -> str:
    """A piece of text; its random numbers are its own, so that training is the same with and without it."""
    generator = np.random.default_rng(trainer.step)
    prompt = tokenizer.encode(default_prompt(tokenizer))
    config = GenerationConfig(max_new_tokens=length, temperature=DARING)
    return "".join(characters(trainer.model, tokenizer, prompt, config, generator))


def _picture(run: Run, display: PlainDisplay) -> None:
    """Draw the loss curve; without it a run is still whole."""
    from tinygrad_tf.training.picture import draw_loss

    try:
        draw_loss(run.folder / "loss.png", run.metrics(), run.folder.name)
    except Exception as error:
        display.message(f"the loss curve could not be drawn: {error}")


def _again(run: Run) -> str:
    return f"{_program()} train --resume {_folder(run)}"


def _folder(run: Run) -> str:
    """As a word of a command line."""
    name = str(run.folder)
    return shlex.quote(f"./{name}" if name.startswith("-") else name)


def _program() -> str:
    return "python -m tinygrad_tf" if os.path.basename(sys.argv[0]) == "__main__.py" else "tinygrad-tf"
