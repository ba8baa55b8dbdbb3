"""PyTorch's multi-head attention: its arguments, parameter names, initialisation and masks."""

from __future__ import annotations

from typing import Any

from tinygrad_tf.creation import empty, zeros
from tinygrad_tf.nn import init
from tinygrad_tf.nn.functional.multihead import HeadWeights, multihead
from tinygrad_tf.nn.linear import Linear
from tinygrad_tf.nn.module import Module
from tinygrad_tf.nn.parameter import Parameter
from tinygrad_tf.tensor import Tensor


class NonDynamicallyQuantizableLinear(Linear):
    """The last map of `MultiheadAttention` by the name that PyTorch prints: a Linear like any other."""


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
    q_proj_weight: Parameter | None
    k_proj_weight: Parameter | None
    v_proj_weight: Parameter | None

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
            raise (ValueError if embed_dim < 1 or num_heads < 1 else AssertionError)(
                f"MultiheadAttention: embed_dim must be divisible by num_heads, got {embed_dim} and {num_heads}"
            )
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, embed_dim // num_heads
        self.kdim, self.vdim = embed_dim if kdim is None else kdim, embed_dim if vdim is None else vdim
        self.dropout, self.batch_first, self.add_zero_attn = dropout, batch_first, add_zero_attn
        settings: dict[str, Any] = {"device": device, "dtype": dtype}
        if self.kdim == self.vdim == embed_dim:
            self.in_proj_weight = Parameter(empty(3 * embed_dim, embed_dim, **settings))
            self.q_proj_weight = self.k_proj_weight = self.v_proj_weight = None
        else:
            self.in_proj_weight = None
            self.q_proj_weight = Parameter(empty(embed_dim, embed_dim, **settings))
            self.k_proj_weight = Parameter(empty(embed_dim, self.kdim, **settings))
            self.v_proj_weight = Parameter(empty(embed_dim, self.vdim, **settings))
        self.in_proj_bias = Parameter(zeros(3 * embed_dim, **settings)) if bias else None
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias, **settings)
        self.bias_k = Parameter(empty(1, 1, embed_dim, **settings)) if add_bias_kv else None
        self.bias_v = Parameter(empty(1, 1, embed_dim, **settings)) if add_bias_kv else None
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        if self.in_proj_weight is not None:
            init.xavier_uniform_(self.in_proj_weight)
        else:
            for weight in (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
                if weight is not None:
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
        masks = key_padding_mask, attn_mask, is_causal
        returned, dropout = (need_weights, average_attn_weights), self.dropout if self.training else 0.0
        return multihead(query, key, value, self._weights(), dropout, masks, returned, self.batch_first)

    def _weights(self) -> HeadWeights:
        together, q, k, v = self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight
        apart = None if q is None or k is None or v is None else (q, k, v)
        behind, out = (self.bias_k, self.bias_v, self.add_zero_attn), self.out_proj
        return HeadWeights(self.num_heads, together, apart, self.in_proj_bias, *behind, out.weight, out.bias)
