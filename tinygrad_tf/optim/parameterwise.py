"""Optimisers that look at one parameter at a time: what they share, and what each of them says."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from tinygrad_tf.engine import make
from tinygrad_tf.optim.optimizer import Optimizer, gradient_of, refuse_betas, refuse_negative, ways_of
from tinygrad_tf.tensor import Tensor


class Parameterwise(Optimizer):
    """Checks, state, weight decay, and the walk over the parameters; a class says how one moves: `move`."""

    averages: tuple[str, ...] = ()  # the arrays of a parameter's state, which start at zero

    def __init__(self, params: Iterable[Any], settings: dict[str, Any], **ways: bool | None):
        refuse_negative(**{name: settings[name] for name in ("lr", "weight_decay", "eps")})
        if "betas" in settings:
            refuse_betas(type(self).__name__, settings["betas"])
        super().__init__(params, {**settings, **ways_of(**ways)})

    def update_group(self, group: dict[str, Any], params: list[Tensor]) -> None:
        for p in params:
            state = self.state_of(group, p)
            state["step"].array += 1
            decay, lr, decoupled = group["weight_decay"], float(group["lr"]), group.get("decoupled_weight_decay")
            g = gradient_of(p, group, 0.0 if decoupled else decay)
            if decoupled:
                p.array[...] *= 1.0 - lr * decay
            p.array[...] -= self.move(group, state, g, lr, float(state["step"].array))
            p.storage.written()

    def state_of(self, group: dict[str, Any], p: Tensor) -> dict[str, Any]:
        """The state of a parameter, which begins here if it has none."""
        state = self.state[p]
        if not state:
            state["step"] = make(np.zeros((), np.float32))
            state.update(self.start(group, p))
        return state

    def start(self, group: dict[str, Any], p: Tensor) -> dict[str, Tensor]:
        """The state of a parameter before its first step."""
        return {name: make(np.zeros_like(p.array)) for name in self.averages}

    def move(self, group: dict[str, Any], state: dict[str, Any], g: np.ndarray, lr: float, step: float) -> np.ndarray:
        """What is taken off a parameter with the gradient g, in step number `step` (from 1 on)."""
        raise NotImplementedError


def towards(average: Tensor, value: np.ndarray, keep: float) -> np.ndarray:
    """A running mean, moved towards a new value in its own memory."""
    average.array *= keep
    average.array += value * (1.0 - keep)
    return average.array
