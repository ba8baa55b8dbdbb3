"""flex_attention: scores that a function changes, masks by their rule, how a mask prints, and what is refused."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest

import tinygrad_tf as tg
from tinygrad_tf.autograd import gradcheck
from tinygrad_tf.nn import functional as F
from tinygrad_tf.nn.flex_attention import (
    BlockMask,
    and_masks,
    create_block_mask,
    create_mask,
    flex_attention,
    noop_mask,
    or_masks,
)


def causal(b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
    return q_idx >= kv_idx


def near(b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
    return (q_idx - kv_idx).abs() <= 2


def heads(*shape: int) -> Any:
    return tg.randn(*shape, dtype=tg.float64, requires_grad=True)


def sizes(mask_mod: Any, length: int = 6) -> BlockMask:
    return create_block_mask(mask_mod, 2, 4, length, length)


SLOPES = tg.tensor([0.5, 0.25, 0.125, 0.0625], dtype=tg.float64)
DOCUMENT = tg.tensor([0, 0, 0, 1, 1, 2])
Q, K = tg.arange(6)[:, None], tg.arange(6)
BIAS = SLOPES[:, None, None] * (K - Q)
SAME = {
    "nothing": ({}, {}),
    "scale": ({"scale": 0.3}, {"scale": 0.3}),
    "bias of a head": ({"score_mod": lambda s, b, h, q, k: s + SLOPES[h] * (k - q)}, {"attn_mask": BIAS}),
    "causal by score": (
        {"score_mod": lambda s, b, h, q, k: tg.where(q >= k, s, -float("inf"))},
        {"is_causal": True},
    ),
    "causal by mask": ({"block_mask": sizes(causal)}, {"is_causal": True}),
    "both": (
        {"block_mask": sizes(and_masks(causal, near))},
        {"attn_mask": (Q >= K) & ((Q - K).abs() <= 2)},
    ),
    "either": ({"block_mask": sizes(or_masks(causal, near))}, {"attn_mask": (Q >= K) | ((Q - K).abs() <= 2)}),
    "documents": (
        {"block_mask": sizes(lambda b, h, q, k: (DOCUMENT[q] == DOCUMENT[k]) & (q >= k))},
        {"attn_mask": (DOCUMENT[:, None] == DOCUMENT) & (Q >= K)},
    ),
    "blind queries": ({"block_mask": sizes(lambda b, h, q, k: (q > 2) & (k < 5))}, {"attn_mask": (Q > 2) & (K < 5)}),
    "no mask at all": ({"block_mask": sizes(noop_mask)}, {}),
    "one head alone": (
        {"block_mask": sizes(lambda b, h, q, k: (h == 1) & (b == 0) & (k < 2))},
        {"attn_mask": tg.zeros(2, 4, 6, 6).bool().index_put((tg.tensor(0), tg.tensor(1)), (K < 2).expand(6, 6))},
    ),
}


@pytest.mark.parametrize("name", SAME)
def test_it_is_attention_with_a_bias_or_a_mask(name: str) -> None:
    tg.manual_seed(0)
    q, k, v = heads(2, 4, 6, 3), heads(2, 2, 6, 3), heads(2, 2, 6, 5)
    flexible, plain = SAME[name]
    outs = [flex_attention(q, k, v, enable_gqa=True, **flexible)]
    outs.append(F.scaled_dot_product_attention(q, k, v, enable_gqa=True, **plain))
    first, second = (tg.autograd.grad(out.square().sum(), (q, k, v)) for out in outs)
    for one, other in zip((outs[0], *first), (outs[1], *second), strict=True):
        np.testing.assert_allclose(one.detach().numpy(), other.detach().numpy(), rtol=1e-9, atol=1e-12)


def test_a_learned_table_gets_its_gradient_and_the_sums_are_given() -> None:
    tg.manual_seed(0)
    q, k, v, table = heads(1, 2, 3, 4), heads(1, 2, 3, 4), heads(1, 2, 3, 4), heads(2, 5)
    out, sums = flex_attention(q, k, v, lambda s, b, h, i, j: s + table[h, i - j + 2], return_lse=True)
    out.sum().backward()
    scores = q @ k.mT / 2.0 + tg.stack([table[:, [i - j + 2 for j in range(3)]] for i in range(3)], 1)
    np.testing.assert_allclose(sums.detach().numpy(), scores.logsumexp(-1).detach().numpy())
    (wanted,) = tg.autograd.grad((scores.softmax(-1) @ v).sum(), table)
    np.testing.assert_allclose(table.grad.numpy(), wanted.numpy(), atol=1e-12)
    late = create_block_mask(lambda b, h, i, j: i > 0, None, None, 3, 3)
    _, sums = flex_attention(q, k, v, block_mask=late, return_lse=True)
    assert sums[0, 0, 0].item() == -math.inf and sums[0, 0, 1:].isfinite().all()


def test_its_gradient_by_finite_differences() -> None:
    """Scores bent by a function, a learned table, keys that few heads share, a query that sees nothing."""
    tg.manual_seed(0)
    rule = create_block_mask(lambda b, h, i, j: (i - j <= 2) & (i != 1), None, None, 5, 5)

    def attend(q: Any, k: Any, v: Any, table: Any) -> Any:
        bent = lambda score, b, h, i, j: tg.tanh(score + table[h, i - j + 4])  # noqa: E731
        return flex_attention(q, k, v, bent, rule, enable_gqa=True)

    assert gradcheck(attend, (heads(1, 2, 5, 3), heads(1, 1, 5, 3), heads(1, 1, 5, 2), heads(2, 9)))


def test_sixteen_bits_are_scored_in_float32() -> None:
    q = tg.randn(1, 2, 4, 8).bfloat16()
    seen: list[Any] = []
    out = flex_attention(q, q, q, lambda s, b, h, i, j: [seen.append(s.dtype), s][1])
    assert seen == [tg.float32] and out.dtype == tg.bfloat16


def test_a_mask_prints_as_its_blocks() -> None:
    """PyTorch's picture and numbers."""
    mask = create_block_mask(causal, None, None, 512, 512)
    assert repr(mask) == (
        "BlockMask(shape=(1, 1, 512, 512), sparsity=37.50%, \n(0, 0)\n██      \n████    \n██████  \n████████\n)"
    )
    assert mask.to_dense()[0, 0].tolist() == [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]]
    assert mask.numel() == 512 * 512 and mask.mask_mod is causal and mask.to("cpu") is mask
    wide = create_block_mask(lambda b, h, q, k: (q - k).abs() <= 100, 2, None, 300, 700, BLOCK_SIZE=64)
    assert wide.shape == (2, 1, 300, 700) and abs(wide.sparsity() - 57.089523) < 1e-5
    assert str(wide).count("(1, 0)") == 1 and "\n  ██████████          \n" in str(wide)
    long = str(create_block_mask(causal, None, None, 4096, 4096, BLOCK_SIZE=64))
    assert "sparsity=49.22%" in long and "\n████░░                          \n" in long


def test_masks_without_blocks() -> None:
    assert create_mask(causal, None, None, 2, 3)[0, 0].tolist() == [[True, False, False], [True, True, False]]
    assert create_mask(lambda s, b, h, q, k: tg.where(k > 0, s, -math.inf), 1, 1, 1, 2).tolist() == [[[[False, True]]]]


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        (lambda q: (q[0], q, q), NotImplementedError, "must be (B, H, T, D)"),
        (lambda q: (q, q.double(), q), ValueError, "dtypes must be the same"),
        (lambda q: (q, q[:, :1], q[:, :1]), ValueError, "for fewer key heads give enable_gqa=True"),
        (lambda q: (q, q[..., :2], q), ValueError, "needs (B, H, Tq, D), (B, Hk, Tk, D)"),
        (lambda q: (q, q, q, lambda s, b, h, i, j: s[0]), ValueError, "in one bracket, as table[batch, head]"),
        (
            lambda q: (q, q, q, None, sizes(causal, 9)),
            ValueError,
            "was made for (B, H, Tq, Tk) = (2, 4, 9, 9)",
        ),
    ],
)
def test_what_does_not_fit_is_told(change: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=re.escape(message)):
        flex_attention(*change(tg.randn(1, 2, 4, 4)))


def test_more_heads_that_are_no_multiple_and_a_rule_of_other_arguments() -> None:
    with pytest.raises(ValueError, match="3 query heads are no multiple of 2 key heads"):
        flex_attention(tg.randn(1, 3, 4, 4), tg.randn(1, 2, 4, 4), tg.randn(1, 2, 4, 4), enable_gqa=True)
    with pytest.raises(ValueError, match="mask_mod must be a function of"):
        create_block_mask(lambda q, k: q >= k, None, None, 2, 2)  # type: ignore[arg-type,misc]
