"""Distributions made of others by a change of variables, as normalising flows are (Rezende and Mohamed, 2015)."""

from __future__ import annotations

import math
from typing import Any

from tinygrad_tf import creation
from tinygrad_tf.autograd import no_grad
from tinygrad_tf.distributions import constraints
from tinygrad_tf.distributions.distribution import Distribution, of_support
from tinygrad_tf.distributions.independent import Independent
from tinygrad_tf.distributions.normal import Normal
from tinygrad_tf.distributions.transforms import AbsTransform, ComposeTransform, Transform, summed
from tinygrad_tf.functions import where
from tinygrad_tf.tensor import Tensor


class TransformedDistribution(Distribution):
    """f(x) for x of `base_distribution`, f one transform or several, the first of the list first:

    log p(y) = log p(x) - log |dy / dx|.

    >>> import tinygrad_tf as tg
    >>> from tinygrad_tf.distributions import Normal
    >>> from tinygrad_tf.distributions.transforms import ExpTransform
    >>> TransformedDistribution(Normal(0.0, 1.0), ExpTransform()).log_prob(tg.tensor(1.0))  # as LogNormal
    tensor(-0.9189)
    """

    def __init__(self, base_distribution: Distribution, transforms: Any, validate_args: bool | None = None):
        self.transforms = [transforms] if isinstance(transforms, Transform) else list(transforms)
        wrong = [t for t in self.transforms if not isinstance(t, Transform)]
        if wrong:
            raise ValueError(f"TransformedDistribution: transforms must be Transforms, got {type(wrong[0]).__name__}")
        whole = ComposeTransform(self.transforms)
        base_shape = (*base_distribution.batch_shape, *base_distribution.event_shape)
        shape = whole.forward_shape(base_shape)
        wanted = whole.inverse_shape(shape)
        if wanted != base_shape:
            batch = wanted[: len(wanted) - len(base_distribution.event_shape)]
            base_distribution = base_distribution.expand(batch)
        grouped = whole.domain.event_dim - len(base_distribution.event_shape)
        if grouped > 0:
            base_distribution = Independent(base_distribution, grouped)
        self.base_dist = base_distribution
        gained = whole.codomain.event_dim - whole.domain.event_dim
        event_dim = max(len(base_distribution.event_shape) + gained, whole.codomain.event_dim)
        cut = len(shape) - event_dim
        super().__init__(shape[:cut], shape[cut:], validate_args)

    @property
    def support(self) -> constraints.Constraint:
        """The values that it can take."""
        found: constraints.Constraint = self.transforms[-1].codomain if self.transforms else constraints.real
        return constraints.independent(found, max(len(self.event_shape) - found.event_dim, 0))

    def _transformed(self, x: Tensor) -> Tensor:
        for transform in self.transforms:
            x = transform(x)
        return x

    def expand(self, batch_shape: Any) -> TransformedDistribution:
        raise NotImplementedError("TransformedDistribution: expand the base distribution, and transform that")

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            return self._transformed(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self._transformed(self.base_dist.rsample(sample_shape))

    @of_support
    def log_prob(self, value: Tensor) -> Tensor:
        total: Any = 0.0
        event_dim = len(self.event_shape)
        for transform in reversed(self.transforms):
            x = transform.undone(value)
            event_dim += transform.domain.event_dim - transform.codomain.event_dim
            slope = transform.log_abs_det_jacobian(x, value)
            total = total - summed(slope, event_dim - transform.domain.event_dim)
            value = x
        return total + summed(self.base_dist.log_prob(value), event_dim - len(self.base_dist.event_shape))

    @of_support
    def cdf(self, value: Tensor) -> Tensor:
        for transform in reversed(self.transforms):
            value = transform.undone(value)
        return self._turned(self.base_dist.cdf(value))

    def icdf(self, value: Tensor) -> Tensor:
        return self._transformed(self.base_dist.icdf(self._turned(value)))

    def _turned(self, share: Tensor) -> Tensor:
        """A share of the values below, in the order of x, in that of y; or the other way round."""
        sign = math.prod((t.sign for t in self.transforms), start=1)
        return share if isinstance(sign, int) and sign == 1 else sign * (share - 0.5) + 0.5

    def __repr__(self) -> str:
        return f"TransformedDistribution({self.base_dist}, {self.transforms})"


class HalfNormal(TransformedDistribution):
    """|x| for x normal with mean 0 and standard deviation `scale`.

    >>> import tinygrad_tf as tg
    >>> HalfNormal(1.0).log_prob(tg.tensor(0.0))
    tensor(-0.2258)
    """

    support = constraints.nonnegative
    shown = ("scale",)

    def __init__(self, scale: Any, validate_args: bool | None = None):
        super().__init__(Normal(0.0 * scale, scale, validate_args), AbsTransform(), validate_args)
        self.scale: Tensor = self.base_dist.scale  # type: ignore[attr-defined]

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
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def mode(self) -> Tensor:
        return creation.zeros_like(self.scale)

    @property
    def variance(self) -> Tensor:
        return self.scale**2 * (1 - 2 / math.pi)

    __repr__ = Distribution.__repr__
