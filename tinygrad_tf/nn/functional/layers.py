"""Linear maps, look-ups, normalisation, dropout, padding and distances."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tinygrad_tf import ops, random
from tinygrad_tf.creation import full
from tinygrad_tf.engine import clock, make
from tinygrad_tf.ops.reduce import norm
from tinygrad_tf.regions import wide
from tinygrad_tf.tensor import Tensor


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x W^T + b for x (..., in), weight (out, in), bias (out)."""
    return ops.linear.linear(input, weight, bias)


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """y_k = x1^T W_k x2 + b_k for x1 (..., in1), x2 (..., in2), weight (out, in1, in2)."""
    left = ops.linalg.matmul(input1.unsqueeze(-2).unsqueeze(-3), weight).squeeze(-2)  # (..., out, in2)
    out = ops.linalg.matmul(left, input2.unsqueeze(-1)).squeeze(-1)
    return out if bias is None else out + bias


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Rows of weight (V, C) at the ids `input`. Gradients are dense, also with sparse=True."""
    if max_norm is not None or scale_grad_by_freq:
        raise ValueError("embedding: max_norm and scale_grad_by_freq are not supported; scale the weight yourself")
    if padding_idx is not None and weight.array.ndim:
        rows = weight.array.shape[0]
        if not -rows <= padding_idx < rows:
            raise ValueError(f"embedding: padding_idx must be within the {rows} rows of weight, got {padding_idx}")
        padding_idx %= rows
    return ops.linear.embedding(input, weight, padding_idx)


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """int64 (*, num_classes) with a 1 at each id of `tensor` (*).

    >>> from tinygrad_tf import tensor
    >>> one_hot(tensor([0, 2]))
    tensor([[1, 0, 0],
            [0, 0, 1]])
    """
    ids = tensor.array
    if ids.dtype.kind not in "iu":
        raise RuntimeError(f"one_hot: ids must be integers, got {ids.dtype}")
    if num_classes == -1 and not ids.size:
        raise RuntimeError("one_hot: give num_classes where there are no ids to count them from")
    count = int(ids.max()) + 1 if num_classes == -1 else num_classes
    if ids.size and not 0 <= int(ids.min()) <= int(ids.max()) < count:
        raise RuntimeError(f"one_hot: ids must be in [0, {count - 1}], got {int(ids.min())} to {int(ids.max())}")
    return make((ids[..., None] == np.arange(count)).astype(np.int64, order="C"))


# --- normalisation ----------------------------------------------------------------------------------------------------


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
    axes = (0, *range(2, input.ndim))
    shape = (1, -1, *(1,) * (input.ndim - 2))
    if training:
        count = input.array.size // max(input.array.shape[1], 1)
        if count <= 1:
            raise ValueError(
                f"batch_norm: training needs more than one value per channel, got shape {input.array.shape}"
            )
        mean = input.mean(axes, keepdim=True)
        centred = input - mean
        var = (centred * centred).mean(axes, keepdim=True)
        for running, batch in ((running_mean, mean.array), (running_var, var.array * (count / (count - 1)))):
            if running is not None:
                running.array += (batch.reshape(-1) - running.array) * running.dtype.type(momentum)
                running.storage.changed = next(clock)
    else:
        if running_mean is None or running_var is None:
            raise RuntimeError("batch_norm: running_mean and running_var are needed outside of training")
        centred, var = input - running_mean.reshape(shape), running_var.reshape(shape)
    out = centred / (var + eps).sqrt()
    out = out if weight is None else out * weight.reshape(shape)
    return out if bias is None else out + bias.reshape(shape)


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
    shape = (1, channels, *(1,) * (input.ndim - 2))
    groups = input.reshape(n, num_groups, channels // num_groups * math.prod(places))
    out = ops.norm.layer_norm(groups, None, None, eps=eps).reshape(input.shape)
    out = out if weight is None else out * weight.reshape(shape)
    return out if bias is None else out + bias.reshape(shape)


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
    values = input.array.reshape(*shape[:2], -1)
    statistics = (running_mean, lambda: values.mean(-1)), (running_var, lambda: values.var(-1, ddof=1))
    for running, found in statistics:
        if running is not None:
            running.array += (found().mean(0) - running.array) * running.dtype.type(momentum)
            running.storage.changed = next(clock)
    return group_norm(input, shape[1], weight, bias, eps)


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero each element with probability p and scale the others by 1 / (1 - p) (Srivastava et al., 2014)."""
    return _dropped("dropout", input, p, training, inplace, input.array)


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Dropout of whole channels of (N, C, L) or (C, L)."""
    if input.ndim not in (2, 3):
        raise RuntimeError(f"dropout1d: input must be (N, C, L) or (C, L), got shape {input.array.shape}")
    return _dropped("dropout1d", input, p, training, inplace, _one_each(input, input.ndim - 1))


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Dropout of whole channels of (N, C, H, W); the first two axes are N and C whatever follows them."""
    if input.ndim < 2:
        raise RuntimeError(f"dropout2d: input must be (N, C, H, W), got shape {input.array.shape}")
    return _dropped("dropout2d", input, p, training, inplace, _one_each(input, 2))


def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Dropout of whole channels of (N, C, D, H, W) or (C, D, H, W)."""
    if input.ndim < 2:
        raise RuntimeError(f"dropout3d: input must be (N, C, D, H, W), got shape {input.array.shape}")
    return _dropped("dropout3d", input, p, training, inplace, _one_each(input, 1 if input.ndim == 4 else 2))


def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Dropout that keeps mean 0 and variance 1, for SELU: what is dropped takes its lower limit (Klambauer, 2017)."""
    return _alpha_dropped("alpha_dropout", input, p, training, inplace, input.array)


def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Alpha dropout of whole channels of (N, C, *)."""
    if input.ndim < 2:
        raise RuntimeError(f"feature_alpha_dropout: input must be (N, C, *), got shape {input.array.shape}")
    return _alpha_dropped("feature_alpha_dropout", input, p, training, inplace, _one_each(input, 2))


SELU_LIMIT = 1.7580993408473766  # scale * alpha of SELU: -SELU_LIMIT is what it tends to on the left


def _alpha_dropped(name: str, input: Tensor, p: float, training: bool, inplace: bool, like: np.ndarray) -> Tensor:
    _check_probability(name, p)
    if not training or p == 0.0:
        return input
    if p == 1.0:
        return input.mul_(0.0) if inplace else input * 0.0
    keep = _kept(p, like).astype(input.array.dtype)
    scale = 1.0 / math.sqrt((SELU_LIMIT * SELU_LIMIT * p + 1.0) * (1.0 - p))
    shift = make(((keep - 1) * (SELU_LIMIT * scale) + SELU_LIMIT * scale * p).astype(keep.dtype, copy=False))
    factor = make((keep * scale).astype(keep.dtype, copy=False))
    return input.mul_(factor).add_(shift) if inplace else input * factor + shift


def _one_each(input: Tensor, lead: int) -> np.ndarray:
    """One entry for each of the first `lead` axes; they lie in the order of the axes, however the input does."""
    return np.empty((*input.array.shape[:lead], *(1,) * (input.ndim - lead)), bool)


def _check_probability(name: str, p: float) -> None:
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"{name}: p must be in [0, 1], got {p}")


def _kept(p: float, like: np.ndarray) -> np.ndarray:
    """What dropout keeps; drawn in the order in which the input lies, as PyTorch does."""
    return random.laid_out_like(like, lambda shape: random.default_generator.bernoulli(1.0 - p, shape))


def _dropped(name: str, input: Tensor, p: float, training: bool, inplace: bool, like: np.ndarray) -> Tensor:
    _check_probability(name, p)
    if not training or p == 0.0:
        return input
    if p == 1.0:  # nothing is drawn
        mask = make(np.zeros_like(input.array))
    else:
        mask = make(_kept(p, like).astype(input.array.dtype) * input.array.dtype.type(1.0 / (1.0 - p)))
    return input.mul_(mask) if inplace else input * mask


# --- padding ----------------------------------------------------------------------------------------------------------

PAD_MODES = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}  # PyTorch's names: NumPy's


def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """Add entries at the ends: pad = (left, right) for the last axis, then for the one before it, and so on.

    Negative numbers cut entries off. mode: "constant" (filled with `value`), "reflect", "replicate" or "circular".

    >>> from tinygrad_tf import tensor
    >>> pad(tensor([1, 2, 3]), (1, 2), value=9)
    tensor([9, 1, 2, 3, 9, 9])
    """
    ends = [int(n) for n in pad]
    if len(ends) % 2 or len(ends) > 2 * input.ndim:
        raise RuntimeError(f"pad: needs pairs of ends for at most {input.ndim} axes, got {tuple(pad)}")
    pairs = [(0, 0)] * (input.ndim - len(ends) // 2) + list(zip(ends[-2::-2], ends[::-2], strict=True))
    shape = tuple(n + a + b for n, (a, b) in zip(input.array.shape, pairs, strict=True))
    if min(shape, default=0) < 0:
        raise RuntimeError(f"pad: {tuple(pad)} cuts more than there is from a tensor of shape {input.array.shape}")
    if mode != "constant":
        return _padded_by_index(input, pairs, mode)
    kept = input[tuple(slice(max(-a, 0), n - max(-b, 0)) for n, (a, b) in zip(input.array.shape, pairs, strict=True))]
    if kept.array.shape == shape:
        return kept.clone()
    out = full(shape, 0 if value is None else value, dtype=input.dtype)
    out[tuple(slice(max(a, 0), m - max(b, 0)) for m, (a, b) in zip(shape, pairs, strict=True))] = kept
    return out


def _padded_by_index(input: Tensor, pairs: list[tuple[int, int]], mode: str) -> Tensor:
    """Padding that repeats entries is indexing by positions that were padded in the same way."""
    if mode not in PAD_MODES:
        raise NotImplementedError(f"pad: mode must be 'constant' or one of {sorted(PAD_MODES)}, got {mode!r}")
    for dim, (before, after) in enumerate(pairs):
        size = input.array.shape[dim]
        limit = {"reflect": size - 1, "circular": size}.get(mode, max(before, after))
        if max(before, after, 0) > max(limit, 0):
            raise RuntimeError(f"pad: {mode} can add {limit} entries to an axis of size {size}, got {(before, after)}")
        if before or after:
            input = input[(slice(None),) * dim + (make(_padded_places(size, before, after, mode)),)]
    return input


def _padded_places(size: int, before: int, after: int, mode: str) -> np.ndarray:
    """Which entry each place takes. Entries are cut off at the end, but what goes round is what is left of them."""
    places, added = np.arange(size), (max(before, 0), max(after, 0))
    cut = slice(max(-before, 0), size + sum(added) - max(-after, 0))
    if mode == "circular":
        return np.pad(places[max(-before, 0) : size - max(-after, 0)], added, mode="wrap")
    return np.pad(places, added, mode=PAD_MODES[mode])[cut]  # type: ignore[call-overload]


# --- lengths and distances --------------------------------------------------------------------------------------------


def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    """x / max(p-norm of x along dim, eps)."""
    return input / norm(input, p, dim, keepdim=True).clamp(min=eps)


def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """The p-norm of x1 - x2 + eps along the last axis."""
    return norm(x1 - x2 + eps, p, -1, keepdim)
