"""Functions of functions: the same programs here and in PyTorch, what may be nested, and what is said of misuse."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tinygrad_tf as tg
from tinygrad_tf import func, nn

RNG = np.random.default_rng(0)
X, Y, ROWS = RNG.normal(size=3), RNG.normal(size=3), RNG.normal(size=(5, 3))


def wave(x: Any) -> Any:
    return (x.sin() * x).sum()


def network(t: ModuleType) -> Any:
    net = t.nn.Sequential(t.nn.Linear(3, 4), t.nn.Tanh(), t.nn.Linear(4, 2)).double()
    for i, p in enumerate(net.parameters()):
        p.data.copy_(t.linspace(-1.0, 1.0 + i, p.numel(), dtype=t.float64).reshape(p.shape))
    return net


def per_sample(t: ModuleType) -> Any:
    """The gradient of the loss of each sample, as in the tutorial on it."""
    f, net = t.func, network(t)
    weights = {name: p.detach() for name, p in net.named_parameters()}

    def loss(weights: Any, x: Any, target: Any) -> Any:
        return t.nn.functional.cross_entropy(f.functional_call(net, weights, (x[None],)), target[None])

    targets = t.tensor([0, 1, 0, 1, 1])
    found = f.vmap(f.grad(loss), in_dims=(None, 0, 0))(weights, t.tensor(ROWS), targets)
    return [found[name] for name in weights]


def ensemble(t: ModuleType) -> Any:
    nets = [network(t), network(t)]
    nets[1][0].weight.data.mul_(2)
    weights, buffers = t.func.stack_module_state(nets)
    call = t.func.vmap(lambda w, b, x: t.func.functional_call(nets[0], (w, b), (x,)), in_dims=(0, 0, None))
    return [call(weights, buffers, t.tensor(ROWS)), weights["2.bias"]]


PROGRAMS: dict[str, Callable[..., Any]] = {
    "grad": lambda t, x, y: t.func.grad(wave)(x),
    "grad of a grad": lambda t, x, y: t.func.grad(lambda x: t.func.grad(wave)(x).pow(2).sum())(x),
    "grad by two": lambda t, x, y: t.func.grad(lambda a, b: (a * b * b).sum(), argnums=(1, -2))(x, y),
    "grad with aux": lambda t, x, y: t.func.grad(lambda a: ((a * a).sum(), a + 1), has_aux=True)(x),
    "grad_and_value": lambda t, x, y: t.func.grad_and_value(wave)(x),
    "grad of unused": lambda t, x, y: t.func.grad(lambda a, b: (b * b).sum())(x, y),
    "grad by a tree": lambda t, x, y: t.func.grad(lambda p: (p["a"] * p["b"][0]).sum())({"a": x, "b": [y]})["b"],
    "vjp": lambda t, x, y: t.func.vjp(lambda a: (a * a, a.sum()), x)[1]((y, t.tensor(2.0, dtype=t.float64))),
    "jvp": lambda t, x, y: t.func.jvp(lambda a, b: (a * b).sum(), (x, y), (y, x)),
    "jvp of two results": lambda t, x, y: t.func.jvp(lambda a: (a * a, a.exp()), (x,), (y,))[1],
    "jvp of nothing": lambda t, x, y: t.func.jvp(lambda a: y * 2, (x,), (y,)),
    "hvp": lambda t, x, y: t.func.jvp(t.func.grad(wave), (x,), (y,)),
    "jacrev": lambda t, x, y: t.func.jacrev(lambda a: (a[:, None] * a, a.sum()))(x),
    "jacfwd": lambda t, x, y: [j for i in t.func.jacfwd(lambda a, b: a * b, argnums=(0, 1))(x, y) for j in [i]],
    "hessian": lambda t, x, y: t.func.hessian(wave)(x),
    "vmap": lambda t, x, y: t.func.vmap(lambda a, b: a * b, in_dims=(0, None), out_dims=1)(t.tensor(ROWS), x),
    "vmap along the last axis": lambda t, x, y: t.vmap(t.sum, in_dims=-1)(t.tensor(ROWS)),
    "vmap in vmap": lambda t, x, y: t.vmap(t.vmap(t.sin))(t.tensor(ROWS)),
    "vmap of jacrev": lambda t, x, y: t.func.vmap(t.func.jacrev(t.sin))(t.stack([x, y])),
    "vmap of a tree": lambda t, x, y: t.vmap(lambda p: {"s": p["a"] + p["b"]}, in_dims=({"a": 0, "b": None},))(
        {"a": x, "b": y}
    )["s"],
    "by two variables": lambda t, x, y: t.func.jacrev(
        t.func.jacrev(lambda a, b: t.exp(-((a - b) ** 2).sum()), argnums=1), argnums=0
    )(x, y),
    "a pullback in a function": lambda t, x, y: t.func.jacrev(lambda g: t.func.vjp(t.sin, x)[1](g)[0])(y),
    "a pullback made before": lambda t, x, y: (lambda f: t.func.jacrev(lambda g: f(g)[0] * g)(y))(
        t.func.vjp(t.sin, x)[1]
    ),
    "a push inside": lambda t, x, y: t.func.jacrev(lambda v: t.func.jvp(t.sin, (x * v,), (v,))[1])(y),
    "per sample": lambda t, x, y: per_sample(t),
    "ensemble": lambda t, x, y: ensemble(t),
}


def flat(tree: Any) -> list[Any]:
    return [leaf for part in tree for leaf in flat(part)] if isinstance(tree, (tuple, list)) else [tree]


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_as_in_pytorch(name: str) -> None:
    torch = pytest.importorskip("torch")
    found, wanted = (flat(PROGRAMS[name](t, t.tensor(X), t.tensor(Y))) for t in (tg, torch))
    assert len(found) == len(wanted)
    for got, want in zip(found, wanted, strict=True):
        assert tuple(got.shape) == tuple(want.shape) and got.requires_grad == want.requires_grad
        np.testing.assert_allclose(got.detach().numpy(), want.detach().numpy(), rtol=1e-9, atol=1e-12)


def test_results_depend_on_what_is_outside() -> None:
    w = tg.ones(3, requires_grad=True)
    found = func.grad(lambda a: (a * a * w).sum())(tg.ones(3))
    found.sum().backward()
    assert w.grad is not None and w.grad.tolist() == [2.0, 2.0, 2.0]
    x = tg.ones(3, requires_grad=True)
    func.grad(lambda a: (a**3).sum())(x).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [6.0, 6.0, 6.0]
    with tg.no_grad():
        assert func.grad(wave)(tg.ones(2)).requires_grad is False


def test_a_module_is_as_before_after_a_call_with_other_weights() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    net[1].weight = net[0].weight
    other = tg.zeros(2, 2)
    tied = func.functional_call(net, {"0.weight": other}, tg.ones(1, 2))
    assert tg.allclose(tied, net[1].bias)
    apart = func.functional_call(net, {"0.weight": other}, tg.ones(1, 2), tie_weights=False)
    with pytest.raises(ValueError, match=r"\['0.weight', '1.weight'\] are one tied weight; give one value"):
        func.functional_call(net, {"0.weight": other, "1.weight": other * 2}, tg.ones(1, 2))
    with pytest.raises(TypeError, match=r"'0.weight' must be a tensor, got float"):
        func.functional_call(net, {"0.weight": 1.0}, tg.ones(1, 2))
    assert not tg.allclose(apart, net[1].bias)
    with pytest.raises(ZeroDivisionError):
        func.functional_call(net, {"0.weight": other}, (tg.ones(1, 2),), {"more": 1 / 0})
    assert net[0].weight is net[1].weight and isinstance(net[0].weight, nn.Parameter)
    with pytest.raises(RuntimeError, match=r"the module has no \['weight'\]; missing are \['0.weight'"):
        func.functional_call(net, {"weight": other}, tg.ones(1, 2), strict=True)


def test_slices_share_a_graph_from_outside() -> None:
    """As in the tutorial that makes a Jacobian of the rows of vmap over grad; behind the last slice it is released."""
    x = tg.arange(1.0, 4.0).requires_grad_()
    for batched in (tg.vmap, lambda f: tg.vmap(tg.vmap(f))):
        y = x**2 * x.sum()
        rows = tg.eye(3) if batched is tg.vmap else tg.eye(3).reshape(3, 1, 3)
        jacobian = batched(lambda row, y=y: tg.autograd.grad(y, x, row)[0])(rows)
        assert jacobian.reshape(3, 3).tolist() == [[13.0, 1.0, 1.0], [4.0, 28.0, 4.0], [9.0, 9.0, 45.0]]
        with pytest.raises(RuntimeError, match="released"):
            tg.autograd.grad(y, x, tg.ones(3))


def test_random_numbers_in_vmap() -> None:
    def noisy(x: tg.Tensor) -> tg.Tensor:
        return x + tg.rand(())

    assert func.vmap(noisy, randomness="same")(tg.zeros(4)).unique().numel() == 1
    assert func.vmap(noisy, randomness="different")(tg.zeros(4)).unique().numel() == 4
    with pytest.raises(RuntimeError, match="the function draws random numbers; say with randomness="):
        func.vmap(noisy)(tg.zeros(4))


ONES = tg.ones(3)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: func.grad(lambda a: a)(ONES), RuntimeError, r"must return one number, .* got shape \(3,\)"),
        (lambda: func.grad(wave, argnums=1)(ONES), RuntimeError, "argnums must name some of the 1 positional"),
        (lambda: func.grad(wave)(3.0), ValueError, "can only differentiate by tensors, got float"),
        (lambda: func.grad(wave)(tg.arange(3)), RuntimeError, "by floating point tensors, got torch.int64"),
        (lambda: func.grad(wave, has_aux=True)(ONES), RuntimeError, r"returns \(output, aux\), got Tensor"),
        (lambda: func.vjp(wave, ONES)[1](ONES), RuntimeError, r"the outputs' shapes \[\(\)\], got \[\(3,\)\]"),
        (lambda: func.jvp(wave, ONES, ONES), RuntimeError, "primals and tangents must be tuples"),
        (lambda: func.jvp(wave, (ONES,), (ONES[:2],)), RuntimeError, "the shape of its primal"),
        (lambda: func.vmap(tg.dot)(tg.ones(4, 3), tg.ones(2, 3)), ValueError, r"one and the same size, .* \[4, 2\]"),
        (lambda: func.vmap(lambda a: 1.0)(ONES), ValueError, "the function must return tensors, got float"),
        (lambda: func.vmap(wave, in_dims=None)(ONES), ValueError, "an axis for at least one tensor"),
        (lambda: func.vmap(wave, in_dims=2)(ONES), ValueError, r"the axis 2 for a tensor of shape \(3,\)"),
        (lambda: func.vmap(wave, in_dims=(0, 0))(ONES), ValueError, r"an entry for each argument, got \(0, 0\)"),
        (lambda: func.vmap(wave, randomness="no"), RuntimeError, "randomness must be 'error'"),
        (lambda: func.stack_module_state([]), RuntimeError, "at least one model"),
    ],
)
def test_misuse_is_told(call: Callable[[], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()
