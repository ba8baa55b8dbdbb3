"""Mixtures: one of several distributions is chosen, and drawn from."""

from __future__ import annotations

from typing import Any

from tinygrad_tf.distributions import constraints
from tinygrad_tf.distributions.categorical import Categorical
from tinygrad_tf.distributions.distribution import Distribution
from tinygrad_tf.tensor import Tensor


class MixtureSameFamily(Distribution):
    """A mixture of k distributions of one class: those of `component_distribution`, whose last batch axis is k, each
    with a weight of `mixture_distribution`, a Categorical.

    >>> import tinygrad_tf as tg
    >>> from tinygrad_tf.distributions import Normal
    >>> two = MixtureSameFamily(Categorical(tg.ones(2)), Normal(tg.tensor([-1.0, 1.0]), 0.5))
    >>> two.mean, two.log_prob(tg.tensor(0.0))
    (tensor(0.), tensor(-2.2258))
    """

    def __init__(
        self,
        mixture_distribution: Categorical,
        component_distribution: Distribution,
        validate_args: bool | None = None,
    ):
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(
                f"MixtureSameFamily: mixture_distribution must be a Categorical, got {mixture_distribution!r:.60}"
            )
        batch = tuple(component_distribution.batch_shape)
        count = mixture_distribution.probs.shape[-1]
        if not batch or batch[-1] != count:
            raise ValueError(
                f"MixtureSameFamily: the last batch axis of component_distribution must be {count}, got {batch}"
            )
        self.mixture_distribution, self.component_distribution = mixture_distribution, component_distribution
        super().__init__(batch[:-1], component_distribution.event_shape)

    def _beside_events(self, x: Tensor) -> Tensor:
        return x.reshape(*x.shape, *[1] * len(self.event_shape))

    def _averaged(self, x: Tensor) -> Tensor:
        weights = self._beside_events(self.mixture_distribution.probs)
        return (weights * x).sum(-1 - len(self.event_shape))

    def sample(self, sample_shape: Any = ()) -> Tensor:
        axis = len(tuple(sample_shape)) + len(self.batch_shape)
        chosen = self.mixture_distribution.sample(sample_shape)
        drawn = self.component_distribution.sample(sample_shape)
        places = self._beside_events(chosen.unsqueeze(-1)).expand(*drawn.shape[:axis], 1, *self.event_shape)
        return drawn.gather(axis, places).squeeze(axis)

    @property
    def support(self) -> constraints.Constraint:
        return self.component_distribution.support

    def log_prob(self, value: Tensor) -> Tensor:
        each = self.component_distribution.log_prob(value.unsqueeze(-1 - len(self.event_shape)))
        return (each + self.mixture_distribution.logits.log_softmax(-1)).logsumexp(-1)

    def cdf(self, value: Tensor) -> Tensor:
        return (self.component_distribution.cdf(value.unsqueeze(-1)) * self.mixture_distribution.probs).sum(-1)

    @property
    def mean(self) -> Tensor:
        return self._averaged(self.component_distribution.mean)

    @property
    def variance(self) -> Tensor:
        """The mean of the variances, and the variance of the means."""
        means = self.component_distribution.mean
        between = (means - self.mean.unsqueeze(-1 - len(self.event_shape))) ** 2
        return self._averaged(self.component_distribution.variance) + self._averaged(between)

    def __repr__(self) -> str:
        return f"MixtureSameFamily({self.mixture_distribution}, {self.component_distribution})"
