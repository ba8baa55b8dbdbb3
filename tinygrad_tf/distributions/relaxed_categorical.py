"""One of several, or of two, made soft, so that gradients reach the probabilities."""

from __future__ import annotations

import math
from typing import Any

from tinygrad_tf import creation
from tinygrad_tf.distributions.categorical import Categorical
from tinygrad_tf.distributions.distribution import Distribution, OfChance, eps
from tinygrad_tf.nn import functional as F
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
        super().__init__(self.probs.shape[:-1], self.probs.shape[-1:], validate_args)

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


class RelaxedBernoulli(OfChance):
    """sigmoid((logits + logistic noise) / temperature): near 0 or 1 if it is cold (Maddison et al., 2017, appendix B).

    >>> import tinygrad_tf as tg
    >>> RelaxedBernoulli(0.5, probs=tg.tensor([0.2, 0.7])).rsample().shape
    torch.Size([2])
    """

    def __init__(self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None):
        super().__init__(probs, logits, validate_args)
        self.temperature = temperature

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        u = creation.rand(self._extended(sample_shape), dtype=self.logits.dtype)
        u = u.clamp(eps(u), 1 - eps(u))
        return ((u.log() - (-u).log1p() + self.logits) / self.temperature).sigmoid()

    def log_prob(self, value: Tensor) -> Tensor:
        temperature = self.temperature if isinstance(self.temperature, Tensor) else creation.tensor(self.temperature)
        away = self.logits - value.logit() * self.temperature
        density = temperature.to(value.dtype).log() + away - 2.0 * F.softplus(away)
        return density - value.log() - (-value).log1p()
