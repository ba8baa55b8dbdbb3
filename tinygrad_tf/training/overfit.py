"""Overfit one batch: the first thing to try with a model that does not learn.

A model that cannot learn a single batch by heart has a fault (in its forward pass, its gradients, its targets or its
learning rate), and no amount of data or time will help. It costs seconds. What there is to learn has a floor, though:
where two texts begin alike and go on differently, nobody can know which one it is.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tinygrad_tf._quiet import quiet
from tinygrad_tf.creation import from_numpy
from tinygrad_tf.nn.utils import clip_grad_norm_
from tinygrad_tf.optim import Adam
from tinygrad_tf.tensor import Tensor
from tinygrad_tf.training.loop import weights_of
from tinygrad_tf.utils.errors import InputError
from tinygrad_tf.utils.modes import evaluating

MARGIN = 0.05  # above the floor, in nats


@dataclass(frozen=True)
class Overfit:
    """What came of it."""

    passed: bool  # the loss came within `MARGIN` of the floor
    losses: list[float]  # of each step, the last one after the last update
    floor: float  # the lowest loss that anything can reach on this batch
    without_gradient: list[str]  # parameters that no step gave a gradient other than 0
    advice: str  # what to look at, in one line; empty if it passed

    def __str__(self) -> str:
        steps = len(self.losses) - 1
        told = f"{self.losses[0]:.3f} -> {self.losses[-1]:.3f} in {steps} steps (at best {self.floor:.3f})"
        return f"learned by heart: loss {told}" if self.passed else f"not learned: loss {told}; {self.advice}"


def overfit_one_batch(
    model: Any, loss: Callable[[], Tensor], *, steps: int = 200, learning_rate: float = 3e-3, floor: float = 0.0
) -> Overfit:
    """Train `model` on the one batch that `loss` computes the loss of, with Adam, without dropout.

    floor: the lowest loss that can be reached, as `lowest_loss` gives it. The model has its own weights again
    afterwards.

    >>> from tinygrad_tf import nn, tensor
    >>> model, x, y = nn.Linear(1, 1), tensor([[1.0], [2.0]]), tensor([[3.0], [5.0]])
    >>> overfit_one_batch(model, lambda: (model(x) - y).square().mean(), learning_rate=0.1).passed
    True
    """
    if steps < 1:
        raise InputError(f"overfit_one_batch: steps must be at least 1, got {steps}")
    before = weights_of(model)
    named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    silent = {name for name, _ in named}
    losses: list[float] = []
    optimizer = Adam([p for _, p in named], lr=learning_rate)
    try:
        with evaluating(model), quiet():
            for step in range(steps + 1):
                value = loss()
                losses.append(value.item())
                if step == steps or not math.isfinite(losses[-1]) or losses[-1] < floor + MARGIN / 5:
                    break
                optimizer.zero_grad()
                value.backward()
                silent -= {name for name, p in named if p.grad is not None and p.grad.array.any()}
                clip_grad_norm_([p for _, p in named], 1.0)
                optimizer.step()
    finally:
        optimizer.zero_grad()
        _put_back(model, before)
    passed = math.isfinite(losses[-1]) and losses[-1] < floor + MARGIN
    without = [name for name, _ in named if name in silent]
    return Overfit(passed, losses, floor, without, "" if passed else _advice(losses, floor, without, learning_rate))


def _put_back(model: Any, weights: dict[str, NDArray[Any]]) -> None:
    model.load_state_dict({name: from_numpy(array) for name, array in weights.items()})


def _advice(losses: list[float], floor: float, silent: list[str], rate: float) -> str:
    """The likeliest cause of a loss that stays too high."""
    first, last, lowest = losses[0], losses[-1], min(losses)
    if not math.isfinite(first):
        return "the loss is not finite before the first step: look at the inputs, the masks and the initial weights"
    if not math.isfinite(last) or last > 1.5 * first:
        return f"it diverges: lower the learning rate ({rate:g}), and check the gradients with gradcheck"
    if silent:
        names = ", ".join(silent[:3]) + (f" and {len(silent) - 3} more" if len(silent) > 3 else "")
        return f"no gradient reaches {names}: look for a detach, a mask that hides everything, or an unused part"
    if first - lowest < 0.1 * (first - floor):
        return (
            f"it hardly moves: try a higher learning rate than {rate:g}; else the inputs may not reach the output, "
            "or the targets may not belong to them (a shift by one, shuffled rows)"
        )
    if last < losses[len(losses) // 2] - 0.02:
        return f"it still falls: give it more than {len(losses) - 1} steps, or a learning rate above {rate:g}"
    return "it stops half-way: too small a model for the batch, or a mask or padding that hides what it needs"


def lowest_loss(inputs: NDArray[Any], targets: NDArray[Any]) -> float:
    """The lowest mean cross-entropy on targets (B, T) of a model that sees the inputs (B, T) up to each of them.

    Equal beginnings that are followed by different targets cannot be told apart: the best is to know how often each
    one comes, and the loss is then the entropy of that.

    >>> round(lowest_loss(np.array([[1, 2], [1, 3]]), np.array([[2, 4], [3, 4]])), 4)  # half of it is a coin toss
    0.3466
    """
    followers: dict[bytes, Counter[int]] = defaultdict(Counter)
    for row, wanted in zip(np.ascontiguousarray(inputs), targets, strict=True):
        for t, target in enumerate(wanted.tolist()):
            followers[row[: t + 1].tobytes()][target] += 1
    total = 0.0
    for counts in followers.values():
        size = sum(counts.values())
        total -= sum(n * math.log(n / size) for n in counts.values())
    return total / targets.size + 0.0
