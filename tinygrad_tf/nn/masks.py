"""Masks for attention: True where a query may attend. They combine with `&`, and with `combine_masks`.

Shapes: B batch, H heads, Tq queries, Tk keys; a mask broadcasts to (B, H, Tq, Tk).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tinygrad_tf._arguments import check_size
from tinygrad_tf.engine import make
from tinygrad_tf.ops.elementwise import where
from tinygrad_tf.tensor import Tensor


def padding_mask(ids: Tensor | Sequence[int], pad: int | None = None, max_len: int | None = None) -> Tensor:
    """True at the real tokens, as (B, 1, 1, T): no query may attend to padding, whichever head.

    Either ids (B, T) with the id `pad` of the padding, or the B lengths of sequences that are padded behind, to
    max_len (by default to the longest).

    >>> padding_mask([2, 3]).tolist()
    [[[[True, True, False]]], [[[True, True, True]]]]
    >>> from tinygrad_tf import tensor
    >>> tuple(padding_mask(tensor([[7, 8, 0]]), pad=0).shape)
    (1, 1, 1, 3)
    """
    numbers = ids.array if isinstance(ids, Tensor) else np.asarray(ids)
    if numbers.dtype.kind not in "iu":
        raise TypeError(f"padding_mask: ids or lengths must be whole numbers, got {numbers.dtype}")
    if pad is not None:
        if numbers.ndim != 2:
            raise ValueError(f"padding_mask: with pad={pad}, ids must be (B, T), got the shape {numbers.shape}")
        return make((numbers != pad)[:, None, None, :])
    if numbers.ndim != 1:
        raise ValueError(f"padding_mask: lengths must be (B,), got the shape {numbers.shape}; for ids (B, T) give pad")
    longest = int(numbers.max(initial=0))
    width = longest if max_len is None else max_len
    if longest > width or int(numbers.min(initial=0)) < 0:
        raise ValueError(f"padding_mask: lengths must lie in 0 ... {width}, got {numbers.tolist()}")
    return make((np.arange(width) < numbers[:, None])[:, None, None, :])


def causal_mask(queries: int, keys: int | None = None, offset: int | None = None) -> Tensor:
    """(Tq, Tk): query i may attend to the keys 0 ... i + offset.

    The default offset, Tk - Tq, lets the last query see the last key, as when the first keys come from a cache;
    offset=0 counts from the first key, as is_causal does in `F.scaled_dot_product_attention`.

    >>> causal_mask(2, 3).tolist()
    [[True, True, False], [True, True, True]]
    """
    keys = check_size("causal_mask: keys", queries if keys is None else keys, 0)
    check_size("causal_mask: queries", queries, 0)
    return make(np.tri(queries, keys, keys - queries if offset is None else offset, dtype=bool))


def window_mask(queries: int, keys: int | None = None, window: int = 1, offset: int | None = None) -> Tensor:
    """(Tq, Tk): query i may attend to keys less than `window` away from key i + offset, on both sides.

    >>> window_mask(3, window=2).tolist()
    [[True, True, False], [True, True, True], [False, True, True]]
    """
    keys = check_size("window_mask: keys", queries if keys is None else keys, 0)
    check_size("window_mask: queries", queries, 0)
    check_size("window_mask: window", window)
    offset = keys - queries if offset is None else offset
    distance = np.arange(keys) - (np.arange(queries)[:, None] + offset)
    return make(np.abs(distance) < window)


def combine_masks(*masks: Tensor | None) -> Tensor | None:
    """One mask that allows what all allow: bool masks by `&`; float masks are added up, with -inf where one says no.

    >>> combine_masks(causal_mask(2), None, padding_mask([1], max_len=2)).tolist()
    [[[[True, False], [True, False]]]]
    """
    given = [m for m in masks if m is not None]
    if not given:
        return None
    for mask in given:
        if mask.array.dtype != bool and not mask.is_floating_point():
            raise TypeError(f"combine_masks: masks must be bool or floating point, got {mask.dtype}; use .bool()")
    bools = [m for m in given if m.array.dtype == bool]
    floats = [m for m in given if m.array.dtype != bool]
    allowed = bools[0] if bools else None
    for mask in bools[1:]:
        assert allowed is not None
        allowed = make(_broadcast_and(allowed.array, mask.array))
    if not floats:
        return allowed
    try:
        np.broadcast_shapes(*(m.array.shape for m in given))
    except ValueError:
        shapes = " and ".join(str(m.array.shape) for m in given)
        raise ValueError(f"masks of the shapes {shapes} do not broadcast together") from None
    total = floats[0]
    for mask in floats[1:]:
        total = total + mask
    return total if allowed is None else where(allowed, total, -math.inf)


def _broadcast_and(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    try:
        return a & b
    except ValueError:
        raise ValueError(f"masks of the shapes {a.shape} and {b.shape} do not broadcast together") from None


def check_mask(mask: Tensor | None, shape: tuple[int, ...], name: str = "mask") -> None:
    """Refuse a mask that is no bool or float, that does not broadcast to (B, H, Tq, Tk), or could mean two things."""
    if mask is None:
        return
    if not isinstance(mask, Tensor):
        raise TypeError(f"{name} must be a Tensor, got {type(mask).__name__}; use tensor(...)")
    if mask.array.dtype != bool and not mask.is_floating_point():
        raise TypeError(f"{name} must be bool (True = may attend) or floating point, got {mask.dtype}; use .bool()")
    B, H, _, Tk = shape
    own = mask.array.shape
    fits = len(own) <= 4 and all(m in (1, n) for m, n in zip(reversed(own), reversed(shape), strict=False))
    if fits and not (len(own) == 3 and own[0] == B == H and B > 1):
        return
    advice = ""
    if own == (B, Tk):
        advice = "; a mask (B, Tk) of the keys must be (B, 1, 1, Tk): use mask[:, None, None, :] or nn.padding_mask"
    elif len(own) == 3 and own[0] == B:
        advice = "; a mask (B, Tq, Tk) must be (B, 1, Tq, Tk), one (H, Tq, Tk) (1, H, Tq, Tk): use .unsqueeze"
    raise ValueError(f"{name} must broadcast to (B, H, Tq, Tk) = {shape}, got {own}{advice}")
