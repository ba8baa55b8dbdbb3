"""Pairs of sequences for an encoder-decoder: special tokens, padding, and batches of pairs that are about equally long.

Shapes: B pairs, S source length, T target length.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tinygrad_tf.utils.data.tokenizer import CharTokenizer
from tinygrad_tf.utils.errors import InputError

PAD, START, END = 0, 1, 2
SPECIAL = 3  # how many ids come before the characters
POOL = 4  # batches that are sorted by length together


class PairTokenizer:
    """One token a character, the same for both sides, behind three special ones: padding, start and end of an answer.

    >>> tokenizer = PairTokenizer("abc")
    >>> tokenizer.encode("cab"), len(tokenizer)
    ([5, 3, 4], 6)
    >>> tokenizer.decode([4, 3, END, 3])
    'ba'
    """

    def __init__(self, text: str):
        self.characters = CharTokenizer(text)

    def __len__(self) -> int:
        return SPECIAL + len(self.characters)

    def encode(self, text: str, name: str = "the text") -> list[int]:
        """The ids; a character that the vocabulary lacks is an InputError."""
        return (self.characters.encode(text, name) + SPECIAL).tolist()

    def decode(self, ids: Iterable[int]) -> str:
        """The text up to the end token; padding and start tokens are left out."""
        text = []
        for token in ids:
            if token == END:
                break
            if token >= SPECIAL:
                text.append(int(token) - SPECIAL)
        return self.characters.decode(text)


@dataclass(frozen=True)
class PairBatch:
    """What one step reads: `source` (B, S); `inputs`, START and the answer (B, T); `targets`, the answer and END."""

    source: NDArray[np.int64]
    inputs: NDArray[np.int64]
    targets: NDArray[np.int64]

    @property
    def tokens(self) -> int:
        """Target tokens that count."""
        return int((self.targets != PAD).sum())


def pad_rows(rows: Sequence[Sequence[int]], pad: int = PAD) -> NDArray[np.int64]:
    """Rows of different length as one array, padded behind.

    >>> pad_rows([[5, 6, 7], [8]])
    array([[5, 6, 7],
           [8, 0, 0]])
    """
    padded = np.full((len(rows), max(map(len, rows), default=0)), pad, np.int64)
    for i, row in enumerate(rows):
        padded[i, : len(row)] = row
    return padded


def pair_batch(sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> PairBatch:
    """Sources and answers, as ids without special tokens, as one batch.

    >>> pair_batch([[5, 6]], [[6, 5]]).inputs, pair_batch([[5, 6]], [[6, 5]]).targets
    (array([[1, 6, 5]]), array([[6, 5, 2]]))
    """
    if len(sources) != len(targets) or not sources:
        raise InputError(f"pair_batch: as many sources as targets are needed, got {len(sources)} and {len(targets)}")
    inputs = pad_rows([[START, *row] for row in targets])
    return PairBatch(pad_rows(sources), inputs, pad_rows([[*row, END] for row in targets]))


def batches_by_length(
    lengths: NDArray[np.int64] | Sequence[Sequence[int]], batch: int, generator: np.random.Generator, pool: int = POOL
) -> Iterator[NDArray[np.int64]]:
    """The numbers of the pairs of each batch of one epoch: every pair once, in batches of about equal length.

    lengths: (N,), or (N, 2) of source and target. Pairs are shuffled, sorted by length within pools of so many batches,
    and the batches are shuffled again (Vaswani et al., 2017, section 5.1, batch by length, too). Large pools waste
    less on padding, but where all pairs of a batch are equally long each step forgets a little of the other lengths;
    pool=1 does not sort.

    >>> batches = list(batches_by_length([3, 9, 3, 9], 2, np.random.default_rng(0)))
    >>> sorted(sorted(batch.tolist()) for batch in batches)
    [[0, 2], [1, 3]]
    """
    table = np.asarray(lengths).reshape(len(lengths), -1)
    if batch < 1 or pool < 1:
        raise InputError(f"batches_by_length: batch and pool must be at least 1, got {batch} and {pool}")
    order = generator.permutation(len(table))
    batches: list[NDArray[np.int64]] = []
    for first in range(0, len(order), batch * pool):
        some = order[first : first + batch * pool]
        if pool > 1:
            some = some[np.lexsort(table[some].T[::-1])]  # stable: equally long ones stay shuffled
        batches += [some[i : i + batch] for i in range(0, len(some), batch)]
    for i in generator.permutation(len(batches)):
        yield batches[i]
