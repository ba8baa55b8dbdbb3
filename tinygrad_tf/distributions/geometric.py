"""How often something fails before it succeeds."""

from __future__ import annotations

from typing import Any

from tinygrad_tf import creation
from tinygrad_tf.distributions import constraints
from tinygrad_tf.distributions.distribution import OfChance, of_support, tiny
from tinygrad_tf.nn import functional as F
from tinygrad_tf.tensor import Tensor


class Geometric(OfChance):
    """(1 - probs)^k probs for k from 0 on: the failures before the first success.

    >>> import tinygrad_tf as tg
    >>> Geometric(0.5).log_prob(tg.tensor(1.0)).exp()
    tensor(0.2500)
    """

    support = constraints.nonnegative_integer

    def _check_probs(self) -> None:
        self._check("probs", (self.probs > 0) & (self.probs <= 1), "in (0, 1]")

    def sample(self, sample_shape: Any = ()) -> Tensor:
        probs = self.probs.detach()
        u = creation.rand(self._extended(sample_shape), dtype=probs.dtype)
        return (u.clamp(min=tiny(probs)).log() / (-probs).log1p()).floor()

    @of_support
    def log_prob(self, value: Tensor) -> Tensor:
        return value * (-self.probs).log1p() + self.probs.log()

    @property
    def mode(self) -> Tensor:
        return creation.zeros_like(self.probs)

    def entropy(self) -> Tensor:
        return F.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none") / self.probs

    @property
    def mean(self) -> Tensor:
        return self.probs.reciprocal() - 1

    @property
    def variance(self) -> Tensor:
        return (self.probs.reciprocal() - 1) / self.probs
