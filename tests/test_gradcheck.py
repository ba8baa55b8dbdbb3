"""gradcheck and gradgradcheck: PyTorch's answers and refusals, inputs left alone, and texts that help."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import tinygrad_tf as tg
from tinygrad_tf import nn
from tinygrad_tf.autograd import (
    Function,
    GradcheckError,
    GradcheckWarning,
    check_backward,
    check_module,
    gradcheck,
    gradgradcheck,
    gradient_report,
    numeric,
)
from tinygrad_tf.tensor import Tensor


def leaf(array: Any) -> Tensor:
    return tg.as_tensor(np.asarray(array, np.float64)).requires_grad_()


@pytest.fixture
def x() -> Tensor:
    return leaf([[0.3, -1.2, 0.8], [1.5, 0.1, -0.4]])


def half(x: Any) -> Any:
    return (x * x.detach()).sum()


def test_true_and_false(x: Tensor) -> None:
    assert gradcheck(lambda x: (x * x).sum(), (x,)) is True
    assert gradcheck(lambda x: x.sin(), x) is True
    assert gradcheck(half, [x], raise_exception=False) is False


def test_the_error_shows_entry_numbers_and_mistake(x: Tensor) -> None:
    with pytest.raises(GradcheckError) as caught:
        gradcheck(half, (x,))
    text = str(caught.value)
    for word in ("output 0", "input 0", "numerical", "analytical", "uncertainty", "input 0[1, 0]", "0.5 times"):
        assert word in text
    report = caught.value.report
    assert report is not None
    assert report.verdicts == {"input 0": "wrong"}
    np.testing.assert_allclose(report.pairs[0].numeric, 2 * x.array.reshape(1, 6), rtol=1e-9)
    np.testing.assert_allclose(report.pairs[0].analytic, x.array.reshape(1, 6))


def test_tolerances_decide_the_answer_but_not_the_verdict(x: Tensor) -> None:
    def slightly(x: Any) -> Any:
        y = x.tanh()
        return y * 1.002 - (y * 0.002).detach()

    assert gradcheck(slightly, (x,), raise_exception=False) is False
    with pytest.warns(GradcheckWarning, match="more than the uncertainty"):
        assert gradcheck(slightly, (x,), rtol=0.01) is True
    assert gradient_report(slightly, (x,)).verdict == "wrong"
    with pytest.warns(GradcheckWarning, match="passed within"):
        assert gradcheck(lambda x: half(x) * 1e-8, (x,)) is True


def test_the_inputs_are_left_bit_for_bit(x: Tensor) -> None:
    before = x.array.copy()
    memory = x.array
    gradcheck(lambda x: (x**3).sum(), (x,))
    gradcheck(half, (x,), raise_exception=False)
    assert x.array is memory
    assert np.array_equal(x.array.view(np.int64), before.view(np.int64))
    assert x.grad is None

    def fails(x: Any) -> Any:
        if x.array[0, 0] != before[0, 0]:
            raise KeyError("only at the point itself")
        return x * 2

    with pytest.raises(KeyError):
        gradcheck(fails, (x,))
    assert np.array_equal(x.array, before)


def test_layouts_in_memory() -> None:
    base = np.arange(24.0).reshape(4, 6) / 10 + 0.1
    for array in (base.T, base[:, ::2], base[::-1], np.asfortranarray(base), base[1:, 1:3].T):
        t = tg.as_tensor(array).requires_grad_()
        assert t.array.strides == array.strides
        assert gradcheck(lambda t: (t * t * t.sin()).sum(0), (t,))
        assert not gradcheck(lambda t: (t * t.detach()).sum(0), (t,), raise_exception=False)


def test_elements_that_share_memory_are_refused() -> None:
    wide = tg.as_tensor(np.broadcast_to(np.array([1.0, 2.0]), (3, 2))).requires_grad_()
    with pytest.raises(RuntimeError, match="share memory"):
        gradcheck(lambda t: t * t, (wide,))
    window = np.lib.stride_tricks.sliding_window_view(np.arange(5.0), 3)
    with pytest.raises(RuntimeError, match="share memory"):
        gradcheck(lambda t: t * t, (tg.as_tensor(window).requires_grad_(),))


def test_several_inputs_outputs_and_the_same_input_twice(x: Tensor) -> None:
    w = leaf(np.ones((3, 2)))
    assert gradcheck(lambda x, w: (x @ w, (w * w).sum(), x.sum()), (x, w))
    assert gradcheck(lambda a, b: a * b, (x, x))
    assert not gradcheck(lambda x, w: (x @ w, (w * w.detach()).sum()), (x, w), raise_exception=False)
    report = gradient_report(lambda x, w: (x @ w, (w * w.detach()).sum()), (x, w))
    assert report.verdicts == {"input 0": "right", "input 1": "wrong"}


def test_other_arguments_are_handed_through(x: Tensor) -> None:
    assert gradcheck(lambda x, n, ids, c: x[ids] * n + c, (x, 3, tg.tensor([0, 1, 1]), tg.as_tensor(np.ones(3))))


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda x: gradcheck(lambda t: t * 2, (tg.as_tensor(np.ones(2)),)), ValueError, "nothing to check"),
        (lambda x: gradcheck(lambda t: None, (x,)), ValueError, "return"),
        (lambda x: gradcheck(lambda t: 3.0, (x,)), ValueError, "float"),
        (lambda x: gradcheck(lambda t: t.data.mul_(2) * t, (x,)), ValueError, "in place"),
        (lambda x: gradcheck(lambda t: t * 2, (x,), check_batched_forward_grad=True), ValueError, "check_forward_ad"),
        (lambda x: gradcheck(lambda t: t * 2, (x,), check_backward_ad=False), ValueError, "nothing"),
        (lambda x: gradgradcheck(lambda t: t.detach(), (x,)), ValueError, "nothing to check"),
        (lambda x: gradgradcheck(lambda t: t * t, (x,), [x, x]), ValueError, "as many grad_outputs"),
        (lambda x: check_backward(lambda t: t, lambda g, t: g, 3), ValueError, "float array"),
        (lambda x: check_backward(lambda t: None, lambda g, t: g, np.ones(2)), ValueError, "return"),
        (lambda x: check_backward(lambda t: t > 0, lambda g, t: g, np.ones(2)), ValueError, "bool"),
        (lambda x: check_backward(lambda t: t, lambda g, t: (g, g), np.ones(2)), ValueError, "1 gradients"),
    ],
)
def test_what_cannot_be_checked_is_one_clear_line(x: Tensor, call: Any, error: type, words: str) -> None:
    before = x.array.copy()
    with pytest.raises(error, match=words) as caught:
        call(x)
    assert "\n" not in str(caught.value)
    assert np.array_equal(x.array, before)


def test_float32_warns_and_names_float64() -> None:
    t = tg.as_tensor(np.array([0.7, -1.2], np.float32)).requires_grad_()
    with pytest.warns(UserWarning, match="float64"):
        assert gradcheck(lambda t: (t * t).sum(), (t,)) is True
    with pytest.warns(UserWarning, match="float64"):
        assert gradcheck(half, (t,), raise_exception=False) is False
    assert t.array.tolist() == np.array([0.7, -1.2], np.float32).tolist()


def test_nothing_differentiable_comes_out(x: Tensor) -> None:
    assert gradcheck(lambda x: (x > 0).double(), (x,)) is True
    with pytest.raises(GradcheckError, match="detached"):
        gradcheck(lambda x: x.detach() * 2, (x,))


def test_kink(x: Tensor) -> None:
    with pytest.raises(GradcheckError, match="kink: the slope is 0 on the left and 1 on the right"):
        gradcheck(lambda t: t.relu(), (leaf([0.0, 1.0]),))
    assert gradcheck(lambda t: t.relu(), (leaf([-0.5, 0.5]),))


def test_backward_that_ignores_the_outputs_gradient() -> None:
    class Square(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return (x * x).sum()

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return ctx.saved_tensors[0] * 2

    with pytest.raises(GradcheckError, match="does not multiply by the gradient"):
        gradcheck(Square.apply, (leaf([1.0, 2.0]),))
    assert gradcheck(Square.apply, (leaf([1.0, 2.0]),), check_undefined_grad=False)


def test_nondeterministic_backward() -> None:
    random = np.random.default_rng(0)

    class Noisy(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2 + tg.as_tensor(random.standard_normal(g.shape) * 1e-9)

    with pytest.raises(GradcheckError, match="not deterministic"):
        gradcheck(Noisy.apply, (leaf([1.0, 2.0]),))
    with pytest.warns(GradcheckWarning, match="off by"):
        assert gradcheck(Noisy.apply, (leaf([1.0, 2.0]),), nondet_tol=1e-6, check_undefined_grad=False)


def test_fast_mode_and_large_inputs() -> None:
    x = leaf(np.random.default_rng(0).standard_normal((40, 20)))
    assert gradcheck(lambda x: x.tanh(), (x,), fast_mode=True)
    assert not gradcheck(lambda x: (x * x.detach()).sum(), (x,), fast_mode=True, raise_exception=False)
    report = gradient_report(lambda x: x.tanh().sum(), leaf(np.random.default_rng(0).standard_normal(20000)))
    assert report.directions and not report.pairs
    assert report.evaluations < 500


def test_second_order(x: Tensor) -> None:
    assert gradgradcheck(lambda x: x**3, (x,))
    assert gradgradcheck(lambda x: x * 2, (x,))
    assert gradgradcheck(lambda x: (x.softmax(1), x.sin()), (x,), gen_non_contig_grad_outputs=True)
    g = leaf([[1.0, 2.0, 3.0], [0.1, 0.2, 0.3]])
    assert gradgradcheck(lambda x: x.exp(), (x,), g)

    class Cube(Function):
        """Right at first order; the saved square is a constant to the second."""

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.square = (x * x).detach()
            return x * x * x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * ctx.square * 3

    assert gradcheck(Cube.apply, (x,))
    with pytest.raises(GradcheckError) as caught:
        gradgradcheck(Cube.apply, (x,))
    assert caught.value.report is not None
    assert caught.value.report.verdicts == {"input 0": "wrong", "grad_output 0": "right"}


def test_pairs_with_cache_names_dicts_and_several_outputs() -> None:
    a, b = np.array([1.0, 2.0]), np.array([3.0, -1.0])
    assert check_backward(lambda x: (x**2, x), lambda g, cache: 2 * cache * g, a)
    assert check_backward(lambda x, y: (x * y, (x, y)), lambda g, c: (g * c[1], g * c[0]), (a, b))
    assert check_backward(lambda x, y: (x * y, x + y), lambda g, h, x, y: (g * y + h, g * x + h), (a, b))
    assert check_backward(lambda x, y: x * y, lambda g, x, y: {"x": g * y, "y": g * x}, (a, b))
    assert check_backward(lambda x, n: x**n, lambda g, x, n: n * x ** (n - 1) * g, (a, 3))
    assert check_backward(lambda t, i: t[i], lambda g, t, i: (_scatter(t, i, g), None), (a, np.array([1, 1, 0])))
    report = check_backward(lambda x, y: x * y, lambda g, x, y: (g * y, g), (a, b), raise_exception=False)
    assert report.verdicts == {"x": "right", "y": "wrong"}
    with pytest.raises(ValueError, match="backward changed the input x"):
        check_backward(lambda x: x * 2, lambda g, x: np.multiply(x, g, out=x), a)
    with pytest.raises(ValueError, match="forward changed its input x"):
        check_backward(lambda x: np.multiply(x, 2, out=x), lambda g, x: g, a)
    assert a.tolist() == [1.0, 2.0]


def _scatter(table: np.ndarray, index: np.ndarray, g: np.ndarray) -> np.ndarray:
    d = np.zeros_like(table)
    np.add.at(d, index, g)
    return d


def test_layers_that_keep_in_themselves_what_backward_needs() -> None:
    class Layer:
        factor = 2.0

        def forward(self, x: np.ndarray, w: np.ndarray) -> np.ndarray:
            self.kept = x, w
            return x @ w

        def backward(self, g: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            x, w = self.kept
            return g @ w.T, x.T @ g * self.factor

    layer, inputs = Layer(), (np.ones((2, 3)), np.ones((3, 4)))
    report = check_backward(layer.forward, layer.backward, inputs, raise_exception=False)
    assert report.verdicts == {"x": "right", "w": "wrong"} and "2 times the right one" in report.diagnosis[0]
    layer.factor = 1.0
    assert check_backward(layer.forward, layer.backward, inputs)
    with pytest.raises(ValueError, match=r"got int64; make them np.array"):
        check_backward(layer.forward, layer.backward, np.ones(3, np.int64))


def test_behind_a_loss_broadcast_and_repeated_indices_are_still_named() -> None:
    random = np.random.default_rng(0)
    x, b, w = random.standard_normal((4, 3)), random.standard_normal(3), random.standard_normal((4, 3))
    report = check_backward(
        lambda x, b: ((x + b) * w).sum(), lambda g, x, b: (g * w, g * w[0]), (x, b), raise_exception=False
    )
    assert "broadcast" in report.diagnosis[0]
    table, index = random.standard_normal((5, 3)), np.array([0, 3, 3, 1])

    def overwritten(g: Any, t: Any, i: Any) -> Any:
        d = np.zeros_like(t)
        d[i] = g * w
        return d, None

    report = check_backward(lambda t, i: (t[i] * w).sum(), overwritten, (table, index), raise_exception=False)
    assert "repeated indices" in report.diagnosis[0]


def test_module_is_checked_and_left_as_it_was() -> None:
    tg.manual_seed(0)
    module = nn.Sequential(nn.Linear(3, 4), nn.GELU(), nn.LayerNorm(4))
    before = {n: p.array.copy() for n, p in module.named_parameters()}
    arrays = {n: p.array for n, p in module.named_parameters()}
    report = check_module(module, tg.randn(2, 3))
    assert set(report.verdicts.values()) == {"right"}
    assert {"0.weight", "0.bias", "2.weight", "2.bias"} <= set(report.verdicts)
    for n, p in module.named_parameters():
        assert p.array is arrays[n]
        assert p.array.dtype == np.float32
        assert np.array_equal(p.array, before[n])
        assert p.grad is None
    module(tg.randn(2, 3)).sum().backward()
    assert module[0].weight.grad is not None

    class Wrong(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale, self.shift = nn.Parameter(tg.ones(3)), nn.Parameter(tg.zeros(3))

        def forward(self, x: Any) -> Any:
            return x * self.scale.detach() + self.shift

    report = check_module(Wrong(), tg.randn(2, 3), raise_exception=False)
    assert report.verdicts == {"x": "right", "scale": "wrong", "shift": "right"}
    assert "detached" in report.diagnosis[0]
    with pytest.raises(GradcheckError, match="eval"):
        check_module(nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5)), tg.randn(2, 3))


def test_same_answers_as_torch() -> None:
    torch = pytest.importorskip("torch")
    functions = [
        lambda t: t * t, lambda t: t * t.detach(), lambda t: (t * t).sum(), lambda t: t.relu(), lambda t: t.abs(),
        lambda t: t.softmax(0), lambda t: t.exp() * 1e-8, lambda t: t.exp().detach() * t, lambda t: (t * 3).sin(),
        lambda t: t.clamp(-1, 1), lambda t: t.detach() * 2, lambda t: (t, t.detach()), lambda t: t.sum() * 1e4,
        lambda t: t * 1.0005 - (t * 0.0005).detach(), lambda t: t * 1.01 - (t * 0.01).detach(), lambda t: t.amax(0),
    ]  # fmt: skip
    points = [[0.5, -1.2, 0.3], [0.0, 1.0, 1.0], [1e-3, 2.0, -2.0]]
    for function in functions:
        for point in points:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                ours = gradcheck(function, (leaf(point),), raise_exception=False)
                theirs = torch.autograd.gradcheck(
                    function, (torch.tensor(point, dtype=torch.float64, requires_grad=True),), raise_exception=False
                )
            assert ours is theirs, (functions.index(function), point)


def test_read_only_inputs_keep_their_memory() -> None:
    array = np.array([1.0, 2.0])
    array.flags.writeable = False
    t = tg.as_tensor(array).requires_grad_()
    assert gradcheck(lambda t: t * t, (t,))
    assert t.array is array


def test_tolerances_of_zero_ask_for_no_more_than_can_be_known(x: Tensor) -> None:
    assert gradcheck(lambda x: x.exp(), (x,), atol=0.0, rtol=0.0)


def test_three_large_steps_are_extrapolated() -> None:
    """Sixth order: the best single difference is off by 1e-4, the extrapolated value by less than 1e-10."""

    def line(t: float) -> np.ndarray:
        return np.array([np.exp(0.3 + t)])

    value = np.array([np.exp(0.3)])
    found = numeric.climb(line, [0.1, 0.05, 0.025], value, np.full(1, 1e-15), 1e-6, 2.0**-52)
    assert abs(found.value[0] - value[0]) < 1e-10
    assert abs(found.value[0] - value[0]) <= found.error[0] < 1e-5
