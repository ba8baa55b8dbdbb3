"""Positions: their values, their limits, and what each promises about distances."""

from __future__ import annotations

import numpy as np
import pytest

import tinygrad_tf as tg
from tinygrad_tf import nn


def test_sinusoids_have_the_papers_values_also_for_odd_widths() -> None:
    four, five = nn.sinusoidal_table(3, 4), nn.sinusoidal_table(3, 5)
    np.testing.assert_allclose(four[1], [0.841471, 0.540302, 0.010000, 0.999950], atol=1e-6)
    np.testing.assert_allclose(five[1], [0.841471, 0.540302, 0.025116, 0.999685, 0.000631], atol=1e-6)
    assert four[0].tolist() == [0, 1, 0, 1]
    assert four.dtype == np.float64


def test_rotation_takes_every_position_k_further() -> None:
    table = nn.sinusoidal_table(40, 16)
    for k in (0, 1, 7, -3):
        R = nn.rotation(k, 16)
        np.testing.assert_allclose(table[5:30] @ R.T, table[5 + k : 30 + k], atol=1e-12)
        np.testing.assert_allclose(R @ R.T, np.eye(16), atol=1e-12)
    with pytest.raises(ValueError, match=r"even, got 5"):
        nn.rotation(1, 5)


@pytest.mark.parametrize("kind", [nn.SinusoidalPositions, nn.LearnedPositions])
def test_a_length_beyond_the_table_names_both_numbers(kind: type) -> None:
    positions = kind(8, 4)
    with pytest.raises(ValueError, match=r"9.*max_len is 8"):
        positions(tg.zeros(1, 9, 4))
    with pytest.raises(ValueError, match=r"10.*max_len is 8"):
        positions(tg.zeros(1, 1, 4), start=9)
    with pytest.raises(ValueError, match=r"9.*max_len is 8"):
        positions(tg.zeros(1, 1, 4), positions=tg.tensor([[8]]))
    with pytest.raises(ValueError, match="0 or above"):
        positions(tg.zeros(1, 1, 4), positions=tg.tensor([[-1]]))
    with pytest.raises(ValueError, match=r"\(B, T, 4\)"):
        positions(tg.zeros(1, 3, 5))


@pytest.mark.parametrize("kind", [nn.SinusoidalPositions, nn.LearnedPositions])
def test_added_positions_may_start_anywhere_and_differ_by_row(kind: type) -> None:
    tg.manual_seed(0)
    positions = kind(8, 4)
    whole = positions(tg.zeros(1, 8, 4)).detach().numpy()
    np.testing.assert_array_equal(positions(tg.zeros(1, 3, 4), start=5).detach().numpy(), whole[:, 5:])
    rows = positions(tg.zeros(2, 2, 4), positions=tg.tensor([[0, 1], [6, 7]])).detach().numpy()
    np.testing.assert_array_equal(rows, np.stack([whole[0, :2], whole[0, 6:]]))


@pytest.mark.parametrize(
    ("pairing", "wanted"),
    [
        ("interleaved", [-1.142640, 1.922076, 2.959851, 4.029800]),
        ("halves", [-1.984111, 1.959901, 2.462378, 4.019800]),
    ],
)
def test_rope_turns_pairs(pairing: str, wanted: list[float]) -> None:
    rope = nn.RotaryPositions(4, pairing=pairing)
    x = tg.tensor([[[[1.0, 2.0, 3.0, 4.0]]]], dtype=tg.float64)
    np.testing.assert_allclose(rope(x, start=1).numpy().ravel(), wanted, atol=1e-6)
    np.testing.assert_array_equal(rope(x, start=0).numpy(), x.numpy())
    long = tg.randn(1, 2, 50, 4)
    np.testing.assert_allclose(rope(long).norm(dim=-1).numpy(), long.norm(dim=-1).numpy(), rtol=1e-5)


@pytest.mark.parametrize("pairing", ["halves", "interleaved"])
def test_rope_products_depend_on_the_distance_alone(pairing: str) -> None:
    rope, rng = nn.RotaryPositions(6, pairing=pairing), np.random.default_rng(0)
    q, k = (tg.tensor(rng.normal(size=(1, 1, 1, 6))) for _ in range(2))
    products = [(rope(q, start=i + 3) * rope(k, start=i)).sum().item() for i in (0, 10, 100)]
    np.testing.assert_allclose(products, products[0], rtol=1e-10)
    assert abs((rope(q, start=4) * rope(k, start=0)).sum().item() - products[0]) > 1e-3


def test_the_two_pairings_are_each_other_with_channels_reordered() -> None:
    x = tg.randn(1, 1, 5, 8, dtype=tg.float64)
    order = np.arange(8).reshape(2, 4).T.ravel()  # halves to neighbours
    halves = nn.RotaryPositions(8)(x).numpy()
    neighbours = nn.RotaryPositions(8, pairing="interleaved")(tg.tensor(x.numpy()[..., order])).numpy()
    np.testing.assert_allclose(neighbours, halves[..., order], atol=1e-12)


def test_rope_says_what_it_cannot_do() -> None:
    with pytest.raises(ValueError, match="base must be a number above 0, got 'large'"):
        nn.RotaryPositions(4, base="large")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="head_size must be even, got 5"):
        nn.RotaryPositions(5)
    with pytest.raises(ValueError, match="halves, interleaved; got 'neox'"):
        nn.RotaryPositions(4, pairing="neox")
    with pytest.raises(ValueError, match=r"\(B, H, T, 4\), got \(1, 1, 2, 6\)"):
        nn.RotaryPositions(4)(tg.zeros(1, 1, 2, 6))


def test_alibi_slopes_follow_the_papers_rule() -> None:
    assert nn.alibi_slopes(8).tolist() == [2.0**-i for i in range(1, 9)]
    assert nn.alibi_slopes(6).tolist() == [0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125]
    assert nn.alibi_slopes(1).tolist() == [2.0**-8]
    with pytest.raises(ValueError, match="at least 1, got 0"):
        nn.alibi_slopes(0)


def test_alibi_in_the_kernel_is_alibi_as_a_bias() -> None:
    """Also behind a cache, where the kernel counts from another place: each row's constant falls out of the softmax."""
    tg.manual_seed(0)
    attention, alibi = nn.MultiHeadAttention(8, 4).double(), nn.AlibiPositions(4)
    x = tg.randn(2, 6, 8, dtype=tg.float64)
    bias = alibi.bias(6, 6)
    wanted = attention(x, mask=nn.combine_masks(bias, nn.causal_mask(6))).detach().numpy()
    np.testing.assert_allclose(attention(x, is_causal=True, positions=alibi).detach().numpy(), wanted, atol=1e-12)


# T5's buckets for key minus query from -9 to 9, of 8 buckets up to the distance 16.
BOTH_WAYS = [3, 3, 3, 3, 2, 2, 2, 2, 1, 0, 5, 6, 6, 6, 6, 7, 7, 7, 7]
BACKWARDS = [6, 6, 5, 5, 4, 4, 3, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]


def test_relative_buckets() -> None:
    distance = np.arange(-9, 10)
    assert nn.RelativePositions(1, 8, 16).bucket(distance).tolist() == BOTH_WAYS
    assert nn.RelativePositions(1, 8, 16, bidirectional=False).bucket(distance).tolist() == BACKWARDS
    assert nn.RelativePositions(1, 8, 16).bucket([10**6, -(10**6)]).tolist() == [7, 3]


def test_relative_bias_depends_on_the_distance_and_is_trained() -> None:
    relative = nn.RelativePositions(2, 8, 16)
    bias = relative.bias(4, 6, offset=2)
    assert tuple(bias.shape) == (2, 4, 6)
    np.testing.assert_array_equal(bias.detach().numpy(), relative.bias(6, 6).detach().numpy()[:, 2:])
    bias.sum().backward()
    assert relative.weight.grad.sum().item() == 48
    with pytest.raises(ValueError, match="got 3, 16"):
        nn.RelativePositions(2, 3, 16)


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("name", ["rope", "alibi", "relative"])
def test_attention_with_relative_positions_does_not_mind_a_shift(name: str, is_causal: bool) -> None:
    """The last tokens give the same wherever they stand, if nothing before them may be seen."""
    from tinygrad_tf.nn.position import attention_positions

    tg.manual_seed(1)
    attention = nn.MultiHeadAttention(8, 2).double()
    positions = attention_positions(name, 2, 4, bidirectional=not is_causal).double()  # type: ignore[union-attr]
    x = tg.randn(1, 9, 8, dtype=tg.float64)
    hidden = tg.tensor(np.arange(9) >= 4).reshape(1, 1, 1, 9)
    late = attention(x, mask=hidden, is_causal=is_causal, positions=positions)[:, 4:]
    early = attention(x[:, 4:], is_causal=is_causal, positions=positions)
    np.testing.assert_allclose(late.detach().numpy(), early.detach().numpy(), atol=1e-10)
    order = [6, 4, 8, 5, 7]
    other = attention(x[:, order], is_causal=is_causal, positions=positions)
    assert np.abs(other.detach().numpy() - early.detach().numpy()[:, [n - 4 for n in order]]).max() > 1e-4


def test_unknown_positions_list_the_known_ones() -> None:
    from tinygrad_tf.nn.position import added_positions

    with pytest.raises(ValueError, match="sinusoidal, learned, relative, rope, alibi, none; got 'rotary'"):
        added_positions("rotary", 8, 4)


def test_positions_say_what_they_cannot_take() -> None:
    for call, error, words in (
        (lambda: nn.RelativePositions(2, buckets="a"), ValueError, "buckets must be a whole number"),
        (lambda: nn.RelativePositions(2, max_distance=9.5), ValueError, "max_distance must be a whole number"),
        (lambda: nn.rotation(1, "a"), ValueError, "rotation: d_model must be a whole number"),
        (lambda: nn.SinusoidalPositions(4, 2)(np.zeros((1, 3, 2))), TypeError, "x must be a tensor, got ndarray"),
        (
            lambda: nn.LearnedPositions(4, 2)(tg.zeros(1, 2, 2), positions=[0, 1]),
            TypeError,
            "positions must be a tensor",
        ),
    ):
        with pytest.raises(error, match=words):
            call()  # type: ignore[no-untyped-call]
