"""GPT: a stack of causal blocks that predicts the next token (Radford et al., 2018 and 2019)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tinygrad_tf import nn
from tinygrad_tf.models.config import check_parts
from tinygrad_tf.models.language_model import LanguageModel, call_layer
from tinygrad_tf.nn import functional as F
from tinygrad_tf.nn import init
from tinygrad_tf.nn.attention import KeyValueCache
from tinygrad_tf.nn.position import added_positions, attention_positions
from tinygrad_tf.tensor import Tensor

if TYPE_CHECKING:
    from tinygrad_tf.generation.writing import ProgramWriter, Vector


@dataclass(frozen=True)
class GPTConfig:
    """The parts and sizes of a GPT. Parts are chosen by name; an unknown one is a ValueError that lists the names."""

    vocab_size: int  # V, the number of different tokens
    context: int = 64  # the longest T that it is trained on; the end of tables of positions
    layers: int = 4
    heads: int = 4  # H
    channels: int = 128  # C, also called d_model; divisible by heads
    dropout: float = 0.0  # of embeddings, attention weights and residual branches, in training
    bias: bool = False  # in linear layers and layer norms
    norm_first: bool = True  # pre-norm; False is the original post-norm
    positions: str = "learned"  # 'sinusoidal', 'learned', 'relative', 'rope', 'alibi' or 'none'
    norm: str = "layer"  # 'layer', 'rms', 'batch' or 'none'
    activation: str = "gelu"  # 'relu', 'gelu', 'gelu_tanh', 'silu', 'swiglu' or 'geglu'
    attention: str = "full"  # 'full', 'local', 'block_sparse', 'linear' or 'additive'
    kv_heads: int | None = None  # heads of keys and values, shared by groups of query heads; None: as many as heads
    d_ff: int | None = None  # inner width of the feed-forward network; None: 4 C, or 8/3 C with a gate
    tied: bool = True  # token embedding and last layer share their weight
    scale_embeddings: bool | None = None  # multiply embeddings by sqrt(C); None: if sinusoids, of size 1, are added
    window: int = 32  # of attention='local'
    block_size: int = 16  # of attention='block_sparse'
    rope_pairing: str = "halves"  # of positions='rope': 'halves' or 'interleaved'
    rope_base: float = 10000.0  # of positions='rope'
    recompute: bool = False  # keep the inputs of blocks alone, and run each again in the backward pass

    def __post_init__(self) -> None:
        check_parts(self, ("vocab_size", "context", "layers"), ("channels", "heads", "kv_heads"))


class GPT(LanguageModel):
    """Token ids (B, T) to logits (B, T, V) over the token that follows each position.

    Embeddings and the last linear layer share their weight, unless told otherwise. Weights start normal with standard
    deviation 0.02, those that end a residual branch with 0.02 / sqrt(2 layers), as in GPT-2.

    >>> from tinygrad_tf import tensor
    >>> model = GPT(GPTConfig(vocab_size=5, context=4, layers=1, heads=1, channels=8))
    >>> tuple(model(tensor([[0, 1, 2]])).shape)
    (1, 3, 5)
    """

    def __init__(self, config: GPTConfig):
        super().__init__()
        self.config = config
        C, head_size = config.channels, config.channels // config.heads
        self.token_embedding = nn.Embedding(config.vocab_size, C)
        scaled = config.scale_embeddings
        self.scales_embeddings = config.positions == "sinusoidal" if scaled is None else scaled
        self.position_embedding = added_positions(config.positions, config.context, C)
        self.attention_positions = attention_positions(
            config.positions, config.heads, head_size, False, config.rope_pairing, config.rope_base
        )
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(self._block() for _ in range(config.layers))
        self.final_norm = nn.make_norm(config.norm, C, config.bias)
        self.lm_head = nn.Linear(C, config.vocab_size, bias=False)
        self.apply(self._initialise)
        if config.tied:
            self.lm_head.weight = self.token_embedding.weight
        for name, parameter in self.named_parameters():
            if name.endswith(("out_proj.weight", "down.weight")):
                init.normal_(parameter, std=0.02 / math.sqrt(2 * config.layers))

    def _block(self) -> nn.Block:
        c = self.config
        sizes = {"num_kv_heads": c.kv_heads, "window": c.window, "block_size": c.block_size}
        return nn.Block(
            c.channels, c.heads, c.d_ff, c.activation, c.dropout, c.bias, c.norm_first, c.norm, c.attention, **sizes
        )

    @staticmethod
    def _initialise(module: nn.Module) -> None:
        if isinstance(module, (nn.Linear, nn.Embedding)):
            init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            init.zeros_(module.bias)

    def forward(
        self,
        ids: Tensor,
        mask: Tensor | None = None,
        positions: Tensor | None = None,
        cache: Sequence[KeyValueCache] | None = None,
    ) -> Tensor:
        """ids (B, T) to logits (B, T, V).

        mask: True at real tokens, as `nn.padding_mask` makes it, or anything else that broadcasts to (B, H, T, Tk);
        causality comes on top. positions (B, T): where each token stands, for tables, when padding stands before it.
        cache: one KeyValueCache a layer; ids are then the tokens behind those that it holds, and Tk counts both.
        """
        start = self._start(ids, cache)
        x = self.token_embedding(ids)
        if self.scales_embeddings:
            x = x * math.sqrt(self.config.channels)
        x = self.dropout(self.position_embedding(x, start, positions))
        for i, block in enumerate(self.blocks):
            own = None if cache is None else cache[i]
            x = call_layer(self, block, x, mask, True, self.attention_positions, own)
        return self.lm_head(self.final_norm(x))

    def write_program(self, program: ProgramWriter) -> Vector:
        """`forward` for new tokens of each text, as generation runs it: where the logits of the last ones lie."""
        scale = math.sqrt(self.config.channels) if self.scales_embeddings else 1.0
        x = program.added_positions(self.position_embedding, program.embedding(self.token_embedding, scale))
        x = program.dropout(self.dropout, x)
        for block in self.blocks:
            x = program.block(block, x, self.attention_positions)
        program.only_last = True
        return program.linear(self.lm_head, program.norm(self.final_norm, x))

    def _start(self, ids: Tensor, cache: Sequence[KeyValueCache] | None) -> int:
        """The position of the first of ids, all of which must have one."""
        if ids.array.ndim != 2:
            raise ValueError(f"{self._get_name()}: ids must be (B, T), got {tuple(ids.shape)}")
        start = self._offset_of(cache, len(self.blocks))
        T, longest = start + ids.array.shape[1], self.max_length
        if longest is not None and longest < T:
            raise ValueError(f"{self._get_name()}: a sequence of {T} tokens is longer than the context of {longest}")
        return start

    def loss(self, ids: Tensor, targets: Tensor) -> Tensor:
        """The mean cross-entropy of `targets` (B, T), in nats a token."""
        logits = self(ids)
        return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1))
