"""Choosing the next token: greedy, by temperature, among the k likeliest.

Shapes: V vocabulary, T time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tinygrad_tf.autograd import no_grad
from tinygrad_tf.creation import from_numpy
from tinygrad_tf.nn import Module
from tinygrad_tf.utils.errors import InputError
from tinygrad_tf.utils.modes import evaluating


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
    _check(temperature, top_k)
    values = np.asarray(logits, np.float64)
    if values.ndim != 1 or not values.size:
        raise ValueError(f"choose: logits must have shape (V,), got {values.shape}")
    if np.isnan(values).any() or values.max() == -math.inf:
        raise ValueError("choose: the logits hold NaN, or -inf only; the model's weights are broken or not trained")
    if temperature == 0:
        return int(values.argmax())
    candidates = np.arange(len(values)) if top_k is None else np.argsort(-values, kind="stable")[:top_k]
    weights = _weights(values[candidates], float(temperature))
    return int(candidates[_draw(weights, generator or np.random.default_rng())])


def _weights(values: NDArray[np.float64], temperature: float) -> NDArray[np.float64]:
    """Probabilities up to a common factor. The largest value is taken off first, so that nothing overflows."""
    largest = values.max()
    if largest == math.inf:
        return (values == math.inf).astype(np.float64)
    with np.errstate(over="ignore"):  # a tiny temperature: the others become -inf, and their weight 0
        return np.exp((values - largest) / temperature)


def _draw(weights: NDArray[np.float64], generator: np.random.Generator) -> int:
    """An index whose weight is above 0: the first at which the running sum passes a random share of the total."""
    sums = np.cumsum(weights)
    index = int(np.searchsorted(sums, generator.random() * sums[-1], side="right"))
    return min(index, int(np.flatnonzero(weights)[-1]))  # the product above may round up to the total


def generate(
    model: Module,
    ids: Sequence[int] | NDArray[Any],
    length: int,
    temperature: float = 1.0,
    top_k: int | None = None,
    generator: np.random.Generator | None = None,
) -> Iterator[int]:
    """Go on after the token `ids` of a prompt: gives `length` new ids, each as soon as it is chosen.

    The model takes ids (B, T) and gives logits (B, T, V); when it has a `config.context`, it sees only that many of the
    last tokens. It runs in evaluation mode and without recording; outside of it both are as before, also between two
    tokens. `temperature` and `top_k` are as in `choose`. Unusable arguments are an InputError, at once.
    """
    _check(temperature, top_k)
    prompt = [int(token) for token in ids]
    if not prompt:
        raise InputError("generate: the prompt must have at least one token")
    if length < 0:
        raise InputError(f"length must be at least 0, got {length}")
    return _generate(model, prompt, length, temperature, top_k, generator or np.random.default_rng())


def _generate(
    model: Module, ids: list[int], length: int, temperature: float, top_k: int | None, generator: np.random.Generator
) -> Iterator[int]:
    context = getattr(getattr(model, "config", None), "context", None) or len(ids) + length
    for _ in range(length):
        ids = ids[-context:]
        with no_grad(), evaluating(model):
            logits = model(from_numpy(np.array([ids])))
        ids.append(choose(logits.array[0, -1], temperature, top_k, generator))
        yield ids[-1]


def _check(temperature: float, top_k: int | None) -> None:
    if not 0.0 <= temperature < math.inf:
        raise InputError(f"temperature must be a number from 0 (always the likeliest) upwards, got {temperature}")
    if top_k is not None and top_k < 1:
        raise InputError(f"top_k must be at least 1, got {top_k}")
