"""The table's rows for what Transformers are made of: attention, positions, blocks, models, and recurrence."""

from __future__ import annotations

from typing import Any

import numpy as np

import tinygrad_tf as tg
from tinygrad_tf import Tensor, models, nn
from tinygrad_tf.checks.table import layer, normal, op
from tinygrad_tf.ops.attention import attention
from tinygrad_tf.ops.rotary import rotate

SLOPES = np.array([0.5, 0.25])
HEADS = normal(1, 2, 5, 3)
PADDED = nn.padding_mask([2], max_len=3)


def fused(**options: Any) -> Any:
    return lambda q, k, v: attention(q, k, v, **{"is_causal": True, "scale": 0.6, **options})


# --- operations -------------------------------------------------------------------------------------------------------

op("attention window", fused(window=2), HEADS, HEADS, HEADS)
op("attention window both ways", fused(window=2, is_causal=False), HEADS, HEADS, HEADS)
op("attention slopes", fused(slopes=SLOPES), HEADS, HEADS, HEADS)
op("attention window and slopes", fused(window=3, slopes=SLOPES), HEADS, HEADS, HEADS)
op("attention slopes and mask", fused(slopes=SLOPES, mask=nn.padding_mask([3], max_len=5)), HEADS, HEADS, HEADS)
op(
    "attention slopes and bias",
    lambda q, k, v, bias: attention(q, k, v, bias, is_causal=True, scale=0.6, slopes=SLOPES, window=4),
    HEADS,
    HEADS,
    HEADS,
    normal(2, 5, 5),
)
ANGLES = np.arange(6.0).reshape(3, 2)
op("rotate halves", lambda x: rotate(x, cos=np.cos(ANGLES), sin=np.sin(ANGLES), interleaved=False), normal(2, 3, 4))
op("rotate interleaved", lambda x: rotate(x, cos=np.cos(ANGLES), sin=np.sin(ANGLES), interleaved=True), normal(2, 3, 4))

# --- attention --------------------------------------------------------------------------------------------------------

SEQUENCE = normal(1, 3, 4)


def causal(module: nn.Module, *xs: Tensor) -> Tensor:
    return module(*xs, is_causal=True)


def with_weights(module: nn.Module, x: Tensor) -> Tensor:
    out, weights = module(x, is_causal=True, mask=PADDED, need_weights=True)
    return out.sum(-1) + (weights * weights).sum((1, 3))


def placed(positions: nn.AttentionPositions, is_causal: bool) -> Any:
    return lambda module, x: module(x, is_causal=is_causal, positions=positions)


layer("attention grouped queries", lambda: nn.MultiHeadAttention(4, 4, num_kv_heads=2), SEQUENCE, call=causal)
layer("attention causal, padded, with weights", lambda: nn.MultiHeadAttention(4, 2), SEQUENCE, call=with_weights)
KINDS = {
    "local": lambda: nn.LocalAttention(4, 2, window=2),
    "block sparse": lambda: nn.BlockSparseAttention(4, 2, block_size=3, local_blocks=0),
    "linear": lambda: nn.LinearAttention(4, 2),
    "additive": lambda: nn.AdditiveAttention(4, 2),
}
for name, make in KINDS.items():
    layer(f"{name} attention", make, SEQUENCE)
    layer(f"{name} attention causal, padded, with weights", make, SEQUENCE, call=with_weights)
layer("linear attention long", lambda: nn.LinearAttention(2, 1), normal(1, 35, 2), call=causal, order=1)
layer("linear attention to a memory", lambda: nn.LinearAttention(4, 2), normal(1, 2, 4), normal(1, 3, 4))
layer("additive attention cross", lambda: nn.AdditiveAttention(4), normal(1, 2, 4), normal(1, 3, 4))
PLACED = {
    "rope halves": (nn.RotaryPositions(2), False),
    "rope interleaved causal": (nn.RotaryPositions(2, pairing="interleaved"), True),
    "alibi": (nn.AlibiPositions(2), False),
    "alibi causal": (nn.AlibiPositions(2), True),
}
for name, how in PLACED.items():
    layer(f"attention {name}", lambda: nn.MultiHeadAttention(4, 2), SEQUENCE, call=placed(*how))
layer("block sparse attention alibi", KINDS["block sparse"], SEQUENCE, call=placed(nn.AlibiPositions(2), True))
for name in ("attention", "block sparse"):
    make = KINDS.get(name, lambda: nn.MultiHeadAttention(4, 2))
    layer(
        f"{name} relative",
        lambda make=make: nn.ModuleList([make(), nn.RelativePositions(2, buckets=8, max_distance=6)]),
        SEQUENCE,
        call=lambda m, x: m[0](x, positions=m[1]) + m[0](x, is_causal=True, positions=m[1]),
    )

# --- blocks and models ------------------------------------------------------------------------------------------------

for activation in ("gelu_tanh", "silu", "swiglu", "geglu"):
    layer(f"FeedForward {activation}", lambda a=activation: nn.FeedForward(3, 5, a), normal(2, 3))
layer("Block batch norm", lambda: nn.Block(4, 2, 6, norm="batch"), normal(2, 3, 4))
layer("Block rms norm", lambda: nn.Block(4, 2, 6, "swiglu", norm="rms", num_kv_heads=1), normal(1, 3, 4), call=causal)
SMALL: dict[str, Any] = {
    "vocab_size": 5, "d_model": 2, "num_heads": 1, "d_ff": 3, "encoder_layers": 1, "decoder_layers": 1, "max_len": 5,
    "activation": "gelu", "dropout": 0.0, "pad": 0,
}  # fmt: skip
SOURCE, TARGET, AFTER = tg.tensor([[1, 2, 3, 0]]), tg.tensor([[1, 3, 2]]), tg.tensor([[3, 2, 4]])


def transformer(**changes: Any) -> Any:
    return lambda: models.Transformer(models.TransformerConfig(**{**SMALL, **changes}))


def translation_loss(model: models.Transformer) -> Tensor:
    return model.loss(SOURCE, TARGET, AFTER, label_smoothing=0.1)


layer("EncoderLayer", lambda: models.EncoderLayer(4, 2, 6, dropout=0.0, activation="gelu"), normal(1, 3, 4))
layer(
    "DecoderLayer",
    lambda: models.DecoderLayer(2, 1, 3, dropout=0.0, activation="gelu", norm_first=True),
    normal(1, 2, 2),
    normal(1, 3, 2),
)
layer("Transformer", transformer(), call=translation_loss)
layer(
    "Transformer pre-norm relative", transformer(norm_first=True, positions="relative"), call=translation_loss, order=1
)
layer(
    "Transformer untied",
    transformer(target_vocab_size=5, tied=False, positions="learned"),
    call=translation_loss,
    order=1,
)


def language_loss(model: models.GPT) -> Tensor:
    return model.loss(tg.tensor([[0, 1, 2, 3]]), tg.tensor([[1, 2, 3, 4]]))


TINY: dict[str, Any] = {"vocab_size": 5, "context": 4, "layers": 1, "heads": 2, "channels": 4}
layer("ModernDecoder", lambda: models.ModernDecoder(models.ModernDecoderConfig(**TINY, kv_heads=1)), call=language_loss)
for kind in ("sinusoidal", "relative", "alibi", "none"):
    layer(f"GPT {kind}", lambda k=kind: models.GPT(models.GPTConfig(**TINY, positions=k)), call=language_loss, order=1)
layer(
    "GPT linear attention",
    lambda: models.GPT(models.GPTConfig(**TINY, attention="linear")),
    call=language_loss,
    order=1,
)

# --- recurrence -------------------------------------------------------------------------------------------------------

layer("RNN", lambda: nn.RNN(3, 2, num_layers=2), normal(3, 2, 3), call=lambda m, x: m(x)[0])
layer("GRU", lambda: nn.GRU(3, 2, batch_first=True), normal(2, 3, 3), normal(1, 2, 2), call=lambda m, x, h: m(x, h)[0])
layer("LSTM", lambda: nn.LSTM(3, 2, bidirectional=True), normal(3, 2, 3), call=lambda m, x: m(x)[0] * m(x)[1][1].sum())
layer("LSTMCell", lambda: nn.LSTMCell(3, 2), normal(2, 3), call=lambda m, x: m(x)[0])
layer("RNNCell", lambda: nn.RNNCell(3, 2), normal(2, 3), normal(2, 2))
layer("GRUCell", lambda: nn.GRUCell(3, 2, bias=False), normal(3), normal(2))
layer("RNN relu", lambda: nn.RNN(2, 2, nonlinearity="relu"), normal(3, 2, 2), call=lambda m, x: m(x)[0])
layer(
    "LSTM, with states",
    lambda: nn.LSTM(2, 2),
    normal(2, 1, 2),
    normal(1, 1, 2),
    normal(1, 1, 2),
    call=lambda m, x, h, c: m(x, (h, c))[0],
)
layer(
    "LSTM of many sequences, with states",
    lambda: nn.LSTM(2, 2),
    normal(2, 13, 2),
    normal(1, 13, 2),
    normal(1, 13, 2),
    call=lambda m, x, h, c: m(x, (h, c))[0] + m(x, (h, c))[1][1],
)
layer("LSTM projected", lambda: nn.LSTM(2, 3, proj_size=2), normal(3, 2, 2), call=lambda m, x: m(x)[0])


def packed(module: nn.Module, x: Tensor) -> Tensor:
    out, last = module(nn.utils.rnn.pack_padded_sequence(x, [3, 1], batch_first=True))
    state = last[1] if isinstance(last, tuple) else last
    return out.data.sum(0) + state.sum() * state[0, 1, 0]


layer("LSTM packed, both ways", lambda: nn.LSTM(2, 2, bidirectional=True), normal(2, 3, 2), call=packed)
layer("GRU packed, both ways", lambda: nn.GRU(2, 2, bidirectional=True), normal(2, 3, 2), call=packed)
