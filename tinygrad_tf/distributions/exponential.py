"""The exponential distribution."""

from __future__ import annotations

from typing import Any

from tinygrad_tf import creation
from tinygrad_tf.distributions import constraints
from tinygrad_tf.distributions.distribution import Distribution, of_support, tensors
from tinygrad_tf.tensor import Tensor


class Exponential(Distribution):
    """Density rate exp(-rate x) for x from 0 on: waiting times."""

    support = constraints.nonnegative
    shown = ("rate",)

    def __init__(self, rate: Any, validate_args: bool | None = None):
        (self.rate,) = tensors(rate)
        super().__init__(self.rate.shape, (), validate_args)
        if validate_args is not False:
            self._check("rate", self.rate > 0, "positive")

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return creation.zeros(self._extended(sample_shape), dtype=self.rate.dtype).exponential_() / self.rate

    @of_support
    def log_prob(self, value: Tensor) -> Tensor:
        return self.rate.log() - self.rate * value

    @property
    def mode(self) -> Tensor:
        return creation.zeros_like(self.rate)

    @of_support
    def cdf(self, value: Tensor) -> Tensor:
        return 1 - (-self.rate * value).exp()

    def icdf(self, value: Tensor) -> Tensor:
        return -(-value).log1p() / self.rate

    def entropy(self) -> Tensor:
        return 1 - self.rate.log()

    @property
    def mean(self) -> Tensor:
        return self.rate.reciprocal()

    @property
    def variance(self) -> Tensor:
        return self.rate**-2
