"""Sequences of different lengths as one tensor: padded, or packed without the padding.

Packed, a batch is sorted by length, the longest first, and its steps follow one another: the first steps of all
sequences, the second steps of those that have one, and so on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tinygrad_tf.creation import full
from tinygrad_tf.engine import make
from tinygrad_tf.tensor import Tensor


def pad_sequence(
    sequences: Sequence[Tensor], batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> Tensor:
    """(T, N, *) from N sequences (t, *), filled up with padding_value to the longest; (N, T, *) with batch_first.

    >>> from tinygrad_tf import tensor
    >>> pad_sequence([tensor([1, 2]), tensor([3])], batch_first=True)
    tensor([[1, 2],
            [3, 0]])
    """
    if not sequences:
        raise RuntimeError("pad_sequence: needs at least one sequence")
    if padding_side not in ("left", "right"):
        raise ValueError(f"pad_sequence: padding_side must be 'left' or 'right', got {padding_side!r}")
    longest, rest = max(len(s) for s in sequences), tuple(sequences[0].shape[1:])
    out = full((len(sequences), longest, *rest), padding_value, dtype=sequences[0].dtype)
    for i, sequence in enumerate(sequences):
        if tuple(sequence.shape[1:]) != rest:
            raise RuntimeError(f"pad_sequence: all but the first size must agree, got {rest} and {sequence.shape[1:]}")
        start = longest - len(sequence) if padding_side == "left" else 0
        out[i, start : start + len(sequence)] = sequence
    return out if batch_first else out.transpose(0, 1)


class PackedSequence(NamedTuple):
    """A batch without its padding; RNN, LSTM and GRU take it and give it back.

    data: the steps (sum of the lengths, *). batch_sizes: how many sequences have a first step, a second, and so on.
    sorted_indices: the place in the batch of each of the sorted sequences, and unsorted_indices the other way round;
    None where the batch was sorted already.
    """

    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None = None
    unsorted_indices: Tensor | None = None

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """As Tensor.to, for the data."""
        return self._replace(data=self.data.to(*args, **kwargs))

    def cpu(self) -> PackedSequence:
        return self


def _places(batch_sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The time and the sequence of each packed step."""
    steps = np.repeat(np.arange(len(batch_sizes)), batch_sizes)
    return steps, np.concatenate([np.arange(n) for n in batch_sizes])


def pack_padded_sequence(
    input: Tensor, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Leave the padding of (T, N, *), or (N, T, *) with batch_first, away; lengths says where it begins.

    With enforce_sorted the lengths must not increase; without it the batch is sorted first.

    >>> from tinygrad_tf import tensor
    >>> pack_padded_sequence(tensor([[1, 2, 3], [4, 0, 0]]), [3, 1], batch_first=True).data
    tensor([1, 4, 2, 3])
    """
    sizes = np.asarray(lengths.array if isinstance(lengths, Tensor) else lengths).astype(np.int64)
    x = input.transpose(0, 1) if batch_first else input
    if sizes.shape != (x.shape[1],):
        raise RuntimeError(f"pack_padded_sequence: lengths must have {x.shape[1]} entries, got shape {sizes.shape}")
    if not sizes.size or sizes.min() <= 0 or sizes.max() > x.shape[0]:
        raise RuntimeError(f"pack_padded_sequence: every length must be from 1 to {x.shape[0]}, got {sizes.tolist()}")
    order = None
    if enforce_sorted and (np.diff(sizes) > 0).any():
        raise RuntimeError(
            f"pack_padded_sequence: lengths must not increase, got {sizes.tolist()}; sort the batch, or pass "
            "enforce_sorted=False"
        )
    if not enforce_sorted:
        order = np.argsort(-sizes, kind="stable")
        x, sizes = x[:, make(order)], sizes[order]
    batch_sizes = (sizes > np.arange(sizes[0])[:, None]).sum(1)
    times, sequences = _places(batch_sizes)
    data = x[make(times), make(sequences)]
    if order is None:
        return PackedSequence(data, make(batch_sizes))
    return PackedSequence(data, make(batch_sizes), make(order), make(np.argsort(order)))


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Tensor, Tensor]:
    """The padded batch (T, N, *), or (N, T, *) with batch_first, in its first order, and the lengths.

    total_length: the T to fill up to, at least the longest length.
    """
    sizes = sequence.batch_sizes.array
    longest = len(sizes) if total_length is None else total_length
    if longest < len(sizes):
        raise ValueError(f"pad_packed_sequence: total_length must be at least {len(sizes)}, got {total_length}")
    times, sequences = _places(sizes)
    rest = tuple(sequence.data.shape[1:])
    out = full((longest, int(sizes[0]), *rest), padding_value, dtype=sequence.data.dtype)
    out[make(times), make(sequences)] = sequence.data
    lengths = (sizes[:, None] > np.arange(sizes[0])).sum(0)
    if sequence.unsorted_indices is not None:
        out, lengths = out[:, sequence.unsorted_indices], lengths[sequence.unsorted_indices.array]
    return out.transpose(0, 1) if batch_first else out, make(lengths)


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Sequences (t, *) of different lengths, packed."""
    return pack_padded_sequence(pad_sequence(sequences), [len(s) for s in sequences], enforce_sorted=enforce_sorted)


def unpad_sequence(padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False) -> list[Tensor]:
    """The sequences (t, *) of a padded batch."""
    x = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    return [row[:n] for row, n in zip(x, lengths.tolist(), strict=True)]


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The sequences (t, *) of a packed batch."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
