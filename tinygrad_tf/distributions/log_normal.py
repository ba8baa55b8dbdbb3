"""The distribution of a number whose logarithm is normal."""

from __future__ import annotations

from typing import Any

from tinygrad_tf.distributions import constraints
from tinygrad_tf.distributions.distribution import Distribution, of_support
from tinygrad_tf.distributions.normal import Normal
from tinygrad_tf.tensor import Tensor


class LogNormal(Distribution):
    """exp(x) for x normal with mean `loc` and standard deviation `scale`.

    >>> import tinygrad_tf as tg
    >>> LogNormal(0.0, 1.0).log_prob(tg.tensor(1.0))
    tensor(-0.9189)
    """

    support = constraints.positive

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None):
        self.base_dist = Normal(loc, scale, validate_args)
        self.loc, self.scale = self.base_dist.loc, self.base_dist.scale
        super().__init__(self.loc.shape, (), validate_args)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        return self.base_dist.sample(sample_shape).exp()

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.base_dist.rsample(sample_shape).exp()

    @of_support
    def log_prob(self, value: Tensor) -> Tensor:
        x = value.log()
        return self.base_dist.log_prob(x) - x

    @property
    def mode(self) -> Tensor:
        return (self.loc - self.scale**2).exp()

    @of_support
    def cdf(self, value: Tensor) -> Tensor:
        return self.base_dist.cdf(value.log())

    def icdf(self, value: Tensor) -> Tensor:
        return self.base_dist.icdf(value).exp()

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() + self.loc

    @property
    def mean(self) -> Tensor:
        return (self.loc + self.scale**2 / 2).exp()

    @property
    def variance(self) -> Tensor:
        return (self.scale**2).expm1() * (2 * self.loc + self.scale**2).exp()
