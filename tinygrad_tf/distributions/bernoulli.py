"""0 or 1."""

from __future__ import annotations

import math
from typing import Any

from tinygrad_tf import creation
from tinygrad_tf.compositions import broadcast_tensors
from tinygrad_tf.distributions import constraints
from tinygrad_tf.distributions.distribution import OfChance
from tinygrad_tf.functions import where
from tinygrad_tf.nn import functional as F
from tinygrad_tf.tensor import Tensor


class Bernoulli(OfChance):
    """1 with probability `probs`, or sigmoid(logits), else 0."""

    support = constraints.boolean

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None):
        super().__init__(probs, logits, validate_args)
        self._checks_values = validate_args is not False

    def sample(self, sample_shape: Any = ()) -> Tensor:
        return self.probs.detach().expand(self._extended(sample_shape)).bernoulli()

    def log_prob(self, value: Tensor) -> Tensor:
        if self._checks_values and not bool(((value == 0) | (value == 1)).all()):
            raise ValueError(f"Bernoulli: value must be 0 or 1 (see validate_args), got {value.tolist()!s:.60}")
        logits, value = broadcast_tensors(self.logits, value)
        return -F.binary_cross_entropy_with_logits(logits, value, reduction="none")

    @property
    def mode(self) -> Tensor:
        """What is likelier; NaN where both are as likely."""
        return where(self.probs == 0.5, math.nan, (self.probs >= 0.5).to(self.probs.dtype))

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return self._listed(creation.arange(2, dtype=self.probs.dtype), expand)

    def entropy(self) -> Tensor:
        return F.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)
