"""Scaled dot-product attention with PyTorch's arguments: checks, masks, and the shapes that the kernel wants."""

from __future__ import annotations

import math

import numpy as np

from tinygrad_tf import ops
from tinygrad_tf.nn.functional.dropout import dropout
from tinygrad_tf.ops._precision import composed
from tinygrad_tf.ops._types import category, check_floats
from tinygrad_tf.ops.attention import attention, attention_weights, repeat_heads
from tinygrad_tf.tensor import Tensor


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """softmax(Q K^T / sqrt(D) + mask) V (Vaswani et al., 2017, equation 1).

    query (..., H, Tq, D), key (..., H, Tk, D), value (..., H, Tk, Dv) give (..., H, Tq, Dv). A bool mask is True where
    a query may attend (`nn.MultiheadAttention` has the opposite); a float mask is added to the scores; both broadcast
    to (..., H, Tq, Tk). is_causal lets query i see keys 0 ... i, counted from the first key also where Tq and Tk
    differ. A query that may attend to nothing gives zeros (in PyTorch, too). With enable_gqa, key and value may have
    fewer heads, each shared by a group of query heads.
    """
    q, k, v = query.array.shape, key.array.shape, value.array.shape
    if min(len(q), len(k), len(v)) < 2 or q[-1] != k[-1] or k[-2] != v[-2]:
        raise RuntimeError(
            "scaled_dot_product_attention: needs query (..., Tq, D), key (..., Tk, D), value (..., Tk, Dv), "
            f"got {q}, {k}, {v}"
        )
    for x in (query, key, value):
        check_floats("scaled_dot_product_attention", x)
    if attn_mask is not None and is_causal:
        raise RuntimeError("scaled_dot_product_attention: give attn_mask or is_causal=True, not both")
    if enable_gqa:
        _check_groups(q, k, v)
    scale = 1.0 / math.sqrt(max(q[-1], 1)) if scale is None else float(scale)
    if dropout_p > 0.0:
        key, value = (repeat_heads(t, q) if enable_gqa else t for t in (key, value))
        mask = _checked_mask(attn_mask, (*q[:-1], k[-2]))
        return _dropped(query, key, value, mask, dropout_p, is_causal, scale)
    if attn_mask is None and len(q) == len(k) == len(v) == 4 and q[:2] == k[:2] == v[:2]:  # nothing to broadcast
        return attention(query, key, value, is_causal=is_causal, scale=scale)
    own = 3 if enable_gqa else 2  # the last dimensions, which need not broadcast
    try:
        lead = np.broadcast_shapes(q[:-own], k[:-own], v[:-own])
    except ValueError:
        raise RuntimeError(
            f"scaled_dot_product_attention: the dimensions before the last {own} of query {q}, key {k} and value {v} "
            "must broadcast; for fewer key heads than query heads give enable_gqa=True"
        ) from None
    return _four_dimensional(query, key, value, attn_mask, lead, enable_gqa, is_causal, scale)


def _check_groups(q: tuple[int, ...], k: tuple[int, ...], v: tuple[int, ...]) -> None:
    if min(len(q), len(k), len(v)) < 3:
        raise IndexError(f"scaled_dot_product_attention: enable_gqa=True needs (..., H, T, D), got {q}, {k}, {v}")
    if q[-3] % max(k[-3], 1) or (q[-3] and not k[-3]):
        raise RuntimeError(f"scaled_dot_product_attention: {q[-3]} query heads are no multiple of {k[-3]} key heads")


@composed
def _dropped(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout_p: float, is_causal: bool, scale: float
) -> Tensor:
    """With dropout the weights are needed one by one, and so is memory for all of them."""
    weights = attention_weights(query, key, mask, is_causal=is_causal, scale=scale)
    return ops.linalg.matmul(dropout(weights, dropout_p), value)


def _checked_mask(mask: Tensor | None, scores: tuple[int, ...]) -> Tensor | None:
    if mask is None:
        return None
    if mask.array.dtype != bool and category(mask.array.dtype) != 2:
        raise RuntimeError(f"attention mask must be bool or floating point, got {mask.array.dtype}; use .bool()")
    shape = mask.array.shape
    fits = len(shape) <= len(scores) and all(
        m in (1, n) for m, n in zip(reversed(shape), reversed(scores), strict=False)
    )
    if not fits:
        letters = "(B, H, Tq, Tk)" if len(scores) == 4 else "(..., Tq, Tk)"
        raise RuntimeError(f"attention mask must broadcast to {letters} = {scores}, got {shape}")
    return mask


def _four_dimensional(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    lead: tuple[int, ...],
    gqa: bool,
    is_causal: bool,
    scale: float,
) -> Tensor:
    """Bring everything to (B, H, T, D) by views, as the kernel wants it, and back."""
    tq, tk = query.array.shape[-2], key.array.shape[-2]
    heads: tuple[int, ...] = (query.array.shape[-3],) if gqa else ()
    _checked_mask(mask, (*lead, *heads, tq, tk))
    four = []
    for t in (query, key, value):
        own = t.array.shape
        wanted = (*lead, own[-3], *own[-2:]) if gqa else (*lead, *own[-2:])
        x = t if own == wanted else t.expand(wanted)
        if len(wanted) < 4:
            x = x.reshape(*(1,) * (4 - len(wanted)), *wanted)
        elif len(wanted) > 4:
            x = x.reshape(math.prod(wanted[:-3]), *wanted[-3:])
        four.append(x)
    if mask is not None and len(lead) + len(heads) > 2:
        *before, count = *lead, *heads
        mask = mask.expand(*lead, *heads, tq, tk).reshape(math.prod(before), count, tq, tk)
    q, k, v = four
    out = attention(q, k, v, mask, is_causal=is_causal, scale=scale)
    shape = (*lead, *heads, tq, value.array.shape[-1])
    return out if out.array.shape == shape else out.reshape(shape)
