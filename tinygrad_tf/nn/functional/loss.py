"""Losses: a number that says how far the input is from the target, of classes, labels and numbers."""

from __future__ import annotations

import math
import warnings

import numpy as np

from tinygrad_tf import ops
from tinygrad_tf._arguments import check_number
from tinygrad_tf.engine import make
from tinygrad_tf.nn.functional._reduction import (
    as_numbers,
    check_same_shape,
    reduced,
    reduction_of,
    warn_of_broadcasting,
)
from tinygrad_tf.nn.functional.activation import log_softmax, logsigmoid
from tinygrad_tf.ops._places import check_range
from tinygrad_tf.ops._precision import raised
from tinygrad_tf.ops._types import category, check_floats
from tinygrad_tf.ops.activation import softplus
from tinygrad_tf.ops.elementwise import abs_, bent, exp, log, sign, where
from tinygrad_tf.ops.loss import binary_cross_entropy_, check_label_smoothing, check_target, check_weight
from tinygrad_tf.ops.reduce import mean_over
from tinygrad_tf.tensor import Tensor

# --- classes ----------------------------------------------------------------------------------------------------------


@raised
def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """-log softmax(input)[target], averaged over the targets that are not ignore_index.

    input: logits (N, V), (V,) or (N, V, d1, ...); target: ids without the V axis, or probabilities in input's shape.

    >>> from tinygrad_tf import tensor
    >>> cross_entropy(tensor([[0.0, 0.0]]), tensor([1]))
    tensor(0.6931)
    """
    reduction = reduction_of(size_average, reduce, reduction)
    if not input.ndim:
        raise IndexError("cross_entropy: input must be (N, V), (V,) or (N, V, d1, ...), got a number")
    if category(target.array.dtype) == 2 and target.array.shape == input.array.shape:
        if ignore_index >= 0:
            raise RuntimeError(
                f"cross_entropy: ignore_index is for ids; with probabilities leave it, got {ignore_index}"
            )
        return _soft_cross_entropy(input, target, weight, reduction, label_smoothing)
    return ops.loss.cross_entropy(input, target, weight, ignore_index, reduction, label_smoothing)


def _soft_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None, reduction: str, label_smoothing: float
) -> Tensor:
    """-sum_v target_v log softmax(input)_v, with the mean taken over everything but the classes."""
    dim = 0 if input.ndim == 1 else 1
    classes = input.array.shape[dim]
    check_label_smoothing(label_smoothing)
    check_weight("cross_entropy", input.array.shape, weight)
    if label_smoothing:
        target = target * (1.0 - label_smoothing) + label_smoothing / classes
    products = log_softmax(input, dim) * target
    if weight is not None:
        products = products * weight.reshape(-1, *(1,) * (input.ndim - 1 - dim))
    return reduced("cross_entropy", -products.sum(dim), reduction)


@raised
def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """-input[target], for log-probabilities (N, V), (V,) or (N, V, d1, ...); the mean is weighted by `weight`."""
    reduction = reduction_of(size_average, reduce, reduction)
    shape, ids = input.array.shape, target.array
    if not shape:
        raise ValueError("nll_loss: input must be (N, V), (V,) or (N, V, d1, ...), got a number")
    check_target("nll_loss", shape, ids, weight)
    check_floats("nll_loss", input)
    if category(ids.dtype) != 1:
        raise RuntimeError(f"nll_loss: targets must be integers, got {ids.dtype}")
    counts = ids != ignore_index
    safe, dim = np.where(counts, ids, 0), 0 if len(shape) == 1 else 1
    check_range("nll_loss: target", safe, shape[dim], dim)
    weights = counts.astype(input.dtype)
    picked = bent(input).gather(dim, make(np.expand_dims(safe, dim))).squeeze(dim)
    if weight is not None:
        weights = weights * weight.array[safe]
    losses = where(make(counts), -picked * make(weights), 0.0)
    if reduction == "mean":
        return mean_over(float(weights.sum(dtype=np.float64)), losses)
    return reduced("nll_loss", losses, reduction)


@raised
def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """target (log target - input) for log-probabilities `input`; "batchmean" is the divergence of the definition."""
    reduction = reduction_of(size_average, reduce, reduction)
    if reduction == "mean":
        warnings.warn("kl_div: 'mean' divides by all entries; 'batchmean' is the mathematical definition", stacklevel=2)
    for x in (input, target):
        check_floats("kl_div", x)
    if log_target:
        losses = exp(target) * (target - input)
    else:
        there = target != 0  # log of a negative target is no number
        losses = where(there, target * log(where(there, target, 1.0)), 0.0) - target * input
    if reduction == "batchmean":
        return mean_over(float(input.array.shape[0] if input.ndim else 1), losses)
    return reduced("kl_div", losses, reduction)


# --- probabilities of yes and no --------------------------------------------------------------------------------------


@raised
def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """-(t log p + (1 - t) log(1 - p)) for probabilities p; logarithms are cut at -100."""
    reduction = reduction_of(size_average, reduce, reduction)
    check_same_shape("binary_cross_entropy", input, target)
    for x in (input, target):
        check_floats("binary_cross_entropy", x)
    for name, shares in (("input", input.array), ("target", target.array)):
        if shares.size and not (shares.min() >= 0 and shares.max() <= 1):
            raise RuntimeError(
                f"binary_cross_entropy: {name} must be in [0, 1]; use binary_cross_entropy_with_logits for logits"
            )
    losses = binary_cross_entropy_(input, target)
    return reduced("binary_cross_entropy", losses if weight is None else losses * weight, reduction)


@raised
def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """binary_cross_entropy(sigmoid(input), target) without overflow: (1 - t) x + softplus(-x)."""
    reduction = reduction_of(size_average, reduce, reduction)
    check_same_shape("binary_cross_entropy_with_logits", input, target)
    for x in (input, target):
        check_floats("binary_cross_entropy_with_logits", x)
    soft = softplus(-input)
    losses = (1.0 - target) * input + (soft if pos_weight is None else soft * ((pos_weight - 1.0) * target + 1.0))
    losses = losses if weight is None else losses * weight
    return reduced("binary_cross_entropy_with_logits", losses.to(target.dtype), reduction)  # as in PyTorch


@raised
def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The mean over the labels, on the last axis, of the binary cross entropy of sigmoid(input) with target."""
    reduction = reduction_of(size_average, reduce, reduction)
    check_same_shape("multilabel_soft_margin_loss", input, target)
    losses = -(target * logsigmoid(input) + (1 - target) * logsigmoid(-input))
    losses = losses if weight is None else losses * weight
    return reduced("multilabel_soft_margin_loss", losses.mean(-1), reduction)


# --- numbers ----------------------------------------------------------------------------------------------------------


@raised
def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """The mean of (input - target)^2; with weight, the weighted mean."""
    reduction = reduction_of(size_average, reduce, reduction)
    warn_of_broadcasting("mse_loss", input, target)
    _check_weights("mse_loss", input, weight)
    difference = input - as_numbers(target, input)
    check_floats("mse_loss", difference)
    return _weighted("mse_loss", difference * difference, weight, reduction)


@raised
def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """The mean of |input - target|; with weight, the weighted mean."""
    reduction = reduction_of(size_average, reduce, reduction)
    warn_of_broadcasting("l1_loss", input, target)
    _check_weights("l1_loss", input, weight)
    return _weighted("l1_loss", abs_(input - target), weight, reduction)


def _weighted(name: str, losses: Tensor, weight: Tensor | None, reduction: str) -> Tensor:
    if weight is None:
        return reduced(name, losses, reduction)
    total = losses * weight
    return total.sum() / weight.sum() if reduction == "mean" else reduced(name, total, reduction)


def _check_weights(name: str, input: Tensor, weight: Tensor | None) -> None:
    """Refuse weights that are not one for each entry of the input."""
    if weight is not None and weight.array.shape != input.array.shape:
        raise ValueError(f"{name}: weight must have input's shape {input.array.shape}, got {weight.array.shape}")


def _within(difference: Tensor, bound: float) -> Tensor:
    """The difference, cut off at the bound: the slope of a loss that is quadratic below it and straight beyond."""
    return where(abs_(difference) >= bound, sign(difference) * bound, difference)


@raised
def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """d^2 / (2 beta) where d = |input - target| is below beta, d - beta / 2 elsewhere (Girshick, 2015)."""
    reduction = reduction_of(size_average, reduce, reduction)
    warn_of_broadcasting("smooth_l1_loss", input, target)
    check_number("smooth_l1_loss: beta", beta)
    if not beta >= 0:
        raise RuntimeError(f"smooth_l1_loss: beta must not be negative, got {beta}")
    difference = input - as_numbers(target, input)
    check_floats("smooth_l1_loss", difference)
    if beta == 0:
        return reduced("smooth_l1_loss", abs_(difference), reduction)
    slope = _within(difference, beta)
    return reduced("smooth_l1_loss", slope / beta * (difference - slope * 0.5), reduction)


@raised
def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Tensor | None = None
) -> Tensor:
    """d^2 / 2 where d = |input - target| is below delta, delta (d - delta / 2) elsewhere (Huber, 1964).

    weight: a factor for each element; their mean is over all elements (that of mse_loss is a weighted one).
    """
    warn_of_broadcasting("huber_loss", input, target)
    check_floats("huber_loss", input)
    check_number("huber_loss: delta", delta)
    if not delta > 0:
        raise RuntimeError(f"huber_loss: delta must be above 0, got {delta}")
    _check_weights("huber_loss", input, weight)
    difference = input - as_numbers(target, input)
    slope = _within(difference, delta)
    losses = slope * (difference - slope * 0.5)
    if weight is not None:
        losses = losses * weight
    return reduced("huber_loss", losses, reduction)


def gaussian_nll_loss(
    input: Tensor, target: Tensor, var: Tensor | float, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Tensor:
    """(log var + (input - target)^2 / var) / 2: how unlikely the target is under a normal distribution."""
    variance: Tensor = make(np.full(input.array.shape, var, input.dtype)) if isinstance(var, (int, float)) else var
    own, given = input.array.shape, variance.array.shape
    differ = [size for wanted, size in zip(own, given, strict=False) if wanted != size]
    if given not in (own, own[:-1]) and not (len(given) == len(own) and sum(differ) == 1):  # a single 1, and any 0
        raise ValueError(
            f"gaussian_nll_loss: var must have the shape {own}, with 1 for one of the sizes, or without the last one, "
            f"got {given}"
        )
    if variance.array.ndim and variance.array.ndim < input.ndim:
        variance = variance.unsqueeze(-1)
    if variance.array.size and variance.array.min() < 0:
        raise ValueError("gaussian_nll_loss: var must not be negative")
    fixed = variance.detach()
    safe = variance + where(fixed < eps, eps - fixed, 0.0)  # the gradient goes to what was clamped, too
    losses = (log(safe) + (input - target) ** 2 / safe) * 0.5
    return reduced("gaussian_nll_loss", losses + 0.5 * math.log(2.0 * math.pi) if full else losses, reduction)


@raised
def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """rate - target log(rate), where `input` is the logarithm of the rate, or the rate itself (log_input=False).

    full: with Stirling's approximation of log(target!), for targets above 1.
    """
    reduction = reduction_of(size_average, reduce, reduction)
    losses = exp(input) - target * input if log_input else input - target * log(input + eps)
    if full:
        many = target > 1
        count = where(many, target, 1.0)
        losses = losses + where(many, count * log(count) - count + 0.5 * log(2 * math.pi * count), 0.0)
    return reduced("poisson_nll_loss", losses, reduction)
