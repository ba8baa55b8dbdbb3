"""The Laplace distribution."""

from __future__ import annotations

from typing import Any

from tinygrad_tf import creation
from tinygrad_tf.distributions.distribution import LocScale, eps, of_support
from tinygrad_tf.tensor import Tensor


class Laplace(LocScale):
    """Density exp(-|x - loc| / scale) / (2 scale).

    >>> Laplace(0.0, 1.0).entropy()
    tensor(1.6931)
    """

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        u = creation.zeros(self._extended(sample_shape), dtype=self.loc.dtype).uniform_(eps(self.loc) - 1, 1)
        return self.loc - self.scale * u.sign() * (-u.abs()).log1p()

    @of_support
    def log_prob(self, value: Tensor) -> Tensor:
        return -(2 * self.scale).log() - (value - self.loc).abs() / self.scale

    @property
    def mode(self) -> Tensor:
        return self.loc

    @of_support
    def cdf(self, value: Tensor) -> Tensor:
        distance = value - self.loc
        return 0.5 - 0.5 * distance.sign() * (-distance.abs() / self.scale).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        beside = value - 0.5
        return self.loc - self.scale * beside.sign() * (-2 * beside.abs()).log1p()

    def entropy(self) -> Tensor:
        return 1 + (2 * self.scale).log()

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return 2 * self.scale**2
