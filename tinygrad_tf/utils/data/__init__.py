"""Texts, tokenizers and token windows; datasets, samplers and the DataLoader as PyTorch has them."""

from tinygrad_tf.utils.data.dataloader import DataLoader, WorkerInfo, default_collate, default_convert, get_worker_info
from tinygrad_tf.utils.data.dataset import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)
from tinygrad_tf.utils.data.pairs import PairBatch, PairTokenizer, batches_by_length, pad_rows, pair_batch
from tinygrad_tf.utils.data.sampler import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
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
    "BatchSampler",
    "ChainDataset",
    "CharTokenizer",
    "ConcatDataset",
    "DataLoader",
    "Dataset",
    "IterableDataset",
    "PairBatch",
    "PairTokenizer",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "StackDataset",
    "Subset",
    "SubsetRandomSampler",
    "TensorDataset",
    "Text",
    "WeightedRandomSampler",
    "WorkerInfo",
    "batches_by_length",
    "default_collate",
    "default_convert",
    "get_worker_info",
    "load_tokens",
    "pad_rows",
    "pair_batch",
    "random_split",
    "random_windows",
    "read_text",
    "read_texts",
    "save_tokens",
    "split_tokens",
    "standard_library_text",
    "token_dtype",
    "validation_batches",
]
