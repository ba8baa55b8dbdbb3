"""Tensors of random numbers, the same as PyTorch's for the same seed."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinygrad_tf import _rejection, random
from tinygrad_tf._layout import laid_out_like
from tinygrad_tf.creation._kinds import Generator, as_kind, finish, given_sizes, into_out
from tinygrad_tf.engine import make
from tinygrad_tf.ops._types import check_floats
from tinygrad_tf.tensor import Tensor


@into_out
def rand(
    *sizes: Any,
    size: Any = None,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Uniform in [0, 1)."""
    values = random.or_default(generator).uniform(given_sizes("rand", sizes, size), dtype=as_kind(dtype))
    return finish(values, requires_grad, device)


@into_out
def randn(
    *sizes: Any,
    size: Any = None,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Normal with mean 0 and standard deviation 1."""
    values = random.or_default(generator).normal(given_sizes("randn", sizes, size), dtype=as_kind(dtype))
    return finish(values, requires_grad, device)


def rand_like(
    input: Tensor,
    *,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """rand in the shape, dtype and layout of another tensor."""
    kind, generator = as_kind(dtype, input.array.dtype), random.or_default(generator)
    values = laid_out_like(input.array, lambda shape: generator.uniform(shape, dtype=kind))
    return finish(values, requires_grad, device)


def randn_like(
    input: Tensor,
    *,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """randn in the shape, dtype and layout of another tensor."""
    kind = as_kind(dtype, input.array.dtype)
    fresh = laid_out_like(input.array, lambda shape: np.empty(shape, kind))
    return finish(random.normal_like(fresh, random.or_default(generator)), requires_grad, device)


def normal(
    mean: Any = 0.0,
    std: Any = 1.0,
    size: Any = None,
    *,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Normal random numbers: normal(mean, std, size), or of the shape of tensors of means and deviations."""
    if size is not None:
        values = random.or_default(generator).normal(
            given_sizes("normal", (size,)), float(mean), float(std), as_kind(dtype)
        )
        return finish(values, requires_grad, device)
    if not isinstance(mean, Tensor) and not isinstance(std, Tensor):
        raise TypeError("normal: size is missing, as in normal(0.0, 1.0, (2, 3))")
    shape = np.broadcast_shapes(*(x.array.shape for x in (mean, std) if isinstance(x, Tensor)))
    first = mean if isinstance(mean, Tensor) else std
    drawn = make(random.or_default(generator).normal(shape, dtype=first.array.dtype))
    return drawn * (std.detach() if isinstance(std, Tensor) else std) + (
        mean.detach() if isinstance(mean, Tensor) else mean
    )


def poisson(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Poisson random numbers: how many events come where `input` are expected, of its shape and dtype."""
    return _counts(_rejection.poisson, generator, input)


def binomial(count: Tensor, prob: Tensor, generator: Generator | None = None) -> Tensor:
    """Binomial random numbers: how many of `count` tries succeed, each with probability `prob`."""
    return _counts(_rejection.binomial, generator, count, prob)


def _counts(draw: Any, generator: Generator | None, *parameters: Tensor) -> Tensor:
    check_floats(draw.__name__, parameters[0])
    numbers = np.broadcast_arrays(*[p.array.astype(np.float64) for p in parameters])
    found = _rejection.drawn(draw, random.or_default(generator), *numbers)
    return finish(found.astype(parameters[0].array.dtype), False, None)


@into_out
def randint(
    *args: Any,
    size: Any = None,
    low: int | None = None,
    high: int | None = None,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """randint(high, size) or randint(low, high, size): integers from low to high - 1."""
    rest = list(args)
    if size is None and rest and isinstance(rest[-1], (tuple, list)):
        size = rest.pop()
    if size is None or len(rest) > 2 or (not rest and high is None):
        raise TypeError("randint: needs a range and a size, as in randint(0, 10, (2, 3)) or randint(10, (2, 3))")
    low, high = (rest[0], rest[1]) if len(rest) == 2 else (low or 0, rest[0] if rest else high)
    kind = as_kind(dtype, np.int64)
    values = random.or_default(generator).integers(int(low), int(high), given_sizes("randint", (size,)))  # type: ignore[arg-type]
    return finish(values.astype(kind, copy=False), requires_grad, device)


def randint_like(
    input: Tensor,
    *bounds: int,
    low: int | None = None,
    high: int | None = None,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """randint_like(input, high) or randint_like(input, low, high): see randint."""
    kind = as_kind(dtype, input.array.dtype)
    made = laid_out_like(
        input.array, lambda shape: randint(*bounds, size=shape, low=low, high=high, generator=generator).array
    )
    return finish(made.astype(kind, copy=False), requires_grad, device)


@into_out
def randperm(n: int, *, generator: Generator | None = None, dtype: Any = None, device: Any = None) -> Tensor:
    """The numbers from 0 to n - 1 in random order."""
    values = random.or_default(generator).permutation(n)
    return finish(values.astype(as_kind(dtype, np.int64), copy=False), False, device)


# fmt: off
__all__ = [
    "binomial", "normal", "poisson", "rand", "rand_like", "randint", "randint_like", "randn", "randn_like",
    "randperm",
]
# fmt: on
