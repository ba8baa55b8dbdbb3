"""Methods that fill a tensor with other values, given or random."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tinygrad_tf import engine, random
from tinygrad_tf._layout import laid_out_like
from tinygrad_tf.methods._tools import operand
from tinygrad_tf.ops import inplace
from tinygrad_tf.ops._types import fitting

if TYPE_CHECKING:
    from tinygrad_tf.tensor import Tensor

Generator = random.Generator


class FillingMethods(engine.Tensor):
    __slots__ = ()

    def fill_(self, value: Any) -> Tensor:
        """One number everywhere."""
        if isinstance(value, engine.Tensor) and value.array.ndim:
            raise RuntimeError(f"fill_: value must be a number, got a tensor of shape {value.array.shape}; use copy_")
        if isinstance(value, (int, float)):
            fitting("fill_", value, self.array.dtype)
        inplace.set_item(self, ..., operand(value))
        return self  # type: ignore[return-value]

    def zero_(self) -> Tensor:
        """Zeros everywhere."""
        return self.fill_(0)

    def copy_(self, src: Any, non_blocking: bool = False) -> Tensor:
        """Take the values of `src`, broadcast and cast to this tensor's shape and dtype."""
        inplace.set_item(self, ..., operand(src))
        return self  # type: ignore[return-value]

    def fill_diagonal_(self, fill_value: float, wrap: bool = False) -> Tensor:
        """One number where all indices are equal; wrap: in a tall matrix, once more below each square and its gap."""
        shape = self.array.shape
        if len(shape) < 2 or (len(shape) > 2 and len(set(shape)) > 1):
            raise RuntimeError(f"fill_diagonal_: needs a matrix, or axes of one size, got shape {shape}")
        rows = columns = np.arange(min(shape))
        if wrap and len(shape) == 2 and shape[0] > shape[1]:
            rows, columns = np.unravel_index(np.arange(0, self.array.size, shape[1] + 1), shape)
        inplace.set_item(self, (rows, *(columns,) * (len(shape) - 1)), fill_value)
        return self  # type: ignore[return-value]

    # --- random numbers -------------------------------------------------------------------------------------------

    def normal_(self, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None) -> Tensor:
        """Normal random numbers."""
        return self.copy_(engine.make(random.normal_like(self.array, random.or_default(generator), mean, std)))

    def log_normal_(self, mean: float = 1.0, std: float = 2.0, *, generator: Generator | None = None) -> Tensor:
        """Random numbers whose logarithms are normal, with that mean and deviation."""
        draw = random.or_default(generator).normal
        return self._drawn(lambda shape: np.exp(draw(shape, mean, std, np.float64, one_by_one=True)))

    def uniform_(self, from_: float = 0.0, to: float = 1.0, *, generator: Generator | None = None) -> Tensor:
        """Uniform random numbers in [from, to)."""
        return self._drawn(lambda shape: random.or_default(generator).uniform(shape, from_, to, self.array.dtype))

    def exponential_(self, lambd: float = 1.0, *, generator: Generator | None = None) -> Tensor:
        """Exponential random numbers with mean 1 / lambd."""
        return self._drawn(lambda shape: random.or_default(generator).exponential(shape, lambd, self.array.dtype))

    def cauchy_(self, median: float = 0.0, sigma: float = 1.0, *, generator: Generator | None = None) -> Tensor:
        """Random numbers of the Cauchy distribution with that median and half width."""
        return self._drawn(lambda shape: random.or_default(generator).cauchy(shape, median, sigma, self.array.dtype))

    def geometric_(self, p: float, *, generator: Generator | None = None) -> Tensor:
        """How many tries it takes until one succeeds, each with probability p: from 1 on."""
        return self._drawn(lambda shape: random.or_default(generator).geometric(shape, p))

    def bernoulli_(self, p: Any = 0.5, *, generator: Generator | None = None) -> Tensor:
        """1 with probability p (a number, or a tensor with one for each element), else 0."""
        if isinstance(p, engine.Tensor):
            return self.copy_(
                engine.make(random.or_default(generator).bernoulli(np.broadcast_to(p.array, self.array.shape)))
            )
        return self._drawn(lambda shape: random.or_default(generator).bernoulli(p, shape))

    def random_(self, from_: int = 0, to: int | None = None, *, generator: Generator | None = None) -> Tensor:
        """Random integers: random_(to), or random_(from, to), from `from` to `to` - 1; random_(): all that there are,
        of floating point dtypes those up to which no integer is left out.
        """
        low, high = (0, from_) if to is None and from_ else (from_, to)
        if high is None:
            return self._drawn(lambda shape: random.or_default(generator).whole_numbers(shape, self.array.dtype))
        return self._drawn(lambda shape: random.or_default(generator).integers(low, high, shape))

    def _drawn(self, draw: Callable[[tuple[int, ...]], np.ndarray]) -> Tensor:
        return self.copy_(engine.make(laid_out_like(self.array, draw)))

    def bernoulli(self, p: float | None = None, *, generator: Generator | None = None) -> Tensor:
        """0 or 1, where this tensor holds the probability of 1, or with the same probability p everywhere."""
        if p is not None:
            return engine.make(random.or_default(generator).bernoulli(p, self.array.shape).astype(self.array.dtype))
        return engine.make(random.or_default(generator).bernoulli(self.array).astype(self.array.dtype))

    def multinomial(self, num_samples: int, replacement: bool = False, *, generator: Generator | None = None) -> Tensor:
        """Indices drawn with the given weights, for each row; an entry of weight 0 is never drawn."""
        try:
            return engine.make(random.or_default(generator).multinomial(self.array, num_samples, replacement))
        except ValueError as error:
            raise RuntimeError(f"multinomial: {error}") from None
