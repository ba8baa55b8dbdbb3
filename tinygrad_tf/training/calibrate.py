"""How long a run will take, measured in a fraction of a second before it begins; and the run that fits a given time."""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tinygrad_tf.training.config import TrainConfig
from tinygrad_tf.training.trainer import Trainer, evaluation_rows

PATIENCE = 0.5  # seconds that the timed steps may take together
MOST_STEPS = 8
FIXED_SECONDS = 2.5  # the picture and the last checkpoint
SAVE_SECONDS = 0.1
MARGIN = 0.95  # share of the minutes that is planned: processors slow down when they get warm

SIZE = ("layers", "heads", "channels", "context", "batch")
# From small to large: what a laptop learns most from in seconds, a few minutes, a quarter of an hour, hours.
LADDER: tuple[dict[str, Any], ...] = (
    {"layers": 2, "heads": 2, "channels": 64, "context": 32, "batch": 12},
    {"layers": 4, "heads": 4, "channels": 128, "context": 64, "batch": 12},
    {"layers": 6, "heads": 6, "channels": 192, "context": 128, "batch": 16},
    {"layers": 6, "heads": 6, "channels": 384, "context": 256, "batch": 32},
)
ENOUGH_STEPS = 2000  # a size is worth taking when it gets so many


@dataclass(frozen=True)
class Calibration:
    """Measured seconds."""

    step: float  # one training step
    evaluation: float  # one validation window


def calibrate(trainer: Trainer, patience: float = PATIENCE) -> Calibration:
    """Time a few steps and validation batches of this trainer, then put it back to where it was, bit for bit.

    The first step, in which kernels are loaded or compiled, does not count. The learning rate is 0: a step costs the
    same, and a run that is going to diverge does not do so here.
    """
    before = trainer.state()
    try:
        trainer.update(trainer.step + 1, rate=0.0)
        begun = time.perf_counter()
        steps = [_seconds(lambda: trainer.update(trainer.step + 1, rate=0.0))]
        while len(steps) < MOST_STEPS and time.perf_counter() - begun < patience:
            steps.append(_seconds(lambda: trainer.update(trainer.step + 1, rate=0.0)))
    finally:
        trainer.load_state(before)
    rows = evaluation_rows(trainer.config)
    trainer.evaluate(rows)
    return Calibration(statistics.median(steps), _seconds(lambda: trainer.evaluate(rows)) / rows)


def expected_seconds(trainer: Trainer, measured: Calibration, steps: int | None = None) -> float:
    """How long the trainer's remaining steps take with all evaluations and saves (or `steps` steps from here on)."""
    c = trainer.config
    left = c.steps - trainer.step if steps is None else steps
    evaluations = left // c.eval_interval + 1
    whole = whole_evaluation(trainer, measured)
    some = c.eval_batches * c.batch * measured.evaluation
    each = (min(some, whole) if some else whole) + SAVE_SECONDS
    return left * measured.step + evaluations * each + whole + FIXED_SECONDS


def whole_evaluation(trainer: Trainer, measured: Calibration) -> float:
    """How long the last evaluation takes, over the whole validation split."""
    return len(trainer.validation_tokens) / trainer.config.context * measured.evaluation


def steps_for(trainer: Trainer, measured: Calibration, seconds: float) -> int:
    """The largest number of steps that is expected to be done in that time, at least 1."""
    low, high = 1, max(1, int(seconds / measured.step))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if expected_seconds(trainer, measured, middle) <= seconds else (low, middle - 1)
    return low


def sizes_to_try(seconds: float, measured: Calibration, config: TrainConfig) -> list[TrainConfig]:
    """Configurations of the ladder that might get enough steps, the largest first; a measured one is the yardstick."""
    sizes = [dataclasses.replace(config, **size) for size in LADDER]
    guesses = [measured.step * work(size) / work(config) for size in sizes]
    # Large steps run at a better rate than small ones: what misses by a factor of two is measured all the same.
    return [size for size, guess in zip(sizes, guesses, strict=True) if guess * ENOUGH_STEPS <= 2 * seconds][::-1]


def memory(config: TrainConfig, vocabulary_size: int) -> int:
    """Bytes that training takes at least: weights, gradients and two moments, and what a part of the batch keeps."""
    c = config
    parameters = c.layers * 12 * c.channels**2 + (vocabulary_size + c.context) * c.channels
    rows = min(c.batch, c.micro_batch or c.batch)
    layers = min(c.layers, 2) if c.recompute else c.layers
    kept = 4 if c.precision == "float32" else 2
    return 16 * parameters + kept * rows * c.context * (16 * layers * c.channels + vocabulary_size)


def work(config: TrainConfig) -> float:
    """Multiplications of one step, up to a factor: 12 C^2 in the matrices of a layer, 2 T C in its attention."""
    each = config.layers * (12 * config.channels**2 + 2 * config.context * config.channels)
    return float(config.tokens_per_step * each)


def _seconds(action: Callable[[], object]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started
