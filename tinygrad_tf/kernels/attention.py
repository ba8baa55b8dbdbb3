"""Scaled dot-product attention without the (Tq, Tk) scores, and its gradients.

Shapes: query (B, H, Tq, D), key (B, Hk, Tk, D), value (B, Hk, Tk, Dv), out (B, H, Tq, Dv), logsumexp (B, H, Tq); Hk
divides H, and head h reads key head h // (H // Hk).
"""
# mypy: allow-untyped-defs

from __future__ import annotations

import math

import numpy as np

from tinygrad_tf.kernels._attention_panel import (
    bytes_at,
    column_maximum,
    exp_and_sum,
    memory_at,
    weight_gradients,
)
from tinygrad_tf.kernels._compile import kernel, parallel
from tinygrad_tf.kernels._math import exp_negative, log
from tinygrad_tf.kernels._rows import NATIVE
from tinygrad_tf.kernels._tiles import PANEL, block_product, lanes, pack_panel
from tinygrad_tf.kernels._vector import lane_count

KEYS = 128
UNLIMITED = 1 << 60
NO_MASK, BOOL_MASK, FLOAT_MASK = 0, 1, 2


# ---------------------------------------------------------------- pieces of both directions
@kernel
def key_range(i0, rows, Tk, is_causal, window):
    """Queries i0 ... i0 + rows - 1 may see, between them, keys first ... last - 1."""
    first = max(0, i0 - window + 1)
    last = min(Tk, i0 + rows) if is_causal else Tk
    return first, last


@kernel
def pack_queries(rows, D, source, start, row_stride, scale, panel, p0):
    """panel[d, q] = source[q, d] * scale, with zeros where there is no query."""
    width = PANEL * lanes(panel)
    pack_panel(D, rows, source, start, 1, row_stride, panel, p0)
    if scale != 1:
        for at in range(p0, p0 + D * width):
            panel[at] *= scale


@kernel
def score_block(S, s0, packed, K, k0, k_row, D, i0, rows, j0, n, place, is_causal, window, mask, kind, m0, slope):
    """S[j, q] = the score of query i0 + q for key j0 + j, -inf where it may not look."""
    width = PANEL * lanes(S)
    block_product(n, width, D, K, k0 + j0 * k_row, k_row, 1, S, packed, width, S, s0, width, False, S, 0, 0)
    if slope != 0:
        for j in range(n):
            for q in range(width):
                S[s0 + j * width + q] += slope * (j0 + j - i0 - q)
    if kind != NO_MASK:
        apply_mask(S, s0, rows, n, mask, kind, m0 + i0 * mask[3] + j0 * mask[4])
    if (is_causal and j0 + n - 1 > i0) or j0 + window < i0 + rows:
        for j in range(n):
            below = min(rows, j0 + j - i0) if is_causal else 0
            for q in range(below):
                S[s0 + j * width + q] = -np.inf
            for q in range(max(0, j0 + j + window - i0), rows):
                S[s0 + j * width + q] = -np.inf


@kernel
def apply_mask(S, s0, rows, n, mask, kind, m0):
    width = PANEL * lanes(S)
    address, _, _, row, col = mask
    if kind == BOOL_MASK:
        allowed = bytes_at(address)
        for j in range(n):
            for q in range(rows):
                if allowed[m0 + q * row + j * col] == 0:
                    S[s0 + j * width + q] = -np.inf
    else:
        addend = memory_at(address, S)
        for j in range(n):
            for q in range(rows):
                number = addend[m0 + q * row + j * col]
                # -inf even if the score is NaN
                S[s0 + j * width + q] = number if number == -np.inf else S[s0 + j * width + q] + number


@kernel
def weighted_sum(careful, M, N, K, A, a0, a_row, a_col, B, b0, b_row, C, c0, c_row, add):
    """C = A @ B (+ C). `careful`: what has weight 0 takes no part, even if it is NaN or infinite."""
    if not careful:
        block_product(M, N, K, A, a0, a_row, a_col, B, b0, b_row, C, c0, c_row, add, C, c0, c_row)
        return
    for i in range(M):
        if not add:
            for j in range(N):
                C[c0 + i * c_row + j] = 0
        for k in range(K):
            weight = A[a0 + i * a_row + k * a_col]
            if weight != 0:
                for j in range(N):
                    C[c0 + i * c_row + j] += weight * B[b0 + k * b_row + j]


@kernel
def has_nan(rows, columns, array, start, row_stride):
    found = 0
    for i in range(rows):
        for at in range(start + i * row_stride, start + i * row_stride + columns):
            found += array[at] != array[at]
    return found > 0


@kernel
def aligned_scratch(size, like):
    """(array, start) with `size` elements from start on, which lies on a cache line."""
    line = 64 // like.itemsize
    scratch = np.empty(size + line, like.dtype)
    return scratch, (-np.int64(scratch.ctypes.data) // like.itemsize) % line


# ---------------------------------------------------------------- forward
@parallel
def attend_blocks(
    index, per_block, total, shape, query, key, value, mask, kind, out, logsumexp, slopes, is_causal, window, scale
):
    H, group, Tq, Tk, D, Dv = shape
    width = PANEL * lanes(out)
    panels = (Tq + width - 1) // width
    size = (KEYS + D) * width + 3 * width
    scratch, s0 = aligned_scratch(size, out)
    packed = s0 + KEYS * width
    top = packed + D * width
    Q, K, V = memory_at(query[0], out), memory_at(key[0], out), memory_at(value[0], out)
    for number in range(index * per_block, min(total, (index + 1) * per_block)):
        item, panel = divmod(number, panels)
        b, h = divmod(item, H)
        i0 = panel * width
        rows = min(width, Tq - i0)
        q0 = b * query[1] + h * query[2] + i0 * query[3]
        k0 = b * key[1] + h // group * key[2]
        v0 = b * value[1] + h // group * value[2]
        m0 = b * mask[1] + h * mask[2]
        o0 = ((b * Tq + i0) * H + h) * Dv
        l0 = item * Tq + i0
        slope = slopes[h] if slopes.size else slopes.dtype.type(0)
        pack_queries(rows, D, Q, q0, query[3], scale, scratch, packed)
        for attempt in range(2):
            attend_panel(
                attempt > 0, scratch, s0, packed, top, K, k0, key[3], V, v0, value[3], out, o0, H * Dv, D, Dv,
                i0, rows, Tk, is_causal, window, mask, kind, m0, slope,
            )  # fmt: skip
            if finish_panel(rows, Dv, scratch, top, out, o0, H * Dv, logsumexp, l0):
                break


@kernel
def attend_panel(
    careful, S, s0, packed, top, K, k0, k_row, V, v0, v_row, out, o0, o_row, D, Dv,
    i0, rows, Tk, is_causal, window, mask, kind, m0, slope,
):  # fmt: skip
    """Online softmax"""
    width = PANEL * lanes(S)
    total, old = top + width, top + 2 * width
    for q in range(width):
        S[top + q] = np.finfo(S.dtype).min
        S[total + q] = 0
    first, last = key_range(i0, rows, Tk, is_causal, window)
    for j0 in range(first, last, KEYS):
        n = min(KEYS, last - j0)
        score_block(S, s0, packed, K, k0, k_row, D, i0, rows, j0, n, 0, is_causal, window, mask, kind, m0, slope)
        for q in range(width):
            S[old + q] = S[top + q]
        column_maximum(n, S, s0, S, top)
        if j0 > first:
            for q in range(rows):
                if S[top + q] > S[old + q]:
                    factor = exp_negative(S[old + q] - S[top + q])
                    S[total + q] *= factor
                    for at in range(o0 + q * o_row, o0 + q * o_row + Dv):
                        out[at] *= factor
        exp_and_sum(n, S, s0, S, top, S, total)
        weighted_sum(careful, rows, Dv, n, S, s0, 1, width, V, v0 + j0 * v_row, v_row, out, o0, o_row, j0 > first)


@kernel
def finish_panel(rows, Dv, scratch, top, out, o0, o_row, logsumexp, l0):
    """Divide by the sums; False if a NaN has come out."""
    total = top + PANEL * lanes(scratch)
    for q in range(rows):
        weight = scratch[total + q]
        start = o0 + q * o_row
        if weight == 0:  # nothing to attend to
            for at in range(start, start + Dv):
                out[at] = 0
            logsumexp[l0 + q] = -np.inf
        else:
            factor = 1 / weight
            for at in range(start, start + Dv):
                out[at] *= factor
            logsumexp[l0 + q] = scratch[top + q] + log(weight)
    return not has_nan(rows, Dv, out, o0, o_row)


# ---------------------------------------------------------------- backward
@parallel
def gradient_blocks(
    index, chunks, chunk, shape, g, query, key, value, mask, kind, out, logsumexp, slopes, is_causal, window, scale,
    dquery, dkey, dvalue,
):  # fmt: skip
    B, H, group, Tq, Tk, D, Dv = shape
    width = PANEL * lanes(dquery)
    heads = H // group
    item, part = divmod(index, chunks)
    b, key_head = divmod(item, heads)
    begin, end = part * chunk, min(Tk, (part + 1) * chunk)
    scratch, s0 = aligned_scratch((2 * KEYS + D + Dv + 2) * width, dquery)
    Q, K, V = memory_at(query[0], dquery), memory_at(key[0], dquery), memory_at(value[0], dquery)
    G, O = memory_at(g[0], dquery), memory_at(out[0], dquery)
    k0, v0 = b * key[1] + key_head * key[2], b * value[1] + key_head * value[2]
    dk0, dv0 = (b * Tk * heads + key_head) * D, (b * Tk * heads + key_head) * Dv
    dk_row, dv_row, dq_row = heads * D, heads * Dv, H * D
    dkey_start, dvalue_start = dk0 + begin * dk_row, dv0 + begin * dv_row
    for attempt in range(2):
        careful, clean = attempt > 0, True
        fill_zeros(end - begin, D, dkey, dkey_start, dk_row)
        fill_zeros(end - begin, Dv, dvalue, dvalue_start, dv_row)
        for h in range(key_head * group, (key_head + 1) * group):
            slope = slopes[h] if slopes.size else slopes.dtype.type(0)
            m0 = b * mask[1] + h * mask[2]
            q0, g0, o0 = b * query[1] + h * query[2], b * g[1] + h * g[2], b * out[1] + h * out[2]
            dq0 = ((part * B + b) * Tq * H + h) * D
            for i0 in range(0, Tq, width):
                rows = min(width, Tq - i0)
                gradient_panel(
                    careful, scratch, s0, Q, q0, query[3], K, k0, key[3], V, v0, value[3], G, g0, g[3], O, o0, out[3],
                    logsumexp, (b * H + h) * Tq + i0, D, Dv, i0, rows, begin, end, is_causal, window, mask, kind, m0, slope,
                    scale, dquery, dq0 + i0 * dq_row, dq_row, dkey, dk0, dk_row, dvalue, dv0, dv_row,
                )  # fmt: skip
                clean = clean and not has_nan(rows, D, dquery, dq0 + i0 * dq_row, dq_row)
        clean = clean and not has_nan(end - begin, D, dkey, dkey_start, dk_row)
        clean = clean and not has_nan(end - begin, Dv, dvalue, dvalue_start, dv_row)
        if clean:
            break


@kernel
def fill_zeros(rows, columns, array, start, row_stride):
    for i in range(rows):
        for at in range(start + i * row_stride, start + i * row_stride + columns):
            array[at] = 0


@kernel
def gradient_panel(
    careful, S, s0, Q, q0, q_row, K, k0, k_row, V, v0, v_row, G, g0, g_row, O, o0, o_row,
    logsumexp, l0, D, Dv, i0, rows, begin, end, is_causal, window, mask, kind, m0, slope,
    scale, dquery, dq0, dq_row, dkey, dk0, dk_row, dvalue, dv0, dv_row,
):  # fmt: skip
    width = PANEL * lanes(S)
    slopes0 = s0 + KEYS * width
    packed = slopes0 + KEYS * width
    packed_g = packed + D * width
    shift = packed_g + Dv * width
    delta = shift + width
    first, last = key_range(i0, rows, end, is_causal, window)
    first = max(first, begin)
    if first >= last:
        fill_zeros(rows, D, dquery, dq0, dq_row)
        return
    pack_queries(rows, D, Q, q0 + i0 * q_row, q_row, scale, S, packed)
    pack_queries(rows, Dv, G, g0 + i0 * g_row, g_row, scale * 0 + 1, S, packed_g)
    for q in range(width):
        common = scale * 0
        if q < rows:
            for d in range(Dv):
                common += G[g0 + (i0 + q) * g_row + d] * O[o0 + (i0 + q) * o_row + d]
        S[delta + q] = common
        sees = q < rows and logsumexp[l0 + q] > -np.inf
        S[shift + q] = logsumexp[l0 + q] if sees else 0
    for j0 in range(first, last, KEYS):
        n = min(KEYS, last - j0)
        score_block(S, s0, packed, K, k0, k_row, D, i0, rows, j0, n, 0, is_causal, window, mask, kind, m0, slope)
        block_product(n, width, Dv, V, v0 + j0 * v_row, v_row, 1, S, packed_g, width, S, slopes0, width, False, S, 0, 0)
        weight_gradients(n, S, s0, slopes0, S, shift, S, delta, scale)
        weighted_sum(
            careful, n, Dv, rows, S, s0, width, 1, G, g0 + i0 * g_row, g_row, dvalue, dv0 + j0 * dv_row, dv_row, True
        )
        weighted_sum(
            careful, n, D, rows, S, slopes0, width, 1, Q, q0 + i0 * q_row, q_row, dkey, dk0 + j0 * dk_row, dk_row, True
        )
        weighted_sum(
            careful, rows, D, n, S, slopes0, 1, width, K, k0 + j0 * k_row, k_row, dquery, dq0, dq_row, j0 > first
        )


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
    mask, mask_place, kind = place_mask(mask, dtype, (B, H, Tq, Tk))
    panels = B * H * math.ceil(Tq / (PANEL * lane_count(dtype.itemsize)))
    per_block = max(1, panels // 16)
    attend_blocks(
        math.ceil(panels / per_block), per_block, panels, (H, H // max(Hk, 1), Tq, Tk, D, Dv), query_place, key_place,
        value_place, mask_place, kind, out.ravel(), logsumexp.ravel(), slope_array(slopes, dtype, H), bool(is_causal),
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
    placed_mask, mask_place, kind = place_mask(mask, dtype, (B, H, Tq, Tk))
    chunks = max(1, min(Tk // 128, math.ceil(16 / max(1, B * Hk))))
    chunk = math.ceil(Tk / chunks)
    dquery = np.empty((chunks, B, Tq, H, D), dtype)
    dkey, dvalue = np.empty((B, Tk, Hk, D), dtype), np.empty((B, Tk, Hk, Dv), dtype)
    gradient_blocks(
        B * Hk * chunks, chunks, chunk, (B, H, H // max(Hk, 1), Tq, Tk, D, Dv), g_place, query_place, key_place,
        value_place, mask_place, kind, out_place, logsumexp.ravel(), slope_array(slopes, dtype, H), bool(is_causal),
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
    """(mask, (address, its four strides in elements), kind)."""
    if mask is None:
        return None, (0, 0, 0, 0, 0), NO_MASK
    if mask.dtype != bool and mask.dtype != dtype:
        mask = mask.astype(dtype)
    if any(stride % mask.itemsize for stride in mask.strides) or not mask.flags.aligned:
        mask = np.array(mask, order="C")
    mask = np.broadcast_to(mask, shape)
    strides = (stride // mask.itemsize for stride in mask.strides)
    return mask, (mask.__array_interface__["data"][0], *strides), BOOL_MASK if mask.dtype == bool else FLOAT_MASK


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
