"""The row kernels against their NumPy references: values, gradients, strides, extremes, dtypes, threads."""

import doctest
import functools
import itertools
import math
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass

import llvmlite.binding
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tinygrad_tf.kernels import (
    _compile,
    adamw,
    batch_norm,
    channel_statistics,
    cross_entropy,
    elementwise,
    embedding,
    gelu,
    layer_norm,
    softmax,
)

COLS = (1, 2, 3, 7, 15, 16, 17, 31, 33, 64, 65, 100, 127, 1000)
FLOATS = (np.float32, np.float64)
EPS = 1e-5
pytestmark = pytest.mark.filterwarnings("error")


@dataclass
class Case:
    """`make(x, g, rng)` gives the arguments; `reference` takes the same ones."""

    name: str
    kernel: Callable
    reference: Callable
    make: Callable


def row_case(name, module, make):
    return Case(name, getattr(module, name), getattr(module, f"{name}_reference"), make)


def weights(x, rng):
    return rng.normal(size=(2, x.shape[-1])).astype(x.dtype)


def layer_norm_backward_arguments(x, g, rng):
    weight, _ = weights(x, rng)
    exact = x.astype(np.float64)
    mean, variance = exact.mean(-1), exact.var(-1)
    return g, x, weight, mean.reshape(-1), (1 / np.sqrt(variance + EPS)).astype(x.dtype).reshape(-1)


def rms_norm_backward_arguments(x, g, rng):
    rrms = 1 / np.sqrt((x.astype(np.float64) ** 2).mean(-1) + EPS)
    return g, x, weights(x, rng)[0], rrms.astype(x.dtype).reshape(-1)


def targets(x, rng):
    target = rng.integers(0, x.shape[1], len(x))
    target[::5] = -100
    return target


def cross_entropy_backward_arguments(smoothing):
    def make(x, g, rng):
        target, weight = targets(x, rng), np.abs(weights(x, rng)[0])
        _, logsumexp = cross_entropy.cross_entropy_reference(x.astype(np.float64), target)
        return g[:, 0], x, logsumexp, target, weight if smoothing else None, -100, smoothing

    return make


def batch_norm_case(name, of_planes, given=False):
    """Of (N, C), or of (N, 2, L) made of it; with statistics that are given, or with its own."""
    backward = name.endswith("backward")

    def make(x, g, rng):
        x, g = (np.stack([a, a[::-1] / 2], 1) if of_planes else a for a in (x, g))
        weight, bias = rng.normal(size=(2, x.shape[1])).astype(x.dtype)
        statistics = rng.random((2, x.shape[1])) if given else channel_statistics.channel_statistics(x)
        return (g, x, weight, *statistics, EPS, not given) if backward else (x, weight, bias, *statistics, EPS)

    case = row_case(name, batch_norm, make)
    case.name = "_".join(["planes"] * of_planes + ["given"] * given + [name])
    return case


FUNCTIONS = ("tanh", "sigmoid", "erf", "exp", "expm1", "softplus", "relu")

CASES = [
    row_case("softmax", softmax, lambda x, g, rng: (x,)),
    row_case("softmax_backward", softmax, lambda x, g, rng: (g, softmax.softmax_reference(x))),
    row_case("log_softmax", softmax, lambda x, g, rng: (x,)),
    row_case("log_softmax_backward", softmax, lambda x, g, rng: (g, softmax.log_softmax_reference(x))),
    row_case("layer_norm", layer_norm, lambda x, g, rng: (x, *weights(x, rng), EPS)),
    row_case("layer_norm_backward", layer_norm, layer_norm_backward_arguments),
    row_case("rms_norm", layer_norm, lambda x, g, rng: (x, weights(x, rng)[0], EPS)),
    row_case("rms_norm_backward", layer_norm, rms_norm_backward_arguments),
    row_case("gelu", gelu, lambda x, g, rng: (x, "none")),
    row_case("gelu_backward", gelu, lambda x, g, rng: (g, x, "none")),
    Case("gelu_tanh", gelu.gelu, gelu.gelu_reference, lambda x, g, rng: (x, "tanh")),
    Case("gelu_tanh_backward", gelu.gelu_backward, gelu.gelu_backward_reference, lambda x, g, rng: (g, x, "tanh")),
    *(Case(f, getattr(elementwise, f), getattr(elementwise, f).reference, lambda x, g, rng: (x,)) for f in FUNCTIONS),
    *(
        Case(f, getattr(elementwise, f), getattr(elementwise, f).reference, lambda x, g, rng: (np.abs(x) + EPS,))
        for f in ("log", "log1p")
    ),
    *(
        Case(f, getattr(elementwise, f), getattr(elementwise, f).reference, lambda x, g, rng: (g, x))
        for f in ("add", "subtract", "multiply", "divide")
    ),
]
MATRIX_CASES = [
    row_case("cross_entropy", cross_entropy, lambda x, g, rng: (x, targets(x, rng))),
    Case(
        "cross_entropy_smooth",
        cross_entropy.cross_entropy,
        cross_entropy.cross_entropy_reference,
        lambda x, g, rng: (x, targets(x, rng), np.abs(weights(x, rng)[0]), -100, 0.1),
    ),
    row_case("cross_entropy_backward", cross_entropy, cross_entropy_backward_arguments(0.0)),
    Case(
        "cross_entropy_backward_smooth",
        cross_entropy.cross_entropy_backward,
        cross_entropy.cross_entropy_backward_reference,
        cross_entropy_backward_arguments(0.1),
    ),
    *(batch_norm_case("batch_norm", of_planes) for of_planes in (False, True)),
    *(batch_norm_case("batch_norm_backward", *kind) for kind in itertools.product((False, True), repeat=2)),
    row_case("channel_statistics", channel_statistics, lambda x, g, rng: (x,)),
    Case(
        "planes_channel_statistics",
        channel_statistics.channel_statistics,
        channel_statistics.channel_statistics_reference,
        lambda x, g, rng: (np.stack([x, x[::-1] / 2], 1),),
    ),
    Case("sum_rows", elementwise.sum_rows, lambda x: x.sum(0), lambda x, g, rng: (x,)),
]


def named(cases):
    return pytest.mark.parametrize("case", cases, ids=[case.name for case in cases])


def wider(arguments, dtype):
    """The arguments in a wider type, to find out the reference's own error."""
    wide = np.float64 if dtype is np.float32 else np.longdouble
    return [a.astype(wide) if isinstance(a, np.ndarray) and a.dtype.kind == "f" else a for a in arguments]


def check(case, arguments, dtype):
    """The kernel's error is at most twice the reference's own, plus some units in the last place."""
    before = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
    results, plain, exact = (
        r if isinstance(r, tuple) else (r,)
        for r in (case.kernel(*arguments), case.reference(*arguments), case.reference(*wider(arguments, dtype)))
    )
    for a, b in zip(arguments, before, strict=True):
        assert a is b or np.array_equal(a, b, equal_nan=True), "an argument was written to"
    assert len(results) == len(exact)
    for result, rough, true in zip(results, plain, exact, strict=True):
        assert result.shape == true.shape and result.flags.c_contiguous
        assert result.dtype in (dtype, np.float64)
        if true.size:
            terms = 0.1 * np.abs(arguments[0]).max(initial=0)
            if case.name.endswith("norm_backward"):  # terms as large as g / sqrt(variance) cancel in short rows
                rstd = 1 / np.sqrt(arguments[4] + EPS) if "batch" in case.name else arguments[-1]
                terms *= max(1.0, np.abs(rstd).max(initial=0))
            unit = np.finfo(dtype).eps * max(np.abs(true).max(), terms)
            assert np.abs(result - true).max() <= 2 * np.abs(rough - true).max() + 8 * unit


def normal(shape, dtype, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


@named(CASES + MATRIX_CASES)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("cols", COLS)
def test_sizes(case, dtype, cols):
    x, g = 3 * normal((7, cols), dtype), normal((7, cols), dtype, 1)
    check(case, case.make(x, g, np.random.default_rng(2)), dtype)


@named(CASES + MATRIX_CASES)
def test_several_blocks(case):
    x, g = normal((611, 301), np.float32), normal((611, 301), np.float32, 1)
    check(case, case.make(x, g, np.random.default_rng(2)), np.float32)


def all_of(results):
    return results if isinstance(results, tuple) else (results,)


IN_PLACE = [case for case in CASES if case.name in ("softmax_backward", "log_softmax_backward")]
IN_PLACE += [case for case in CASES if case.name in ("layer_norm_backward", "rms_norm_backward")]
IN_PLACE += [case for case in MATRIX_CASES if case.name.endswith("batch_norm_backward")]


@named(IN_PLACE)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(5, 7), (611, 301), (0, 3)])
def test_in_place(case, dtype, shape):
    """`own`: the same bits, in the memory of g; a g that does not lie as the result would is left alone."""
    x, g = normal(shape, dtype), normal(shape, dtype, 1)
    arguments = case.make(x, g, np.random.default_rng(2))

    apart = all_of(case.kernel(*arguments))
    g, turned = arguments[0].copy(), arguments[0].copy("F")
    inside, beside = (all_of(case.kernel(upper, *arguments[1:], own=True)) for upper in (g, turned))
    for a, b, c in zip(apart, inside, beside, strict=True):
        assert np.array_equal(a, b) and np.array_equal(a, c)
    assert inside[0] is g
    assert np.array_equal(turned, arguments[0])


def in_a_row(gap, falling):
    """Arrays that lie `gap` bytes from each other in memory, each behind or before the last: as np.empty would."""
    memory = np.zeros(1 << 20, np.uint8)
    at = memory.size // 2

    def place(shape, dtype=np.float64):
        nonlocal at
        count = math.prod(np.atleast_1d(shape)) * np.dtype(dtype).itemsize
        at -= (count + gap) * falling
        array = memory[at : at + count].view(dtype).reshape(shape)
        at += (count + gap) * (not falling)
        return array

    return place


@named(CASES + MATRIX_CASES)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("cols", [4, 12, 36])
def test_same_bits_wherever_arrays_lie(case, dtype, cols, monkeypatch):
    """Loops over two arrays have a slow form for arrays that overlap, with another order of sums: not neighbours."""
    x, g = normal((3, cols), dtype), normal((3, cols), dtype, 1)
    arguments = case.make(x, g, np.random.default_rng(2))
    wanted = case.kernel(*arguments)
    for gap, falling in itertools.product((0, 8, 32), (False, True)):
        place, moved = in_a_row(gap, falling), []
        for argument in arguments:
            if isinstance(argument, np.ndarray):
                moved.append(place(argument.shape, argument.dtype))
                moved[-1][...] = argument
            else:
                moved.append(argument)
        with monkeypatch.context() as patch:
            patch.setattr(np, "empty", place)
            results = case.kernel(*moved)
        for result, want in zip(all_of(results), all_of(wanted), strict=True):
            assert np.array_equal(result, want)


LAYOUTS = {
    "transposed": lambda x: np.asfortranarray(x),
    "stepped": lambda x: np.repeat(np.repeat(x, 2, 0), 3, 1)[::2, ::3],
    "negative": lambda x: np.ascontiguousarray(x[::-1, ::-1])[::-1, ::-1],
    "broadcast rows": lambda x: np.broadcast_to(x[0], x.shape),
    "broadcast columns": lambda x: np.broadcast_to(x[:, :1], x.shape),
}


@named(CASES + MATRIX_CASES)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_strides(case, dtype, layout):
    x, g = (LAYOUTS[layout](normal((6, 20), dtype, seed)) for seed in (0, 1))
    arguments = case.make(x, g, np.random.default_rng(2))
    check(case, [LAYOUTS[layout](a) if getattr(a, "shape", None) == x.shape else a for a in arguments], dtype)


@named(CASES)
@pytest.mark.parametrize("shape", [(20,), (2, 3, 4, 5), (1, 1, 1), (3, 0, 4), (0, 4)])
def test_leading_dimensions_and_empty_arrays(case, shape):
    x, g = normal(shape, np.float32), normal(shape, np.float32, 1)
    check(case, case.make(x, g, np.random.default_rng(2)), np.float32)


@named(CASES)
@settings(max_examples=25, deadline=None)
@given(
    shape=st.lists(st.integers(1, 9), min_size=1, max_size=4), seed=st.integers(0, 9), size=st.sampled_from([0.1, 9])
)
def test_any_shape(case, shape, seed, size):
    x, g = (size * normal(shape, np.float32, seed)).astype(np.float32), normal(shape, np.float32, seed + 1)
    check(case, case.make(x, g, np.random.default_rng(2)), np.float32)


@named([case for case in CASES if case.name not in ("add", "subtract", "multiply", "divide", "log")])
@pytest.mark.parametrize("half", [np.float16, ml_dtypes.bfloat16])
def test_half_precision(case, half):
    x, g = normal((5, 33), np.float32).astype(half), normal((5, 33), np.float32, 1).astype(half)
    arguments = case.make(x.astype(np.float32), g.astype(np.float32), np.random.default_rng(2))
    wide = [a.astype(half) if getattr(a, "dtype", None) == np.float32 else a for a in arguments]
    result = case.kernel(*wide)
    result = result[0] if isinstance(result, tuple) else result
    true = case.reference(*[a.astype(np.float64) if getattr(a, "dtype", None) == half else a for a in wide])
    true = true[0] if isinstance(true, tuple) else true
    assert result.dtype == half
    assert np.abs(result.astype(np.float64) - true).max() <= 3 * float(ml_dtypes.finfo(half).eps) * np.abs(true).max()


@pytest.mark.parametrize("form", ["none", "tanh"])
def test_gelu_of_bfloat16_is_that_of_the_same_numbers_rounded_once(form):
    every = np.arange(1 << 16, dtype=np.uint16).view(ml_dtypes.bfloat16)  # with all NaN, infinite and subnormal ones
    wide, g = every.astype(np.float32), normal(1 << 16, np.float32).astype(ml_dtypes.bfloat16)
    with np.errstate(all="ignore"):
        for found, exact in (
            (gelu.gelu(every, form), gelu.gelu(wide, form)),
            (gelu.gelu_backward(g, every, form), gelu.gelu_backward(g.astype(np.float32), wide, form)),
        ):
            assert found.dtype == every.dtype
            np.testing.assert_array_equal(found.astype(np.float32), exact.astype(found.dtype).astype(np.float32))


@named(CASES)
def test_other_dtypes(case):
    x, g = normal((5, 33), np.float64), normal((5, 33), np.float64, 1)
    arguments = case.make(x, g, np.random.default_rng(2))
    first = case.kernel(*arguments)
    first = first[0] if isinstance(first, tuple) else first
    for dtype in (np.longdouble, np.dtype(np.float64).newbyteorder()):
        again = case.kernel(*[a.astype(dtype) if isinstance(a, np.ndarray) else a for a in arguments])
        again = again[0] if isinstance(again, tuple) else again
        assert np.allclose(again.astype(np.float64), first, rtol=1e-12, atol=1e-12)
        assert again.dtype.itemsize == np.dtype(dtype).itemsize
    with pytest.raises(TypeError, match="floating-point"):
        case.kernel(*[a.astype(np.int64) if isinstance(a, np.ndarray) else a for a in arguments])


# ---------------------------------------------------------------- extremes
@pytest.mark.parametrize("dtype", FLOATS)
def test_softmax_extremes(dtype):
    inf, nan = np.inf, np.nan
    x = np.array([[1, nan, 2], [-inf, 0, 0], [-inf, -inf, -inf], [1000, 1000, -1000], [inf, 0, 1]], dtype)
    expected = [[nan] * 3, [0, 0.5, 0.5], [nan] * 3, [0.5, 0.5, 0], [nan] * 3]
    np.testing.assert_array_equal(softmax.softmax(x), np.array(expected, dtype))
    logs = softmax.log_softmax(x)
    half = math.log(0.5)
    expected = [[nan] * 3, [-inf, half, half], [nan] * 3, [half, half, -2000 + half], [nan] * 3]
    np.testing.assert_allclose(logs, np.array(expected), rtol=1e-6)
    np.testing.assert_array_equal(softmax.log_softmax(np.array([[1000, 0]], dtype)), [[0, -1000]])
    for shift in (1000, -1000, 80, -95):  # the same weights wherever the numbers lie
        x = np.array([[0, -1, -2.5], [-3, 0, -0.25]], dtype) + dtype(shift)
        np.testing.assert_allclose(softmax.softmax(x), softmax.softmax_reference(x - dtype(shift)), rtol=1e-6)
        logs = softmax.log_softmax(x)
        np.testing.assert_allclose(logs, softmax.log_softmax_reference(x - dtype(shift)), rtol=1e-6)
    g = np.array([[1, 2, 3]], dtype)
    y = np.array([[0, 0.5, 0.5]], dtype)
    np.testing.assert_array_equal(softmax.softmax_backward(g, y), [[0, -0.25, 0.25]])
    np.testing.assert_array_equal(softmax.softmax_backward(np.array([[inf, 1, 1]], dtype), y)[0, 1:], [nan, nan])
    np.testing.assert_allclose(softmax.log_softmax_backward(g, np.array([[-inf, half, half]], dtype)), [[1, -1, 0]])


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("cols", [3, 40])
def test_nan_spreads_within_its_row_only(dtype, cols):
    x = normal((3, cols), dtype)
    x[1, 1] = np.nan
    for y in (
        softmax.softmax(x),
        softmax.log_softmax(x),
        layer_norm.layer_norm(x, None, None, EPS)[0],
        layer_norm.rms_norm(x, None, EPS)[0],
        softmax.softmax_backward(x, np.abs(x)),
        layer_norm.layer_norm_backward(x, normal((3, cols), dtype), None, np.zeros(3), np.ones(3, dtype))[0],
        cross_entropy.cross_entropy_backward(np.ones(3, dtype), x, np.zeros(3), np.zeros(3, np.int64)),
    ):
        assert np.isfinite(y[0]).all() and np.isfinite(y[2]).all() and np.isnan(y[1, 1])
    losses, _ = cross_entropy.cross_entropy(x, np.zeros(3, np.int64))
    np.testing.assert_array_equal(np.isnan(losses), [False, True, False])
    for f in (gelu.gelu, *(getattr(elementwise, name) for name in FUNCTIONS)):
        np.testing.assert_array_equal(np.isnan(f(x)), np.isnan(x))


@pytest.mark.parametrize("dtype", FLOATS)
def test_elementwise_extremes(dtype):
    big, tiny = np.finfo(dtype).max, np.finfo(dtype).smallest_subnormal
    x = np.array([np.nan, np.inf, -np.inf, big, -big, 1000, -1000, 0.0, -0.0, tiny, -tiny] * 3, dtype)
    expected = {
        "tanh": [np.nan, 1, -1, 1, -1, 1, -1, 0, -0.0, tiny, -tiny],
        "erf": [np.nan, 1, -1, 1, -1, 1, -1, 0, -0.0, tiny, -tiny],
        "sigmoid": [np.nan, 1, 0, 1, 0, 1, 0, 0.5, 0.5, 0.5, 0.5],
        "exp": [np.nan, np.inf, 0, np.inf, 0, np.inf, 0, 1, 1, 1, 1],
        "expm1": [np.nan, np.inf, -1, np.inf, -1, np.inf, -1, 0, -0.0, tiny, -tiny],
        "log1p": [np.nan, np.inf, np.nan, np.log(big), np.nan, np.log1p(dtype(1000)), np.nan, 0, -0.0, tiny, -tiny],
        "softplus": [np.nan, np.inf, 0, big, 0, 1000, 0, *[np.log(dtype(2))] * 4],
        "relu": [np.nan, np.inf, 0, big, 0, 1000, 0, 0, 0, tiny, 0],
    }
    for name, values in expected.items():
        y = getattr(elementwise, name)(x)
        np.testing.assert_array_equal(y, np.array(values * 3, dtype), err_msg=name)
        np.testing.assert_array_equal(np.signbit(y[1:11]), np.signbit(values[1:]), err_msg=name)
    logs = elementwise.log(np.array([np.nan, np.inf, -1, -np.inf, 0, 1, tiny], dtype))
    np.testing.assert_array_equal(logs[:6], [np.nan, np.inf, np.nan, np.nan, -np.inf, 0])
    np.testing.assert_allclose(logs[6], math.log(tiny), rtol=1e-6)
    for approximate in ("none", "tanh"):
        y = gelu.gelu(x, approximate)
        np.testing.assert_array_equal(y[[0, 1, 3, 4, 5, 6, 7]], np.array([np.nan, np.inf, big, 0, 1000, 0, 0], dtype))
        slope = gelu.gelu_backward(np.ones_like(x), x, approximate)
        np.testing.assert_array_equal(slope[[0, 3, 4, 5, 6, 7]], np.array([np.nan, 1, 0, 1, 0, 0.5], dtype))


def test_tail_of_gelu_in_float64():
    if not llvmlite.binding.get_host_cpu_features().get("fma", True):
        pytest.skip("no fused multiply-add: the tail is as good as a rounded x * x allows")
    exact = {
        -1.7: -0.07576128668952317225,
        -5.3: -3.0687710411812347787e-7,
        -10.1: -2.7897305664821618591e-23,
        -17.3: -4.068863913739972075e-66,
        -26.2: -3.4811889655622365868e-150,
        -33.3: -6.4285833347397065719e-242,
    }  # worked out to 30 digits; with x * x rounded, the last would be wrong by 1e-13
    np.testing.assert_allclose(gelu.gelu(np.array(list(exact))), list(exact.values()), rtol=3e-15)


def test_shapes_that_do_not_fit_are_refused():
    x, short = np.ones((3, 4)), np.ones((2, 4))
    target, ones = np.zeros(3, np.int64), np.ones(3)
    for name, call in [
        ("g", lambda: softmax.softmax_backward(short, x)),
        ("g", lambda: softmax.log_softmax_backward(short, x)),
        ("g", lambda: gelu.gelu_backward(short, x)),
        ("g", lambda: layer_norm.layer_norm_backward(short, x, None, ones, ones)),
        ("g", lambda: layer_norm.rms_norm_backward(short, x, None, ones)),
        ("weight", lambda: layer_norm.layer_norm(x, ones, None, EPS)),
        ("bias", lambda: layer_norm.layer_norm(x, None, ones, EPS)),
        ("weight", lambda: layer_norm.rms_norm(x, ones, EPS)),
        ("target", lambda: cross_entropy.cross_entropy(x, target[:2])),
        ("weight", lambda: cross_entropy.cross_entropy(x, target, ones)),
        ("scale", lambda: cross_entropy.cross_entropy_backward(ones[:2], x, ones, target)),
        ("logsumexp", lambda: cross_entropy.cross_entropy_backward(ones, x, ones[:2], target)),
    ]:
        with pytest.raises(ValueError, match=rf"^{name} must have shape \(.*\), got \(.*\)$"):
            call()


def test_unknown_form_of_gelu():
    for call in (lambda: gelu.gelu(np.ones(3), "Tanh"), lambda: gelu.gelu_backward(np.ones(3), np.ones(3), "erf")):
        with pytest.raises(ValueError, match="approximate must be 'none' or 'tanh', got"):
            call()


@pytest.mark.parametrize("dtype", FLOATS)
def test_gradual_underflow_of_exp(dtype):
    tiny = math.log(np.finfo(dtype).smallest_normal)
    x = np.linspace(tiny - 15, tiny + 2, 1001).astype(dtype)
    np.testing.assert_allclose(
        elementwise.exp(x), np.exp(x), rtol=4 * np.finfo(dtype).eps, atol=np.finfo(dtype).smallest_subnormal
    )


@pytest.mark.parametrize("shift", [1e6, -1e6, 1e4, 0.0])
def test_layer_norm_of_large_means(shift):
    noise = np.random.default_rng(0).normal(size=(9, 100))
    x = (noise + shift).astype(np.float32)
    g, weight, bias = normal((9, 100), np.float32, 1), *normal((2, 100), np.float32, 2)
    exact = x.astype(np.float64)
    y, mean, rstd = layer_norm.layer_norm(x, weight, bias, EPS)
    true, true_mean, true_rstd = layer_norm.layer_norm_reference(exact, weight, bias, EPS)
    np.testing.assert_allclose(y, true, atol=4e-6)
    np.testing.assert_allclose(mean, true_mean, rtol=1e-7, atol=2e-7)
    results = layer_norm.layer_norm_backward(g, x, weight, mean, rstd)
    truths = layer_norm.layer_norm_backward_reference(g.astype(np.float64), exact, weight, true_mean, true_rstd)
    for result, true in zip(results, truths, strict=True):
        np.testing.assert_allclose(result, true, atol=2e-5)


def test_layer_norm_where_the_first_number_is_an_outlier():
    x = normal((3, 50), np.float32)
    x[:, 0] = 1e6
    y, _, _ = layer_norm.layer_norm(x, None, None, EPS)
    true, _, _ = layer_norm.layer_norm_reference(x.astype(np.float64), None, None, EPS)
    np.testing.assert_allclose(y, true, rtol=1e-6, atol=1e-7)


def test_layer_norm_without_weight_and_only_what_is_needed():
    x, g = normal((5, 8), np.float64), normal((5, 8), np.float64, 1)
    _, mean, rstd = layer_norm.layer_norm(x, None, None, EPS)
    full = layer_norm.layer_norm_backward(g, x, None, mean, rstd)
    for needs in [(True, False, False), (False, True, False), (False, False, True), (False, False, False)]:
        some = layer_norm.layer_norm_backward(g, x, None, mean, rstd, *needs)
        for need, part, whole in zip(needs, some, full, strict=True):
            assert (part is None) if not need else np.array_equal(part, whole)


@pytest.mark.parametrize("dtype", FLOATS)
def test_cross_entropy_extremes(dtype):
    logits = np.array([[1000, 0], [0, 0], [-np.inf, 0], [5, 1e4]], dtype)
    target = np.array([1, -100, 1, 1])
    losses, logsumexp = cross_entropy.cross_entropy(logits, target)
    np.testing.assert_array_equal(losses, [1000, 0, 0, 0])
    scale = np.array([1, np.nan, 1, 1], dtype)  # an ignored row is 0 whatever comes down to it
    dlogits = cross_entropy.cross_entropy_backward(scale, logits, logsumexp, target)
    np.testing.assert_array_equal(dlogits, [[1, -1], [0, 0], [0, 0], [0, 0]])


def test_cross_entropy_of_shifted_logits():
    x = normal((20, 30), np.float32) + np.float32(1000)
    target = np.arange(20)
    losses, logsumexp = cross_entropy.cross_entropy(x, target)
    true, true_logsumexp = cross_entropy.cross_entropy_reference(x.astype(np.float64), target)
    np.testing.assert_allclose(losses, true, rtol=1e-6)
    dlogits = cross_entropy.cross_entropy_backward(np.ones(20, np.float32), x, logsumexp, target)
    exact = x.astype(np.float64)
    truth = cross_entropy.cross_entropy_backward_reference(np.ones(20), exact, true_logsumexp, target)
    np.testing.assert_allclose(dlogits, truth, rtol=2e-6, atol=1e-8)


def test_cross_entropy_agrees_with_torch():
    torch = pytest.importorskip(
        "torch", reason="PyTorch is not installed: parity of weight and label smoothing unchecked"
    )
    x, weight = normal((12, 7), np.float64), np.abs(normal(7, np.float64, 1))
    target = np.array([0, 1, 2, 3, 4, 5, 6, -1, 0, 1, -1, 3])
    for w, smoothing in [(None, 0.0), (weight, 0.0), (None, 0.2), (weight, 0.2)]:
        leaf = torch.from_numpy(x).requires_grad_()
        wanted = torch.nn.functional.cross_entropy(
            leaf, torch.from_numpy(target), None if w is None else torch.from_numpy(w),
            ignore_index=-1, reduction="none", label_smoothing=smoothing,
        )  # fmt: skip
        scale = normal(12, np.float64, 2)
        wanted.backward(torch.from_numpy(scale))
        losses, logsumexp = cross_entropy.cross_entropy(x, target, w, -1, smoothing)
        np.testing.assert_allclose(losses, wanted.detach().numpy(), rtol=1e-12, atol=1e-14)
        dlogits = cross_entropy.cross_entropy_backward(scale, x, logsumexp, target, w, -1, smoothing)
        np.testing.assert_allclose(dlogits, leaf.grad.numpy(), rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize("bad", [2, -4, 10**6, -1, -(2**63), 2**63 - 1])
def test_targets_out_of_range(bad):
    x = normal((3, 2), np.float32)
    target = np.array([0, bad, 1])
    for call in (
        lambda: cross_entropy.cross_entropy(x, target),
        lambda: cross_entropy.cross_entropy_backward(np.ones(3, np.float32), x, np.zeros(3), target),
        lambda: cross_entropy.cross_entropy(x.astype(np.float16), target),
    ):
        with pytest.raises(IndexError, match=rf"target\[1\] is {bad}, .*2 classes.* 0 \.\.\. 1"):
            call()


# ---------------------------------------------------------------- embedding
@pytest.mark.parametrize("dtype", [*FLOATS, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize(
    ("V", "C", "shape"), [(3, 1, (4,)), (5, 17, (2, 3)), (7, 64, ()), (11, 33, (40, 50)), (4, 3, (0,))]
)
def test_embedding(dtype, V, C, shape):
    rng = np.random.default_rng(0)
    weight, index = rng.normal(size=(V, C)).astype(dtype), rng.integers(0, V, shape)
    np.testing.assert_array_equal(embedding.embedding(weight, index), weight[index])
    np.testing.assert_array_equal(embedding.embedding(np.asfortranarray(weight), index), weight[index])
    g = rng.normal(size=(*shape, C)).astype(dtype)
    true = np.zeros((V, C))
    np.add.at(true, index, g.astype(np.float64))
    dweight = embedding.embedding_backward(g, index, V)
    assert dweight.dtype == dtype
    eps = float(ml_dtypes.finfo(dtype).eps)
    np.testing.assert_allclose(dweight.astype(np.float64), true, atol=20 * eps * np.abs(true).max(initial=1))


def test_embedding_strides_and_several_blocks():
    rng = np.random.default_rng(0)
    index = rng.integers(0, 5, (90, 300)).T
    g = rng.normal(size=(90, 300, 24)).astype(np.float32).transpose(1, 0, 2)[..., ::-1]
    true = np.zeros((5, 24))
    np.add.at(true, index, g.astype(np.float64))
    dweight = embedding.embedding_backward(g, index, 5)
    np.testing.assert_allclose(dweight, true, rtol=1e-4, atol=1e-3)
    for index in (np.array([1, 1, 3]), np.array([1, 1, 3], np.int32)):
        ones = embedding.embedding_backward(np.ones((3, 2), np.float32), index, 4)
        np.testing.assert_array_equal(ones, [[0, 0], [2, 2], [0, 0], [1, 1]])


@pytest.mark.parametrize("bad", [3, -1, 10**6])
def test_ids_out_of_range(bad):
    index = np.array([[0, 1], [bad, 2]])
    message = rf"index\[1, 0\] is {bad}, .*3 rows.* 0 \.\.\. 2"
    with pytest.raises(IndexError, match=message):
        embedding.embedding(normal((3, 4), np.float32), index)
    with pytest.raises(IndexError, match=message):
        embedding.embedding(normal((3, 4), np.float16), index)
    with pytest.raises(IndexError, match=message):
        embedding.embedding_backward(normal((2, 2, 4), np.float32), index, 3)


# ---------------------------------------------------------------- gradients
def forward_with_saved(case):
    """(function of x, gradient function of (g, x)) in float64, the saved values made by the forward kernel."""
    rng = np.random.default_rng(5)
    weight, bias, target = rng.normal(size=6), rng.normal(size=6), np.array([0, 5, 2, -100])
    class_weight = np.abs(weight)

    def layer_norm_gradient(g, x):
        _, mean, rstd = layer_norm.layer_norm(x, weight, bias, 0.1)
        return layer_norm.layer_norm_backward(g, x, weight, mean, rstd)[0]

    def rms_norm_gradient(g, x):
        return layer_norm.rms_norm_backward(g, x, weight, layer_norm.rms_norm(x, weight, 0.1)[1])[0]

    def loss_gradient(g, x):
        _, logsumexp = cross_entropy.cross_entropy(x, target, class_weight, -100, 0.1)
        return cross_entropy.cross_entropy_backward(g, x, logsumexp, target, class_weight, -100, 0.1)

    return {
        "softmax": (softmax.softmax, lambda g, x: softmax.softmax_backward(g, softmax.softmax(x))),
        "log_softmax": (softmax.log_softmax, lambda g, x: softmax.log_softmax_backward(g, softmax.log_softmax(x))),
        "layer_norm": (lambda x: layer_norm.layer_norm(x, weight, bias, 0.1)[0], layer_norm_gradient),
        "rms_norm": (lambda x: layer_norm.rms_norm(x, weight, 0.1)[0], rms_norm_gradient),
        "gelu": (gelu.gelu, gelu.gelu_backward),
        "gelu_tanh": (lambda x: gelu.gelu(x, "tanh"), lambda g, x: gelu.gelu_backward(g, x, "tanh")),
        "cross_entropy": (
            lambda x: cross_entropy.cross_entropy(x, target, class_weight, -100, 0.1)[0],
            loss_gradient,
        ),
    }[case]


@pytest.mark.parametrize(
    "case",
    [
        "softmax",
        "log_softmax",
        "layer_norm",
        "rms_norm",
        "gelu",
        "gelu_tanh",
        "cross_entropy",
    ],
)
def test_finite_differences(case):
    function, gradient = forward_with_saved(case)
    x, step = 2 * normal((4, 6), np.float64, 3), 1e-5
    g = normal(function(x).shape, np.float64, 4)
    numeric = np.empty_like(x)
    for place in np.ndindex(x.shape):
        shift = np.zeros_like(x)
        shift[place] = step
        numeric[place] = ((function(x + shift) - function(x - shift)) * g).sum() / (2 * step)
    np.testing.assert_allclose(gradient(g, x), numeric, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("norm", ["layer_norm", "rms_norm"])
def test_finite_differences_of_the_parameters(norm):
    x, g = normal((9, 6), np.float64), normal((9, 6), np.float64, 1)
    weight, bias = normal((2, 6), np.float64, 2)
    if norm == "layer_norm":
        _, mean, rstd = layer_norm.layer_norm(x, weight, bias, 0.1)
        _, dweight, dbias = layer_norm.layer_norm_backward(g, x, weight, mean, rstd)
        np.testing.assert_allclose(dbias, g.sum(0), rtol=1e-12)
        whole = lambda w: (layer_norm.layer_norm(x, w, bias, 0.1)[0] * g).sum()  # noqa: E731
    else:
        _, rrms = layer_norm.rms_norm(x, weight, 0.1)
        _, dweight = layer_norm.rms_norm_backward(g, x, weight, rrms)
        whole = lambda w: (layer_norm.rms_norm(x, w, 0.1)[0] * g).sum()  # noqa: E731
    for i in range(6):
        unit = np.eye(6)[i]
        assert dweight[i] == pytest.approx((whole(weight + unit) - whole(weight - unit)) / 2, rel=1e-9)


@pytest.mark.parametrize(
    "dtype, sizes", [(np.float32, (3e19, 1e25, 1e38, 3.3e38)), (np.float64, (1e160, 1e300, 1.7e308))]
)
def test_norms_of_numbers_whose_squares_overflow(dtype, sizes):
    x, g, weight = normal((3, 7), dtype), normal((3, 7), dtype, 1), normal((7,), dtype, 2)
    x /= np.abs(x).max()
    mean_of, exact = layer_norm.layer_norm(x, weight, weight, 0.0), layer_norm.rms_norm(x, weight, 0.0)
    rtol = 100 * np.finfo(dtype).eps
    close = functools.partial(np.testing.assert_allclose, rtol=rtol, atol=rtol)
    for size in sizes:
        y, rrms = layer_norm.rms_norm(x * dtype(size), weight, 1e-5)
        close(y, exact[0])
        dx, dweight = layer_norm.rms_norm_backward(g, x * dtype(size), weight, rrms)
        dx_exact, dweight_exact = layer_norm.rms_norm_backward(g, x, weight, exact[1])
        close(dx * dtype(size), dx_exact)
        close(dweight, dweight_exact)
        y, mean, rstd = layer_norm.layer_norm(x * dtype(size), weight, weight, 1e-5)
        close(y, mean_of[0])
        dx, *_ = layer_norm.layer_norm_backward(g, x * dtype(size), weight, mean, rstd)
        close(dx * dtype(size), layer_norm.layer_norm_backward(g, x, weight, *mean_of[1:])[0])
    for bad in (np.inf, np.nan):  # these stay what they are
        x[0, 3] = bad
        assert np.isnan(layer_norm.rms_norm(x, weight, 1e-5)[0][0, 3])
        assert np.isnan(layer_norm.layer_norm(x, weight, weight, 1e-5)[0][0]).all()


# ---------------------------------------------------------------- copies, threads, plain Python
@pytest.mark.parametrize(
    "module", [softmax, layer_norm, batch_norm, channel_statistics, gelu, cross_entropy, embedding, adamw]
)
def test_examples_in_docstrings(module):
    failed, tried = doctest.testmod(module)
    assert tried > 0 and failed == 0


@pytest.mark.parametrize(("shape", "axes"), [
    ((3, 4), (1, 0)), ((300, 401), (1, 0)), ((3, 40, 50, 33), (0, 2, 1, 3)), ((3, 40, 50, 33), (0, 1, 3, 2)),
    ((2, 3, 4, 50, 66), (4, 2, 0, 3, 1)), ((7, 1, 9000, 2), (3, 1, 2, 0)),
])  # fmt: skip
@pytest.mark.parametrize("dtype", [*FLOATS, np.int64])
def test_contiguous(shape, axes, dtype):
    x = np.arange(math.prod(shape)).astype(dtype).reshape(shape).transpose(axes)
    for view in (x, x[::-1], x[..., ::2], np.broadcast_to(x[:1], x.shape)):
        y = elementwise.contiguous(view)
        assert y.flags.c_contiguous and y.dtype == dtype
        np.testing.assert_array_equal(y, view)
        copy = elementwise.copied(view)
        assert copy.flags.c_contiguous and copy.dtype == dtype and not np.shares_memory(copy, view)
        np.testing.assert_array_equal(copy, view)
    assert elementwise.contiguous(y) is y
    long = np.arange(300_001).astype(dtype)  # several blocks, the last one shorter
    for whole in (long, long[:0], long[:5]):
        copy = elementwise.copied(whole)
        assert not np.shares_memory(copy, whole)
        np.testing.assert_array_equal(copy, whole)


def test_worth():
    big = np.zeros((1024, 1024), np.float32)
    assert elementwise.worth(big, big)
    for a, b in [(big, big.T), (big, big[0]), (big, big.astype(np.float64)), (big[0], big[0])]:
        assert not elementwise.worth(a, b)
    with pytest.raises(ValueError, match=r"add takes two arrays of the same shape, got \(1024, 1024\) and \(1024,\)"):
        elementwise.add(big, big[0])


@named(CASES + MATRIX_CASES)
def test_same_bits_for_any_number_of_threads(case):
    x, g = normal((700, 333), np.float32), normal((700, 333), np.float32, 1)
    arguments = case.make(x, g, np.random.default_rng(2))
    before, found = _compile.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            _compile.set_num_threads(threads)
            result = case.kernel(*arguments)
            found.append([r.tobytes() for r in (result if isinstance(result, tuple) else (result,))])
    finally:
        _compile.set_num_threads(before)
    assert found[0] == found[1] == found[2]


def test_kernels_run_as_plain_python():
    program = """
import numpy as np
from tinygrad_tf.kernels import softmax, layer_norm, gelu, cross_entropy, embedding, elementwise, adamw
x, g = np.random.default_rng(0).normal(size=(2, 3, 5))
assert np.allclose(softmax.softmax(x), softmax.softmax_reference(x))
assert np.allclose(softmax.log_softmax(x), softmax.log_softmax_reference(x))
y, mean, rstd = layer_norm.layer_norm(x, None, None, 0.1)
assert np.allclose(y, layer_norm.layer_norm_reference(x, None, None, 0.1)[0])
assert np.allclose(layer_norm.layer_norm_backward(g, x, None, mean, rstd)[0],
                   layer_norm.layer_norm_backward_reference(g, x, None, mean, rstd)[0])
for form in ("none", "tanh"):
    assert np.allclose(gelu.gelu(x, form), gelu.gelu_reference(x, form))
    assert np.allclose(gelu.gelu_backward(g, x, form), gelu.gelu_backward_reference(g, x, form))
target = np.array([0, 4, 2])
assert np.allclose(cross_entropy.cross_entropy(x, target), cross_entropy.cross_entropy_reference(x, target))
assert np.allclose(embedding.embedding_backward(g, target, 5), embedding.embedding_backward_reference(g, target, 5))
assert np.allclose(elementwise.sigmoid(x), elementwise.sigmoid.reference(x))
import ml_dtypes
half = x.astype(ml_dtypes.bfloat16)
assert np.array_equal(gelu.gelu(half), gelu.gelu(half.astype(np.float32)).astype(half.dtype))
p, m, v = x.copy(), np.zeros((3, 5)), np.zeros((3, 5))
adamw.adamw_step([p], [g], [m], [v], lr=0.5, beta1=0.9, beta2=0.99, eps=0.0, weight_decay=0.0, step=1)
assert np.allclose(p, x - 0.5 * np.sign(g))
"""
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment, timeout=120)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("size", [5, (1 << 15) + 3, 1 << 18])
def test_add_to_is_the_sum_in_place(dtype, size):
    rng = np.random.default_rng(size)
    total, other = rng.normal(size=(2, 2 * size)).astype(dtype)
    for part in (other[:size], other[::2], other[:size].astype(np.float64)):  # the last two are left to NumPy
        memory = total.copy()
        elementwise.add_to(memory[:size], part)
        np.testing.assert_array_equal(memory[:size], (total[:size] + part).astype(dtype))
        np.testing.assert_array_equal(memory[size:], total[size:])
