"""Random numbers: PyTorch's CPU generator, so that a program with the same seed sees the same numbers.

PyTorch draws from a Mersenne twister (`_twister`) and each distribution spends its draws in a fixed way. Both are
followed here: `manual_seed(123)` gives the numbers that a PyTorch tutorial prints.

    distribution              draws, each 32 bits            the same as PyTorch 2.13 on a CPU
    uniform                   1 (float64: 2)                 bit for bit
    normal, 16 or more        1 (float64: 2), Box-Muller     float32 bit for bit (as on x86 with AVX2; elsewhere PyTorch
                              in blocks of 8 + 8             itself differs in the last bits); float64 within 2 ulp
    normal, fewer than 16     4 for two values, float64,     bit for bit in float32
                              the second one is kept
    integers, permutation     1 (a range of 2**28: 2)        bit for bit
    bernoulli                 2 (float32 tensor of p: 1)     bit for bit
    exponential               2                              bit for bit in float32
    multinomial               2 per category or per sample   see `Generator.multinomial`

Some builds of PyTorch draw other numbers for `bernoulli_` and `exponential_` (Intel's MKL). "Bit for bit" leaves the
logarithms, sines and cosines of float64 to NumPy, which differ between machines in the last bit or two.

A Generator knows no Tensor: it returns NumPy arrays.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from tinygrad_tf._box_muller import box_muller, multiply_add
from tinygrad_tf._layout import laid_out_like
from tinygrad_tf._quiet import quiet
from tinygrad_tf._sampling import InvalidRandomArgument, check_weights, first_to_arrive, swapped, where_points_fall
from tinygrad_tf._twister import FLOAT32, FLOAT64, Twister

Shape = int | Sequence[int]
Array = NDArray[Any]
LARGEST = {dtype: float(np.finfo(dtype).max) for dtype in (FLOAT32, FLOAT64)}


class Generator(Twister):
    """A stream of random numbers with PyTorch's interface.

    `device` is for programs written for PyTorch and must be 'cpu'. Drawing is safe from several threads: each call
    takes its numbers from the stream in one piece.

    >>> generator = Generator().manual_seed(123)
    >>> generator.uniform((2, 2))
    array([[0.29611194, 0.5165623 ],
           [0.25167072, 0.6885568 ]], dtype=float32)
    """

    def __init__(self, device: Any = "cpu") -> None:
        if str(device).split(":")[0] != "cpu":
            raise InvalidRandomArgument(f"device must be 'cpu', the only one there is, got {device!r}")
        super().__init__()
        self.device = "cpu"

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (np.asarray(self.get_state()),)

    def __repr__(self) -> str:
        return f"Generator(device='cpu', initial_seed={self._seed})"

    def uniform(self, shape: Shape, low: float = 0.0, high: float = 1.0, dtype: DTypeLike = np.float32) -> Array:
        """Uniform in [low, high), as `torch.rand` and `Tensor.uniform_`.

        float64 takes two draws a number, every other floating dtype one draw, rounded from float32.
        """
        shape, dtype = _shape(shape), _floating(dtype)
        wide = FLOAT64 if dtype == FLOAT64 else FLOAT32
        if not (low <= high and max(abs(low), abs(high), high - low) <= LARGEST[wide]):
            raise InvalidRandomArgument(f"uniform needs finite low <= high, got low={low}, high={high}")
        values = self._fractions(math.prod(shape), wide)
        if (low, high) != (0.0, 1.0):
            start = wide.type(low)
            values = multiply_add(values, float(wide.type(high) - start), float(start))
        if dtype != wide:  # rounding may reach `high`, which is excluded; PyTorch then takes `low`
            values = values.astype(dtype)
            values[values >= dtype.type(high)] = low
        return values.reshape(shape)

    def normal(
        self,
        shape: Shape,
        mean: float = 0.0,
        std: float = 1.0,
        dtype: DTypeLike = np.float32,
        one_by_one: bool = False,
    ) -> Array:
        """Normal with `mean` and `std`, as `torch.randn` and `Tensor.normal_` (Box and Muller 1958).

        With one_by_one, numbers are drawn as for fewer than 16 however many there are: PyTorch does that for a tensor
        that does not lie in the order of its axes.

        >>> Generator().manual_seed(123).normal(3)
        array([-0.11146712,  0.12036294, -0.3696345 ], dtype=float32)
        """
        shape, dtype = _shape(shape), _floating(dtype)
        if not std >= 0.0:
            raise InvalidRandomArgument(f"std must not be negative, got {std}")
        count = math.prod(shape)
        if count < 16 or one_by_one:
            values = self._few_normals(count)
            with quiet():
                if (mean, std) != (0.0, 1.0):
                    values = multiply_add(values, std, mean)
                return values.astype(dtype, copy=False).reshape(shape)
        wide = FLOAT64 if dtype == FLOAT64 else FLOAT32
        full = count - count % 16
        if full == count:
            values = self._fractions(count, wide)
        else:  # the last 16 numbers come of 16 draws of their own; the draws for the odd ones are spent, but in 16 bits
            spent = count if dtype == wide else full
            draws = self._fractions(spent + 16, wide)
            values, tail = draws[:count], draws[spent:].copy()
            box_muller(tail.reshape(1, 2, 8), mean, std)
        box_muller(values[:full].reshape(-1, 2, 8), mean, std)
        if full < count:
            values[-16:] = tail
        return values.astype(dtype, copy=False).reshape(shape)

    def integers(self, low: int, high: int, shape: Shape, dtype: DTypeLike = np.int64) -> Array:
        """Integers from `low` to `high - 1`, as `torch.randint`.

        The remainder of 32 bits, or of 64 bits for a range of 2**28 or more (so that no value is favoured noticeably).

        >>> Generator().manual_seed(123).integers(0, 10, 5).tolist()
        [2, 9, 2, 0, 0]
        """
        shape, dtype = _shape(shape), np.dtype(dtype)
        low, high = operator.index(low), operator.index(high)
        if low >= high:
            raise InvalidRandomArgument(f"integers needs low < high, got low={low}, high={high}")
        limits = (0, 1) if dtype == np.bool_ else _integer_limits(dtype)
        if low < limits[0] or high - 1 > limits[1]:
            raise InvalidRandomArgument(f"integers from {low} to {high - 1} do not fit into {dtype}")
        count, span = math.prod(shape), high - low
        if span < 2**28:
            values = (self._words(count) % np.uint32(span)).astype(np.uint64)
        else:
            values = self._long_words(count)
            if span < 2**64:
                values %= np.uint64(span)
        values += np.uint64(low % 2**64)
        signed = values if dtype == np.uint64 else values.view(np.int64)
        return signed.astype(dtype, copy=False).reshape(shape)

    def whole_numbers(self, shape: Shape, dtype: np.dtype[Any]) -> NDArray[np.int64]:
        """Integers from 0 to the last that `dtype` holds without gaps, as `Tensor.random_()`: of 32 bits if they do.

        >>> Generator().manual_seed(123).whole_numbers(5, np.dtype(np.uint8)).tolist()
        [254, 109, 126, 66, 220]
        """
        span = 2 if dtype.kind == "b" else 1 + _integer_limits(dtype)[1]
        if dtype.itemsize == 8:
            return self.integers(0, span, shape)
        shape = _shape(shape)
        return (self._words(math.prod(shape)).astype(np.int64) % span).reshape(shape)

    def permutation(self, n: int) -> NDArray[np.int64]:
        """A random order of 0 .. n - 1, as `torch.randperm` (the Fisher-Yates shuffle).

        >>> Generator().manual_seed(123).permutation(5).tolist()
        [2, 0, 1, 3, 4]
        """
        n = operator.index(n)
        if not 0 <= n < 2**31:
            raise InvalidRandomArgument(f"n must be from 0 to 2**31 - 1, got {n}")
        draws = max(n - 1, 0)
        left = np.arange(n, n - draws, -1, dtype=np.uint64)
        short = n < (2**32 - 1) // 20  # as PyTorch has it: no place is favoured by more than a twentieth
        words = self._words(draws) if short else self._long_words(draws)
        partner = np.arange(n, dtype=np.int64)
        partner[:draws] += (words % left).astype(np.int64)
        return swapped(partner)

    def bernoulli(self, p: float | Array, shape: Shape | None = None) -> NDArray[np.bool_]:
        """True with probability `p`.

        With a number and a shape: as `Tensor.bernoulli_(p)`, and so as the masks of dropout with p = 1 - dropout.
        With an array (shape left out): as `torch.bernoulli(p)`, each entry with its own probability.

        >>> Generator().manual_seed(123).bernoulli(0.5, 6).astype(int)
        array([1, 1, 0, 1, 1, 0])
        """
        if shape is not None:
            shape, number = _shape(shape), float(p)
            if not 0.0 <= number <= 1.0:  # so NaN is outside, too
                raise InvalidRandomArgument(f"p must be in [0, 1], got {number}")
            return self._chances(math.prod(shape), number).reshape(shape)
        chance = np.asarray(p)
        outside = ~((chance >= 0.0) & (chance <= 1.0))
        if outside.any():
            raise InvalidRandomArgument(f"p must be in [0, 1], got {float(chance[outside][0])}")
        wide = FLOAT32 if chance.dtype.kind in "fV" and chance.dtype != np.float64 else FLOAT64  # V: bfloat16
        return self._fractions(chance.size, wide).reshape(chance.shape) < chance.astype(wide)

    def exponential(self, shape: Shape, rate: float = 1.0, dtype: DTypeLike = np.float32) -> Array:
        """Exponential with mean 1 / rate, as `Tensor.exponential_`."""
        shape, dtype = _shape(shape), _floating(dtype)
        if not rate > 0.0:
            raise InvalidRandomArgument(f"rate must be positive, got {rate}")
        values = np.log1p(-self._fractions(math.prod(shape), FLOAT64))
        values *= -1.0 / float(rate)
        return values.astype(dtype, copy=False).reshape(shape)

    def cauchy(self, shape: Shape, median: float, width: float, dtype: DTypeLike = np.float32) -> Array:
        """Of the Cauchy distribution with that median and half width, as `Tensor.cauchy_`."""
        shape, dtype = _shape(shape), _floating(dtype)
        if not width > 0.0:
            raise InvalidRandomArgument(f"sigma must be positive, got {width}")
        values = np.tan(np.pi * (self._fractions(math.prod(shape), FLOAT64) - 0.5)) * width + median
        return values.astype(dtype, copy=False).reshape(shape)

    def geometric(self, shape: Shape, chance: float) -> Array:
        """Tries until one succeeds, each with probability `chance`, as `Tensor.geometric_`."""
        shape = _shape(shape)
        if not 0.0 < chance < 1.0:
            raise InvalidRandomArgument(f"p must be in (0, 1), got {chance}")
        fractions = self._fractions(math.prod(shape), FLOAT64)
        with np.errstate(divide="ignore"):
            return np.ceil(np.log(fractions) / np.log1p(-chance)).reshape(shape)

    def multinomial(self, probabilities: Array, num_samples: int, replacement: bool = False) -> NDArray[np.int64]:
        """Draw `num_samples` indices per row of weights (rows, n) or (n,), as `torch.multinomial`.

        The weights need not sum to 1. An index of weight 0 is never drawn: without replacement, asking for more samples
        than a row has positive weights is an error (PyTorch returns such indices).

        One sample, or no replacement: the largest of weight / exponential, bit for bit. With replacement: a search in
        the cumulative sums. These are taken in float64, where PyTorch adds float32 up in float32 and loses the tails of
        long rows; so a float32 row matches but for draws that fall within that error of a boundary (of 300 draws from
        65 categories none, from 50,257 about ten).

        >>> Generator().manual_seed(0).multinomial(np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]), 1).tolist()
        [[1], [0]]
        """
        weights = np.asarray(probabilities)
        if weights.ndim not in (1, 2) or not weights.shape[-1]:
            raise InvalidRandomArgument(f"probabilities must have shape (n,) or (rows, n), n > 0, got {weights.shape}")
        weights = weights.astype(np.result_type(_floating(weights.dtype), np.float32), copy=False)
        rows, num_samples = weights.reshape(-1, weights.shape[-1]), operator.index(num_samples)
        check_weights(rows, num_samples, replacement)
        if replacement and num_samples > 1:
            points = self._fractions(len(rows) * num_samples, FLOAT64)
            chosen = where_points_fall(rows, points.reshape(len(rows), num_samples))
        else:
            chosen = first_to_arrive(rows, self.exponential(rows.shape, dtype=rows.dtype), num_samples)
        return chosen.reshape(*weights.shape[:-1], num_samples)


# --- the process's own generator --------------------------------------------------------------------------------------

default_generator = Generator()
default_generator.seed()


def or_default(generator: Generator | None) -> Generator:
    """The generator to draw from: the one given, or else the process's own."""
    return default_generator if generator is None else generator


def manual_seed(seed: int) -> Generator:
    """Start the default generator anew from `seed` and return it, as `torch.manual_seed`."""
    return default_generator.manual_seed(seed)


def seed() -> int:
    """Start the default generator anew from a seed that the operating system picks, and return it."""
    return default_generator.seed()


def initial_seed() -> int:
    """The seed that the default generator was last started from."""
    return default_generator.initial_seed()


def get_rng_state() -> Any:
    """Where the default generator stands, a tensor of 5056 bytes (see `Generator.get_state`)."""
    return default_generator.get_state()


def set_rng_state(state: Any) -> None:
    """Let the default generator go on from what `get_rng_state` gave."""
    default_generator.set_state(state)


@contextmanager
def fork_rng(devices: Any = None, enabled: bool = True, device_type: str = "cpu") -> Iterator[None]:
    """Random numbers that leave no trace: behind the `with` the default generator goes on as if nothing was drawn.

    >>> from tinygrad_tf import manual_seed, rand
    >>> _ = manual_seed(0)
    >>> with fork_rng():
    ...     a = rand(1)
    >>> bool(a == rand(1))
    True
    """
    before = get_rng_state()
    try:
        yield
    finally:
        if enabled:
            set_rng_state(before)


def _restored(state: NDArray[np.uint8]) -> Generator:
    return Generator().set_state(state)


def normal_like(array: Array, generator: Generator, mean: float = 0.0, std: float = 1.0) -> Array:
    """The normal random numbers that `Tensor.normal_` puts into an array (see `laid_out_like`)."""
    scattered = not array.flags.c_contiguous
    return laid_out_like(array, lambda shape: generator.normal(shape, mean, std, array.dtype, one_by_one=scattered))


# --- helpers ----------------------------------------------------------------------------------------------------------


def _shape(shape: Shape) -> tuple[int, ...]:
    if type(shape) is tuple:
        sizes = shape
    else:
        sizes = tuple(shape) if isinstance(shape, Sequence) else tuple(np.atleast_1d(shape).tolist())
    sizes = tuple([operator.index(size) for size in sizes])
    if sizes and min(sizes) < 0:
        raise InvalidRandomArgument(f"shape must not have negative sizes, got {sizes}")
    return sizes


def _floating(dtype: DTypeLike) -> np.dtype[Any]:
    dtype = np.dtype(dtype)
    if dtype.kind != "f" and dtype.name != "bfloat16":
        raise InvalidRandomArgument(f"dtype must be a floating one, got {dtype}")
    return dtype


@functools.cache
def _integer_limits(dtype: np.dtype[Any]) -> tuple[int, int]:
    """The integers that `dtype` holds; for a floating one, those it holds without gaps."""
    if np.issubdtype(dtype, np.integer):
        return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    digits = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8}.get(dtype.name)
    if digits is None:
        raise InvalidRandomArgument(f"integers need a bool, integer or floating dtype, got {dtype}")
    return -(2**digits), 2**digits
