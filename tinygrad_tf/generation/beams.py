"""Beam search: the likeliest texts, with several in hand (Graves, 2012; Sutskever et al., 2014, section 3.2).

A step puts every token behind every unfinished beam, and of all these and of the finished beams the `num_beams` with
the best scores stay. So a finished beam is never extended, no two beams are alike, and one beam is greedy search.

    score = log p(text) / ((5 + length) / 6)^alpha         Wu et al., 2016, equation 14, without coverage
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tinygrad_tf.generation.config import GenerationConfig
from tinygrad_tf.generation.filters import checked, forbid_repeated_ngrams, log_probabilities
from tinygrad_tf.generation.prompts import check_prompts
from tinygrad_tf.generation.steps import Steps


@dataclass(frozen=True)
class Beam:
    """A text that the search found."""

    tokens: tuple[int, ...] = ()  # the new ones, with the stop token if there is one
    log_prob: float = 0.0  # the sum of their log-probabilities
    score: float = 0.0  # log_prob, compared across lengths
    finished: bool = False  # ends with a stop token, not for want of room


def length_penalty(length: int, alpha: float) -> float:
    """What log-probabilities are divided by: 1 for alpha = 0, nearly the length for alpha = 1.

    >>> length_penalty(7, 1.0)
    2.0
    """
    return ((5 + length) / 6) ** float(alpha)


def beam_search(model: Any, prompts: Sequence[Sequence[int]], config: GenerationConfig) -> list[list[Beam]]:
    """For each prompt the `config.num_beams` best beams, best first (fewer if there are not so many texts).

    Of equal scores the finished beam comes first, then the one from the better parent, then the lower token id.
    config.no_repeat_ngram is obeyed, scores are the model's own. Model and prompts are as in `generate_batch`.

    >>> def model(ids):  # step 1: A .6, B .4; behind A .4, .3, .3, behind B .9, .1
    ...     table = {9: [0.6, 0.4, 0], 0: [0.4, 0.3, 0.3], 1: [0.9, 0.1, 0]}
    ...     with np.errstate(divide="ignore"):
    ...         return np.log([[table[int(token)] for token in row] for row in ids.array])
    >>> for beam in beam_search(model, [[9]], GenerationConfig(num_beams=2, max_new_tokens=2))[0]:
    ...     print(beam.tokens, round(beam.score, 6))
    (1, 0) -1.021651
    (0, 0) -1.427116
    """
    prompts = check_prompts(prompts)
    found = [[Beam()] for _ in prompts]
    if not prompts or not config.max_new_tokens:
        return found
    steps = Steps(model, prompts, config)
    live = [(row, 0) for row in range(len(prompts))]  # prompt and beam behind each text of steps
    for _ in range(config.max_new_tokens):
        logits = steps.logits()
        logs = {place: _continuations(logits[i], steps.texts[i], config) for i, place in enumerate(live)}
        text_of = {place: i for i, place in enumerate(live)}
        live, parents = [], []
        for row, beams in enumerate(found):
            if all(beam.finished for beam in beams):
                continue
            found[row], origins = _best(beams, [logs.get((row, i)) for i in range(len(beams))], config)
            for i, beam in enumerate(found[row]):
                if not beam.finished:
                    live.append((row, i))
                    parents.append(text_of[row, origins[i]])
        if not live:
            break
        steps.extend([found[row][i].tokens[-1] for row, i in live], parents)
    return found


def _continuations(logits: NDArray[Any], text: list[int], config: GenerationConfig) -> NDArray[np.float64]:
    """log p of each next token (V,), -inf where the config forbids it."""
    logs = log_probabilities(checked(logits))
    n = config.no_repeat_ngram
    return logs if n is None else forbid_repeated_ngrams(logs, text, n)


def _best(
    beams: list[Beam], logs: list[NDArray[np.float64] | None], config: GenerationConfig
) -> tuple[list[Beam], list[int]]:
    """The best of the finished beams and of all continuations, and the number of the beam that each comes from."""
    candidates = [(beam, i) for i, beam in enumerate(beams) if beam.finished]
    for i, (beam, log) in enumerate(zip(beams, logs, strict=True)):
        if log is None:
            continue
        for token in np.argsort(-log, kind="stable")[: config.num_beams].tolist():
            if log[token] > -np.inf:
                candidates.append((_extended(beam, token, float(log[token]), config), i))
    candidates.sort(key=lambda pair: -pair[0].score)  # stable: equal ones stay in the order above
    best = candidates[: config.num_beams]
    return [beam for beam, _ in best], [i for _, i in best]


def _extended(beam: Beam, token: int, log: float, config: GenerationConfig) -> Beam:
    tokens, log_prob = (*beam.tokens, token), beam.log_prob + log
    score = log_prob / length_penalty(len(tokens), config.length_penalty)
    return Beam(tokens, log_prob, score, token in config.stop_tokens)
