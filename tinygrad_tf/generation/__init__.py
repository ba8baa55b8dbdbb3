"""Text from any model that gives logits: sampling, beam search, batches, streaming, and caches of keys and values."""

from tinygrad_tf.generation.beams import Beam, beam_search, length_penalty
from tinygrad_tf.generation.cache import Cache, GrowingCache, WindowCache
from tinygrad_tf.generation.config import GenerationConfig
from tinygrad_tf.generation.filters import (
    forbid_repeated_ngrams,
    keep_min_p,
    keep_top_k,
    keep_top_p,
    log_probabilities,
    penalise_repetition,
    probabilities,
    with_temperature,
)
from tinygrad_tf.generation.paged import BlockPool, PagedCache
from tinygrad_tf.generation.readers import Conditioned
from tinygrad_tf.generation.sampling import (
    Generated,
    choose,
    choose_next,
    draw,
    generate,
    generate_batch,
    stream,
)
from tinygrad_tf.generation.steps import ContextNotice, make_caches

__all__ = [
    "Beam",
    "BlockPool",
    "Cache",
    "Conditioned",
    "ContextNotice",
    "Generated",
    "GenerationConfig",
    "GrowingCache",
    "PagedCache",
    "WindowCache",
    "beam_search",
    "choose",
    "choose_next",
    "draw",
    "forbid_repeated_ngrams",
    "generate",
    "generate_batch",
    "keep_min_p",
    "keep_top_k",
    "keep_top_p",
    "length_penalty",
    "log_probabilities",
    "make_caches",
    "penalise_repetition",
    "probabilities",
    "stream",
    "with_temperature",
]
