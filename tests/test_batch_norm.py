"""Batch norm where its kernels could go wrong: large means, overflow, NaN, threads, statistics that move meanwhile."""

import numpy as np
import pytest

import tinygrad_tf as tg
from tinygrad_tf.kernels import batch_norm as kernels
from tinygrad_tf.kernels._compile import get_num_threads, set_num_threads
from tinygrad_tf.kernels.channel_statistics import channel_statistics, channel_statistics_reference
from tinygrad_tf.nn import functional as F

EPS = 1e-5
SHAPES = [(700, 40), (40, 6, 7, 9)]


def normal(shape, dtype=np.float32, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("shift", [1e6, -1e4, 0.0])
def test_large_means(shape, shift):
    x = (normal(shape, np.float64) + shift).astype(np.float32)
    g, weight, bias = normal(shape, seed=1), *normal((2, shape[1]), seed=2)
    exact = x.astype(np.float64)
    statistics, true = channel_statistics(x), channel_statistics_reference(exact)
    np.testing.assert_allclose(statistics, true, rtol=1e-12)
    y = kernels.batch_norm(x, weight, bias, *statistics, EPS)
    np.testing.assert_allclose(y, kernels.batch_norm_reference(exact, weight, bias, *true, EPS), atol=4e-6)
    results = kernels.batch_norm_backward(g, x, weight, *statistics, EPS, True)
    wanted = kernels.batch_norm_backward_reference(g.astype(np.float64), exact, weight, *true, EPS, True)
    for result, want in zip(results, wanted, strict=True):
        np.testing.assert_allclose(result, want, atol=2e-5)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_first_entry_is_an_outlier(shape):
    x = normal(shape)
    x[0] = 1e6
    true = channel_statistics_reference(x)
    np.testing.assert_allclose(channel_statistics(x), true, rtol=1e-12)


@pytest.mark.parametrize("shape", [(5, 3), (2, 3, 4)])
@pytest.mark.parametrize("dtype, sizes", [(np.float32, (3e19, 1e30, 1e37)), (np.float64, (1e100, 1e150))])
def test_numbers_whose_squares_are_out_of_range(shape, dtype, sizes):
    x, g = normal(shape, dtype), normal(shape, dtype, 1)
    first = F.batch_norm(tg.tensor(x), None, None, training=True, eps=0.0).numpy()
    for size in sizes:
        large = tg.tensor(x * dtype(size), requires_grad=True)
        y = F.batch_norm(large, None, None, training=True)
        y.backward(tg.tensor(g))
        with tg.use_reference():
            again = F.batch_norm(tg.tensor(x * dtype(size)), None, None, training=True)
        small = tg.tensor(x, requires_grad=True)
        F.batch_norm(small, None, None, training=True, eps=0.0).backward(tg.tensor(g))
        np.testing.assert_allclose(y.detach().numpy(), first, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(again.numpy(), first, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(large.grad.numpy() * dtype(size), small.grad.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_nan_and_infinity_spread_within_their_channel_only(shape, bad):
    x = normal(shape)
    x[1, 2] = bad
    y = F.batch_norm(tg.tensor(x), None, None, training=True).numpy()
    assert not np.isfinite(y[:, 2]).any() or bad == np.inf
    assert np.isnan(y[1, 2]).all() and np.isfinite(np.delete(y, 2, 1)).all()


@pytest.mark.parametrize("shape", [(0, 3), (0, 3, 4), (2, 0, 4), (2, 3, 0)])
def test_empty_arrays(shape):
    x = tg.zeros(*shape, requires_grad=True)
    weight = tg.ones(shape[1], requires_grad=True)
    F.batch_norm(x, tg.zeros(shape[1]), tg.ones(shape[1]), weight).sum().backward()
    assert x.grad.shape == shape and weight.grad.tolist() == [0.0] * shape[1]


@pytest.mark.parametrize("shape", SHAPES)
def test_the_same_bits_for_any_number_of_threads(shape):
    x, g, weight, before = normal(shape), normal(shape, seed=1), normal(shape[1], seed=2), get_num_threads()
    results = []
    try:
        for threads in (1, max(before, 3)):
            set_num_threads(threads)
            statistics = channel_statistics(x)
            y = kernels.batch_norm(x, weight, weight, *statistics, EPS)
            results.append([*statistics, y, *kernels.batch_norm_backward(g, x, weight, *statistics, EPS, True)])
    finally:
        set_num_threads(before)
    for one, several in zip(*results, strict=True):
        assert one.tobytes() == several.tobytes()


@pytest.mark.parametrize("again", [False, True])
def test_running_statistics_may_move_before_the_gradient_is_asked_for(again):
    """Neither they nor the batch's are read from the buffers then."""
    norm = tg.nn.BatchNorm1d(3)
    x = tg.tensor(normal((5, 3)), requires_grad=True)
    other = tg.tensor(normal((9, 3), seed=1))
    found = []
    for moves in (False, True):
        norm.reset_running_stats()
        norm.train(again)
        y = norm(x)
        if moves:
            norm.train()(other)
        (g,) = tg.autograd.grad(y.square().sum(), x, create_graph=again)
        found.append(g.tolist())
    assert found[0] == found[1]


def test_shapes_that_do_not_fit_are_refused():
    x, ones, two = np.ones((3, 4)), np.ones(4), np.ones(2)
    for name, call in [
        ("weight", lambda: kernels.batch_norm(x, two, None, ones, ones, EPS)),
        ("bias", lambda: kernels.batch_norm(x, None, two, ones, ones, EPS)),
        ("mean", lambda: kernels.batch_norm(x, None, None, two, ones, EPS)),
        ("variance", lambda: kernels.batch_norm(x, None, None, ones, two, EPS)),
        ("g", lambda: kernels.batch_norm_backward(x[:2], x, None, ones, ones, EPS, True)),
    ]:
        with pytest.raises(ValueError, match=rf"^{name} must have shape \(.*\), got \(.*\)$"):
            call()


@pytest.mark.parametrize("half", [tg.float16, tg.bfloat16])
def test_sixteen_bits_with_weights_of_float32(half):
    x = tg.tensor(normal((8, 3, 4)))
    weight, bias = tg.tensor(normal(3, seed=1)), tg.tensor(normal(3, seed=2))
    exact = F.batch_norm(x.to(half).float(), None, None, weight, bias, training=True)
    y = F.batch_norm(x.to(half), None, None, weight, bias, training=True)
    assert y.dtype == half
    np.testing.assert_allclose(y.float().numpy(), exact.numpy(), rtol=1e-2, atol=1e-2)
