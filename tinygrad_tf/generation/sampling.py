"""Drawing text: the choice of one token, one text as it is written, and many texts at once.

Shapes: V vocabulary, B texts, L new tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tinygrad_tf.generation.beams import beam_search
from tinygrad_tf.generation.config import GenerationConfig
from tinygrad_tf.generation.filters import adjusted, likeliest, log_probabilities_of, probabilities
from tinygrad_tf.generation.prompts import check_prompt, check_prompts
from tinygrad_tf.generation.steps import Steps
from tinygrad_tf.utils.errors import InputError


def draw(weights: ArrayLike, generator: np.random.Generator | None = None) -> int:
    """An index drawn with probabilities proportional to weights (V,), never one whose weight is 0.

    It is the first at which the running sum passes a random share of the total.

    >>> draw([0.0, 1.0, 0.0])
    1
    """
    sums = np.cumsum(np.asarray(weights, np.float64))
    share = (generator or np.random.default_rng()).random() * sums[-1]
    index = int(np.searchsorted(sums, share, side="right"))
    return min(index, int(np.flatnonzero(weights)[-1]))  # the product above may round up to the total


def choose(
    logits: ArrayLike, temperature: float = 1.0, top_k: int | None = None, generator: np.random.Generator | None = None
) -> int:
    """One token id drawn from logits (V,).

    temperature: the logits are divided by it; 0 takes the largest one, of equal ones the lowest id.
    top_k: only the k largest logits take part, exactly k; of equal ones those with the lowest ids.
    A token of probability 0 (a logit of -inf) is never drawn. Logits with NaN, or all -inf, are a ValueError.

    >>> choose([0.0, 2.0, 2.0], temperature=0)
    1
    >>> choose([5.0, 5.0, 0.0], top_k=1)
    0
    """
    return choose_next(logits, (), GenerationConfig(temperature=temperature, top_k=top_k), generator)


def choose_next(
    logits: ArrayLike,
    previous: Sequence[int],
    config: GenerationConfig,
    generator: np.random.Generator | None = None,
) -> int:
    """One token id from logits (V,) behind the tokens `previous`, by all rules of the config.

    >>> choose_next([1.0, 3.0, 2.0], [1], GenerationConfig(temperature=0, repetition_penalty=2.0))
    2
    """
    values = adjusted(logits, previous, config)
    return int(values.argmax()) if config.temperature == 0 else draw(probabilities(values), generator)


def generate(
    model: Any,
    ids: Sequence[int] | NDArray[Any],
    length: int,
    temperature: float = 1.0,
    top_k: int | None = None,
    generator: np.random.Generator | None = None,
) -> Iterator[int]:
    """Go on after the token `ids` of a prompt: gives `length` new ids, each as soon as it is chosen.

    `stream` with the two settings that are used most, and without its notice of a long text.

    >>> def counting(ids):
    ...     return np.eye(10)[(ids.array + 1) % 10]
    >>> list(generate(counting, [3], 4, temperature=0))
    [4, 5, 6, 7]
    """
    config = GenerationConfig(max_new_tokens=_length(length), temperature=temperature, top_k=top_k)
    return _stream(model, check_prompt(ids), config, generator, notice=False)


def stream(
    model: Any,
    prompt: Sequence[int] | NDArray[Any],
    config: GenerationConfig | None = None,
    generator: np.random.Generator | int | None = None,
) -> Iterator[int]:
    """The tokens behind a prompt, each as soon as it is chosen, up to a stop token or config.max_new_tokens.

    model: ids (B, T) to logits (B, T, V); readers.py says what else it may take, `Conditioned` holds encoder-decoders.
    It runs in evaluation mode and without recording; outside, also between two tokens and after an error, both are as
    before. It sees the last tokens only when it has a `config.context` and the text is longer: a ContextNotice, once.
    generator: NumPy's, or a seed. Unusable arguments are an InputError, at once.

    >>> def counting(ids):
    ...     return np.eye(10)[(ids.array + 1) % 10]
    >>> list(stream(counting, [5], GenerationConfig(temperature=0, stop_tokens=9)))
    [6, 7, 8, 9]
    """
    config = config or GenerationConfig()
    if config.num_beams > 1:
        raise InputError("stream cannot give beams, which are known at the end only: use beam_search")
    return _stream(model, check_prompt(prompt), config, generator, notice=True)


def _stream(model: Any, prompt: list[int], config: GenerationConfig, generator: Any, notice: bool) -> Iterator[int]:
    steps = Steps(model, [prompt], config, notice)
    return (token for _, (token,), _ in _sample(steps, [_generator(generator)]))


@dataclass(frozen=True)
class Generated:
    """What `generate_batch` gives."""

    tokens: NDArray[np.int64]  # (B, L): the new tokens, padding behind the end of each row
    lengths: NDArray[np.int64]  # (B,): how many of them are the row's, its stop token among them
    log_probs: NDArray[np.float64]  # (B,): the sum of their log-probabilities in the model, before any rule
    finished: NDArray[np.bool_]  # (B,): True where the row ended with a stop token

    def rows(self) -> list[list[int]]:
        """The new tokens of each row, without padding."""
        return [row[:length].tolist() for row, length in zip(self.tokens, self.lengths, strict=True)]


def generate_batch(
    model: Any,
    prompts: Sequence[Sequence[int]] | NDArray[Any],
    config: GenerationConfig | None = None,
    generator: np.random.Generator | int | None = None,
) -> Generated:
    """Go on after many prompts at once, which may differ in length; each row comes out as it would alone.

    A row ends behind its first stop token and is padded from there; the rest goes on without it. With num_beams it is
    the best beam. Each row draws from a generator of its own, spawned from the one given. Otherwise as `stream`.

    >>> def counting(ids):
    ...     return np.eye(10)[(ids.array + 1) % 10]
    >>> out = generate_batch(counting, [[1, 2, 3], [6]], GenerationConfig(temperature=0, stop_tokens=8))
    >>> out.tokens.tolist(), out.lengths.tolist()
    ([[4, 5, 6, 7, 8], [7, 8, 8, 8, 8]], [5, 2])
    """
    config = config or GenerationConfig()
    texts = check_prompts(prompts)
    if config.num_beams > 1:
        best = [beams[0] for beams in beam_search(model, texts, config)]
        return _packed([list(b.tokens) for b in best], [b.log_prob for b in best], [b.finished for b in best], config)
    rows: list[list[int]] = [[] for _ in texts]
    log_probs = [0.0] * len(texts)
    if texts:
        generators = [_generator(generator)] if len(texts) == 1 else _generator(generator).spawn(len(texts))
        steps = Steps(model, texts, config)
        with steps.reader.evaluating():
            for live, tokens, logits in _sample(steps, generators):
                for row, token, log_prob in zip(live, tokens, log_probabilities_of(logits, tokens), strict=True):
                    rows[row].append(token)
                    log_probs[row] += log_prob
    return _packed(rows, log_probs, [bool(row) and row[-1] in config.stop_tokens for row in rows], config)


def _sample(steps: Steps, generators: list[np.random.Generator]) -> Iterator[tuple[list[int], list[int], NDArray[Any]]]:
    """Step by step the rows that have not ended, their tokens, and the logits (rows, V) that these were chosen from."""
    config = steps.config
    live = list(range(len(generators)))
    for _ in range(config.max_new_tokens):
        logits = steps.logits()
        tokens = likeliest(logits, config)
        if tokens is None:
            tokens = [choose_next(logits[i], steps.texts[i], config, generators[row]) for i, row in enumerate(live)]
        yield live, tokens, logits
        going = [i for i, token in enumerate(tokens) if token not in config.stop_tokens]
        if not going:
            return
        steps.extend([tokens[i] for i in going], going)
        live = [live[i] for i in going]


def _packed(rows: list[list[int]], log_probs: list[float], finished: list[bool], config: GenerationConfig) -> Generated:
    lengths = np.array([len(row) for row in rows], np.int64)
    tokens = np.full((len(rows), int(lengths.max(initial=0))), config.padding, np.int64)
    for i, row in enumerate(rows):
        tokens[i, : len(row)] = row
    return Generated(tokens, lengths, np.array(log_probs, np.float64), np.array(finished, np.bool_))


def _generator(generator: Any) -> Any:
    return generator if hasattr(generator, "random") else np.random.default_rng(generator)


def _length(length: int) -> int:
    if isinstance(length, GenerationConfig):
        raise InputError("generate takes a length, got a GenerationConfig: use stream(model, prompt, config)")
    if isinstance(length, str) or length < 0:
        raise InputError(f"length must be a whole number of at least 0, got {length!r}")
    return length
