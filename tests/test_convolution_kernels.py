"""The kernels of convolutions, windows and pooling against plain formulas, however they cut their work."""

from __future__ import annotations

import itertools
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tinygrad_tf as tg
from tinygrad_tf.kernels import convolution as kernels
from tinygrad_tf.kernels import pooling, windows
from tinygrad_tf.kernels._compile import get_num_threads, set_num_threads
from tinygrad_tf.nn import functional as F
from tinygrad_tf.ops import convolution as ops
from tinygrad_tf.ops.windows import Look, count_windows

Array = np.ndarray
pytestmark = pytest.mark.filterwarnings("error")


def normal(*shape: int, seed: int = 0, dtype: Any = np.float64) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def looked_at(lengths: Any, size: Any, stride: Any, dilation: Any, padding: Any) -> Look:
    whole = [n + 2 * p for n, p in zip(lengths, padding, strict=True)]
    return Look(size, stride, dilation, padding, tuple(map(count_windows, whole, size, stride, dilation)))


def by_hand(x: Array, look: Look) -> Array:
    """(N, C, *places, *size): every window, with zeros around the image, entry by entry."""
    found = np.zeros((*x.shape[:2], *look.places, *look.size), x.dtype)
    for place in itertools.product(*map(range, look.places)):
        for offset in itertools.product(*map(range, look.size)):
            told = zip(place, offset, look.stride, look.dilation, look.before, strict=True)
            at = tuple(p * s + o * d - b for p, o, s, d, b in told)
            if all(0 <= a < n for a, n in zip(at, x.shape[2:], strict=True)):
                found[(slice(None), slice(None), *place, *offset)] = x[(slice(None), slice(None), *at)]
    return found


@st.composite
def looks(draw: Any, axes: int) -> tuple[tuple[int, ...], Look]:
    """Lengths of an image, and windows that lie over it in any way."""

    def each(*choices: int) -> tuple[int, ...]:
        return tuple(draw(st.sampled_from(choices)) for _ in range(axes))

    size, stride, dilation = each(1, 2, 3, 4), each(1, 1, 2, 3), each(1, 1, 2)
    padding = tuple(draw(st.integers(0, d * (k - 1) + 1)) for k, d in zip(size, dilation, strict=True))
    least = [max(1, d * (k - 1) + 1 - 2 * p) for k, d, p in zip(size, dilation, padding, strict=True)]
    lengths = tuple(draw(st.integers(n, n + 20)) for n in least)
    return lengths, looked_at(lengths, size, stride, dilation, padding)


@settings(max_examples=60, deadline=None)
@given(st.data(), st.sampled_from([1, 2]), st.sampled_from([np.float32, np.float64]))
def test_columns_are_the_windows_and_their_adjoint_adds_them_up(data: Any, axes: int, dtype: Any) -> None:
    lengths, look = data.draw(looks(axes))
    x = normal(2, 3, *lengths, dtype=dtype)
    found = windows.columns(x, *look)  # (C, *size, N, *places)
    at_end = (*range(1 + axes, 2 + 2 * axes), *range(1 + axes))
    np.testing.assert_array_equal(np.moveaxis(found.transpose(at_end), 1 + axes, 1), by_hand(x, look))
    g = normal(*found.shape, seed=1, dtype=dtype)
    before = g.copy()
    back = windows.from_columns(g, x.shape, *look)
    np.testing.assert_array_equal(g, before)
    exact = np.float64
    product, adjoint = (found.astype(exact) * g).sum(), (x.astype(exact) * back).sum()
    np.testing.assert_allclose(product, adjoint, rtol=1e-4 if dtype == np.float32 else 1e-10, atol=1e-3)


CUTS = {
    "as it is": {},
    "rows": {"ROOM": 40},
    "channels": {"DEPTH": 5},
    "shares": {"UNITS": 2},
    "all": {"ROOM": 60, "DEPTH": 9, "EVEN": 30},
}


def gradients(x: Array, weight: Array, bias: Array, g: Array, look: Look, groups: int) -> list[Array]:
    y = kernels.convolve(x, weight, bias, look, groups)
    return [y, *kernels.convolve_backward(g, x, weight, look, groups, x.shape, (True, True, True))]  # type: ignore[list-item]


def plain_gradients(x: Array, weight: Array, bias: Array, g: Array, look: Look, groups: int) -> list[Array]:
    leaves = [tg.tensor(a.astype(np.float64), requires_grad=True) for a in (x, weight, bias)]
    with tg.use_reference():
        y = ops.convolution(*leaves, look=look, groups=groups)
        y.backward(tg.tensor(g.astype(np.float64)))
    return [y.detach().numpy(), *(leaf.grad.numpy() for leaf in leaves)]


@settings(max_examples=100, deadline=None)
@given(
    st.data(),
    st.sampled_from([1, 2]),
    st.sampled_from([np.float32, np.float64]),
    st.sampled_from([(1, 1), (2, 3), (3, 17), (1, 40)]),
    st.sampled_from([1, 2, 3]),
    st.sampled_from([1, 2, 7]),
    st.sampled_from(sorted(CUTS)),
)
def test_convolutions_and_their_gradients(
    data: Any, axes: int, dtype: Any, channels: tuple[int, int], groups: int, N: int, pieces: str
) -> None:
    lengths, look = data.draw(looks(axes))
    C, O = (n * groups for n in channels)
    x, weight = normal(N, C, *lengths, dtype=dtype), normal(O, channels[0], *look.size, seed=1, dtype=dtype)
    bias, g = normal(O, seed=2, dtype=dtype), normal(N, O, *look.places, seed=3, dtype=dtype)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in CUTS[pieces].items():
            patch.setattr(kernels, name, value)
        check_gradients(x, weight, bias, g, look, groups)


def check_gradients(x: Array, weight: Array, bias: Array, g: Array, look: Look, groups: int) -> None:
    found, wanted = (way(x, weight, bias, g, look, groups) for way in (gradients, plain_gradients))
    for got, want in zip(found, wanted, strict=True):
        assert got.dtype == x.dtype and got.shape == want.shape
        most = max(1.0, float(np.abs(want).max()))
        np.testing.assert_allclose(got, want, rtol=0, atol=most * (1e-5 if x.dtype == np.float32 else 1e-12))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("pieces", CUTS)
def test_pieces_that_do_not_divide_what_they_cut(pieces: str, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Five channels in twos, seven rows in whatever there is room for, five images in threes."""
    look = looked_at((9, 7), (2, 1), (1, 2), (1, 1), (0, 1))
    x, weight, bias = normal(5, 10, 9, 7), normal(34, 5, 2, 1, seed=1), normal(34, seed=2)
    g = normal(5, 34, *look.places, seed=3)
    for name, value in CUTS[pieces].items():
        monkeypatch.setattr(kernels, name, value)
    check_gradients(*(a.astype(dtype) for a in (x, weight, bias, g)), look, 2)


def test_the_cuts_of_these_tests_do_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    look = looked_at((20, 20), (3, 3), (1, 1), (1, 1), (1, 1))
    shape = kernels.shape_of((7, 6, 20, 20), normal(4, 6, 3, 3), 1)
    whole = kernels.cut(shape, look, 1)
    assert whole[:2] == (6, 20)
    monkeypatch.setattr(kernels, "ROOM", 40)
    assert kernels.cut(shape, look, 1).rows == 1
    monkeypatch.setattr(kernels, "DEPTH", 9)
    assert kernels.cut(shape, look, 1).channels == 1


CASES = {
    "3 x 3": ((40, 12, 14, 14), (20, 12, 3, 3), 1, (1, 1), (1, 1)),
    "large": ((2, 80, 30, 30), (70, 80, 3, 3), 1, (1, 1), (1, 1)),
    "one image": ((1, 60, 20, 20), (8, 60, 5, 5), 1, (2, 2), (0, 2)),
    "1 x 1": ((3, 24, 9, 9), (12, 24, 1, 1), 1, (1, 1), (0, 0)),
    "depthwise": ((6, 32, 10, 10), (32, 1, 3, 3), 32, (1, 1), (1, 1)),
}


@pytest.mark.parametrize("name", CASES)
def test_the_same_bits_for_any_number_of_threads(name: str) -> None:
    shape, filters, groups, stride, padding = CASES[name]
    x, weight, bias = normal(*shape, dtype=np.float32), normal(*filters, dtype=np.float32), normal(filters[0])
    look = looked_at(shape[2:], filters[2:], stride, (1, 1), padding)
    g, before = normal(shape[0], filters[0], *look.places, seed=3, dtype=np.float32), get_num_threads()
    results = []
    try:
        for threads in (1, max(before, 3)):
            set_num_threads(threads)
            results.append(gradients(x, weight, bias.astype(np.float32), g, look, groups))
    finally:
        set_num_threads(before)
    for one, several in zip(*results, strict=True):
        np.testing.assert_array_equal(one, several)


@pytest.mark.parametrize("width", [5, 8, 20])
def test_what_is_infinite_or_unknown_stays_in_its_windows(width: int) -> None:
    x, weight = np.ones((1, 1, 6, width)), np.ones((1, 1, 3, 3))
    x[0, 0, 2, width - 1], x[0, 0, 3, 0] = np.nan, np.inf  # next to each other in memory
    look = looked_at(x.shape[2:], (3, 3), (1, 1), (1, 1), (1, 1))
    y = kernels.convolve(x, weight, None, look, 1)[0, 0]
    wanted = np.full((6, width), "n", dtype="<U1")
    wanted[1:4, -2:], wanted[2:5, :2] = "?", "i"
    assert (np.where(np.isnan(y), "?", np.where(np.isinf(y), "i", "n")) == wanted).all()
    dx, _, _ = kernels.convolve_backward(x, None, weight, look, 1, x.shape, (True, False, False))
    assert dx is not None
    assert (np.where(np.isnan(dx[0, 0]), "?", np.where(np.isinf(dx[0, 0]), "i", "n")) == wanted).all()


def test_columns_are_never_all_there() -> None:
    x = tg.tensor(normal(16, 16, 48, 48, dtype=np.float32), requires_grad=True)
    weight = tg.tensor(normal(16, 16, 5, 5, dtype=np.float32), requires_grad=True)
    F.conv2d(x[:1], weight, padding=2).sum().backward()  # compiled, and loaded
    tracemalloc.start()
    F.conv2d(x, weight, padding=2).sum().backward()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 6 * x.array.nbytes  # the columns have 25 times the numbers of x


def test_transposed_convolutions_are_the_adjoint() -> None:
    look = looked_at((9, 8), (3, 2), (2, 1), (1, 2), (1, 0))
    x, weight, g = normal(2, 4, 9, 8), normal(6, 2, 3, 2, seed=1), normal(2, 6, *look.places, seed=2)
    forward = kernels.convolve(x, weight, None, look, 2)
    transposed = ops.transposed_convolution(tg.tensor(g), tg.tensor(weight), None, shape=x.shape, look=look, groups=2)
    np.testing.assert_allclose((forward * g).sum(), (transposed.numpy() * x).sum(), rtol=1e-12)


@pytest.mark.parametrize("name", ["weight", "bias", "g"])
def test_shapes_that_do_not_fit_are_refused(name: str) -> None:
    look = looked_at((5, 5), (3, 3), (1, 1), (1, 1), (0, 0))
    x, weight, bias, g = normal(2, 4, 5, 5), normal(3, 4, 3, 3), normal(3), normal(2, 3, 3, 3)
    weight, bias, g = (a[..., 1:] if name == n else a for n, a in (("weight", weight), ("bias", bias), ("g", g)))
    with pytest.raises(ValueError, match=f"{name} must have shape"):
        if name == "g":
            kernels.convolve_backward(g, x, weight, look, 1, x.shape, (True, True, True))
        else:
            kernels.convolve(x, weight, bias, look, 1)


SPECIAL = [0.0, -0.0, 1.0, 1.0, 2.0, -3.0, np.nan, np.inf, -np.inf, -np.inf]


@settings(max_examples=100, deadline=None)
@given(st.data(), st.sampled_from([1, 2]), st.sampled_from([np.float32, np.float64]), st.booleans())
def test_the_largest_of_each_window(data: Any, axes: int, dtype: Any, rare: bool) -> None:
    """The first of equal ones, the last NaN, and never a place around the image, whatever the numbers are."""
    lengths, look = data.draw(looks(axes))
    padding = tuple(min(p, k // 2) for p, k in zip(look.before, look.size, strict=True))
    dilation = tuple(1 if any(padding) else d for d in look.dilation)
    least = [max(n, d * (k - 1) + 1) for n, d, k in zip(lengths, dilation, look.size, strict=True)]
    look = looked_at(least, look.size, look.stride, dilation, padding)
    shape = 2, 3, *least
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    x = (rng.choice(SPECIAL, shape) if rare else rng.normal(size=shape)).astype(dtype)
    inside = by_hand(np.ones(shape), look).reshape(2, 3, *look.places, -1) > 0
    seen = by_hand(x, look).reshape(inside.shape)
    number = by_hand(np.broadcast_to(np.arange(np.prod(least)).reshape(least), shape), look).reshape(inside.shape)
    wanted = np.empty(inside.shape[:-1], np.int64)
    for place in np.ndindex(wanted.shape):
        best = None
        for value, where in zip(seen[place][inside[place]], number[place][inside[place]], strict=True):
            if best is None or value > best[0] or value != value:
                best = value, where
        assert best is not None
        wanted[place] = best[1]
    np.testing.assert_array_equal(pooling.largest(x, *look), wanted)


def test_pooling_of_images_larger_than_the_room(monkeypatch: pytest.MonkeyPatch) -> None:
    x, look = normal(2, 3, 40, 30), looked_at((40, 30), (3, 2), (2, 1), (1, 1), (1, 1))
    whole = pooling.largest(x, *look)
    monkeypatch.setattr(pooling, "ROOM", 700)
    np.testing.assert_array_equal(pooling.largest(x, *look), whole)
