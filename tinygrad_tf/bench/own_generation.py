"""The GPT of gpt.py as this package's own model, and its texts by `generate_batch`: what its users write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tinygrad_tf.bench.gpt import Sizes, first_tokens
from tinygrad_tf.generation import GenerationConfig, generate_batch
from tinygrad_tf.models import GPT, GPTConfig

NAMES = {  # in gpt.py: here
    "token.": "token_embedding.",
    "position.weight": "position_embedding.table",
    ".proj.": ".attention.out_proj.",
    ".up.": ".feed_forward.up.",
    ".down.": ".feed_forward.down.",
    "head.": "lm_head.",
}
PARTS = ("query", "key", "value")


def from_plain(plain: Any, sizes: Sizes) -> GPT:
    """The model of gpt.py, built by this package, with the same weights."""
    config = GPTConfig(
        sizes.vocabulary, sizes.context, sizes.layers, sizes.heads, sizes.channels, bias=True, tied=False
    )
    model, weights = GPT(config), {}
    for name, weight in plain.state_dict().items():
        if ".qkv." in name:
            for part, rows in zip(PARTS, weight.split(sizes.channels), strict=True):
                weights[name.replace(".qkv.", f".attention.{part}_proj.")] = rows
            continue
        for old, new in NAMES.items():
            name = name.replace(old, new)
        weights["final_" + name if name.startswith("norm.") else name] = weight
    model.load_state_dict(weights)
    return model


def generate(plain: Any, sizes: Sizes) -> Callable[[], np.ndarray]:
    """A function that goes on after one token until the context is full: the likeliest tokens, (B, context - 1)."""
    model = from_plain(plain, sizes)
    config = GenerationConfig(max_new_tokens=sizes.context - 1, temperature=0)
    return lambda: generate_batch(model, first_tokens(sizes), config).tokens
