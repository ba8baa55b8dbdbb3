"""Stop when it gets no better, and go back to where it was best."""

from __future__ import annotations

import math
from typing import Any

from tinygrad_tf.creation import from_numpy
from tinygrad_tf.training.loop import Arrays, weights_of
from tinygrad_tf.utils.errors import InputError


class EarlyStopping:
    """Watches a loss: after `patience` evaluations in a row that do not lower it by more than `min_delta` it is time.

    A copy of the best weights is kept; `restore` puts them back. NaN is no improvement.

    >>> from tinygrad_tf import nn
    >>> model, stopping = nn.Linear(1, 1), EarlyStopping(patience=2)
    >>> [stopping.step(loss, model) for loss in (3.0, 2.0, 2.5, 2.0)]
    [False, False, False, True]
    >>> stopping.best
    2.0
    """

    def __init__(self, patience: int, min_delta: float = 0.0):
        if patience < 1:
            raise InputError(f"patience must be at least 1, got {patience}")
        if not 0.0 <= min_delta < math.inf:
            raise InputError(f"min_delta must be at least 0, got {min_delta}")
        self.patience, self.min_delta = patience, min_delta
        self.best, self.reference, self.waited = math.inf, math.inf, 0
        self.weights: Arrays | None = None

    def step(self, loss: float, model: Any) -> bool:
        """Take an evaluation in; True if it is time to stop."""
        if loss < self.best:
            self.best, self.weights = loss, weights_of(model)
        if loss < self.reference - self.min_delta:
            self.reference, self.waited = loss, 0
        else:
            self.waited += 1
        return self.waited >= self.patience

    def restore(self, model: Any) -> None:
        """Give the model its best weights back; nothing happens where there are none yet."""
        if self.weights is not None:
            model.load_state_dict({name: from_numpy(array.copy()) for name, array in self.weights.items()})

    def state(self) -> dict[str, Any]:
        """Numbers for JSON; the weights are not among them."""
        numbers = {"best": self.best, "reference": self.reference}
        return {name: value for name, value in numbers.items() if math.isfinite(value)} | {"waited": self.waited}

    def load_state(self, state: dict[str, Any]) -> None:
        self.best, self.reference = (float(state.get(name, math.inf)) for name in ("best", "reference"))
        self.waited = int(state["waited"])
