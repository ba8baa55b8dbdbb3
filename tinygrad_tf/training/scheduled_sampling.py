"""Teacher forcing and scheduled sampling: what a decoder reads while it learns.

Teacher forcing: the decoder reads the true tokens before each one that it is to predict. It learns fast, all positions
at once, but it never meets its own mistakes, as it will when it writes: this is exposure bias. Scheduled sampling
(Bengio et al., 2015, section 2.3) replaces some of the tokens that it reads by its own predictions, more and more of
them as training goes on.

    inputs = shift_right(targets, start)                             teacher forcing
    share = teacher_share(step, "inverse_sigmoid", k=200)            how many tokens still come from the teacher
    inputs = mixed_inputs(decode, inputs, share, generator)          scheduled sampling
    loss = cross_entropy(decode(inputs), targets)                    targets stay the true ones

Shapes: B batch, T target length, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tinygrad_tf._arguments import check_choice
from tinygrad_tf.autograd import no_grad
from tinygrad_tf.creation import from_numpy
from tinygrad_tf.tensor import Tensor
from tinygrad_tf.utils.errors import InputError

SCHEDULES = ("linear", "exponential", "inverse_sigmoid")
METHODS = ("parallel", "sequential")


def shift_right(targets: Tensor, start: int) -> Tensor:
    """What a decoder reads under teacher forcing: `start`, then the targets (B, T) without their last token.

    >>> from tinygrad_tf import tensor
    >>> shift_right(tensor([[5, 6, 7]]), start=1).tolist()
    [[1, 5, 6]]
    """
    ids = targets.array
    if ids.ndim != 2 or ids.dtype.kind not in "iu":
        raise InputError(f"shift_right: targets must be ids (B, T), got {ids.dtype} of the shape {ids.shape}")
    return from_numpy(np.concatenate([np.full_like(ids[:, :1], start), ids[:, :-1]], axis=1))


def teacher_share(step: int, kind: str, k: float, floor: float = 0.0) -> float:
    """The probability that a token comes from the teacher, at step 0, 1, ... (Bengio et al., 2015, section 2.4).

    kind: 'linear', 1 - step / k; 'exponential', k^step with k below 1; 'inverse_sigmoid', k / (k + e^(step / k)) with
    k of at least 1, which stays near 1 for some k steps and then falls. It never falls below `floor`.

    >>> [round(teacher_share(step, "linear", k=4, floor=0.1), 2) for step in range(6)]
    [1.0, 0.75, 0.5, 0.25, 0.1, 0.1]
    >>> [round(teacher_share(step, "inverse_sigmoid", k=100), 2) for step in (0, 250, 460, 1000)]
    [0.99, 0.89, 0.5, 0.0]
    """
    check_choice("teacher_share: kind", kind, SCHEDULES, InputError)
    wanted = {"linear": (0.0, math.inf), "exponential": (0.0, 1.0), "inverse_sigmoid": (1.0, math.inf)}[kind]
    if not (wanted[0] < k < wanted[1] or k == 1.0 == wanted[0]):
        words = {"linear": "above 0", "exponential": "between 0 and 1", "inverse_sigmoid": "at least 1"}[kind]
        raise InputError(f"teacher_share: k must be {words} for kind={kind!r}, got {k}")
    if not 0.0 <= floor <= 1.0:
        raise InputError(f"teacher_share: floor must be in [0, 1], got {floor}")
    if kind == "linear":
        share = 1.0 - step / k
    elif kind == "exponential":
        share = k**step
    else:  # k / (k + e^x), for any x
        share = 1.0 / (1.0 + math.exp(min(step / k - math.log(k), 700.0)))
    return max(floor, share)


def mixed_inputs(
    decode: Callable[[Tensor], Tensor],
    inputs: Tensor,
    share: float,
    generator: np.random.Generator,
    *,
    method: str = "parallel",
    passes: int = 1,
    temperature: float = 0.0,
    pad: int | None = None,
) -> Tensor:
    """The decoder's inputs (B, T) with some true tokens replaced by what the decoder itself would have written there.

    decode: ids (B, t) to logits (B, t, V), causal: `lambda ids: model.decode(ids, memory, mask)`, an RNN, or a GPT. It
    is run without recording, in the mode that the model is in. share: the probability with which each token stays the
    teacher's. The first column (the start token), and padding if `pad` is given, always stay.
    method: 'sequential' writes token by token behind what was mixed so far, as Bengio et al. do, at the cost of T - 1
    calls. 'parallel' lets the decoder read the true tokens once and takes its predictions from there (Mihaylova and
    Martins, 2019, section 4); with `passes` above 1 it reads the mixture again, once more for each.
    temperature: 0 takes the likeliest token, otherwise tokens are drawn.

    >>> from tinygrad_tf import tensor
    >>> def decode(ids):  # behind t it expects t + 1
    ...     return tensor(np.eye(10)[(ids.array + 1) % 10])
    >>> truth = tensor([[1, 5, 9, 3]])
    >>> mixed_inputs(decode, truth, 0.0, np.random.default_rng(0)).tolist()
    [[1, 2, 6, 0]]
    >>> mixed_inputs(decode, truth, 0.0, np.random.default_rng(0), method="sequential").tolist()
    [[1, 2, 3, 4]]
    """
    truth = inputs.array
    _check(truth, share, method, passes, temperature)
    stays = generator.random(truth.shape) < share
    stays[:, 0] = True
    if pad is not None:
        stays |= truth == pad
    if stays.all():
        return inputs
    with no_grad():
        if method == "sequential":
            mixed = truth.copy()
            for t in range(1, truth.shape[1]):
                own = _chosen(decode(from_numpy(mixed[:, :t].copy())).array[:, -1], temperature, generator)
                mixed[:, t] = np.where(stays[:, t], truth[:, t], own)
            return from_numpy(mixed)
        mixed = truth
        for _ in range(passes):
            own = _chosen(decode(from_numpy(mixed)).array[:, :-1], temperature, generator)
            mixed = np.where(stays, truth, np.concatenate([truth[:, :1], own], axis=1))
    return from_numpy(mixed)


def _check(truth: NDArray[Any], share: float, method: str, passes: int, temperature: float) -> None:
    if truth.ndim != 2 or truth.dtype.kind not in "iu" or not truth.shape[1]:
        raise InputError(f"mixed_inputs: inputs must be ids (B, T), got {truth.dtype} of the shape {truth.shape}")
    if not 0.0 <= share <= 1.0:
        raise InputError(f"mixed_inputs: share must be in [0, 1], got {share}")
    check_choice("mixed_inputs: method", method, METHODS, InputError)
    if passes < 1 or (passes > 1 and method == "sequential"):
        raise InputError(f"mixed_inputs: passes must be at least 1, and 1 for method='sequential', got {passes}")
    if not temperature >= 0.0:
        raise InputError(f"mixed_inputs: temperature must be at least 0, got {temperature}")


def _chosen(logits: NDArray[Any], temperature: float, generator: np.random.Generator) -> NDArray[np.int64]:
    """A token for each row of logits (..., V): the likeliest, or drawn (the largest logit plus Gumbel noise)."""
    if temperature:
        noise = generator.gumbel(size=logits.shape)
        logits = logits.astype(np.float64) / temperature + noise
    return logits.argmax(-1).astype(np.int64)
