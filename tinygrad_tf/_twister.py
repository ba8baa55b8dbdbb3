"""The stream behind a Generator: PyTorch's Mersenne twister, its seeds and states, and raw numbers drawn from it.

What is here changes the stream or says where it stands; what the numbers are made into is in `random`.
"""

from __future__ import annotations

import ctypes
import math
import operator
import os
import sys
import threading
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tinygrad_tf import kernels
from tinygrad_tf._sampling import InvalidRandomArgument

Array = NDArray[Any]

FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)
DEFAULT_SEED = 67280421310721  # of a new Generator, as in PyTorch
WORDS = 624  # of the twister's state
FEW = 16  # pairs of normal numbers
NOWHERE = np.empty(0, np.uint32)
# Kernels give the same words sooner; numba, which takes half a second to import, is not imported for a few.
MANY, VERY_MANY, KERNELS = 1 << 12, 1 << 20, "tinygrad_tf.kernels._compile"
LOW_24_BITS, LOW_21_BITS = np.uint32(0xFFFFFF), np.uint32(0x1FFFFF)
STEP_24 = np.float32(2.0**-24)

# PyTorch's own layout of a generator's state (5056 bytes), so that states travel between the two libraries.
STATE = np.dtype(
    {
        "names": ["seed", "left", "seeded", "next", "key", "normal", "normal_valid"],
        "formats": ["<u8", "<i4", "<i4", "<u8", ("<u8", WORDS), "<f8", "<i4"],
        "offsets": [0, 8, 12, 16, 24, 5024, 5040],
        "itemsize": 5056,
    }
)

given_out: Callable[[NDArray[np.uint8]], Any] = np.asarray  # creation, above, makes a state that is given out a tensor


def worth_kernels(count: int) -> bool:
    """Whether kernels make this many words sooner than NumPy does."""
    return count >= MANY and (count >= VERY_MANY or KERNELS in sys.modules)


class Twister:
    """Seeds, states and raw draws (Matsumoto and Nishimura 1998, MT19937, 32 bits a draw).

    Safe from several threads: whatever reads or moves the stream holds the lock, so that each draw is one piece of it.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._restart(DEFAULT_SEED)

    # -- seeds and states ------------------------------------------------------------------------------------------

    def _restart(self, seed: int) -> None:
        self._seed = seed
        self._memory: NDArray[np.uint32] | None = None
        self._twister: Any = None  # made by the first draw, because numpy.random takes 20 ms to import
        self._spare_normal: float | None = None

    def manual_seed(self, seed: int) -> Self:
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

    def get_state(self) -> Any:
        """Where the stream stands, a tensor of 5056 bytes in PyTorch's layout: `set_state`, here or there, goes on.

        >>> from tinygrad_tf import Generator
        >>> generator = Generator().manual_seed(1)
        >>> state = generator.get_state()
        >>> bool(generator.normal(3)[0] == generator.set_state(state).normal(3)[0])
        True
        """
        record = np.zeros(1, STATE)
        with self._lock:
            twister: Any = self._stream().state["state"]
            record["seed"], record["key"], record["seeded"] = self._seed, twister["key"], 1
            record["next"] = twister["pos"]
            record["left"] = WORDS + 1 - twister["pos"]
            if self._spare_normal is not None:
                record["normal"], record["normal_valid"] = self._spare_normal, 1
        return given_out(record.view(np.uint8).copy())

    def set_state(self, state: Any) -> Self:
        """Go on from what `get_state` gave (or any array of its 5056 bytes), and return the generator."""
        record = _checked(state)
        fresh = record["left"] == 1  # the next draw makes new words; PyTorch may have left any position
        key: Any = {"key": record["key"].astype(np.uint32), "pos": WORDS if fresh else int(record["next"])}
        with self._lock:
            self._restart(int(record["seed"]))
            self._stream().state = {"bit_generator": "MT19937", "state": key}
            if record["normal_valid"]:
                self._spare_normal = float(record["normal"])
        return self

    # -- raw draws -------------------------------------------------------------------------------------------------

    def _stream(self) -> np.random.MT19937:
        if self._twister is None:
            self._twister = np.random.MT19937()
            np.random.RandomState(self._twister).seed(self._seed & 0xFFFFFFFF)  # seeds it as PyTorch does
        return self._twister

    def _words(self, count: int) -> NDArray[np.uint32]:
        with self._lock:
            stream = self._stream()
            state = self._state() if worth_kernels(count) else None
            if state is None:
                return stream.random_raw(count).astype(np.uint32)
            words, position = kernels.twister.words(state[:WORDS], int(state[WORDS]), count)
            state[WORDS] = position
            return words

    def _state(self) -> NDArray[np.uint32] | None:
        """The words of the state and how many are used up, where NumPy has them; None if it has them elsewhere."""
        if self._memory is None:
            stream = self._stream()
            known: Any = stream.state["state"]
            address = stream.ctypes.state_address
            found: Any = np.ctypeslib.as_array((ctypes.c_uint32 * (WORDS + 1)).from_address(address))
            self._memory = found if [*known["key"], known["pos"]] == found.tolist() else NOWHERE
        return self._memory if self._memory.size else None

    def _long_words(self, count: int) -> NDArray[np.uint64]:
        """64 bits from two draws, the first of them the high half."""
        words = self._words(2 * count)
        return (words[0::2].astype(np.uint64) << np.uint64(32)) | words[1::2]

    def _fractions(self, count: int, dtype: np.dtype[Any]) -> Array:
        """Uniform in [0, 1): the low 53 bits of two draws in float64, the low 24 bits of one in float32."""
        if dtype == FLOAT64:
            words = self._words(2 * count)
            high = (words[0::2] & LOW_21_BITS) * 2.0**-21
            return high + words[1::2] * 2.0**-53
        return (self._words(count) & LOW_24_BITS).astype(FLOAT32) * STEP_24

    def _chances(self, count: int, p: float) -> NDArray[np.bool_]:
        """Whether uniform numbers of float64 lie below p."""
        if worth_kernels(count):
            return kernels.twister.chances(self._words(2 * count), p)
        return self._fractions(count, FLOAT64) < p

    def _few_normals(self, count: int) -> NDArray[np.float64]:
        """Standard normals two at a time; an unused second one waits for the next call."""
        if not count:
            return np.empty(0)
        with self._lock:
            waiting = [] if self._spare_normal is None else [self._spare_normal]
            pairs = (count - len(waiting) + 1) // 2
            uniform = self._fractions(2 * pairs, FLOAT64)
            make: Any = _pairs_one_by_one if pairs < FEW else _pairs
            values = [*waiting, *make(uniform)]
            self._spare_normal = float(values[count]) if len(values) > count else None
            return np.array(values[:count])


def _pairs_one_by_one(uniform: NDArray[np.float64]) -> list[float]:
    """As `_pairs`: for a few numbers Python takes a fifth of the time that NumPy takes to begin."""
    values = iter(uniform.tolist())
    found: list[float] = []
    for angle in values:
        turn, radius = 2.0 * math.pi * angle, math.sqrt(-2.0 * math.log1p(-next(values)))
        found += radius * math.cos(turn), radius * math.sin(turn)
    return found


def _pairs(uniform: NDArray[np.float64]) -> NDArray[np.float64]:
    """Two normal numbers of each two uniform ones, an angle and a radius (Box and Muller 1958)."""
    angle, radius = 2.0 * math.pi * uniform[0::2], np.sqrt(-2.0 * np.log1p(-uniform[1::2]))
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).ravel()


def _checked(state: Any) -> Any:
    """The record that the bytes of a state are; an error of one line if they are not those of a twister."""
    data = np.asarray(state)
    if data.shape != (STATE.itemsize,) or data.dtype != np.uint8:
        raise InvalidRandomArgument(
            f"state must be the 5056 bytes (uint8) of get_state, got shape {data.shape}, dtype {data.dtype}"
        )
    record = np.ascontiguousarray(data).view(STATE)[0]
    left, position = int(record["left"]), int(record["next"])
    whole = left == 1 or (1 <= position < WORDS and left + position == WORDS + 1)
    if not (whole and (record["key"] < 2**32).all() and record["key"].any()):
        raise InvalidRandomArgument("state is damaged: it holds no Mersenne twister, take one from get_state")
    return record
