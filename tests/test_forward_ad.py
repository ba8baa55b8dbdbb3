"""Dual tensors and linearize: the same programs here and in PyTorch, what ends a tangent, what is said of misuse."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tinygrad_tf as tg
from tests.test_nn import rows
from tinygrad_tf import func
from tinygrad_tf.autograd import forward_ad

X, V, Y, W = rows(3), rows(3, seed=1), rows(3, seed=2), rows(3, seed=3)


def moved(t: ModuleType, function: Callable[..., Any], *pairs: tuple[Any, Any]) -> list[Any]:
    """Value and tangent of a function of dual tensors."""
    duals = t.autograd.forward_ad
    with duals.dual_level():
        return list(duals.unpack_dual(function(*[duals.make_dual(x, v) for x, v in pairs])))


def in_place(x: Any) -> Any:
    y = x * x
    y[0] = x[1].exp()
    return y.mul_(x)


def of_module(t: ModuleType, x: Any, v: Any) -> list[Any]:
    net = t.nn.Sequential(t.nn.Linear(3, 4), t.nn.GELU(), t.nn.Tanh(), t.nn.Sigmoid()).double()
    for i, p in enumerate(net.parameters()):
        p.data.copy_(t.linspace(-1.0, 1.0 + i, p.numel(), dtype=t.float64).reshape(p.shape))
    primal, tangent = moved(t, net, (x, v))
    tangent[0].backward()
    return [primal, tangent, *[p.grad for p in net.parameters()][:2]]


def of_parameters(t: ModuleType, x: Any, v: Any) -> list[Any]:
    """How a loss changes when the weights move, as in the tutorial on forward mode."""
    net, duals = t.nn.Linear(3, 2).double(), t.autograd.forward_ad
    weights = {n: t.linspace(-1.0, 1.0, p.numel(), dtype=t.float64).reshape(p.shape) for n, p in net.named_parameters()}
    with duals.dual_level():
        given = {name: duals.make_dual(w, w * w) for name, w in weights.items()}
        return list(duals.unpack_dual(t.func.functional_call(net, given, (x,))))


def of_a_leaf(t: ModuleType, x: Any, v: Any) -> list[Any]:
    """A tangent is differentiated backwards, by the value and by the direction."""
    x, v = x.requires_grad_(), v.requires_grad_()
    primal, tangent = moved(t, lambda d: d.sin() * d, (x, v))
    return [primal, tangent, *t.autograd.grad((tangent * tangent).sum(), [x, v])]


def of_a_gradient(t: ModuleType, x: Any, v: Any) -> list[Any]:
    """The Hessian times a vector: the tangent of the gradient."""
    duals = t.autograd.forward_ad
    with duals.dual_level():
        dual = duals.make_dual(x.requires_grad_(), v)
        (g,) = t.autograd.grad((dual.exp() * dual).sum(), dual, create_graph=True)
        return list(duals.unpack_dual(g))


PROGRAMS: dict[str, Callable[..., list[Any]]] = {
    "of one": lambda t, x, v, y, w: moved(t, lambda a: a.sin() * a, (x, v)),
    "of two": lambda t, x, v, y, w: moved(t, lambda a, b: (a * b).cumsum(0) @ b, (x, v), (y, w)),
    "itself": lambda t, x, v, y, w: moved(t, lambda a: a, (x, v)),
    "linear": lambda t, x, v, y, w: moved(t, lambda a: a * 2.0 + 1.0, (x, v)),
    "in place": lambda t, x, v, y, w: moved(t, in_place, (x, v)),
    "of nothing": lambda t, x, v, y, w: moved(t, lambda a: y * 2.0, (x, v)),
    "of places": lambda t, x, v, y, w: moved(t, lambda a: a.argmax(), (x, v)),
    "of a constant in it": lambda t, x, v, y, w: moved(t, lambda a: (a * 0.0).ceil() + y.detach(), (x, v)),
    "detached": lambda t, x, v, y, w: moved(t, lambda a: a * a.detach(), (x, v)),
    "module": lambda t, x, v, y, w: of_module(t, x, v),
    "parameters": lambda t, x, v, y, w: of_parameters(t, x, v),
    "leaf": lambda t, x, v, y, w: of_a_leaf(t, x, v),
    "gradient": lambda t, x, v, y, w: of_a_gradient(t, x, v),
    "linearize": lambda t, x, v, y, w: list(_linearized(t, lambda a: a.sin() * a, (x,), (v,), (w,))),
    "linearize by two": lambda t, x, v, y, w: list(_linearized(t, lambda a, b: (a * b).exp(), (x, y), (v, w), (w, v))),
    "linearize in grad": lambda t, x, v, y, w: [
        t.func.grad(lambda a: t.func.jvp(lambda b: b.sin() * a, (a,), (v,))[1].sum())(x)
    ],
    "jacfwd": lambda t, x, v, y, w: [t.func.jacfwd(lambda a: a.sin() * a)(x)],
}


def _linearized(t: ModuleType, function: Any, primals: Any, *tangents: Any) -> list[Any]:
    out, push = t.func.linearize(function, *primals)
    return [out, *[push(*v) for v in tangents]]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", PROGRAMS)
def test_as_in_pytorch(name: str) -> None:
    torch = pytest.importorskip("torch")
    wanted, found = ([*PROGRAMS[name](t, *[t.tensor(a) for a in (X, V, Y, W)])] for t in (torch, tg))
    assert len(found) == len(wanted)
    for got, want in zip(found, wanted, strict=True):
        assert (got is None) == (want is None)
        if want is not None:
            assert got.requires_grad == want.requires_grad
            np.testing.assert_allclose(got.detach().numpy(), want.detach().numpy(), rtol=1e-12, atol=1e-14)


def test_a_tangent_ends_with_its_level() -> None:
    x = tg.tensor([1.0, 2.0])
    with forward_ad.dual_level() as level:
        assert level == 0
        y = forward_ad.make_dual(x, tg.ones(2), level=level) * 3.0
        assert forward_ad.unpack_dual(y, level=0).tangent.tolist() == [3.0, 3.0]
        assert forward_ad.unpack_dual(x) == (x, None)
        assert forward_ad.unpack_dual(tg.ones(2, requires_grad=True) * 2.0).tangent is None
    assert forward_ad.unpack_dual(y).tangent is None
    with pytest.raises(ZeroDivisionError), forward_ad.dual_level():
        raise ZeroDivisionError
    assert forward_ad.enter_dual_level() == 0
    forward_ad.exit_dual_level()


def test_linearize_calls_its_function_once() -> None:
    calls: list[int] = []

    def function(x: Any) -> Any:
        calls.append(1)
        return x * x

    _, push = func.linearize(function, tg.tensor([3.0]))
    assert [push(tg.tensor([v])).item() for v in (1.0, 2.0)] == [6.0, 12.0] and len(calls) == 1


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: forward_ad.make_dual(tg.ones(2), tg.ones(3)), RuntimeError, r"same shape, got \(2,\) and \(3,\)"),
        (lambda: forward_ad.make_dual(tg.ones(2).long(), tg.ones(2)), ValueError, "tensor must have a floating point"),
        (lambda: forward_ad.make_dual(tg.ones(2), tg.ones(2).long()), ValueError, "tangent must have a floating point"),
        (lambda: forward_ad.make_dual([1.0], tg.ones(1)), TypeError, "make_dual: tensor must be a tensor, got list"),
        (lambda: forward_ad.make_dual(tg.ones(1), tg.ones(1), level=1), RuntimeError, "level must be 0 or None"),
        (lambda: forward_ad.unpack_dual(1.0), TypeError, "unpack_dual: tensor must be a tensor, got float"),
        (lambda: forward_ad.enter_dual_level(), RuntimeError, "a level is open already"),
        (lambda: forward_ad.exit_dual_level(level=3), RuntimeError, "no level is open that is 3"),
        (lambda: tg.no_grad()(forward_ad.make_dual)(tg.ones(1), tg.ones(1)), RuntimeError, "not under no_grad"),
        (lambda: func.linearize(tg.sin, tg.ones(2))[1](tg.ones(3)), RuntimeError, "linearize: every tangent must have"),
        (lambda: func.linearize(tg.sin, tg.ones(2))[1](), RuntimeError, "linearize: every tangent must have"),
        (lambda: func.jvp(tg.sin, (tg.ones(2),), (tg.ones(3),)), RuntimeError, r"jvp: .* \[\(2,\)\], got \[\(3,\)\]"),
    ],
)
def test_misuse_is_told(call: Callable[[], Any], error: type[Exception], words: str) -> None:
    with forward_ad.dual_level(), pytest.raises(error, match=words) as told:
        call()
    assert "\n" not in str(told.value)


def test_outside_of_a_level_nothing_is_dual() -> None:
    with pytest.raises(RuntimeError, match="make_dual: no level is open"):
        forward_ad.make_dual(tg.ones(1), tg.ones(1))
    with pytest.raises(RuntimeError, match="exit_dual_level: no level is open that is the last"):
        forward_ad.exit_dual_level()
