"""Wrong sizes, masks, lengths and names of a Transformer's parts: one line that says what is allowed and what came."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinygrad_tf as tg
from tinygrad_tf import models, nn
from tinygrad_tf.generation import GenerationConfig, generate

X = tg.zeros(2, 5, 8)
ATTENTION = nn.MultiHeadAttention(8, 2)


def rope(**settings: Any) -> nn.RotaryPositions:
    return nn.RotaryPositions(**{"head_size": 4, **settings})


BAD: dict[str, tuple[Callable[[], Any], str]] = {
    "heads that do not divide": (
        lambda: nn.MultiHeadAttention(10, 3),
        "d_model must be divisible by num_heads.*10 and 3",
    ),
    "heads that do not fit each other": (
        lambda: nn.functional.scaled_dot_product_attention(*(tg.zeros(1, heads, 4, 8) for heads in (2, 3, 3))),
        r"before the last 2 of query \(1, 2, 4, 8\), key .* must broadcast; .*enable_gqa=True",
    ),
    "a config for a length": (
        lambda: generate(lambda ids: ids, [1], GenerationConfig()),
        r"got a GenerationConfig: use stream\(model, prompt, config\)",
    ),
    "a length in quotes": (lambda: generate(lambda ids: ids, [1], "3"), "length must be a whole number.*got '3'"),
    "no heads": (lambda: nn.MultiHeadAttention(8, 0), "num_heads must be a whole number of at least 1, got 0"),
    "heads of a fraction": (lambda: nn.MultiHeadAttention(8, 2.0), r"num_heads must be a whole number.*got 2\.0"),
    "a size in quotes": (
        lambda: nn.MultiHeadAttention("8", 2),
        "d_model must be a whole number of at least 1, got '8'",
    ),
    "groups that do not divide": (lambda: nn.MultiHeadAttention(8, 4, num_kv_heads=3), "num_kv_heads, got 4 and 3"),
    "no window": (lambda: nn.LocalAttention(8, 2, 0), "LocalAttention: window must be a whole number of at least 1"),
    "half a window": (lambda: nn.LocalAttention(8, 2, 1.5), r"window must be a whole number of at least 1, got 1\.5"),
    "no block": (lambda: nn.BlockSparseAttention(8, 2, 0), "block_size must be a whole number of at least 1, got 0"),
    "minus one block": (lambda: nn.BlockSparseAttention(8, 2, 4, -1), "local_blocks must be .* at least 0, got -1"),
    "an odd head": (lambda: rope(head_size=3), "head_size must be even, got 3"),
    "a head of a fraction": (lambda: rope(head_size=4.0), r"head_size must be a whole number.*got 4\.0"),
    "base zero": (lambda: rope(base=0.0), r"base must be a number above 0, got 0\.0"),
    "base zero in a config": (
        lambda: models.GPTConfig(5, rope_base=0.0),
        r"GPTConfig: rope_base must be .* above 0, got 0\.0",
    ),
    "dropout in quotes": (lambda: models.GPTConfig(5, dropout="a"), r"GPTConfig: dropout must be in \[0, 1\], got 'a'"),
    "an unknown pairing": (lambda: rope(pairing="x"), "pairing must be one of halves, interleaved; got 'x'"),
    "a start below 0": (lambda: rope()(tg.zeros(1, 2, 3, 4), start=-1), "start must be .* at least 0, got -1"),
    "another head size": (
        lambda: ATTENTION(X, positions=rope(head_size=6)),
        r"must be \(B, H, T, 6\), got \(2, 2, 5, 4\)",
    ),
    "slopes of other heads": (
        lambda: ATTENTION(X, positions=nn.AlibiPositions(4)),
        "made for 4 heads, but num_heads is 2",
    ),
    "slopes of one head": (
        lambda: ATTENTION(X, positions=nn.AlibiPositions(1)),
        "made for 1 heads, but num_heads is 2",
    ),
    "a bias of one head": (lambda: ATTENTION(X, positions=nn.RelativePositions(1)), "made for 1 heads"),
    "no heads with a bias": (lambda: nn.RelativePositions(0), "num_heads must be a whole number of at least 1, got 0"),
    "a name as positions": (lambda: ATTENTION(X, positions="rope"), r"nn\.RotaryPositions\(head_size\) does, got str"),
    "a table as positions": (lambda: ATTENTION(X, positions=nn.NoPositions()), "got NoPositions; those of tables"),
    "an empty table": (
        lambda: nn.LearnedPositions(0, 8),
        "LearnedPositions: max_len must be a whole number of at least 1",
    ),
    "a table of minus one": (
        lambda: nn.sinusoidal_table(-1, 8),
        "max_len must be a whole number of at least 0, got -1",
    ),
    "no channels": (lambda: nn.SinusoidalPositions(8, 0), "d_model must be a whole number of at least 1, got 0"),
    "longer than the table": (
        lambda: nn.SinusoidalPositions(4, 8)(X),
        "positions up to 5 were asked for, but max_len is 4",
    ),
    "places of another length": (
        lambda: nn.LearnedPositions(9, 8)(X, positions=tg.tensor([0, 1, 2])),
        r"positions must be whole numbers \(B, T\) = \(2, 5\), or \(T,\), got int64 \(3,\)",
    ),
    "places with a fraction": (
        lambda: nn.LearnedPositions(9, 8)(X, positions=tg.zeros(2, 5)),
        r"positions must be whole numbers .* got float32 \(2, 5\)",
    ),
    "a window that sees nothing": (lambda: nn.window_mask(3, window=0), "window must be a whole number of at least 1"),
    "minus one query": (lambda: nn.causal_mask(-1), "causal_mask: keys must be a whole number of at least 0, got -1"),
    "a mask of numbers": (lambda: ATTENTION(X, mask=tg.ones(5, 5).long()), "mask must be bool .* or floating point"),
    "a mask of an array": (lambda: ATTENTION(X, mask=np.ones((5, 5), bool)), "mask must be a Tensor, got ndarray"),
    "a mask that could mean two things": (
        lambda: ATTENTION(X, mask=tg.ones(2, 5, 5).bool()),
        r"must broadcast to \(B, H, Tq, Tk\) = \(2, 2, 5, 5\), got \(2, 5, 5\); a mask \(B, Tq, Tk\) must be",
    ),
    "masks of numbers and bools": (
        lambda: nn.combine_masks(nn.causal_mask(2), tg.ones(2, 2).long()),
        "masks must be bool or floating point, got torch.int64",
    ),
    "masks of two shapes": (
        lambda: nn.combine_masks(nn.causal_mask(2), tg.zeros(3, 3)),
        r"masks of the shapes \(2, 2\) and \(3, 3\) do not broadcast together",
    ),
    "no inner width": (lambda: nn.FeedForward(8, 0), "FeedForward: d_ff must be a whole number of at least 1, got 0"),
    "no groups": (lambda: nn.GroupNorm(0, 8), "num_channels 8 do not split into num_groups 0"),
    "an unknown norm": (lambda: nn.make_norm("group", 8), "norm must be one of layer, rms, batch, none; got 'group'"),
    "an unknown attention": (
        lambda: nn.make_attention("x", 8, 2),
        "one of full, local, block_sparse, linear, additive",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_it_is_told_in_one_line(name: str) -> None:
    do, message = BAD[name]
    with pytest.raises((ValueError, TypeError, RuntimeError), match=message) as caught:
        do()
    assert "\n" not in str(caught.value)


def test_what_looks_like_it_and_is_right_goes_through() -> None:
    assert nn.MultiHeadAttention(np.int64(8), np.int64(2)).head_size == 4
    assert nn.causal_mask(0).shape == (0, 0) and nn.sinusoidal_table(0, 4).shape == (0, 4)
    for positions in (nn.AlibiPositions(2), nn.RelativePositions(2), nn.RotaryPositions(4)):
        assert ATTENTION(X, positions=positions).shape == (2, 5, 8)
    places = tg.tensor([[4, 3, 2, 1, 0]])
    assert (
        nn.LearnedPositions(5, 8)(X, positions=places).shape == nn.LearnedPositions(5, 8)(X, positions=places[0]).shape
    )
