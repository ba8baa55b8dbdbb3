"""The training loop: windows in, one record a step out."""

from __future__ import annotations

import base64
import math
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tinygrad_tf import random
from tinygrad_tf.autograd import no_grad
from tinygrad_tf.creation import from_numpy
from tinygrad_tf.models import GPT, GPTConfig
from tinygrad_tf.nn import Module
from tinygrad_tf.nn import functional as F
from tinygrad_tf.nn.utils import clip_grad_norm_
from tinygrad_tf.optim import AdamW
from tinygrad_tf.optim.lr_scheduler import warmup_cosine
from tinygrad_tf.tensor import Tensor
from tinygrad_tf.training.config import TrainConfig
from tinygrad_tf.utils.data import random_windows, split_tokens, validation_batches
from tinygrad_tf.utils.data.tokens import Tokens, Windows
from tinygrad_tf.utils.modes import evaluating

Arrays = dict[str, NDArray[Any]]

ADVICE = "a lower --learning-rate or a smaller --gradient-clip helps"


class TrainingError(RuntimeError):
    """Training cannot go on: a loss, a gradient or a weight is no longer finite. Nothing of that step has been kept."""


@dataclass(frozen=True)
class Record:
    """What happened in one step."""

    step: int  # 1 ... config.steps
    loss: float  # of the step's batch, before its update; nats per character
    learning_rate: float
    gradient_norm: float  # before clipping
    tokens_per_second: float
    seconds: float  # spent in training since step 1, over all sessions
    validation_loss: float | None = None  # at evaluations: over config.eval_batches batches
    full_validation_loss: float | None = None  # after the last step: over the whole split

    def as_dict(self) -> dict[str, Any]:
        """For JSON: what was not measured is left out."""
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass
class TrainerState:
    """All that a run needs to go on as if it had never stopped."""

    weights: Arrays
    optimizer: Arrays  # by parameter name and moment: "lm_head.weight.exp_avg"
    progress: dict[str, Any]  # numbers and strings: steps, best loss, states of the random generators


class Trainer:
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
        self.model: Any = build_model(config, vocabulary_size) if model is None else model
        self.optimizer = AdamW(parameter_groups(self.model, config.weight_decay), betas=(config.beta1, config.beta2))
        self.windows = np.random.default_rng(config.seed)
        self.step, self.seconds = 0, 0.0
        self.best_validation_loss, self.best_step = math.inf, 0

    def use_tokens(self, tokens: Tokens) -> None:
        """Go on with the same text from other memory, a mapped file for example."""
        self.train_tokens, self.validation_tokens = split_tokens(
            tokens, self.config.context, self.config.validation_fraction
        )

    def train(self) -> Iterator[Record]:
        """Do the steps that are left, one at each `next`; TrainingError at the first that is not finite."""
        while self.step < self.config.steps:
            yield self.train_step()

    def train_step(self) -> Record:
        """One step: forward, backward, clip, update; and the evaluation, where one is due."""
        started = time.perf_counter()
        step = self.step + 1
        rate = self.learning_rate(step)
        loss, norm = self.update(step, rate)
        self.step = step
        step_seconds = time.perf_counter() - started
        validation, full = self._evaluations(step)
        self.seconds += time.perf_counter() - started
        speed = self.config.tokens_per_step / step_seconds
        return Record(step, loss, rate, norm, speed, self.seconds, validation, full)

    def update(self, step: int, rate: float) -> tuple[float, float]:
        """Update the weights at that learning rate; gives loss and norm. A TrainingError leaves them as they were."""
        with np.errstate(all="ignore"):  # what is not finite is found and told in one place
            loss, norm = self._gradients(step)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss, norm

    def learning_rate(self, step: int) -> float:
        """The rate of step 1, 2, ...: rising in the warmup, then half a cosine."""
        c = self.config
        return warmup_cosine(step - 1, peak=c.learning_rate, floor=c.floor, warmup=c.warmup, total=c.decay)

    def evaluate(self, windows: int = 0) -> float:
        """The mean loss per character over that many validation windows; 0: over the whole split."""
        c, total, count = self.config, 0.0, 0
        rows = evaluation_rows(c)
        with no_grad(), evaluating(self.model):
            for batch in validation_batches(self.validation_tokens, rows, c.context, windows):
                targets = batch[1].size
                total += self.loss(batch).item() * targets
                count += targets
        return total / count

    def loss(self, windows: Windows) -> Tensor:
        """The cross-entropy of one batch."""
        inputs, targets = windows
        logits = self.model(from_numpy(inputs))
        return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), from_numpy(targets.reshape(-1)))

    def _gradients(self, step: int) -> tuple[float, float]:
        """Loss and norm of the gradients, which are then clipped."""
        self.model.train()
        loss = self.loss(random_windows(self.train_tokens, self.config.batch, self.config.context, self.windows))
        value = loss.item()
        if not math.isfinite(value):
            raise TrainingError(f"step {step}: the loss is {value}{self._first_not_finite()}; {ADVICE}")
        loss.backward()
        norm = clip_grad_norm_(self.model.parameters(), self.config.gradient_clip or math.inf).item()
        if not math.isfinite(norm):
            culprit = _not_finite((name, p.grad) for name, p in self.model.named_parameters() if p.grad is not None)
            raise TrainingError(f"step {step}: the gradient of {culprit or 'the model'} is not finite; {ADVICE}")
        return value, norm

    def _evaluations(self, step: int) -> tuple[float | None, float | None]:
        last = step == self.config.steps
        if not last and step % self.config.eval_interval:
            return None, None
        validation = self.evaluate(self.config.eval_batches * self.config.batch)
        if not math.isfinite(validation):
            raise TrainingError(f"step {step}: the validation loss is {validation}{self._first_not_finite()}; {ADVICE}")
        if validation < self.best_validation_loss:
            self.best_validation_loss, self.best_step = validation, step
        return validation, self.evaluate() if last else None

    def _first_not_finite(self) -> str:
        culprit = _not_finite(self.model.named_parameters())
        if culprit:
            return f" because the parameter {culprit} is not finite"
        largest = {name: float(np.abs(p.array).max(initial=0.0)) for name, p in self.model.named_parameters()}
        name = max(largest, key=largest.__getitem__)
        return f"; all parameters are finite, but {name} has grown to {largest[name]:.3g}"

    # --- stopping and going on ------------------------------------------------------------------------------------

    def state(self) -> TrainerState:
        """A copy of all that `load_state` needs; a TrainingError when a weight is not finite."""
        culprit = _not_finite(self.model.named_parameters())
        if culprit:
            raise TrainingError(f"after step {self.step}: the parameter {culprit} is not finite; {ADVICE}")
        weights = {name: np.array(tensor.array, order="C") for name, tensor in self.model.state_dict().items()}
        state = self.optimizer.state_dict()["state"]
        moments = {
            f"{name}.{key}": np.array(value.array, order="C")
            for name, number in self._numbers().items()
            for key, value in state.get(number, {}).items()
        }
        return TrainerState(weights, moments, self._progress())

    def load_state(self, state: TrainerState) -> None:
        """Go on from there, bit for bit; ValueError, KeyError or RuntimeError if it belongs to another model."""
        self.model.load_state_dict({name: from_numpy(array) for name, array in state.weights.items()})
        numbers = self._numbers()
        moments: dict[int, dict[str, Tensor]] = {}
        for name, array in state.optimizer.items():
            parameter, _, key = name.rpartition(".")
            moments.setdefault(numbers[parameter], {})[key] = from_numpy(array)
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": moments, "param_groups": groups})
        self.optimizer.zero_grad(set_to_none=True)
        progress = state.progress
        self.windows.bit_generator.state = progress["windows"]
        random.set_rng_state(np.frombuffer(base64.b64decode(progress["random"]), np.uint8).copy())
        self.step, self.seconds = int(progress["step"]), float(progress["seconds"])
        best = progress["best_validation_loss"]
        self.best_validation_loss = math.inf if best is None else float(best)
        self.best_step = int(progress["best_step"])

    def _progress(self) -> dict[str, Any]:
        return {
            "step": self.step,
            "seconds": self.seconds,
            "best_validation_loss": self.best_validation_loss if self.best_step else None,
            "best_step": self.best_step,
            "windows": self.windows.bit_generator.state,
            "random": base64.b64encode(random.get_rng_state().tobytes()).decode("ascii"),
        }

    def _numbers(self) -> dict[str, int]:
        """The number that the optimiser's state_dict gives to each parameter."""
        order = [id(p) for group in self.optimizer.param_groups for p in group["params"]]
        return {name: order.index(id(p)) for name, p in self.model.named_parameters() if id(p) in order}


def build_model(config: TrainConfig, vocabulary_size: int) -> GPT:
    """The GPT that a configuration describes."""
    c = config
    return GPT(GPTConfig(vocabulary_size, c.context, c.layers, c.heads, c.channels, c.dropout, c.bias))


def evaluation_rows(config: TrainConfig) -> int:
    """Windows in one forward pass of an evaluation: without gradients to keep, more than in training."""
    return max(config.batch, 2048 // config.context)


def parameter_groups(model: Module, weight_decay: float) -> list[dict[str, Any]]:
    """Matrices decay, vectors (biases, gains of norms) do not."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": weight_decay},
        {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]


def _not_finite(tensors: Iterable[tuple[str, Tensor]]) -> str | None:
    return next((name for name, tensor in tensors if not np.isfinite(tensor.array).all()), None)
