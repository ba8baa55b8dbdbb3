"""The parts that a Transformer stacks, each chosen by name: norm, feed-forward network, attention, residual block."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tinygrad_tf._arguments import check_choice, check_size
from tinygrad_tf.nn.attention import KeyValueCache, MultiHeadAttention
from tinygrad_tf.nn.attention_variants import AdditiveAttention, BlockSparseAttention, LocalAttention
from tinygrad_tf.nn.dropout import Dropout
from tinygrad_tf.nn.functional.activation import gelu, relu, silu
from tinygrad_tf.nn.linear import Identity, Linear
from tinygrad_tf.nn.linear_attention import LinearAttention
from tinygrad_tf.nn.module import Module
from tinygrad_tf.nn.norm import BatchNorm1d, LayerNorm, RMSNorm
from tinygrad_tf.nn.position import AttentionPositions
from tinygrad_tf.tensor import Tensor

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": relu,
    "gelu": gelu,
    "gelu_tanh": partial(gelu, approximate="tanh"),
    "silu": silu,
}
GATES: dict[str, Callable[[Tensor], Tensor]] = {"swiglu": silu, "geglu": gelu}
FEED_FORWARDS = (*ACTIVATIONS, *GATES)
NORMS = ("layer", "rms", "batch", "none")
ATTENTIONS = ("full", "local", "block_sparse", "linear", "additive")


class FeedForward(Module):
    """Two linear layers with an activation between, at each position alone (Vaswani et al., 2017, section 3.3).

    activation: 'relu', 'gelu', 'gelu_tanh' or 'silu': down(activation(up(x))). 'swiglu' and 'geglu' have a third layer,
    down(activation(gate(x)) * up(x)), with SiLU and GELU (Shazeer, 2020, equations 5 and 6). d_ff is by default
    4 d_model, and 8 / 3 d_model (rounded up to a multiple of 8) with a gate, for the same number of parameters.

    >>> from tinygrad_tf import nn, zeros
    >>> tuple(nn.FeedForward(d_model=6, activation="swiglu").up.weight.shape)
    (16, 6)
    """

    def __init__(
        self, d_model: int, d_ff: int | None = None, activation: str = "relu", dropout: float = 0.0, bias: bool = True
    ):
        super().__init__()
        check_choice("FeedForward: activation", activation, FEED_FORWARDS)
        gated = activation in GATES
        if d_ff is None:
            d_ff = -(-8 * d_model // 24) * 8 if gated else 4 * d_model
        check_size("FeedForward: d_model", d_model)
        check_size("FeedForward: d_ff", d_ff)
        self.activation = activation
        self.gate = Linear(d_model, d_ff, bias=bias) if gated else None
        self.up = Linear(d_model, d_ff, bias=bias)
        self.down = Linear(d_ff, d_model, bias=bias)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        if self.gate is None:
            inner = ACTIVATIONS[self.activation](self.up(x))
        else:
            inner = GATES[self.activation](self.gate(x)) * self.up(x)
        return self.down(self.dropout(inner))

    def extra_repr(self) -> str:
        return f"activation={self.activation}"


class SequenceBatchNorm(BatchNorm1d):
    """BatchNorm1d of the channels of x (B, T, C), over batch and time: for contrast with LayerNorm.

    Its statistics mix sequences and, where lengths differ, padding; in evaluation it uses running ones.
    """

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input.reshape(-1, input.shape[-1])).reshape(input.shape)


def make_norm(name: str, d_model: int, bias: bool = True) -> Module:
    """A norm over the channels of (B, T, C): 'layer', 'rms', 'batch' (for contrast), or 'none'.

    >>> make_norm("rms", 8)
    RMSNorm((8,), eps=1e-06, elementwise_affine=True)
    """
    check_choice("norm", name, NORMS)
    if name == "layer":
        return LayerNorm(d_model, bias=bias)
    if name == "rms":
        return RMSNorm(d_model, eps=1e-6)
    return SequenceBatchNorm(d_model, bias=bias) if name == "batch" else Identity()


def make_attention(
    name: str,
    d_model: int,
    num_heads: int,
    dropout: float = 0.0,
    bias: bool = True,
    num_kv_heads: int | None = None,
    window: int = 64,
    block_size: int = 16,
) -> MultiHeadAttention:
    """Attention of a kind: 'full', 'local' (which reads window), 'block_sparse' (block_size), 'linear', 'additive'.

    >>> make_attention("local", 8, 2, window=4)
    LocalAttention(
      d_model=8, num_heads=2, dropout=0.0, window=4
      (query_proj): Linear(in_features=8, out_features=8, bias=True)
      (key_proj): Linear(in_features=8, out_features=8, bias=True)
      (value_proj): Linear(in_features=8, out_features=8, bias=True)
      (out_proj): Linear(in_features=8, out_features=8, bias=True)
    )
    """
    check_choice("attention", name, ATTENTIONS)
    settings: dict[str, Any] = {"dropout": dropout, "bias": bias, "num_kv_heads": num_kv_heads}
    if name == "local":
        return LocalAttention(d_model, num_heads, window, **settings)
    if name == "block_sparse":
        return BlockSparseAttention(d_model, num_heads, block_size, **settings)
    kinds = {"full": MultiHeadAttention, "linear": LinearAttention, "additive": AdditiveAttention}
    return kinds[name](d_model, num_heads, **settings)


class Block(Module):
    """Self-attention and feed-forward, each with dropout and a residual connection.

    norm_first=True is pre-norm: x + sublayer(norm(x)) (Xiong et al., 2020), False is post-norm: norm(x + sublayer(x)),
    as in the original paper. The parts are chosen by name, as in `make_norm`, `FeedForward` and `make_attention`, whose
    further settings may be given, too.

    >>> from tinygrad_tf import nn, zeros
    >>> tuple(nn.Block(d_model=8, num_heads=2)(zeros(1, 3, 8), is_causal=True).shape)
    (1, 3, 8)
    >>> modern = nn.Block(8, 4, norm="rms", activation="swiglu", num_kv_heads=2, bias=False)
    >>> tuple(modern(zeros(1, 3, 8), is_causal=True, positions=nn.RotaryPositions(2)).shape)
    (1, 3, 8)
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
        norm: str = "layer",
        attention: str = "full",
        **attention_settings: Any,
    ):
        super().__init__()
        self.norm_first = norm_first
        self.norm1 = make_norm(norm, d_model, bias)
        self.attention = make_attention(attention, d_model, num_heads, dropout, bias, **attention_settings)
        self.norm2 = make_norm(norm, d_model, bias)
        self.feed_forward = FeedForward(d_model, d_ff, activation, bias=bias)
        self.dropout = Dropout(dropout)

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        is_causal: bool = False,
        positions: AttentionPositions | None = None,
        cache: KeyValueCache | None = None,
    ) -> Tensor:
        how: dict[str, Any] = {"mask": mask, "is_causal": is_causal, "positions": positions, "cache": cache}
        if self.norm_first:
            x = x + self.dropout(self.attention(self.norm1(x), **how))
            return x + self.dropout(self.feed_forward(self.norm2(x)))
        x = self.norm1(x + self.dropout(self.attention(x, **how)))
        return self.norm2(x + self.dropout(self.feed_forward(x)))
