"""Several random variables as one."""

from __future__ import annotations

from typing import Any

from tinygrad_tf.distributions import constraints
from tinygrad_tf.distributions.distribution import Distribution
from tinygrad_tf.tensor import Tensor


class Independent(Distribution):
    """A distribution whose last `reinterpreted_batch_ndims` batch axes count as one event: log_prob adds over them."""

    def __init__(self, base_distribution: Any, reinterpreted_batch_ndims: int, validate_args: bool | None = None):
        self.base_dist, self.reinterpreted_batch_ndims = base_distribution, reinterpreted_batch_ndims
        batch, event = tuple(base_distribution.batch_shape), tuple(base_distribution.event_shape)
        if reinterpreted_batch_ndims > len(batch):
            raise ValueError(
                f"Independent: reinterpreted_batch_ndims must be at most {len(batch)}, got {reinterpreted_batch_ndims}"
            )
        kept = len(batch) - reinterpreted_batch_ndims
        super().__init__(batch[:kept], batch[kept:] + event, validate_args)

    @property
    def _event_axes(self) -> tuple[int, ...]:
        return tuple(range(-self.reinterpreted_batch_ndims, 0))

    def _added(self, x: Tensor) -> Tensor:
        return x.sum(self._event_axes) if self._event_axes else x

    def sample(self, sample_shape: Any = ()) -> Tensor:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.base_dist.rsample(sample_shape)

    @property
    def support(self) -> constraints.Constraint:
        return constraints.independent(self.base_dist.support, self.reinterpreted_batch_ndims)

    @property
    def has_rsample(self) -> bool:
        return self.base_dist.has_rsample

    def log_prob(self, value: Tensor) -> Tensor:
        return self._added(self.base_dist.log_prob(value))

    @property
    def mode(self) -> Tensor:
        return self.base_dist.mode

    def entropy(self) -> Tensor:
        return self._added(self.base_dist.entropy())

    @property
    def mean(self) -> Tensor:
        return self.base_dist.mean

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance

    def __repr__(self) -> str:
        return f"Independent({self.base_dist}, {self.reinterpreted_batch_ndims})"
