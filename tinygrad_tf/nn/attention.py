"""Multi-head attention, one class for self-attention and cross-attention (Vaswani et al., 2017, section 3.2.2)."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Protocol

import numpy as np

from tinygrad_tf._arguments import check_probability, check_size
from tinygrad_tf.nn import functional as F
from tinygrad_tf.nn.linear import Linear
from tinygrad_tf.nn.masks import causal_mask, check_mask, combine_masks, window_mask
from tinygrad_tf.nn.module import Module
from tinygrad_tf.nn.position import AttentionPositions
from tinygrad_tf.ops._precision import composed
from tinygrad_tf.ops.attention import attention, attention_weights, repeat_heads
from tinygrad_tf.ops.linalg import matmul
from tinygrad_tf.ops.linear import linear
from tinygrad_tf.ops.shape import cat, permute, reshape, split
from tinygrad_tf.tensor import Tensor

EXCHANGED = (0, 2, 1, 3)  # axes of (B, T, H, D) or (B, H, T, D): heads and time change places


class KeyValueCache(Protocol):
    """What attention needs of a cache for one layer: it keeps the keys and values of the tokens seen so far."""

    offset: int  # the position of the next token, counted from the first one ever seen
    # A cache may also have `window`, the most keys that one query may attend to.

    def update(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Take in (B, Hk, T, D) of the new tokens; give back all that are kept, in order, the new ones last."""
        ...


class Remembered(NamedTuple):
    """Keys and values (B, Hk, Tk, D), projected once; stands for the `key` of cross-attention that is asked often."""

    key: Tensor
    value: Tensor


class Scores(NamedTuple):
    """What is done to the scores before their softmax: arguments of `ops.attention.attention`."""

    mask: Tensor | None
    is_causal: bool
    scale: float
    window: int | None = None
    slopes: np.ndarray | None = None


class MultiHeadAttention(Module):
    """Project to queries, keys and values, attend in num_heads heads of D = d_model / num_heads channels, merge.

    Call it with one tensor for self-attention, with (query, key, value) for cross-attention:
    query (B, Tq, C), key and value (B, Tk, C) give (B, Tq, C). With need_weights=True the weights (B, H, Tq, Tk), as
    they are before dropout, are returned, too.

    mask: True where a query may attend, as in `F.scaled_dot_product_attention`, or floating point, added to the scores;
    it broadcasts to (B, H, Tq, Tk) and combines with is_causal. `nn.MultiheadAttention` is PyTorch's class of almost
    the same name, whose masks mean the opposite. A query that may attend to nothing gets zeros (plus out_proj's bias).

    num_kv_heads: fewer heads for keys and values, each shared by a group of query heads (Ainslie et al., 2023); 1 is
    multi-query attention (Shazeer, 2019).
    positions: what turns queries and keys or biases the scores, such as `nn.RotaryPositions`; for self-attention.
    cache: a KeyValueCache of earlier tokens, for self-attention. The queries then stand at the end of the keys, and
    is_causal counts from there: the last query sees all keys. In a cache with a `window`, a query sees no more than so
    many of the last ones.

    >>> from tinygrad_tf import nn, zeros
    >>> attention = nn.MultiHeadAttention(d_model=8, num_heads=2)
    >>> tuple(attention(zeros(1, 3, 8)).shape)
    (1, 3, 8)
    >>> tuple(attention(zeros(1, 3, 8), need_weights=True)[1].shape)
    (1, 2, 3, 3)
    """

    scores_take_positions = True  # whether `positions` make sense; False where scores are no plain products

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        num_kv_heads: int | None = None,
    ):
        super().__init__()
        name = type(self).__name__
        d_model, num_heads = check_size(f"{name}: d_model", d_model), check_size(f"{name}: num_heads", num_heads)
        if d_model % num_heads:
            raise ValueError(f"{name}: d_model must be divisible by num_heads, got {d_model} and {num_heads}")
        kv_heads = num_heads if num_kv_heads is None else check_size(f"{name}: num_kv_heads", num_kv_heads)
        if num_heads % kv_heads:
            raise ValueError(f"{name}: num_heads must be divisible by num_kv_heads, got {num_heads} and {kv_heads}")
        check_probability(f"{name}: dropout", dropout)
        self.d_model, self.num_heads, self.num_kv_heads, self.dropout = d_model, num_heads, kv_heads, dropout
        self.head_size = d_model // num_heads
        self.query_proj = Linear(d_model, d_model, bias=bias)
        self.key_proj = Linear(d_model, kv_heads * self.head_size, bias=bias)
        self.value_proj = Linear(d_model, kv_heads * self.head_size, bias=bias)
        self.out_proj = Linear(d_model, d_model, bias=bias)

    def forward(
        self,
        query: Tensor,
        key: Tensor | Remembered | None = None,
        value: Tensor | None = None,
        mask: Tensor | None = None,
        is_causal: bool = False,
        need_weights: bool = False,
        positions: AttentionPositions | None = None,
        cache: KeyValueCache | None = None,
    ) -> Any:
        crossing = key is not None and key is not query
        if positions is not None or cache is not None:
            self._check_positions(crossing, positions, cache)
        self._check("query", query)
        if key is None and value is None and self._can_project_at_once(query):
            q, k, v = self.project_at_once(query)
        else:
            q = self.split_heads(self.query_proj(query), self.num_heads)
            k, v = key if isinstance(key, Remembered) else self.remember(query if key is None else key, value)
        (B, H, Tq, _), of_keys = q.array.shape, k.array.shape
        if of_keys[0] != B:
            raise RuntimeError(f"{self._get_name()}: query and key must share B, got {B} and {of_keys[0]}")
        if positions is not None:
            start = 0 if cache is None else cache.offset
            q, k = positions.rotate(q, start), positions.rotate(k, start)
        if cache is not None:
            k, v = cache.update(k, v)
        Tk = k.array.shape[2]
        if mask is not None:
            check_mask(mask, (B, H, Tq, Tk), f"{self._get_name()}: mask")
        offset = 0 if cache is None else Tk - Tq
        window = getattr(cache, "window", None)
        if window is not None and Tq > 1:  # a chunk's keys are the windows of all its queries together
            mask = combine_masks(mask, window_mask(Tq, Tk, window, offset))
        scores = self.restrict(q, k, mask, is_causal, offset, positions)
        out = self.out_proj(self.merge_heads(self.attend(q, k, v, scores)))
        return (out, self.weights(q, k, scores)) if need_weights else out

    # --- the steps; variants replace some -------------------------------------------------------------------------

    def remember(self, key: Tensor, value: Tensor | None = None) -> Remembered:
        """Keys and values of (B, Tk, C), projected and split into heads; give it as `key` to ask it several times."""
        value = key if value is None else value
        self._check("key", key)
        self._check("value", value)
        if key.array.shape[:2] != value.array.shape[:2]:
            shapes = f"{tuple(key.shape)} and {tuple(value.shape)}"
            raise RuntimeError(f"{self._get_name()}: key and value must share B and Tk, got {shapes}")
        k = self.split_heads(self.key_proj(key), self.num_kv_heads)
        return Remembered(k, self.split_heads(self.value_proj(value), self.num_kv_heads))

    def _can_project_at_once(self, x: Tensor) -> bool:
        """Whether the three projections are what they were made as, and x is large beside their weights."""
        parts = self.query_proj, self.key_proj, self.value_proj
        if x.array.size < self.d_model**2 or type(self).remember is not MultiHeadAttention.remember:
            return False
        plain = all(type(p) is Linear and not p._hooked for p in parts)
        return plain and len({p.bias is None for p in parts}) == 1

    def project_at_once(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values of self-attention in heads, by one product: the three weights lie side by side."""
        parts = self.query_proj, self.key_proj, self.value_proj
        weight = cat([p.weight for p in parts])
        bias = None if parts[0].bias is None else cat([p.bias for p in parts])
        projected = split(linear(x, weight, bias), [p.weight.array.shape[0] for p in parts], -1)
        q, k, v = (self.split_heads(y, y.array.shape[2] // self.head_size) for y in projected)
        return q, k, v

    def restrict(
        self,
        q: Tensor,
        k: Tensor,
        mask: Tensor | None,
        is_causal: bool,
        offset: int,
        positions: AttentionPositions | None,
    ) -> Scores:
        """Masks, causality and positions as one. Query i stands at key i + offset."""
        Tq, Tk = q.array.shape[2], k.array.shape[2]
        slopes, bias = None, None
        if positions is not None and is_causal and positions.slopes is not None:
            slopes = positions.slopes  # counted from i, not i + offset: a constant in each row, which softmax drops
        elif positions is not None:
            bias = positions.bias(Tq, Tk, offset)
        if is_causal and offset:
            mask = mask if Tq == 1 else combine_masks(mask, causal_mask(Tq, Tk, offset))
            is_causal = False
        if bias is not None:
            mask = combine_masks(mask, bias.to(q.dtype))
        return Scores(mask, is_causal, 1.0 / math.sqrt(self.head_size), None, slopes)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, scores: Scores) -> Tensor:
        """(B, H, Tq, D) from q (B, H, Tq, D) and k, v (B, Hk, Tk, D)."""
        return attend(q, k, v, scores.mask, scores, self.dropout if self.training else 0.0)

    def weights(self, q: Tensor, k: Tensor, scores: Scores) -> Tensor:
        """(B, H, Tq, Tk), each row of which sums to 1, or to 0 where a query may attend to nothing."""
        return attention_weights(q, repeat_heads(k, q.shape), **scores._asdict())

    def split_heads(self, x: Tensor, num_heads: int | None = None) -> Tensor:
        """(B, T, H D) to (B, H, T, D): first the channels become heads, then heads and time change places."""
        B, T, C = x.array.shape
        H = self.num_heads if num_heads is None else num_heads
        return permute(reshape(x, shape=(B, T, H, C // H)), dims=EXCHANGED)

    def merge_heads(self, x: Tensor) -> Tensor:
        """(B, H, T, D) back to (B, T, C)."""
        B, H, T, D = x.array.shape
        return reshape(permute(x, dims=EXCHANGED), shape=(B, T, H * D))

    # --- checks ---------------------------------------------------------------------------------------------------

    def _check(self, name: str, x: Tensor) -> None:
        shape = x.array.shape
        if len(shape) != 3 or shape[2] != self.d_model:
            raise RuntimeError(f"{self._get_name()}: {name} must be (B, T, C) with C = {self.d_model}, got {shape}")

    def _check_positions(self, crossing: bool, positions: Any, cache: Any) -> None:
        name = self._get_name()
        if crossing and (positions is not None or cache is not None):
            raise ValueError(
                f"{name}: positions and cache are for self-attention; cross-attention is asked again with "
                "key=attention.remember(key)"
            )
        if positions is not None and not isinstance(positions, AttentionPositions):
            raise TypeError(
                f"{name}: positions must work inside attention, as nn.RotaryPositions(head_size) does, got "
                f"{type(positions).__name__}; those of tables are added to the input"
            )
        heads = getattr(positions, "num_heads", self.num_heads)
        if heads != self.num_heads:
            raise ValueError(f"{name}: positions are made for {heads} heads, but num_heads is {self.num_heads}")
        if positions is not None and not self.scores_take_positions:
            raise ValueError(f"{name} takes no positions in its scores; add them to its input (nn.SinusoidalPositions)")

    def extra_repr(self) -> str:
        shared = "" if self.num_kv_heads == self.num_heads else f", num_kv_heads={self.num_kv_heads}"
        return f"d_model={self.d_model}, num_heads={self.num_heads}{shared}, dropout={self.dropout}"


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scores: Scores, dropout: float) -> Tensor:
    """The streaming kernel; with dropout the weights are needed, and so is memory for all of them."""
    if dropout:
        return _dropped(q, k, v, scores._replace(mask=mask), dropout)
    _, is_causal, scale, window, slopes = scores
    return attention(q, k, v, mask, is_causal=is_causal, scale=scale, window=window, slopes=slopes)


@composed
def _dropped(q: Tensor, k: Tensor, v: Tensor, scores: Scores, dropout: float) -> Tensor:
    k, v = repeat_heads(k, q.shape), repeat_heads(v, q.shape)
    return matmul(F.dropout(attention_weights(q, k, **scores._asdict()), dropout), v)
