"""Drawing new tokens from a model that gives logits."""

from tinygrad_tf.generation.sampling import choose, generate

__all__ = ["choose", "generate"]
