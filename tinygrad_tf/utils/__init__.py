"""What training needs besides the model: data, tokenizers, errors."""

from tinygrad_tf.utils import data

__all__ = ["data"]
