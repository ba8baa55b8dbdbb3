"""A training session: from the first step to its end, whether the run is done, stopped, or broken off."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np

from tinygrad_tf.cli.display import PlainDisplay, duration, visible
from tinygrad_tf.cli.plan import tell
from tinygrad_tf.cli.sample import DARING, characters, default_prompt
from tinygrad_tf.generation import GenerationConfig
from tinygrad_tf.training.checkpoint import Run
from tinygrad_tf.training.loop import TrainingError
from tinygrad_tf.training.trainer import Record, Trainer
from tinygrad_tf.utils.data import CharTokenizer

SECONDS_BETWEEN_SAMPLES = 15.0
PATIENCE = 3.0  # seconds in which a second Ctrl-C is taken for the first: people press it twice


def go(run: Run, trainer: Trainer, display: PlainDisplay) -> int:
    """Train, and end well: finished, stopped by a signal, or broken off; gives the exit code."""
    with Interrupts() as interrupts:
        try:
            display.start(trainer.step, trainer.config.steps)
            last = _follow(run, trainer, display, interrupts)
            display.stop()
            with interrupts.held():
                run.save(trainer)
                _picture(run, display)
            return _finished(run, trainer, display, last) if last else _stopped(run, trainer, display, interrupts)
        except (TrainingError, OSError, KeyboardInterrupt) as error:
            with interrupts.held():
                code = _broken_off(run, trainer, display, error)
                return 128 + interrupts.received if interrupts.received else code
        finally:
            with suppress(OSError):
                display.stop()


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
    tell(display, "done", f"{trainer.step:,} steps in {duration(trainer.seconds)}")
    tell(display, "loss", f"{record.full_validation_loss:.4f} over the whole validation split")
    if trainer.stopped:
        why = f"no progress in {trainer.config.patience} evaluations"
        tell(display, "note", f"stopped early: {why}; these are the weights of step {trainer.best_step:,}")
    elif trainer.best_step != trainer.step:
        tell(display, "note", f"the validation loss was lowest at step {trainer.best_step:,}; sample that with --best")
    picture = ", loss.png" if (run.folder / "loss.png").exists() else ""
    tell(display, "results", f"{run.folder}: model, metrics.jsonl{picture}")
    tell(display, "more text", f"{_program()} sample {_folder(run)}")
    return 0


def _stopped(run: Run, trainer: Trainer, display: PlainDisplay, interrupts: Interrupts) -> int:
    display.message(f"stopped after step {trainer.step:,} of {trainer.config.steps:,}, and saved")
    tell(display, "go on with", _again(run))
    return 128 + (interrupts.received or signal.SIGINT)


def _broken_off(run: Run, trainer: Trainer, display: PlainDisplay, error: BaseException) -> int:
    """Say why, which step is on disk, and how to go on."""
    code = 1
    if isinstance(error, OSError):  # perhaps of standard output alone: there is no reason to lose what is done
        why = "standard output was closed" if isinstance(error, BrokenPipeError) else f"{error.strerror or error}"
        try:
            run.save(trainer)
        except (OSError, TrainingError) as second:
            why = f"cannot save: {getattr(second, 'strerror', None) or second}"
    elif isinstance(error, KeyboardInterrupt):
        why, code = "stopped at once", 130
    else:
        why = str(error)
    with suppress(OSError):
        display.stop()
        if isinstance(error, TrainingError):
            _picture(run, display)
    with suppress(OSError):
        kept = f"The checkpoint of step {run.weights()[0]} is kept" if run.begun() else "There is no checkpoint yet"
        kept = f"{kept}; go on with: {_again(run)}"
        print(f"tinygrad-tf train: {why}. {kept}", file=sys.stderr, flush=True)
    return code


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


class Interrupts:
    """Ctrl-C (and SIGTERM, and a terminal that is closed) ask for a stop after the current step, with everything saved.

    One that comes seconds later, while the step still runs, raises KeyboardInterrupt, but
    never while files are written.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self._when = 0.0
        self._held = False

    def __enter__(self) -> Interrupts:
        self._before: dict[int, Any] = {}
        numbers = [signal.SIGINT, signal.SIGTERM]
        hangup = getattr(signal, "SIGHUP", None)  # Windows has none
        if hangup is not None and signal.getsignal(hangup) is not signal.SIG_IGN:  # as nohup wants it
            numbers.append(hangup)
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._handle) for number in numbers}
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Inside, signals are only noted."""
        self._held, before = True, self._held
        try:
            yield
        finally:
            self._held = before

    def _handle(self, number: int, frame: object) -> None:
        first = self.received is None
        if not first and not self._held and time.monotonic() - self._when > PATIENCE:
            raise KeyboardInterrupt
        self.received = number
        if first:
            self._when = time.monotonic()
            what = "saving" if self._held else "finishing this step, then saving; in a few seconds Ctrl-C stops at once"
            with suppress(OSError):  # the terminal may be gone
                os.write(2, f"\n{what}\n".encode())  # print may be in the middle of a line of its own
