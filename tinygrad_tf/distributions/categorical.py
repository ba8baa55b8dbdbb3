"""One of several."""

from __future__ import annotations

import math
from typing import Any

from tinygrad_tf import creation
from tinygrad_tf.compositions import broadcast_tensors, xlogy
from tinygrad_tf.distributions import constraints
from tinygrad_tf.distributions.distribution import Distribution, either, eps
from tinygrad_tf.tensor import Tensor


class Categorical(Distribution):
    """One of the numbers 0 to n - 1, with probabilities proportional to `probs`, or softmax(logits); (..., n).

    >>> import tinygrad_tf as tg
    >>> Categorical(tg.tensor([1.0, 3.0])).log_prob(tg.tensor(1)).exp()
    tensor(0.7500)
    """

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None):
        either("Categorical", probs=probs, logits=logits)
        given = probs if probs is not None else logits
        if not isinstance(given, Tensor) or not given.ndim:
            raise ValueError(f"Categorical: needs a tensor (..., n), got {given!r:.60}")
        if probs is not None:
            self.shown, self.probs = ("probs",), probs
            if validate_args is not False:
                self._check("probs", (probs >= 0) & (probs.sum(-1, keepdim=True) > 0), "weights from 0 on, not all 0")
            self.probs = probs / probs.sum(-1, keepdim=True)
            self.logits = self.probs.clamp(eps(probs), 1 - eps(probs)).log()
        else:
            self.shown, self.logits = ("logits",), logits - logits.logsumexp(-1, keepdim=True)
            self.probs = self.logits.softmax(-1)
        super().__init__(self.probs.shape[:-1], (), validate_args)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        rows = self.probs.detach().reshape(-1, self.probs.shape[-1])
        drawn = rows.multinomial(math.prod(tuple(sample_shape)), replacement=True)
        return drawn.T.reshape(self._extended(sample_shape))

    @property
    def support(self) -> constraints.Constraint:
        return constraints.integer_interval(0, self.probs.shape[-1] - 1)

    def log_prob(self, value: Tensor) -> Tensor:
        count = self.logits.shape[-1]
        if not bool(((value >= 0) & (value < count)).all()):
            raise ValueError(f"Categorical: value must be from 0 to {count - 1}, got {value.tolist()!s:.60}")
        places, logits = broadcast_tensors(value.long().unsqueeze(-1), self.logits)
        return logits.gather(-1, places[..., :1]).squeeze(-1)

    @property
    def mean(self) -> Tensor:
        """NaN: numbers of classes are names."""
        return creation.full(self.batch_shape, math.nan, dtype=self.probs.dtype)

    @property
    def mode(self) -> Tensor:
        return self.probs.argmax(-1)

    @property
    def variance(self) -> Tensor:
        return self.mean

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return self._listed(creation.arange(self.probs.shape[-1]), expand)

    def entropy(self) -> Tensor:
        return -xlogy(self.probs, self.logits.exp()).sum(-1)
