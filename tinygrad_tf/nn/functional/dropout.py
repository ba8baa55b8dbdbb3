"""Dropout: of elements, of whole channels, and with mean and variance kept."""

from __future__ import annotations

import math

import numpy as np

from tinygrad_tf import random
from tinygrad_tf._arguments import check_probability
from tinygrad_tf._layout import laid_out_like
from tinygrad_tf.engine import make
from tinygrad_tf.tensor import Tensor


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
    check_probability(f"{name}: p", p)
    if not training or p == 0.0:
        return input
    if p == 1.0:
        return input.mul_(0.0) if inplace else input * 0.0
    _check_kind(name, input)
    keep = _kept(p, like).astype(input.array.dtype)
    scale = 1.0 / math.sqrt((SELU_LIMIT * SELU_LIMIT * p + 1.0) * (1.0 - p))
    shift = make(((keep - 1) * (SELU_LIMIT * scale) + SELU_LIMIT * scale * p).astype(keep.dtype, copy=False))
    factor = make((keep * scale).astype(keep.dtype, copy=False))
    return input.mul_(factor).add_(shift) if inplace else input * factor + shift


def _one_each(input: Tensor, lead: int) -> np.ndarray:
    """One entry for each of the first `lead` axes; they lie in the order of the axes, however the input does."""
    return np.empty((*input.array.shape[:lead], *(1,) * (input.ndim - lead)), bool)


def _check_kind(name: str, input: Tensor) -> None:
    if input.array.dtype.kind in "iub":
        raise RuntimeError(f"{name}: input must be floating point to be scaled by 1 / (1 - p), got {input.dtype}")


def _kept(p: float, like: np.ndarray) -> np.ndarray:
    """What dropout keeps; drawn in the order in which the input lies, as PyTorch does."""
    return laid_out_like(like, lambda shape: random.default_generator.bernoulli(1.0 - p, shape))


def _dropped(name: str, input: Tensor, p: float, training: bool, inplace: bool, like: np.ndarray) -> Tensor:
    check_probability(f"{name}: p", p)
    if not training or p == 0.0:
        return input
    if p == 1.0:  # nothing is drawn
        mask = make(np.zeros_like(input.array))
    else:
        _check_kind(name, input)
        mask = make(_kept(p, like).astype(input.array.dtype) * input.array.dtype.type(1.0 / (1.0 - p)))
    return input.mul_(mask) if inplace else input * mask
