"""The gamma distribution, and the chi-squared one, which is one of its kind."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinygrad_tf.compositions import xlogy
from tinygrad_tf.distributions import constraints
from tinygrad_tf.distributions._implicit import StandardGamma
from tinygrad_tf.distributions.distribution import Distribution, of_support, tensors, tiny
from tinygrad_tf.tensor import Tensor


class Gamma(Distribution):
    """Density rate^c x^(c - 1) exp(-rate x) / gamma(c) for x > 0, with c the concentration.

    rsample has implicit gradients for the concentration (Figurnov et al., 2018), which cannot be differentiated again.

    >>> Gamma(2.0, 1.0).entropy()
    tensor(1.5772)
    """

    support = constraints.nonnegative
    shown: tuple[str, ...] = ("concentration", "rate")

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None):
        self.concentration, self.rate = tensors(concentration, rate)
        super().__init__(self.concentration.shape, (), validate_args)
        if validate_args is not False:
            self._check("concentration", self.concentration > 0, "positive")
            self._check("rate", self.rate > 0, "positive")

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        drawn: Tensor = StandardGamma.apply(self.concentration.expand(self._extended(sample_shape)))
        value = drawn / self.rate
        np.maximum(value.array, tiny(value), out=value.array)  # so that log_prob is finite; nothing has read it yet
        return value

    @of_support
    def log_prob(self, value: Tensor) -> Tensor:
        normalizer = xlogy(self.concentration, self.rate) - self.concentration.lgamma()
        return normalizer + xlogy(self.concentration - 1, value) - self.rate * value

    def entropy(self) -> Tensor:
        c = self.concentration
        return c - self.rate.log() + c.lgamma() + (1.0 - c) * c.digamma()

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Tensor:
        return self.concentration / self.rate**2


class Chi2(Gamma):
    """The sum of the squares of `df` standard normal numbers: Gamma(df / 2, 1 / 2).

    >>> Chi2(3.0).mean
    tensor(3.)
    """

    shown = ("df",)

    def __init__(self, df: Any, validate_args: bool | None = None):
        super().__init__(0.5 * df, 0.5, validate_args)

    @property
    def df(self) -> Tensor:
        return self.concentration * 2
