"""Whole models, each from a frozen configuration."""

from tinygrad_tf.models.gpt import GPT, GPTConfig

__all__ = ["GPT", "GPTConfig"]
