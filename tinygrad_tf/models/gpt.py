"""GPT: a stack of causal blocks that predicts the next token (Radford et al., 2018 and 2019)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tinygrad_tf import nn
from tinygrad_tf.nn import functional as F
from tinygrad_tf.nn import init
from tinygrad_tf.tensor import Tensor


@dataclass(frozen=True)
class GPTConfig:
    """The parts and sizes of a GPT."""

    vocab_size: int  # V, the number of different tokens
    context: int = 64  # the longest T
    layers: int = 4
    heads: int = 4  # H
    channels: int = 128  # C, also called d_model; divisible by heads
    dropout: float = 0.0  # of embeddings, attention weights and residual branches, in training
    bias: bool = False  # in linear layers and layer norms
    norm_first: bool = True  # pre-norm; False is the original post-norm


class GPT(nn.Module):
    """Token ids (B, T) to logits (B, T, V) over the token that follows each position.

    Embeddings and the last linear layer share their weight. Weights start normal with standard deviation 0.02, those that
    end a residual branch with 0.02 / sqrt(2 layers), as in GPT-2.

    >>> from tinygrad_tf import tensor
    >>> model = GPT(GPTConfig(vocab_size=5, context=4, layers=1, heads=1, channels=8))
    >>> model(tensor([[0, 1, 2]])).shape
    Size([1, 3, 5])
    """

    def __init__(self, config: GPTConfig):
        super().__init__()
        self.config = config
        C = config.channels
        self.token_embedding = nn.Embedding(config.vocab_size, C)
        self.position_embedding = nn.LearnedPositions(config.context, C)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(
            nn.Block(C, config.heads, dropout=config.dropout, bias=config.bias, norm_first=config.norm_first)
            for _ in range(config.layers)
        )
        self.final_norm = nn.LayerNorm(C, bias=config.bias)
        self.lm_head = nn.Linear(C, config.vocab_size, bias=False)
        self.apply(self._initialise)
        self.lm_head.weight = self.token_embedding.weight
        for name, parameter in self.named_parameters():
            if name.endswith(("out_proj.weight", "down.weight")):
                init.normal_(parameter, std=0.02 / math.sqrt(2 * config.layers))

    @staticmethod
    def _initialise(module: nn.Module) -> None:
        if isinstance(module, (nn.Linear, nn.Embedding)):
            init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            init.zeros_(module.bias)

    def forward(self, ids: Tensor) -> Tensor:
        T = ids.shape[-1]
        if T > self.config.context:
            raise ValueError(f"GPT: a sequence of {T} tokens is longer than the context of {self.config.context}")
        x = self.dropout(self.position_embedding(self.token_embedding(ids)))
        for block in self.blocks:
            x = block(x, is_causal=True)
        return self.lm_head(self.final_norm(x))

    def loss(self, ids: Tensor, targets: Tensor) -> Tensor:
        """The mean cross-entropy of `targets` (B, T), in nats a token."""
        logits = self(ids)
        return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1))
