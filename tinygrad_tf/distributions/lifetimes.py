"""Distributions of positive numbers made of exponential, uniform or gamma ones: Weibull, Pareto and their like."""

from __future__ import annotations

import math
from typing import Any

from tinygrad_tf import creation
from tinygrad_tf.distributions import constraints
from tinygrad_tf.distributions.cauchy import Cauchy
from tinygrad_tf.distributions.distribution import Distribution, of_support, tensors, tiny
from tinygrad_tf.distributions.gamma import Gamma
from tinygrad_tf.distributions.gumbel import EULER
from tinygrad_tf.functions import where
from tinygrad_tf.tensor import Tensor


class _OfTwo(Distribution):
    """What distributions of two positive parameters share; `shown` names them."""

    def __init__(self, first: Any, second: Any, validate_args: bool | None, names: tuple[str, str]):
        for name, value in zip(names, tensors(first, second), strict=True):
            setattr(self, name, value)
        super().__init__(getattr(self, names[0]).shape, (), validate_args)
        if validate_args is not False:
            for name in names:
                self._check(name, getattr(self, name) > 0, "positive")

    def _exponential(self, sample_shape: Any, like: Tensor) -> Tensor:
        return creation.empty(self._extended(sample_shape), dtype=like.dtype).exponential_()


class Weibull(_OfTwo):
    """scale e^(1 / concentration) for e exponential: lifetimes of what wears out (above 1), or settles (below).

    >>> Weibull(2.0, 1.0).mean
    tensor(2.)
    """

    support = constraints.positive
    shown = ("scale", "concentration")
    scale: Tensor
    concentration: Tensor

    def __init__(self, scale: Any, concentration: Any, validate_args: bool | None = None):
        super().__init__(scale, concentration, validate_args, ("scale", "concentration"))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.scale * self._exponential(sample_shape, self.scale) ** self.concentration.reciprocal()

    @of_support
    def log_prob(self, value: Tensor) -> Tensor:
        share, k = value / self.scale, self.concentration
        return (k / self.scale).log() + (k - 1) * share.log() - share**k

    @of_support
    def cdf(self, value: Tensor) -> Tensor:
        return -(-((value / self.scale) ** self.concentration)).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        return self.scale * (-(-value).log1p()) ** self.concentration.reciprocal()

    def entropy(self) -> Tensor:
        shape = self.concentration.reciprocal()
        return EULER * (1 - shape) + (self.scale * shape).log() + 1

    def _moment(self, n: int) -> Tensor:
        """The mean of (x / scale)^n."""
        return (1 + n * self.concentration.reciprocal()).lgamma().exp()

    @property
    def mean(self) -> Tensor:
        return self.scale * self._moment(1)

    @property
    def mode(self) -> Tensor:
        return self.scale * ((self.concentration - 1) / self.concentration) ** self.concentration.reciprocal()

    @property
    def variance(self) -> Tensor:
        return self.scale**2 * (self._moment(2) - self._moment(1) ** 2)


class Pareto(_OfTwo):
    """scale exp(e / alpha) for e exponential: sizes from `scale` on of which few are very large.

    >>> Pareto(1.0, 3.0).mean
    tensor(1.5000)
    """

    shown = ("alpha", "scale")
    scale: Tensor
    alpha: Tensor

    def __init__(self, scale: Any, alpha: Any, validate_args: bool | None = None):
        super().__init__(scale, alpha, validate_args, ("scale", "alpha"))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.scale * (self._exponential(sample_shape, self.scale) / self.alpha).exp()

    @property
    def support(self) -> constraints.Constraint:
        return constraints.greater_than_eq(self.scale)

    @of_support
    def log_prob(self, value: Tensor) -> Tensor:
        return (self.alpha / self.scale).log() - (self.alpha + 1) * (value / self.scale).log()

    @of_support
    def cdf(self, value: Tensor) -> Tensor:
        return 1 - (self.scale / value) ** self.alpha

    def icdf(self, value: Tensor) -> Tensor:
        return self.scale * (1 - value) ** -self.alpha.reciprocal()

    def entropy(self) -> Tensor:
        return (self.scale / self.alpha).log() + (1 + self.alpha.reciprocal())

    @property
    def mean(self) -> Tensor:
        a = self.alpha.clamp(min=1)
        return a * self.scale / (a - 1)

    @property
    def mode(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        a = self.alpha.clamp(min=2)
        return self.scale**2 * a / ((a - 1) ** 2 * (a - 2))


class Kumaraswamy(_OfTwo):
    """Between 0 and 1, nearly as Beta, but with a cdf that can be written down: 1 - (1 - x^a)^b, with a and b
    concentration1 and concentration0.

    >>> Kumaraswamy(1.0, 3.0).mean
    tensor(0.2500)
    """

    support = constraints.unit_interval
    shown = ("concentration1", "concentration0")
    concentration1: Tensor
    concentration0: Tensor

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None):
        super().__init__(concentration1, concentration0, validate_args, ("concentration1", "concentration0"))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        u = creation.rand(self._extended(sample_shape), dtype=self.concentration1.dtype)
        return self._root(u)

    def _root(self, share: Tensor) -> Tensor:
        return (1 - share ** self.concentration0.reciprocal()) ** self.concentration1.reciprocal()

    @of_support
    def log_prob(self, value: Tensor) -> Tensor:
        a, b = self.concentration1, self.concentration0
        return (a * b).log() + (a - 1) * value.log() + (b - 1) * (-(value**a)).log1p()

    @of_support
    def cdf(self, value: Tensor) -> Tensor:
        return 1 - (1 - value**self.concentration1) ** self.concentration0

    def icdf(self, value: Tensor) -> Tensor:
        return self._root(1 - value)

    def entropy(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        rest = (1 - a.reciprocal()) * ((b + 1).digamma() + EULER)
        return 1 - b.reciprocal() + rest - a.log() - b.log()

    def _moment(self, n: int) -> Tensor:
        whole = 1 + n / self.concentration1
        b = self.concentration0
        return b * (whole.lgamma() + b.lgamma() - (whole + b).lgamma()).exp()

    @property
    def mean(self) -> Tensor:
        return self._moment(1)

    @property
    def mode(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        found = (a.reciprocal() * ((1 - a).neg() / (a * b - 1)).log()).exp()
        return where((a < 1) | (b < 1), math.nan, found)

    @property
    def variance(self) -> Tensor:
        return self._moment(2) - self._moment(1) ** 2


class InverseGamma(_OfTwo):
    """1 / x for x of Gamma(concentration, rate): what is believed of a variance.

    >>> InverseGamma(3.0, 2.0).mean
    tensor(1.)
    """

    support = constraints.positive
    shown = ("concentration", "rate")
    concentration: Tensor
    rate: Tensor

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None):
        super().__init__(concentration, rate, validate_args, ("concentration", "rate"))

    @property
    def base_dist(self) -> Gamma:
        return Gamma(self.concentration, self.rate, validate_args=False)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.base_dist.rsample(sample_shape).reciprocal()

    @of_support
    def log_prob(self, value: Tensor) -> Tensor:
        return self.base_dist.log_prob(value.reciprocal()) - 2 * value.log()

    def entropy(self) -> Tensor:
        c = self.concentration
        return c + self.rate.log() + c.lgamma() - (1 + c) * c.digamma()

    @property
    def mean(self) -> Tensor:
        return where(self.concentration > 1, self.rate / (self.concentration - 1), math.inf)

    @property
    def mode(self) -> Tensor:
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Tensor:
        c = self.concentration
        return where(c > 2, self.rate**2 / ((c - 1) ** 2 * (c - 2)), math.inf)


class FisherSnedecor(_OfTwo):
    """The ratio of two means of squared normal numbers, of df1 and df2 of them: that of an F test.

    >>> FisherSnedecor(2.0, 4.0).mean
    tensor(2.)
    """

    support = constraints.positive
    shown = ("df1", "df2")
    df1: Tensor
    df2: Tensor

    def __init__(self, df1: Any, df2: Any, validate_args: bool | None = None):
        super().__init__(df1, df2, validate_args, ("df1", "df2"))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        above = Gamma(self.df1 * 0.5, self.df1, validate_args=False).rsample(sample_shape)
        below = Gamma(self.df2 * 0.5, self.df2, validate_args=False).rsample(sample_shape)
        return (above / below.clamp(min=tiny(below))).clamp(min=tiny(below))

    @of_support
    def log_prob(self, value: Tensor) -> Tensor:
        a, b, ratio = self.df1 * 0.5, self.df2 * 0.5, self.df1 / self.df2
        scale = (a + b).lgamma() - a.lgamma() - b.lgamma()
        return scale + a * ratio.log() + (a - 1) * value.log() - (a + b) * (ratio * value).log1p()

    @property
    def mean(self) -> Tensor:
        return where(self.df2 > 2, self.df2 / (self.df2 - 2), math.nan)

    @property
    def mode(self) -> Tensor:
        found = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return where(self.df1 > 2, found, math.nan)

    @property
    def variance(self) -> Tensor:
        a, b = self.df1, self.df2
        return where(b > 4, 2 * b**2 * (a + b - 2) / (a * (b - 2) ** 2 * (b - 4)), math.nan)


class HalfCauchy(Distribution):
    """|x| for x of Cauchy(0, scale): what is believed of a scale of which little is known.

    >>> import tinygrad_tf as tg
    >>> HalfCauchy(1.0).log_prob(tg.tensor(0.0))
    tensor(-0.4516)
    """

    support = constraints.nonnegative
    shown = ("scale",)

    def __init__(self, scale: Any, validate_args: bool | None = None):
        self.base_dist = Cauchy(0.0, scale, validate_args)
        self.scale = self.base_dist.scale
        super().__init__(self.scale.shape, (), validate_args)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.base_dist.rsample(sample_shape).abs()

    @of_support
    def log_prob(self, value: Tensor) -> Tensor:
        return where(value >= 0, self.base_dist.log_prob(value) + math.log(2), -math.inf)

    @of_support
    def cdf(self, value: Tensor) -> Tensor:
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, value: Tensor) -> Tensor:
        return self.base_dist.icdf((value + 1) / 2)

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() - math.log(2)

    @property
    def mean(self) -> Tensor:
        return creation.full_like(self.scale, math.inf)

    @property
    def mode(self) -> Tensor:
        return creation.zeros_like(self.scale)

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance
