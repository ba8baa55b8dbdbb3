"""Attention on matrix tiles against the plain formula in float64, and what goes to the vector registers instead."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.test_attention_kernel import check, normal, reference_gradients, split_heads, wide
from tinygrad_tf.kernels import _attention_tiles as on_tiles
from tinygrad_tf.kernels import _matrix_tiles, precision
from tinygrad_tf.kernels import attention as kernels

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
tiles_only = pytest.mark.skipif(not _matrix_tiles.AVAILABLE, reason="this processor or system has no matrix tiles")

# (B, H, Hk, Tq, Tk, D, Dv): whole blocks; ragged ones; grouped heads; fewer and more keys; few heads, so parts of them
SHAPES = [
    (2, 3, 3, 256, 256, 64, 64),
    (1, 9, 9, 100, 100, 48, 24),
    (3, 4, 2, 70, 70, 32, 64),
    (2, 5, 1, 33, 190, 64, 32),
    (2, 8, 8, 190, 33, 64, 32),
    (1, 1, 1, 300, 300, 64, 64),
    (1, 2, 1, 40, 1100, 32, 32),
]


def arrays_of(shape, dtype=np.float32):
    B, H, Hk, Tq, Tk, D, Dv = shape
    shapes = (B, H, Tq, D), (B, Hk, Tk, D), (B, Hk, Tk, Dv)
    return [normal(*size, seed=s).astype(dtype) for s, size in enumerate(shapes)]


def both(arrays, is_causal, scale=0.3):
    """The result and the gradients; the gradient from above is the result itself."""
    out, logsumexp = kernels.attention(*arrays, None, is_causal, scale)
    gradients = kernels.attention_backward(out, *arrays, None, out, logsumexp, is_causal, scale)
    return out, logsumexp, *gradients[:3]


@pytest.fixture
def only_tiles(monkeypatch):
    """Everything is large enough for the tiles, and nothing may go to the vector registers."""
    monkeypatch.setattr(on_tiles, "WORTHWHILE", 0)
    monkeypatch.setattr(kernels, "_attend", None)
    monkeypatch.setattr(kernels, "attention_gradients", None)


@tiles_only
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("is_causal", [False, True])
def test_float32_is_as_exact_as_the_plain_formula(only_tiles, shape, is_causal):
    arrays = arrays_of(shape)
    assert on_tiles.takes(*arrays, 0.3)
    check(*arrays, is_causal=is_causal)


@tiles_only
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name, error", [("high", 2e-4), ("medium", 6e-2)])
def test_fewer_bits_of_float32(only_tiles, shape, name, error):
    """As exact as the setting says, and not by chance as exact as float32."""
    arrays = arrays_of(shape)
    wanted = both(arrays, True)
    with precision.in_this_thread(name):
        found = both(arrays, True)
    for got, right in zip(found, wanted, strict=True):
        difference = np.abs(got - right).max() / np.abs(right).max()
        assert error / 1000 < difference < error


@tiles_only
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("is_causal", [False, True])
def test_bfloat16_loses_no_more_than_rounding(only_tiles, shape, is_causal):
    arrays = arrays_of(shape, BFLOAT16)
    out, logsumexp, *gradients = both(arrays, is_causal)
    exact = list(map(wide, arrays))
    wanted = kernels.reference(*exact, None, is_causal, 0.3)
    np.testing.assert_allclose(logsumexp, wanted[1], atol=1e-5)
    wanted = wanted[0], *reference_gradients(out.astype(float), *exact, None, is_causal, 0.3)[:3]
    for got, best in zip((out, *gradients), wanted, strict=True):
        assert got.dtype == BFLOAT16
        error = np.abs(got.astype(float) - best)
        assert error.max() <= 2**-7 * np.abs(best).max()
        assert error.mean() <= 2**-8 * np.abs(best).mean()


@tiles_only
def test_bfloat16_weights_are_rounded_and_nothing_else_before_the_end(only_tiles):
    """The formula with rounded weights, in a single block of keys: but for the last bit, the same numbers."""
    query, key, value = arrays_of((2, 3, 3, 96, 96, 64, 64), BFLOAT16)
    out, _ = kernels.attention(query, key, value, None, False, 0.125)
    scores = query.astype(np.float64) @ key.astype(np.float64).swapaxes(-1, -2) * 0.125
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    rounded = weights.astype(np.float32).astype(BFLOAT16).astype(np.float64)
    plain = (rounded @ value.astype(np.float64) / weights.sum(-1, keepdims=True)).astype(np.float32).astype(BFLOAT16)
    assert np.mean(plain == out) > 0.98


@tiles_only
@pytest.mark.parametrize("dtype", [np.dtype(np.float32), BFLOAT16])
def test_slices_of_one_projection_and_their_gradients(only_tiles, dtype):
    x = normal(3, 70, 3 * 4 * 32).astype(dtype)
    arrays = [split_heads(part, 4) for part in np.split(x, 3, axis=-1)]
    sliced, apart = both(arrays, True), both([np.ascontiguousarray(a) for a in arrays], True)
    assert all(a.base is sliced[2].base and a.base.shape == x.shape for a in sliced[2:])
    for a, b in zip(sliced, apart, strict=True):
        np.testing.assert_array_equal(a, b)


@tiles_only
@pytest.mark.parametrize("dtype", [np.dtype(np.float32), BFLOAT16])
def test_threads_do_not_change_a_bit(only_tiles, dtype):
    from tinygrad_tf.kernels._compile import get_num_threads, set_num_threads

    before, results = get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            set_num_threads(threads)
            results.append([both(arrays_of(SHAPES[i], dtype), True) for i in (0, 5)])
    finally:
        set_num_threads(before)
    for other in results[1:]:
        for first, second in zip(results[0], other, strict=True):
            assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))


@tiles_only
@pytest.mark.parametrize("dtype", [np.dtype(np.float32), BFLOAT16])
@pytest.mark.parametrize("number", [np.nan, np.inf, 2.0**40, None])
@pytest.mark.parametrize("operand", range(4))
def test_what_tiles_cannot_hold_goes_to_vector_registers(monkeypatch, dtype, number, operand):
    """A number out of range in query, key, value or the gradient; None: all are so small that products would be 0.

    The last key is seen by the last query alone, and there it must be as with vector registers, too.
    """
    monkeypatch.setattr(on_tiles, "WORTHWHILE", 0)
    *arrays, g = *arrays_of((1, 2, 2, 64, 64, 32, 32), dtype), normal(1, 2, 64, 32).astype(dtype)
    changed = [*arrays, g][operand]
    if number is None:
        changed[...] = changed.astype(np.float32) * 2.0**-60
    else:
        changed[0, 0, -1, 5] = number
    results = []
    monkeypatch.setattr(_matrix_tiles, "AVAILABLE", False)
    given = kernels.attention(*arrays, None, True, 0.3)
    for available in (True, False):
        monkeypatch.setattr(_matrix_tiles, "AVAILABLE", available)
        out = kernels.attention(*arrays, None, True, 0.3) if operand < 3 else given
        results.append((*out, *kernels.attention_backward(g, *arrays, None, *out, True, 0.3)[:3]))
    for a, b in zip(*results, strict=True):
        np.testing.assert_array_equal(a.astype(np.float32), b.astype(np.float32))


@tiles_only
def test_zeros_stay_zeros(only_tiles):
    query, key, value = arrays_of((1, 2, 2, 64, 64, 32, 32))
    out, logsumexp, *_ = both((query * 0, key, value), False)
    np.testing.assert_allclose(logsumexp, np.log(64), rtol=1e-6)
    np.testing.assert_allclose(out, np.broadcast_to(value.mean(2, keepdims=True), out.shape), atol=1e-6)
    assert all((x == 0).all() for x in both((query, key, value * 0), True)[2:4])


@tiles_only
def test_what_the_tiles_take():
    def arrays(dtype=np.float32, Tq=256, Tk=256, D=64):
        return arrays_of((1, 1, 1, Tq, Tk, D, D), dtype)

    assert on_tiles.takes(*arrays(), 0.3)
    assert on_tiles.takes(*arrays(BFLOAT16, 32, 40, 32), 0.3)
    for refused in (
        arrays(Tq=64, Tk=64), arrays(np.float64), arrays(np.float16), arrays(Tq=16), arrays(Tk=5000), arrays(D=33),
        [*arrays()[:2], arrays(BFLOAT16)[2]],
    ):  # fmt: skip
        assert not on_tiles.takes(*refused, 0.3)
    for scale in (0.0, -1.0, float("nan"), 1e30):
        assert not on_tiles.takes(*arrays(), scale)


@tiles_only
def test_masks_windows_and_slopes_do_not_come_to_the_tiles(monkeypatch):
    monkeypatch.setattr(on_tiles, "takes", None)
    arrays = arrays_of((1, 2, 2, 64, 64, 32, 32))
    for options in ({"mask": np.ones((64, 64), bool)}, {"window": 9}, {"slopes": np.ones(2, np.float32)}):
        check(*arrays, is_causal=True, **options)


def test_without_tiles_nothing_is_taken(monkeypatch):
    monkeypatch.setattr(_matrix_tiles, "AVAILABLE", False)
    assert not on_tiles.takes(*arrays_of(SHAPES[0]), 0.3)
