"""Key-value caches: what attention keeps of the tokens it has seen, so that a new token costs one row, not all rows.

The protocol between a model and its caches, one for each layer of self-attention:

    logits = model(ids, cache=caches)           ids (B, T) go on where the last call ended
    keys, values = cache.update(key, value)     in attention: (B, H, T, D) in, (B, H, Tk, D) out, in order of time

`cache.offset`, read before the update, is the position of the first new token. Afterwards query i may attend to the
keys 0 ... i + Tk - T (the mask is causal from the bottom right), and in a cache with a `window` to the last `window`
of those. With prompts of different length a model also takes `mask`, (B, 1, 1, Tk), True at real tokens, and
`positions`, (B, T): see steps.py.

Shapes: B batch, H key heads, T new tokens, Tk keys, D channels of a head.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tinygrad_tf.engine import current_node, make
from tinygrad_tf.tensor import Tensor
from tinygrad_tf.utils.errors import InputError

SMALLEST_CAPACITY = 16


class Cache(Protocol):
    """What attention and generation ask of a cache."""

    offset: int  # tokens seen so far

    @property
    def window(self) -> int | None:
        """The most keys that a query may attend to; None: all."""
        ...

    def update(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Keep the keys and values (B, H, T, D) of new tokens; give those to attend to, (B, H, Tk, D)."""
        ...

    def width(self, tokens: int) -> int:
        """Tk, how many keys the next update gives for so many new tokens."""
        ...

    def select(self, rows: Sequence[int]) -> None:
        """Go on with these sequences of the batch, in this order; one may be taken several times, or left out."""
        ...


class GrowingCache:
    """Keeps everything. When the memory is full it doubles, so that n tokens copy less than 2n rows in all.

    >>> from tinygrad_tf import zeros
    >>> cache = GrowingCache()
    >>> keys, values = cache.update(zeros(1, 2, 5, 4), zeros(1, 2, 5, 4))
    >>> keys, values = cache.update(zeros(1, 2, 1, 4), zeros(1, 2, 1, 4))
    >>> tuple(keys.shape), cache.offset
    ((1, 2, 6, 4), 6)
    """

    window = None

    def __init__(self, expected: int = SMALLEST_CAPACITY) -> None:
        """expected: tokens that there is memory for from the start."""
        self.offset = 0
        self.expected = expected
        self._keys: NDArray | None = None  # (B, H, capacity, D); rows from offset on are zeros
        self._values: NDArray | None = None

    @property
    def capacity(self) -> int:
        """Tokens for which there is memory."""
        return 0 if self._keys is None else self._keys.shape[2]

    def width(self, tokens: int) -> int:
        return self.offset + tokens

    def update(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        new_keys, new_values = check_update(key, value, self._keys, self._values)
        start, stop = self.offset, self.offset + new_keys.shape[2]
        keys, values = self._with_room(stop, new_keys, new_values)
        keys[:, :, start:stop] = new_keys
        values[:, :, start:stop] = new_values
        self.offset = stop
        return make(keys[:, :, :stop]), make(values[:, :, :stop])

    def room(self, tokens: int, like: NDArray) -> tuple[NDArray, NDArray]:
        """Keys and values (B, H, capacity, D) with room for more tokens, for who writes them there, from `offset` on.

        like: an array (B, H, 1, D), of which the first token's sizes and dtype are taken.
        """
        return self._with_room(self.offset + tokens, like, like)

    def _with_room(self, tokens: int, like_keys: NDArray, like_values: NDArray) -> tuple[NDArray, NDArray]:
        keys, values = self._keys, self._values
        if keys is None or values is None or tokens > keys.shape[2]:
            capacity = max(tokens, 2 * self.capacity, self.expected)
            keys = _grown("keys", keys, like_keys, self.offset, capacity)
            values = _grown("values", values, like_values, self.offset, capacity)
            self._keys, self._values = keys, values
        return keys, values

    def select(self, rows: Sequence[int]) -> None:
        if self._keys is not None and self._values is not None:
            self._keys, self._values = self._keys[list(rows)], self._values[list(rows)]


class WindowCache:
    """Keeps the last `window` tokens in a ring: memory stays the same however long the text becomes.

    Equal to a model whose queries see themselves and the window - 1 tokens before (Beltagy et al., 2020, Longformer,
    section 3.1; Mistral's rolling buffer, Jiang et al., 2023), and to full attention as long as the text fits.

    Position p is written twice, to the slots p % window and p % window + window. So the last `window` tokens always lie
    side by side, in order of time, and are read without a copy.

    >>> from tinygrad_tf import arange
    >>> cache = WindowCache(3)
    >>> for p in range(5):
    ...     keys, _ = cache.update(arange(p, p + 1.0).view(1, 1, 1, 1), arange(p, p + 1.0).view(1, 1, 1, 1))
    >>> keys.flatten().tolist(), cache.offset
    ([2.0, 3.0, 4.0], 5)
    """

    def __init__(self, window: int):
        if window < 1:
            raise InputError(f"WindowCache: window must be at least 1 token, got {window}")
        self.window = window
        self.offset = 0
        self._keys: NDArray | None = None  # (B, H, 2 window, D)
        self._values: NDArray | None = None

    def width(self, tokens: int) -> int:
        return min(self.offset, self.window - 1) + tokens

    def update(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        new_keys, new_values = check_update(key, value, self._keys, self._values)
        T = new_keys.shape[2]
        if self._keys is None or self._values is None:
            self._keys, self._values = (_zeros(x, 2 * self.window) for x in (new_keys, new_values))
        before = self._last(self._keys, self.window - 1), self._last(self._values, self.window - 1)
        chunk = None
        if T != 1:  # each query of a chunk has a window of its own, so that more keys are needed than the ring holds
            chunk = tuple(np.concatenate(pair, axis=2) for pair in zip(before, (new_keys, new_values), strict=True))
        self._write(self._keys, new_keys)
        self._write(self._values, new_values)
        self.offset += T
        keys, values = chunk or (self._last(self._keys, self.window), self._last(self._values, self.window))
        return make(keys), make(values)

    def _write(self, ring: NDArray, new: NDArray) -> None:
        T = new.shape[2]
        kept = min(T, self.window)
        slots = np.arange(self.offset + T - kept, self.offset + T) % self.window
        ring[:, :, slots] = ring[:, :, slots + self.window] = new[:, :, T - kept :]

    def _last(self, ring: NDArray, count: int) -> NDArray:
        """The last `count` tokens or fewer, as a view."""
        count = min(count, self.offset)
        stop = (self.offset - 1) % self.window + 1 + self.window
        return ring[:, :, stop - count : stop]

    def select(self, rows: Sequence[int]) -> None:
        if self._keys is not None and self._values is not None:
            self._keys, self._values = self._keys[list(rows)], self._values[list(rows)]


def _zeros(like: NDArray, capacity: int) -> NDArray:
    """Memory for `capacity` tokens. Zeros, never what happens to lie there: 0 times a stray NaN would be NaN."""
    B, H, _, D = like.shape
    return np.zeros((B, H, capacity, D), like.dtype)


def _grown(name: str, old: NDArray | None, like: NDArray, used: int, capacity: int) -> NDArray:
    new = _zeros(like, capacity)
    if old is not None:
        check_fits(name, like, old)
        new[:, :, :used] = old[:, :, :used]
    return new


def check_update(key: Tensor, value: Tensor, keys: NDArray | None, values: NDArray | None) -> tuple[NDArray, NDArray]:
    """The arrays of new keys and values, if they go with those that are kept, of which T may differ."""
    if current_node(key) is not None or current_node(value) is not None:
        raise RuntimeError("a cache keeps no graph, gradients would be wrong: call the model under no_grad()")
    new_keys, new_values = key.array, value.array
    if new_keys.ndim != 4 or new_values.ndim != 4 or new_keys.shape[:3] != new_values.shape[:3]:
        raise ValueError(
            f"a cache needs keys and values (B, H, T, D) of the same B, H and T, "
            f"got {new_keys.shape} and {new_values.shape}"
        )
    if keys is not None and values is not None:
        check_fits("keys", new_keys, keys)
        check_fits("values", new_values, values)
    return new_keys, new_values


def check_fits(name: str, new: NDArray, old: NDArray) -> None:
    """Whether keys or values (B, H, T, D) go with those that are kept."""
    (B, H, _, D), (b, h, _, d) = new.shape, old.shape
    if b != B or h != H or d != D or new.dtype != old.dtype:
        raise ValueError(
            f"this cache holds {name} with (B, H, D) = {(b, h, d)} of {old.dtype}, "
            f"got {(B, H, D)} of {new.dtype}; use fresh caches for another batch"
        )
