"""The Gumbel distribution: the largest of many; adding it to logits makes argmax a draw."""

from __future__ import annotations

import math
from typing import Any

from tinygrad_tf import creation
from tinygrad_tf.distributions.distribution import LocScale, eps, of_support, tiny
from tinygrad_tf.tensor import Tensor

EULER = 0.57721566490153286060  # the mean of the standard one


class Gumbel(LocScale):
    """loc - scale log(-log(u)) for u uniform in (0, 1).

    >>> import tinygrad_tf as tg
    >>> Gumbel(0.0, 1.0).log_prob(tg.tensor(0.0))
    tensor(-1.)
    """

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        least = tiny(self.loc)
        width = 1.0 - eps(self.loc) - least
        u = creation.rand(self._extended(sample_shape), dtype=self.loc.dtype) * width + least
        return self.loc - self.scale * (-u.log()).log()

    @of_support
    def log_prob(self, value: Tensor) -> Tensor:
        y = (self.loc - value) / self.scale
        return y - y.exp() - self.scale.log()

    @property
    def mode(self) -> Tensor:
        return self.loc

    @of_support
    def cdf(self, value: Tensor) -> Tensor:
        return (-((self.loc - value) / self.scale).exp()).exp()

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc - self.scale * (-value.log()).log()

    def entropy(self) -> Tensor:
        return self.scale.log() + (1 + EULER)

    @property
    def mean(self) -> Tensor:
        return self.loc + self.scale * EULER

    @property
    def variance(self) -> Tensor:
        return self.scale**2 * (math.pi**2 / 6)
