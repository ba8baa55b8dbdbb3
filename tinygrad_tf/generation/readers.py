"""One face for all models that generation can use: ids in, the logits behind each position out.

- anything callable that maps ids (B, T) to logits (B, T, V), Tensor or array;
- with caches (cache.py), if it takes `cache`, and has `blocks` or `config.layers` to count its layers by;
- with left padding, if it takes `mask` (B, 1, 1, Tk), True at real tokens, and `positions` (B, T);
- in one call for all layers, if it has `write_program`: program.py;
- an encoder-decoder, with its source: `Conditioned`.

Shapes: B batch, S source, T target, V vocabulary.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tinygrad_tf.autograd import no_grad
from tinygrad_tf.creation import as_tensor, from_numpy
from tinygrad_tf.engine import make
from tinygrad_tf.generation.cache import GrowingCache
from tinygrad_tf.nn import Module
from tinygrad_tf.tensor import Tensor
from tinygrad_tf.utils.errors import InputError
from tinygrad_tf.utils.modes import evaluating

if TYPE_CHECKING:
    from tinygrad_tf.generation.program import TokenProgram


@dataclass(frozen=True)
class Conditioned:
    """An encoder-decoder and the source ids (B, S) that it is to answer; generation takes it in place of a model.

    The model has `encode(source, source_mask)` and `decode(target, memory, source_mask=...)`, as `models.Transformer`,
    and may take target_mask, positions and cache, too. The source is encoded once a generation. There is one prompt for
    each source: a start token, as a rule.

    >>> from tinygrad_tf.generation import GenerationConfig, generate_batch
    >>> from tinygrad_tf.models import Transformer, TransformerConfig
    >>> sizes = dict(d_model=8, num_heads=2, d_ff=16, encoder_layers=1, decoder_layers=1)
    >>> model = Transformer(TransformerConfig(vocab_size=9, **sizes))
    >>> answers = Conditioned(model, source=[[3, 4], [5, 6]])
    >>> generate_batch(answers, prompts=[[1], [1]], config=GenerationConfig(max_new_tokens=5)).tokens.shape
    (2, 5)
    """

    model: Any
    source: Any  # Tensor, array or lists
    source_mask: Tensor | None = None  # (B, 1, 1, S), True at real tokens; by default the model's own


class Reader:
    """A model as generation sees it. It runs in evaluation mode and without a graph; afterwards all is as before."""

    def __init__(self, model: Any):
        function = model.forward if isinstance(model, Module) else model
        if not callable(function):
            raise InputError(f"generation needs a model that maps ids (B, T) to logits, got {type(model).__name__}")
        self.model = model
        self._settings(model, function, getattr(model, "blocks", None))

    def _settings(self, model: Any, function: Any, layers: Any, mask: str = "mask") -> None:
        takes = _parameters(function)
        self.modules = list(model.modules()) if isinstance(model, Module) else []
        config = getattr(model, "config", None)
        self.kind = getattr(config, "attention", "full")
        self.layers = len(layers) if layers is not None else getattr(config, "layers", None)
        self.caches = "cache" in takes and self.layers is not None
        # Blocks of keys are counted from the first, so that padding before it would move them.
        self.pads = {mask, "positions"} <= takes and self.kind != "block_sparse"
        self._program: TokenProgram | None = None
        self._writable = hasattr(type(model), "write_program")
        self.hard_limit: int | None = getattr(model, "max_length", None)  # there are no positions beyond it
        self.limit: int | None = getattr(config, "context", None) or self.hard_limit

    def select(self, rows: Sequence[int]) -> None:
        """Go on with these rows of the batch."""

    def __call__(self, ids: NDArray[np.int64], **options: Any) -> NDArray[Any]:
        """Logits (B, T, V); options are mask, positions and cache, as far as they are given."""
        with no_grad(), self.evaluating():
            given = {name: value for name, value in options.items() if value is not None}
            logits = self._run(make(ids), given)
        array = np.asarray(logits.array if isinstance(logits, Tensor) else logits)
        if array.ndim != 3 or array.shape[:2] != ids.shape:
            raise ValueError(f"the model must give logits (B, T, V) for ids (B, T) = {ids.shape}, got {array.shape}")
        return array

    def _run(self, ids: Tensor, options: dict[str, Any]) -> Any:
        return self.model(ids, **options)

    def next_logits(
        self, ids: NDArray[np.int64], padding: NDArray[np.int64], caches: Sequence[Any] | None = None
    ) -> NDArray[Any] | None:
        """Logits (B, V) behind more tokens (B, T) of each text, if the model can be run as a program for that.

        padding: columns before each text, (B,). Without caches these are all of its tokens.
        """
        from tinygrad_tf.generation.program import TokenProgram  # brings the compiler
        from tinygrad_tf.generation.writing import Unwritable

        if not self._writable:
            return None
        try:
            if self._program is None or not self._program.holds():
                self._program = TokenProgram(self.model)
        except Unwritable:
            self._writable = False  # until the next generation
            return None
        if caches is None:
            caches = [GrowingCache(ids.shape[1]) for _ in range(self.layers or 0)]
        return self._program.logits(ids, padding, caches) if self._program.takes(ids, padding, caches) else None

    def evaluating(self) -> Any:
        """The model in evaluation mode; where nobody sees it between two tokens, this may be once for all of them."""
        return evaluating(self.model, self.modules) if self.modules else nullcontext()


class SourceReader(Reader):
    """An encoder-decoder that looks at the memory of its source, whose rows go along with those of the texts."""

    def __init__(self, conditioned: Conditioned):
        model = conditioned.model
        for name in ("encode", "decode"):
            if not callable(getattr(model, name, None)):
                raise InputError(f"Conditioned needs a model with encode and decode, not a {type(model).__name__}")
        self.model = model
        decoder = getattr(model, "decoder", None)
        self._settings(model, model.decode, getattr(decoder, "layers", None), "target_mask")
        source, self.source_mask = as_tensor(conditioned.source), conditioned.source_mask
        if source.ndim != 2:
            raise InputError(f"Conditioned: source must be ids (B, S), got {tuple(source.shape)}")
        if self.source_mask is None and hasattr(model, "source_mask"):
            self.source_mask = model.source_mask(source)
        with no_grad(), self.evaluating():
            memory = model.encode(source, self.source_mask)
            self.memory = decoder.remember(memory) if decoder is not None and hasattr(decoder, "remember") else memory
        self.batch = source.shape[0]

    def select(self, rows: Sequence[int]) -> None:
        if list(rows) == list(range(self.batch)):
            return
        self.memory = _rows(self.memory, list(rows))
        if self.source_mask is not None and self.source_mask.shape[0] > 1:
            self.source_mask = _rows(self.source_mask, list(rows))
        self.batch = len(rows)

    def _run(self, ids: Tensor, options: dict[str, Any]) -> Any:
        if ids.shape[0] != self.batch:
            raise InputError(f"one prompt is needed for each source, got {ids.shape[0]} and {self.batch}")
        mask = options.pop("mask", None)
        padding = {} if mask is None else {"target_mask": mask}
        return self.model.decode(ids, self.memory, source_mask=self.source_mask, **padding, **options)


def reader_of(model: Any) -> Reader:
    return SourceReader(model) if isinstance(model, Conditioned) else Reader(model)


def _parameters(function: Any) -> set[str]:
    """The names of what a function takes; none where Python cannot tell."""
    try:
        return set(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return set()


def _rows(value: Any, rows: list[int]) -> Any:
    """Rows of each Tensor in nested lists and tuples."""
    if isinstance(value, Tensor):
        return from_numpy(value.array[rows])
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_rows(part, rows) for part in value))
    return type(value)(_rows(part, rows) for part in value)
