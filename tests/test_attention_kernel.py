"""The attention kernels against the plain formula in float64, at sizes, layouts and masks of every kind."""

from __future__ import annotations

import itertools
import tracemalloc

import ml_dtypes
import numpy as np
import pytest

from tinygrad_tf.kernels import attention as kernels

SIZES = [1, 2, 7, 16, 17, 63, 64, 65, 130]
HEAD_SIZES = [1, 3, 8, 31, 32, 64, 80]


def normal(*shape, seed=0, dtype=np.float32):
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(dtype)


def wide(x):
    return x.astype(np.float64) if isinstance(x, np.ndarray) and x.dtype != bool else x


def reference_gradients(g, query, key, value, mask, is_causal, scale, window=None, slopes=None):
    """Gradients by the textbook formulas, with all weights in memory."""
    Hk, group = key.shape[1], query.shape[1] // key.shape[1]
    out, logsumexp = kernels.reference(query, key, value, mask, is_causal, scale, window, slopes)
    keys, values = key.repeat(group, 1), value.repeat(group, 1)
    scores = kernels.restricted(query @ keys.swapaxes(-1, -2) * scale, 0, mask, is_causal, window, slopes)
    weights = np.exp(scores - np.where(logsumexp > -np.inf, logsumexp, 0)[..., None])
    ds = weights * (g @ values.swapaxes(-1, -2) - (g * out).sum(-1, keepdims=True))

    def of_group(x):
        return x.reshape(x.shape[0], Hk, group, *x.shape[2:]).sum(2)

    dkey = of_group(ds.swapaxes(-1, -2) @ query * scale)
    return ds @ keys * scale, dkey, of_group(weights.swapaxes(-1, -2) @ g), ds


def worst(got, exact):
    assert got.shape == exact.shape
    return np.max(np.abs(wide(got) - exact), initial=0) if got.size else 0.0


def check(query, key, value, mask=None, is_causal=False, scale=0.3, window=None, slopes=None, backward=True):
    """The kernel's error is at most twice that of the plain formula in the same float type, and a little."""
    options = {"window": window, "slopes": slopes}
    out, logsumexp = kernels.attention(query, key, value, mask, is_causal, scale, **options)
    assert out.dtype == query.dtype and out.transpose(0, 2, 1, 3).flags.c_contiguous
    exact = kernels.reference(*map(wide, (query, key, value, mask)), is_causal, scale, **options)
    plain = kernels.reference(query, key, value, mask, is_causal, scale, **options)
    # In float64 the reference is as exact as the kernel, and no more.
    tiny = np.finfo(query.dtype).eps * (8 if query.dtype == np.float32 else 40)

    def close(got, plain, exact):
        finite = np.isfinite(exact)
        np.testing.assert_array_equal(got[~finite], exact[~finite])
        got, plain, exact = got[finite], plain[finite], exact[finite]
        size = np.max(np.abs(exact), initial=1)
        assert worst(got, exact) <= 2 * worst(plain, exact) + tiny * size

    for arrays in zip((out, logsumexp), plain, exact, strict=True):
        close(*arrays)
    if not backward:
        return
    g = normal(*out.shape, seed=9, dtype=query.dtype)
    float_mask = mask is not None and mask.dtype != bool
    gradients = kernels.attention_backward(
        g, query, key, value, mask, out, logsumexp, is_causal, scale, need_mask=float_mask, **options
    )
    exact = reference_gradients(*map(wide, (g, query, key, value, mask)), is_causal, scale, **options)
    plain = reference_gradients(g, query, key, value, mask, is_causal, scale, **options)
    for got, also, best in zip(gradients[:3], plain[:3], exact[:3], strict=True):
        assert got.dtype == query.dtype
        merged = got.transpose(0, 2, 1, 3).reshape(got.shape[0], got.shape[2], got.shape[1] * got.shape[3])
        assert not got.size or np.may_share_memory(got, merged)
        close(got, also, best)
    if float_mask:
        assert gradients[3].shape == mask.shape
        close(gradients[3], sum_to(plain[3], mask.shape), sum_to(exact[3], mask.shape))
    else:
        assert gradients[3] is None


def sum_to(x, shape):
    padded = (1,) * (x.ndim - len(shape)) + tuple(shape)
    axes = tuple(i for i, n in enumerate(padded) if n == 1)
    return x.sum(axes, keepdims=True).reshape(shape)


@pytest.mark.parametrize("T", SIZES)
@pytest.mark.parametrize("is_causal", [False, True])
def test_every_length(T, is_causal):
    for dtype in (np.float32, np.float64):
        check(*(normal(2, 3, T, 8, seed=s, dtype=dtype) for s in range(3)), is_causal=is_causal)


@pytest.mark.parametrize("D", HEAD_SIZES)
def test_every_head_size(D):
    for Dv in (D, 5, 33):
        for dtype in (np.float32, np.float64):
            query, key = (normal(1, 2, 37, D, seed=s, dtype=dtype) for s in range(2))
            check(query, key, normal(1, 2, 37, Dv, dtype=dtype), is_causal=True)


@pytest.mark.parametrize("Tq, Tk", [(1, 70), (5, 300), (70, 1), (130, 33), (33, 130), (64, 700)])
@pytest.mark.parametrize("is_causal", [False, True])
def test_other_numbers_of_keys(Tq, Tk, is_causal):
    check(normal(2, 2, Tq, 16), normal(2, 2, Tk, 16), normal(2, 2, Tk, 12), is_causal=is_causal)


def split_heads(x, heads):
    """(B, T, C) -> (B, heads, T, C / heads), a view."""
    return x.reshape(*x.shape[:2], heads, -1).transpose(0, 2, 1, 3)


def test_heads_split_from_one_array():
    query, key, value = (split_heads(x, 4) for x in np.split(normal(2, 50, 3 * 4 * 8), 3, axis=-1))
    assert not query.flags.c_contiguous and query.base is not None
    check(query, key, value, is_causal=True)


@pytest.mark.parametrize(
    ("order", "heads", "B", "T"), [((0, 1, 2), 2, 3, 40), ((2, 0, 1), 4, 1, 40), ((1, 0, 2), 4, 1, 300)]
)
def test_gradients_of_slices_are_slices_of_one_array(order, heads, B, T):
    """Also of grouped heads, and where parts of the keys are added up (one batch entry of 300)."""
    D, counts = 8, [4 if i == 0 else heads for i in order]
    x, starts = normal(B, T, sum(counts) * D), np.cumsum([0, *counts]) * D
    parts = [split_heads(x[..., starts[i] : starts[i + 1]], counts[i]) for i in range(3)]
    arrays = [parts[order.index(i)] for i in range(3)]
    check(*arrays, is_causal=True)
    out, logsumexp = kernels.attention(*arrays, None, True, 0.3)
    gradients = kernels.attention_backward(out, *arrays, None, out, logsumexp, True, 0.3)[:3]
    whole = gradients[0].base
    assert whole.shape == x.shape
    joined = np.concatenate([gradients[i].transpose(0, 2, 1, 3).reshape(B, T, -1) for i in order], -1)
    np.testing.assert_array_equal(whole, joined)
    apart = kernels.attention_backward(out, *map(np.copy, arrays), None, out, logsumexp, True, 0.3)[:3]
    for one, other in zip(gradients, apart, strict=True):
        assert other.base is not whole
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    "change",
    [
        lambda x: np.broadcast_to(x[:, :1], x.shape),  # read-only, and stride 0
        lambda x: np.broadcast_to(x[:1, :, :, :1], x.shape),
        lambda x: np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2),
        lambda x: x[:, :, ::-1],
        lambda x: x[:, ::-1, :, ::-1],
        lambda x: x.repeat(2, axis=2)[:, :, ::2],
        lambda x: np.asfortranarray(x),
        lambda x: np.frombuffer(b"." + x.tobytes(), np.uint8)[1:].view(x.dtype).reshape(x.shape),  # not aligned
        lambda x: x.astype(x.dtype.newbyteorder()).view(x.dtype).byteswap(),
    ],
)
def test_any_layout(change):
    arrays = [normal(2, 4, 41, 8, seed=s) for s in range(3)]
    for i in range(3):
        check(*(change(x) if i == j else x for j, x in enumerate(arrays)), is_causal=True)
    g = normal(2, 4, 41, 8, seed=4)
    out, logsumexp = kernels.attention(*arrays, None, True, 0.3)
    wanted = kernels.attention_backward(g * 0 + change(g), *arrays, None, out, logsumexp, True, 0.3)
    got = kernels.attention_backward(change(g), *arrays, None, out, logsumexp, True, 0.3)
    for a, b in zip(got[:3], wanted[:3], strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("heads, key_heads", [(4, 2), (6, 1), (3, 3), (6, 3)])
def test_grouped_queries(heads, key_heads):
    key, value = normal(2, key_heads, 45, 16, seed=1), normal(2, key_heads, 45, 24, seed=2)
    for is_causal in (False, True):
        check(normal(2, heads, 45, 16), key, value, is_causal=is_causal)


def masks(B, H, Tq, Tk, dtype):
    """Masks of all broadcast shapes, bool and float, with rows that see nothing."""
    shapes = [
        (Tq, Tk),
        (1, Tk),
        (Tk,),
        (Tq, 1),
        (B, 1, 1, Tk),
        (B, 1, Tq, Tk),
        (1, H, Tq, Tk),
        (B, H, Tq, Tk),
        (H, 1, 1),
    ]
    for shape in shapes:
        allowed = normal(*shape) > -0.5
        if allowed.shape[-2:] == (Tq, Tk) and Tq > 3:
            allowed[..., 3, :] = False
        yield allowed
        yield np.where(allowed, normal(*shape, seed=1), -np.inf).astype(dtype)


@pytest.mark.parametrize("is_causal", [False, True])
def test_masks(is_causal):
    arrays = normal(2, 3, 35, 8), normal(2, 3, 150, 8), normal(2, 3, 150, 8)
    for mask in masks(2, 3, 35, 150, np.float32):
        check(*arrays, mask=mask, is_causal=is_causal)
        check(*arrays, mask=mask[..., ::-1], is_causal=is_causal, backward=False)
    check(*arrays, mask=normal(150, 35).T, is_causal=is_causal)
    check(*arrays, mask=normal(35, 150, dtype=np.float64), is_causal=is_causal)
    check(*arrays, mask=np.zeros((35, 150), bool), is_causal=is_causal)


def test_one_query_of_grouped_heads():
    key, value = normal(2, 2, 70, 16, seed=1), normal(2, 2, 70, 24, seed=2)
    query = normal(2, 8, 1, 16)
    for is_causal in (False, True):
        check(query, key, value, is_causal=is_causal)
        for mask in masks(2, 8, 1, 70, np.float32):
            check(query, key, value, mask=mask, is_causal=is_causal, backward=False)
    check(query, key, value, window=3)
    check(query, key, value, slopes=normal(8))


@pytest.mark.parametrize("Tq", [1, 2, 3, 6, 7])
def test_few_queries_and_a_cache(Tq):
    cache = normal(2, 300, 3, 16, seed=1), normal(2, 300, 3, 80, seed=2)
    key, value = (x.transpose(0, 2, 1, 3)[:, :, :260] for x in cache)
    query = normal(2, 3, Tq, 16)
    check(query, key, value)
    check(query, key, value, window=2, is_causal=True)
    check(query, key, value, slopes=normal(3))
    for mask in masks(2, 3, Tq, 260, np.float32):
        check(query, key, value, mask=mask, backward=False)
    value[:, :, 5], mask = np.nan, np.arange(260) != 5
    out, _ = kernels.attention(query, key, value, mask, False, 0.3)
    assert np.isfinite(out).all()


def test_many_parts_of_a_long_head():
    check(*(normal(1, 1, 2500, 4, seed=s) for s in range(3)), is_causal=True)
    check(*(normal(1, 1, 1300, 4, seed=s) for s in range(3)), window=700)


def test_more_keys_than_a_backward_pass_keeps_at_a_time():
    check(normal(2, 4, 40, 4), normal(2, 4, 2100, 4), normal(2, 4, 2100, 4), mask=normal(2100) > 0)
    check(normal(1, 8, 1100, 4), normal(1, 8, 1100, 4), normal(1, 8, 1100, 4), is_causal=True)


@pytest.mark.parametrize("window", [1, 2, 15, 32, 33, 100, 1000])
def test_window(window):
    for is_causal in (False, True):
        check(*(normal(1, 2, 130, 8, seed=s) for s in range(3)), is_causal=is_causal, window=window)
    check(normal(1, 2, 300, 8), normal(1, 2, 40, 8), normal(1, 2, 40, 8), window=window)


def test_slopes():
    arrays = [normal(2, 4, 140, 8, seed=s) for s in range(3)]
    slopes = 2.0 ** -np.arange(1, 5)
    for is_causal, window in itertools.product((False, True), (None, 20)):
        check(*arrays, is_causal=is_causal, window=window, slopes=slopes)
    check(*arrays, mask=normal(140, 140), is_causal=True, slopes=slopes)


def test_a_row_that_sees_nothing_gives_zeros():
    arrays = [normal(1, 1, 2, 2, seed=s) for s in range(3)]
    allowed = np.array([[False, False], [True, False]])
    for mask in (allowed, np.where(allowed, 0, -np.inf).astype(np.float32)):
        out, logsumexp = kernels.attention(*arrays, mask, False, 1.0)
        assert (out[0, 0, 0] == 0).all() and logsumexp[0, 0, 0] == -np.inf
        gradients = kernels.attention_backward(np.ones_like(out), *arrays, mask, out, logsumexp, False, 1.0)
        assert all(np.isfinite(x).all() for x in gradients[:3])
        np.testing.assert_array_equal(gradients[2][0, 0], [[1, 1], [0, 0]])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("how", ["causal", "bool", "float", "window"])
def test_what_a_mask_hides_may_be_anything(bad, how):
    """Keys 50 ... 69 are hidden from queries 0 ... 49 (with a window: keys 0 ... 19 from queries 20 ... 69)."""
    T, split = 70, 20 if how == "window" else 50
    hidden = slice(0, split) if how == "window" else slice(split, T)
    seeing = slice(split, T) if how == "window" else slice(0, split)
    allowed = np.ones((T, T), bool)
    allowed[seeing, hidden] = False
    mask = {"bool": allowed, "float": np.where(allowed, 0, -np.inf).astype(np.float32)}.get(how)
    options = {"is_causal": how == "causal", "window": 1 if how == "window" else None}
    arrays = [normal(1, 2, T, 8, seed=s) for s in range(3)]
    spoilt = [x.copy() for x in arrays]
    spoilt[1][:, :, hidden] = bad
    spoilt[2][:, :, hidden] = bad

    def run(query, key, value):
        # Only the queries that do not see the spoilt keys matter.
        g = normal(1, 2, T, 8, seed=5)
        g[:, :, hidden] = 0
        query, out_mask = query[:, :, seeing], None if mask is None else mask[seeing]
        if how == "window":
            return None
        out, logsumexp = kernels.attention(query, key, value, out_mask, options["is_causal"], 0.3)
        return out, *kernels.attention_backward(
            g[:, :, seeing], query, key, value, out_mask, out, logsumexp, options["is_causal"], 0.3
        )[:3]

    if how == "window":
        out, _ = kernels.attention(*spoilt, None, False, 0.3, window=1)
        clean, _ = kernels.attention(*arrays, None, False, 0.3, window=1)
        np.testing.assert_array_equal(out[:, :, seeing][:, :, split:], clean[:, :, seeing][:, :, split:])
        assert np.isfinite(out[:, :, seeing]).all()
        return
    for got, wanted in zip(run(*spoilt), run(*arrays), strict=True):
        assert np.isfinite(got).all()
        np.testing.assert_allclose(got, wanted, rtol=2e-5, atol=2e-6)


def test_nan_that_is_seen_is_passed_on():
    query, key, value = (normal(1, 2, 40, 8, seed=s) for s in range(3))
    value[0, 1, 10, 3] = np.nan
    query[0, 0, 5] = np.nan
    out, _ = kernels.attention(query, key, value, None, True, 0.3)
    expected = np.zeros(out.shape, bool)
    expected[0, 1, 10:, 3] = True
    expected[0, 0, 5] = True
    np.testing.assert_array_equal(np.isnan(out), expected)


def test_gradients_by_finite_differences():
    query, key, value = (normal(1, 2, 5, 3, seed=s, dtype=np.float64) for s in range(3))
    mask = normal(5, 5, seed=3, dtype=np.float64)
    mask[1, 0] = -np.inf
    g = normal(1, 2, 5, 3, seed=4, dtype=np.float64)
    inputs = query, key, value, mask

    def objective(*inputs):
        return (kernels.attention(*inputs, True, 0.7)[0] * g).sum()

    out, logsumexp = kernels.attention(*inputs, True, 0.7)
    gradients = kernels.attention_backward(g, *inputs, out, logsumexp, True, 0.7, need_mask=True)
    step = 1e-6
    for i, x in enumerate(inputs):
        for at in zip(*np.nonzero(np.isfinite(x)), strict=True):
            values = []
            for sign in (1, -1):
                moved = x.copy()
                moved[at] += sign * step
                values.append(objective(*inputs[:i], moved, *inputs[i + 1 :]))
            assert abs((values[0] - values[1]) / (2 * step) - gradients[i][at]) < 1e-8


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_half_types(dtype):
    query, key, value = (normal(1, 2, 20, 8, seed=s).astype(dtype) for s in range(3))
    out, logsumexp = kernels.attention(query, key, value, None, True, 0.3)
    exact, _ = kernels.attention(*(x.astype(np.float32) for x in (query, key, value)), None, True, 0.3)
    assert out.dtype == dtype
    np.testing.assert_array_equal(out, exact.astype(dtype))
    gradients = kernels.attention_backward(out, query, key, value, None, out, logsumexp, True, 0.3)
    assert all(x.dtype == dtype and np.isfinite(x.astype(float)).all() for x in gradients[:3])


@pytest.mark.parametrize(
    "B, H, Hk, Tq, Tk, D",
    [(0, 2, 2, 3, 3, 4), (2, 2, 2, 0, 3, 4), (2, 2, 2, 3, 0, 4), (2, 0, 0, 3, 3, 4), (1, 1, 1, 3, 3, 0)],
)
def test_empty(B, H, Hk, Tq, Tk, D):
    query, key, value = normal(B, H, Tq, D), normal(B, Hk, Tk, D), normal(B, Hk, Tk, 5)
    for is_causal in (False, True):
        out, logsumexp = kernels.attention(query, key, value, None, is_causal, 1.0)
        assert out.shape == (B, H, Tq, 5)
        if not Tk:
            assert (out == 0).all() and (logsumexp == -np.inf).all()
        gradients = kernels.attention_backward(out, query, key, value, None, out, logsumexp, is_causal, 1.0)
        assert [x.shape for x in gradients[:3]] == [query.shape, key.shape, value.shape]
        assert all((x == 0).all() for x in gradients[:2])
        assert Tk == 0 or D == 0 or all((x == 0).all() for x in gradients[:3])


def test_shapes_that_do_not_fit_are_refused():
    good = normal(1, 4, 5, 8)
    for key, value in (
        (normal(1, 3, 5, 8), normal(1, 3, 5, 8)),
        (normal(1, 4, 5, 7), good),
        (good, normal(1, 4, 6, 8)),
    ):
        with pytest.raises(ValueError, match="attention takes"):
            kernels.attention(good, key, value, None, False, 1.0)


def test_memory_grows_with_the_length_not_its_square():
    T, D = 8192, 8
    query, key, value = (normal(1, 1, T, D, seed=s) for s in range(3))
    kernels.attention(query[:, :, :2], key, value, None, True, 0.3)
    tracemalloc.start()
    try:
        out, logsumexp = kernels.attention(query, key, value, None, True, 0.3)
        kernels.attention_backward(out, query, key, value, None, out, logsumexp, True, 0.3)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 40 * T * D * 4


def test_threads_do_not_change_a_bit():
    from tinygrad_tf.kernels._compile import get_num_threads, set_num_threads

    arrays = [normal(1, 2, 600, 16, seed=s) for s in range(3)]
    before, results = get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            set_num_threads(threads)
            out, logsumexp = kernels.attention(*arrays, None, True, 0.3)
            results.append([out, *kernels.attention_backward(out, *arrays, None, out, logsumexp, True, 0.3)[:3]])
    finally:
        set_num_threads(before)
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("size", [1e3, 1e6, 1e12])
@pytest.mark.parametrize("T", [1, 2, 6, 7, 40])
def test_weights_of_large_scores_are_none_above_one(T, size):
    """With one-hot weights the value's gradient is a sum of rows of g, exactly, however large the scores are."""
    query, key, value, g = (normal(2, 2, T, 16, seed=i) for i in range(4))
    query *= np.float32(size)
    mask = np.zeros((T, T), np.float32)
    out, logsumexp = kernels.attention(query, key, value, mask, False, 1.0)
    *_, dvalue, dmask = kernels.attention_backward(
        g, query, key, value, mask, out, logsumexp, False, 1.0, need_mask=True
    )
    exact = reference_gradients(*map(wide, (g, query, key, value, mask)), False, 1.0)
    np.testing.assert_allclose(dvalue, exact[2], atol=2e-6 * T)
    np.testing.assert_allclose(dmask, exact[3].sum((0, 1)), atol=1e-4)
