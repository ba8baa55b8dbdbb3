"""A model as one program for new tokens of each text: what Python would ask for layer by layer, in a single call.

A model that can be written down has `write_program(writer)` beside its `forward`, and like it (writing.py). Others, and
models of which a part is not exactly what it was made as, are run as they are.

Shapes: B texts, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import is_
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tinygrad_tf.amp import is_autocast_enabled
from tinygrad_tf.engine import mode
from tinygrad_tf.generation.cache import GrowingCache, check_fits
from tinygrad_tf.generation.writing import ProgramWriter, Unwritable
from tinygrad_tf.kernels import decode
from tinygrad_tf.kernels import instructions as do

# Up to so many tokens dot products are as fast as any (kernels/_dots.py), and with so many multiply-adds still cheaper
# than calling layer after layer: 64 tokens of a model of 0.8 million weights take 1.4 ms, not 2.7.
FEW_TOKENS, WORTHWHILE = 32, 1 << 27


class TokenProgram:
    """The program of a model, and the memory that it works in. A model that cannot be written down is an Unwritable.

    >>> from tinygrad_tf.models import GPT, GPTConfig
    >>> model = GPT(GPTConfig(vocab_size=5, context=8, layers=1, heads=1, channels=8))
    >>> caches = [GrowingCache()]
    >>> TokenProgram(model).logits(np.array([[2, 3]]), np.array([0]), caches).shape, caches[0].offset
    ((1, 5), 2)
    """

    def __init__(self, model: Any):
        self._writer = writer = ProgramWriter(model)
        self._program = decode.encode(writer.instructions)
        attends = [(i, one) for i, one in enumerate(writer.instructions) if one.operation == do.ATTEND]
        if not attends:
            raise Unwritable("no layer has a cache")
        self._attends = [i for i, _ in attends]
        self._sizes = [(one.key_heads, one.depth) for _, one in attends]
        self._heads = max(one.heads for _, one in attends)
        self._weights = sum(one.weight.size for one in writer.instructions if one.operation == do.LINEAR)
        longest: int | None = getattr(model, "max_length", None)
        self._longest = writer.longest if longest is None else min(longest, writer.longest)
        self._kept: list[NDArray[Any]] = []
        self._work = self._scores = np.empty((0, 0), writer.dtype)
        self._like: list[NDArray[Any]] = []

    def holds(self) -> bool:
        """Whether the model is still what was written down."""
        return self._writer.still_holds()

    def takes(self, ids: NDArray[np.int64], padding: NDArray[np.int64], caches: Sequence[Any]) -> bool:
        """Whether caches are kept as the program keeps them, and there are positions for the tokens, which are few."""
        seen, behind = caches[0].offset, caches[0].offset + ids.shape[1]
        return (
            (ids.size <= FEW_TOKENS or ids.size * self._weights <= WORTHWHILE)
            and len(caches) == len(self._attends)
            and all(type(cache) is GrowingCache and cache.offset == seen for cache in caches)
            and int(padding.max()) < behind
            and 0 <= seen < behind <= self._longest
            and 0 <= int(ids.min()) <= int(ids.max()) < self._writer.vocabulary
            and not is_autocast_enabled()
            and not mode.reference
        )

    def logits(
        self, ids: NDArray[np.int64], padding: NDArray[np.int64], caches: Sequence[GrowingCache]
    ) -> NDArray[Any]:
        """(B, V), behind more tokens (B, T) of each text, if it `takes` them; the first padding[b] columns are none."""
        (B, T), seen, writer = ids.shape, caches[0].offset, self._writer
        self._make_room(B, T)
        self._keep([array for cache, like in zip(caches, self._like, strict=True) for array in cache.room(T, like)])
        if self._scores.shape[1] < seen + T:
            self._scores = np.empty((B * self._heads, caches[0].capacity), writer.dtype)
        decode.run(self._program, ids, padding, seen, self._work, self._scores)
        for cache in caches:
            cache.offset += T
        at, columns = writer.logits
        return self._work[T - 1 :: T, at : at + columns].copy()

    def _make_room(self, B: int, T: int) -> None:
        dtype = self._writer.dtype
        if self._work.shape[0] != B * T:
            self._work = np.zeros((B * T, self._writer.columns), dtype)
        if self._scores.shape[0] != B * self._heads:
            self._scores, self._kept = np.empty((B * self._heads, 0), dtype), []
            self._like = [np.empty((B, heads, 1, size), dtype) for heads, size in self._sizes]

    def _keep(self, arrays: list[NDArray[Any]]) -> None:
        """Tell the program where keys and values lie, if they have moved."""
        if len(arrays) == len(self._kept) and all(map(is_, arrays, self._kept)):
            return
        kept = list(zip(self._attends, self._like, arrays[0::2], arrays[1::2], strict=True))
        for _, like, keys, values in kept:  # all of them, before the program is told of one
            check_fits("keys", like, keys)
            check_fits("values", like, values)
        for i, _, keys, values in kept:
            decode.keep(self._program, i, keys, values)
        self._kept = arrays
