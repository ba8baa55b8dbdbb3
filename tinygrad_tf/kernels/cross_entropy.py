"""Cross entropy of logits and class ids: log-softmax and negative log-likelihood in one, forward and backward.

Shapes: logits (N, V), target (N,) of ids 0 ... V - 1, weight (V,) or None, losses and logsumexp and scale (N,).
With p = softmax(logits[n]), t = target[n] and smoothing s (PyTorch's definition of the two together):

    loss[n]      = -(1 - s) weight[t] log p[t] - s / V sum over c of weight[c] log p[c]
    dlogits[n,c] = scale[n] (a p[c] - s / V weight[c] - (c = t) (1 - s) weight[t])
                   with a = (1 - s) weight[t] + s / V sum(weight)

Rows whose target is `ignore_index` have loss 0 and gradient 0. How rows are averaged is left to the caller.

The probabilities are never stored: forward reads the logits (a second time from cache) and writes two numbers a row;
backward reads them once and writes the gradient. Microseconds on one core, 768 x 65 float32, forward: NumPy 167; one
kernel with a logarithm in each row 41; all logarithms of a block in one loop 30; PyTorch 40. For 768 x 50257 the kernel
takes 21 ms forward and 52 ms backward; PyTorch, which stores log-softmax, 107 and 168.

logsumexp is float64: as a float32 number it would be off by 3e-5 where logits are about 1000, and with it every
probability of the backward pass, which is made from it anew. That pass subtracts it from the logits as two numbers.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from tinygrad_tf.kernels._compile import kernel, parallel
from tinygrad_tf.kernels._math import exp_negative, log, minus
from tinygrad_tf.kernels._rows import NATIVE, blocks, elsewhere, largest, require_shape
from tinygrad_tf.kernels._scalar import widest_vectors

Array = np.ndarray


def cross_entropy(
    logits: Array, target: Array, weight: Array | None = None, ignore_index: int = -100, label_smoothing: float = 0.0
) -> tuple[Array, Array]:
    """(losses, logsumexp), both (N,); raises IndexError for a target that is neither a class nor `ignore_index`.

    >>> losses, logsumexp = cross_entropy(np.array([[1000.0, 0.0], [0.0, 0.0]]), np.array([1, 0]))
    >>> losses
    array([1.00000000e+03, 6.93147181e-01])
    """
    if logits.dtype not in NATIVE:
        arguments = logits, target, weight, ignore_index, label_smoothing
        losses, logsumexp = elsewhere(cross_entropy, cross_entropy_reference, logits.dtype, *arguments)
        return losses, logsumexp.astype(np.float64)
    target = checked_target(target, logits.shape, ignore_index)
    logits = np.ascontiguousarray(logits)
    losses, logsumexp = np.zeros(len(logits), logits.dtype), np.zeros(len(logits))
    if logits.size:
        count, step = blocks(*logits.shape)
        cross_entropy_rows(
            count, step, logits, target, class_weights(logits, weight), ignore_index, label_smoothing, losses, logsumexp
        )
    return losses, logsumexp


def cross_entropy_reference(
    logits: Array, target: Array, weight: Array | None = None, ignore_index: int = -100, label_smoothing: float = 0.0
) -> tuple[Array, Array]:
    V = logits.shape[1]
    counts = target != ignore_index
    safe = np.where(counts, checked_target(target, logits.shape, ignore_index), 0)
    top = logits.max(1, keepdims=True)
    log_total = np.log(np.exp(logits - top).sum(1, keepdims=True))
    log_p = (logits - top) - log_total
    weight = np.ones(V, logits.dtype) if weight is None else weight.astype(logits.dtype, copy=False)
    losses = -(1 - label_smoothing) * weight[safe] * np.take_along_axis(log_p, safe[:, None], 1)[:, 0]
    if label_smoothing:
        losses = losses - label_smoothing / V * (log_p * weight).sum(1)
    logsumexp = top[:, 0].astype(np.float64) + log_total[:, 0]
    return np.where(counts, losses, losses.dtype.type(0)), np.where(counts, logsumexp, 0)


@parallel
def cross_entropy_rows(
    block: int, step: int, logits: Any, target: Any, weight: Any, ignore_index: int, smoothing: float, losses: Any,
    logsumexp: Any
) -> None:  # fmt: skip
    widest_vectors()
    number = logits.dtype.type
    V = logits.shape[1]
    start, stop = block * step, min(block * step + step, logits.shape[0])
    for row in range(start, stop):
        if target[row] != ignore_index:
            source = logits[row]
            top = largest(source)
            total = number(0)
            for col in range(V):
                total += exp_negative(minus(source[col], top))
            losses[row], logsumexp[row] = total, top
    log_totals = losses[start:stop]
    for i in range(log_totals.size):  # a loop of its own: one by one, logarithms are slow
        log_totals[i] = log(log_totals[i])
    for row in range(start, stop):
        label = target[row]
        if label == ignore_index:
            losses[row] = number(0)
            continue
        top, log_total = number(logsumexp[row]), losses[row]
        loss = number(1 - smoothing) * weight[label] * minus(log_total, minus(logits[row, label], top))
        if smoothing > 0:
            spread = number(0)
            for col in range(V):
                spread += weight[col] * minus(log_total, minus(logits[row, col], top))
            loss += number(smoothing / V) * spread
        losses[row] = loss
        logsumexp[row] += np.float64(log_total)


def cross_entropy_backward(
    scale: Array,
    logits: Array,
    logsumexp: Array,
    target: Array,
    weight: Array | None = None,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Array:
    """dlogits (N, V), from the gradient `scale` (N,) of each row's loss and the `logsumexp` of the forward pass."""
    if logits.dtype not in NATIVE:
        arguments = scale, logits, logsumexp, target, weight, ignore_index, label_smoothing
        return elsewhere(cross_entropy_backward, cross_entropy_backward_reference, logits.dtype, *arguments)
    target = checked_target(target, logits.shape, ignore_index)
    logits = np.ascontiguousarray(logits)
    require_shape("scale", scale, target.shape)
    require_shape("logsumexp", logsumexp, target.shape)
    scale = np.ascontiguousarray(scale, logits.dtype)
    logsumexp = np.ascontiguousarray(logsumexp, np.float64)
    dlogits = np.empty_like(logits)
    if logits.size:
        count, step = blocks(*logits.shape)
        weights = class_weights(logits, weight)
        spread = label_smoothing / logits.shape[1]
        share = spread * float(weights.sum(dtype=np.float64)) if spread else 0.0
        cross_entropy_backward_rows(
            count, step, scale, logits, logsumexp, target, weights, ignore_index, label_smoothing, share, dlogits
        )
    return dlogits


def cross_entropy_backward_reference(
    scale: Array,
    logits: Array,
    logsumexp: Array,
    target: Array,
    weight: Array | None = None,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Array:
    N, V = logits.shape
    counts = target != ignore_index
    safe = np.where(counts, checked_target(target, logits.shape, ignore_index), 0)
    weight = np.ones(V, logits.dtype) if weight is None else weight.astype(logits.dtype, copy=False)
    hit = (1 - label_smoothing) * weight[safe]
    spread = label_smoothing / V * weight
    dlogits = np.exp((logits - logsumexp[:, None]).astype(logits.dtype)) * (hit + spread.sum())[:, None] - spread
    dlogits[np.arange(N), safe] -= hit
    return np.where(counts[:, None], scale[:, None] * dlogits, 0).astype(logits.dtype, copy=False)


@parallel
def cross_entropy_backward_rows(
    block: int, step: int, scale: Any, logits: Any, logsumexp: Any, target: Any, weight: Any, ignore_index: int,
    smoothing: float, share: float, dlogits: Any
) -> None:  # fmt: skip
    widest_vectors()
    number = logits.dtype.type
    V = logits.shape[1]
    for row in range(block * step, min(block * step + step, logits.shape[0])):
        label, result = target[row], dlogits[row]
        if label == ignore_index:
            result[:] = number(0)
            continue
        source, upper = logits[row], scale[row]
        high = number(logsumexp[row])
        low = number(logsumexp[row] - np.float64(high))
        hit = upper * number(1 - smoothing) * weight[label]
        factor = hit + upper * number(share)
        for col in range(V):
            result[col] = factor * exp_negative(minus(minus(source[col], high), low))
        if smoothing > 0:
            spread = upper * number(smoothing / V)
            for col in range(V):
                result[col] -= spread * weight[col]
        result[label] -= hit


def class_weights(logits: Array, weight: Array | None) -> Array:
    V = logits.shape[1]
    if weight is None:
        return equal_weights(V, logits.dtype)
    require_shape("weight", weight, (V,))
    return np.ascontiguousarray(weight, logits.dtype)


@functools.lru_cache(16)
def equal_weights(V: int, dtype: np.dtype) -> Array:
    """One for each class; an array that is only read."""
    return np.ones(V, dtype)


def checked_target(target: Array, shape: tuple[int, ...], ignore_index: int) -> Array:
    """The targets of logits of this shape as int64, every one a class or ignored."""
    N, V = shape
    require_shape("target", target, (N,))
    target = np.ascontiguousarray(target, np.int64)
    bad = first_bad_target(target, V, ignore_index)
    if bad >= 0:
        raise IndexError(
            f"target[{bad}] is {target[bad]}, but the logits have {V} classes: targets must lie in 0 ... {V - 1}, "
            f"or be ignore_index = {ignore_index}"
        )
    return target


@kernel
def first_bad_target(target: Any, V: int, ignore_index: int) -> int:
    for row in range(target.size):
        label = target[row]
        if (label < 0 or label >= V) and label != ignore_index:
            return row
    return -1
