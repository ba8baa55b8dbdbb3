"""The parts that a Transformer stacks: the position-wise feed-forward network, and the residual block."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tinygrad_tf.nn import functional as F
from tinygrad_tf.nn.attention import MultiHeadAttention
from tinygrad_tf.nn.layers import Dropout, Linear
from tinygrad_tf.nn.module import Module
from tinygrad_tf.nn.norm import LayerNorm
from tinygrad_tf.tensor import Tensor

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "silu": F.silu,
}


class FeedForward(Module):
    """Two linear layers with an activation between, at each position alone (Vaswani et al., 2017, section 3.3)."""

    def __init__(
        self, d_model: int, d_ff: int | None = None, activation: str = "relu", dropout: float = 0.0, bias: bool = True
    ):
        super().__init__()
        if activation not in ACTIVATIONS:
            raise ValueError(f"FeedForward: activation must be one of {sorted(ACTIVATIONS)}, got {activation!r}")
        d_ff = 4 * d_model if d_ff is None else d_ff
        self.activation = activation
        self.up = Linear(d_model, d_ff, bias=bias)
        self.down = Linear(d_ff, d_model, bias=bias)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(self.dropout(ACTIVATIONS[self.activation](self.up(x))))

    def extra_repr(self) -> str:
        return f"activation={self.activation}"


class Block(Module):
    """Self-attention and feed-forward, each with dropout and a residual connection.

    norm_first=True is pre-norm: x + sublayer(norm(x)) (Xiong et al., 2020), False is post-norm: norm(x + sublayer(x)),
    as in the original paper.

    >>> from tinygrad_tf import nn, zeros
    >>> nn.Block(d_model=8, num_heads=2)(zeros(1, 3, 8), is_causal=True).shape
    Size([1, 3, 8])
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        d_ff: int | None = None,
        activation: str = "gelu",
        dropout: float = 0.0,
        bias: bool = True,
        norm_first: bool = True,
    ):
        super().__init__()
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, bias=bias)
        self.attention = MultiHeadAttention(d_model, num_heads, dropout, bias)
        self.norm2 = LayerNorm(d_model, bias=bias)
        self.feed_forward = FeedForward(d_model, d_ff, activation, bias=bias)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor | None = None, is_causal: bool = False) -> Tensor:
        if self.norm_first:
            x = x + self.dropout(self.attention(self.norm1(x), mask=mask, is_causal=is_causal))
            return x + self.dropout(self.feed_forward(self.norm2(x)))
        x = self.norm1(x + self.dropout(self.attention(x, mask=mask, is_causal=is_causal)))
        return self.norm2(x + self.dropout(self.feed_forward(x)))
