"""Attention that sees less, or scores otherwise, with the interface of MultiHeadAttention.

    LocalAttention        keys nearby                          n w d      Beltagy et al., 2020 (Longformer), section 3.1
    BlockSparseAttention  blocks nearby and the first blocks   n w d      Zaheer et al., 2020 (BigBird), section 2
    AdditiveAttention     scores by a small network            n^2 d      Bahdanau et al., 2015, appendix A.1.2

Cost for n positions of d channels, w of which are seen. linear_attention.py holds LinearAttention.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinygrad_tf._arguments import check_size
from tinygrad_tf.creation import empty
from tinygrad_tf.engine import make
from tinygrad_tf.nn import functional as F
from tinygrad_tf.nn import init
from tinygrad_tf.nn.attention import MultiHeadAttention, Scores, attend
from tinygrad_tf.nn.masks import combine_masks, window_mask
from tinygrad_tf.nn.parameter import Parameter
from tinygrad_tf.ops._precision import composed
from tinygrad_tf.ops.attention import repeat_heads, weights_of
from tinygrad_tf.ops.linalg import matmul
from tinygrad_tf.tensor import Tensor


class LocalAttention(MultiHeadAttention):
    """A query sees the keys less than `window` positions away: itself and window - 1 others on each side, or before it
    when causal. Causal, the kernel skips all else, and time is linear in T (Beltagy et al., 2020, section 3.1).

    For self-attention; stacked layers see further than one. In both directions a mask (Tq, Tk) cuts off the future.

    >>> from tinygrad_tf import nn, zeros
    >>> attention = nn.LocalAttention(d_model=4, num_heads=1, window=2)
    >>> weights = attention(zeros(1, 4, 4), is_causal=True, need_weights=True)[1]
    >>> weights[0, 0, 3].tolist()
    [0.0, 0.0, 0.5, 0.5]
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        window: int,
        dropout: float = 0.0,
        bias: bool = True,
        num_kv_heads: int | None = None,
    ):
        super().__init__(d_model, num_heads, dropout, bias, num_kv_heads)
        self.window = check_size("LocalAttention: window", window)

    def restrict(
        self, q: Tensor, k: Tensor, mask: Tensor | None, is_causal: bool, offset: int, positions: Any
    ) -> Scores:
        if offset or not is_causal:
            mask = combine_masks(mask, window_mask(q.shape[2], k.shape[2], self.window, offset))
        scores = super().restrict(q, k, mask, is_causal, offset, positions)
        return scores if offset else scores._replace(window=self.window)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, window={self.window}"


class BlockSparseAttention(MultiHeadAttention):
    """Time is cut into blocks of block_size. A query sees its own block, local_blocks others on each side (before it,
    when causal), and the first global_blocks of all (Zaheer et al., 2020, section 2, without the random blocks).

    Only the blocks that are seen are multiplied: time and memory are linear in T. For self-attention; a cache must keep
    all keys, for blocks are counted from the first. The first blocks are seen by all, but do not themselves see all.

    >>> from tinygrad_tf import nn
    >>> attention = nn.BlockSparseAttention(d_model=8, num_heads=2, block_size=4, local_blocks=1, global_blocks=1)
    >>> attention.layout(5, is_causal=True).astype(int).tolist()
    [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [1, 1, 1, 0, 0], [1, 0, 1, 1, 0], [1, 0, 0, 1, 1]]
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        block_size: int,
        local_blocks: int = 1,
        global_blocks: int = 1,
        dropout: float = 0.0,
        bias: bool = True,
        num_kv_heads: int | None = None,
    ):
        super().__init__(d_model, num_heads, dropout, bias, num_kv_heads)
        self.block_size = check_size("BlockSparseAttention: block_size", block_size)
        self.local_blocks = check_size("BlockSparseAttention: local_blocks", local_blocks, 0)
        self.global_blocks = check_size("BlockSparseAttention: global_blocks", global_blocks, 0)

    def layout(self, blocks: int, is_causal: bool = False) -> np.ndarray:
        """(blocks, blocks): which block of keys (column) a block of queries (row) sees."""
        query, key = np.arange(blocks)[:, None], np.arange(blocks)
        seen = (np.abs(query - key) <= self.local_blocks) | (key < self.global_blocks)
        return seen & (key <= query) if is_causal else seen

    def pattern(self, queries: int, keys: int, offset: int = 0, is_causal: bool = False) -> Tensor:
        """The layout as a mask (Tq, Tk) of positions; is_causal is about whole blocks here."""
        blocks = self.layout(-(-max(keys, queries + offset) // self.block_size), is_causal)
        rows, columns = np.arange(queries) + offset, np.arange(keys)
        return make(blocks[np.ix_(rows // self.block_size, columns // self.block_size)])

    def restrict(
        self, q: Tensor, k: Tensor, mask: Tensor | None, is_causal: bool, offset: int, positions: Any
    ) -> Scores:
        if q.shape[2] + offset != k.shape[2]:
            raise ValueError(f"BlockSparseAttention needs as many keys as queries, got {k.shape[2]} and {q.shape[2]}")
        return super().restrict(q, k, mask, is_causal, offset, positions)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, scores: Scores) -> Tensor:
        if q.shape[2] != k.shape[2]:  # a cache: few queries
            return super().attend(q, k, v, self._dense(q, k, scores))
        B, H, T, D = q.shape
        size, count = self.block_size, -(-T // self.block_size)
        k, v = repeat_heads(k, q.shape), repeat_heads(v, q.shape)
        chosen, there = self._chosen(count, scores.is_causal)
        q, k, v = (F.pad(t, (0, 0, 0, count * size - T)).reshape(B * H, count, size, D) for t in (q, k, v))
        k, v = (t[:, make(chosen)].reshape(B * H, count, -1, D) for t in (k, v))
        mask = self._block_mask(scores, chosen, there, (B, H, T), q.dtype)
        rest = Scores(None, False, scores.scale)
        out = attend(q, k, v, mask, rest, self.dropout if self.training else 0.0)
        return out.reshape(B, H, count * size, D)[:, :, :T]

    def weights(self, q: Tensor, k: Tensor, scores: Scores) -> Tensor:
        return super().weights(q, k, self._dense(q, k, scores))

    def _dense(self, q: Tensor, k: Tensor, scores: Scores) -> Scores:
        Tq, Tk = q.shape[2], k.shape[2]
        pattern = self.pattern(Tq, Tk, Tk - Tq, scores.is_causal)
        return scores._replace(mask=combine_masks(scores.mask, pattern))

    def _chosen(self, count: int, is_causal: bool) -> tuple[np.ndarray, np.ndarray]:
        """For each block of queries the blocks that it sees, filled up to equally many; and which are no filling."""
        layout = self.layout(count, is_causal)
        width = int(layout.sum(1).max(initial=0))
        order = np.argsort(~layout, axis=1, kind="stable")[:, :width]
        return order, np.take_along_axis(layout, order, 1)

    def _block_mask(
        self, scores: Scores, chosen: np.ndarray, there: np.ndarray, shape: tuple[int, int, int], dtype: Any
    ) -> Tensor | None:
        """The mask of the chosen blocks, to broadcast to (B H, blocks, size, chosen size)."""
        B, H, T = shape
        size, count = self.block_size, len(chosen)
        i = (np.arange(count)[:, None] * size + np.arange(size))[:, :, None]  # (blocks, size, 1)
        j = (chosen[:, :, None] * size + np.arange(size)).reshape(count, 1, -1)  # (blocks, 1, chosen size)
        allowed = np.repeat(there, size, axis=1)[:, None, :] & (j < T)
        if scores.is_causal:
            allowed = allowed & (j <= i)
        own = make(allowed)
        if scores.slopes is not None:
            bias = scores.slopes[:, None, None, None] * (j - i)
            own = combine_masks(own, make(np.tile(bias.astype(dtype), (B, 1, 1, 1))))
        if scores.mask is None:
            return own
        mask = scores.mask.reshape(*(1,) * (4 - scores.mask.ndim), *scores.mask.shape)
        lead, (rows, columns) = mask.shape[:2], mask.shape[2:]
        picked = mask[:, :, make(np.minimum(i, rows - 1)), make(np.minimum(j, columns - 1))]
        if lead != (1, 1):
            picked = picked.expand(B, H, *picked.shape[2:]).reshape(B * H, *picked.shape[2:])
        else:
            picked = picked.squeeze(0)
        return combine_masks(own, picked)

    def extra_repr(self) -> str:
        blocks = f"local_blocks={self.local_blocks}, global_blocks={self.global_blocks}"
        return f"{super().extra_repr()}, block_size={self.block_size}, {blocks}"


class AdditiveAttention(MultiHeadAttention):
    """Scores by a small network: v^T tanh(W q + U k) in each head (Bahdanau et al., 2015, appendix A.1.2).

    query_proj is W, key_proj is U and score_weight (H, D) holds v; num_heads=1 is the original, where the values are
    not projected either. Needs memory for (B, H, Tq, Tk, D) numbers.

    >>> from tinygrad_tf import nn, zeros
    >>> state, annotations = zeros(2, 1, 8), zeros(2, 5, 8)
    >>> tuple(nn.AdditiveAttention(d_model=8)(state, annotations).shape)
    (2, 1, 8)
    """

    scores_take_positions = False

    def __init__(
        self,
        d_model: int,
        num_heads: int = 1,
        dropout: float = 0.0,
        bias: bool = True,
        num_kv_heads: int | None = None,
    ):
        super().__init__(d_model, num_heads, dropout, bias, num_kv_heads)
        bound = 1.0 / math.sqrt(self.head_size)
        self.score_weight = init.uniform_(Parameter(empty(num_heads, self.head_size)), -bound, bound)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, scores: Scores) -> Tensor:
        weights = F.dropout(self.weights(q, k, scores), self.dropout, self.training)
        return matmul(weights, repeat_heads(v, q.shape))

    @composed
    def weights(self, q: Tensor, k: Tensor, scores: Scores) -> Tensor:
        k = repeat_heads(k, q.shape)
        pairs = (q.unsqueeze(3) + k.unsqueeze(2)).tanh()  # (B, H, Tq, Tk, D)
        numbers = matmul(pairs, self.score_weight.reshape(1, self.num_heads, 1, self.head_size, 1)).squeeze(-1)
        return weights_of(numbers, scores.mask, is_causal=scores.is_causal)
