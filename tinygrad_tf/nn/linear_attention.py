"""Attention in linear time: the softmax's exp(q k) is replaced by a product phi(q) phi(k) of features.

Sums over keys can then be done once for all queries (Katharopoulos et al., 2020, equations 4 to 12).
"""

from __future__ import annotations

import numpy as np

from tinygrad_tf.engine import make
from tinygrad_tf.functions import cat
from tinygrad_tf.nn import functional as F
from tinygrad_tf.nn.attention import MultiHeadAttention, Scores
from tinygrad_tf.ops._precision import composed
from tinygrad_tf.ops.attention import repeat_heads
from tinygrad_tf.ops.elementwise import where
from tinygrad_tf.ops.linalg import matmul
from tinygrad_tf.tensor import Tensor

CHUNK = 32  # positions whose products are written out; between chunks there are running sums


def features(x: Tensor) -> Tensor:
    """phi(x) = elu(x) + 1, which is positive (Katharopoulos et al., 2020, equation 7)."""
    return F.elu(x) + 1.0


class LinearAttention(MultiHeadAttention):
    """out_i = sum_j phi(q_i) phi(k_j) v_j / sum_j phi(q_i) phi(k_j) over the keys j that query i sees.

    Time and memory are linear in T, also when causal: keys are summed up chunk by chunk (Katharopoulos et al., 2020,
    equations 8 to 12). Masks are about keys, bool (B, 1, 1, Tk) as `nn.padding_mask` gives them; others cannot be
    summed over and are refused. There is no dropout of weights. With a cache of all keys it is asked like any other.

    >>> from tinygrad_tf import nn, zeros
    >>> tuple(nn.LinearAttention(d_model=8, num_heads=2)(zeros(1, 100, 8), is_causal=True).shape)
    (1, 100, 8)
    """

    scores_take_positions = False

    def restrict(
        self, q: Tensor, k: Tensor, mask: Tensor | None, is_causal: bool, offset: int, positions: object
    ) -> Scores:
        if is_causal and q.shape[2] + offset != k.shape[2]:
            raise ValueError(
                f"LinearAttention: is_causal needs as many keys as queries, got {k.shape[2]} and {q.shape[2]}"
            )
        if mask is not None and (mask.array.dtype != bool or (mask.ndim > 1 and mask.shape[-2] != 1)):
            raise ValueError(
                "LinearAttention: mask must be bool and about keys alone, (B, 1, 1, Tk) as of nn.padding_mask, "
                f"got {mask.dtype} {tuple(mask.shape)}; for the future use is_causal=True"
            )
        return Scores(mask, is_causal, 1.0)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, scores: Scores) -> Tensor:
        k, v = repeat_heads(k, q.shape), repeat_heads(v, q.shape)
        q, k = features(q), features(k)
        if scores.mask is not None:
            k = k * make(scores.mask.array[..., None].reshape(*_column(scores.mask)).astype(k.dtype))
        if scores.is_causal:
            return causal_linear_attention(q, k, v)
        return linear_attention(q, k, v)

    def weights(self, q: Tensor, k: Tensor, scores: Scores) -> Tensor:
        """The (B, H, Tq, Tk) weights that the sums amount to."""
        products = matmul(features(q), features(repeat_heads(k, q.shape)).transpose(-2, -1))
        if scores.is_causal:
            Tq, Tk = products.shape[-2:]
            products = products * make(np.tri(Tq, Tk, max(Tk - Tq, 0), dtype=products.dtype))
        if scores.mask is not None:
            products = where(scores.mask, products, 0.0)
        return _divided(products, products.sum(-1, keepdim=True))


def _column(mask: Tensor) -> tuple[int, ...]:
    """The shape of a mask (..., 1, Tk) as a factor of keys (B, H, Tk, D)."""
    lead = (1, 1, *mask.shape[:-2])[-2:]
    return (*lead, mask.shape[-1], 1)


def _divided(total: Tensor, weight: Tensor) -> Tensor:
    """total / weight, and 0 where there is no weight."""
    some = make(weight.array > 0)
    return where(some, total, 0.0) / where(some, weight, 1.0)


@composed
def linear_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Every query sees every key; shapes as below."""
    return _divided(matmul(q, matmul(k.transpose(-2, -1), v)), matmul(q, k.sum(-2).unsqueeze(-1)))


@composed
def causal_linear_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """q (B, H, Tq, D), k (B, H, Tk, D), both positive, v (B, H, Tk, Dv): query i sees the keys 0 ... i + Tk - Tq.

    With S the sum of k_j v_j^T over all earlier chunks: out_i = q_i S + sum over j <= i of the own chunk.
    """
    B, H, T = q.shape[:3]
    before = k.shape[2] - T
    v = _with_ones(v)  # its last channel sums up the weights
    start = matmul(k[:, :, :before].transpose(-2, -1), v[:, :, :before])
    count = -(-T // CHUNK)
    fill = (0, 0, 0, count * CHUNK - T)
    q, k, v = (F.pad(t, fill).reshape(B, H, count, CHUNK, -1) for t in (q, k[:, :, before:], v[:, :, before:]))
    own = matmul(k.transpose(-2, -1), v)  # (B, H, count, D, Dv)
    earlier = cat([start.unsqueeze(2), own[:, :, :-1]], 2).cumsum(2)
    near = matmul(q, k.transpose(-2, -1)).tril()
    out = (matmul(near, v) + matmul(q, earlier)).reshape(B, H, count * CHUNK, -1)[:, :, :T]
    return _divided(out[..., :-1], out[..., -1:])


def _with_ones(v: Tensor) -> Tensor:
    return F.pad(v, (0, 1), value=1.0)
