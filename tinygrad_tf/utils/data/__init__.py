"""Texts, tokenizers and token windows."""

from tinygrad_tf.utils.data.text import Text, read_text, read_texts, standard_library_text
from tinygrad_tf.utils.data.tokenizer import CharTokenizer
from tinygrad_tf.utils.data.tokens import (
    load_tokens,
    random_windows,
    save_tokens,
    split_tokens,
    token_dtype,
    validation_batches,
)

__all__ = [
    "CharTokenizer",
    "Text",
    "load_tokens",
    "random_windows",
    "read_text",
    "read_texts",
    "save_tokens",
    "split_tokens",
    "standard_library_text",
    "token_dtype",
    "validation_batches",
]
