"""Texts that grow token by token, and a model's logits behind each of them: with caches, padding and a limited context.

Texts of different length are padded on the left, so that all end in the same column: a text whose padding is p columns
wide has its tokens at the positions column - p, which is cumsum(mask) - 1, and its padding is masked. So each row comes
out as it would alone.

Shapes: B texts, T columns that are new to the model, Tk columns that attention sees, V vocabulary.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tinygrad_tf.creation import from_numpy
from tinygrad_tf.generation.cache import SMALLEST_CAPACITY, Cache, GrowingCache, WindowCache
from tinygrad_tf.generation.config import GenerationConfig
from tinygrad_tf.generation.paged import PagedCache
from tinygrad_tf.generation.readers import Reader, reader_of
from tinygrad_tf.tensor import Tensor
from tinygrad_tf.utils.errors import InputError


class ContextNotice(UserWarning):
    """A text is longer than the model's context, so that the model sees its end only."""


def make_caches(config: GenerationConfig, layers: int, expected: int = SMALLEST_CAPACITY) -> list[Cache]:
    """Fresh caches of the kind that the config names, one a layer; a growing one has memory for `expected` tokens.

    >>> [cache.block_size for cache in make_caches(GenerationConfig(cache="paged", block_size=8), 2)]
    [8, 8]
    """
    makers: dict[str, Callable[[], Cache]] = {
        "growing": lambda: GrowingCache(expected),
        "window": lambda: WindowCache(config.window or 1),
        "paged": lambda: PagedCache(config.block_size),
    }
    return [makers[config.cache]() for _ in range(layers)]


class Steps:
    """The texts of one generation. Ask for `logits`, choose tokens, `extend` the texts with them, and so on.

    >>> def counting(ids):  # the token behind t is t + 1
    ...     return np.eye(10)[(ids.array + 1) % 10]
    >>> steps = Steps(counting, [[1, 2], [7]], GenerationConfig())
    >>> steps.logits().argmax(-1).tolist()
    [3, 8]
    >>> steps.extend([3, 8])
    >>> steps.texts
    [[1, 2, 3], [7, 8]]
    """

    def __init__(self, model: Any, texts: Sequence[Sequence[int]], config: GenerationConfig, notice: bool = True):
        self.reader: Reader = reader_of(model)
        self.config = config
        self.texts = [list(text) for text in texts]
        self.notice = notice
        self.limit = self.reader.limit if config.context is None else config.context
        self.caches: list[Cache] | None = None
        self.padding = np.zeros(0, np.int64)  # columns before each text, (B,)
        self._check()
        if self.limit is not None and config.window is None and max(map(len, self.texts)) > self.limit:
            longest = max(map(len, self.texts))
            self._say(f"the model sees only the last {self.limit} of the prompt's {longest} tokens")

    def _check(self) -> None:
        reader, config = self.reader, self.config
        hard = reader.hard_limit
        if config.context is not None and hard is not None and config.context > hard:
            raise InputError(f"context={config.context} is more than the {hard} positions that the model has")
        if config.window is None:
            return
        if not (reader.caches and (reader.pads or reader.kind == "block_sparse")):
            raise InputError("cache='window' needs a model that takes cache, mask and positions")
        if reader.kind in ("linear", "block_sparse"):
            raise InputError(f"cache='window' keeps too few keys for attention={reader.kind!r}; use cache='growing'")
        longest = max(map(len, self.texts)) + config.max_new_tokens - 1
        if hard is not None and longest > hard:
            raise InputError(
                f"cache='window' numbers tokens from the first one, up to {longest}, but the model has {hard} "
                "positions; lower max_new_tokens, or use cache='growing'"
            )

    def logits(self) -> NDArray[Any]:
        """The logits (B, V) behind each text."""
        longest = max(map(len, self.texts))
        if self.limit is not None and longest > self.limit and self.config.window is None:
            self._say(f"the text is longer than the context; the model sees only its last {self.limit} tokens")
            return self._afresh()
        if self.config.cache == "none" or not self.reader.caches or not (self.reader.pads or self._even()):
            return self._afresh()
        return self._cached()

    def extend(self, tokens: Sequence[int], rows: Sequence[int] | None = None) -> None:
        """Text i becomes what text rows[i] was (by default text i), and tokens[i] behind it."""
        if rows is None or list(rows) == list(range(len(self.texts))):
            for text, token in zip(self.texts, tokens, strict=True):
                text.append(int(token))
            return
        self.reader.select(rows)
        self.padding = self.padding[list(rows)] if self.caches else self.padding
        for cache in self.caches or ():
            cache.select(rows)
        self.texts = [[*self.texts[row], int(token)] for row, token in zip(rows, tokens, strict=True)]

    # --- without a cache ------------------------------------------------------------------------------------------

    def _afresh(self) -> NDArray[Any]:
        """Read all texts, or what the context holds of them, from their beginning."""
        self.caches = None  # a text that is cropped has new positions: kept keys are of no more use
        cropped = [text if self.limit is None else text[-self.limit :] for text in self.texts]
        if self.reader.pads or len({len(text) for text in cropped}) == 1:
            return self._read(cropped)
        by_length = defaultdict(list)
        for row, text in enumerate(cropped):
            by_length[len(text)].append(row)
        if len(self.texts) > 1 and hasattr(self.reader, "memory"):
            raise InputError("this model takes no target_mask and positions: give it prompts of the same length")
        groups = {tuple(rows): self._read([cropped[row] for row in rows]) for rows in by_length.values()}
        first = next(iter(groups.values()))
        result = np.empty((len(cropped), first.shape[-1]), first.dtype)
        for rows, logits in groups.items():
            result[list(rows)] = logits
        return result

    def _read(self, texts: list[list[int]]) -> NDArray[Any]:
        ids, padding = left_padded(texts)
        logits = self.reader.next_logits(ids, padding)
        if logits is not None:
            return logits
        mask, positions = self._padding_arguments(padding, 0, ids.shape[1], ids.shape[1])
        return self.reader(ids, mask=mask, positions=positions)[:, -1]

    # --- with a cache ---------------------------------------------------------------------------------------------

    def _cached(self) -> NDArray[Any]:
        """Read the columns that the caches do not hold yet."""
        columns = len(self.texts[0]) + int(self.padding[0]) if self.caches else 0
        limit = self.reader.hard_limit
        if self.caches is None or (limit is not None and columns > limit):
            # The text that made the others' padding wide may have ended long ago: start again without the padding.
            assert self.reader.layers is not None
            longest = max(map(len, self.texts)) + self.config.max_new_tokens
            expected = SMALLEST_CAPACITY if self.limit is None else min(longest, self.limit)
            self.caches = make_caches(self.config, self.reader.layers, expected)
            self.padding = left_padded(self.texts)[1]
        columns = len(self.texts[0]) + int(self.padding[0])
        start = self.caches[0].offset
        assert start < columns, "extend the texts before asking again"
        try:
            return self._read_chunks(self.caches, start, columns)
        except BaseException:
            self.caches = None  # some layers may have taken the tokens in, others not
            raise

    def _read_chunks(self, caches: list[Cache], start: int, columns: int) -> NDArray[Any]:
        chunk = self.config.prefill_chunk or columns
        for first in range(start, columns, chunk):
            logits = self._read_chunk(caches, first, min(first + chunk, columns))
        return logits

    def _read_chunk(self, caches: list[Cache], first: int, last: int) -> NDArray[Any]:
        ids = self._columns(first, last)
        logits = self.reader.next_logits(ids, self.padding, caches)
        if logits is not None:
            return logits
        mask, positions = self._padding_arguments(self.padding, first, last, caches[0].width(last - first))
        return self.reader(ids, mask=mask, positions=positions, cache=caches)[:, -1]

    def _columns(self, first: int, last: int) -> NDArray[np.int64]:
        """The ids (B, T) in some columns; 0 for padding."""
        if not self.padding.any():
            return np.array([text[first:last] for text in self.texts], np.int64)
        rows = []
        for text, padding in zip(self.texts, self.padding.tolist(), strict=True):
            tokens = text[max(0, first - padding) : max(0, last - padding)]
            rows.append([0] * (last - first - len(tokens)) + tokens)
        return np.array(rows, np.int64)

    def _padding_arguments(
        self, padding: NDArray[np.int64], first: int, last: int, width: int
    ) -> tuple[Tensor | None, Tensor | None]:
        """mask (B, 1, 1, Tk) of the last `width` columns before `last`, positions (B, T) of columns first ... last."""
        if not padding.any():
            return None, None
        seen = np.arange(last - width, last) >= padding[:, None]
        positions = np.maximum(np.arange(first, last) - padding[:, None], 0)
        return from_numpy(seen[:, None, None, :]), from_numpy(positions)

    def _even(self) -> bool:
        return len({len(text) for text in self.texts}) == 1

    def _say(self, message: str) -> None:
        """Once a generation."""
        if self.notice:
            warnings.warn(message, ContextNotice, stacklevel=2)
            self.notice = False


def left_padded(texts: Sequence[Sequence[int]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Ids (B, T) with zeros before the shorter texts, and how many of them there are, (B,).

    >>> left_padded([[5, 6, 7], [8]])
    (array([[5, 6, 7],
           [0, 0, 8]]), array([0, 2]))
    """
    longest = max(map(len, texts))
    padding = np.array([longest - len(text) for text in texts], np.int64)
    return np.array([[0] * (longest - len(text)) + list(text) for text in texts], np.int64), padding
