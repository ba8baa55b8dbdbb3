"""The decoder of today's language models: a GPT with four parts replaced (Touvron et al., 2023, section 2.2; Llama).

LayerNorm            -> RMSNorm              Zhang and Sennrich, 2019: cheaper, and as good
learned positions    -> RoPE                 Su et al., 2021: relative, and without a table that ends
GELU                 -> SwiGLU               Shazeer, 2020: a gate in the feed-forward network
H heads of keys      -> grouped queries      Ainslie et al., 2023: a smaller cache of keys and values
"""

from __future__ import annotations

from dataclasses import dataclass

from tinygrad_tf.models.gpt import GPT, GPTConfig


@dataclass(frozen=True)
class ModernDecoderConfig(GPTConfig):
    """GPTConfig with other defaults; every field may still be set."""

    positions: str = "rope"
    norm: str = "rms"
    activation: str = "swiglu"
    kv_heads: int | None = 2
    tied: bool = False


class ModernDecoder(GPT):
    """Token ids (B, T) to logits (B, T, V): a GPT with RMSNorm, RoPE, SwiGLU and grouped queries; pre-norm, no biases.

    >>> from tinygrad_tf import tensor
    >>> model = ModernDecoder(ModernDecoderConfig(vocab_size=5, context=4, layers=1, heads=4, channels=16))
    >>> tuple(model(tensor([[0, 1, 2]])).shape)
    (1, 3, 5)
    >>> tuple(model.blocks[0].attention.key_proj.weight.shape)
    (8, 16)
    """
