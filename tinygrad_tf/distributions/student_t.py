"""Student's t distribution."""

from __future__ import annotations

import math
from typing import Any

from tinygrad_tf.distributions import constraints
from tinygrad_tf.distributions.distribution import Distribution, of_support, standard_normal, tensors
from tinygrad_tf.distributions.gamma import Chi2
from tinygrad_tf.functions import where
from tinygrad_tf.tensor import Tensor


class StudentT(Distribution):
    """loc + scale x / sqrt(z / df), x standard normal and z of Chi2(df): a normal number with heavy tails.

    >>> StudentT(3.0).variance
    tensor(3.)
    """

    support = constraints.real
    shown = ("df", "loc", "scale")

    def __init__(self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None):
        self.df, self.loc, self.scale = tensors(df, loc, scale)
        super().__init__(self.df.shape, (), validate_args)
        if validate_args is not False:
            self._check("df", self.df > 0, "positive")
            self._check("scale", self.scale > 0, "positive")
        self._chi2 = Chi2(self.df, False)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        x = standard_normal(self._extended(sample_shape), self.df)
        return self.loc + self.scale * (x * (self._chi2.rsample(sample_shape) / self.df).rsqrt())

    def _log_beta(self) -> Tensor:
        return (0.5 * self.df).lgamma() + math.lgamma(0.5) - (0.5 * (self.df + 1.0)).lgamma()

    @of_support
    def log_prob(self, value: Tensor) -> Tensor:
        y = (value - self.loc) / self.scale
        normalizer = self.scale.log() + 0.5 * self.df.log() + self._log_beta()
        return -0.5 * (self.df + 1.0) * (y**2 / self.df).log1p() - normalizer

    @property
    def mode(self) -> Tensor:
        return self.loc

    def entropy(self) -> Tensor:
        half = 0.5 * (self.df + 1.0)
        bend = half * (half.digamma() - (0.5 * self.df).digamma())
        return self.scale.log() + bend + 0.5 * self.df.log() + self._log_beta()

    @property
    def mean(self) -> Tensor:
        """loc; NaN where df <= 1: there is none."""
        return where(self.df > 1, self.loc, math.nan)

    @property
    def variance(self) -> Tensor:
        """Infinite where df <= 2, NaN where df <= 1."""
        safe = where(self.df > 2, self.df, 3.0)
        found = where(self.df > 2, self.scale**2 * safe / (safe - 2), math.inf)
        return where(self.df > 1, found, math.nan)
