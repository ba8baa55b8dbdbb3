"""The normal distribution."""

from __future__ import annotations

import math
from typing import Any

from tinygrad_tf import creation
from tinygrad_tf.distributions.distribution import LocScale, of_support, standard_normal
from tinygrad_tf.tensor import Tensor


class Normal(LocScale):
    """The normal distribution with mean `loc` and standard deviation `scale`.

    >>> import tinygrad_tf as tg
    >>> Normal(0.0, 1.0).log_prob(tg.tensor(0.0))
    tensor(-0.9189)
    """

    def sample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended(sample_shape)
        return creation.normal(self.loc.detach().expand(shape), self.scale.detach().expand(shape))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.loc + standard_normal(self._extended(sample_shape), self.loc) * self.scale

    @of_support
    def log_prob(self, value: Tensor) -> Tensor:
        return -((value - self.loc) ** 2) / (2 * self.scale**2) - self.scale.log() - math.log(math.sqrt(2 * math.pi))

    @of_support
    def cdf(self, value: Tensor) -> Tensor:
        return 0.5 * (1 + ((value - self.loc) / self.scale / math.sqrt(2)).erf())

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc + self.scale * (2 * value - 1).erfinv() * math.sqrt(2)

    def entropy(self) -> Tensor:
        return 0.5 + 0.5 * math.log(2 * math.pi) + self.scale.log()

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def stddev(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        return self.scale**2
