"""One of several, made soft, so that gradients reach the probabilities."""

from __future__ import annotations

import math
from typing import Any

from tinygrad_tf import creation
from tinygrad_tf.distributions.categorical import Categorical
from tinygrad_tf.distributions.distribution import Distribution, eps
from tinygrad_tf.tensor import Tensor


class RelaxedOneHotCategorical(Distribution):
    """softmax((logits + Gumbel noise) / temperature), (..., n): near a vertex of the simplex if it is cold.

    Maddison et al. (2017), "The Concrete Distribution", equation 10 for its density; Jang et al. (2017).

    >>> import tinygrad_tf as tg
    >>> soft = RelaxedOneHotCategorical(0.5, logits=tg.zeros(4, 3)).rsample()
    >>> soft.shape, soft.sum(-1).allclose(tg.ones(4))
    (torch.Size([4, 3]), True)
    """

    def __init__(self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None):
        self._categorical = Categorical(probs, logits, validate_args)
        self.probs, self.logits = self._categorical.probs, self._categorical.logits
        self.temperature = temperature
        super().__init__(self.probs.shape[:-1], self.probs.shape[-1:])

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        u = creation.rand(self._extended(sample_shape), dtype=self.logits.dtype)
        noise = -(-u.clamp(eps(u), 1 - eps(u)).log()).log()
        return ((self.logits + noise) / self.temperature).softmax(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        count, x = self.logits.shape[-1], value.log()
        scores = self.logits - x * self.temperature
        temperature = self.temperature if isinstance(self.temperature, Tensor) else creation.tensor(self.temperature)
        constant = math.lgamma(count) + (count - 1) * temperature.to(x.dtype).log()
        return (scores - scores.logsumexp(-1, keepdim=True)).sum(-1) + constant - x.sum(-1)
