"""Normalisation: over the last axes, over the batch, over groups of channels, over neighbouring channels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinygrad_tf import ops
from tinygrad_tf.nn.functional.padding import pad
from tinygrad_tf.ops._types import check_floats
from tinygrad_tf.regions import wide
from tinygrad_tf.tensor import Tensor


def _normalised(name: str, x: Tensor, shape: Any, *tensors: Tensor | None) -> tuple[int, ...]:
    wanted = shape if type(shape) is tuple else (shape,) if isinstance(shape, int) else tuple(shape)
    if not wanted or x.array.shape[-len(wanted) :] != wanted:
        raise RuntimeError(f"{name}: the last sizes must be normalized_shape {wanted}, got x of shape {x.array.shape}")
    for t in tensors:
        if t is not None and t.array.shape != wanted:
            raise RuntimeError(f"{name}: weight and bias must have the shape {wanted}, got {t.array.shape}")
    return wanted


def layer_norm(
    input: Tensor, normalized_shape: Any, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """(x - mean) / sqrt(var + eps) * weight + bias over the last axes (Ba et al., 2016)."""
    wanted = _normalised("layer_norm", input, normalized_shape, weight, bias)
    check_floats("layer_norm", input)
    if len(wanted) == 1:
        return ops.norm.layer_norm(input, weight, bias, eps=eps)
    flat = [t if t is None else t.reshape(-1) for t in (weight, bias)]
    x = input.reshape(*input.shape[: -len(wanted)], -1)
    return ops.norm.layer_norm(x, *flat, eps=eps).reshape(input.shape)


def rms_norm(input: Tensor, normalized_shape: Any, weight: Tensor | None = None, eps: float | None = None) -> Tensor:
    """x / sqrt(mean x^2 + eps) * weight over the last axes (Zhang and Sennrich, 2019)."""
    wanted = _normalised("rms_norm", input, normalized_shape, weight)
    if eps is None:
        eps = float(np.finfo(wide(input.array.dtype)).eps)  # of the dtype that sums are made in
    if len(wanted) == 1:
        return ops.norm.rms_norm(input, weight, eps=eps)
    x = input.reshape(*input.shape[: -len(wanted)], -1)
    flat = None if weight is None else weight.reshape(-1)
    return ops.norm.rms_norm(x, flat, eps=eps).reshape(input.shape)


def _one_for_each_channel(name: str, channels: int, **parts: Tensor | None) -> None:
    """Refuse what does not have one entry for each channel, before anything is changed: one would meet them all."""
    for argument, part in parts.items():
        if part is not None and part.array.size != channels:
            raise RuntimeError(f"{name}: {argument} must have {channels} entries, one a channel, got {part.array.size}")


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """(x - mean) / sqrt(var + eps) * weight + bias for each channel (axis 1) (Ioffe and Szegedy, 2015).

    In training, mean and variance are the batch's, and the running ones move towards them by `momentum` (the variance
    over n - 1); otherwise the running ones are used.
    """
    if input.ndim < 2:
        raise RuntimeError(f"batch_norm: input must be (N, C, ...), got shape {input.array.shape}")
    given = {"running_mean": running_mean, "running_var": running_var, "weight": weight, "bias": bias}
    _one_for_each_channel("batch_norm", input.array.shape[1], **given)
    check_floats("batch_norm", input)
    if training:
        count = input.array.size // max(input.array.shape[1], 1)
        if count <= 1:
            raise ValueError(
                f"batch_norm: training needs more than one value per channel, got shape {input.array.shape}"
            )
        mean, variance = ops.norm.channel_statistics(input.array)
        for running, batch in ((running_mean, mean), (running_var, variance * (count / (count - 1)))):
            if running is not None:
                _move(running, batch, momentum)
    elif running_mean is None or running_var is None:
        raise RuntimeError("batch_norm: running_mean and running_var are needed outside of training")
    else:  # copies: the running ones may have moved when the gradient is asked for
        mean, variance = (t.array.reshape(-1).astype(np.float64) for t in (running_mean, running_var))
    told = {"mean": mean, "variance": variance, "eps": eps, "own_statistics": training}
    return ops.norm.batch_norm(input, _flat(weight), _flat(bias), **told)


def _flat(t: Tensor | None) -> Tensor | None:
    return t if t is None or t.array.ndim == 1 else t.reshape(-1)


def _move(running: Tensor, batch: np.ndarray, momentum: float) -> None:
    """Move a running statistic towards that of a batch."""
    running.array += ((batch.reshape(running.array.shape) - running.array) * momentum).astype(running.array.dtype)
    running.storage.written()


def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """Layer norm over groups of channels (axis 1) and all further axes (Wu and He, 2018)."""
    if input.ndim < 2:
        raise RuntimeError(f"group_norm: input must be (N, C, ...), got shape {input.array.shape}")
    n, channels, *places = input.array.shape
    if num_groups < 1 or channels % num_groups:
        raise RuntimeError(f"group_norm: {channels} channels do not split into {num_groups} groups")
    _one_for_each_channel("group_norm", channels, weight=weight, bias=bias)
    check_floats("group_norm", input)
    groups = input.reshape(n, num_groups, channels // num_groups * math.prod(places))
    out = ops.norm.layer_norm(groups, None, None, eps=eps).reshape(input.shape)
    if weight is None and bias is None:
        return out
    as_it_is = {"mean": np.zeros(channels), "variance": np.ones(channels), "eps": 0.0, "own_statistics": False}
    return ops.norm.batch_norm(out, _flat(weight), _flat(bias), **as_it_is)


def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalise each channel of each example over all further axes (Ulyanov et al., 2016).

    The running mean and variance, if given, move towards the mean of the examples' by `momentum`; they are used instead
    of the examples' own without `use_input_stats`.
    """
    if not use_input_stats:
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    shape = input.array.shape
    places = input.array.size // max(math.prod(shape[:2]), 1)
    if input.ndim < 3 or places <= 1:
        raise ValueError(f"instance_norm: needs (N, C, ...) with more than one value per channel, got shape {shape}")
    given = {"running_mean": running_mean, "running_var": running_var, "weight": weight, "bias": bias}
    _one_for_each_channel("instance_norm", shape[1], **given)
    if running_mean is not None or running_var is not None:
        mean, variance = ops.norm.channel_statistics(input.array.reshape(1, -1, places))
        for running, found in ((running_mean, mean), (running_var, variance * (places / (places - 1)))):
            if running is not None:
                _move(running, found.reshape(shape[:2]).mean(0), momentum)
    return group_norm(input, shape[1], weight, bias, eps)


def local_response_norm(input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """x / (k + alpha * mean of x^2 over `size` neighbouring channels)^beta; input (N, C, ...).

    Krizhevsky et al. (2012), section 3.3. Neighbours beyond the ends count as 0.

    >>> import tinygrad_tf as tg
    >>> local_response_norm(tg.full((1, 3, 1), 2.0), 3, alpha=3.0, beta=0.5).flatten()
    tensor([0.6667, 0.5547, 0.6667])
    """
    if input.ndim < 3:
        raise ValueError(f"local_response_norm: input must be (N, C, ...), got {tuple(input.shape)}")
    if size < 1:
        raise ValueError(f"local_response_norm: size must be above 0, got {size}")
    squares = pad((input * input).movedim(1, -1), (size // 2, (size - 1) // 2))
    means = squares.unfold(-1, size, 1).mean(-1).movedim(-1, 1)
    return input / (means * alpha + k) ** beta
