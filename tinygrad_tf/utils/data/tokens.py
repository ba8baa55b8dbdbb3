"""Token arrays on disk, their split, and the windows that are cut from them.

Shapes: B batch, T time (the context).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from tinygrad_tf.utils.errors import InputError

Tokens = NDArray[Any]  # shape (length,), unsigned
Windows = tuple[NDArray[np.int64], NDArray[np.int64]]  # inputs and targets, each (B, T)


def token_dtype(vocabulary_size: int) -> np.dtype[Any]:
    """The smallest unsigned type that holds the ids 0 ... vocabulary_size - 1.

    >>> token_dtype(256), token_dtype(257)
    (dtype('uint8'), dtype('uint16'))
    """
    kinds: tuple[DTypeLike, ...] = (np.uint8, np.uint16, np.uint32)
    return next(np.dtype(kind) for kind in kinds if vocabulary_size <= 2 ** (8 * np.dtype(kind).itemsize))


def save_tokens(path: str | os.PathLike[str], tokens: NDArray[Any], vocabulary_size: int) -> None:
    """Write token ids as a .npy file in the smallest type that holds them."""
    with open(path, "wb") as file:
        np.save(file, np.asarray(tokens).astype(token_dtype(vocabulary_size)), allow_pickle=False)
        file.flush()
        os.fsync(file.fileno())


def load_tokens(path: str | os.PathLike[str], vocabulary_size: int) -> Tokens:
    """Map a token file into memory, read-only: a text larger than the memory can be trained on.

    A missing or broken file, or an id outside the vocabulary, is an InputError.
    """
    try:
        tokens = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (OSError, ValueError, EOFError) as error:
        raise InputError(f"{path}: not a token file ({error})") from None
    if not isinstance(tokens, np.ndarray) or tokens.ndim != 1 or tokens.dtype.kind != "u":
        raise InputError(f"{path}: not a token file (wanted one row of unsigned integers)")
    if tokens.size and int(tokens.max()) >= vocabulary_size:
        raise InputError(f"{path}: holds token {int(tokens.max())}, but the vocabulary has only {vocabulary_size}")
    return tokens


def split_tokens(tokens: Tokens, context: int, validation_fraction: float = 0.1) -> tuple[Tokens, Tokens]:
    """The training part and, from the end, the validation part.

    Each must hold at least one window of context + 1 tokens; an InputError says so before any training starts.
    """
    if not 0.0 < validation_fraction < 1.0:
        raise InputError(f"validation_fraction must lie between 0 and 1, got {validation_fraction}")
    first = len(tokens) - int(len(tokens) * validation_fraction)
    for name, length in (("training", first), ("validation", len(tokens) - first)):
        if length < context + 1:
            raise InputError(
                f"the {name} split has {length:,} characters of {len(tokens):,}, needs at least {context + 1:,} "
                f"(context + 1): use a longer text, a smaller --context or a "
                f"{'larger' if name == 'validation' else 'smaller'} --validation-fraction"
            )
    return tokens[:first], tokens[first:]


def random_windows(tokens: Tokens, batch: int, context: int, generator: np.random.Generator) -> Windows:
    """`batch` windows from random places: inputs (B, T) and targets (B, T), the same one place later; int64.

    >>> x, y = random_windows(np.arange(100, dtype=np.uint8), 2, 4, np.random.default_rng(0))
    >>> x.shape, bool((y == x + 1).all())
    ((2, 4), True)
    """
    _check_sizes(batch, context)
    if len(tokens) <= context:
        raise InputError(f"a window needs context + 1 = {context + 1} tokens, got {len(tokens)}")
    starts = generator.integers(0, len(tokens) - context, batch)
    return _windows(tokens, starts, context)


def validation_batches(tokens: Tokens, batch: int, context: int, windows: int = 0) -> Iterator[Windows]:
    """Windows side by side over the whole split, `batch` at a time, so that every target is met exactly once.

    The last full batch may have fewer rows, and what is left at the end comes as one shorter row, shape (1, rest). With
    `windows` > 0 only that many windows come, spread evenly over the split.
    """
    _check_sizes(batch, context)
    starts = np.arange(0, len(tokens) - context, context)
    whole = not 0 < windows < len(starts)
    if not whole:
        starts = starts[np.linspace(0, len(starts) - 1, windows).astype(np.int64)]
    for first in range(0, len(starts), batch):
        yield _windows(tokens, starts[first : first + batch], context)
    rest = len(tokens) - 1 - len(starts) * context
    if whole and rest > 0:
        yield _windows(tokens, starts[:1] + len(starts) * context, rest)


def _check_sizes(batch: int, context: int) -> None:
    for name, size in (("batch", batch), ("context", context)):
        if not isinstance(size, (int, np.integer)) or size < 1:
            raise InputError(f"{name} must be an integer above 0, got {size!r}")


def _windows(tokens: Tokens, starts: NDArray[np.int64], context: int) -> Windows:
    window = np.asarray(tokens)[starts[:, None] + np.arange(context + 1)].astype(np.int64)
    return np.ascontiguousarray(window[:, :-1]), np.ascontiguousarray(window[:, 1:])
