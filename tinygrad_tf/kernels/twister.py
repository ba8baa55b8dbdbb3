"""The Mersenne twister by vectors (Matsumoto and Nishimura 1998, "Mersenne Twister", MT19937): many words at once.

    words(key, position, count)     the next `count` words of the stream; the state `key` moves on
    chances(words, p)               True where the 53 bits of two words, as a fraction, lie below p

Word i of a new state needs words i and i + 1 of the old one and a word 227 places before, which is new already: so
vectors of up to 227 words can be made at once. Nanoseconds, with AVX2: a word 3.6 in NumPy, here 0.6; to compare two
words with p 3.1 and 0.3.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinygrad_tf.kernels._compile import kernel, parallel
from tinygrad_tf.kernels._rows import blocks
from tinygrad_tf.kernels._scalar import widest_vectors

Array = np.ndarray
WORDS, MIDDLE = 624, 397
HIGH_BIT, LOW_BITS, TWIST = np.uint32(0x80000000), np.uint32(0x7FFFFFFF), np.uint32(0x9908B0DF)
FIRST_MASK, SECOND_MASK = np.uint32(0x9D2C5680), np.uint32(0xEFC60000)


def words(key: Array, position: int, count: int) -> tuple[Array, int]:
    """(words, position): key (624 words, uint32) is changed in place; `position` of its words are used up."""
    result = np.empty(count, np.uint32)
    return result, int(draw(key, position, result))


@kernel
def draw(key: Any, position: int, result: Any) -> Any:
    widest_vectors()
    done = 0
    while done < result.size:
        if position == WORDS:
            renew(key)
            position = 0
        count = min(WORDS - position, result.size - done)
        temper(key[position : position + count], result[done : done + count])
        position, done = position + count, done + count
    return position


@kernel
def renew(key: Any) -> None:
    """The next 624 words of the state."""
    old, first = key.copy(), WORDS - MIDDLE  # a copy, for only what cannot overlap is read and written by vectors
    twist(key[:first], old[:first], old[1 : first + 1], key[MIDDLE:])
    for start in range(first, WORDS - 1, first):
        stop = min(start + first, WORDS - 1)
        twist(key[start:stop], old[start:stop], old[start + 1 : stop + 1], key[start - first : stop - first])
    twist(key[WORDS - 1 :], old[WORDS - 1 :], key[:1], key[MIDDLE - 1 : MIDDLE])


@kernel
def twist(target: Any, old: Any, following: Any, before: Any) -> None:
    widest_vectors()
    for i in range(target.size):
        mixed = np.uint32((old[i] & HIGH_BIT) | (following[i] & LOW_BITS))
        odd = TWIST if mixed & np.uint32(1) else np.uint32(0)
        target[i] = np.uint32(before[i] ^ (mixed >> np.uint32(1)) ^ odd)


@kernel
def temper(source: Any, target: Any) -> None:
    widest_vectors()
    for i in range(target.size):
        y = source[i]
        y = np.uint32(y ^ (y >> np.uint32(11)))
        y = np.uint32(y ^ (np.uint32(y << np.uint32(7)) & FIRST_MASK))
        y = np.uint32(y ^ (np.uint32(y << np.uint32(15)) & SECOND_MASK))
        target[i] = np.uint32(y ^ (y >> np.uint32(18)))


def chances(drawn: Array, p: float) -> Array:
    """(count,) bool of 2 count words: whether (the low 21 bits of the first, all of the second) / 2^53 is below p."""
    result = np.empty(drawn.size // 2, bool)
    count, step = blocks(result.size, 1)
    compare(count, step, drawn, math.ceil(p * 2.0**53), result)  # exact: p * 2^53 only moves the point
    return result


@parallel
def compare(block: int, step: int, drawn: Any, limit: int, result: Any) -> None:
    widest_vectors()
    target = result[block * step : block * step + step]
    source = drawn[2 * block * step : 2 * block * step + 2 * target.size]
    for i in range(target.size):
        high, low = np.int64(source[2 * i]) & 0x1FFFFF, np.int64(source[2 * i + 1])
        target[i] = (high << 32) + low < limit
