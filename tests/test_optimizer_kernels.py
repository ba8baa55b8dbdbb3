"""AdamW, gradient norm and scaling over many arrays at once, against plain loops and PyTorch."""

import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tinygrad_tf.kernels import _compile, _many, adamw

pytestmark = pytest.mark.filterwarnings("error")

SHAPES = [(65, 128), (128,), (1,), (0,), (3, 5, 7), (), (100_000,), (16_384,), (16_385,), (9, 4000)]
SETTINGS = {"lr": 1e-2, "beta1": 0.9, "beta2": 0.99, "eps": 1e-8}


def arrays(dtype, seed, shapes=SHAPES):
    rng = np.random.default_rng(seed)
    return [np.asarray(rng.normal(size=shape)).astype(dtype) for shape in shapes]


def zeros(params):
    return [np.zeros_like(p) for p in params]


def plain_loop(params, grads_of_steps, lr, beta1, beta2, eps, weight_decay, decoupled, maximize=False):
    """The textbook's formulas, number by number, in Python's own float64."""
    results = []
    for k, p in enumerate(params):
        numbers = []
        for i, number in enumerate(p.reshape(-1).tolist()):
            m = v = 0.0
            for t, grads in enumerate(grads_of_steps, 1):
                g = float(grads[k].reshape(-1)[i]) * (-1 if maximize else 1)
                if decoupled:
                    number *= 1 - lr * weight_decay
                else:
                    g += weight_decay * number
                m = beta1 * m + (1 - beta1) * g
                v = beta2 * v + (1 - beta2) * g * g
                number -= lr * (m / (1 - beta1**t)) / (math.sqrt(v / (1 - beta2**t)) + eps)
            numbers.append(number)
        results.append(np.array(numbers).reshape(p.shape))
    return results


@pytest.mark.parametrize("decoupled", [True, False])
@pytest.mark.parametrize("maximize", [True, False])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_adamw_against_a_plain_loop(decoupled, maximize, dtype):
    shapes = [(3, 4), (1,), (), (17,)]
    params, options = arrays(dtype, 0, shapes), SETTINGS | {"weight_decay": 0.1, "decoupled": decoupled}
    options |= {"eps": 1e-3, "maximize": maximize}
    steps = [arrays(dtype, seed, shapes) for seed in range(1, 6)]
    wanted = plain_loop(params, steps, **options)
    m, v, plan = zeros(params), zeros(params), None
    for t, grads in enumerate(steps, 1):
        kept = [g.copy() for g in grads]
        plan = adamw.adamw_step(params, grads, m, v, step=t, plan=plan, **options)
        assert all(np.array_equal(a, b) for a, b in zip(grads, kept, strict=True))
    relative, absolute = (1e-12, 1e-13) if dtype is np.float64 else (1e-5, 1e-6)
    for p, q in zip(params, wanted, strict=True):
        np.testing.assert_allclose(p, q, rtol=relative, atol=absolute)


@pytest.mark.parametrize("decoupled", [True, False])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_adamw_against_torch(decoupled, dtype):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: parity with its AdamW is unchecked")
    params = arrays(dtype, 0)
    leaves = [torch.from_numpy(p.copy()).requires_grad_() for p in params]
    kind = torch.optim.AdamW if decoupled else torch.optim.Adam
    optimizer = kind(leaves, lr=1e-2, betas=(0.9, 0.99), eps=1e-8, weight_decay=0.1)
    m, v, plan = zeros(params), zeros(params), None
    for t in range(1, 5):
        grads = arrays(dtype, t)
        for leaf, g in zip(leaves, grads, strict=True):
            leaf.grad = torch.from_numpy(g.copy())
        optimizer.step()
        plan = adamw.adamw_step(
            params, grads, m, v, weight_decay=0.1, step=t, decoupled=decoupled, plan=plan, **SETTINGS
        )
    tolerance = 1e-13 if dtype is np.float64 else 4e-6
    for p, leaf in zip(params, leaves, strict=True):
        np.testing.assert_allclose(p, leaf.detach().numpy(), rtol=0, atol=tolerance)


@pytest.mark.parametrize("decoupled", [True, False])
@pytest.mark.parametrize("maximize", [False, True])
def test_unusual_parameters_take_the_reference_path(decoupled, maximize):
    """Strided, half precision and mixed parameters follow the same formulas as their plain float64 copies."""
    rng = np.random.default_rng(0)
    base = rng.normal(size=(6, 8))
    views = [
        base.astype(np.float32),
        np.asfortranarray(base.astype(np.float32)),
        np.repeat(base, 2, 1)[:, ::2],
        base.astype(np.float16),
        base.astype(ml_dtypes.bfloat16),
        base.astype(np.longdouble),
    ]
    truth, m, v = base.copy(), np.zeros((6, 8)), np.zeros((6, 8))
    first, second = zeros(views), zeros(views)
    options = SETTINGS | {"weight_decay": 0.1, "decoupled": decoupled, "maximize": maximize}
    for t in range(1, 4):
        g = rng.normal(size=(6, 8))
        adamw.adamw_step([truth], [g], [m], [v], step=t, **options)
        grads = [g.astype(p.dtype) for p in views]
        grads[0] = g.T.astype(np.float32).T  # a gradient with other strides, and one of another dtype
        grads[1] = g
        adamw.adamw_step(views, grads, first, second, step=t, **options)
    for p in views:
        eps = float(ml_dtypes.finfo(p.dtype).eps) if p.dtype != np.longdouble else 1e-16
        np.testing.assert_allclose(p.astype(np.float64), truth, atol=30 * eps)


def test_a_plan_is_never_used_for_other_arrays():
    params, grads = arrays(np.float32, 0, [(4,), (5,)]), arrays(np.float32, 1, [(4,), (5,)])
    m, v = zeros(params), zeros(params)
    options = SETTINGS | {"weight_decay": 0.0, "step": 1}
    plan = adamw.adamw_step(params, grads, m, v, **options)
    assert adamw.adamw_step(params, grads, m, v, plan=plan, **options) is plan
    for which in range(3):
        lists = [list(params), list(m), list(v)]
        lists[which][1] = lists[which][1].copy()
        untouched = [params[1].copy(), m[1].copy(), v[1].copy()]
        new = adamw.adamw_step(lists[0], grads, lists[1], lists[2], plan=plan, **options)
        assert new is not plan
        assert np.array_equal([params[1], m[1], v[1]][which], untouched[which])
    with pytest.raises(ValueError, match="parameter 1 has shape"):
        adamw.adamw_step(params, [grads[0], grads[1][:3]], m, v, plan=plan, **options)
    with pytest.raises(ValueError, match="2 parameters, but 1 gradients"):
        adamw.adamw_step(params, grads[:1], m, v, plan=plan, **options)
    with pytest.raises(ValueError, match="parameter 0 has shape"):
        adamw.adamw_step(params, grads, m[::-1], v, plan=plan, **options)


def test_read_only_arrays_are_refused():
    p, g, m, v = (np.ones(3, np.float32) for _ in range(4))
    g.flags.writeable = False  # reading a gradient is fine
    adamw.adamw_step([p], [g], [m], [v], weight_decay=0.0, step=1, **SETTINGS)
    assert adamw.global_norm([g]) == pytest.approx(math.sqrt(3))
    with pytest.raises(ValueError, match="read-only"):
        adamw.scale_([g], 2.0)
    with pytest.raises(ValueError, match="read-only"):
        adamw.adamw_step([g], [p], [m], [v], weight_decay=0.0, step=1, **SETTINGS)
    assert (g == 1).all()


def test_parameters_that_share_memory_are_changed_one_after_another():
    """Side by side, what comes out would depend on which thread is faster."""
    size, rng = 200_001, np.random.default_rng(0)
    start, *g = (rng.normal(size=n).astype(np.float32) for n in (size, *[size - 1] * 4))

    def views(base):
        return [base[:-1], base[1:], np.zeros(size - 1, np.float32), base[:-1]]

    def moments():
        return [np.zeros(size - 1, np.float32) for _ in range(4)]

    together, apart = start.copy(), start.copy()
    options = dict(weight_decay=0.1, step=1, **SETTINGS)
    adamw.adamw_step(views(together), g, moments(), moments(), **options)
    for p, slope, m, v in zip(views(apart), g, moments(), moments(), strict=True):
        adamw.adamw_step([p], [slope], [m], [v], **options)
    np.testing.assert_allclose(together, apart, rtol=1e-5, atol=1e-6)
    assert _many.overlapping(views(start)) == {0, 1, 3}
    rows = np.zeros((6, 4))
    assert _many.overlapping([rows[:3], rows[3:], rows[3], rows[4:], rows[:0]]) == {1, 2, 3}
    assert _many.overlapping([rows[::-1][:3], rows[:3]]) == set()


@settings(max_examples=40, deadline=None)
@given(sizes=st.lists(st.integers(0, 40_000), max_size=8), dtype=st.sampled_from([np.float32, np.float64]))
def test_every_element_is_updated_once(sizes, dtype):
    params = [np.zeros(size, dtype) for size in sizes]
    grads = [np.full(size, -1.0 - i, dtype) for i, size in enumerate(sizes)]
    m, v = zeros(params), zeros(params)
    adamw.adamw_step(params, grads, m, v, lr=0.5, beta1=0.5, beta2=0.75, eps=0.0, weight_decay=0.0, step=1)
    for i, (p, first, second) in enumerate(zip(params, m, v, strict=True)):
        np.testing.assert_allclose(p, 0.5, rtol=1e-6)
        np.testing.assert_allclose(first, -(1.0 + i) / 2, rtol=1e-6)
        np.testing.assert_allclose(second, (1.0 + i) ** 2 / 4, rtol=1e-6)
    norm = math.sqrt(sum(size * (1.0 + i) ** 2 for i, size in enumerate(sizes)))
    assert adamw.global_norm(grads) == pytest.approx(norm, rel=1e-12)
    adamw.scale_(grads, 0.25)
    for i, g in enumerate(grads):
        assert (g == -(1.0 + i) / 4).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16, np.longdouble])
def test_global_norm_and_scale_of_any_dtype_and_strides(dtype):
    grads = arrays(dtype, 0, [(30, 40), (7,), (0,), ()])
    grads.append(grads[0].T[::2])
    exact = math.sqrt(math.fsum(float(x) ** 2 for g in grads for x in g.reshape(-1)))
    assert adamw.global_norm(grads) == pytest.approx(exact, rel=1e-12)
    single = [g.copy() for g in grads[:4]] + [np.repeat(grads[1], 3)[::3]]
    wanted = [g.astype(np.float64) / 2 for g in single]
    adamw.scale_(single, 0.5)
    for g, want in zip(single, wanted, strict=True):
        assert g.dtype == dtype
        np.testing.assert_array_equal(g.astype(np.float64), want)


def test_global_norm_extremes():
    assert adamw.global_norm([]) == 0.0
    assert adamw.global_norm([np.zeros(0, np.float32)]) == 0.0
    assert adamw.global_norm([np.full(4, 1e20, np.float32)]) == pytest.approx(2e20, rel=1e-6)
    assert adamw.global_norm([np.full(4, 1e200), np.zeros(3, np.float32)]) == pytest.approx(2e200)
    assert adamw.global_norm([np.array([1.0, np.inf])]) == math.inf
    assert adamw.global_norm([np.array([1.0, -np.inf, np.inf], np.float32), np.full(3, 1e200)]) == math.inf
    assert math.isnan(adamw.global_norm([np.array([1.0, np.nan], np.float32), np.ones(3)]))
    many = np.full(1_000_000, 0.1, np.float32)
    assert adamw.global_norm([many]) == pytest.approx(math.sqrt(1e6) * float(np.float32(0.1)), rel=1e-12)


def test_same_bits_for_any_number_of_threads():
    before, found = _compile.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            _compile.set_num_threads(threads)
            params, grads = arrays(np.float32, 0), arrays(np.float32, 1)
            adamw.adamw_step(params, grads, zeros(params), zeros(params), weight_decay=0.1, step=1, **SETTINGS)
            found.append((adamw.global_norm(grads), [p.tobytes() for p in params]))
    finally:
        _compile.set_num_threads(before)
    assert found[0] == found[1] == found[2]
