"""Distributions of counts: Poisson, Binomial, NegativeBinomial."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinygrad_tf import creation, random
from tinygrad_tf._rejection import binomial, drawn, poisson
from tinygrad_tf.distributions import constraints
from tinygrad_tf.distributions.distribution import Distribution, OfChance, either, of_support, tensors
from tinygrad_tf.distributions.gamma import Gamma
from tinygrad_tf.engine import make
from tinygrad_tf.functions import where
from tinygrad_tf.nn import functional as F
from tinygrad_tf.tensor import Tensor


def _sampled(draw: Any, *parameters: Tensor) -> Tensor:
    arrays = [p.array.astype(np.float64) for p in parameters]
    found: Tensor = make(drawn(draw, random.default_generator, *arrays).astype(parameters[0].array.dtype))
    return found


class Poisson(Distribution):
    """How many events come, when `rate` are expected: rate^k exp(-rate) / k!.

    >>> import tinygrad_tf as tg
    >>> Poisson(2.0).log_prob(tg.tensor(2.0)).exp()
    tensor(0.2707)
    """

    support = constraints.nonnegative_integer
    shown = ("rate",)

    def __init__(self, rate: Any, validate_args: bool | None = None):
        (self.rate,) = tensors(rate)
        super().__init__(self.rate.shape, (), validate_args)
        if validate_args is not False:
            self._check("rate", self.rate >= 0, "0 or positive")

    def sample(self, sample_shape: Any = ()) -> Tensor:
        return _sampled(poisson, self.rate.detach().expand(self._extended(sample_shape)))

    @of_support
    def log_prob(self, value: Tensor) -> Tensor:
        return value.xlogy(self.rate) - self.rate - (value + 1).lgamma()

    @property
    def mean(self) -> Tensor:
        return self.rate

    @property
    def mode(self) -> Tensor:
        return self.rate.floor()

    @property
    def variance(self) -> Tensor:
        return self.rate


class _OfTries(OfChance):
    """A count `total_count` beside the probability of OfChance."""

    def __init__(self, total_count: Any, probs: Any, logits: Any, validate_args: bool | None):
        either(type(self).__name__, probs=probs, logits=logits)
        (given,) = tensors(logits if probs is None else probs)
        count = total_count.to(given.dtype) if isinstance(total_count, Tensor) else float(total_count)
        self.total_count, given = tensors(count, given) if isinstance(count, Tensor) else tensors(given, count)[::-1]
        super().__init__(given if logits is None else None, given if probs is None else None, validate_args)
        self.shown = ("total_count", *self.shown)


class Binomial(_OfTries):
    """How many of `total_count` tries succeed, each with probability `probs`, or sigmoid(logits).

    >>> import tinygrad_tf as tg
    >>> Binomial(4, 0.5).log_prob(tg.tensor([0.0, 2.0])).exp()
    tensor([0.0625, 0.3750])
    """

    def __init__(self, total_count: Any = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None):
        super().__init__(total_count, probs, logits, validate_args)
        if validate_args is not False:
            whole = (self.total_count >= 0) & (self.total_count == self.total_count.floor())
            self._check("total_count", whole, "a whole number from 0 on")

    def sample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended(sample_shape)
        return _sampled(binomial, self.total_count.detach().expand(shape), self.probs.detach().expand(shape))

    @property
    def support(self) -> constraints.Constraint:
        return constraints.integer_interval(0, self.total_count)

    @of_support
    def log_prob(self, value: Tensor) -> Tensor:
        n = self.total_count
        ways = (n + 1).lgamma() - (value + 1).lgamma() - (n - value + 1).lgamma()
        return ways + value * self.logits - n * F.softplus(self.logits, threshold=1e300)

    @property
    def mode(self) -> Tensor:
        return ((self.total_count + 1) * self.probs).floor().minimum(self.total_count)

    def entropy(self) -> Tensor:
        most = int(self.total_count.max().item())
        if int(self.total_count.min().item()) != most:
            raise NotImplementedError("Binomial: entropy needs the same total_count everywhere; take one at a time")
        values = creation.arange(most + 1, dtype=self.probs.dtype).reshape(-1, *[1] * len(self.batch_shape))
        log_prob = self.log_prob(values)
        return -(log_prob.exp() * log_prob).sum(0)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.probs

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)


class NegativeBinomial(_OfTries):
    """How many tries succeed, each with probability `probs`, before `total_count` have failed.

    >>> import tinygrad_tf as tg
    >>> NegativeBinomial(2.0, 0.5).log_prob(tg.tensor(1.0)).exp()
    tensor(0.2500)
    """

    support = constraints.nonnegative_integer

    def __init__(self, total_count: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None):
        super().__init__(total_count, probs, logits, validate_args)
        if validate_args is not False:
            self._check("total_count", self.total_count >= 0, "0 or positive")

    def _check_probs(self) -> None:
        self._check("probs", (self.probs >= 0) & (self.probs < 1), "in [0, 1)")

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """A Poisson number, whose rate is of Gamma(total_count, exp(-logits))."""
        rate = Gamma(self.total_count.detach(), (-self.logits.detach()).exp(), False).sample(sample_shape)
        return _sampled(poisson, rate)

    @of_support
    def log_prob(self, value: Tensor) -> Tensor:
        n = self.total_count
        chances = n * F.logsigmoid(-self.logits) + value * F.logsigmoid(self.logits)
        nothing = n + value == 0  # where two infinities would meet
        ways = (where(nothing, 1.0, n + value)).lgamma() - (1.0 + value).lgamma() - where(nothing, 1.0, n).lgamma()
        return chances + ways

    @property
    def mode(self) -> Tensor:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.logits.exp()

    @property
    def variance(self) -> Tensor:
        return self.mean / (-self.logits).sigmoid()
