"""Distributions of shares: Dirichlet of several, Beta of two."""

from __future__ import annotations

from typing import Any

from tinygrad_tf.compositions import xlogy
from tinygrad_tf.distributions import constraints
from tinygrad_tf.distributions._implicit import StandardDirichlet
from tinygrad_tf.distributions.distribution import Distribution, of_support, tensors
from tinygrad_tf.functions import stack, where
from tinygrad_tf.nn import functional as F
from tinygrad_tf.tensor import Tensor


class Dirichlet(Distribution):
    """n shares that add up to 1, of density proportional to the product of x_i^(c_i - 1); concentration c (..., n).

    rsample has implicit gradients (Figurnov et al., 2018), which cannot be differentiated again.

    >>> import tinygrad_tf as tg
    >>> Dirichlet(tg.tensor([1.0, 2.0, 1.0])).mean
    tensor([0.2500, 0.5000, 0.2500])
    """

    support = constraints.simplex
    shown = ("concentration",)

    def __init__(self, concentration: Tensor, validate_args: bool | None = None):
        if not isinstance(concentration, Tensor) or not concentration.ndim:
            raise ValueError(f"Dirichlet: concentration must be a tensor (..., n), got {concentration!r:.60}")
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args)
        if validate_args is not False:
            self._check("concentration", concentration > 0, "positive")

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        drawn: Tensor = StandardDirichlet.apply(self.concentration.expand(self._extended(sample_shape)))
        return drawn

    @of_support
    def log_prob(self, value: Tensor) -> Tensor:
        c = self.concentration
        return xlogy(c - 1.0, value).sum(-1) + c.sum(-1).lgamma() - c.lgamma().sum(-1)

    @property
    def mode(self) -> Tensor:
        """Where the density is highest; a corner where all concentrations are below 1."""
        above = (self.concentration - 1).clamp(min=0)
        corner = F.one_hot(above.argmax(-1), above.shape[-1]).to(above.dtype)
        return where((self.concentration < 1).all(-1, keepdim=True), corner, above / above.sum(-1, keepdim=True))

    def entropy(self) -> Tensor:
        c, total, count = self.concentration, self.concentration.sum(-1), self.concentration.shape[-1]
        spread = (count - total) * total.digamma() + ((c - 1.0) * c.digamma()).sum(-1)
        return c.lgamma().sum(-1) - total.lgamma() - spread

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.concentration.sum(-1, keepdim=True)

    @property
    def variance(self) -> Tensor:
        total = self.concentration.sum(-1, keepdim=True)
        return self.concentration * (total - self.concentration) / (total**2 * (total + 1))


class Beta(Distribution):
    """Density x^(a - 1) (1 - x)^(b - 1) / B(a, b) on (0, 1), with a the concentration1 and b the concentration0.

    >>> import tinygrad_tf as tg
    >>> Beta(2.0, 2.0).log_prob(tg.tensor(0.5)).exp()
    tensor(1.5000)
    """

    support = constraints.unit_interval
    shown = ("concentration1", "concentration0")

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None):
        self.concentration1, self.concentration0 = tensors(concentration1, concentration0)
        super().__init__(self.concentration1.shape, (), validate_args)
        if validate_args is not False:
            self._check("concentration1", self.concentration1 > 0, "positive")
            self._check("concentration0", self.concentration0 > 0, "positive")
        self._dirichlet = Dirichlet(stack([self.concentration1, self.concentration0], -1), False)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self._dirichlet.rsample(sample_shape)[..., 0]

    @of_support
    def log_prob(self, value: Tensor) -> Tensor:
        return self._dirichlet.log_prob(stack([value, 1.0 - value], -1))

    @property
    def mode(self) -> Tensor:
        return self._dirichlet.mode[..., 0]

    def entropy(self) -> Tensor:
        return self._dirichlet.entropy()

    @property
    def mean(self) -> Tensor:
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def variance(self) -> Tensor:
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total**2 * (total + 1))
