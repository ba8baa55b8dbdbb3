"""Attention whose scores a function of yours changes or hides, in the names of torch.nn.attention.flex_attention.

A score_mod(score, batch, head, q_idx, kv_idx) is written for one score; a mask_mod is the same without the score, and
says whether the query may see the key. Here they are called once, for all scores together: the score is (B, H, Tq, Tk),
the four indices are (B, 1, 1, 1), (1, H, 1, 1), (1, 1, Tq, 1) and (1, 1, 1, Tk). What is written for single numbers
holds for these, too, but for one thing: of a table take `table[batch, head]`, in one bracket, not `table[batch][head]`.

The scores are kept whole, so that what a block mask leaves out saves no time.

>>> import tinygrad_tf as tg
>>> causal = create_block_mask(lambda b, h, q_idx, kv_idx: q_idx >= kv_idx, B=None, H=None, Q_LEN=3, KV_LEN=3)
>>> slope = lambda score, b, h, q_idx, kv_idx: score + 0.5 * (kv_idx - q_idx)
>>> q, k, v = tg.zeros(1, 1, 3, 2), tg.zeros(1, 1, 3, 2), tg.eye(3)[None, None]
>>> flex_attention(q, k, v, score_mod=slope, block_mask=causal)
tensor([[[[1.0000, 0.0000, 0.0000],
          [0.3775, 0.6225, 0.0000],
          [0.1863, 0.3072, 0.5065]]]])
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tinygrad_tf.creation import arange
from tinygrad_tf.nn.functional.activation import softmax
from tinygrad_tf.ops.attention import repeat_heads
from tinygrad_tf.tensor import Tensor

__all__ = ["BlockMask", "and_masks", "create_block_mask", "create_mask", "flex_attention", "noop_mask", "or_masks"]

ScoreMod = Callable[[Any, Any, Any, Any, Any], Any]
MaskMod = Callable[[Any, Any, Any, Any], Any]
Shape = tuple[int, int, int, int]
BLOCK = 128  # PyTorch's default
LINES = 20  # so many blocks are printed each way at most


def noop_mask(batch: Any, head: Any, q_idx: Any, kv_idx: Any) -> Any:
    """Every query may see every key."""
    return (q_idx >= 0) & (kv_idx >= 0)


def and_masks(*mask_mods: MaskMod) -> MaskMod:
    """The mask_mod of what all of the given ones let a query see."""

    def and_mask(batch: Any, head: Any, q_idx: Any, kv_idx: Any) -> Any:
        seen = noop_mask(batch, head, q_idx, kv_idx)
        for mask_mod in mask_mods:
            seen = seen & mask_mod(batch, head, q_idx, kv_idx)
        return seen

    return and_mask


def or_masks(*mask_mods: MaskMod) -> MaskMod:
    """The mask_mod of what any of the given ones lets a query see."""

    def or_mask(batch: Any, head: Any, q_idx: Any, kv_idx: Any) -> Any:
        seen = ~noop_mask(batch, head, q_idx, kv_idx)
        for mask_mod in mask_mods:
            seen = seen | mask_mod(batch, head, q_idx, kv_idx)
        return seen

    return or_mask


class BlockMask:
    """Which keys each query may see: `mask` (B, H, Tq, Tk), B and H 1 where it is the same for all.

    It prints as its blocks: full where there is something to see, empty where there is not.
    """

    def __init__(self, mask: Tensor, mask_mod: MaskMod, block_size: tuple[int, int]):
        self.mask, self.mask_mod, self.BLOCK_SIZE = mask, mask_mod, block_size

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.mask.shape)

    def numel(self) -> int:
        """How many pairs of a query and a key there are."""
        return self.mask.numel()

    def to(self, device: Any) -> BlockMask:
        """The mask itself: it is on the CPU."""
        self.mask.to(device)
        return self

    def to_dense(self) -> Tensor:
        """1 for each block in which a query may see a key, else 0: (B, H, blocks of queries, blocks of keys)."""
        return Tensor(_any_of_each(self.mask.numpy(), *self.BLOCK_SIZE)).int()

    def sparsity(self) -> float:
        """How many percent of all pairs lie in blocks in which there is nothing to see."""
        rows, columns = self.BLOCK_SIZE
        return 100.0 * (1.0 - int(self.to_dense().sum()) * rows * columns / self.numel())

    def to_string(self, grid_size: int = LINES) -> str:
        """The blocks as characters, at most grid_size each way."""
        return "\n".join(self._pictures(grid_size))

    def _pictures(self, grid_size: int) -> Iterator[str]:
        dense = self.to_dense().numpy() > 0
        together = [-(-n // grid_size) for n in dense.shape[2:]]
        some, gap = _any_of_each(dense, *together), _any_of_each(~dense, *together)
        for b, h in np.ndindex(dense.shape[:2]):
            yield f"\n({b}, {h})"
            for seen, left_out in zip(some[b, h], gap[b, h], strict=True):
                yield "".join(
                    "  " if not full else "░░" if part else "██" for full, part in zip(seen, left_out, strict=True)
                )

    def __repr__(self) -> str:
        return f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%, \n{self.to_string().strip()}\n)"


def _any_of_each(mask: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """For each block of the last two axes, whether it holds a True; the last ones may be smaller."""
    by_row = np.logical_or.reduceat(mask, np.arange(0, mask.shape[2], rows), axis=2)
    found: np.ndarray = np.logical_or.reduceat(by_row, np.arange(0, mask.shape[3], columns), axis=3)
    return found


def create_block_mask(
    mask_mod: MaskMod,
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: Any = None,
    BLOCK_SIZE: int | tuple[int, int] = BLOCK,
    _compile: bool = False,
) -> BlockMask:
    """The mask that a mask_mod means for B batches and H heads (None: the same for all), Q_LEN queries and KV_LEN keys.

    BLOCK_SIZE, one for both or (of queries, of keys), is what it is printed in.
    """
    if not callable(mask_mod) or len(inspect.signature(mask_mod).parameters) != 4:
        raise ValueError("create_block_mask: mask_mod must be a function of (batch, head, q_idx, kv_idx)")
    rows, columns = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
    return BlockMask(create_mask(mask_mod, B, H, Q_LEN, KV_LEN, device), mask_mod, (rows, columns))


def create_mask(mod_fn: Any, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = None) -> Tensor:
    """What a mask_mod lets queries see, or a score_mod (of five arguments) sets not to -inf: bool (B, H, Tq, Tk)."""
    shape = (B or 1, H or 1, Q_LEN, KV_LEN)
    places = _indices(shape, device)
    if len(inspect.signature(mod_fn).parameters) == 4:
        return _whole("mask_mod", mod_fn(*places), shape).bool().contiguous()
    scores = arange(1, device=device).float().reshape(1, 1, 1, 1).expand(shape)
    return (_whole("score_mod", mod_fn(scores, *places), shape) > -math.inf).contiguous()


def _indices(shape: Shape, device: Any = None) -> list[Tensor]:
    """For each axis its positions, laid along that axis."""
    return [
        arange(n, device=device).int().reshape([n if own == axis else 1 for own in range(4)])
        for axis, n in enumerate(shape)
    ]


def _whole(name: str, found: Any, shape: Shape) -> Tensor:
    """The result of a mod for each score."""
    fits = isinstance(found, Tensor) and found.ndim == 4
    if not fits or any(n not in (1, wanted) for n, wanted in zip(found.shape, shape, strict=True)):
        got = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
        raise ValueError(
            f"{name} must give a tensor that broadcasts to (B, H, Tq, Tk) = {shape}, got {got}; index a table with all "
            "its indices in one bracket, as table[batch, head]"
        )
    return found.expand(shape)


def flex_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: ScoreMod | None = None,
    block_mask: BlockMask | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: Any = None,
) -> Any:
    """softmax(score_mod(scale Q K^T)) V over the keys that block_mask lets each query see (Dong et al., 2024).

    query (B, H, Tq, D), key (B, Hk, Tk, D) and value (B, Hk, Tk, Dv) give (B, H, Tq, Dv). scale: by default
    1 / sqrt(D). enable_gqa: key and value may have fewer heads, each shared by a group of query heads. A query that
    sees no key gives zeros. return_lse: the result with log sum exp of each query's scores (B, H, Tq). kernel_options
    change nothing. A ValueError where sizes or dtypes do not fit each other.
    """
    _check(query, key, value, enable_gqa)
    q, k = tuple(query.shape), tuple(key.shape)
    shape = (q[0], q[1], q[2], k[2])
    key, value = (repeat_heads(x.expand(q[0], *x.shape[1:]), q) for x in (key, value))
    scores = query @ key.transpose(-2, -1) * (1.0 / math.sqrt(q[3]) if scale is None else scale)
    if scores.dtype.itemsize < 4:
        scores = scores.float()
    if score_mod is not None:
        scores = _whole("score_mod", score_mod(scores, *_indices(shape)), shape)
    if block_mask is not None:
        scores = scores.masked_fill(~_mask_for(block_mask, shape), -math.inf)
    blind = (scores == -math.inf).all(-1, keepdim=True)
    weights = softmax(scores.masked_fill(blind, 0.0), -1).masked_fill(blind, 0.0)
    found = weights.to(query.dtype) @ value
    return (found, scores.logsumexp(-1)) if return_lse else found


def _check(query: Tensor, key: Tensor, value: Tensor, enable_gqa: bool) -> None:
    q, k, v = query.shape, key.shape, value.shape
    if not len(q) == len(k) == len(v) == 4:
        raise NotImplementedError(f"flex_attention: query, key and value must be (B, H, T, D), got {q}, {k}, {v}")
    if not query.dtype == key.dtype == value.dtype:
        raise ValueError(
            f"flex_attention: dtypes must be the same, got {query.dtype}, {key.dtype} and {value.dtype}; use .to(dtype)"
        )
    if k[1] != v[1] or (q[1] != k[1] and not enable_gqa):
        raise ValueError(
            f"flex_attention: query, key and value must have as many heads each, got {q[1]}, {k[1]} and {v[1]}; "
            "for fewer key heads give enable_gqa=True"
        )
    if q[1] % k[1]:
        raise ValueError(f"flex_attention: {q[1]} query heads are no multiple of {k[1]} key heads")
    if q[3] != k[3] or k[2] != v[2] or not {k[0], v[0]} <= {q[0], 1}:
        raise ValueError(f"flex_attention: needs (B, H, Tq, D), (B, Hk, Tk, D) and (B, Hk, Tk, Dv), got {q}, {k}, {v}")


def _mask_for(block_mask: BlockMask, shape: Shape) -> Tensor:
    made_for = block_mask.shape
    if made_for[2:] != shape[2:] or made_for[0] not in (1, shape[0]) or made_for[1] not in (1, shape[1]):
        raise ValueError(
            f"flex_attention: block_mask was made for (B, H, Tq, Tk) = {made_for}, got {shape}; make one of this size"
        )
    return block_mask.mask
