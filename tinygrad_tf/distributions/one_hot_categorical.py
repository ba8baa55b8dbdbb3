"""One of several, as a vector with a 1 in its place."""

from __future__ import annotations

from typing import Any

from tinygrad_tf import creation
from tinygrad_tf.distributions import constraints
from tinygrad_tf.distributions.categorical import Categorical
from tinygrad_tf.distributions.distribution import Distribution, of_support
from tinygrad_tf.nn import functional as F
from tinygrad_tf.tensor import Tensor


class OneHotCategorical(Distribution):
    """A Categorical whose samples are vectors (..., n) with one 1."""

    support = constraints.one_hot

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None):
        self._categorical = Categorical(probs, logits, validate_args)
        self.probs, self.logits, self.shown = self._categorical.probs, self._categorical.logits, self._categorical.shown
        super().__init__(self._categorical.batch_shape, self.probs.shape[-1:], validate_args)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        return F.one_hot(self._categorical.sample(sample_shape), self.probs.shape[-1]).to(self.probs.dtype)

    @of_support
    def log_prob(self, value: Tensor) -> Tensor:
        return self._categorical.log_prob(value.argmax(-1))

    def entropy(self) -> Tensor:
        return self._categorical.entropy()

    @property
    def mode(self) -> Tensor:
        return F.one_hot(self.probs.argmax(-1), self.probs.shape[-1]).to(self.probs.dtype)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        n = self.probs.shape[-1]
        rows = creation.eye(n, dtype=self.probs.dtype).reshape(n, *[1] * len(self.batch_shape), n)
        return rows.expand(n, *self.batch_shape, n) if expand else rows

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """OneHotCategorical, whose rsample() has the gradient of its probabilities (Bengio et al., 2013).

    >>> import tinygrad_tf as tg
    >>> logits = tg.zeros(3, requires_grad=True)
    >>> OneHotCategoricalStraightThrough(logits=logits).rsample()[0].backward()
    >>> logits.grad
    tensor([ 0.2222, -0.1111, -0.1111])
    """

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.sample(sample_shape) + (self.probs - self.probs.detach())
