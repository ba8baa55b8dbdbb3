"""Random variables with PyTorch's names: Normal, Uniform, Bernoulli, Categorical, and how far one is from another.

`sample` draws without gradients, from the same random numbers as PyTorch; `rsample` draws so that gradients reach the
parameters (Kingma and Welling, 2014). `log_prob` and `entropy` are differentiable. Shapes: a sample is of shape
(*sample_shape, *batch_shape, *event_shape).
"""

from __future__ import annotations

import math
from typing import Any

from tinygrad_tf import creation
from tinygrad_tf.autograd import no_grad
from tinygrad_tf.compositions import broadcast_tensors, xlogy
from tinygrad_tf.nn import functional as F
from tinygrad_tf.ops._types import default_float
from tinygrad_tf.tensor import Size, Tensor


def _tensors(*parameters: Any) -> tuple[Tensor, ...]:
    """Numbers and tensors as tensors of one shape."""
    like = next((p for p in parameters if isinstance(p, Tensor)), None)
    dtype = default_float() if like is None else like.dtype
    made = [p if isinstance(p, Tensor) else creation.tensor(float(p), dtype=dtype) for p in parameters]
    return tuple(made) if len({tuple(p.shape) for p in made}) == 1 else broadcast_tensors(*made)


class Distribution:
    """Base class: what batch_shape distributions over event_shape share."""

    shown: tuple[str, ...] = ()

    def __init__(self, batch_shape: Any = (), event_shape: Any = ()):
        self.batch_shape, self.event_shape = Size(batch_shape), Size(event_shape)

    def _check(self, name: str, fits: Tensor, wanted: str) -> None:
        if not bool(fits.all()):
            raise ValueError(
                f"{type(self).__name__}: {name} must be {wanted}, got {getattr(self, name).tolist()!s:.60}"
            )

    def _extended(self, sample_shape: Any) -> tuple[int, ...]:
        return (*tuple(sample_shape), *self.batch_shape, *self.event_shape)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Random values of shape (*sample_shape, *batch_shape, *event_shape), without gradients."""
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Random values through which gradients reach the parameters."""
        raise NotImplementedError(f"{type(self).__name__}: rsample has no gradient here; use sample() and log_prob()")

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the probability, or of its density, at `value`."""
        raise NotImplementedError(f"{type(self).__name__}: has no log_prob")

    def entropy(self) -> Tensor:
        """The mean of -log_prob."""
        raise NotImplementedError(f"{type(self).__name__}: has no entropy")

    @property
    def mean(self) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__}: has no mean")

    @property
    def variance(self) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__}: has no variance")

    @property
    def stddev(self) -> Tensor:
        return self.variance.sqrt()

    def __repr__(self) -> str:
        values = [(name, getattr(self, name)) for name in self.shown]
        parts = [f"{name}: {v.item() if v.numel() == 1 else v.size()}" for name, v in values]
        return f"{type(self).__name__}({', '.join(parts)})"


class Normal(Distribution):
    """The normal distribution with mean `loc` and standard deviation `scale`.

    >>> import tinygrad_tf as tg
    >>> Normal(0.0, 1.0).log_prob(tg.tensor(0.0))
    tensor(-0.9189)
    """

    shown = ("loc", "scale")

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None):
        self.loc, self.scale = _tensors(loc, scale)
        super().__init__(self.loc.shape)
        if validate_args is not False:
            self._check("scale", self.scale > 0, "positive")

    def sample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended(sample_shape)
        return creation.normal(self.loc.detach().expand(shape), self.scale.detach().expand(shape))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended(sample_shape)
        noise = creation.normal(creation.zeros(shape, dtype=self.loc.dtype), creation.ones(shape, dtype=self.loc.dtype))
        return self.loc + noise * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        return -((value - self.loc) ** 2) / (2 * self.scale**2) - self.scale.log() - math.log(math.sqrt(2 * math.pi))

    def entropy(self) -> Tensor:
        return 0.5 + 0.5 * math.log(2 * math.pi) + self.scale.log()

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def stddev(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        return self.scale**2


class Uniform(Distribution):
    """The uniform distribution on [low, high)."""

    shown = ("low", "high")

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None):
        self.low, self.high = _tensors(low, high)
        super().__init__(self.low.shape)
        if validate_args is not False:
            self._check("low", self.low < self.high, "below high")

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.low + creation.rand(self._extended(sample_shape), dtype=self.low.dtype) * (self.high - self.low)

    def log_prob(self, value: Tensor) -> Tensor:
        inside = ((value >= self.low) & (value < self.high)).to(self.low.dtype)
        return inside.log() - (self.high - self.low).log()

    def entropy(self) -> Tensor:
        return (self.high - self.low).log()

    @property
    def mean(self) -> Tensor:
        return (self.low + self.high) / 2

    @property
    def variance(self) -> Tensor:
        return (self.high - self.low) ** 2 / 12


def _either(name: str, probs: Any, logits: Any) -> None:
    if (probs is None) == (logits is None):
        raise ValueError(f"{name}: give either probs or logits")


class Bernoulli(Distribution):
    """1 with probability `probs`, or sigmoid(logits), else 0."""

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None):
        _either("Bernoulli", probs, logits)
        if probs is not None:
            (self.probs,) = _tensors(probs)
            self.shown, self.logits = ("probs",), self.probs.clamp(_tiny(self.probs), 1 - _tiny(self.probs)).logit()
            if validate_args is not False:
                self._check("probs", (self.probs >= 0) & (self.probs <= 1), "in [0, 1]")
        else:
            (self.logits,) = _tensors(logits)
            self.shown, self.probs = ("logits",), self.logits.sigmoid()
        super().__init__(self.probs.shape)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        return self.probs.detach().expand(self._extended(sample_shape)).bernoulli()

    def log_prob(self, value: Tensor) -> Tensor:
        logits, value = broadcast_tensors(self.logits, value)
        return -F.binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self) -> Tensor:
        return F.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)


def _tiny(x: Tensor) -> float:
    return 2.0**-52 if x.array.dtype.itemsize == 8 else 2.0**-23


class Categorical(Distribution):
    """One of the numbers 0 to n - 1, with probabilities proportional to `probs`, or softmax(logits); (..., n).

    >>> import tinygrad_tf as tg
    >>> Categorical(tg.tensor([1.0, 3.0])).log_prob(tg.tensor(1)).exp()
    tensor(0.7500)
    """

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None):
        _either("Categorical", probs, logits)
        given = probs if probs is not None else logits
        if not isinstance(given, Tensor) or not given.ndim:
            raise ValueError(f"Categorical: needs a tensor (..., n), got {given!r:.60}")
        if probs is not None:
            self.shown, self.probs = ("probs",), probs
            if validate_args is not False:
                self._check("probs", (probs >= 0) & (probs.sum(-1, keepdim=True) > 0), "weights from 0 on, not all 0")
            self.probs = probs / probs.sum(-1, keepdim=True)
            self.logits = self.probs.clamp(_tiny(probs), 1 - _tiny(probs)).log()
        else:
            self.shown, self.logits = ("logits",), logits - logits.logsumexp(-1, keepdim=True)
            self.probs = self.logits.softmax(-1)
        super().__init__(self.probs.shape[:-1])

    def sample(self, sample_shape: Any = ()) -> Tensor:
        rows = self.probs.detach().reshape(-1, self.probs.shape[-1])
        drawn = rows.multinomial(math.prod(tuple(sample_shape)), replacement=True)
        return drawn.T.reshape(self._extended(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        count = self.logits.shape[-1]
        if not bool(((value >= 0) & (value < count)).all()):
            raise ValueError(f"Categorical: value must be from 0 to {count - 1}, got {value.tolist()!s:.60}")
        places, logits = broadcast_tensors(value.long().unsqueeze(-1), self.logits)
        return logits.gather(-1, places[..., :1]).squeeze(-1)

    def entropy(self) -> Tensor:
        return -xlogy(self.probs, self.logits.exp()).sum(-1)


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
        super().__init__(batch[:kept], batch[kept:] + event)

    @property
    def _event_axes(self) -> tuple[int, ...]:
        return tuple(range(-self.reinterpreted_batch_ndims, 0))

    def _added(self, x: Tensor) -> Tensor:
        return x.sum(self._event_axes) if self._event_axes else x

    def sample(self, sample_shape: Any = ()) -> Tensor:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        return self._added(self.base_dist.log_prob(value))

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


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """KL(p || q), the mean under p of log p - log q, of two distributions of one kind.

    >>> kl_divergence(Normal(0.0, 1.0), Normal(1.0, 1.0))
    tensor(0.5000)
    """
    if isinstance(p, Normal) and isinstance(q, Normal):
        ratio = (p.scale / q.scale) ** 2
        return 0.5 * (ratio + ((p.loc - q.loc) / q.scale) ** 2 - 1 - ratio.log())
    if isinstance(p, Categorical) and isinstance(q, Categorical):
        return (p.probs * (p.logits - q.logits)).sum(-1)
    if isinstance(p, Bernoulli) and isinstance(q, Bernoulli):
        return p.probs * (p.logits - q.logits) + F.logsigmoid(-p.logits) - F.logsigmoid(-q.logits)
    if isinstance(p, Independent) and isinstance(q, Independent) and p._event_axes == q._event_axes:
        return p._added(kl_divergence(p.base_dist, q.base_dist))
    raise NotImplementedError(f"kl_divergence: there is no formula for {type(p).__name__} and {type(q).__name__}")


__all__ = [
    "Bernoulli",
    "Categorical",
    "Distribution",
    "Independent",
    "Normal",
    "Uniform",
    "kl_divergence",
]
