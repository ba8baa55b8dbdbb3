"""PyTorch's multi-head attention: its arguments, parameter names, initialisation and masks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinygrad_tf.creation import empty, zeros
from tinygrad_tf.engine import make
from tinygrad_tf.functions import cat
from tinygrad_tf.nn import functional as F
from tinygrad_tf.nn import init
from tinygrad_tf.nn.layers import Linear
from tinygrad_tf.nn.module import Module
from tinygrad_tf.nn.parameter import Parameter
from tinygrad_tf.ops.attention import attention_weights
from tinygrad_tf.ops.elementwise import where
from tinygrad_tf.tensor import Tensor


class MultiheadAttention(Module):
    """PyTorch's class; `nn.MultiHeadAttention` (capital H) is this package's plainer one, with masks the other way.

    query (L, N, E), key (S, N, kdim), value (S, N, vdim) give (L, N, E); batch_first=True puts N first, and without N
    they are one sequence each. Returned with them are the attention weights (N, L, S), averaged over the heads;
    (N, H, L, S) with average_attn_weights=False, None with need_weights=False.

    Masks are True where a key must be *ignored*, or are added to the scores if they are floating point: attn_mask
    (L, S) or (N * H, L, S), key_padding_mask (N, S). is_causal lets query i see keys 0 ... i.

    Differences from PyTorch: is_causal needs no attn_mask, and where there is one, the mask alone decides; a query that
    may attend to nothing gets zeros, not NaN; the weights returned in training are those before dropout.

    >>> from tinygrad_tf import nn, zeros
    >>> attention = nn.MultiheadAttention(embed_dim=8, num_heads=2, batch_first=True)
    >>> x = zeros(1, 3, 8)
    >>> out, weights = attention(x, x, x, is_causal=True)
    >>> out.shape, weights.shape
    (torch.Size([1, 3, 8]), torch.Size([1, 3, 3]))
    """

    in_proj_weight: Parameter | None

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ):
        super().__init__()
        if embed_dim < 1 or num_heads < 1 or embed_dim % num_heads:
            raise ValueError(
                f"MultiheadAttention: embed_dim must be divisible by num_heads, got {embed_dim} and {num_heads}"
            )
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, embed_dim // num_heads
        self.kdim, self.vdim = embed_dim if kdim is None else kdim, embed_dim if vdim is None else vdim
        self.dropout, self.batch_first, self.add_zero_attn = dropout, batch_first, add_zero_attn
        settings: dict[str, Any] = {"device": device, "dtype": dtype}
        if self.kdim == self.vdim == embed_dim:
            self.in_proj_weight = Parameter(empty(3 * embed_dim, embed_dim, **settings))
        else:
            self.in_proj_weight = None
            self.q_proj_weight = Parameter(empty(embed_dim, embed_dim, **settings))
            self.k_proj_weight = Parameter(empty(embed_dim, self.kdim, **settings))
            self.v_proj_weight = Parameter(empty(embed_dim, self.vdim, **settings))
        self.in_proj_bias = Parameter(zeros(3 * embed_dim, **settings)) if bias else None
        self.out_proj = Linear(embed_dim, embed_dim, bias, **settings)
        self.bias_k = Parameter(empty(1, 1, embed_dim, **settings)) if add_bias_kv else None
        self.bias_v = Parameter(empty(1, 1, embed_dim, **settings)) if add_bias_kv else None
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        if self.in_proj_weight is not None:
            init.xavier_uniform_(self.in_proj_weight)
        else:
            for weight in (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
                init.xavier_uniform_(weight)
        if self.in_proj_bias is not None and self.out_proj.bias is not None:
            init.zeros_(self.in_proj_bias)
            init.zeros_(self.out_proj.bias)
        if self.bias_k is not None and self.bias_v is not None:
            init.xavier_normal_(self.bias_k)
            init.xavier_normal_(self.bias_v)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        batched = query.ndim == 3
        inputs = [self._batch_first(t, batched) for t in (query, key, value)]
        if key is query:
            inputs[1] = inputs[0]
        self._check(*inputs)
        q, k, v = (self._split_heads(t) for t in self._extended(*self._project(*inputs)))
        mask = self._mask(attn_mask, key_padding_mask, q.shape[:3], inputs[1].shape[1], k.shape[2], is_causal, q.dtype)
        causal = is_causal and mask is None
        dropout = self.dropout if self.training else 0.0
        heads = F.scaled_dot_product_attention(q, k, v, mask, dropout, causal)
        out = self.out_proj(heads.permute(2, 0, 1, 3).flatten(2))  # (L, N, E), as PyTorch: dropout may come behind it
        out = out.squeeze(1) if not batched else out.transpose(0, 1) if self.batch_first else out
        if not need_weights:
            return out, None
        weights = attention_weights(q, k, mask, is_causal=causal, scale=1.0 / math.sqrt(self.head_dim))
        weights = weights.mean(1) if average_attn_weights else weights
        return out, weights if batched else weights.squeeze(0)

    # --- the steps ------------------------------------------------------------------------------------------------

    def _batch_first(self, x: Tensor, batched: bool) -> Tensor:
        if x.ndim != (3 if batched else 2):
            raise ValueError(
                "MultiheadAttention: query, key and value must all be (L, N, E), or all (L, E); "
                f"one has the shape {tuple(x.shape)}"
            )
        return x.unsqueeze(0) if not batched else x if self.batch_first else x.transpose(0, 1)

    def _check(self, query: Tensor, key: Tensor, value: Tensor) -> None:
        wanted = self.embed_dim, self.kdim, self.vdim
        for name, t, size in zip(("query", "key", "value"), (query, key, value), wanted, strict=True):
            if t.shape[-1] != size:
                raise ValueError(f"MultiheadAttention: the last size of {name} must be {size}, got {t.shape[-1]}")
        if key.shape[:2] != value.shape[:2] or key.shape[0] != query.shape[0]:
            shapes = ", ".join(str(tuple(t.shape)) for t in (query, key, value))
            raise ValueError(f"MultiheadAttention: key and value must share N and S, and N with query, got {shapes}")

    def _project(self, query: Tensor, key: Tensor, value: Tensor) -> list[Tensor]:
        """The three linear maps; their weights lie in one matrix if all have the same size."""
        if self.in_proj_weight is not None and query is key and key.array is value.array:
            return list(F.linear(query, self.in_proj_weight, self.in_proj_bias).chunk(3, -1))
        if self.in_proj_weight is not None:
            weights = list(self.in_proj_weight.chunk(3))
        else:
            weights = [self.q_proj_weight, self.k_proj_weight, self.v_proj_weight]
        biases = [None] * 3 if self.in_proj_bias is None else list(self.in_proj_bias.chunk(3))
        return [F.linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases, strict=True)]

    def _extended(self, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The keys and values that add_bias_kv and add_zero_attn put behind all others."""
        n = k.shape[0]
        if self.bias_k is not None and self.bias_v is not None:
            k, v = cat([k, self.bias_k.expand(n, 1, -1)], 1), cat([v, self.bias_v.expand(n, 1, -1)], 1)
        if self.add_zero_attn:
            nothing = zeros(n, 1, self.embed_dim, dtype=k.dtype)
            k, v = cat([k, nothing], 1), cat([v, nothing], 1)
        return q, k, v

    def _split_heads(self, x: Tensor) -> Tensor:
        """(N, T, E) to (N, H, T, D)."""
        n, t, _ = x.shape
        return x.reshape(n, t, self.num_heads, self.head_dim).transpose(1, 2)

    def _mask(
        self,
        attn_mask: Tensor | None,
        key_padding_mask: Tensor | None,
        queries: Any,
        keys: int,
        all_keys: int,
        is_causal: bool,
        dtype: Any,
    ) -> Tensor | None:
        """One mask (N, H, L, S) or smaller, True where a query may attend, or to be added; None where all may."""
        n, h, length = queries
        masks: list[Tensor] = []
        if attn_mask is not None:
            allowed = ((length, keys), (n * h, length, keys))
            _check_mask("attn_mask", attn_mask, allowed)
            masks.append(attn_mask if attn_mask.ndim == 2 else attn_mask.reshape(n, h, length, keys))
        elif is_causal and (key_padding_mask is not None or all_keys > keys):
            masks.append(make(~np.tri(length, keys, dtype=bool)))
        if key_padding_mask is not None:
            _check_mask("key_padding_mask", key_padding_mask, ((n, keys), (keys,)) if n == 1 else ((n, keys),))
            masks.append(key_padding_mask.reshape(n, 1, 1, keys))
        if not masks:
            return None
        if all(m.dtype == bool for m in masks):
            ignored = masks[0].array if len(masks) == 1 else masks[0].array | masks[1].array
            open_ = make(~ignored)
            return open_ if all_keys == keys else F.pad(open_, (0, all_keys - keys), value=True)
        added = [where(m, -math.inf, zeros((), dtype=dtype)) if m.dtype == bool else m.to(dtype) for m in masks]
        total = added[0] if len(added) == 1 else added[0] + added[1]
        return total if all_keys == keys else F.pad(total, (0, all_keys - keys))


def _check_mask(name: str, mask: Tensor, shapes: tuple[tuple[int, ...], ...]) -> None:
    if mask.dtype != bool and not mask.is_floating_point():
        raise TypeError(f"MultiheadAttention: {name} must be bool or floating point, got {mask.dtype}; use .bool()")
    if tuple(mask.shape) not in shapes:
        wanted = " or ".join(map(str, shapes))
        raise ValueError(f"MultiheadAttention: {name} must have the shape {wanted}, got {tuple(mask.shape)}")
