"""How often each of several things comes."""

from __future__ import annotations

from typing import Any

from tinygrad_tf import creation
from tinygrad_tf.compositions import broadcast_tensors
from tinygrad_tf.distributions.categorical import Categorical
from tinygrad_tf.distributions.counts import Binomial
from tinygrad_tf.distributions.distribution import Distribution
from tinygrad_tf.functions import where
from tinygrad_tf.tensor import Tensor


class Multinomial(Distribution):
    """Counts (..., n) of `total_count` draws from Categorical(probs) or Categorical(logits=logits).

    >>> import tinygrad_tf as tg
    >>> Multinomial(2, tg.tensor([0.5, 0.5])).log_prob(tg.tensor([1.0, 1.0])).exp()
    tensor(0.5000)
    """

    def __init__(self, total_count: int = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None):
        if not isinstance(total_count, int) or total_count < 0:
            raise NotImplementedError(f"Multinomial: total_count must be a whole number from 0 on, got {total_count!r}")
        self.total_count = total_count
        self._categorical = Categorical(probs, logits, validate_args)
        self.probs, self.logits, self.shown = self._categorical.probs, self._categorical.logits, ("probs",)
        super().__init__(self._categorical.batch_shape, self.probs.shape[-1:], validate_args)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        drawn = self._categorical.sample((self.total_count, *tuple(sample_shape))).movedim(0, -1)
        counts = creation.zeros(self._extended(sample_shape), dtype=self.probs.dtype)
        return counts.scatter_add_(-1, drawn, creation.ones(drawn.shape, dtype=counts.dtype))

    def log_prob(self, value: Tensor) -> Tensor:
        if not bool((value.sum(-1) == self.total_count).all()):
            raise ValueError(
                f"Multinomial: value must be counts that add up to {self.total_count}, got {value.tolist()!s:.60}"
            )
        logits, value = broadcast_tensors(self.logits, value)
        powers = where(value == 0, 0.0, logits) * value
        return (value.sum(-1) + 1).lgamma() - (value + 1).lgamma().sum(-1) + powers.sum(-1)

    def entropy(self) -> Tensor:
        """That of the draws in their order, less what the order says."""
        n = self.total_count
        counts = creation.arange(1, n + 1, dtype=self.probs.dtype).reshape(-1, *[1] * self.probs.ndim)
        chance = Binomial(n, self.probs, validate_args=False).log_prob(counts).exp()
        orders = creation.tensor(float(n + 1), dtype=self.probs.dtype).lgamma()
        return n * self._categorical.entropy() - orders + (chance * (counts + 1).lgamma()).sum((0, -1))

    @property
    def mean(self) -> Tensor:
        return self.probs * self.total_count

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)
