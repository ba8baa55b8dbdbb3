"""autograd.grad, backward, functional, Function, grad mode and anomaly mode, against PyTorch where it is installed."""

from __future__ import annotations

import gc
import itertools
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import tinygrad_tf as tg
from tinygrad_tf import autograd
from tinygrad_tf.autograd import Function, functional, grad, gradcheck, gradgradcheck
from tinygrad_tf.autograd.function import once_differentiable
from tinygrad_tf.nn import functional as F
from tinygrad_tf.tensor import Tensor

POINT = np.array([[0.3, -1.2, 0.8], [1.5, 0.1, -0.4]])
OTHER = np.array([0.7, -0.2, 1.1])


def leaf(array: Any) -> Tensor:
    return tg.as_tensor(np.array(array, np.float64)).requires_grad_()


def plain(array: Any) -> Tensor:
    return tg.as_tensor(np.array(array, np.float64))


# --- grad and backward ------------------------------------------------------------------------------------------------


def test_grad_of_several_outputs_and_inputs() -> None:
    x, y = leaf(OTHER), leaf(2.0)
    gx, gy = grad([(x * x).sum(), y * x], [x, y], [None, plain(np.ones(3))])
    np.testing.assert_allclose(gx.numpy(), 2 * OTHER + 2)
    np.testing.assert_allclose(gy.numpy(), OTHER.sum())
    assert x.grad is None and y.grad is None


def test_unused_inputs() -> None:
    x, y = leaf(OTHER), leaf(OTHER)
    with pytest.raises(RuntimeError, match=r"input 1 .*allow_unused"):
        grad(x.sum(), [x, y])
    assert grad(x.sum(), [x, y], allow_unused=True)[1] is None
    zeros = grad(x.sum(), [x, y], materialize_grads=True)[1]
    assert zeros.numpy().tolist() == [0, 0, 0]
    with pytest.raises(ValueError, match="materialize_grads"):
        grad(x.sum(), x, allow_unused=False, materialize_grads=True)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda x: grad(x * 2, x), RuntimeError, "gradient"),
        (lambda x: grad(x.sum(), plain(OTHER)), RuntimeError, "does not require a gradient"),
        (lambda x: grad(plain(OTHER).sum(), x), RuntimeError, "does not require a gradient"),
        (lambda x: grad(x.sum(), []), RuntimeError, "`inputs` is empty"),
        (lambda x: grad([x.sum(), x.sum()], x, [None]), RuntimeError, "2 tensors and 1"),
        (lambda x: grad(x * 2, x, plain(np.ones(2))), RuntimeError, "shape"),
        (lambda x: grad(3.0, x), TypeError, "outputs"),
        (lambda x: autograd.backward(x.sum(), inputs=[]), RuntimeError, "empty"),
        (lambda x: autograd.backward([x.sum(), 3]), TypeError, r"tensors\[1\]"),
        (
            lambda x: autograd.backward(x * 2, 1.0),
            TypeError,
            "grad_tensors must be .* got float",
        ),
    ],
)
def test_errors_name_the_argument(call: Any, error: type, words: str) -> None:
    with pytest.raises(error, match=words) as caught:
        call(leaf(OTHER))
    assert "\n" not in str(caught.value)


def test_what_pytorch_ignores_is_ignored_with_a_warning() -> None:
    x = leaf(OTHER)
    with pytest.warns(FutureWarning, match="only_inputs=False is ignored"):
        (g,) = grad(x.sum(), x, only_inputs=False)
    assert g.tolist() == [1.0, 1.0, 1.0]


def test_inputs_may_come_one_by_one_as_from_parameters() -> None:
    """As programs of meta-learning write it: grad(loss, model.parameters(), create_graph=True)."""
    model = tg.nn.Linear(2, 1)

    def loss() -> Tensor:
        return (model(tg.ones(3, 2)) ** 2).sum()

    wanted = grad(loss(), list(model.parameters()))
    for inputs in (model.parameters(), dict(model.named_parameters()).values(), (p for p in model.parameters())):
        found = grad(loss(), inputs, create_graph=True)
        assert len(found) == 2 and all(a.equal(b) for a, b in zip(found, wanted, strict=True))
    autograd.backward((loss() for _ in range(2)), inputs=model.parameters())
    assert all(p.grad.equal(2 * g) for p, g in zip(model.parameters(), wanted, strict=True))
    for wrong in ("weight", {"weight": model.weight}, 3, model):
        with pytest.raises(TypeError, match="inputs must be a Tensor or several, as in a list, got"):
            grad(loss(), wrong)


def test_an_input_named_twice_gets_gradients_of_its_own() -> None:
    x = leaf(OTHER)
    a, b = grad((x * x).sum(), [x, x])
    a += 1
    np.testing.assert_allclose(b.numpy(), 2 * OTHER)


def test_batched_gradients() -> None:
    x = leaf(OTHER)
    (rows,) = grad(x * x, x, plain(np.eye(3)), is_grads_batched=True)
    np.testing.assert_allclose(rows.numpy(), np.diag(2 * OTHER))


def test_backward_with_inputs_and_weights() -> None:
    x, y = leaf(OTHER), leaf(OTHER)
    autograd.backward([x * y, y.sum()], [plain([1.0, 2.0, 3.0]), None], inputs=[x])
    np.testing.assert_allclose(x.grad.numpy(), OTHER * [1, 2, 3])
    assert y.grad is None


# --- functional -------------------------------------------------------------------------------------------------------

FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "one": (lambda x: x * x * x, (POINT,)),
    "two inputs": (lambda x, y: (x * y).exp(), (POINT, OTHER)),
    "two outputs": (lambda x, y: (x.sum(1), y * 3), (POINT, OTHER)),
    "independent": (lambda x, y: x.sin(), (OTHER, POINT)),
    "constant": (lambda x: x.detach() * 2, (OTHER,)),
    "linear": (lambda x, y: x + 2 * y, (OTHER, OTHER)),
}
SCALARS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "cubes": (lambda x: (x * x * x).sum(), (POINT,)),
    "mixed": (lambda x, y: (x * y.exp()).sum(), (POINT, OTHER)),
    "partly linear": (lambda x, y: (x * x).sum() + y.sum(), (OTHER, OTHER)),
    "linear": (lambda x: (x * 3).sum(), (OTHER,)),
    "deep": (lambda x: (x.tanh() * x.sum()).exp().sum(), (OTHER,)),
}


def both(function: Any, arrays: tuple[Any, ...]) -> tuple[Any, Any, Any, Any]:
    torch = pytest.importorskip("torch")
    ours = tuple(plain(a) for a in arrays)
    theirs = tuple(torch.tensor(a) for a in arrays)
    return torch, function, ours if len(ours) > 1 else ours[0], theirs if len(theirs) > 1 else theirs[0]


def same(ours: Any, theirs: Any) -> None:
    if isinstance(theirs, tuple):
        assert isinstance(ours, tuple) and len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            same(a, b)
    else:
        assert not ours.requires_grad
        assert tuple(ours.shape) == tuple(theirs.shape)
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_jacobian_vjp_jvp_as_in_torch(name: str) -> None:
    torch, f, x, t = both(*FUNCTIONS[name])
    same(functional.jacobian(f, x), torch.autograd.functional.jacobian(f, t))
    same(functional.jacobian(f, x, strategy="forward-mode"), torch.autograd.functional.jacobian(f, t))
    out = f(*t) if isinstance(t, tuple) else f(t)
    pairs = [(torch.cos(o + 1), o) for o in (out if isinstance(out, tuple) else (out,))]
    v = tuple(p[0].detach() for p in pairs) if isinstance(out, tuple) else pairs[0][0].detach()
    ours_v = tuple(plain(a.numpy()) for a in v) if isinstance(v, tuple) else plain(v.numpy())
    same(functional.vjp(f, x, ours_v), torch.autograd.functional.vjp(f, t, v))
    w = tuple(torch.sin(a * 3) for a in t) if isinstance(t, tuple) else torch.sin(t * 3)
    ours_w = tuple(plain(a.numpy()) for a in w) if isinstance(w, tuple) else plain(w.numpy())
    same(functional.jvp(f, x, ours_w), torch.autograd.functional.jvp(f, t, w))


@pytest.mark.parametrize("name", SCALARS)
def test_hessian_hvp_vhp_as_in_torch(name: str) -> None:
    torch, f, x, t = both(*SCALARS[name])
    same(functional.hessian(f, x), torch.autograd.functional.hessian(f, t))
    w = tuple(torch.sin(a * 3) for a in t) if isinstance(t, tuple) else torch.sin(t * 3)
    ours_w = tuple(plain(a.numpy()) for a in w) if isinstance(w, tuple) else plain(w.numpy())
    same(functional.hvp(f, x, ours_w), torch.autograd.functional.hvp(f, t, w))
    same(functional.vhp(f, x, ours_w), torch.autograd.functional.vhp(f, t, w))


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize(
    "function",
    [
        F.relu,
        F.relu6,
        F.leaky_relu,
        F.hardtanh,
        lambda x, **inplace: F.threshold(x, 0.1, 0.0, **inplace),
        lambda x, **_: F.softshrink(x),
        lambda x, **_: F.hardshrink(x),
        lambda x, **_: F.prelu(x, tg.tensor(0.3)),
    ],
    ids=["relu", "relu6", "leaky_relu", "hardtanh", "threshold", "softshrink", "hardshrink", "prelu"],
)
def test_the_second_derivative_of_straight_pieces_is_zero_and_not_missing(
    function: Callable[..., Tensor], in_place: bool
) -> None:
    """As for a network of ReLU whose u'' a physics-informed loss asks for."""
    x = tg.linspace(-2.03, 2.1, 7).requires_grad_()
    (first,) = grad(function(x * 2.0, inplace=in_place).sum(), x, create_graph=True)
    (second,) = grad(first.sum(), x)
    assert second.tolist() == [0.0] * 7


def test_create_graph_links_to_the_callers_graph() -> None:
    x = leaf(OTHER)
    j = functional.jacobian(lambda t: t * t * t, x * 1.0, create_graph=True)
    (second,) = grad(j.sum(), x)
    np.testing.assert_allclose(second.numpy(), 6 * OTHER)
    _, product = functional.hvp(lambda t: (t * t * t).sum(), x, plain(np.ones(3)), create_graph=True)
    (third,) = grad(product.sum(), x)
    np.testing.assert_allclose(third.numpy(), np.full(3, 6.0))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x: functional.vjp(lambda t: t * t, x), "left out"),
        (lambda x: functional.jvp(lambda t: t * t, x), "left out"),
        (lambda x: functional.vjp(lambda t: t * t, x, plain(np.ones(2))), "shape"),
        (lambda x: functional.hessian(lambda t: t * t, x), "one element"),
        (lambda x: functional.jacobian(lambda t: t.detach(), x, strict=True), "strict"),
        (lambda x: functional.hessian(lambda t: t.sum(), x, strict=True), "strict"),
        (lambda x: functional.jacobian(lambda t: t, tg.tensor([1, 2])), "floating point"),
    ],
)
def test_functional_errors(call: Any, words: str) -> None:
    with pytest.raises(RuntimeError, match=words):
        call(plain(OTHER))


def test_inputs_of_functional_are_left_alone() -> None:
    x = leaf(OTHER)
    functional.jacobian(lambda t: t * t, x)
    functional.hvp(lambda t: (t * t).sum(), x, plain(np.ones(3)))
    assert x.grad is None and x.is_leaf


# --- Function ---------------------------------------------------------------------------------------------------------


class SumAndProduct(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, y: Any, factor: float) -> Any:
        product = x * y
        ctx.save_for_backward(x, y)
        ctx.factor = factor
        return (x + y) * factor, product

    @staticmethod
    def backward(ctx: Any, g: Any, h: Any) -> Any:
        x, y = ctx.saved_tensors
        return g * ctx.factor + h * y, g * ctx.factor + h * x, None


class Exp(Function):
    """Saves its result, in the newer form."""

    @staticmethod
    def forward(x: Any) -> Any:
        return x.exp()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * ctx.saved_tensors[0]


def test_functions_have_derivatives_of_both_orders() -> None:
    x, y = leaf(POINT), leaf(POINT + 0.5)
    assert gradcheck(lambda x, y: SumAndProduct.apply(x, y, 2.0), (x, y))
    assert gradgradcheck(lambda x, y: SumAndProduct.apply(x, y, 2.0), (x, y))
    assert gradgradcheck(lambda x, y: SumAndProduct.apply(x, y, 2.0)[1] * x, (x, y))
    assert gradcheck(Exp.apply, (x,))
    assert gradgradcheck(Exp.apply, (x,))
    assert gradgradcheck(lambda x: Exp.apply(Exp.apply(x) * x), (x,))


def test_function_graphs_are_freed_at_once() -> None:
    gc.disable()
    try:
        x = leaf(OTHER)
        a, b = SumAndProduct.apply(x, x, 2.0)
        e = Exp.apply(x)
        nodes = [weakref.ref(t.node) for t in (a, b, e)]
        del a, b, e
        assert [n() for n in nodes] == [None] * 3
    finally:
        gc.enable()


def test_what_the_context_knows() -> None:
    seen: dict[str, Any] = {}

    class Watch(Function):
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any, n: int) -> Any:
            seen["needs"] = ctx.needs_input_grad
            seen["recording"] = tg.is_grad_enabled()
            ids = tg.tensor([1, 2])
            kept = y * 2
            ctx.mark_non_differentiable(kept)
            ctx.set_materialize_grads(False)
            return x * n, x + 1, ids, kept

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            seen["gradients"] = [g is not None for g in gradients]
            return gradients[0] * 3, None, None

    x, y = leaf(OTHER), plain(OTHER)
    first, second, ids, kept = Watch.apply(x, y, 3)
    assert seen["needs"] == (True, False, False) and seen["recording"] is False
    assert first.requires_grad and second.requires_grad and not ids.requires_grad and not kept.requires_grad
    first.sum().backward()
    assert seen["gradients"] == [True, False, False, False]
    np.testing.assert_allclose(x.grad.numpy(), np.full(3, 3.0))


def broken(returned: Any, outputs: int = 1) -> Any:
    class Broken(Function):
        @staticmethod
        def forward(ctx: Any, x: Any, n: int) -> Any:
            return x * n

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return returned(g)

    return Broken


@pytest.mark.parametrize(
    ("returned", "error", "words"),
    [
        (lambda g: g, RuntimeError, "incorrect number of gradients .expected 2, got 1"),
        (lambda g: (g, None, g), RuntimeError, "incorrect number of gradients .expected 2, got 3"),
        (lambda g: (g, g), RuntimeError, "input 1, which was not a Tensor"),
        (lambda g: (g[:2], None), RuntimeError, r"invalid gradient for input 0: got shape \(2,\)"),
        (lambda g: (g.numpy(), None), TypeError, "ndarray"),
    ],
)
def test_wrong_gradients_are_named(returned: Any, error: type, words: str) -> None:
    with pytest.raises(error, match=words):
        broken(returned).apply(leaf(OTHER), 2).sum().backward()


def test_extra_nones_and_broadcast_gradients_are_fine() -> None:
    x = leaf(OTHER)
    broken(lambda g: (g * 2, None, None)).apply(x, 2).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.full(3, 2.0))
    y = leaf([[1.0]])

    class Wide(Function):
        @staticmethod
        def forward(ctx: Any, y: Any) -> Any:
            return y.expand(2, 3) * 1.0

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g

    Wide.apply(y).sum().backward()
    assert y.grad.numpy().tolist() == [[6.0]]


def test_results_that_are_no_tensors_have_their_places() -> None:
    class Mixed(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return "name", x * 2, 3, x * 4

        @staticmethod
        def backward(ctx: Any, name: Any, g: Any, number: Any, h: Any) -> Any:
            assert name is None and number is None
            return g * 2 + h * 4

    x = leaf(OTHER)
    name, y, number, z = Mixed.apply(x)
    assert (name, number) == ("name", 3)
    (y * 10 + z).sum().backward()
    assert x.grad.tolist() == [24.0, 24.0, 24.0]


def test_inputs_by_name_and_by_default() -> None:
    class Scaled(Function):
        @staticmethod
        def forward(ctx: Any, x: Any, by: float = 2.0, more: Any = None) -> Any:
            ctx.by = by
            return x * by

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return (g * ctx.by, None)[: len(ctx.needs_input_grad)]

    class Newer(Scaled):
        @staticmethod
        def forward(x: Any, by: float = 2.0) -> Any:
            return x * by

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            _, ctx.by = inputs

    class Named(Scaled):
        @staticmethod
        def forward(ctx: Any, x: Any, *, by: float) -> Any:
            return x * by

    for function in (Scaled, Newer):
        x = leaf(OTHER)
        (function.apply(x) + function.apply(x, by=3.0) + function.apply(by=4.0, x=x)).sum().backward()
        assert x.grad.tolist() == [9.0, 9.0, 9.0]
    for call in (lambda: Named.apply(x, by=2.0), lambda: Scaled.apply(x, more=1)):
        with pytest.raises(TypeError, match="inputs are given by place"):
            call()
    with pytest.raises(TypeError, match=r"Scaled.apply: got an unexpected keyword argument 'size'"):
        Scaled.apply(x, size=2)


def test_backward_is_asked_for_when_it_is_needed() -> None:
    class OneWay(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

    x = leaf(OTHER)
    y = OneWay.apply(x)
    assert y.tolist() == (x * 2).tolist()
    with pytest.raises(NotImplementedError, match="OneWay needs a static method `backward`"):
        y.sum().backward()


def test_pytorchs_other_names_around_functions() -> None:
    class Square(Function):
        @staticmethod
        def forward(ctx: autograd.function.FunctionCtx, x: Any) -> Any:
            ctx.save_for_backward(x)
            ctx.save_for_forward(x)
            return x * x

        @staticmethod
        def vjp(ctx: Any, g: Any) -> Any:
            return g * 2 * ctx.saved_tensors[0]

    x = leaf(OTHER)
    y = Square.apply(x)
    assert isinstance(y.grad_fn, autograd.graph.Node)
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * OTHER)


def test_what_a_function_hands_on_is_not_written_to() -> None:
    """The input would change with it, and its own gradient would not."""

    class Reversed(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.view_as(x)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return -g

    class Same(Reversed):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x

    for function in (Reversed, Same):
        x = leaf(OTHER)
        h = x * 1
        for given in (x, h):
            y = function.apply(given)
            with pytest.raises(RuntimeError, match=r"returned of its input's memory .*\.clone\(\)"):
                y.mul_(2)
            with pytest.raises(RuntimeError, match="returned of its input's memory"):
                y[1:].zero_()
        assert x.tolist() == h.tolist() == OTHER.tolist()
        y.sum().backward()
        assert x.grad.tolist() == [-1.0, -1.0, -1.0]
        h = x * 1
        y = function.apply(h)
        h.mul_(2)
        with pytest.raises(RuntimeError, match="changed in place since"):
            y.sum().backward()
        y = function.apply(x)
        with tg.no_grad():
            x.mul_(1)  # as an optimiser does
        y.sum().backward()


def test_saved_tensors_that_change_or_are_gone() -> None:
    x = leaf(OTHER)
    y = x * 1.0
    e = Exp.apply(y)
    e.mul_(2)
    with pytest.raises(RuntimeError, match=r"saved tensor 0 of ExpBackward.*changed in place"):
        e.sum().backward()
    e = Exp.apply(x)
    e.sum().backward()
    with pytest.raises(RuntimeError, match="retain_graph"):
        e.sum().backward()
    with pytest.raises(TypeError, match="argument 0 is int"):

        class Bad(Function):
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                ctx.save_for_backward(3)
                return x

            backward = forward

        Bad.apply(x)


def test_changing_an_input_in_place() -> None:
    class Double(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            x.mul_(2)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2

    x = leaf(OTHER)
    y = x * 1.0
    z = Double.apply(y)
    assert z is y
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.full(3, 2.0))
    with pytest.raises(RuntimeError, match="leaf"):
        Double.apply(leaf(OTHER))


def test_an_input_changed_in_place_that_has_no_gradient_any_more() -> None:
    class Round(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            x.round_()
            ctx.mark_dirty(x)
            ctx.mark_non_differentiable(x)
            return x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g

    y = leaf(OTHER) * 1.0
    square = y * y
    assert Round.apply(y) is y and not y.requires_grad
    with pytest.raises(RuntimeError, match="changed in place"):
        square.sum().backward()


def test_mark_dirty_takes_tensors() -> None:
    class Bad(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.mark_dirty(3)
            return x

        backward = forward

    with pytest.raises(TypeError, match=r"mark_dirty .* argument 0 is int"):
        Bad.apply(leaf(OTHER))


def test_once_differentiable() -> None:
    class Square(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @once_differentiable
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2 * ctx.saved_tensors[0]

    x = leaf(OTHER)
    assert gradcheck(Square.apply, (x,))
    (g,) = grad(Square.apply(x).sum(), x, create_graph=True)
    np.testing.assert_allclose(g.detach().numpy(), 2 * OTHER)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        g.sum().backward()


def test_a_result_that_is_an_input_and_no_recording() -> None:
    class Same(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 5

    x = leaf(OTHER)
    y = Same.apply(x)
    assert y is not x and x.is_leaf
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.full(3, 5.0))
    with tg.no_grad():
        assert not Same.apply(x).requires_grad
    with pytest.raises(RuntimeError, match=r"Same\.apply"):
        Same()


# --- modes ------------------------------------------------------------------------------------------------------------


def test_grad_mode_in_every_form() -> None:
    @tg.no_grad()
    def inside() -> bool:
        return tg.is_grad_enabled()

    @tg.no_grad
    def without_brackets() -> bool:
        return tg.is_grad_enabled()

    @tg.set_grad_enabled(False)
    def switched() -> bool:
        return tg.is_grad_enabled()

    @tg.inference_mode()
    def inferring() -> bool:
        return tg.is_grad_enabled()

    assert tg.is_grad_enabled()
    assert not inside() and not without_brackets() and not switched() and not inferring()
    assert tg.is_grad_enabled()
    with tg.no_grad():
        with tg.enable_grad():
            assert tg.is_grad_enabled()
        assert not tg.is_grad_enabled()
        with tg.inference_mode(False):
            assert tg.is_grad_enabled()
    switch = tg.no_grad()
    with switch, switch:
        assert not tg.is_grad_enabled()
    assert tg.is_grad_enabled()
    with tg.no_grad():
        with switch:
            pass
        assert not tg.is_grad_enabled()
    tg.set_grad_enabled(False)
    assert not tg.is_grad_enabled()
    tg.set_grad_enabled(True)
    with tg.set_grad_enabled(False):
        assert not tg.is_grad_enabled()
    assert tg.is_grad_enabled()


def marked(t: Any) -> list[Any]:
    """What is said of inference mode, of the tensors made in it, and of switches as objects."""
    x = t.ones(2, requires_grad=True)
    with t.inference_mode():
        y = x * 2
        found = [y.is_inference(), t.is_inference(y), y.view(2, 1).is_inference(), x.is_inference(), y.requires_grad]
        with t.inference_mode(False):
            z = x * 2
            found += [t.is_inference_mode_enabled(), z.requires_grad, z.is_inference()]
        x.add_(1)
        found += [t.is_inference_mode_enabled(), x._version, t.is_inference(t.zeros(1))]
        y.add_(1)
        with pytest.raises(RuntimeError):
            _ = y._version
    found += [t.is_inference_mode_enabled(), (y + 1).is_inference(), y.clone().is_inference(), t.ones(1).is_inference()]
    decorated = t.inference_mode()(lambda: (t.is_inference_mode_enabled(), t.ones(1).is_inference()))
    found += [*decorated(), t.is_inference_mode_enabled(), t.inference_mode().mode, t.inference_mode(False).mode]
    found += [type(t.no_grad().clone()).__name__, t.set_grad_enabled(True).mode, t.inference_mode(False).clone().mode]

    @t.enable_grad()
    def steps() -> Any:
        got = yield t.is_grad_enabled()
        yield got, t.is_grad_enabled()

    with t.no_grad():
        walk = steps()
        found += [next(walk), t.is_grad_enabled(), walk.send(3), t.is_grad_enabled()]
    return found


def test_inference_mode_marks_what_is_made_in_it() -> None:
    found = marked(tg)
    assert found[:8] == [True, True, True, False, False, False, True, False]
    torch = pytest.importorskip("torch")
    assert found == marked(torch)
    with pytest.raises(TypeError, match="set_grad_enabled: mode must be True or False, got 'no'"):
        tg.set_grad_enabled("no")  # type: ignore[arg-type]


SWITCHES: list[Callable[[Any], Any]] = [
    lambda t: t.no_grad(),
    lambda t: t.enable_grad(),
    lambda t: t.inference_mode(),
    lambda t: t.inference_mode(False),
    lambda t: t.set_grad_enabled(True),
    lambda t: t.set_grad_enabled(False),
]


def nested(t: Any, switches: Sequence[Callable[[Any], Any]]) -> list[tuple[bool, ...]]:
    """What holds inside each of the switches, entered one after the other, and after each was left again."""
    x, found = t.ones(2, requires_grad=True), []

    def note() -> None:
        found.append((t.is_grad_enabled(), t.is_inference_mode_enabled(), (x * 2).requires_grad))

    def enter(rest: Sequence[Callable[[Any], Any]]) -> None:
        note()
        if rest:
            with rest[0](t):
                enter(rest[1:])
            rest[0](t)(enter)(rest[1:])  # the same for a decorated function
            note()

    enter(switches)
    return found


def test_in_inference_mode_nothing_is_recorded_however_switches_are_nested() -> None:
    with tg.inference_mode(), tg.enable_grad():
        assert tg.is_grad_enabled()
        assert not (tg.ones(2, requires_grad=True) * 2).requires_grad
    torch = pytest.importorskip("torch")
    for switches in itertools.product(SWITCHES, repeat=3):
        assert nested(tg, switches) == nested(torch, switches)


def test_generators_switch_only_while_they_run() -> None:
    log: list[Any] = []

    @tg.no_grad()
    def numbers() -> Any:
        try:
            got = yield tg.is_grad_enabled()
            log.append((got, tg.is_grad_enabled()))
            try:
                yield 1
            except KeyError:
                log.append(("thrown", tg.is_grad_enabled()))
            yield 2
        finally:
            log.append(("closed", tg.is_grad_enabled()))

    g = numbers()
    assert next(g) is False and tg.is_grad_enabled()
    assert g.send("x") == 1 and tg.is_grad_enabled()
    assert g.throw(KeyError()) == 2 and tg.is_grad_enabled()
    g.close()
    assert log == [("x", False), ("thrown", False), ("closed", False)]
    assert tg.is_grad_enabled()


def test_each_thread_has_its_own_mode() -> None:
    seen: list[bool] = []
    with tg.no_grad():
        thread = threading.Thread(target=lambda: seen.append(tg.is_grad_enabled()))
        thread.start()
        thread.join()
    assert seen == [True]


def test_anomaly_mode_names_operation_and_place() -> None:
    x = leaf([0.0, 1.0])
    with autograd.detect_anomaly():
        y = (x.sqrt() * plain([0.0, 1.0])).sum()  # the culprit
        with pytest.raises(RuntimeError, match=r"sqrt(.|\n)*test_functional_autograd.*\n.*the culprit"):
            y.backward()
        a, _ = SumAndProduct.apply(x, x, 2.0)
        a.sum().backward()
    assert x.grad is not None
    (x.sqrt() * plain([0.0, 1.0])).sum().backward()
    assert np.isnan(x.grad.numpy()[0])


def test_anomaly_mode_tells_lines_of_a_folder_called_as_the_package() -> None:
    names: dict[str, Any] = {"x": leaf([0.0])}
    with autograd.detect_anomaly():
        exec(compile("y = (x.sqrt() * 0).sum()", "/home/me/tinygrad_tf/train.py", "exec"), names)
        with pytest.raises(RuntimeError, match=r"tinygrad_tf/train\.py"):
            names["y"].backward()
