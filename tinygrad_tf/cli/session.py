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
from tinygrad_tf.cli.sample import characters, default_prompt
from tinygrad_tf.training.checkpoint import Run
from tinygrad_tf.training.trainer import Trainer, TrainingError
from tinygrad_tf.utils.data import CharTokenizer

SECONDS_BETWEEN_SAMPLES = 15.0


def go(run: Run, trainer: Trainer, display: PlainDisplay) -> int:
    """Train, and end well: finished, stopped by a signal, or at a loss that is not finite."""
    last_sample = time.monotonic()
    display.start(trainer.step, trainer.config.steps)
    final = None
    try:
        with Interrupts() as interrupts:
            for record in run.follow(trainer):
                display.show(record)
                final = record.full_validation_loss
                now = time.monotonic()
                if record.validation_loss is not None and now - last_sample > SECONDS_BETWEEN_SAMPLES and final is None:
                    display.sample(record.step, sample_text(trainer, run.tokenizer, 80))
                    last_sample = now
                if interrupts.received and final is None:
                    break
            display.stop()
            if trainer.step < trainer.config.steps:
                return _stopped(run, trainer, display, interrupts)
    except TrainingError as error:
        display.stop()
        _picture(run, display)
        return _failed(run, f"{error}.")
    except OSError as error:
        display.stop()
        return _failed(run, f"cannot save: {error.strerror or error}.")
    except KeyboardInterrupt:
        display.stop()
        return _failed(run, "stopped at once.", 130)
    finally:
        display.stop()
    return _finished(run, trainer, display, final)


def _stopped(run: Run, trainer: Trainer, display: PlainDisplay, interrupts: Interrupts) -> int:
    interrupts.saving = True
    run.save(trainer)
    _picture(run, display)
    display.message(
        f"stopped after step {trainer.step:,} of {trainer.config.steps:,}, saved; go on with: {_again(run)}"
    )
    return 128 + (interrupts.received or signal.SIGINT)


def _failed(run: Run, what: str, code: int = 1) -> int:
    step, _ = run.weights()
    print(
        f"tinygrad-tf train: {what} The checkpoint of step {step} is kept; go on with: {_again(run)}", file=sys.stderr
    )
    return code


def _finished(run: Run, trainer: Trainer, display: PlainDisplay, final: float | None) -> int:
    _picture(run, display)
    if final is not None:
        display.message(f"validation loss over the whole split: {final:.4f}")
    if trainer.best_step not in (0, trainer.step):
        display.message(f"the best was at step {trainer.best_step:,}; sample it with --best")
    display.message("")
    display.message(sample_text(trainer, run.tokenizer, 300).strip("\n"))
    display.message("")
    display.message(
        f"done: {trainer.step:,} steps in {duration(trainer.seconds)}; {run.folder} holds the model and loss.png"
    )
    display.message(f"more text: {_program()} sample {shlex.quote(str(run.folder))}")
    return 0


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
        word = "saving" if self.saving else "finishing this step, then saving; once more stops at once"
        os.write(2, f"\n{word}\n".encode())
