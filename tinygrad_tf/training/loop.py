"""One optimiser step after another: what all training loops share. The batch in parts, precision, clipping, state."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tinygrad_tf import random
from tinygrad_tf._arguments import check_choice
from tinygrad_tf._quiet import quiet
from tinygrad_tf.amp import GradScaler, autocast
from tinygrad_tf.creation import from_numpy
from tinygrad_tf.dtypes import bfloat16, float16
from tinygrad_tf.kernels import precision as precision_of_products
from tinygrad_tf.nn.utils import clip_grad_norm_
from tinygrad_tf.tensor import Tensor
from tinygrad_tf.utils.errors import InputError

Arrays = dict[str, NDArray[Any]]

PRECISIONS = {"float32": None, "bfloat16": bfloat16, "float16": float16}
ADVICE = "a lower --learning-rate or a smaller --gradient-clip helps"


class TrainingError(RuntimeError):
    """Training cannot go on: a loss, a gradient or a weight is no longer finite. Nothing of that step has been kept."""


class MeanLoss(Protocol):
    """Computes the mean loss of some targets."""

    def __call__(self) -> Tensor: ...


class Part(NamedTuple):
    """A part of a batch: its mean loss, still to be computed, and how many targets that is the mean of."""

    loss: MeanLoss
    targets: int


def accumulate_gradients(parts: Sequence[Part], scaler: GradScaler | None = None) -> float | None:
    """Add the gradients of a batch to `.grad`, part by part, so that no more than one part is in memory.

    The result is that of the whole batch at once: each part counts by its targets, also where parts are of different
    size or some targets are ignored. Gives the mean loss; None, and no gradients, where no target counts at all.
    (Batch norm, which mixes rows, still sees one part at a time.)

    >>> from tinygrad_tf import tensor
    >>> w = tensor([1.0], requires_grad=True)
    >>> parts = [Part(lambda: (w * 6.0).mean(), 2), Part(lambda: (w * 3.0).mean(), 1)]
    >>> accumulate_gradients(parts), w.grad.item()
    (5.0, 5.0)
    """
    total = sum(part.targets for part in parts)
    if not total:
        return None
    value = 0.0
    for part in parts:
        if not part.targets:
            continue
        loss, share = part.loss(), part.targets / total
        value += loss.item() * share
        if not math.isfinite(value):
            break  # no gradient of it is of any use
        if share != 1.0:
            loss = loss * share
        (loss if scaler is None else scaler.scale(loss)).backward()
    return value


@dataclass
class TrainerState:
    """All that a run needs to go on as if it had never stopped."""

    weights: Arrays
    optimizer: Arrays  # by parameter name and moment: "lm_head.weight.exp_avg"
    progress: dict[str, Any]  # numbers and strings: steps, best loss, states of the random generators


class Loop:
    """A model, an optimiser and the state of both. A subclass defines `parts`: the batch of a step.

    gradient_clip: the largest norm of all gradients together, 0 for no clipping. precision: 'float32', or 'bfloat16'
    and 'float16' for 16-bit activations (autocast; float16 with a GradScaler, whose overflows cost a step each).
    matmul_precision: as `amp.set_float32_matmul_precision` takes it, for this loop alone; None: as it is set.
    """

    def __init__(
        self,
        model: Any,
        optimizer: Any,
        gradient_clip: float = 1.0,
        precision: str = "float32",
        matmul_precision: str | None = None,
    ):
        check_choice("precision", precision, PRECISIONS, InputError)
        if matmul_precision is not None:
            check_choice("matmul_precision", matmul_precision, precision_of_products.PIECES, InputError)
        self.model, self.optimizer, self.gradient_clip = model, optimizer, gradient_clip
        self.precision, self.matmul_precision = PRECISIONS[precision], matmul_precision
        self.scaler = GradScaler("cpu", enabled=precision == "float16")
        self.step, self.seconds = 0, 0.0
        # What weights are changed in. The command line puts here what holds signals back: no step is done by halves.
        self.undisturbed: Callable[[], AbstractContextManager[None]] = nullcontext

    def parts(self) -> Sequence[Part]:
        """The next batch, in one part or several."""
        raise NotImplementedError(f"{type(self).__name__} must define parts")

    def autocast(self) -> autocast:
        """What the forward pass runs in."""
        return autocast("cpu", dtype=self.precision, enabled=self.precision is not None)

    def products(self) -> AbstractContextManager[None]:
        """What forward and backward pass run in."""
        return precision_of_products.in_this_thread(self.matmul_precision)

    def update(self, step: int, rate: float) -> tuple[float, float | None]:
        """Update the weights at that learning rate; gives loss and norm. A TrainingError leaves them as they were.

        The norm is None where float16 overflowed, and the step was left out.
        """
        if not self.model.training:
            self.model.train()
        try:
            with self.products(), quiet():  # what is not finite is found and told in one place
                loss, norm = self._gradients(step)
            for group in self.optimizer.param_groups:
                group["lr"] = rate
            with self.undisturbed():
                self.scaler.step(self.optimizer)
                self.scaler.update()
        finally:
            self.optimizer.zero_grad(set_to_none=True)
        return loss, norm

    def _gradients(self, step: int) -> tuple[float, float | None]:
        """Loss and norm of the gradients, which are then clipped."""
        parts = [Part(self.lowered(part.loss), part.targets) for part in self.parts()]
        value = accumulate_gradients(parts, self.scaler)
        if value is None:
            raise TrainingError(f"step {step}: no target of this batch counts, so there is nothing to learn from it")
        if not math.isfinite(value):
            raise TrainingError(f"step {step}: the loss is {value}{self._first_not_finite()}; {ADVICE}")
        self.scaler.unscale_(self.optimizer)
        norm = clip_grad_norm_(self.model.parameters(), self.gradient_clip or math.inf).item()
        if not math.isfinite(norm):
            if self.scaler.is_enabled() and self.scaler.get_scale() > 1.0:
                return value, None  # the scaler leaves this step out, and halves the scale
            culprit = not_finite((name, p.grad) for name, p in self.model.named_parameters() if p.grad is not None)
            raise TrainingError(f"step {step}: the gradient of {culprit or 'the model'} is not finite; {ADVICE}")
        return value, norm

    def lowered(self, loss: MeanLoss) -> MeanLoss:
        """The loss, computed in this loop's precision."""

        def run() -> Tensor:
            with self.autocast():
                return loss()

        return run

    def _first_not_finite(self) -> str:
        culprit = not_finite(self.model.named_parameters())
        if culprit:
            return f" because the parameter {culprit} is not finite"
        largest = {name: float(np.abs(p.array).max(initial=0.0)) for name, p in self.model.named_parameters()}
        name = max(largest, key=largest.__getitem__)
        return f"; all parameters are finite, but {name} has grown to {largest[name]:.3g}"

    # --- stopping and going on ------------------------------------------------------------------------------------

    def state(self) -> TrainerState:
        """A copy of all that `load_state` needs; a TrainingError when a weight is not finite."""
        culprit = not_finite(self.model.named_parameters())
        if culprit:
            raise TrainingError(f"after step {self.step}: the parameter {culprit} is not finite; {ADVICE}")
        return self.state_as_it_is()

    def state_as_it_is(self) -> TrainerState:
        """The same, whatever the weights hold."""
        state = self.optimizer.state_dict()["state"]
        moments = {
            f"{name}.{key}": np.array(value.array, order="C")
            for name, number in self._numbers().items()
            for key, value in state.get(number, {}).items()
        }
        return TrainerState(weights_of(self.model), moments, self.progress())

    def load_state(self, state: TrainerState) -> None:
        """Go on from there, bit for bit; ValueError, KeyError or RuntimeError if it belongs to another model."""
        self.model.load_state_dict({name: from_numpy(array) for name, array in state.weights.items()})
        numbers, shapes = self._numbers(), {name: p.shape for name, p in self.model.named_parameters()}
        moments: dict[int, dict[str, Tensor]] = {}
        for name, array in state.optimizer.items():
            parameter, _, key = name.rpartition(".")
            if array.ndim and array.shape != shapes[parameter]:
                raise ValueError(f"{name} must have the shape {tuple(shapes[parameter])}, got {array.shape}")
            moments.setdefault(numbers[parameter], {})[key] = from_numpy(array)
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": moments, "param_groups": groups})
        self.optimizer.zero_grad(set_to_none=True)
        self.load_progress(state.progress)

    def progress(self) -> dict[str, Any]:
        """Numbers and strings of the state; a subclass adds its own."""
        return {
            "step": self.step,
            "seconds": self.seconds,
            "random": base64.b64encode(random.get_rng_state().numpy().tobytes()).decode("ascii"),
            **({"scaler": self.scaler.state_dict()} if self.scaler.is_enabled() else {}),
        }

    def load_progress(self, progress: dict[str, Any]) -> None:
        random.set_rng_state(np.frombuffer(base64.b64decode(progress["random"]), np.uint8).copy())
        self.step, self.seconds = int(progress["step"]), float(progress["seconds"])
        if not 0.0 <= self.seconds < math.inf:
            raise ValueError(f"seconds must be at least 0 and finite, got {self.seconds}")
        if self.scaler.is_enabled() and progress.get("scaler"):  # none, if the run began in another precision
            self.scaler.load_state_dict(progress["scaler"])

    def _numbers(self) -> dict[str, int]:
        """The number that the optimiser's state_dict gives to each parameter."""
        order = [id(p) for group in self.optimizer.param_groups for p in group["params"]]
        return {name: order.index(id(p)) for name, p in self.model.named_parameters() if id(p) in order}


def weights_of(model: Any) -> Arrays:
    """A copy of the weights, by name; `state_dict` would go on changing with them."""
    return {name: np.array(tensor.array, order="C") for name, tensor in model.state_dict().items()}


def not_finite(tensors: Iterable[tuple[str, Any]]) -> str | None:
    """The name of the first tensor that holds NaN or an infinity."""
    return next((name for name, tensor in tensors if not np.isfinite(tensor.array).all()), None)
