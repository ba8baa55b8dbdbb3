"""Scaled dot-product attention without the (Tq, Tk) scores, and its gradients (Dao et al., 2022, has the idea).

Shapes: query (B, H, Tq, D), key (B, Hk, Tk, D), value (B, Hk, Tk, Dv), out (B, H, Tq, Dv), logsumexp (B, H, Tq); Hk
divides H, and head h reads key head h // (H // Hk).

Cost, for each pair of a query and a key that it may see: D + Dv multiply-adds forward and 3 D + 2 Dv backward (the
scores are computed again), and one exponential each time. At D = 64 the exponential is a tenth of it, so the products
decide: they run at 0.9 of the speed of `matmul`, from blocks that stay in cache. Memory is that of the results, and of
scratch that does not grow beyond some 1000 keys (where heads are few, up to 8 parts of dquery are added up as well).
Blocks above the causal diagonal and outside of the window are skipped.

- A panel is 2 registers of queries, in lanes: scores^T = K Q^T takes the keys as they lie (only Q is transposed, once a
  panel), maxima and sums over keys are sums of registers, and out^T = V^T P takes the values as they lie.
- 128 keys at a time, with an online softmax: their scores (16 KiB) stay in the first-level cache.
- Up to 6 queries (generation): dot products along D, the keys in lanes, at the speed of reading the cache.
- Common cases of float32 and bfloat16 go to the processor's matrix tiles, where it has any: `_attention_tiles.py`.
- Forward units are some panels, backward units some key heads, or parts of their keys where heads are few.

Versions, microseconds on one core (AVX-512, 2.6 GHz), forward / backward, for (B, H, T, D)
                                        12 x 4 x 64 x 32 causal   4 x 6 x 256 x 64 causal   1 x 1 x 1024 x 64
    panels, 12-row tiles, plain loops         404 /  935               2635 /  6964            2166 / 6361
    vector code between the products          294 /  673               2300 /  6048            2124 / 5610
    8-row tiles, out^T, aligned copies        226 /  649               1851 /  5168            1900 / 5101
    half of the diagonal skipped              188 /  514               1792 /  4432            1763 / 4611
    PyTorch 2.13, one thread                  364 /   -                3564 /    -             1833 /   -
A tile of 8 rows wins because 32 queries and 32, 64 or 128 columns are multiples of 8, not of 12. Blocks of 64 or 256
keys are 1 to 4 % slower.
"""
# mypy: allow-untyped-defs

from __future__ import annotations

import math

import numpy as np

from tinygrad_tf.kernels import _attention_tiles as on_tiles
from tinygrad_tf.kernels._attention_backward import attention_gradients
from tinygrad_tf.kernels._attention_forward import attend_panels, attend_rows
from tinygrad_tf.kernels._attention_layout import arrays_like, place, rows_of
from tinygrad_tf.kernels._attention_scores import BOOL_MASK, FLOAT_MASK, NO_MASK, UNLIMITED
from tinygrad_tf.kernels._operands import address_of
from tinygrad_tf.kernels._rows import NATIVE
from tinygrad_tf.kernels._tiles import PANEL
from tinygrad_tf.kernels._vector import lane_count
from tinygrad_tf.kernels.cast import cast

FEW = 6  # queries: up to here, one by one is faster than a panel
LARGE = 32  # scores: up to here, their rounding moves weights by no more than that of other sums does
SMALLEST_BLOCK = 1 << 20  # multiply-adds: some ten microseconds, against one or two for another thread to come
SMALLEST_BLOCK_OF_ROWS = 1 << 17  # one by one, each number that is read is used once
PARTS, PART = 8, 128  # units of the backward pass that are wanted at least, and keys that each has at least


def attention(query, key, value, mask, is_causal, scale, window=None, slopes=None):
    """(out, logsumexp): softmax(Q K^T scale + mask) V, and the logarithms of the softmax's denominators.

    mask: None, bool (True = may attend) or float (added; -inf = may not); it broadcasts to (B, H, Tq, Tk).
    is_causal: query i sees the keys 0 ... i. window: query i sees the keys j > i - window. slopes: (H,); slope (j - i)
    is added to the scores. A query that may attend to nothing gets zeros, and -inf. `out` lies in memory as
    (B, Tq, H, Dv), so that merging the heads copies nothing. float16 is computed in float32, and so is bfloat16
    without matrix tiles.
    """
    if mask is None and window is None and slopes is None:
        _checked(query.shape, key.shape, value.shape)
        if on_tiles.takes(query, key, value, scale):
            result = on_tiles.attention(query, key, value, is_causal, scale)
            if result is not None:
                return result
    dtype = query.dtype
    if dtype not in NATIVE or key.dtype != dtype or value.dtype != dtype:
        working = _working_dtype(query, key, value)
        result = np.result_type(query, key, value)
        query, key, value = (cast(x, working) for x in (query, key, value))
        out, logsumexp = attention(query, key, value, mask, is_causal, scale, window, slopes)
        return cast(out, result), logsumexp
    (B, H, Tq, D), (_, Hk, Tk, Dv) = _checked(query.shape, key.shape, value.shape)
    if not D:
        query, key = np.zeros((B, H, Tq, 1), dtype), np.zeros((B, Hk, Tk, 1), dtype)
    mask = _broadcast(mask, dtype, (B, H, Tq, Tk))
    memory, logsumexp = np.empty((B, Tq, H, Dv), dtype), np.empty((B, H, Tq), dtype)
    out = memory.transpose(0, 2, 1, 3)
    rest = is_causal, scale, window, slopes, memory.ravel(), logsumexp.ravel()
    if Tq == 1 and Hk != H and slopes is None and window is None:
        # One query, grouped: the heads of a group take the place of queries, for they read the same keys.
        Tk = min(Tk, 1) if is_causal else Tk
        grouped = query.reshape(B, Hk, H // Hk, -1), key[:, :, :Tk], value[:, :, :Tk]
        mask = mask if mask is None else mask[..., :Tk].reshape(B, Hk, H // Hk, Tk)
        _attend(*grouped, mask, False, *rest[1:], (H * Dv, H // Hk * Dv, Dv))
    else:
        _attend(query, key, value, mask, *rest, (Tq * H * Dv, Dv, H * Dv))
    return out, logsumexp


def _attend(query, key, value, mask, is_causal, scale, window, slopes, memory, logsumexp, target, few=FEW):
    """Write out[b, h, i] to memory[b * target[0] + h * target[1] + i * target[2] ...], and logsumexp.

    Up to `few` queries are done one by one, others in panels.
    """
    dtype = query.dtype
    B, H, Tq, D = query.shape
    Hk, Tk, Dv = value.shape[1:]
    query, query_place = place(query)
    key, key_place = place(key)
    value, value_place = place(value)
    if Tq > few:
        width = PANEL * lane_count(dtype.itemsize)
        run, total = attend_panels, B * H * math.ceil(Tq / width)
        each = SMALLEST_BLOCK // (width * Tk * (D + Dv) + 1)
    else:
        run, total, each = attend_rows, B * H, SMALLEST_BLOCK_OF_ROWS // (Tq * Tk * (D + Dv) + 1)
    each = max(1, min(each, total))
    run(
        math.ceil(total / each), each, total, (H, H // max(Hk, 1), Tq, Tk, D, Dv), query_place, key_place, value_place,
        _place_mask(mask), memory, target, logsumexp, _slopes(slopes, dtype, H), bool(is_causal), _window(window),
        dtype.type(scale),
    )  # fmt: skip


def _logsumexp_of_panels(query, key, value, mask, is_causal, scale, window, slopes):
    """The logarithms of the denominators, of scores with the bits that the backward pass gives them.

    Few queries have been done one by one, in sums of another order. exp(score - logsumexp) tells how far apart the two
    are, and that grows with the scores: of 1e4 in float32, weights would be off by a thousandth, and soon be above 1.
    """
    B, H, Tq, _ = query.shape
    Dv = value.shape[3]
    memory, logsumexp = np.empty(B * Tq * H * Dv, query.dtype), np.empty((B, H, Tq), query.dtype)
    _attend(
        query, key, value, mask, is_causal, scale, window, slopes,
        memory, logsumexp.ravel(), (Tq * H * Dv, Dv, H * Dv), few=0,
    )  # fmt: skip
    return logsumexp


def attention_backward(
    g, query, key, value, mask, out, logsumexp, is_causal, scale, need_mask=False, window=None, slopes=None
):
    """(dquery, dkey, dvalue, dmask) from the gradient g of `out`; dmask is None unless a float mask needs it.

    The gradients of query, key and value lie in memory as (B, T, H, D), like `out`; where query, key and value are
    slices of one (B, T, ...) projection, so are they, of one new array: put together again, they need not be copied.
    """
    if mask is None and window is None and slopes is None:
        _checked_gradients(g, query, key, value, out, logsumexp)
        if g.dtype == out.dtype == query.dtype and on_tiles.takes(query, key, value, scale):
            found = on_tiles.attention_backward(g, query, key, value, out, logsumexp, is_causal, scale)
            if found is not None:
                return *found, None
    dtype = query.dtype
    arrays = g, query, key, value, out
    if dtype not in NATIVE or any(x.dtype != dtype for x in arrays):
        working = _working_dtype(*arrays)
        wanted = query, key, value, mask
        g, query, key, value, out = (cast(x, working) for x in arrays)
        logsumexp = logsumexp.astype(working, copy=False)
        results = attention_backward(
            g, query, key, value, mask, out, logsumexp, is_causal, scale, need_mask, window, slopes
        )
        return tuple(None if r is None else cast(r, x.dtype) for r, x in zip(results, wanted, strict=True))
    _checked_gradients(g, query, key, value, out, logsumexp)
    (B, H, Tq, D), (_, Hk, Tk, Dv) = query.shape, value.shape
    if not (D and Dv):
        g, query, key, value, out = (x if x.shape[3] else np.zeros((*x.shape[:3], 1), dtype) for x in arrays)
        results = attention_backward(
            g, query, key, value, mask, out, logsumexp, is_causal, scale, need_mask, window, slopes
        )
        return results[0][..., :D], results[1][..., :D], results[2][..., :Dv], results[3]
    dmask = None
    if need_mask:
        dmask = _mask_gradient(g, query, key, value, mask, out, is_causal, scale, window, slopes)
    mask = _broadcast(mask, dtype, (B, H, Tq, Tk))
    if Tq <= FEW and (np.abs(logsumexp) > LARGE).any():
        logsumexp = _logsumexp_of_panels(query, key, value, mask, is_causal, scale, window, slopes)
    query, query_place = place(query)
    key, key_place = place(key)
    value, value_place = place(value)
    g, g_place = place(g)
    out, out_place = place(out)
    parts = max(1, min(math.ceil(PARTS / max(1, B * Hk)), Tk // PART))
    total = B * Hk * parts
    each = max(1, min(total, SMALLEST_BLOCK * parts // (3 * H // max(Hk, 1) * Tq * Tk * (D + Dv) + 1)))
    gradients = arrays_like(query, key, value)
    dquery, dkey, dvalue = gradients
    shares = np.empty((parts if parts > 1 else 0, B, Tq, H, D), dtype)
    dquery = shares[0] if parts > 1 else dquery
    attention_gradients(
        math.ceil(total / each), each, total, parts, (B, H, H // max(Hk, 1), Tq, Tk, D, Dv), g_place, query_place,
        key_place, value_place, _place_mask(mask), out_place, logsumexp.ravel(), _slopes(slopes, dtype, H),
        bool(is_causal), _window(window), dtype.type(scale), *(rows_of(x) for x in (dquery, dkey, dvalue)),
    )  # fmt: skip
    if parts > 1:
        shares.sum(0, out=gradients[0])
    return *(x.transpose(0, 2, 1, 3) for x in gradients), dmask


# ---------------------------------------------------------------- what the kernels are given
def _checked(query, key, value):
    """The shapes of query and value. The kernels go to memory by address: what does not fit must not get past here."""
    if not (
        len(query) == len(key) == len(value) == 4
        and query[0] == key[0] == value[0] and query[3] == key[3] and key[1:3] == value[1:3]
        and (query[1] % key[1] == 0 if key[1] else query[1] == 0)
    ):  # fmt: skip
        raise ValueError(
            "attention takes query (B, H, Tq, D), key (B, Hk, Tk, D), value (B, Hk, Tk, Dv) with H a multiple of Hk, "
            f"got {query}, {key}, {value}"
        )
    return query, value


def _checked_gradients(g, query, key, value, out, logsumexp):
    (B, H, Tq, _), (*_, Dv) = _checked(query.shape, key.shape, value.shape)
    if g.shape != (B, H, Tq, Dv) or out.shape != g.shape or logsumexp.shape != (B, H, Tq):
        raise ValueError(
            f"attention_backward: g and out must be (B, H, Tq, Dv) = {(B, H, Tq, Dv)} and logsumexp (B, H, Tq), "
            f"got {g.shape}, {out.shape} and {logsumexp.shape}"
        )


def _broadcast(mask, dtype, shape):
    """The mask in four dimensions, bool or of this float type."""
    if mask is None:
        return None
    if mask.dtype != bool and mask.dtype != dtype:
        mask = mask.astype(dtype)
    if not mask.flags.aligned or any(stride % mask.itemsize for stride in mask.strides):
        mask = np.array(mask, order="C")
    try:
        return np.broadcast_to(mask, shape)
    except ValueError:
        raise ValueError(f"attention mask must broadcast to (B, H, Tq, Tk) = {shape}, got {mask.shape}") from None


def _place_mask(mask):
    """(address, kind, its four strides in elements)."""
    if mask is None:
        return 0, NO_MASK, 0, 0, 0, 0
    size, kind = mask.itemsize, BOOL_MASK if mask.dtype == bool else FLOAT_MASK
    return (address_of(mask), kind, *(stride // size for stride in mask.strides))


def _slopes(slopes, dtype, heads):
    if slopes is None:
        return NO_SLOPES[dtype]
    if np.shape(slopes) != (heads,):
        raise ValueError(f"attention slopes must be (H,) = ({heads},), got {np.shape(slopes)}")
    return np.array(slopes, dtype)


NO_SLOPES = {dtype: np.empty(0, dtype) for dtype in NATIVE}


def _window(window):
    return UNLIMITED if window is None else int(window)


def _working_dtype(*arrays):
    """Where the work is done: float32 for the half types, float64 for what is wider than float32."""
    return np.dtype(np.float64 if any(x.dtype.itemsize > 4 for x in arrays) else np.float32)


# ---------------------------------------------------------------- the plain formulas
def reference(query, key, value, mask, is_causal, scale, window=None, slopes=None):
    """What `attention` computes, with all scores in memory."""
    group = query.shape[1] // key.shape[1]
    key, value = key.repeat(group, axis=1), value.repeat(group, axis=1)
    scores = query @ key.swapaxes(-1, -2) * dtype_of(query)(scale)
    scores = restricted(scores, 0, mask, is_causal, window, slopes)
    weights, logsumexp = _weights(scores)
    return weights @ value, logsumexp


def _weights(scores):
    """The softmax over the last axis, zeros where all is -inf, and the logarithms of its denominators."""
    top = scores.max(-1, keepdims=True, initial=-np.inf)
    weights = np.exp(scores - np.where(top > -np.inf, top, 0))
    total = weights.sum(-1, keepdims=True)
    with np.errstate(divide="ignore"):
        logsumexp = np.where(top > -np.inf, top + np.log(total), -np.inf)[..., 0]
    return weights / np.where(total > 0, total, 1), logsumexp


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


def _mask_gradient(g, query, key, value, mask, out, is_causal, scale, window, slopes):
    """The gradient for a float mask: weights * (g V^T - rowsum(g * out)), some rows of one head at a time."""
    total = np.zeros(mask.shape, query.dtype)
    view = total.reshape((1,) * (4 - mask.ndim) + mask.shape)
    B, H, Tq = query.shape[:3]
    group = H // key.shape[1]
    step = 256
    ranges = [(b, h, i) for b in range(B) for h in range(H) for i in range(0, Tq, step)]
    for b, h, i in ranges:
        rows = slice(i, i + step)
        one = (slice(b, b + 1), slice(h, h + 1), rows)
        head_mask = _mask_of_head(mask, b, h)
        scores = query[one] @ key[b : b + 1, h // group, None].swapaxes(-1, -2) * query.dtype.type(scale)
        scores = restricted(scores, i, head_mask, is_causal, window, None if slopes is None else slopes[h : h + 1])
        weights = _weights(scores)[0]
        upper = g[one] @ value[b : b + 1, h // group, None].swapaxes(-1, -2)
        gradient = weights * (upper - (g[one] * out[one]).sum(-1, keepdims=True))
        gradient = np.where(weights > 0, gradient, 0)
        target = _mask_of_head(view, b, h)
        target = target if target.shape[2] == 1 else target[:, :, rows]
        axes = tuple(axis for axis in (2, 3) if target.shape[axis] == 1)
        target += gradient.sum(axes, keepdims=True)
    return total


def _mask_of_head(mask, b, h):
    """The part of a mask that speaks of one batch entry and head, as (1, 1, Tq or 1, Tk or 1)."""
    mask = mask.reshape((1,) * (4 - mask.ndim) + mask.shape)
    b, h = (b if mask.shape[0] > 1 else 0), (h if mask.shape[1] > 1 else 0)
    return mask[b : b + 1, h : h + 1]
