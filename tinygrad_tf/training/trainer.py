"""The training loop of language models: windows in, one record a step out."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np

from tinygrad_tf import random
from tinygrad_tf.autograd import no_grad
from tinygrad_tf.creation import from_numpy
from tinygrad_tf.models import GPT, GPTConfig
from tinygrad_tf.nn import Module
from tinygrad_tf.nn import functional as F
from tinygrad_tf.optim import AdamW
from tinygrad_tf.tensor import Tensor
from tinygrad_tf.training.config import TrainConfig
from tinygrad_tf.training.early_stopping import EarlyStopping
from tinygrad_tf.training.groups import parameter_groups, parse_decays
from tinygrad_tf.training.loop import ADVICE, Loop, Part, TrainingError
from tinygrad_tf.training.schedules import rate_at
from tinygrad_tf.utils.data import random_windows, split_tokens, validation_batches
from tinygrad_tf.utils.data.tokens import Tokens, Windows
from tinygrad_tf.utils.modes import evaluating


@dataclass(frozen=True)
class Record:
    """What happened in one step."""

    step: int  # 1 ... config.steps
    loss: float  # of the step's batch, before its update; nats per character
    learning_rate: float
    gradient_norm: float | None  # before clipping; None: float16 overflowed, and the step was left out
    tokens_per_second: float
    seconds: float  # spent in training since step 1, over all sessions
    validation_loss: float | None = None  # at evaluations: over config.eval_batches batches
    full_validation_loss: float | None = None  # after the last step: over the whole split
    loss_scale: float | None = None  # of float16: what losses are multiplied by
    stopped_early: bool | None = None  # True: the last step, and the weights are those of the best evaluation

    def as_dict(self) -> dict[str, Any]:
        """For JSON: what was not measured is left out."""
        return {name: value for name, value in asdict(self).items() if value is not None}


class Trainer(Loop):
    """Trains a model on windows of `tokens`, the last part of which is kept for validation.

    tokens: ids, shape (length,); the model takes ids (B, T) and gives logits (B, T, V). Without a model a GPT is built.
    The library's random generator is seeded with config.seed, so that a run depends on its configuration alone.
    An InputError is raised at once when one of the two splits is shorter than a window.

    >>> config = TrainConfig(layers=1, heads=1, channels=8, context=4, batch=2, steps=3)
    >>> trainer = Trainer(config, np.arange(100) % 5, vocabulary_size=5)
    >>> [record.step for record in trainer.train()]
    [1, 2, 3]
    """

    def __init__(self, config: TrainConfig, tokens: Tokens, vocabulary_size: int, model: Module | None = None):
        self.config = config
        self.use_tokens(tokens)
        random.manual_seed(config.seed)
        own: Any = build_model(config, vocabulary_size) if model is None else model
        decays = None if config.decay_of is None else parse_decays(config.decay_of)
        groups = parameter_groups(own, config.weight_decay, decays)
        optimizer = AdamW(groups, betas=(config.beta1, config.beta2))
        super().__init__(own, optimizer, config.gradient_clip, config.precision, config.matmul_precision)
        self.windows = np.random.default_rng(config.seed)
        self.best_validation_loss, self.best_step = math.inf, 0
        self.stopping = None if config.patience is None else EarlyStopping(config.patience, config.min_delta)
        self.stopped = False
        # Told in an evaluation how many characters of how many are done.
        self.evaluated: Callable[[int, int], object] = lambda done, total: None

    def use_tokens(self, tokens: Tokens) -> None:
        """Go on with the same text from other memory, a mapped file for example."""
        self.train_tokens, self.validation_tokens = split_tokens(
            tokens, self.config.context, self.config.validation_fraction
        )

    def train(self) -> Iterator[Record]:
        """Do the steps that are left, one at each `next`; TrainingError at the first that is not finite."""
        while self.step < self.config.steps and not self.stopped:
            yield self.train_step()

    def train_step(self) -> Record:
        """One step: forward, backward, clip, update; and the evaluation, where one is due.

        An exception on the way, KeyboardInterrupt for example, leaves the trainer as it was before the step.
        """
        restore = self._way_back()
        try:
            return self._train_step(self.step + 1)
        except BaseException:
            with self.undisturbed():
                restore()
            raise

    def _train_step(self, step: int) -> Record:
        started = time.perf_counter()
        rate = self.learning_rate(step)
        scale = self.scaler.get_scale() if self.scaler.is_enabled() else None
        loss, norm = self.update(step, rate)
        self.step = step
        step_seconds = time.perf_counter() - started
        validation, full = self._evaluations(step)
        self.seconds += time.perf_counter() - started
        speed = self.config.tokens_per_step / step_seconds
        return Record(step, loss, rate, norm, speed, self.seconds, validation, full, scale, self.stopped or None)

    def _way_back(self) -> Callable[[], None]:
        """What brings the trainer back to where it is now, from within the next step.

        Only an evaluation can be broken off when weights are new already; before that, random numbers have been drawn.
        """
        if self._is_evaluated(self.step + 1):
            return partial(self.load_state, self.state_as_it_is())
        return partial(self.load_progress, self.progress())

    def learning_rate(self, step: int) -> float:
        """The rate of step 1, 2, ...: rising in the warmup, then by the schedule."""
        c = self.config
        peak, floor = c.learning_rate, c.floor
        return rate_at(c.schedule, step - 1, peak=peak, floor=floor, warmup=c.warmup, total=c.decay)

    def evaluate(self, windows: int = 0) -> float:
        """The mean loss per character over that many validation windows; 0: over the whole split."""
        c, total, count = self.config, 0.0, 0
        rows, targets = evaluation_rows(c), len(self.validation_tokens) - 1
        wanted = min(windows * c.context, targets) if windows else targets
        with no_grad(), evaluating(self.model), self.products(), self.autocast():
            for batch in validation_batches(self.validation_tokens, rows, c.context, windows):
                total += self.loss(batch).item() * batch[1].size
                count += batch[1].size
                self.evaluated(count, wanted)
        return total / count

    def loss(self, windows: Windows, label_smoothing: float = 0.0) -> Tensor:
        """The cross-entropy of one batch."""
        inputs, targets = windows
        logits = self.model(from_numpy(inputs))
        flat = from_numpy(targets.reshape(-1))
        return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), flat, label_smoothing=label_smoothing)

    def next_windows(self) -> Windows:
        """The inputs and targets, each (B, T), of the next step."""
        return random_windows(self.train_tokens, self.config.batch, self.config.context, self.windows)

    def parts(self) -> Sequence[Part]:
        inputs, targets = self.next_windows()
        size = self.config.micro_batch or len(inputs)
        return [
            Part(partial(self.loss, (inputs[i : i + size], rows), self.config.label_smoothing), rows.size)
            for i in range(0, len(inputs), size)
            for rows in [targets[i : i + size]]
        ]

    def _is_evaluated(self, step: int) -> bool:
        return step == self.config.steps or step % self.config.eval_interval == 0

    def _evaluations(self, step: int) -> tuple[float | None, float | None]:
        if not self._is_evaluated(step):
            return None, None
        last = step == self.config.steps
        validation = self.evaluate(self.config.eval_batches * self.config.batch)
        if not math.isfinite(validation):
            raise TrainingError(f"step {step}: the validation loss is {validation}{self._first_not_finite()}; {ADVICE}")
        if validation < self.best_validation_loss:
            self.best_validation_loss, self.best_step = validation, step
        if self.stopping is not None and self.stopping.step(validation, self.model):
            self.stopped, last = True, True
            self.stopping.restore(self.model)
        return validation, self.evaluate() if last else None

    # --- stopping and going on ------------------------------------------------------------------------------------

    def progress(self) -> dict[str, Any]:
        return {
            **super().progress(),
            "best_validation_loss": self.best_validation_loss if self.best_step else None,
            "best_step": self.best_step,
            "windows": self.windows.bit_generator.state,
            **({} if self.stopping is None else {"stopping": self.stopping.state(), "stopped": self.stopped}),
        }

    def load_progress(self, progress: dict[str, Any]) -> None:
        super().load_progress(progress)
        self.windows.bit_generator.state = progress["windows"]
        best = progress["best_validation_loss"]
        self.best_validation_loss = math.inf if best is None else float(best)
        self.best_step = int(progress["best_step"])
        self.stopped = bool(progress.get("stopped", False))
        if self.stopping is not None and "stopping" in progress:
            self.stopping.load_state(progress["stopping"])


def build_model(config: TrainConfig, vocabulary_size: int) -> GPT:
    """The GPT that a configuration describes."""
    c = config
    sizes = GPTConfig(vocabulary_size, c.context, c.layers, c.heads, c.channels, c.dropout, c.bias)
    return GPT(dataclasses.replace(sizes, recompute=c.recompute))


def evaluation_rows(config: TrainConfig) -> int:
    """Windows in one forward pass of an evaluation: without gradients to keep, more than in training."""
    return max(config.batch, 2048 // config.context)
