"""0 or 1."""

from __future__ import annotations

from typing import Any

from tinygrad_tf.compositions import broadcast_tensors
from tinygrad_tf.distributions.distribution import Distribution, either, tensors, tiny
from tinygrad_tf.nn import functional as F
from tinygrad_tf.tensor import Tensor


class Bernoulli(Distribution):
    """1 with probability `probs`, or sigmoid(logits), else 0."""

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None):
        either("Bernoulli", probs=probs, logits=logits)
        if probs is not None:
            (self.probs,) = tensors(probs)
            self.shown, self.logits = ("probs",), self.probs.clamp(tiny(self.probs), 1 - tiny(self.probs)).logit()
            if validate_args is not False:
                self._check("probs", (self.probs >= 0) & (self.probs <= 1), "in [0, 1]")
        else:
            (self.logits,) = tensors(logits)
            self.shown, self.probs = ("logits",), self.logits.sigmoid()
        self._checks_values = validate_args is not False
        super().__init__(self.probs.shape)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        return self.probs.detach().expand(self._extended(sample_shape)).bernoulli()

    def log_prob(self, value: Tensor) -> Tensor:
        if self._checks_values and not bool(((value == 0) | (value == 1)).all()):
            raise ValueError(f"Bernoulli: value must be 0 or 1 (see validate_args), got {value.tolist()!s:.60}")
        logits, value = broadcast_tensors(self.logits, value)
        return -F.binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self) -> Tensor:
        return F.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)
