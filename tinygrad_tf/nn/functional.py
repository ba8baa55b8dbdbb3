"""Functions of tensors with PyTorch's names and arguments (`import tinygrad_tf.nn.functional as F`)."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from tinygrad_tf import ops, random
from tinygrad_tf.engine import make
from tinygrad_tf.ops._types import category
from tinygrad_tf.ops.attention import attention, attention_weights, repeat_heads
from tinygrad_tf.tensor import Tensor

# --- activations ------------------------------------------------------------------------------------------------------


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    return ops.elementwise.relu(input)


def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """x Phi(x) (Hendrycks and Gimpel, 2016), exact or with tanh as in GPT-2."""
    return ops.activation.gelu(input, approximate)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    return ops.activation.silu(input)


def tanh(input: Tensor) -> Tensor:
    return ops.elementwise.tanh(input)


def sigmoid(input: Tensor) -> Tensor:
    return ops.elementwise.sigmoid(input)


def softplus(input: Tensor, beta: float = 1.0) -> Tensor:
    return ops.activation.softplus(input * beta) / beta if beta != 1.0 else ops.activation.softplus(input)


def logsigmoid(input: Tensor) -> Tensor:
    return ops.activation.logsigmoid(input)


def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    return ops.softmax.softmax(input, _last_if_none(dim), dtype)


def log_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    return ops.softmax.log_softmax(input, _last_if_none(dim), dtype)


def _last_if_none(dim: int | None) -> int:
    if dim is None:
        raise TypeError("softmax: say over which dimension, as in softmax(x, dim=-1)")
    return dim


# --- layers -----------------------------------------------------------------------------------------------------------


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x W^T + b for x (..., in), weight (out, in), bias (out)."""
    return ops.linear.linear(input, weight, bias)


def embedding(input: Tensor, weight: Tensor, padding_idx: int | None = None) -> Tensor:
    """Rows of weight (V, C) at the ids `input`."""
    if padding_idx is not None and padding_idx < 0:
        padding_idx += weight.array.shape[0]
    return ops.linear.embedding(input, weight, padding_idx)


def _normalised(name: str, x: Tensor, shape: Any, *tensors: Tensor | None) -> tuple[int, ...]:
    wanted = (shape,) if isinstance(shape, int) else tuple(shape)
    if x.array.shape[-len(wanted) :] != wanted:
        raise RuntimeError(f"{name}: the last sizes must be normalized_shape {wanted}, got x of shape {x.array.shape}")
    for t in tensors:
        if t is not None and t.array.shape != wanted:
            raise RuntimeError(f"{name}: weight and bias must have the shape {wanted}, got {t.array.shape}")
    return wanted


def layer_norm(
    input: Tensor, normalized_shape: Any, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """(x - mean) / sqrt(var + eps) * weight + bias over the last axes (Ba et al., 2016, equation 4)."""
    wanted = _normalised("layer_norm", input, normalized_shape, weight, bias)
    if len(wanted) == 1:
        return ops.norm.layer_norm(input, weight, bias, eps=eps)
    flat = [t if t is None else t.reshape(-1) for t in (weight, bias)]
    x = input.reshape(*input.shape[: -len(wanted)], -1)
    return ops.norm.layer_norm(x, *flat, eps=eps).reshape(input.shape)


def rms_norm(input: Tensor, normalized_shape: Any, weight: Tensor | None = None, eps: float | None = None) -> Tensor:
    """x / sqrt(mean x^2 + eps) * weight over the last axes (Zhang and Sennrich, 2019)."""
    wanted = _normalised("rms_norm", input, normalized_shape, weight)
    if eps is None:
        eps = float(np.finfo(input.array.dtype).eps)
    if len(wanted) == 1:
        return ops.norm.rms_norm(input, weight, eps=eps)
    x = input.reshape(*input.shape[: -len(wanted)], -1)
    flat = None if weight is None else weight.reshape(-1)
    return ops.norm.rms_norm(x, flat, eps=eps).reshape(input.shape)


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero each element with probability p and scale the others by 1 / (1 - p) (Srivastava et al., 2014)."""
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout: p must be in [0, 1], got {p}")
    if not training or p == 0.0:
        return input
    keep = random.default_generator.bernoulli(1.0 - p, input.array.shape)
    scale = 0.0 if p == 1.0 else 1.0 / (1.0 - p)
    return input * make(keep.astype(input.array.dtype) * input.array.dtype.type(scale))


# --- attention --------------------------------------------------------------------------------------------------------


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

    query (..., H, Tq, D), key (..., H, Tk, D), value (..., H, Tk, Dv) give (..., H, Tq, Dv). A bool mask is True where a
    query may attend; a float mask is added to the scores; both broadcast to (..., H, Tq, Tk). is_causal lets query i see
    keys 0 ... i. A query that may attend to nothing gives zeros (in PyTorch, too). With enable_gqa, key and value may have
    fewer heads, each shared by a group of query heads.
    """
    q, k, v = query.array.shape, key.array.shape, value.array.shape
    if min(len(q), len(k), len(v)) < 2 or q[-1] != k[-1] or k[-2] != v[-2]:
        raise RuntimeError(
            f"scaled_dot_product_attention: needs query (..., Tq, D), key (..., Tk, D), value (..., Tk, Dv), got {q}, {k}, {v}"
        )
    if attn_mask is not None and is_causal:
        raise RuntimeError("scaled_dot_product_attention: give attn_mask or is_causal=True, not both")
    if enable_gqa and k[-3] != q[-3]:
        if q[-3] % k[-3]:
            raise RuntimeError(f"scaled_dot_product_attention: {q[-3]} query heads are no multiple of {k[-3]} key heads")
    scale = 1.0 / math.sqrt(q[-1]) if scale is None else float(scale)
    if dropout_p > 0.0:
        key, value = (repeat_heads(t, q) if enable_gqa else t for t in (key, value))
        weights = attention_weights(query, key, _checked_mask(attn_mask, (*q[:-1], k[-2])), is_causal=is_causal, scale=scale)
        return ops.linalg.matmul(dropout(weights, dropout_p), value)
    lead = np.broadcast_shapes(q[:-3], k[:-3], v[:-3]) if enable_gqa else np.broadcast_shapes(q[:-2], k[:-2], v[:-2])
    return _four_dimensional(query, key, value, attn_mask, lead, enable_gqa, is_causal, scale)


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
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, lead: tuple[int, ...], gqa: bool, is_causal: bool, scale: float
) -> Tensor:
    """Bring everything to (B, H, T, D) by views, as the kernel wants it, and back."""
    tq, tk = query.array.shape[-2], key.array.shape[-2]
    heads = (query.array.shape[-3],) if gqa else ()
    _checked_mask(mask, (*lead, *heads, tq, tk))
    four = []
    for t in (query, key, value):
        own = t.array.shape
        wanted = (*lead, own[-3], *own[-2:]) if gqa else (*lead, *own[-2:])
        x = t if own == wanted else t.expand(wanted)
        if len(wanted) < 4:
            x = x.reshape(*(1,) * (4 - len(wanted)), *wanted)
        elif len(wanted) > 4:
            x = x.reshape(-1, *wanted[-3:])
        four.append(x)
    if mask is not None and len(lead) + len(heads) > 2:
        mask = mask.expand(*lead, *heads, tq, tk).reshape(-1, *(*lead, *heads)[-1:], tq, tk)
    out = attention(*four, mask, is_causal=is_causal, scale=scale)
    shape = (*lead, *heads, tq, value.array.shape[-1])
    return out if out.array.shape == shape else out.reshape(shape)


# --- losses -----------------------------------------------------------------------------------------------------------


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: Any = None,
    ignore_index: int = -100,
    reduce: Any = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """-log softmax(input)[target], averaged over the targets that are not ignore_index.

    >>> from tinygrad_tf import tensor
    >>> cross_entropy(tensor([[0.0, 0.0]]), tensor([1]))
    tensor(0.6931)
    """
    return ops.loss.cross_entropy(input, target, weight, ignore_index, reduction, label_smoothing)


def mse_loss(input: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """The mean of (input - target)^2."""
    if input.array.shape != target.array.shape:
        warnings.warn(
            f"mse_loss: input {input.array.shape} and target {target.array.shape} differ and are broadcast; "
            "give them the same shape",
            stacklevel=2,
        )
    squares = (input - target) ** 2
    return {"mean": squares.mean, "sum": squares.sum, "none": lambda: squares}[reduction]()
