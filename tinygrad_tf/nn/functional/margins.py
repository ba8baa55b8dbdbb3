"""Losses that want scores, or distances, apart by a margin."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tinygrad_tf.engine import make
from tinygrad_tf.nn.functional._reduction import check_same_shape, reduced, reduction_of
from tinygrad_tf.nn.functional.distance import pairwise_distance
from tinygrad_tf.ops._places import check_range
from tinygrad_tf.ops._precision import raised
from tinygrad_tf.ops._types import check_floats
from tinygrad_tf.ops.activation import softplus
from tinygrad_tf.ops.elementwise import clamp, minimum, relu, sqrt, where
from tinygrad_tf.tensor import Tensor

# --- scores -----------------------------------------------------------------------------------------------------------


@raised
def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The distance `input` itself where target is 1, max(0, margin - input) where it is -1."""
    reduction = reduction_of(size_average, reduce, reduction)
    check_floats("hinge_embedding_loss", input)
    near = where(target != -1, input, 0.0)
    far = where(target != 1, clamp(margin - input, 0), 0.0)
    return reduced("hinge_embedding_loss", near + far, reduction)


@raised
def soft_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """log(1 + exp(-target input)), with target 1 or -1."""
    reduction = reduction_of(size_average, reduce, reduction)
    check_floats("soft_margin_loss", input)
    return reduced("soft_margin_loss", softplus(-target * input), reduction)


@raised
def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The sum over the other classes of max(0, margin - own score + other score)^p, over C; input (N, C) or (C,)."""
    reduction = reduction_of(size_average, reduce, reduction)
    if p not in (1, 2):
        raise ValueError(f"multi_margin_loss: p must be 1 or 2, got {p}")
    if input.ndim not in (1, 2) or tuple(target.shape) not in (tuple(input.shape[:-1]), (1,) * (2 - input.ndim)):
        shapes = f"got {tuple(input.shape)} and {tuple(target.shape)}"
        raise RuntimeError(f"multi_margin_loss: input must be (N, C) or (C,), and target (N,) or a number, {shapes}")
    check_floats("multi_margin_loss", input)
    rows, classes = input.reshape(-1, input.shape[-1]), target.reshape(-1)
    check_range("multi_margin_loss: target", classes.array, rows.shape[1], 1)
    if weight is not None and weight.array.shape != (rows.shape[1],):
        found = weight.array.shape
        raise RuntimeError(
            f"multi_margin_loss: weight must have one entry for each of {rows.shape[1]} classes, got {found}"
        )
    own = rows.gather(1, classes.unsqueeze(1))
    apart = relu(margin - own + rows) ** p
    others = make(np.arange(rows.shape[1]) != classes.array[:, None])
    losses = where(others, apart, 0.0)
    if weight is not None:
        losses = losses * weight[classes].unsqueeze(1)
    return reduced("multi_margin_loss", losses.mean(1).reshape(input.shape[:-1]), reduction)


@raised
def multilabel_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The sum of max(0, 1 - score of a label + score of no label) over all such pairs, over C; input (N, C) or (C,).

    A row of `target` holds the numbers of its labels, and -1 behind the last one.
    """
    reduction = reduction_of(size_average, reduce, reduction)
    check_same_shape("multilabel_margin_loss", input, target)
    if input.ndim > 2:
        raise RuntimeError(f"multilabel_margin_loss: input must be (N, C) or (C,), got {tuple(input.shape)}")
    check_floats("multilabel_margin_loss", input)
    if input.ndim == 0:  # one class
        input, target = input.reshape(1), target.reshape(1)
    rows, ids = input.reshape(-1, input.shape[-1]), target.array.reshape(-1, input.shape[-1])
    given = np.cumprod(ids >= 0, axis=1).astype(bool)
    ids = np.where(given, ids, 0)
    check_range("multilabel_margin_loss: target", ids, rows.shape[1], 1)
    labels = np.zeros(rows.shape, bool)
    np.logical_or.at(labels, (np.arange(len(ids))[:, None], ids), given)
    own = rows.gather(1, make(ids))
    apart = relu(1.0 - own.unsqueeze(2) + rows.unsqueeze(1))
    losses = where(make(given[:, :, None] & ~labels[:, None, :]), apart, 0.0).sum((1, 2)) / rows.shape[1]
    return reduced("multilabel_margin_loss", losses.reshape(input.shape[:-1]), reduction)


# --- pairs and triplets -----------------------------------------------------------------------------------------------


@raised
def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """1 - cos where the target is 1, max(0, cos - margin) where it is -1, and 0 elsewhere."""
    reduction = reduction_of(size_average, reduce, reduction)
    if not input1.ndim == input2.ndim == target.ndim + 1 or target.ndim > 1:
        got = ", ".join(str(t.array.shape) for t in (input1, input2, target))
        raise RuntimeError(f"cosine_embedding_loss: needs (N, D), (N, D), (N,) or (D,), (D,), (), got {got}")
    square1, square2 = (input1 * input1).sum(-1), (input2 * input2).sum(-1)
    cosine = (input1 * input2).sum(-1) / sqrt((square1 + 1e-12) * (square2 + 1e-12))
    losses = where(target == 1, 1.0 - cosine, where(target == -1, clamp(cosine - margin, 0.0), 0.0))
    return reduced("cosine_embedding_loss", losses, reduction)


def _check_dimensions(name: str, *tensors: Tensor) -> None:
    if len({t.ndim for t in tensors}) > 1:
        got = ", ".join(str(t.array.shape) for t in tensors)
        raise RuntimeError(f"{name}: all tensors need as many dimensions, got {got}")


@raised
def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """max(0, margin - target (input1 - input2)), with target 1 or -1."""
    reduction = reduction_of(size_average, reduce, reduction)
    _check_dimensions("margin_ranking_loss", input1, input2, target)
    losses = clamp(-target * (input1 - input2) + margin, 0)
    return reduced("margin_ranking_loss", losses, reduction)


@raised
def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """max(0, |anchor - positive| - |anchor - negative| + margin) (Schroff et al., 2015)."""
    if not margin > 0:
        raise ValueError(f"triplet_margin_loss: margin must be above 0, got {margin}")
    _check_dimensions("triplet_margin_loss", anchor, positive, negative)
    reduction = reduction_of(size_average, reduce, reduction)
    near, far = pairwise_distance(anchor, positive, p, eps), pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = minimum(far, pairwise_distance(positive, negative, p, eps))
    return reduced("triplet_margin_loss", clamp(near - far + margin, 0), reduction)


@raised
def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """max(0, margin + distance(anchor, positive) - distance(anchor, negative)), for any distance of pairs."""
    if not margin > 0:
        raise ValueError(f"triplet_margin_with_distance_loss: margin must be above 0, got {margin}")
    distance = pairwise_distance if distance_function is None else distance_function
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = minimum(far, distance(positive, negative))
    return reduced("triplet_margin_with_distance_loss", clamp(margin + near - far, 0), reduction)
