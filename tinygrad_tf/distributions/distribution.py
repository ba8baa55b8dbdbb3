"""What all distributions share."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any

from tinygrad_tf import creation
from tinygrad_tf.autograd import no_grad
from tinygrad_tf.compositions import broadcast_tensors
from tinygrad_tf.distributions.constraints import Constraint, real
from tinygrad_tf.ops._types import default_float
from tinygrad_tf.tensor import Size, Tensor


def tensors(*parameters: Any) -> tuple[Tensor, ...]:
    """Numbers and tensors as tensors of one shape."""
    like = next((p for p in parameters if isinstance(p, Tensor)), None)
    dtype = default_float() if like is None else like.dtype
    made = [p if isinstance(p, Tensor) else creation.tensor(float(p), dtype=dtype) for p in parameters]
    return tuple(made) if len({tuple(p.shape) for p in made}) == 1 else broadcast_tensors(*made)


def standard_normal(shape: tuple[int, ...], like: Tensor) -> Tensor:
    """Random numbers of mean 0 and variance 1, drawn as PyTorch draws them for distributions."""
    return creation.normal(creation.zeros(shape, dtype=like.dtype), creation.ones(shape, dtype=like.dtype))


def either(name: str, **given: Any) -> None:
    """Refuse none, or several, of the ways to give one parameter."""
    if sum(value is not None for value in given.values()) != 1:
        raise ValueError(f"{name}: give either {' or '.join(given)}")


def eps(x: Tensor) -> float:
    """The distance from 1 to the next number, by which probabilities are kept away from 0 and 1."""
    return 2.0**-52 if x.array.dtype.itemsize == 8 else 2.0**-23


def tiny(x: Tensor) -> float:
    """The smallest number above 0 of full precision, by which uniform numbers are kept away from 0."""
    return 2.0**-1022 if x.array.dtype.itemsize == 8 else 2.0**-126


def of_support(method: Callable[[Any, Tensor], Tensor]) -> Callable[[Any, Tensor], Tensor]:
    """Let log_prob or cdf refuse values that the variable cannot take, unless it was made with validate_args=False:
    their formulas give numbers for those, too.
    """

    @functools.wraps(method)
    def checked(self: Any, value: Tensor) -> Tensor:
        if self._checks_values and isinstance(value, Tensor) and not self.support.holds_for_all(value):
            wanted = f"{type(self).__name__}: value must be in the support, {self.support}"
            raise ValueError(f"{wanted} (see validate_args), got {value.tolist()!s:.60}")
        return method(self, value)

    return checked


class Distribution:
    """Base class: what batch_shape distributions over event_shape share."""

    shown: tuple[str, ...] = ()

    def __init__(self, batch_shape: Any = (), event_shape: Any = (), validate_args: bool | None = None):
        self.batch_shape, self.event_shape = Size(batch_shape), Size(event_shape)
        self._checks_values = validate_args is not False

    @property
    def support(self) -> Constraint:
        """The values that it can take."""
        raise NotImplementedError(f"{type(self).__name__}: does not tell its support")

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

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of a number that is at most `value`."""
        raise NotImplementedError(f"{type(self).__name__}: has no cdf")

    def icdf(self, value: Tensor) -> Tensor:
        """The number that is not exceeded with probability `value`."""
        raise NotImplementedError(f"{type(self).__name__}: has no icdf")

    def expand(self, batch_shape: Any) -> Any:
        """The same distributions, repeated without copies to fill `batch_shape`.

        >>> from tinygrad_tf.distributions import Normal
        >>> Normal(0.0, 1.0).expand((3,)).sample().shape
        torch.Size([3])
        """
        new, old = copy.copy(self), len(self.batch_shape)
        for name, held in vars(self).items():
            if isinstance(held, Distribution):
                setattr(new, name, held.expand((*batch_shape, *held.batch_shape[old:])))
            elif isinstance(held, Tensor):
                setattr(new, name, held.expand(*batch_shape, *held.shape[old:]))
        new.batch_shape = Size(batch_shape)
        return new

    def entropy(self) -> Tensor:
        """The mean of -log_prob."""
        raise NotImplementedError(f"{type(self).__name__}: has no entropy")

    def perplexity(self) -> Tensor:
        """e^entropy: how many equally likely values would be as uncertain."""
        return self.entropy().exp()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All values that it can take, along a new first axis; expand: in each for the whole batch."""
        raise NotImplementedError(f"{type(self).__name__}: its values cannot be listed")

    def _listed(self, values: Tensor, expand: bool) -> Tensor:
        values = values.reshape(-1, *[1] * len(self.batch_shape))
        return values.expand(-1, *self.batch_shape) if expand else values

    @property
    def has_rsample(self) -> bool:
        """Whether samples carry gradients."""
        return type(self).rsample is not Distribution.rsample

    @property
    def has_enumerate_support(self) -> bool:
        return type(self).enumerate_support is not Distribution.enumerate_support

    @property
    def mode(self) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__}: has no mode")

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


class LocScale(Distribution):
    """What distributions share that others of their kind are made of by a shift `loc` and a stretch `scale`."""

    shown, support = ("loc", "scale"), real

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None):
        self.loc, self.scale = tensors(loc, scale)
        super().__init__(self.loc.shape, (), validate_args)
        if validate_args is not False:
            self._check("scale", self.scale > 0, "positive")


class OfChance(Distribution):
    """What distributions of something that happens or not share: its probability `probs`, or sigmoid(logits)."""

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None):
        either(type(self).__name__, probs=probs, logits=logits)
        if probs is not None:
            (self.probs,) = tensors(probs)
            self.shown, self.logits = ("probs",), self.probs.clamp(eps(self.probs), 1 - eps(self.probs)).logit()
            if validate_args is not False:
                self._check_probs()
        else:
            (self.logits,) = tensors(logits)
            self.shown, self.probs = ("logits",), self.logits.sigmoid()
        super().__init__(self.probs.shape, (), validate_args)

    def _check_probs(self) -> None:
        self._check("probs", (self.probs >= 0) & (self.probs <= 1), "in [0, 1]")
