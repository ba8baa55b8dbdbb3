"""What decides which token may come next, each rule a pure function of logits (V,) that gives new logits (V,).

A token that a rule excludes gets -inf, probability 0; the others keep their logits. So rules can be chained, in the
order in which `adjusted` does it: repetition, n-grams, temperature, then top-k, top-p, min-p. Computed in float64.

Shapes: V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tinygrad_tf.generation.config import GenerationConfig
from tinygrad_tf.utils.errors import InputError

TOLERANCE = 1e-6  # of probabilities that come from float32 logits, where borders are compared

Logits = NDArray[np.float64]


def probabilities(logits: ArrayLike) -> Logits:
    """softmax; tokens of logit +inf share everything, tokens of logit -inf get 0.

    >>> probabilities([0.0, 0.0, -math.inf]).tolist()
    [0.5, 0.5, 0.0]
    """
    values = np.asarray(logits, np.float64)
    top = values.max()
    weights = (values == math.inf).astype(np.float64) if top == math.inf else _exp(values - top)
    return weights / weights.sum()


def log_probabilities(logits: ArrayLike) -> Logits:
    """log softmax, without the detour over probabilities that would turn small ones into log 0.

    >>> log_probabilities([0.0, -1000.0]).tolist()
    [0.0, -1000.0]
    """
    values = np.asarray(logits, np.float64)
    top = values.max()
    if top == math.inf:
        values, top = np.where(values == math.inf, 0.0, -math.inf), 0.0
    shifted = values - top
    return shifted - math.log(_exp(shifted).sum())


def likeliest(logits: NDArray[Any], config: GenerationConfig) -> list[int] | None:
    """The token of each row of logits (B, V) where all that a config asks for is the largest logit; otherwise None."""
    if config.temperature != 0 or config.repetition_penalty != 1 or config.no_repeat_ngram is not None:
        return None
    if not logits.size:
        return None
    tokens: list[int] = logits.argmax(-1).tolist()
    largest = logits[np.arange(len(tokens)), tokens]  # to argmax that is NaN
    return tokens if (largest > -math.inf).all() else None  # what is wrong comes out row by row


def log_probabilities_of(logits: NDArray[Any], tokens: Sequence[int]) -> list[float]:
    """log softmax of each row of logits (B, V) at the row's token: that of `log_probabilities`, bit by bit.

    >>> log_probabilities_of(np.array([[0.0, -1000.0], [0.0, -math.inf]]), [1, 0])
    [-1000.0, 0.0]
    """
    values = logits.astype(np.float64)
    top = np.maximum.reduce(values, axis=-1, keepdims=True)
    if not all(map(math.isfinite, top[:, 0].tolist())):
        return [float(log_probabilities(row)[token]) for row, token in zip(values, tokens, strict=True)]
    values -= top
    chosen = values[np.arange(len(values)), tokens].tolist()
    sums = np.add.reduce(_exp(values), axis=-1).tolist()
    return [value - math.log(sum_) for value, sum_ in zip(chosen, sums, strict=True)]


def with_temperature(logits: ArrayLike, temperature: float) -> Logits:
    """(logits - the largest) / temperature: below 1 sharper, above 1 flatter. 0 is the limit: the argmax alone is left.

    Of equally large logits, temperature 0 leaves the one with the lowest id.

    >>> with_temperature([1.0, 3.0, 3.0], 0).tolist()
    [-inf, 3.0, -inf]
    """
    values = np.asarray(logits, np.float64)
    if temperature == 0:
        return _only(values, np.array([values.argmax()]))
    top = values.max()
    if not math.isfinite(top):
        return values.copy()
    with np.errstate(over="ignore", under="ignore"):  # a tiny temperature: all but the largest become -inf
        return (values - top) / float(temperature)


def keep_top_k(logits: ArrayLike, k: int) -> Logits:
    """The k largest logits, exactly k; of equal ones those with the lowest ids (Fan et al., 2018, section 5).

    >>> keep_top_k([1.0, 2.0, 2.0, 2.0, 3.0], 3).tolist()
    [-inf, 2.0, 2.0, -inf, 3.0]
    """
    values = np.asarray(logits, np.float64)
    return values.copy() if k >= len(values) else _only(values, _descending(values)[:k])


def keep_top_p(logits: ArrayLike, p: float) -> Logits:
    """The fewest tokens, likeliest first, whose probabilities reach p (Holtzman et al., 2020, section 3.1).

    The token that crosses p is kept: one stays if the sum before it is below p, by more than 1e-6. So there is always
    one, p = 0 is greedy, and p = 1 keeps all. Of equal ones those with the lowest ids come first.

    >>> [int(np.isfinite(keep_top_p(np.log([0.3, 0.1, 0.1, 0.5]), p)).sum()) for p in (0, 0.5, 0.8, 0.81, 1)]
    [1, 1, 2, 3, 4]
    """
    values = np.asarray(logits, np.float64)
    if p >= 1:
        return values.copy()
    order = _descending(values)
    share = probabilities(values)[order]
    before = np.cumsum(share) - share
    count = max(1, int((before < p - TOLERANCE).sum()))
    return _only(values, order[:count])


def keep_min_p(logits: ArrayLike, p: float) -> Logits:
    """Tokens at least p times as likely as the likeliest (Nguyen et al., 2024); p = 0 keeps all.

    The border counts as inside, within a millionth; p = 1 keeps all that are as likely as the likeliest.

    >>> keep_min_p(np.log([0.4, 0.5, 0.1]), 0.8).round(4).tolist()
    [-0.9163, -0.6931, -inf]
    """
    values = np.asarray(logits, np.float64)
    share = probabilities(values)
    return np.where(share >= p * share.max() * (1 - TOLERANCE), values, -math.inf)


def penalise_repetition(logits: ArrayLike, previous: Sequence[int], penalty: float) -> Logits:
    """Tokens that already occurred become less likely (Keskar et al., 2019, CTRL, section 4.1).

    A positive logit is divided by the penalty, a negative one multiplied, once, however often the token occurred.

    >>> penalise_repetition([2.0, -2.0, 1.0], [0, 1, 0], 2.0).tolist()
    [1.0, -4.0, 1.0]
    """
    values = np.asarray(logits, np.float64).copy()
    seen = _within(previous, len(values))
    values[seen] = np.where(values[seen] > 0, values[seen] / float(penalty), values[seen] * float(penalty))
    return values


def forbid_repeated_ngrams(logits: ArrayLike, previous: Sequence[int], n: int) -> Logits:
    """No token that would end an n-gram which occurred before (Paulus et al., 2018, section 2.5).

    Where nothing would be left, the rule steps aside.

    >>> forbid_repeated_ngrams([0.0, 0.0, 0.0], [1, 2, 0, 1], 2).tolist()
    [0.0, 0.0, -inf]
    """
    values = np.asarray(logits, np.float64)
    history = list(previous)
    if len(history) < n:
        return values.copy()
    ending = history[len(history) - n + 1 :]
    followers = [history[i + n - 1] for i in range(len(history) - n + 1) if history[i : i + n - 1] == ending]
    result = values.copy()
    result[_within(followers, len(values))] = -math.inf
    return result if result.max() > -math.inf else values.copy()


def adjusted(logits: ArrayLike, previous: Sequence[int], config: GenerationConfig) -> Logits:
    """All rules of a config, in order. NaN, or nothing but -inf, is a ValueError that says whose fault it is."""
    values = checked(logits)
    if config.repetition_penalty != 1:
        values = penalise_repetition(values, previous, config.repetition_penalty)
    if config.no_repeat_ngram is not None:
        values = forbid_repeated_ngrams(values, previous, config.no_repeat_ngram)
    values = with_temperature(values, config.temperature)
    if config.top_k is not None:
        values = keep_top_k(values, config.top_k)
    if config.top_p is not None:
        values = keep_top_p(values, config.top_p)
    return values if config.min_p is None else keep_min_p(values, config.min_p)


def checked(logits: ArrayLike) -> Logits:
    """Logits (V,) in float64 that something can be chosen from."""
    values = np.asarray(logits, np.float64)
    if values.ndim != 1 or not values.size:
        raise ValueError(f"choose: logits must have shape (V,), got {values.shape}")
    if np.isnan(values).any() or values.max() == -math.inf:
        raise ValueError("choose: the logits hold NaN, or -inf only; the model's weights are broken or not trained")
    return values


def _exp(values: Logits) -> Logits:
    """exp, for which it is no error that tiny results become 0."""
    with np.errstate(under="ignore"):
        return np.exp(values)


def _descending(values: Logits) -> NDArray[np.intp]:
    """Ids from the largest logit to the smallest, equal ones from the lowest id."""
    return np.argsort(-values, kind="stable")


def _only(values: Logits, ids: NDArray[np.intp]) -> Logits:
    result = np.full_like(values, -math.inf)
    result[ids] = values[ids]
    return result


def _within(ids: Sequence[int], size: int) -> NDArray[np.intp]:
    """The different ids, which must be rows of the vocabulary."""
    unique = np.unique(np.asarray(list(ids), np.intp))
    if unique.size and not 0 <= int(unique[0]) <= int(unique[-1]) < size:
        raise InputError(f"token ids must lie in 0 ... {size - 1}, got {int(unique[0])} ... {int(unique[-1])}")
    return unique
