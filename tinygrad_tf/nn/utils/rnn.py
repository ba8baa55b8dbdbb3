"""Sequences of different lengths as one tensor."""

from __future__ import annotations

from collections.abc import Sequence

from tinygrad_tf.creation import full
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
