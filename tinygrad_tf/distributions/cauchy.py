"""The Cauchy distribution: the ratio of two normal numbers, with tails so heavy that it has no mean."""

from __future__ import annotations

import math
from typing import Any

from tinygrad_tf import creation
from tinygrad_tf.distributions.distribution import LocScale, of_support
from tinygrad_tf.tensor import Tensor


class Cauchy(LocScale):
    """Of median `loc` and half width `scale`: 1 / (pi scale (1 + ((x - loc) / scale)^2)).

    >>> import tinygrad_tf as tg
    >>> Cauchy(0.0, 1.0).log_prob(tg.tensor(0.0))
    tensor(-1.1447)
    """

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended(sample_shape)
        return self.loc + creation.empty(shape, dtype=self.loc.dtype).cauchy_() * self.scale

    @of_support
    def log_prob(self, value: Tensor) -> Tensor:
        return -math.log(math.pi) - self.scale.log() - (((value - self.loc) / self.scale) ** 2).log1p()

    @of_support
    def cdf(self, value: Tensor) -> Tensor:
        return ((value - self.loc) / self.scale).atan() / math.pi + 0.5

    def icdf(self, value: Tensor) -> Tensor:
        return (math.pi * (value - 0.5)).tan() * self.scale + self.loc

    def entropy(self) -> Tensor:
        return math.log(4 * math.pi) + self.scale.log()

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def mean(self) -> Tensor:
        return creation.full_like(self.loc, math.nan)

    @property
    def variance(self) -> Tensor:
        return creation.full_like(self.loc, math.inf)
