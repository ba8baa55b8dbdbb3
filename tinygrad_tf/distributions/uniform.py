"""The uniform distribution."""

from __future__ import annotations

import math
from typing import Any

from tinygrad_tf import creation
from tinygrad_tf.distributions import constraints
from tinygrad_tf.distributions.distribution import Distribution, of_support, tensors
from tinygrad_tf.tensor import Tensor


class Uniform(Distribution):
    """The uniform distribution on [low, high)."""

    shown = ("low", "high")

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None):
        self.low, self.high = tensors(low, high)
        super().__init__(self.low.shape, (), validate_args)
        if validate_args is not False:
            self._check("low", self.low < self.high, "below high")

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.low + creation.rand(self._extended(sample_shape), dtype=self.low.dtype) * (self.high - self.low)

    @property
    def support(self) -> constraints.Constraint:
        return constraints.interval(self.low, self.high)

    @of_support
    def log_prob(self, value: Tensor) -> Tensor:
        inside = ((value >= self.low) & (value < self.high)).to(self.low.dtype)
        return inside.log() - (self.high - self.low).log()

    @of_support
    def cdf(self, value: Tensor) -> Tensor:
        return ((value - self.low) / (self.high - self.low)).clamp(0, 1)

    def icdf(self, value: Tensor) -> Tensor:
        return value * (self.high - self.low) + self.low

    @property
    def mode(self) -> Tensor:
        return self.high * math.nan

    def entropy(self) -> Tensor:
        return (self.high - self.low).log()

    @property
    def mean(self) -> Tensor:
        return (self.low + self.high) / 2

    @property
    def variance(self) -> Tensor:
        return (self.high - self.low) ** 2 / 12
