"""A training session: from the first step to its end, whether the run is done, stopped, or broken off."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import threading
import time
from typing import Any

import numpy as np

from tinygrad_tf.cli.display import PlainDisplay, duration
from tinygrad_tf.cli.plan import tell
from tinygrad_tf.cli.sample import characters, default_prompt
from tinygrad_tf.training.checkpoint import Run
from tinygrad_tf.training.trainer import Record, Trainer, TrainingError
from tinygrad_tf.utils.data import CharTokenizer

SECONDS_BETWEEN_SAMPLES = 15.0


def go(run: Run, trainer: Trainer, display: PlainDisplay) -> int:
    """Train, and end well: finished, stopped by a signal, or broken off; gives the exit code."""
    try:
        with Interrupts() as interrupts:
            display.start(trainer.step, trainer.config.steps)
            final = _follow(run, trainer, display, interrupts)
            display.stop()
            interrupts.saving = True
            run.save(trainer)
            _picture(run, display)
        return _finished(run, trainer, display, final) if final else _stopped(run, trainer, display, interrupts)
    except TrainingError as error:
        display.stop()
        _picture(run, display)
        return _broken_off(run, f"{error}.", 1)
    except BrokenPipeError:  # nobody reads what is shown
        run.save(trainer)
        return _broken_off(run, "standard output was closed.", 1)
    except OSError as error:
        display.stop()
        return _broken_off(run, f"cannot save: {error.strerror or error}.", 1)
    except KeyboardInterrupt:
        display.stop()
        return _broken_off(run, "stopped at once.", 130)
    finally:
        display.stop()


def _follow(run: Run, trainer: Trainer, display: PlainDisplay, interrupts: Interrupts) -> Record | None:
    """Show the steps; gives the last one, or None after a signal."""
    last_sample = time.monotonic()
    for record in run.follow(trainer):
        display.show(record)
        if record.step == trainer.config.steps:
            return record
        if interrupts.received:
            return None
        if record.validation_loss is not None and time.monotonic() - last_sample > SECONDS_BETWEEN_SAMPLES:
            display.sample(record.step, sample_text(trainer, run.tokenizer, 80))
            last_sample = time.monotonic()
    return None


def _finished(run: Run, trainer: Trainer, display: PlainDisplay, record: Record) -> int:
    display.message(f"\n{sample_text(trainer, run.tokenizer, 300).strip()}\n")
    tell(display, "done", f"{trainer.step:,} steps in {duration(trainer.seconds)}")
    tell(display, "loss", f"{record.full_validation_loss:.4f} over the whole validation split")
    if trainer.best_step != trainer.step:
        tell(display, "note", f"the validation loss was lowest at step {trainer.best_step:,}; sample that with --best")
    tell(display, "results", f"{run.folder}: model, metrics.jsonl, loss.png")
    tell(display, "more text", f"{_program()} sample {shlex.quote(str(run.folder))}")
    return 0


def _stopped(run: Run, trainer: Trainer, display: PlainDisplay, interrupts: Interrupts) -> int:
    display.message(f"stopped after step {trainer.step:,} of {trainer.config.steps:,}, and saved")
    tell(display, "go on with", _again(run))
    return 128 + (interrupts.received or signal.SIGINT)


def _broken_off(run: Run, what: str, code: int) -> int:
    step, _ = run.weights()
    kept = f"The checkpoint of step {step} is kept; go on with: {_again(run)}"
    print(f"tinygrad-tf train: {what} {kept}", file=sys.stderr, flush=True)
    return code


def sample_text(trainer: Trainer, tokenizer: CharTokenizer, length: int) -> str:
    """A piece of text; its random numbers are its own, so that training is the same with and without it."""
    generator = np.random.default_rng(trainer.step)
    prompt = tokenizer.encode(default_prompt(tokenizer))
    return "".join(characters(trainer.model, tokenizer, prompt, length, 0.8, None, generator))


def _picture(run: Run, display: PlainDisplay) -> None:
    """Draw the loss curve; without it a run is still whole."""
    from tinygrad_tf.training.picture import draw_loss

    try:
        draw_loss(run.folder / "loss.png", run.metrics(), run.folder.name)
    except Exception as error:
        display.message(f"the loss curve could not be drawn: {error}")


def _again(run: Run) -> str:
    return f"{_program()} train --resume {shlex.quote(str(run.folder))}"


def _program() -> str:
    return "python -m tinygrad_tf" if os.path.basename(sys.argv[0]) == "__main__.py" else "tinygrad-tf"


class Interrupts:
    """Ctrl-C (and SIGTERM) ask for a stop after the current step; a second one stops at once, unless it is saving."""

    def __init__(self) -> None:
        self.received: int | None = None
        self.saving = False

    def __enter__(self) -> Interrupts:
        self.before: dict[int, Any] = {}
        if threading.current_thread() is threading.main_thread():
            self.before = {number: signal.signal(number, self._handle) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: object) -> None:
        if self.received is not None and not self.saving:
            raise KeyboardInterrupt
        self.received = number
        what = "saving" if self.saving else "finishing this step, then saving; once more stops at once"
        os.write(2, f"\n{what}\n".encode())  # print may be in the middle of a line of its own
