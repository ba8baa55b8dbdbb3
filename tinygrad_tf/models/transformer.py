"""The Transformer: an encoder and a decoder of attention alone (Vaswani et al., 2017).

Shapes: source ids (B, S), target ids (B, T), vectors (B, T, C), logits (B, T, V). `nn.Transformer` is PyTorch's class,
without embeddings and with PyTorch's arguments and masks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tinygrad_tf import nn
from tinygrad_tf.autograd import no_grad
from tinygrad_tf.models.language_model import LanguageModel, call_layer
from tinygrad_tf.models.transformer_config import TransformerConfig as TransformerConfig
from tinygrad_tf.models.transformer_config import config_of
from tinygrad_tf.nn import functional as F
from tinygrad_tf.nn import init
from tinygrad_tf.nn.attention import KeyValueCache, Remembered
from tinygrad_tf.nn.position import AttentionPositions, added_positions
from tinygrad_tf.tensor import Tensor
from tinygrad_tf.utils.modes import evaluating


class EncoderLayer(nn.Block):
    """Self-attention and a feed-forward network, each with dropout, a residual connection and a norm (section 3.1).

    Made from a TransformerConfig, or from its numbers: d_model, num_heads, d_ff, dropout, and other fields by name.

    >>> from tinygrad_tf import zeros
    >>> tuple(EncoderLayer(16, 4, 32, dropout=0.1)(zeros(2, 5, 16)).shape)
    (2, 5, 16)
    """

    def __init__(
        self,
        config: TransformerConfig | int,
        num_heads: int | None = None,
        d_ff: int | None = None,
        dropout: float | None = None,
        **parts: Any,
    ):
        super().__init__(**config_of(config, num_heads, {"d_ff": d_ff, "dropout": dropout, **parts}).block_settings())


class DecoderLayer(EncoderLayer):
    """Self-attention, attention to the encoder's output `memory`, and a feed-forward network (section 3.1).

    Cross-attention is of the same kind as self-attention, but full where that one is about neighbours.

    >>> from tinygrad_tf import zeros
    >>> tuple(DecoderLayer(16, 4, 32)(zeros(2, 3, 16), zeros(2, 5, 16)).shape)
    (2, 3, 16)
    """

    def __init__(
        self,
        config: TransformerConfig | int,
        num_heads: int | None = None,
        d_ff: int | None = None,
        dropout: float | None = None,
        **parts: Any,
    ):
        c = config_of(config, num_heads, {"d_ff": d_ff, "dropout": dropout, **parts})
        super().__init__(c)
        kind = "full" if c.attention in ("local", "block_sparse") else c.attention
        self.cross_attention = nn.make_attention(kind, c.d_model, c.num_heads, c.dropout, c.bias, c.num_kv_heads)
        self.norm3 = nn.make_norm(c.norm, c.d_model, c.bias)

    def forward(  # type: ignore[override]
        self,
        x: Tensor,
        memory: Tensor | Remembered,
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        is_causal: bool = True,
        positions: AttentionPositions | None = None,
        cache: KeyValueCache | None = None,
        weights: list[Tensor] | None = None,
    ) -> Tensor:
        """weights: a list that the weights of the attention to memory, (B, H, T, S), are added to."""

        def attend(x: Tensor) -> Tensor:
            return self.attention(x, mask=mask, is_causal=is_causal, positions=positions, cache=cache)

        def look(x: Tensor) -> Tensor:
            if weights is None:
                return self.cross_attention(x, memory, mask=memory_mask)
            out, seen = self.cross_attention(x, memory, mask=memory_mask, need_weights=True)
            weights.append(seen)
            return out

        x = self._residual(x, self.norm1, attend)
        x = self._residual(x, self.norm2, look)
        return self._residual(x, self.norm3, self.feed_forward)

    def _residual(self, x: Tensor, norm: nn.Module, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        if self.norm_first:
            return x + self.dropout(sublayer(norm(x)))
        return norm(x + self.dropout(sublayer(x)))


class Encoder(nn.Module):
    """A stack of encoder layers on vectors (B, S, C); mask hides padding, as `nn.padding_mask` makes it.

    >>> from tinygrad_tf import zeros
    >>> config = TransformerConfig(d_model=16, num_heads=4, d_ff=32, encoder_layers=2)
    >>> tuple(Encoder(config)(zeros(2, 5, 16)).shape)
    (2, 5, 16)
    """

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.config = config
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.encoder_layers))
        self.attention_positions = config.attention_positions(bidirectional=True)
        self.final_norm = _final_norm(config)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        for layer in self.layers:
            x = call_layer(self, layer, x, mask, False, self.attention_positions)
        return self.final_norm(x)


class Decoder(nn.Module):
    """A stack of causal decoder layers on vectors (B, T, C), each looking at memory (B, S, C) or at `remember(memory)`.

    >>> from tinygrad_tf import zeros
    >>> config = TransformerConfig(d_model=16, num_heads=4, d_ff=32, decoder_layers=2)
    >>> tuple(Decoder(config)(zeros(2, 3, 16), zeros(2, 5, 16)).shape)
    (2, 3, 16)
    """

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.config = config
        self.layers = nn.ModuleList(DecoderLayer(config) for _ in range(config.decoder_layers))
        self.attention_positions = config.attention_positions(bidirectional=False)
        self.final_norm = _final_norm(config)

    def forward(
        self,
        x: Tensor,
        memory: Tensor | Sequence[Remembered],
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        cache: Sequence[KeyValueCache] | None = None,
    ) -> Tensor:
        for i, layer in enumerate(self.layers):
            seen = memory if isinstance(memory, Tensor) else memory[i]
            own = None if cache is None else cache[i]
            x = call_layer(self, layer, x, seen, mask, memory_mask, True, self.attention_positions, own)
        return self.final_norm(x)

    def remember(self, memory: Tensor) -> list[Remembered]:
        """Each layer's keys and values of the memory: to be projected once when the decoder is run token by token."""
        return [layer.cross_attention.remember(memory) for layer in self.layers]


def _final_norm(config: TransformerConfig) -> nn.Module:
    """Pre-norm leaves the sum of all branches unnormalised at the end; post-norm does not."""
    return nn.make_norm(config.norm if config.norm_first else "none", config.d_model, config.bias)


class Transformer(LanguageModel):
    """Source ids (B, S) and target ids (B, T) to logits (B, T, V) over the token that follows each target position.

    Matrices start by Xavier's rule, embeddings normal with standard deviation 1 / sqrt(C), biases at zero.

    >>> from tinygrad_tf import tensor
    >>> sizes = dict(d_model=16, num_heads=4, d_ff=32, encoder_layers=1, decoder_layers=1)
    >>> model = Transformer(TransformerConfig(vocab_size=9, **sizes, pad=0))
    >>> tuple(model(tensor([[5, 6, 7, 0]]), tensor([[1, 7, 6]])).shape)
    (1, 3, 9)
    """

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.config = config
        C, separate = config.d_model, config.target_vocab_size is not None
        V = config.target_vocab_size or config.vocab_size
        self.source_embedding = nn.Embedding(config.vocab_size, C)
        self.target_embedding = nn.Embedding(V, C) if separate else self.source_embedding
        self.position_embedding = added_positions(config.positions, config.max_len, C)
        self.dropout = nn.Dropout(config.dropout)
        self.encoder, self.decoder = Encoder(config), Decoder(config)
        self.lm_head = nn.Linear(C, V, bias=False)
        self.apply(self._initialise)
        if config.tied:
            self.lm_head.weight = self.target_embedding.weight

    @staticmethod
    def _initialise(module: nn.Module) -> None:
        if isinstance(module, nn.Embedding):
            init.normal_(module.weight, std=module.embedding_dim**-0.5)
        elif isinstance(module, nn.Linear):
            init.xavier_uniform_(module.weight)
            if module.bias is not None:
                init.zeros_(module.bias)

    def forward(
        self, source: Tensor, target: Tensor, source_mask: Tensor | None = None, target_mask: Tensor | None = None
    ) -> Tensor:
        """The target is the decoder's input: the wanted sequence, shifted right behind a start token.

        Masks are True at real tokens, (B, 1, 1, S) and (B, 1, 1, T). Padding of the source is found by config.pad;
        that behind the target is hidden by causality, and only one before it needs target_mask.
        """
        if source.ndim != 2 or target.ndim != 2 or source.shape[0] != target.shape[0]:
            shapes = f"{tuple(source.shape)} and {tuple(target.shape)}"
            raise ValueError(f"Transformer: source must be (B, S) and target (B, T), got {shapes}")
        source_mask = self.source_mask(source) if source_mask is None else source_mask
        return self.decode(target, self.encode(source, source_mask), source_mask, target_mask)

    def source_mask(self, source: Tensor) -> Tensor | None:
        """True at the source's real tokens, (B, 1, 1, S); None when config.pad is."""
        return None if self.config.pad is None else nn.padding_mask(source, self.config.pad)

    def encode(self, source: Tensor, source_mask: Tensor | None = None) -> Tensor:
        """Source ids (B, S) to memory (B, S, C)."""
        source_mask = self.source_mask(source) if source_mask is None else source_mask
        return self.encoder(self._embed(self.source_embedding, source), source_mask)

    def decode(
        self,
        target: Tensor,
        memory: Tensor | Sequence[Remembered],
        source_mask: Tensor | None = None,
        target_mask: Tensor | None = None,
        positions: Tensor | None = None,
        cache: Sequence[KeyValueCache] | None = None,
    ) -> Tensor:
        """Target ids (B, T) and memory (B, S, C), or `decoder.remember(memory)`, to logits (B, T, V).

        With a cache, one a layer, `target` holds only the tokens behind those that it knows. positions (B, T): where
        each token stands, for tables, when padding stands before it.
        """
        start = self._offset_of(cache, len(self.decoder.layers))
        x = self._embed(self.target_embedding, target, start, positions)
        return self.lm_head(self.decoder(x, memory, target_mask, source_mask, cache))

    def _embed(self, table: nn.Embedding, ids: Tensor, start: int = 0, positions: Tensor | None = None) -> Tensor:
        """Embedding times sqrt(C), plus positions, then dropout (sections 3.4, 3.5 and 5.4)."""
        x = table(ids)
        if self.config.scale_embeddings:
            x = x * math.sqrt(self.config.d_model)
        return self.dropout(self.position_embedding(x, start, positions))

    def cross_attention_weights(self, source: Tensor, target: Tensor) -> list[Tensor]:
        """Where each target position looks in the source: for each layer the weights (B, H, T, S), without a graph.

        Row t belongs to the token that follows target[t]. They are those of evaluation, so that rows sum to 1.
        """
        found: list[Tensor] = []
        with no_grad(), evaluating(self):
            mask = self.source_mask(source)
            memory = self.encode(source, mask)
            x = self._embed(self.target_embedding, target)
            for layer in self.decoder.layers:
                x = layer(x, memory, None, mask, True, self.decoder.attention_positions, None, found)
        return found

    def loss(self, source: Tensor, target: Tensor, targets: Tensor, label_smoothing: float = 0.0) -> Tensor:
        """The mean cross-entropy of `targets` (B, T), the tokens that follow those of `target`; padding is left out."""
        logits = self(source, target)
        ignored = -100 if self.config.pad is None else self.config.pad
        return F.cross_entropy(
            logits.reshape(-1, logits.shape[-1]),
            targets.reshape(-1),
            ignore_index=ignored,
            label_smoothing=label_smoothing,
        )
