"""Scaled dot-product attention without the (Tq, Tk) scores, and its gradients.

Shapes: query (B, H, Tq, D), key (B, Hk, Tk, D), value (B, Hk, Tk, Dv), out (B, H, Tq, Dv), logsumexp (B, H, Tq); Hk
divides H, and head h reads key head h // (H // Hk).
"""
# mypy: allow-untyped-defs

from __future__ import annotations

import math

import numpy as np

from tinygrad_tf.kernels._attention_blocks import (
    BOOL_MASK,
    FLOAT_MASK,
    NO_MASK,
    UNLIMITED,
    attend_panels,
    attention_gradients,
)
from tinygrad_tf.kernels._rows import NATIVE
from tinygrad_tf.kernels._tiles import PANEL
from tinygrad_tf.kernels._vector import lane_count


# ---------------------------------------------------------------- from Python
def attention(query, key, value, mask, is_causal, scale, window=None, slopes=None):
    """softmax(Q K^T scale + mask) V and the logarithm of the softmax's denominators, (B, H, Tq).

    mask: None, bool (True = may attend) or float (added; -inf = may not), and broadcasts to (B, H, Tq, Tk).
    is_causal: query i sees keys 0 ... i. window: query i sees keys j > i - window. slopes: (H,), adds slope (j - i).
    A query that may attend to nothing gets zeros, and -inf. `out` lies in memory as (B, Tq, H, Dv).
    """
    dtype = query.dtype
    if dtype not in NATIVE or key.dtype != dtype or value.dtype != dtype:
        working = working_dtype(query, key, value)
        converted = (x.astype(working, copy=False) for x in (query, key, value))
        out, logsumexp = attention(*converted, mask, is_causal, scale, window, slopes)
        return out.astype(np.result_type(query, key, value), copy=False), logsumexp
    shape = B, H, Tq, D = query.shape
    Hk, Tk, Dv = value.shape[1:]
    check_shapes(shape, key.shape, value.shape)
    out = np.empty((B, Tq, H, Dv), dtype)
    logsumexp = np.empty((B, H, Tq), dtype)
    query, query_place = place(query)
    key, key_place = place(key)
    value, value_place = place(value)
    mask, mask_place = place_mask(mask, dtype, (B, H, Tq, Tk))
    panels = B * H * math.ceil(Tq / (PANEL * lane_count(dtype.itemsize)))
    per_block = max(1, panels // 16)
    attend_panels(
        math.ceil(panels / per_block), per_block, panels, (B, H, H // max(Hk, 1), Tq, Tk, D, Dv), query_place, key_place,
        value_place, mask_place, out.ravel(), logsumexp.ravel(), slope_array(slopes, dtype, H), bool(is_causal),
        UNLIMITED if window is None else int(window), dtype.type(scale),
    )  # fmt: skip
    return out.transpose(0, 2, 1, 3), logsumexp


def attention_backward(
    g, query, key, value, mask, out, logsumexp, is_causal, scale, need_mask=False, window=None, slopes=None
):
    """The gradients for query, key, value and, with `need_mask`, for a float mask (else None)."""
    dtype = query.dtype
    arrays = g, query, key, value, out
    if dtype not in NATIVE or any(x.dtype != dtype for x in arrays):
        working = working_dtype(*arrays)
        g, *others, out = (x.astype(working, copy=False) for x in arrays)
        logsumexp = logsumexp.astype(working, copy=False)
        results = attention_backward(g, *others, mask, out, logsumexp, is_causal, scale, need_mask, window, slopes)
        wanted = (query, key, value, mask)
        return tuple(None if r is None else r.astype(x.dtype, copy=False) for r, x in zip(results, wanted, strict=True))
    shape = B, H, Tq, D = query.shape
    Hk, Tk, Dv = value.shape[1:]
    check_shapes(shape, key.shape, value.shape)
    query, query_place = place(query)
    key, key_place = place(key)
    value, value_place = place(value)
    g, g_place = place(g)
    out, out_place = place(out)
    placed_mask, mask_place = place_mask(mask, dtype, (B, H, Tq, Tk))
    chunks = max(1, min(Tk // 128, math.ceil(16 / max(1, B * Hk))))
    chunk = math.ceil(Tk / chunks)
    dquery = np.empty((chunks, B, Tq, H, D), dtype)
    dkey, dvalue = np.empty((B, Tk, Hk, D), dtype), np.empty((B, Tk, Hk, Dv), dtype)
    attention_gradients(
        B * Hk * chunks, chunks, chunk, (B, H, H // max(Hk, 1), Tq, Tk, D, Dv), g_place, query_place, key_place,
        value_place, mask_place, out_place, logsumexp.ravel(), slope_array(slopes, dtype, H), bool(is_causal),
        UNLIMITED if window is None else int(window), dtype.type(scale), dquery.ravel(), dkey.ravel(), dvalue.ravel(),
    )  # fmt: skip
    dquery = dquery[0] if chunks == 1 else dquery.sum(0)
    dmask = None
    if need_mask:
        dmask = mask_gradient(g, query, key, value, mask, out, logsumexp, is_causal, scale, window, slopes)
    return dquery.transpose(0, 2, 1, 3), dkey.transpose(0, 2, 1, 3), dvalue.transpose(0, 2, 1, 3), dmask


def check_shapes(query, key, value):
    """The kernels go to memory by address, so nothing may get past here that does not fit."""
    if len(query) != 4 or len(key) != 4 or len(value) != 4 or not (
        query[0] == key[0] == value[0] and query[3] == key[3] and key[1:3] == value[1:3]
        and (query[1] % key[1] == 0 if key[1] else query[1] == 0)
    ):  # fmt: skip
        raise ValueError(
            "attention takes query (B, H, Tq, D), key (B, Hk, Tk, D), value (B, Hk, Tk, Dv) with H a multiple of Hk, "
            f"got {query}, {key}, {value}"
        )


def place(x):
    """(x, (address, strides of batch, head and row in elements)); x is copied if its rows are not contiguous."""
    size = x.itemsize
    batch, head, row, column = x.strides
    if (column != size and x.shape[3] > 1) or batch % size or head % size or row % size or not x.flags.aligned:
        x = np.array(x, order="C")
        batch, head, row, column = x.strides
    return x, (x.__array_interface__["data"][0], batch // size, head // size, row // size)


def place_mask(mask, dtype, shape):
    """(mask, (address, kind, its four strides in elements))."""
    if mask is None:
        return None, (0, NO_MASK, 0, 0, 0, 0)
    if mask.dtype != bool and mask.dtype != dtype:
        mask = mask.astype(dtype)
    if any(stride % mask.itemsize for stride in mask.strides) or not mask.flags.aligned:
        mask = np.array(mask, order="C")
    mask = np.broadcast_to(mask, shape)
    strides = (stride // mask.itemsize for stride in mask.strides)
    return mask, (mask.__array_interface__["data"][0], BOOL_MASK if mask.dtype == bool else FLOAT_MASK, *strides)


def slope_array(slopes, dtype, heads):
    if slopes is None:
        return np.empty(0, dtype)
    if np.shape(slopes) != (heads,):
        raise ValueError(f"slopes must have shape (H,) = ({heads},), got {np.shape(slopes)}")
    return np.array(slopes, dtype)


def working_dtype(*arrays):
    """Where the work is done: float32 for the half types, float64 for what is wider than float32."""
    return np.dtype(np.float64 if any(x.dtype.itemsize > 4 for x in arrays) else np.float32)


# ---------------------------------------------------------------- the plain formulas
def reference(query, key, value, mask, is_causal, scale, window=None, slopes=None):
    """What `attention` computes, with all scores in memory."""
    group = query.shape[1] // key.shape[1]
    key, value = key.repeat(group, axis=1), value.repeat(group, axis=1)
    scores = query @ key.swapaxes(-1, -2) * dtype_of(query)(scale)
    scores = restricted(scores, 0, mask, is_causal, window, slopes)
    top = scores.max(-1, keepdims=True, initial=-np.inf)
    weights = np.exp(scores - np.where(top > -np.inf, top, 0))
    total = weights.sum(-1, keepdims=True)
    with np.errstate(divide="ignore"):
        logsumexp = np.where(top > -np.inf, top + np.log(total), -np.inf)[..., 0]
    return weights / np.where(total > 0, total, 1) @ value, logsumexp


def dtype_of(x):
    return x.dtype.type


def restricted(scores, first_query, mask, is_causal, window, slopes):
    """Scores (B, H, rows, Tk) of the queries from first_query on, with mask and slopes; -inf where none may look."""
    rows, Tk = scores.shape[-2:]
    distance = np.arange(Tk) - np.arange(first_query, first_query + rows)[:, None]
    if slopes is not None:
        scores = scores + np.asarray(slopes, scores.dtype)[:, None, None] * distance.astype(scores.dtype)
    if mask is not None:
        if mask.ndim >= 2 and mask.shape[-2] > 1:
            mask = mask[..., first_query : first_query + rows, :]
        if mask.dtype == bool:
            scores = np.where(mask, scores, -np.inf)
        else:
            scores = np.where(mask == -np.inf, -np.inf, scores + mask.astype(scores.dtype))
    hidden = (distance > 0) if is_causal else np.zeros(distance.shape, bool)
    if window is not None:
        hidden |= distance <= -window
    return np.where(hidden, scores.dtype.type(-np.inf), scores)


def mask_gradient(g, query, key, value, mask, out, logsumexp, is_causal, scale, window, slopes):
    """The gradient for a float mask: weights * (g V^T - rowsum(g * out)), some rows of one head at a time."""
    total = np.zeros(mask.shape, query.dtype)
    view = total.reshape((1,) * (4 - mask.ndim) + mask.shape)
    B, H, Tq, D = query.shape
    group = H // key.shape[1]
    step = 256
    ranges = [(b, h, i) for b in range(B) for h in range(H) for i in range(0, Tq, step)]
    for b, h, i in ranges:
        rows = slice(i, i + step)
        one = (slice(b, b + 1), slice(h, h + 1), rows)
        head_mask = mask_of_head(mask, b, h)
        scores = query[one] @ key[b : b + 1, h // group, None].swapaxes(-1, -2) * query.dtype.type(scale)
        scores = restricted(scores, i, head_mask, is_causal, window, None if slopes is None else slopes[h : h + 1])
        shift = logsumexp[one][..., None]
        weights = np.exp(scores - np.where(shift > -np.inf, shift, 0))
        upper = g[one] @ value[b : b + 1, h // group, None].swapaxes(-1, -2)
        gradient = weights * (upper - (g[one] * out[one]).sum(-1, keepdims=True))
        gradient = np.where(weights > 0, gradient, 0)
        target = mask_of_head(view, b, h)
        target = target if target.shape[2] == 1 else target[:, :, rows]
        axes = tuple(axis for axis in (2, 3) if target.shape[axis] == 1)
        target += gradient.sum(axes, keepdims=True)
    return total


def mask_of_head(mask, b, h):
    """The part of a mask that speaks of one batch entry and head, as (1, 1, Tq or 1, Tk or 1)."""
    mask = mask.reshape((1,) * (4 - mask.ndim) + mask.shape)
    b, h = (b if mask.shape[0] > 1 else 0), (h if mask.shape[1] > 1 else 0)
    return mask[b : b + 1, h : h + 1]
