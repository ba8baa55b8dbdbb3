"""What the models of this folder share: the longest sequence, their size, caches, layers that are run twice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tinygrad_tf import nn
from tinygrad_tf.nn.attention import KeyValueCache
from tinygrad_tf.utils.checkpoint import checkpoint


class LanguageModel(nn.Module):
    """Token ids to logits over the token that follows each position."""

    position_embedding: nn.Module

    @property
    def max_length(self) -> int | None:
        """The longest sequence that there are positions for; None where there is no such limit."""
        return self.position_embedding.max_len

    @property
    def num_parameters(self) -> int:
        """How many numbers are trained; shared ones count once."""
        return sum(p.numel() for p in self.parameters())

    def _offset_of(self, cache: Sequence[KeyValueCache] | None, layers: int) -> int:
        """The position of the first new token: behind those that the caches hold, of which there is one a layer."""
        if cache is not None and len(cache) != layers:
            raise ValueError(f"{self._get_name()}: cache must hold one for each of {layers} layers, got {len(cache)}")
        return cache[0].offset if cache else 0


def call_layer(model: Any, layer: Any, *args: Any) -> Any:
    """`layer(*args)`; in training, and if the model's config says so, forgotten until the backward pass needs it."""
    return checkpoint(layer, *args) if model.training and model.config.recompute else layer(*args)
