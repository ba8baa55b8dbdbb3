"""Random numbers: PyTorch's CPU generator, so that a program with the same seed sees the same numbers.

PyTorch draws from a Mersenne twister (Matsumoto and Nishimura 1998, MT19937, 32 bits a draw) and each distribution
spends its draws in a fixed way. This file follows both: `manual_seed(123)` gives the numbers that a PyTorch tutorial
prints.

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

import math
import operator
import os
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from tinygrad_tf._box_muller import box_muller, multiply_add
from tinygrad_tf._sampling import InvalidRandomArgument, check_weights, first_to_arrive, swapped, where_points_fall

Shape = int | Sequence[int]
Array = NDArray[Any]

DEFAULT_SEED = 67280421310721  # of a new Generator, as in PyTorch
WORDS = 624  # of the twister's state

# PyTorch's own layout of a generator's state (5056 bytes), so that states travel between the two libraries.
STATE = np.dtype(
    {
        "names": ["seed", "left", "seeded", "next", "key", "normal", "normal_valid"],
        "formats": ["<u8", "<i4", "<i4", "<u8", ("<u8", WORDS), "<f8", "<i4"],
        "offsets": [0, 8, 12, 16, 24, 5024, 5040],
        "itemsize": 5056,
    }
)


class Generator:
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
        self.device = "cpu"
        self._lock = threading.RLock()
        self._restart(DEFAULT_SEED)

    # -- seeds and states ------------------------------------------------------------------------------------------

    def _restart(self, seed: int) -> None:
        self._seed = seed
        self._twister: Any = None  # made by the first draw, because numpy.random takes 20 ms to import
        self._spare_normal: float | None = None

    def manual_seed(self, seed: int) -> Generator:
        """Start the stream anew from `seed`, an int from -2**63 to 2**64 - 1, and return the generator.

        As in PyTorch only the low 32 bits choose the stream, and a negative seed stands for 2**64 + seed.
        """
        try:
            number = int(seed) if isinstance(seed, float | str) else operator.index(seed)
        except (TypeError, ValueError, OverflowError) as error:
            raise TypeError(f"seed must be an integer, got {seed!r}") from error
        if not -(2**63) <= number < 2**64:
            raise ValueError(f"seed must be from -2**63 to 2**64 - 1, got {number}")
        with self._lock:
            self._restart(number % 2**64)
        return self

    def seed(self) -> int:
        """Start anew from a seed that the operating system picks, and return it (53 bits: exact in JSON)."""
        seed = int.from_bytes(os.urandom(8), "little") >> 11
        self.manual_seed(seed)
        return seed

    def initial_seed(self) -> int:
        """The seed that the stream was last started from."""
        return self._seed

    def get_state(self) -> NDArray[np.uint8]:
        """Where the stream stands, as 5056 bytes in PyTorch's layout: `set_state`, here or there, goes on from it.

        >>> generator = Generator().manual_seed(1)
        >>> state = generator.get_state()
        >>> bool(generator.normal(3)[0] == generator.set_state(state).normal(3)[0])
        True
        """
        record = np.zeros(1, STATE)
        with self._lock:
            twister = self._stream().get_state(legacy=False)["state"]
            record["seed"], record["key"], record["seeded"] = self._seed, twister["key"], 1
            record["next"] = twister["pos"]
            record["left"] = WORDS + 1 - twister["pos"]
            if self._spare_normal is not None:
                record["normal"], record["normal_valid"] = self._spare_normal, 1
        return record.view(np.uint8).copy()

    def set_state(self, state: Any) -> Generator:
        """Go on from what `get_state` gave (any array of its 5056 bytes), and return the generator."""
        data = np.asarray(state)
        if data.shape != (STATE.itemsize,) or data.dtype != np.uint8:
            raise InvalidRandomArgument(
                f"state must be the 5056 bytes (uint8) of get_state, got shape {data.shape}, dtype {data.dtype}"
            )
        record = np.ascontiguousarray(data).view(STATE)[0]
        left, position = int(record["left"]), int(record["next"])
        fresh = left == 1  # the next draw makes new words; PyTorch may have left any position
        whole = fresh or (1 <= position < WORDS and left + position == WORDS + 1)
        if not (whole and (record["key"] < 2**32).all() and record["key"].any()):
            raise InvalidRandomArgument("state is damaged: it holds no Mersenne twister, take one from get_state")
        key = {"key": record["key"].astype(np.uint32), "pos": WORDS if fresh else position}
        with self._lock:
            self._restart(int(record["seed"]))
            self._stream().set_state({"bit_generator": "MT19937", "state": key})
            if record["normal_valid"]:
                self._spare_normal = float(record["normal"])
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self.get_state(),)

    def __repr__(self) -> str:
        return f"Generator(device='cpu', initial_seed={self._seed})"

    # -- raw draws -------------------------------------------------------------------------------------------------

    def _stream(self) -> np.random.RandomState:
        if self._twister is None:
            self._twister = np.random.RandomState(self._seed & 0xFFFFFFFF)
        return self._twister

    def _words(self, count: int) -> NDArray[np.uint32]:
        with self._lock:
            return self._stream().randint(0, 2**32, size=count, dtype=np.uint32)

    def _long_words(self, count: int) -> NDArray[np.uint64]:
        """64 bits from two draws, the first of them the high half."""
        words = self._words(2 * count)
        return (words[0::2].astype(np.uint64) << np.uint64(32)) | words[1::2]

    def _fractions(self, count: int, dtype: np.dtype[Any]) -> Array:
        """Uniform in [0, 1): the low 53 bits of two draws in float64, the low 24 bits of one in float32."""
        if dtype == np.float64:
            words = self._words(2 * count)
            high = (words[0::2] & np.uint32(0x1FFFFF)) * 2.0**-21
            return high + words[1::2] * 2.0**-53
        return (self._words(count) & np.uint32(0xFFFFFF)).astype(np.float32) * np.float32(2.0**-24)

    # -- distributions ---------------------------------------------------------------------------------------------

    def uniform(self, shape: Shape, low: float = 0.0, high: float = 1.0, dtype: DTypeLike = np.float32) -> Array:
        """Uniform in [low, high), as `torch.rand` and `Tensor.uniform_`.

        float64 takes two draws a number, every other floating dtype one draw, rounded from float32.
        """
        shape, dtype = _shape(shape), _floating(dtype)
        wide = np.dtype(np.float64) if dtype == np.float64 else np.dtype(np.float32)
        if not (low <= high and max(abs(low), abs(high), high - low) <= np.finfo(wide).max):
            raise InvalidRandomArgument(f"uniform needs finite low <= high, got low={low}, high={high}")
        values = self._fractions(math.prod(shape), wide)
        if (low, high) != (0.0, 1.0):
            start = wide.type(low)
            values = multiply_add(values, float(wide.type(high) - start), float(start))
        if dtype != wide:  # rounding may reach `high`, which is excluded; PyTorch then takes `low`
            values = values.astype(dtype)
            values[values >= dtype.type(high)] = low
        return values.reshape(shape)

    def normal(self, shape: Shape, mean: float = 0.0, std: float = 1.0, dtype: DTypeLike = np.float32) -> Array:
        """Normal with `mean` and `std`, as `torch.randn` and `Tensor.normal_` (Box and Muller 1958).

        >>> Generator().manual_seed(123).normal(3)
        array([-0.11146712,  0.12036294, -0.3696345 ], dtype=float32)
        """
        shape, dtype = _shape(shape), _floating(dtype)
        if not std >= 0.0:
            raise InvalidRandomArgument(f"std must not be negative, got {std}")
        count = math.prod(shape)
        if count < 16:
            return multiply_add(self._few_normals(count), std, mean).astype(dtype).reshape(shape)
        wide = np.dtype(np.float64) if dtype == np.float64 else np.dtype(np.float32)
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

    def _few_normals(self, count: int) -> NDArray[np.float64]:
        """Standard normals two at a time; an unused second one waits for the next call."""
        with self._lock:
            waiting = [] if self._spare_normal is None or not count else [self._spare_normal]
            pairs = (count - len(waiting) + 1) // 2
            angle, radius = self._fractions(2 * pairs, np.dtype(np.float64)).reshape(pairs, 2).T
            angle, radius = 2.0 * math.pi * angle, np.sqrt(-2.0 * np.log1p(-radius))
            fresh = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).ravel()
            values = np.concatenate([np.array(waiting, np.float64), fresh])
            if count:
                self._spare_normal = float(values[count]) if len(values) > count else None
            return values[:count]

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
        words = self._words(draws) if n < (2**32 - 1) // 20 else self._long_words(draws)
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
        chance = np.asarray(p)
        if not ((chance >= 0.0) & (chance <= 1.0)).all():
            raise InvalidRandomArgument(f"p must be in [0, 1], got {_worst(chance, 0.0, 1.0)}")
        if shape is None:
            single = np.issubdtype(chance.dtype, np.floating) and chance.dtype != np.float64
            wide = np.dtype(np.float32 if single else np.float64)
            return self._fractions(chance.size, wide).reshape(chance.shape) < chance.astype(wide)
        shape = _shape(shape)
        return self._fractions(math.prod(shape), np.dtype(np.float64)).reshape(shape) < chance.astype(np.float64)

    def exponential(self, shape: Shape, rate: float = 1.0, dtype: DTypeLike = np.float32) -> Array:
        """Exponential with mean 1 / rate, as `Tensor.exponential_`."""
        shape, dtype = _shape(shape), _floating(dtype)
        if not rate > 0.0:
            raise InvalidRandomArgument(f"rate must be positive, got {rate}")
        values = np.log1p(-self._fractions(math.prod(shape), np.dtype(np.float64)))
        values *= -1.0 / float(rate)
        return values.astype(dtype, copy=False).reshape(shape)

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
            points = self._fractions(len(rows) * num_samples, np.dtype(np.float64))
            chosen = where_points_fall(rows, points.reshape(len(rows), num_samples))
        else:
            chosen = first_to_arrive(rows, self.exponential(rows.shape, dtype=rows.dtype), num_samples)
        return chosen.reshape(*weights.shape[:-1], num_samples)


# -- the process's own generator -----------------------------------------------------------------------------

default_generator = Generator()
default_generator.seed()


def manual_seed(seed: int) -> Generator:
    """Start the default generator anew from `seed` and return it, as `torch.manual_seed`."""
    return default_generator.manual_seed(seed)


def seed() -> int:
    """Start the default generator anew from a seed that the operating system picks, and return it."""
    return default_generator.seed()


def initial_seed() -> int:
    """The seed that the default generator was last started from."""
    return default_generator.initial_seed()


def get_rng_state() -> NDArray[np.uint8]:
    """Where the default generator stands, as 5056 bytes (see `Generator.get_state`)."""
    return default_generator.get_state()


def set_rng_state(state: Any) -> None:
    """Let the default generator go on from what `get_rng_state` gave."""
    default_generator.set_state(state)


def _restored(state: NDArray[np.uint8]) -> Generator:
    return Generator().set_state(state)


# -- helpers -------------------------------------------------------------------------------------------------


def _shape(shape: Shape) -> tuple[int, ...]:
    sizes = tuple(shape) if isinstance(shape, Sequence) else tuple(np.atleast_1d(shape).tolist())
    sizes = tuple(operator.index(size) for size in sizes)
    if any(size < 0 for size in sizes):
        raise InvalidRandomArgument(f"shape must not have negative sizes, got {sizes}")
    return sizes


def _floating(dtype: DTypeLike) -> np.dtype[Any]:
    dtype = np.dtype(dtype)
    if not (np.issubdtype(dtype, np.floating) or dtype.name in ("bfloat16", "float16")):
        raise InvalidRandomArgument(f"dtype must be a floating one, got {dtype}")
    return dtype


def _integer_limits(dtype: np.dtype[Any]) -> tuple[int, int]:
    """The integers that `dtype` holds; for a floating one, those it holds without gaps."""
    if np.issubdtype(dtype, np.integer):
        return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    digits = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8}.get(dtype.name)
    if digits is None:
        raise InvalidRandomArgument(f"integers need a bool, integer or floating dtype, got {dtype}")
    return -(2**digits), 2**digits


def _worst(values: Array, low: float, high: float) -> float:
    return float(values[~((values >= low) & (values <= high))].flat[0])
