"""Multi-head attention as a function of its weights, with PyTorch's arguments; `nn.MultiheadAttention` holds them."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from tinygrad_tf.creation import zeros
from tinygrad_tf.engine import make
from tinygrad_tf.functions import cat
from tinygrad_tf.nn.functional.attention import scaled_dot_product_attention
from tinygrad_tf.nn.functional.linear import linear
from tinygrad_tf.nn.functional.padding import pad
from tinygrad_tf.ops.attention import attention_weights
from tinygrad_tf.ops.elementwise import where
from tinygrad_tf.tensor import Tensor


class HeadWeights(NamedTuple):
    """What multi-head attention has learnt: the three linear maps, in one matrix or in three, and the last one."""

    num_heads: int
    together: Tensor | None  # (3 E, E)
    apart: tuple[Tensor, Tensor, Tensor] | None  # (E, E), (E, kdim), (E, vdim)
    bias: Tensor | None  # (3 E,)
    key_behind: Tensor | None  # (1, 1, E): a key, and a value, behind all others
    value_behind: Tensor | None
    zero_behind: bool  # and a key and a value of zeros behind these
    out: Tensor  # (E, E)
    out_bias: Tensor | None


def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """What `nn.MultiheadAttention` computes, of (L, N, E) or (L, E) and of weights that are given with each call.

    Masks, what is returned, and differences from PyTorch are as there; static_k and static_v are refused.

    >>> from tinygrad_tf import ones, zeros
    >>> x, weight = ones(3, 1, 4), ones(12, 4)
    >>> out, _ = multi_head_attention_forward(x, x, x, 4, 2, weight, None, None, None, False, 0.0, ones(4, 4), zeros(4))
    >>> out[0]
    tensor([[16., 16., 16., 16.]])
    """
    if static_k is not None or static_v is not None:
        raise NotImplementedError(
            "multi_head_attention_forward: static_k and static_v are not taken; call scaled_dot_product_attention"
        )
    if query.shape[-1] != embed_dim_to_check:
        raise ValueError(
            f"multi_head_attention_forward: the last size of query must be {embed_dim_to_check}, got {query.shape[-1]}"
        )
    apart = None
    if use_separate_proj_weight:
        if q_proj_weight is None or k_proj_weight is None or v_proj_weight is None:
            raise ValueError("multi_head_attention_forward: use_separate_proj_weight needs q_, k_ and v_proj_weight")
        apart = q_proj_weight, k_proj_weight, v_proj_weight
    elif in_proj_weight is None:
        raise ValueError("multi_head_attention_forward: needs in_proj_weight, or use_separate_proj_weight=True")
    together = None if use_separate_proj_weight else in_proj_weight
    behind = bias_k, bias_v, add_zero_attn
    weights = HeadWeights(num_heads, together, apart, in_proj_bias, *behind, out_proj_weight, out_proj_bias)
    masks = key_padding_mask, attn_mask, is_causal
    returned = need_weights, average_attn_weights
    return multihead(query, key, value, weights, dropout_p if training else 0.0, masks, returned, batch_first=False)


def multihead(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    weights: HeadWeights,
    dropout_p: float,
    masks: tuple[Tensor | None, Tensor | None, bool],
    returned: tuple[bool, bool],
    batch_first: bool,
) -> tuple[Tensor, Tensor | None]:
    """Masks are (key_padding_mask, attn_mask, is_causal); returned are (whether weights, whether their average)."""
    batched = query.ndim == 3
    inputs = [_batch_first(t, batched, batch_first) for t in (query, key, value)]
    if key is query:
        inputs[1] = inputs[0]
    _check(weights, *inputs)
    q, k, v = (_split_heads(t, weights.num_heads) for t in _extended(weights, *_project(weights, *inputs)))
    mask = _mask(*masks, q.shape[:3], inputs[1].shape[1], k.shape[2], q.dtype)
    causal = masks[2] and mask is None
    heads = scaled_dot_product_attention(q, k, v, mask, dropout_p, causal)
    out = linear(heads.permute(2, 0, 1, 3).flatten(2), weights.out, weights.out_bias)
    out = out.squeeze(1) if not batched else out.transpose(0, 1) if batch_first else out  # lies as (L, N, E): dropout
    if not returned[0]:  # behind it draws in that order
        return out, None
    shares = attention_weights(q, k, mask, is_causal=causal, scale=1.0 / math.sqrt(q.shape[-1]))
    shares = shares.mean(1) if returned[1] else shares
    return out, shares if batched else shares.squeeze(0)


# --- the steps --------------------------------------------------------------------------------------------------------


def _batch_first(x: Tensor, batched: bool, batch_first: bool) -> Tensor:
    if x.ndim != (3 if batched else 2):
        raise ValueError(
            "MultiheadAttention: query, key and value must all be (L, N, E), or all (L, E); "
            f"one has the shape {tuple(x.shape)}"
        )
    return x.unsqueeze(0) if not batched else x if batch_first else x.transpose(0, 1)


def _check(weights: HeadWeights, query: Tensor, key: Tensor, value: Tensor) -> None:
    matrices = weights.apart if weights.together is None else (weights.together,) * 3
    for name, t, matrix in zip(("query", "key", "value"), (query, key, value), matrices or (), strict=True):
        if t.shape[-1] != matrix.shape[1]:
            raise ValueError(
                f"MultiheadAttention: the last size of {name} must be {matrix.shape[1]}, got {t.shape[-1]}"
            )
    if key.shape[:2] != value.shape[:2] or key.shape[0] != query.shape[0]:
        shapes = ", ".join(str(tuple(t.shape)) for t in (query, key, value))
        raise ValueError(f"MultiheadAttention: key and value must share N and S, and N with query, got {shapes}")


def _project(weights: HeadWeights, query: Tensor, key: Tensor, value: Tensor) -> list[Tensor]:
    """The three linear maps; their weights lie in one matrix if all have the same size."""
    together, bias = weights.together, weights.bias
    if together is not None and query is key and key.array is value.array:
        return list(linear(query, together, bias).chunk(3, -1))
    matrices = together.chunk(3) if together is not None else weights.apart or ()
    biases = [None] * 3 if bias is None else list(bias.chunk(3))
    return [linear(x, w, b) for x, w, b in zip((query, key, value), matrices, biases, strict=True)]


def _extended(weights: HeadWeights, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The keys and values that add_bias_kv and add_zero_attn put behind all others."""
    n = k.shape[0]
    if weights.key_behind is not None and weights.value_behind is not None:
        k = cat([k, weights.key_behind.expand(n, 1, -1)], 1)
        v = cat([v, weights.value_behind.expand(n, 1, -1)], 1)
    if weights.zero_behind:
        nothing = zeros(n, 1, k.shape[-1], dtype=k.dtype)
        k, v = cat([k, nothing], 1), cat([v, nothing], 1)
    return q, k, v


def _split_heads(x: Tensor, num_heads: int) -> Tensor:
    """(N, T, E) to (N, H, T, D)."""
    n, t, size = x.shape
    return x.reshape(n, t, num_heads, size // num_heads).transpose(1, 2)


def _mask(
    key_padding_mask: Tensor | None,
    attn_mask: Tensor | None,
    is_causal: bool,
    queries: Any,
    keys: int,
    all_keys: int,
    dtype: Any,
) -> Tensor | None:
    """One mask (N, H, L, S) or smaller, True where a query may attend, or to be added; None where all may."""
    n, h, length = queries
    masks: list[Tensor] = []
    if attn_mask is not None:
        allowed = ((length, keys), (n * h, length, keys))
        _check_mask("attn_mask", attn_mask, allowed)
        masks.append(attn_mask if attn_mask.ndim == 2 else attn_mask.reshape(n, h, length, keys))
    elif is_causal and (key_padding_mask is not None or all_keys > keys):
        masks.append(make(~np.tri(length, keys, dtype=bool)))
    if key_padding_mask is not None:
        _check_mask("key_padding_mask", key_padding_mask, ((n, keys), (keys,)) if n == 1 else ((n, keys),))
        masks.append(key_padding_mask.reshape(n, 1, 1, keys))
    if not masks:
        return None
    if all(m.dtype == bool for m in masks):
        ignored = masks[0].array if len(masks) == 1 else masks[0].array | masks[1].array
        open_ = make(~ignored)
        return open_ if all_keys == keys else pad(open_, (0, all_keys - keys), value=True)
    added = [where(m, -math.inf, zeros((), dtype=dtype)) if m.dtype == bool else m.to(dtype) for m in masks]
    total = added[0] if len(added) == 1 else added[0] + added[1]
    return total if all_keys == keys else pad(total, (0, all_keys - keys))


def _check_mask(name: str, mask: Tensor, shapes: tuple[tuple[int, ...], ...]) -> None:
    if mask.dtype != bool and not mask.is_floating_point():
        raise TypeError(f"MultiheadAttention: {name} must be bool or floating point, got {mask.dtype}; use .bool()")
    if tuple(mask.shape) not in shapes:
        wanted = " or ".join(map(str, shapes))
        raise RuntimeError(f"MultiheadAttention: {name} must have the shape {wanted}, got {tuple(mask.shape)}")
