"""Whole models, each from a frozen configuration whose parts are chosen by name."""

from tinygrad_tf.models.decoder import ModernDecoder, ModernDecoderConfig
from tinygrad_tf.models.gpt import GPT, GPTConfig
from tinygrad_tf.models.transformer import (
    Decoder,
    DecoderLayer,
    Encoder,
    EncoderLayer,
    Transformer,
    TransformerConfig,
)

__all__ = [
    "GPT",
    "Decoder",
    "DecoderLayer",
    "Encoder",
    "EncoderLayer",
    "GPTConfig",
    "ModernDecoder",
    "ModernDecoderConfig",
    "Transformer",
    "TransformerConfig",
]
