"""Windows as columns, their sums, and the largest entry of each: the kernels against the plain formulas."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tinygrad_tf import tensor, use_reference
from tinygrad_tf.kernels import pooling
from tinygrad_tf.kernels._compile import get_num_threads, set_num_threads
from tinygrad_tf.nn import functional as F
from tinygrad_tf.ops.windows import Look, columns, count_windows, from_columns, put_back, taken

many = settings(max_examples=60, deadline=None)
small = st.integers(1, 4)


@st.composite
def looks(draw):
    """Some images and windows over them, which may reach beyond the image on all sides."""
    axes = draw(st.integers(1, 2))
    lengths = [draw(st.integers(1, 9)) for _ in range(axes)]
    size, stride, dilation = ([draw(small) for _ in range(axes)] for _ in range(3))
    before, after = ([draw(st.integers(0, 4)) for _ in range(axes)] for _ in range(2))
    whole = [b + n + a for b, n, a in zip(before, lengths, after, strict=True)]
    places = list(map(count_windows, whole, size, stride, dilation))
    if min(places) < 1:
        before = [b + d * (k - 1) for b, d, k in zip(before, dilation, size, strict=True)]
        whole = [b + n + a for b, n, a in zip(before, lengths, after, strict=True)]
        places = list(map(count_windows, whole, size, stride, dilation))
    shape = (draw(st.integers(1, 3)), draw(st.integers(1, 3)), *lengths)
    x = np.random.default_rng(draw(st.integers(0, 99))).normal(size=shape)
    return x, Look(*(tuple(each) for each in (size, stride, dilation, before, places)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@many
@given(looks())
def test_columns_and_their_sums(dtype, drawn):
    x, look = drawn
    x = x.astype(dtype)
    got = columns(x, look=look)
    g = np.random.default_rng(1).normal(size=got.shape).astype(dtype)
    total = from_columns(g, shape=x.shape, look=look)
    with use_reference():
        np.testing.assert_array_equal(got, columns(x, look=look))
        np.testing.assert_allclose(total, from_columns(g, shape=x.shape, look=look), rtol=1e-5, atol=1e-5)
    adjoint = abs((got.astype(float) * g).sum() - (x.astype(float) * total).sum())
    assert adjoint < 1e-5 * max(1.0, abs(got.astype(float) * g).sum())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@many
@given(st.data())
def test_largest_entries(dtype, data):
    """Few different numbers, so that many are equal; NaN and infinities among them."""
    axes = data.draw(st.integers(1, 2))
    shape = (2, 2, *(data.draw(st.integers(2, 8)) for _ in range(axes)))
    values = [-np.inf, -1.0, 0.0, 1.0, *([np.nan] if data.draw(st.booleans()) else [])]
    x = np.random.default_rng(data.draw(st.integers(0, 99))).choice(values, shape).astype(dtype)
    size = [data.draw(st.integers(1, min(4, n))) for n in shape[2:]]
    options = {
        "kernel_size": tuple(size),
        "stride": data.draw(small),
        "padding": tuple(data.draw(st.integers(0, k // 2)) for k in size),
        "ceil_mode": data.draw(st.booleans()),
        "return_indices": True,
    }
    pool = F.max_pool1d if axes == 1 else F.max_pool2d
    best, places = pool(tensor(x), **options)
    with use_reference():
        expected, expected_places = pool(tensor(x), **options)
    np.testing.assert_array_equal(places.numpy(), expected_places.numpy())
    np.testing.assert_array_equal(best.numpy(), expected.numpy())


def test_a_window_without_an_entry_of_the_image_has_the_lowest_number_and_gives_no_gradient():
    x = tensor([[[1.0, 2.0]]], requires_grad=True)
    best, places = F.max_pool1d(x, 2, stride=1, padding=1, dilation=3, return_indices=True)
    assert best.tolist() == [[[-np.inf]]] and places.tolist() == [[[-1]]]
    best.sum().backward()
    assert x.grad.tolist() == [[[0.0, 0.0]]]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_entries_by_their_places_and_back(dtype):
    rng = np.random.default_rng(0)
    x, places = rng.normal(size=(3, 4, 5, 6)).astype(dtype), rng.integers(0, 30, (3, 4, 7))
    got = taken(x, places=places)
    np.testing.assert_array_equal(got, pooling.take_reference(x, places))
    np.testing.assert_allclose(
        put_back(got, places=places, shape=x.shape), pooling.put_reference(got, places, x.shape), rtol=1e-6
    )


def test_the_same_bits_for_any_number_of_threads():
    rng, before = np.random.default_rng(0), get_num_threads()
    x = rng.normal(size=(8, 16, 20, 20)).astype(np.float32)
    look = Look((3, 3), (1, 1), (1, 1), (1, 1), (20, 20))
    results = []
    try:
        for threads in (1, before):
            set_num_threads(threads)
            seen = columns(x, look=look)
            results.append((seen, from_columns(seen, shape=x.shape, look=look), pooling.largest(x, *look)))
    finally:
        set_num_threads(before)
    for one, several in zip(*results, strict=True):
        assert one.tobytes() == several.tobytes()


def test_a_bias_is_rounded_as_products_are_under_autocast():
    import tinygrad_tf as tg

    layer = tg.nn.Conv2d(2, 3, 3)
    with tg.autocast("cpu", dtype=tg.bfloat16):
        assert layer(tg.zeros(1, 2, 5, 5)).dtype == tg.bfloat16
        assert tg.nn.ConvTranspose1d(2, 3, 3)(tg.zeros(1, 2, 5)).dtype == tg.bfloat16
