"""Embeddings: the vectors of ids, looked up in a table, one by one or as the sum of a bag of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinygrad_tf import ops
from tinygrad_tf._quiet import quiet
from tinygrad_tf.creation import zeros
from tinygrad_tf.engine import make
from tinygrad_tf.ops.elementwise import where
from tinygrad_tf.tensor import Tensor


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Rows of weight (V, C) at the ids `input`. Gradients are dense, also with sparse=True.

    max_norm: rows that are looked up, and longer (their norm of order norm_type), are made that long in weight itself.
    scale_grad_by_freq: the gradient of a row is divided by how often its id occurs in `input`.
    """
    if padding_idx is not None and weight.array.ndim:
        rows = weight.array.shape[0]
        if not -rows <= padding_idx < rows:
            raise ValueError(f"embedding: padding_idx must be within the {rows} rows of weight, got {padding_idx}")
        padding_idx %= rows
    if max_norm is not None:
        _shorten(weight, input.array, float(max_norm), float(norm_type))
    rows = ops.linear.embedding(input, weight, padding_idx)
    return _by_frequency(rows, input.array) if scale_grad_by_freq else rows


def _shorten(weight: Tensor, ids: np.ndarray, max_norm: float, norm_type: float) -> None:
    """Make the rows at these ids at most max_norm long, in place."""
    table, used = weight.array, np.unique(ids)
    if table.ndim != 2 or used.dtype.kind not in "iu" or not used.size or not 0 <= used[0] <= used[-1] < len(table):
        return  # the look-up says what is wrong
    with quiet():
        lengths = np.linalg.norm(table[used].astype(np.float64), norm_type, axis=1)
        long = lengths > max_norm
        factors = max_norm / (lengths[long] + 1e-7)
    if long.any():
        table[used[long]] *= factors.astype(table.dtype)[:, None]
        weight.storage.written()


def _by_frequency(rows: Tensor, ids: np.ndarray) -> Tensor:
    """The same rows, whose gradients are divided by how often their ids occur."""
    _, places, counts = np.unique(ids, return_inverse=True, return_counts=True)
    shares = (1.0 / counts)[places].reshape(*ids.shape, 1)
    constant = rows.detach()
    return constant + (rows - constant) * make(shares.astype(rows.array.dtype))


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """int64 (*, num_classes) with a 1 at each id of `tensor` (*).

    >>> from tinygrad_tf import tensor
    >>> one_hot(tensor([0, 2]))
    tensor([[1, 0, 0],
            [0, 0, 1]])
    """
    ids = tensor.array
    if ids.dtype.kind not in "iu":
        raise RuntimeError(f"one_hot: ids must be integers, got {ids.dtype}")
    if num_classes == -1 and not ids.size:
        raise RuntimeError("one_hot: give num_classes where there are no ids to count them from")
    count = int(ids.max()) + 1 if num_classes == -1 else num_classes
    if ids.size and not 0 <= int(ids.min()) <= int(ids.max()) < count:
        raise RuntimeError(f"one_hot: ids must be in [0, {count - 1}], got {int(ids.min())} to {int(ids.max())}")
    return make((ids[..., None] == np.arange(count)).astype(np.int64, order="C"))


# --- bags -------------------------------------------------------------------------------------------------------------

MODES = ("sum", "mean", "max")


def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """One row (B, C) for each bag of ids: the mean, sum or maximum of their rows of weight (V, C); 0 for an empty bag.

    input: (B, N), bags of N ids each, or one bag behind the other, with `offsets` (B,) that say where each begins
    (include_last_offset: and a last one, behind which no id counts). Ids that are padding_idx do not count.
    per_sample_weights: factors of input's shape, for mode "sum".

    >>> import tinygrad_tf as tg
    >>> table = tg.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> embedding_bag(tg.tensor([0, 1, 1]), table, tg.tensor([0, 2]))
    tensor([[2., 3.],
            [3., 4.]])
    """
    if mode not in MODES:
        raise ValueError(f"embedding_bag: mode must be one of {MODES}, got {mode!r}")
    if mode == "max" and scale_grad_by_freq:
        raise ValueError("embedding_bag: scale_grad_by_freq is for the modes 'sum' and 'mean', got 'max'")
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(f"embedding_bag: per_sample_weights are for mode 'sum', got {mode!r}")
    if per_sample_weights is not None and tuple(per_sample_weights.shape) != tuple(input.shape):
        shapes = f"{tuple(input.shape)}, got {tuple(per_sample_weights.shape)}"
        raise ValueError(f"embedding_bag: per_sample_weights must have input's shape {shapes}")
    ids, starts, count = _flat(input, offsets, include_last_offset)
    settings: dict[str, Any] = {"norm_type": norm_type, "scale_grad_by_freq": scale_grad_by_freq, "sparse": sparse}
    bags = np.searchsorted(starts, np.arange(len(ids)), side="right") - 1
    keep = np.flatnonzero((bags >= 0) & (bags < count))
    if padding_idx is not None:
        if not -weight.shape[0] <= padding_idx < weight.shape[0]:
            raise ValueError(f"embedding_bag: padding_idx must be within {weight.shape[0]} rows, got {padding_idx}")
        keep = keep[ids[keep] != padding_idx % weight.shape[0]]
    rows, bags = embedding(make(ids[keep]), weight, max_norm=max_norm, **settings), bags[keep]
    if mode == "max":
        return _maxima(rows, bags, count)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.reshape(-1)[make(keep)].unsqueeze(1)
    total = zeros(count, weight.shape[1], dtype=rows.dtype).index_add(0, make(bags), rows)
    if mode == "sum":
        return total
    sizes = np.maximum(np.bincount(bags, minlength=count), 1)
    return total / make(sizes.astype(rows.array.dtype)[:, None])


def _flat(input: Tensor, offsets: Tensor | None, with_last: bool) -> tuple[np.ndarray, np.ndarray, int]:
    """The ids in one axis, where each bag begins, and how many bags there are."""
    if input.array.dtype.kind not in "iu":
        raise RuntimeError(f"embedding_bag: ids must be integers, got {input.array.dtype}")
    if input.ndim == 2:
        if offsets is not None:
            raise ValueError("embedding_bag: offsets are for ids in one axis; an input (B, N) is bags of N ids each")
        count, size = input.shape
        return input.array.reshape(-1), np.arange(count) * size, count
    if input.ndim != 1:
        raise ValueError(f"embedding_bag: input must be (B, N), or (N,) with offsets, got {tuple(input.shape)}")
    if offsets is None or offsets.ndim != 1:
        raise ValueError(f"embedding_bag: ids in one axis need offsets (B,), got {offsets!r:.60}")
    starts = offsets.array
    if with_last and not len(starts):
        raise RuntimeError("embedding_bag: with include_last_offset there must be at least one offset")
    if len(starts) and starts[0] != 0:
        raise RuntimeError(f"embedding_bag: the first offset must be 0, got {starts[0]}")
    if (np.diff(starts) < 0).any() or starts.max(initial=0) > len(input.array):
        raise RuntimeError(f"embedding_bag: offsets must rise up to {len(input.array)}, got {starts.tolist()!s:.60}")
    return input.array, starts, len(starts) - int(with_last)


def _maxima(rows: Tensor, bags: np.ndarray, count: int) -> Tensor:
    """The maximum of the rows of each bag; of equal ones the first counts."""
    sizes = np.bincount(bags, minlength=count)
    if not len(bags):
        return rows.sum(0).expand(count, -1)
    places = np.arange(len(bags)) - (np.cumsum(sizes) - sizes)[bags]
    source = np.zeros((count, int(sizes.max())), np.int64)
    source[bags, places] = np.arange(len(bags))
    there = np.arange(source.shape[1]) < sizes[:, None]
    found = where(make(there[..., None]), rows[make(source)], -float("inf")).max(1).values
    return where(make(sizes[:, None] > 0), found, 0.0)
