"""Scaled dot-product attention (Vaswani et al., 2017, equation 1), fused: the (Tq, Tk) scores are never stored."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinygrad_tf import kernels
from tinygrad_tf.engine import expand, fused, make
from tinygrad_tf.ops._precision import composed, lowered
from tinygrad_tf.ops._precision import state as precision
from tinygrad_tf.ops.elementwise import where
from tinygrad_tf.ops.linalg import matmul
from tinygrad_tf.ops.shape import reshape, transpose, unsqueeze
from tinygrad_tf.ops.softmax import softmax_reference


def allowed_positions(
    tq: int, tk: int, mask: np.ndarray | None, is_causal: bool, window: int | None = None
) -> np.ndarray | None:
    """Where a query may attend, as bools that broadcast to (B, H, Tq, Tk); None means everywhere.

    Causal is top-left: query i sees keys 0 ... i. With a window it sees no key before i - window + 1.
    """
    allowed = np.tri(tq, tk, dtype=bool) if is_causal else None
    if window is not None:
        near = ~np.tri(tq, tk, -window, dtype=bool)
        allowed = near if allowed is None else allowed & near
    if mask is None:
        return allowed
    open_ = mask if mask.dtype == bool else mask > -np.inf
    return open_ if allowed is None else open_ & allowed


@composed
def attention_reference(
    query: Any,
    key: Any,
    value: Any,
    mask: Any,
    *,
    is_causal: bool,
    scale: float,
    window: int | None = None,
    slopes: np.ndarray | None = None,
) -> Any:
    """softmax(Q K^T scale + mask) V; a query that may attend to nothing gets zeros."""
    key, value = repeat_heads(key, query.array.shape), repeat_heads(value, query.array.shape)
    weights = attention_weights(query, key, mask, is_causal=is_causal, scale=scale, window=window, slopes=slopes)
    return matmul(weights, value)


def repeat_heads(x: Any, like: tuple[int, ...]) -> Any:
    """Grouped queries: (..., Hk, T, D) with each head repeated, to the H heads of a query of shape `like`."""
    shape = x.array.shape
    if len(shape) < 3 or shape[-3] == like[-3]:
        return x
    *lead, h, t, d = shape
    times = like[-3] // h
    return reshape(expand(unsqueeze(x, -3), shape=(*lead, h, times, t, d)), shape=(*lead, h * times, t, d))


@composed
def attention_weights(
    query: Any,
    key: Any,
    mask: Any,
    *,
    is_causal: bool,
    scale: float,
    window: int | None = None,
    slopes: np.ndarray | None = None,
) -> Any:
    """The (B, H, Tq, Tk) weights themselves, by the plain formula; slopes (H,) adds slopes[h] (j - i) to the scores."""
    scores = matmul(query, transpose(key, -2, -1)) * scale
    if slopes is not None:
        scores = scores + make(distance_bias(slopes, *scores.array.shape[-2:]).astype(scores.array.dtype))
    return weights_of(scores, mask, is_causal=is_causal, window=window)


def distance_bias(slopes: np.ndarray, tq: int, tk: int) -> np.ndarray:
    """slopes[h] (j - i), as (H, Tq, Tk): ALiBi's bias (Press et al., 2022, section 3)."""
    return np.asarray(slopes)[:, None, None] * (np.arange(tk) - np.arange(tq)[:, None])


def weights_of(scores: Any, mask: Any, *, is_causal: bool, window: int | None = None) -> Any:
    """softmax(scores + mask) over the keys; zeros for a query that may attend to nothing."""
    plain = mask.array if hasattr(mask, "array") else mask
    memory = mask.storage if hasattr(mask, "storage") else None  # which `allowed` may lie in
    allowed = allowed_positions(scores.shape[-2], scores.shape[-1], plain, is_causal, window)
    if plain is not None and plain.dtype != bool:
        scores = scores + (where(make(plain > -np.inf), mask, 0.0) if hasattr(mask, "array") else make(plain))
    if allowed is None:
        return softmax_reference(scores, dim=scores.array.ndim - 1)
    some = np.asarray(allowed.any(-1, keepdims=True))
    scores = where(make(allowed, None, memory), scores, -math.inf)
    weights = softmax_reference(where(make(some), scores, 0.0), dim=scores.array.ndim - 1)
    return where(make(some), weights, 0.0)


def _attention_backward(
    g: np.ndarray,
    wanted: list[bool],
    kept: Any,
    query: np.ndarray,
    key: np.ndarray,
    value: np.ndarray,
    mask: Any,
    result: np.ndarray,
    is_causal: bool,
    scale: float,
    window: int | None,
    slopes: np.ndarray | None,
) -> tuple[Any, Any, Any, Any]:
    """With P the weights, D = rowsum(g * out): dV = P^T g, dS = P (g V^T - D), dQ = dS K scale, dK = dS^T Q scale."""
    return kernels.attention.attention_backward(
        g, query, key, value, mask, result, kept, is_causal, scale, wanted[3], window, slopes
    )


@fused(reference=attention_reference, backward=_attention_backward)
def attention_(
    query: np.ndarray,
    key: np.ndarray,
    value: np.ndarray,
    mask: Any,
    *,
    is_causal: bool,
    scale: float,
    window: int | None,
    slopes: np.ndarray | None,
) -> tuple[np.ndarray, np.ndarray]:
    return kernels.attention.attention(query, key, value, mask, is_causal, scale, window, slopes)


def attention(
    query: Any,
    key: Any,
    value: Any,
    mask: Any = None,
    *,
    is_causal: bool,
    scale: float,
    window: int | None = None,
    slopes: np.ndarray | None = None,
) -> Any:
    """softmax(Q K^T scale + mask) V for query (B, H, Tq, D), key (B, Hk, Tk, D), value (B, Hk, Tk, Dv).

    mask: bool (True = may attend) or float (added), broadcast to (B, H, Tq, Tk). is_causal: query i sees keys 0 ... i.
    window: query i sees keys j > i - window. slopes (H,), constants: slopes[h] (j - i) is added to the scores.
    """
    how: dict[str, Any] = {"is_causal": is_causal, "scale": scale, "window": window, "slopes": slopes}
    if precision.dtype is not None:
        return _lowered_attention(query, key, value, mask, **how)
    return attention_(query, key, value, mask, **how)


_lowered_attention = lowered(attention)
