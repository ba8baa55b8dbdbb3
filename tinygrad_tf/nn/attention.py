"""Multi-head attention, one class for self-attention and cross-attention (Vaswani et al., 2017, section 3.2.2)."""

from __future__ import annotations

import math
from typing import Any

from tinygrad_tf.nn import functional as F
from tinygrad_tf.nn.layers import Linear
from tinygrad_tf.nn.module import Module
from tinygrad_tf.ops.attention import attention_weights
from tinygrad_tf.tensor import Tensor


class MultiHeadAttention(Module):
    """Project to queries, keys and values, attend in num_heads heads of D = d_model / num_heads channels, merge.

    Call it with one tensor for self-attention, with (query, key, value) for cross-attention:
    query (B, Tq, C), key and value (B, Tk, C) give (B, Tq, C). `mask` is True where a query may attend, as in
    `F.scaled_dot_product_attention`, and broadcasts to (B, H, Tq, Tk); `nn.MultiheadAttention` is PyTorch's class of
    almost the same name, whose masks mean the opposite. With need_weights=True the weights (B, H, Tq, Tk) are
    returned, too.

    >>> from tinygrad_tf import nn, zeros
    >>> attention = nn.MultiHeadAttention(d_model=8, num_heads=2)
    >>> attention(zeros(1, 3, 8)).shape
    Size([1, 3, 8])
    >>> attention(zeros(1, 3, 8), need_weights=True)[1].shape
    Size([1, 2, 3, 3])
    """

    def __init__(self, d_model: int, num_heads: int, dropout: float = 0.0, bias: bool = True):
        super().__init__()
        if num_heads < 1 or d_model % num_heads:
            raise ValueError(
                f"MultiHeadAttention: d_model must be divisible by num_heads, got {d_model} and {num_heads}"
            )
        self.d_model, self.num_heads, self.dropout = d_model, num_heads, dropout
        self.query_proj = Linear(d_model, d_model, bias=bias)
        self.key_proj = Linear(d_model, d_model, bias=bias)
        self.value_proj = Linear(d_model, d_model, bias=bias)
        self.out_proj = Linear(d_model, d_model, bias=bias)

    def forward(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        mask: Tensor | None = None,
        is_causal: bool = False,
        need_weights: bool = False,
    ) -> Any:
        key = query if key is None else key
        value = key if value is None else value
        self._check(query, key, value)
        q = self.split_heads(self.query_proj(query))
        k = self.split_heads(self.key_proj(key))
        v = self.split_heads(self.value_proj(value))
        dropout = self.dropout if self.training else 0.0
        heads = F.scaled_dot_product_attention(q, k, v, mask, dropout, is_causal)
        out = self.out_proj(self.merge_heads(heads))
        if not need_weights:
            return out
        scale = 1.0 / math.sqrt(self.d_model // self.num_heads)
        return out, attention_weights(q, k, mask, is_causal=is_causal, scale=scale)

    def split_heads(self, x: Tensor) -> Tensor:
        """(B, T, C) to (B, H, T, D): first the channels become heads, then heads and time change places."""
        B, T, C = x.shape
        return x.view(B, T, self.num_heads, C // self.num_heads).transpose(1, 2)

    def merge_heads(self, x: Tensor) -> Tensor:
        """(B, H, T, D) back to (B, T, C)."""
        B, H, T, D = x.shape
        return x.transpose(1, 2).reshape(B, T, H * D)

    def _check(self, query: Tensor, key: Tensor, value: Tensor) -> None:
        for name, t in (("query", query), ("key", key), ("value", value)):
            if t.ndim != 3 or t.shape[-1] != self.d_model:
                raise RuntimeError(
                    f"MultiHeadAttention: {name} must be (B, T, C) with C = {self.d_model}, got {tuple(t.shape)}"
                )
        if key.shape[:2] != value.shape[:2] or key.shape[0] != query.shape[0]:
            shapes = f"query {tuple(query.shape)}, key {tuple(key.shape)}, value {tuple(value.shape)}"
            raise RuntimeError(f"MultiHeadAttention: key and value must share B and Tk, and B with query, got {shapes}")

    def extra_repr(self) -> str:
        return f"d_model={self.d_model}, num_heads={self.num_heads}, dropout={self.dropout}"
