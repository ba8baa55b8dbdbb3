"""Cross-entropy, fused: log-softmax, the choice of the target's entry, and label smoothing in one pass."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinygrad_tf import kernels
from tinygrad_tf.engine import Tensor, fused, make, mode, primitive
from tinygrad_tf.ops._types import category, check_floats, promoted_to_float
from tinygrad_tf.ops.elementwise import log, maximum
from tinygrad_tf.ops.index import getitem
from tinygrad_tf.ops.reduce import mean_, mean_over, sum_
from tinygrad_tf.ops.shape import reshape
from tinygrad_tf.ops.softmax import log_softmax_
from tinygrad_tf.regions import wide


def cross_entropy_reference(logits: Any, *, target: Any, weight: Any, ignore_index: int, label_smoothing: float) -> Any:
    """The loss of each row: (1 - s) w_t (-log p_t) + s / V sum_v w_v (-log p_v), and 0 where the target is ignored."""
    n, v = logits.shape
    dtype = logits.array.dtype
    counts = target.array != ignore_index
    safe = np.where(counts, target.array, 0)
    weights = make(np.ones(v, dtype)) if weight is None else weight
    log_p = log_softmax_(logits, dim=1)
    own = getitem(log_p, index=(np.arange(n), safe)) * make(
        (weights.array[safe] * counts * -(1.0 - label_smoothing)).astype(dtype)
    )
    if label_smoothing == 0.0:
        return own
    smooth = sum_(log_p * weights, dims=(1,), keepdim=False)
    return own + smooth * make((counts * (-label_smoothing / v)).astype(dtype))


def _cross_entropy_backward(
    g: np.ndarray,
    wanted: list[bool],
    kept: Any,
    logits: np.ndarray,
    target: np.ndarray,
    weight: Any,
    ignore_index: int,
    label_smoothing: float,
) -> list[Any]:
    """dlogits = g (softmax(logits) - onehot(target)) for the plain case."""
    return [
        kernels.cross_entropy.cross_entropy_backward(g, logits, kept, target, weight, ignore_index, label_smoothing)
    ]


@fused(reference=cross_entropy_reference, backward=_cross_entropy_backward)
def cross_entropy_(
    logits: np.ndarray, *, target: np.ndarray, weight: Any, ignore_index: int, label_smoothing: float
) -> tuple[np.ndarray, np.ndarray]:
    return kernels.cross_entropy.cross_entropy(logits, target, weight, ignore_index, label_smoothing)


def _slope_of_probability(g: Any, p: Any, target: Any) -> Any:
    """(p - t) / (p (1 - p)), bounded as PyTorch bounds it: 0 where p is 0 or 1 and right."""
    return g * (p - target) / maximum(p * (1.0 - p), 1e-12)


def _slope_of_target(g: Any, p: Any) -> Any:
    return g * (maximum(log(1.0 - p), -100.0) - maximum(log(p), -100.0))


@primitive(prepare=promoted_to_float, p=_slope_of_probability, target=_slope_of_target)
def binary_cross_entropy_(p: Any, target: Any) -> np.ndarray:
    """-(t log p + (1 - t) log(1 - p)) for probabilities p; logarithms are cut at -100."""
    x, t = (np.asarray(a).astype(wide(p.dtype), copy=False) for a in (p, target))
    losses = (t - 1.0) * np.maximum(np.log1p(-x), -100.0) - t * np.maximum(np.log(x), -100.0)
    return losses.astype(p.dtype, copy=False)


def check_target(name: str, shape: tuple[int, ...], ids: np.ndarray, weight: Any) -> tuple[int, ...]:
    """The shape that the targets of logits (N, V), (V,) or (N, V, d1, ...) have; errors of PyTorch's types if not."""
    wanted = () if len(shape) < 2 else (shape[0], *shape[2:])
    if ids.shape != wanted:
        raise (ValueError if ids.shape[:1] != wanted[:1] else RuntimeError)(
            f"{name}: for input of shape {shape} the target must be {wanted}, got {ids.shape}"
        )
    check_weight(name, shape, weight)
    if weight is not None and mode.grad and weight.requires_grad:
        raise RuntimeError(f"{name}: weight gets no gradient for targets that are ids; give weight.detach()")
    return wanted


def check_weight(name: str, shape: tuple[int, ...], weight: Tensor | None) -> None:
    """Refuse a weight that is not one number for each class of logits of this shape."""
    classes = shape[min(1, len(shape) - 1)]
    if weight is not None and weight.array.shape != (classes,):
        raise RuntimeError(
            f"{name}: weight must have one entry for each of {classes} classes, got {weight.array.shape}"
        )


def check_label_smoothing(label_smoothing: float) -> None:
    if not 0.0 <= label_smoothing <= 1.0:
        raise RuntimeError(f"cross_entropy: label_smoothing must be in [0, 1], got {label_smoothing}")


def cross_entropy(
    x: Any,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Any:
    """PyTorch's cross_entropy for class indices: x (N, V), (V,) or (N, V, d1, ...), target without the V axis."""
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"cross_entropy: reduction must be 'mean', 'sum' or 'none', got {reduction!r}")
    check_label_smoothing(label_smoothing)
    shape, ids = x.array.shape, target.array
    check_floats("cross_entropy", x)
    if category(ids.dtype) != 1:
        raise RuntimeError(f"cross_entropy: targets must be integers, got {ids.dtype}; use .long()")
    wanted = check_target("cross_entropy", shape, ids, weight)
    rows = x.reshape(1, -1) if len(shape) == 1 else x
    if len(shape) > 2:
        rows = x.movedim(1, -1).reshape(-1, shape[1])
    losses = cross_entropy_(
        rows,
        target=target if ids.ndim == 1 else reshape(target, shape=(ids.size,)),
        weight=weight,
        ignore_index=ignore_index,
        label_smoothing=label_smoothing,
    )
    if reduction == "none":
        return losses.reshape(wanted)
    if reduction == "sum":
        return sum_(losses, dims=(0,), keepdim=False)
    counts = ids != ignore_index
    share = np.count_nonzero(counts) if weight is None else weight.array[ids[counts]].sum(dtype=np.float64)
    if share == ids.size:
        return mean_(losses, dims=(0,), keepdim=False)
    if not share and not counts.any():  # 0 / 0; but what counts for nothing has no gradient
        return sum_(losses, dims=(0,), keepdim=False) * 0.0 + math.nan
    return mean_over(float(share), losses)
