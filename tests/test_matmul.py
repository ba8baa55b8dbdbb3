"""The matrix product kernels against NumPy in float64 (longdouble for float64), over shapes, layouts and widths."""

import os
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tinygrad_tf.kernels import _matrix_tiles, _pieces, _pieces_product, _vector, precision
from tinygrad_tf.kernels import matmul as kernels
from tinygrad_tf.kernels._cache import cache_root
from tinygrad_tf.kernels._compile import get_num_threads, set_num_threads
from tinygrad_tf.kernels._operands import operand
from tinygrad_tf.kernels.cast import cast

WIDER = {np.float32: np.float64, np.float64: np.longdouble}
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
DTYPES = pytest.mark.parametrize("dtype", [np.float32, np.float64])
many = settings(
    max_examples=30 if _vector.SETTING in os.environ else 150,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
small_too = pytest.mark.usefixtures("small_products")
LAYOUTS = (
    "rows",
    "columns",
    "steps",
    "reversed",
    "reversed columns",
    "repeated",
    "one element",
    "read-only",
    "unaligned",
)


def laid_out(array, layout):
    """The same values (or, for the repeated layouts, some of them) in another memory layout."""
    if layout == "columns":
        return array.swapaxes(-1, -2).copy().swapaxes(-1, -2)
    if layout == "steps":
        nothing = np.nan if array.dtype.kind == "f" else 0x7FC0
        room = np.full((*array.shape[:-2], array.shape[-2] * 2, array.shape[-1] * 3), nothing, array.dtype)
        room[..., ::2, 1::3] = array
        return room[..., ::2, 1::3]
    if layout == "reversed":
        return array[..., ::-1, ::-1].copy()[..., ::-1, ::-1]
    if layout == "reversed columns":
        return laid_out(array[..., ::-1], "columns")[..., ::-1]
    if layout == "repeated":
        return np.broadcast_to(array[..., :1, :], array.shape)
    if layout == "one element":
        return np.broadcast_to(array[..., :1, :1], array.shape)
    if layout == "read-only":
        array = array.copy()
        array.flags.writeable = False
    if layout == "unaligned":
        room = np.empty(array.nbytes + 1, np.uint8)[1:]
        moved = room.view(array.dtype).reshape(array.shape)
        moved[...] = array
        return moved
    return array


def check(got, a, b, extra=0.0, units=4):
    """As exact as NumPy's own float product, up to a factor of two and a few units in the last place."""
    wide = WIDER[a.dtype.type]
    if a.shape[-2] * a.shape[-1] * b.shape[-1] > 300_000 and wide is np.longdouble:  # which is slow
        wide, units = np.float64, max(units, a.shape[-1] ** 0.5)
    exact = np.matmul(a.astype(wide), b.astype(wide)) + extra
    plain = np.matmul(a, b) + np.asarray(extra, a.dtype)
    assert got.shape == exact.shape and got.dtype == a.dtype
    if not got.size:
        return
    size = np.matmul(np.abs(a.astype(wide)), np.abs(b.astype(wide))) + np.abs(extra)
    allowed = 2 * np.max(np.abs(plain - exact), initial=0) + units * np.finfo(a.dtype).eps * size
    assert np.all(np.abs(got - exact) <= allowed)


def normal(seed, *shape, dtype=np.float32):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


size = st.one_of(st.integers(0, 9), st.integers(0, 70), st.sampled_from([96, 127, 128, 257, 300, 515]))


@pytest.fixture(params=["as it decides", "kernels only"])
def small_products(request, monkeypatch):
    """Once as it is, where NumPy computes the small ones, and once with all of them left to the kernels."""
    if request.param == "kernels only":
        monkeypatch.setattr(kernels, "SMALL", 0)


layout = st.sampled_from(LAYOUTS)


@small_too
@DTYPES
@many
@given(size, size, size, layout, layout, st.integers(0, 1000))
@example(33, 513, 65, "rows", "columns", 0)
@example(515, 300, 515, "columns", "rows", 0)
@example(1, 1, 1, "steps", "reversed", 0)
def test_any_shape_and_layout(dtype, M, K, N, left, right, seed):
    a, b = laid_out(normal(seed, M, K, dtype=dtype), left), laid_out(normal(seed + 1, K, N, dtype=dtype), right)
    assert kernels.accepts(a, b)
    equal_terms = "one element" in (left, right) or "repeated" in (left, right)  # their rounding errors add up
    check(kernels.matmul(a, b), a, b, units=K if equal_terms else 4)


STACKS = [
    ((3,), ()),
    ((), (4,)),
    ((2, 3), (2, 3)),
    ((2, 1), (3,)),
    ((1, 3), (2, 1)),
    ((0,), ()),
    ((2, 1, 2), (3, 1)),
    ((1,), (1,)),
]


@small_too
@DTYPES
@many
@given(st.sampled_from(STACKS), st.integers(0, 40), st.integers(0, 40), st.integers(0, 40), layout, layout)
def test_stacks_broadcast(dtype, stacks, M, K, N, left, right):
    a = laid_out(normal(1, *stacks[0], M, K, dtype=dtype), left)
    b = laid_out(normal(2, *stacks[1], K, N, dtype=dtype), right)
    check(kernels.matmul(a, b), a, b, units=max(K, 4))


@small_too
@pytest.mark.parametrize("heads", [3, 70])
def test_heads_are_split_through_strides(heads):
    a = normal(0, 5, 20, heads, 24).transpose(0, 2, 1, 3)
    b = normal(1, 5, 33, heads, 24).transpose(0, 2, 3, 1)
    check(kernels.matmul(a, b), a, b)
    check(kernels.matmul(a[::-1, ::2, ::-1], b[::-1, ::2]), a[::-1, ::2, ::-1], b[::-1, ::2])


@DTYPES
@pytest.mark.parametrize(
    ("M", "K", "N"),
    [(384, 2500, 100), (300, 1000, 310), (700, 64, 90), (30, 4500, 70), (5, 3000, 4), (1, 700, 900), (900, 700, 1)],
)
@pytest.mark.parametrize("layouts", ["NN", "NT", "TN", "TT"])
def test_large(dtype, M, K, N, layouts):
    a = laid_out(normal(0, M, K, dtype=dtype), "rows" if layouts[0] == "N" else "columns")
    b = laid_out(normal(1, K, N, dtype=dtype), "rows" if layouts[1] == "N" else "columns")
    check(kernels.matmul(a, b), a, b)


@small_too
def test_output_argument():
    a, b = normal(0, 40, 30), normal(1, 30, 50)
    want = kernels.matmul(a, b)
    out = np.full((40, 50), np.nan, np.float32)
    assert kernels.matmul(a, b, out=out) is out and np.array_equal(out, want)
    room = np.full((40, 100), np.nan, np.float32)
    kernels.matmul(a, b, out=room[:, ::2])
    assert np.array_equal(room[:, ::2], want) and np.all(np.isnan(room[:, 1::2]))
    stacked = np.empty((3, 40, 50), np.float32)
    assert kernels.matmul(np.stack([a] * 3), b, out=stacked) is stacked and np.array_equal(stacked[2], want)
    with pytest.raises(ValueError, match=r"out must be float32 of shape \(40, 50\), got float64"):
        kernels.matmul(a, b, out=np.empty((40, 50)))
    with pytest.raises(ValueError, match=r"got float32 of shape \(50, 40\)"):
        kernels.matmul(a, b, out=np.empty((50, 40), np.float32))


def test_only_what_kernels_cannot_read_is_copied():
    """Transposed and cut matrices, and stacks of them, are read where they lie: copies take longer than products."""
    x = np.zeros((5, 6, 8), np.float32)
    stacks = x, x.swapaxes(1, 2), x.transpose(1, 0, 2), x[:, :3], x[:, ::2], x[..., :3], x[::-1]
    for view in (*stacks, x[0], x[0].T, x[0, :, :3].T):
        assert np.shares_memory(operand(view, view.shape[:-2])[0], view)
    read_only = x.view()
    read_only.flags.writeable = False
    unaligned = np.frombuffer(b"0" * 33, np.float32, 8, 1).reshape(2, 4)
    for view in (x[..., ::2], x[..., ::-1], read_only, read_only.T, unaligned):
        assert not np.shares_memory(operand(view, view.shape[:-2])[0], view)


@small_too
def test_output_may_be_an_operand():
    square = normal(0, 60, 60)
    transposed = square.T.copy().T
    want = kernels.matmul(square, transposed)
    kernels.matmul(square, transposed, out=square)
    assert np.array_equal(square, want)


@small_too
@pytest.mark.parametrize("depth", [20, 600, 0])
def test_accumulate(depth):
    a, b, start = normal(0, 40, depth), normal(1, depth, 50), normal(2, 40, 50)
    out, room = start.copy(), np.repeat(start, 2, axis=1)
    kernels.matmul(a, b, out=out, accumulate=True)
    check(out, a, b, extra=start)
    kernels.matmul(a, b, out=room[:, ::2], accumulate=True)
    assert np.array_equal(room[:, ::2], out) and np.array_equal(room[:, 1::2], start)
    with pytest.raises(ValueError, match="out, which must be given"):
        kernels.matmul(a, b, accumulate=True)


def test_what_it_accepts():
    f, d = np.ones((2, 2), np.float32), np.ones((2, 2))
    assert kernels.accepts(f, f) and kernels.accepts(d, d)
    for a, b in [(f, d), (f[0], f), (f, f[0]), (f.astype("i4"), f), (f.astype("f2"),) * 2, (f.astype(">f4"),) * 2]:
        assert not kernels.accepts(a, b)
    with pytest.raises(ValueError, match=r"a of shape \(2, 3\) has 3 columns but b of shape \(2, 3\) has 2 rows"):
        kernels.matmul(np.ones((2, 3)), np.ones((2, 3)))
    with pytest.raises(ValueError, match="do not broadcast"):
        kernels.matmul(np.ones((2, 1, 1)), np.ones((3, 1, 1)))


@small_too
@DTYPES
@pytest.mark.parametrize(("M", "K", "N"), [(1, 3, 1), (13, 40, 33), (30, 300, 100)])
def test_nan_and_infinity(dtype, M, K, N):
    a, b = normal(0, M, K, dtype=dtype), normal(1, K, N, dtype=dtype)
    a[0, 0], a[-1, 1], b[0, 0], b[2, -1] = 0.0, np.inf, np.inf, np.nan
    with np.errstate(invalid="ignore"):
        want = np.matmul(a, b)
        for left in (a, laid_out(a, "columns")):
            for right in (b, laid_out(b, "columns")):
                got = kernels.matmul(left, right)
                assert np.array_equal(np.isnan(got), np.isnan(want))
                assert np.array_equal(got[np.isinf(want)], want[np.isinf(want)])


@small_too
def test_nothing_outside_is_touched():
    room = np.full((64, 200), np.float32(np.nan))
    a, b, c = room[:13, 1:38], room[14:51, 3:76], np.full(13 * 73 + 2, 7, np.float32)
    a[...], b[...] = normal(0, 13, 37), normal(1, 37, 73)
    kernels.matmul(a, b, out=c[1:-1].reshape(13, 73))
    check(c[1:-1].reshape(13, 73), a, b)
    assert c[0] == c[-1] == 7


@small_too
@DTYPES
@many
@given(st.integers(0, 70), size, st.integers(0, 70), layout, layout, st.booleans())
def test_linear(dtype, M, K, N, left, right, has_bias):
    x, weight = laid_out(normal(0, M, K, dtype=dtype), left), laid_out(normal(1, N, K, dtype=dtype), right)
    bias = normal(2, N, dtype=dtype) if has_bias else None
    check(kernels.linear(x, weight, bias), x, weight.T, 0.0 if bias is None else bias, units=max(K, 4))
    assert kernels.linear_reference(x, weight, bias).shape == (M, N)


@pytest.mark.parametrize("M", [2, 200])
def test_shapes_that_do_not_fit_a_linear_layer(M):
    """Kernels do not look where arrays end."""
    x, weight, bias = normal(0, M, 128), normal(1, 512, 128), normal(2, 512)
    for wrong in (
        (x[:, :64], weight, bias),
        (x, weight, bias[:1]),
        (x, weight, bias[:511]),
        (x, weight, bias[:, None]),
    ):
        with pytest.raises(ValueError, match="linear: "):
            kernels.linear(*wrong)
    g = normal(3, M, 512)
    for wrong in ((g[1:], x, weight), (g[:, 1:], x, weight), (g, x[:, 1:], weight)):
        with pytest.raises(ValueError, match="linear_backward: "):
            kernels.linear_backward(*wrong)


@small_too
@DTYPES
@pytest.mark.parametrize(("M", "K", "N"), [(100, 30, 65), (3000, 40, 70), (1, 5, 300), (0, 3, 4), (7, 0, 3), (7, 3, 0)])
def test_linear_backward(dtype, M, K, N):
    g, x, weight = normal(0, M, N, dtype=dtype), normal(1, M, K, dtype=dtype), normal(2, N, K, dtype=dtype)
    dx, dweight, dbias = kernels.linear_backward(g, x, weight)
    check(dx, g, weight)
    check(dweight, g.T, x)
    check(dbias[None], np.ones((1, M), dtype), g)
    columns = laid_out(g, "columns")
    check(kernels.linear_backward(columns, x, weight)[2][None], np.ones((1, M), dtype), g)
    assert kernels.linear_backward(g, x, weight, False, False, False) == (None, None, None)
    plain = kernels.linear_backward_reference(g, x, weight)
    assert [p.shape for p in plain] == [dx.shape, dweight.shape, dbias.shape]


tiles_only = pytest.mark.skipif(not _matrix_tiles.AVAILABLE, reason="this processor or system has no matrix tiles")


@pytest.fixture(params=["each block by itself", "B once for all"])
def all_on_tiles(request, monkeypatch):
    """Products of any size go to the matrix tiles, if their numbers suit them."""
    for name, value in {"WORTHWHILE": 1, "NARROWEST": 1, "LEAST_USED": 0.0, "LEAST_DEPTH": 0.0, "DEPTH": 288}.items():
        monkeypatch.setattr(_pieces_product, name, value)
    if request.param == "B once for all":
        monkeypatch.setattr(_pieces_product, "SHARED", 1)
    monkeypatch.setattr(kernels, "SMALL", 0)
    forget_cuts()
    yield
    forget_cuts()


def forget_cuts():
    _pieces_product.cut.cache_clear()
    _pieces_product.cut_deep.cache_clear()


# layouts that leave the numbers as they are, for the same numbers again
LIKE = dict.fromkeys(LAYOUTS, "rows") | {name: name for name in ("columns", "steps", "reversed", "read-only")}


def in_pieces(a, b, bias=None, whole=False):
    """Whether the tiles took the product, and C."""
    (M, K), N, c = a.shape, b.shape[1], np.full((a.shape[0], b.shape[1]), np.nan, np.float32)
    left, right = operand(a, ()), operand(b, ())
    flat, addend = c.ravel(), np.zeros(0, np.float32) if bias is None else bias
    arguments = (left[0], int(left[1][0]), *left[2:], right[0], int(right[1][0]), *right[2:], flat)
    return _pieces_product.multiply_in_pieces(M, N, K, *arguments, bias is not None, addend, whole), c


@many
@given(st.lists(st.floats(2.0**-100, 2.0**100, width=32), min_size=1), st.booleans())
def test_pieces_add_up_to_the_number(numbers, negative):
    x = np.array(numbers, np.float32) * (-1 if negative else 1)
    pieces = _pieces.in_pieces(x)
    assert np.array_equal(sum(piece.astype(np.float64) for piece in pieces), x)
    for piece in pieces:
        assert not np.any(piece.view(np.uint32) & 0xFFFF)  # a bfloat16
    for piece, bound in zip(pieces[1:], (2.0**-8, 2.0**-16), strict=True):
        assert np.all(np.abs(piece) <= bound * np.abs(x))


def test_six_products_of_pieces_are_as_exact_as_float32():
    a, b = normal(0, 60, 100), normal(1, 100, 70)
    check(_pieces.reference(a, b), a, b, units=1)


@tiles_only
@many
@given(st.integers(1, 130), st.integers(1, 200), st.integers(1, 130), layout, layout, st.booleans())
@example(96, 96, 96, "rows", "rows", True)
@example(96, 192, 96, "columns", "columns", False)
@example(400, 64, 32, "rows", "rows", False)
@example(400, 64, 100, "steps", "columns", True)
@example(400, 192, 300, "rows", "columns", True)
@example(70, 600, 50, "columns", "rows", False)
@example(530, 700, 20, "columns", "rows", False)
@example(20, 700, 530, "columns", "rows", False)
def test_any_shape_and_layout_on_tiles(all_on_tiles, M, K, N, left, right, has_bias):
    a, b = laid_out(normal(0, M, K), left), laid_out(normal(1, K, N), right)
    bias = normal(2, N) if has_bias else None
    taken, c = in_pieces(a, b, bias)
    assert taken
    check(c, a, b, 0.0 if bias is None else bias, units=K if {left, right} & {"one element", "repeated"} else 4)


# The pieces that a number may lose, beside it, and what that leaves of |A| @ |B| at most: the lost pieces of both
# operands, and the products of small pieces that are left out.
LOST = {"high": 2.0**-17 * 2 + 2.0**-16, "medium": 2.0**-9 * 2 + 2.0**-16}


@pytest.fixture(params=list(LOST))
def fewer_bits(request):
    with precision.in_this_thread(request.param):
        yield request.param


@many
@given(st.lists(st.floats(2.0**-100, 2.0**100, width=32), min_size=1), st.booleans(), st.sampled_from([1, 2]))
def test_fewer_pieces_are_the_first_ones(numbers, negative, count):
    x = np.array(numbers, np.float32) * (-1 if negative else 1)
    pieces = _pieces.in_pieces(x, count)
    assert len(pieces) == count and all(
        np.array_equal(*pair) for pair in zip(pieces, _pieces.in_pieces(x), strict=False)
    )
    assert np.all(np.abs(sum(piece.astype(np.float64) for piece in pieces) - x) <= 2.0 ** -(8 * count) * np.abs(x))


@tiles_only
@pytest.mark.parametrize(("M", "K", "N"), [(768, 128, 384), (300, 1100, 650), (70, 600, 50), (512, 768, 128)])
@pytest.mark.parametrize("layouts", ["NN", "NT", "TN", "TT"])
def test_products_of_fewer_pieces(all_on_tiles, fewer_bits, M, K, N, layouts):
    """As the plain formula says, no worse than what is left out, and not by chance as good as float32."""
    a, b = (
        laid_out(x, {"N": "rows", "T": "columns"}[of])
        for x, of in ((normal(0, M, K), layouts[0]), (normal(1, K, N), layouts[1]))
    )
    taken, c = in_pieces(a, b)
    assert taken
    size, exact = np.abs(a).astype(float) @ np.abs(b), a.astype(float) @ b
    plain = _pieces.reference(np.array(a, order="C"), np.array(b, order="C"), precision.PIECES[fewer_bits])
    assert np.all(np.abs(c - plain) <= 2e-6 * size)
    error = np.abs(c - exact) / size
    assert LOST[fewer_bits] / 1000 < error.mean() and error.max() <= LOST[fewer_bits] + 1e-6


@tiles_only
def test_gradients_of_fewer_pieces(all_on_tiles, fewer_bits):
    g, x, weight = normal(0, 512, 96), normal(1, 512, 128), normal(2, 96, 128)
    dx, dweight, dbias = kernels.linear_backward(g, x, weight)
    for got, left, right in ((dx, g, weight), (dweight, g.T, x)):
        size = np.abs(left).astype(float) @ np.abs(right)
        error = np.abs(got - left.astype(float) @ right) / size
        assert LOST[fewer_bits] / 1000 < error.mean() and error.max() <= LOST[fewer_bits] + 1e-6
    check(dbias[None], np.ones((1, 512), np.float32), g)  # a sum is no product


@pytest.mark.parametrize("layouts", ["NN", "NT", "TN", "TT"])
def test_float32_is_rounded_to_pairs_if_so_wanted(monkeypatch, layouts):
    """'medium' keeps bfloat16's 8 bits where pairs of those are multiplied, and no more; 'high' gains nothing there."""
    if not _vector.HAS_PAIRS:
        pytest.skip("needs a processor that multiplies pairs of bfloat16 (AVX512_BF16)")
    monkeypatch.setattr(_matrix_tiles, "AVAILABLE", False)
    a, b = (
        laid_out(x, {"N": "rows", "T": "columns"}[of])
        for x, of in ((normal(0, 301, 257), layouts[0]), (normal(1, 257, 130), layouts[1]))
    )
    bias = normal(2, 130)

    def error(found, left, right, extra=0.0):
        size = np.abs(left).astype(float) @ np.abs(right)
        return np.abs(found - (left.astype(float) @ right + extra)) / size

    for name, least, most in (("high", 0.0, 1e-6), ("medium", LOST["medium"] / 1000, LOST["medium"])):
        with precision.in_this_thread(name):
            products = [(kernels.matmul(a, b), a, b), (kernels.linear(a, b.T, bias), a, b, bias)]
            stacked = kernels.matmul(np.stack([a] * 3), np.stack([b, b, -b]))
            g = normal(3, 301, 130)
            dx, dweight, dbias = kernels.linear_backward(g, a, np.ascontiguousarray(b.T))
        assert np.array_equal(stacked[0], products[0][0]) and np.array_equal(stacked[2], -products[0][0])
        for product in (*products, (dx, g, b.T), (dweight, g.T, a)):
            assert least <= error(*product).mean() and error(*product).max() <= most
        check(dbias[None], np.ones((1, 301), np.float32), g)


@tiles_only
def test_bfloat16_takes_one_piece_whatever_float32_takes(fewer_bits):
    a, b = normal(0, 300, 128).astype(BFLOAT16), normal(1, 200, 128).astype(BFLOAT16)
    found = kernels.linear(a, b)
    with precision.in_this_thread("highest"):
        assert np.array_equal(found.view(np.uint16), kernels.linear(a, b).view(np.uint16))


@tiles_only
def test_numbers_that_do_not_suit_tiles_are_as_exact_as_ever(fewer_bits):
    a, b = normal(0, 256, 256) * np.float32(2.0**90), normal(1, 256, 256)
    check(kernels.matmul(a, b), a, b)
    b[3, 5] = np.inf
    assert np.array_equal(np.isfinite(kernels.matmul(normal(2, 256, 256), b)).all(0), np.arange(256) != 5)


@tiles_only
@pytest.mark.parametrize(("M", "K", "N"), [(768, 128, 384), (300, 1100, 650), (50, 3000, 700)])
@pytest.mark.parametrize("layouts", ["NN", "NT", "TN", "TT"])
def test_tiles_are_at_least_as_exact_as_vectors(M, K, N, layouts, monkeypatch):
    a = laid_out(normal(0, M, K), "rows" if layouts[0] == "N" else "columns")
    b = laid_out(normal(1, K, N), "rows" if layouts[1] == "N" else "columns")
    exact, size = (
        np.matmul(a.astype(float), b.astype(float)),
        np.matmul(np.abs(a.astype(float)), np.abs(b.astype(float))),
    )
    taken, c = in_pieces(a, b)
    assert taken == (M != 50)  # of which too much of the tiles would be empty
    monkeypatch.setattr(_matrix_tiles, "AVAILABLE", False)
    plain = kernels.matmul(a, b)
    if taken:
        assert np.mean(np.abs(c - exact) / size) <= 1.05 * np.mean(np.abs(plain - exact) / size)


@tiles_only
def test_whole_numbers_and_copies_are_exact_on_tiles(all_on_tiles):
    rng = np.random.default_rng(0)
    a, b = rng.integers(-300, 300, (70, 90)).astype(np.float32), rng.integers(-300, 300, (90, 50)).astype(np.float32)
    taken, c = in_pieces(a, b)
    assert taken and np.array_equal(c, (a.astype(int) @ b.astype(int)).astype(np.float32))
    chosen = np.eye(90, dtype=np.float32)[rng.permutation(90)]
    b = normal(0, 90, 50) * np.float32(10) ** rng.integers(-20, 10, (90, 50)).astype(np.float32)
    taken, c = in_pieces(chosen, b)
    assert taken and np.array_equal(c, chosen.astype(float) @ b)


@tiles_only
@many
@given(st.integers(0, 2**31), st.integers(1, 140), st.booleans())
def test_tiny_numbers_beside_others_on_tiles(all_on_tiles, seed, depth, on_the_right):
    """Down to subnormal ones: what is lost is below 2^-126 for each number, and nothing else is touched."""
    rng = np.random.default_rng(seed)
    a, b = normal(seed, 40, depth), normal(seed + 1, depth, 40)
    tiny = np.ldexp(a if not on_the_right else b, rng.integers(-149, 1, (a if not on_the_right else b).shape))
    a, b = (a, tiny.astype(np.float32)) if on_the_right else (tiny.astype(np.float32), b)
    suits = np.abs(tiny).max() >= 2.0**-40
    taken, c = in_pieces(a, b)
    assert taken == suits
    if taken:
        wide = a.astype(float), b.astype(float)
        exact, size = wide[0] @ wide[1], np.abs(wide[0]) @ np.abs(wide[1])
        assert np.all(np.abs(c - exact) <= 8 * depth * 2.0**-126 * 4 + 8 * np.finfo(np.float32).eps * size)


@tiles_only
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e30, 2.0**-60])
@pytest.mark.parametrize("side", [0, 1])
def test_numbers_that_do_not_suit_the_tiles(all_on_tiles, monkeypatch, value, side):
    """The whole operand is tiny, or one element is NaN, infinite or huge: the vector registers compute it."""
    operands = [normal(0, 304, 96), normal(1, 96, 64)]
    if value < 1:
        operands[side] *= np.float32(value)
    else:
        operands[side][[250, 90][side], 17] = value
    assert not in_pieces(*operands)[0]
    with np.errstate(invalid="ignore"):
        got = kernels.matmul(*operands)
        monkeypatch.setattr(_matrix_tiles, "AVAILABLE", False)
        assert got.tobytes() == kernels.matmul(*operands).tobytes()


@tiles_only
@many
@given(st.integers(1, 130), st.integers(1, 200), st.integers(1, 130), layout, layout, st.booleans())
@example(400, 64, 32, "rows", "rows", False)
@example(400, 64, 100, "rows", "columns", True)
@example(400, 192, 300, "columns", "rows", True)
def test_whole_bfloat16_on_tiles(all_on_tiles, M, K, N, left, right, has_bias):
    a, b = (cast(cast(normal(seed, *shape), BFLOAT16), np.float32) for seed, shape in enumerate([(M, K), (K, N)]))
    a, b, bias = laid_out(a, left), laid_out(b, right), normal(2, N) if has_bias else None
    taken, c = in_pieces(a, b, bias, whole=True)
    assert taken
    bits = [laid_out(cast(np.ascontiguousarray(x), BFLOAT16).view(np.uint16), "rows") for x in (a, b)]
    assert in_pieces(laid_out(bits[0], LIKE[left]), laid_out(bits[1], LIKE[right]), bias, whole=True)[1].tobytes() == (
        c.tobytes()
    )
    check(c, a, b, 0.0 if bias is None else bias, units=K if {left, right} & {"one element", "repeated"} else 4)


def test_cast_between_float32_and_bfloat16():
    """Bit for bit what ml_dtypes does, for every bfloat16, for ties, and for any bits; in any order of axes."""
    every = np.arange(1 << 16, dtype=np.uint16).view(BFLOAT16)
    assert np.array_equal(cast(every, np.float32).view(np.uint32), np.arange(1 << 16, dtype=np.uint32) << 16)
    tie = (np.arange(1 << 16, dtype=np.uint32) << 16) + 0x8000
    bits = np.concatenate([tie - 1, tie, tie + 1, np.random.default_rng(0).integers(0, 1 << 32, 1 << 18, np.uint32)])
    numbers = bits.view(np.float32)
    with np.errstate(invalid="ignore"):
        want = numbers.astype(BFLOAT16)
    got, nan = cast(numbers, BFLOAT16), np.isnan(numbers)
    assert np.array_equal(got.view(np.uint16)[~nan], want.view(np.uint16)[~nan])
    assert np.all(np.isnan(cast(got, np.float32)[nan]))
    x = normal(0, 20, 30, 40)
    for view in (x.transpose(2, 0, 1), x[:, ::2], x[::-1], x[:, :, :1], x[:0], np.broadcast_to(x[:1], x.shape)):
        down = cast(view, BFLOAT16)
        assert np.array_equal(down, view.astype(BFLOAT16)) and np.array_equal(cast(down, np.float32), down.astype("f4"))
    assert cast(x, np.float32) is x and cast(x, np.float64).dtype == np.float64


def test_cast_of_rows_of_a_larger_array():
    """Queries among queries, keys and values, with their heads: rows that lie evenly apart; others are NumPy's."""
    room = normal(0, 7, 50, 3, 4, 32)
    views = [room[:, :, 1].transpose(0, 2, 1, 3), room[:, :40, 2], room[::2], room[..., 5:], room[..., ::2], room[::-1]]
    views += [np.broadcast_to(room[:, :, :1], room.shape), room[:, 3:], room[:, ::5, :, 1:], room.reshape(-1)[1:][::3]]
    for view in views:
        assert view.size >= 16384  # fewer are NumPy's
        down, halves = cast(view, BFLOAT16), room.astype(BFLOAT16)
        assert np.array_equal(down.view(np.uint16), view.astype(BFLOAT16).view(np.uint16))
        same = np.ndarray(view.shape, BFLOAT16, halves, _offset(view, room), [stride // 2 for stride in view.strides])
        assert np.array_equal(cast(same, np.float32), same.astype(np.float32))


def _offset(view, room):
    """Where a view begins in an array of the same numbers of half the size, in bytes."""
    return (view.__array_interface__["data"][0] - room.__array_interface__["data"][0]) // 2


@tiles_only
@pytest.mark.parametrize("rows", [96, 530, 4000])
@pytest.mark.parametrize(("out", "channels"), [(96, 64), (520, 96), (70, 90)])
def test_gradients_of_weight_and_bias_on_tiles(all_on_tiles, rows, out, channels):
    """A depth of one stretch and of several, of one part and of several; C of one block and of two, ragged or not."""
    g, x = normal(0, rows, out), normal(1, rows, channels)
    found = _pieces_product.weight_gradient_in_pieces(g, x, True)
    if rows <= max(out, channels):
        assert found is None
        return
    check(found[0], g.T, x)
    check(found[1][None], np.ones((1, rows), np.float32), g)
    dx, dweight, dbias = kernels.linear_backward(g, x, normal(2, out, channels))
    assert np.array_equal(dweight, found[0]) and np.array_equal(dbias, found[1])
    without = kernels.linear_backward(g, x, normal(2, out, channels), need_x=False, need_bias=False)
    assert without[0] is None and np.array_equal(without[1], dweight) and without[2] is None
    check(dx, g, normal(2, out, channels))
    assert np.array_equal(dx, kernels.matmul(g, normal(2, out, channels)))  # both at once, or one by one


@pytest.mark.parametrize("tiles", [pytest.param(True, marks=tiles_only), False])
@pytest.mark.parametrize(("M", "K", "N"), [(300, 200, 130), (5, 33, 40), (4096, 384, 256), (200, 1600, 100)])
def test_a_linear_layer_of_bfloat16_rounds_once(monkeypatch, tiles, M, K, N):
    """Value and gradient for x as bfloat16, the rounded sums of float32; those of weight and bias as float32."""
    monkeypatch.setattr(_matrix_tiles, "AVAILABLE", tiles)
    g, x, weight = (normal(n, *shape).astype(BFLOAT16) for n, shape in enumerate([(M, N), (M, K), (N, K)]))
    bias = normal(3, N).astype(BFLOAT16)
    wide = [a.astype(np.float32) for a in (g, x, weight, bias)]

    def nearly(found, a, b, c=0.0):
        """The rounded result of a sum of float32 that is as good as NumPy's."""
        exact = a.astype(np.float64) @ b + c
        sums = np.abs(a) @ np.abs(b) + np.abs(c)
        assert found.dtype == BFLOAT16
        assert np.all(np.abs(found.astype(np.float64) - exact) <= np.abs(exact) * 2.0**-8 + sums * 2.0**-20)

    nearly(kernels.linear(x, weight, bias), wide[1], wide[2].T, wide[3])
    nearly(kernels.linear(x, weight), wide[1], wide[2].T)
    dx, dweight, dbias = kernels.linear_backward(g, x, weight)
    nearly(dx, wide[0], wide[2])
    check(dweight, wide[0].T, wide[1])
    check(dbias[None], np.ones((1, M), np.float32), wide[0])
    x[0, 0], g[1, 2] = np.inf, np.nan
    assert np.array_equal(~np.isfinite(kernels.linear(x, weight, bias).astype(np.float32)).all(1), np.arange(M) == 0)
    dx, dweight, dbias = kernels.linear_backward(g, x, weight)
    assert np.array_equal(np.isnan(dx.astype(np.float32)).all(1), np.arange(M) == 1)
    assert np.isnan(dweight[2]).all() and np.isnan(dbias[2])


@pytest.fixture
def all_in_pairs(monkeypatch):
    """Every product of bfloat16 goes to the instructions on pairs of them."""
    if not _vector.HAS_PAIRS:
        pytest.skip("needs a processor that multiplies pairs of bfloat16 (AVX512_BF16)")
    monkeypatch.setattr(_matrix_tiles, "AVAILABLE", False)
    monkeypatch.setattr(kernels, "suits_pairs", lambda items, M, N, K: items * M * N * K > 0)


def check_bfloat16(found, a, b, bias=0.0):
    """As a sum of float32 that is as good as NumPy's; once more rounded if it is of bfloat16."""
    wide = [np.asarray(x, np.float64) for x in (a, b)]
    exact, size = np.matmul(*wide) + bias, np.matmul(*map(np.abs, wide)) + np.abs(bias)
    last_bit = 2.0**-8 if found.dtype == BFLOAT16 else 0.0
    assert found.shape == exact.shape
    assert np.all(np.abs(found.astype(np.float64) - exact) <= np.abs(exact) * last_bit + size * 2.0**-20)


@many
@given(size, size, size, layout, layout, st.booleans(), st.booleans())
@example(300, 770, 70, "rows", "columns", False, True)
@example(300, 771, 70, "columns", "rows", True, False)
@example(100, 384, 600, "reversed columns", "reversed", True, True)
@example(1, 2, 1, "rows", "rows", True, True)
def test_bfloat16_in_pairs(all_in_pairs, M, K, N, left, right, has_bias, rounded):
    a, b = laid_out(normal(0, M, K).astype(BFLOAT16), left), laid_out(normal(1, K, N).astype(BFLOAT16), right)
    bias = normal(2, N) if has_bias else None
    found = kernels.product_of_bfloat16(a, b, bias, rounded)
    assert found.dtype == (BFLOAT16 if rounded else np.float32)
    check_bfloat16(found, a, b, 0.0 if bias is None else bias)


@many
@given(st.sampled_from(STACKS), st.integers(0, 40), st.integers(0, 40), st.integers(0, 40), layout, layout)
def test_stacks_of_bfloat16_in_pairs(all_in_pairs, stacks, M, K, N, left, right):
    a = laid_out(normal(1, *stacks[0], M, K).astype(BFLOAT16), left)
    b = laid_out(normal(2, *stacks[1], K, N).astype(BFLOAT16), right)
    check_bfloat16(kernels.product_of_bfloat16(a, b, rounded=True), a, b)


@pytest.mark.parametrize("tiles", [pytest.param(True, marks=tiles_only), False])
def test_a_stack_of_bfloat16_by_one_matrix_is_one_tall_product(monkeypatch, tiles):
    """As layers written by hand have it: it may go where a product of two matrices goes."""
    monkeypatch.setattr(_matrix_tiles, "AVAILABLE", tiles)
    a, b = normal(0, 3, 40, 96).astype(BFLOAT16), normal(1, 96, 128).astype(BFLOAT16)
    for rounded in (True, False):
        found = kernels.product_of_bfloat16(a, b, rounded=rounded)
        check_bfloat16(found, a, b)
        assert found.tobytes() == kernels.product_of_bfloat16(a.reshape(120, 96), b, rounded=rounded).tobytes()
    assert kernels.product_of_bfloat16(a[:0], b, rounded=True).shape == (0, 40, 128)


@pytest.mark.parametrize(("M", "K", "N"), [(1536, 4096, 384), (4096, 384, 1152), (65, 4097, 384), (2000, 1600, 999)])
@pytest.mark.parametrize("layouts", ["NN", "NT", "TN", "TT"])
def test_large_products_of_bfloat16_in_pairs(all_in_pairs, M, K, N, layouts):
    """Packed by each block, before all blocks, and stretch after stretch of the depth; the same for any threads."""
    a = laid_out(normal(0, M, K).astype(BFLOAT16), "rows" if layouts[0] == "N" else "columns")
    b = laid_out(normal(1, K, N).astype(BFLOAT16), "rows" if layouts[1] == "N" else "columns")
    found, before = kernels.product_of_bfloat16(a, b), get_num_threads()
    check_bfloat16(found, a, b)
    try:
        set_num_threads(1)
        assert kernels.product_of_bfloat16(a, b).tobytes() == found.tobytes()
    finally:
        set_num_threads(before)


def test_rows_that_lie_far_apart_in_pairs(all_in_pairs):
    """They are packed, as those that lie across are; the last pairs are fewer than a register holds."""
    a, b = normal(0, 100, 5000).astype(BFLOAT16)[:, 7:337], normal(1, 330, 100).astype(BFLOAT16)
    check_bfloat16(kernels.product_of_bfloat16(a, b), a, b)


def test_numbers_at_the_ends_of_the_range_in_pairs(all_in_pairs):
    """Infinity and NaN are what they are elsewhere; numbers below 2^-126 are taken for zero, and so are such sums."""
    a, b = normal(0, 40, 64).astype(BFLOAT16), normal(1, 64, 48).astype(BFLOAT16)
    a[3, 5], a[7, 6], b[9, 11] = np.inf, np.nan, 3e38
    found = kernels.product_of_bfloat16(a, b, rounded=True).astype(np.float32)
    with np.errstate(all="ignore"):
        want = (a.astype(np.float32) @ b.astype(np.float32)).astype(BFLOAT16).astype(np.float32)
    assert np.array_equal(np.isfinite(found), np.isfinite(want)) and np.array_equal(np.isnan(found), np.isnan(want))
    tiny = np.full((16, 2), 2.0**-130).astype(BFLOAT16)
    assert not kernels.product_of_bfloat16(tiny, np.ones((2, 16), BFLOAT16)).any()
    small = np.full((16, 2), 2.0**-70).astype(BFLOAT16)
    assert not kernels.product_of_bfloat16(small, small.T.copy()).any()


@tiles_only
def test_an_infinite_gradient_of_a_weight(all_on_tiles):
    g, x = normal(0, 400, 96), normal(1, 400, 64)
    g[399, 5] = np.inf
    assert _pieces_product.weight_gradient_in_pieces(g, x, True) is None
    with np.errstate(invalid="ignore"):
        _, dweight, dbias = kernels.linear_backward(g, x, normal(2, 96, 64))
    assert np.array_equal(~np.isfinite(dweight).all(1), np.arange(96) == 5) and dbias[5] == np.inf


@tiles_only
@pytest.mark.parametrize("which", range(3))
@pytest.mark.parametrize("number", [np.inf, 2.0**61, 2.0**-60])
def test_gradients_at_once_of_numbers_that_do_not_suit(all_on_tiles, which, number):
    """They are made one by one then, each as it would be by itself; a small number among zeros does not suit either."""
    arrays = [normal(0, 400, 96), normal(1, 400, 64), normal(2, 96, 64)]
    if number < 1:
        arrays[which][:] = 0
    arrays[which][3, 5] = number
    g, x, weight = arrays
    assert _pieces_product.linear_gradients_in_pieces(g, x, weight, True) is None
    with np.errstate(invalid="ignore"):
        found = kernels.linear_backward(g, x, weight)
        plain = [a.astype(np.float64) for a in arrays]
        wanted = plain[0] @ plain[2], plain[0].T @ plain[1], plain[0].sum(0)
    for got, want in zip(found, wanted, strict=True):
        usual = np.median(np.abs(want[np.isfinite(want)]))
        assert np.allclose(got, want, rtol=1e-4, atol=1e-4 * usual, equal_nan=True)


@tiles_only
def test_zeros_suit_the_tiles(all_on_tiles):
    taken, c = in_pieces(np.zeros((40, 33), np.float32), normal(0, 33, 20))
    assert taken and not c.any()


@tiles_only
def test_same_bits_on_tiles_for_any_number_of_threads(all_on_tiles):
    before, runs = get_num_threads(), []
    try:
        for number in (1, 2, 5):
            set_num_threads(number)
            runs.append(in_pieces(normal(0, 300, 250), normal(1, 250, 170), normal(2, 170))[1].tobytes())
            found = _pieces_product.weight_gradient_in_pieces(normal(0, 1000, 250), normal(1, 1000, 170), True)
            runs[-1] += found[0].tobytes() + found[1].tobytes()
    finally:
        set_num_threads(before)
    assert runs[0] == runs[1] == runs[2]


@pytest.mark.parametrize(("setting", "message"), [("0", "False"), ("2", "must be 0 or 1, got '2'")])
def test_matrix_tiles_can_be_switched_off(setting, message):
    environment = dict(os.environ, **{_matrix_tiles.SETTING: setting})
    command = [sys.executable, "-c", "from tinygrad_tf.kernels import _matrix_tiles; print(_matrix_tiles.AVAILABLE)"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert message in done.stdout + done.stderr


def results():
    """Products of every kind: packed by block, before and by stretches, thin, stacked, deep; and sums of columns."""
    deep, wide = normal(0, 90, 5000), normal(1, 5000, 130)
    yield kernels.matmul(deep, wide)
    yield kernels.matmul(normal(2, 700, 300), normal(3, 300, 500))
    yield kernels.matmul(normal(4, 1000, 300).T, normal(5, 1000, 310))
    yield kernels.matmul(normal(4, 300, 700).T, normal(5, 500, 300).T)
    yield kernels.matmul(normal(6, 2, 1500), normal(7, 1500, 1100))
    yield kernels.matmul(normal(8, 40, 33, 20), normal(9, 40, 45, 20).swapaxes(1, 2))
    yield kernels.linear(normal(10, 400, 70), normal(11, 300, 70), normal(12, 300))
    yield kernels.sum_rows(normal(13, 3000, 200))


def test_same_bits_for_any_number_of_threads():
    before, runs = get_num_threads(), []
    try:
        for number in (1, 2, 5):
            set_num_threads(number)
            runs.append([result.tobytes() for result in results()])
    finally:
        set_num_threads(before)
    assert runs[0] == runs[1] == runs[2]


@pytest.mark.skipif(_vector.SETTING in os.environ, reason="this is that process")
@pytest.mark.parametrize("width", ["16", "32"])
def test_other_vector_widths(width):
    environment = dict(os.environ, **{_vector.SETTING: width})
    root = cache_root()
    if root is not None:
        environment["TINYGRAD_TF_CACHE"] = str(root / f"width-{width}")
    command = [sys.executable, "-m", "pytest", __file__, "-q", "-n0", "-p", "no:cacheprovider"]
    chosen = ["-k", "((any_shape or stacks) and kernels) or large or threads"]
    done = subprocess.run([*command, *chosen], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_wrong_width_is_refused():
    environment = dict(os.environ, **{_vector.SETTING: "48"})
    command = [sys.executable, "-c", "import tinygrad_tf.kernels._vector"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "must be 16, 32 or 64, got '48'" in done.stderr
