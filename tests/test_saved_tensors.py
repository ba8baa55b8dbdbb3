"""Hooks on saved tensors: every row of the table through them, what PyTorch's see, what they free, what misuse says."""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tinygrad_tf as tg
from tests.test_table import projection, rng_of
from tinygrad_tf import engine, nn, operation, use_reference
from tinygrad_tf.autograd import detect_anomaly, graph
from tinygrad_tf.checks import CASES, Case
from tinygrad_tf.nn import functional as F
from tinygrad_tf.utils.checkpoint import checkpoint

Hooks = graph.saved_tensors_hooks


class Elsewhere:
    """Keeps copies of what is saved, each under a number, as files would."""

    def __init__(self) -> None:
        self.files: list[np.ndarray] = []

    def pack(self, t: Any) -> int:
        self.files.append(t.array.copy(order="K"))
        return len(self.files) - 1

    def unpack(self, number: int) -> Any:
        return engine.make(self.files[number].copy(order="K"))


def both_orders(case: Case, hooks: Any) -> list[np.ndarray]:
    """Value, gradients, and gradients of those, of what was recorded under the hooks."""
    function, leaves = case.build(rng_of(case), np.float64)
    with hooks:
        out = function()
    first = engine.grad([out], leaves, [projection(out)], retain_graph=True)
    found = [out, *first]
    if case.order == 2:
        again = engine.grad([out], leaves, [projection(out)], create_graph=True)
        roots = [g for g in again if g is not None and g.requires_grad]
        found += [*again, *engine.grad(roots, leaves, [projection(g) for g in roots])]
    return [np.zeros(0) if t is None else t.array.copy() for t in found]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_gradients_are_the_same_bits(case: Case) -> None:
    for reference in (False, True):
        elsewhere = Elsewhere()
        with use_reference(reference):
            wanted = both_orders(case, contextlib.nullcontext())
            found = both_orders(case, Hooks(elsewhere.pack, elsewhere.unpack))
        for got, want in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("case", [c for c in CASES if c.order == 2], ids=lambda c: c.name)
def test_a_backward_pass_recorded_under_hooks(case: Case) -> None:
    """The hooks are on while a backward pass is recorded, too."""

    def second(hooks: Any) -> list[np.ndarray]:
        function, leaves = case.build(rng_of(case), np.float64)
        with hooks:
            out = function()
            first = engine.grad([out], leaves, [projection(out)], create_graph=True)
        roots = [g for g in first if g is not None and g.requires_grad]
        found = engine.grad(roots, leaves, [projection(g) for g in roots])
        return [np.zeros(0) if g is None else g.array for g in found]

    elsewhere = Elsewhere()
    for got, want in zip(
        second(Hooks(elsewhere.pack, elsewhere.unpack)), second(contextlib.nullcontext()), strict=True
    ):
        np.testing.assert_array_equal(got, want)


# --- as in PyTorch ----------------------------------------------------------------------------------------------------


def make_cube(t: Any) -> Any:
    class Cube(t.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            y = x**3
            ctx.save_for_backward(x, None, y)
            return y

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            x, none, _ = ctx.saved_tensors
            assert none is None
            return g * 3 * x**2

    return Cube


PROGRAMS: dict[str, Callable[[Any, Any, Any], Any]] = {  # of the library and two leaves of shapes (3,) and (2, 3)
    "product": lambda t, a, b: a * b,
    "square": lambda t, a, b: b * b,
    "result": lambda t, a, b: (a + b).exp().tanh(),
    "nothing": lambda t, a, b: -(a + b).sum(),
    "one side": lambda t, a, b: a.detach() * b,
    "without a graph": lambda t, a, b: a.detach() * b.detach() + 0 * a,
    "matrices": lambda t, a, b: b @ b.detach().t() * a[0],
    "index": lambda t, a, b: b[t.tensor([1, 0, 1])] * 2,
    "a function of the user": lambda t, a, b: make_cube(t).apply(a) * 1.0,
    "checkpoint": lambda t, a, b: t.utils.checkpoint.checkpoint(lambda x: (x * x).exp(), a * 1.0, use_reentrant=False),
    "inner hooks": lambda t, a, b: within(t, a),
    "no_grad": lambda t, a, b: a * unrecorded(t, b),
}


def within(t: Any, a: Any) -> Any:
    with t.autograd.graph.saved_tensors_hooks(lambda x: x.detach() * 2, lambda x: x):  # the wrong ones, on purpose
        y = a * a
    return y.exp()


def unrecorded(t: Any, b: Any) -> Any:
    with t.no_grad():
        return b * b


def seen(t: Any, name: str) -> Any:
    """What hooks see forward, what in the backward pass, and the gradients of both orders that come of it."""
    a = t.tensor([0.5, -1.0, 2.0], dtype=t.float64, requires_grad=True)
    b = t.tensor([[1.0, 2.0, -0.5], [0.3, 0.1, 0.2]], dtype=t.float64, requires_grad=True)
    noted: list[Any] = []

    def pack(x: Any) -> Any:
        noted.append(("pack", tuple(x.shape), str(x.dtype), t.is_grad_enabled(), x is a or x is b))
        return x.detach().clone()

    def unpack(x: Any) -> Any:
        noted.append(("unpack", tuple(x.shape)))
        return x

    with t.autograd.graph.saved_tensors_hooks(pack, unpack):
        y = PROGRAMS[name](t, a, b)
    forward = sorted(noted)  # an operation saves its inputs in an order of its own
    noted.clear()
    gradients = t.autograd.grad(y.sum(), [a, b], allow_unused=True, create_graph=True)
    backward = sorted(noted)
    second = [
        t.autograd.grad(g.sum(), [a, b], retain_graph=True, allow_unused=True)
        for g in gradients
        if g is not None and g.requires_grad
    ]
    found = [g if g is None else g.detach().numpy() for part in (gradients, *second) for g in part]
    return forward, backward, found


@pytest.mark.parametrize("name", PROGRAMS)
def test_hooks_see_what_pytorchs_see(name: str) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch.utils.checkpoint")
    (*noted, found), (*wanted_noted, wanted) = seen(tg, name), seen(torch, name)
    assert noted == wanted_noted
    for got, want in zip(found, wanted, strict=True):
        assert (got is None) == (want is None)
        if want is not None:
            np.testing.assert_allclose(got, want, rtol=1e-8)


# --- what is in the hooks' keeping is nowhere else --------------------------------------------------------------------

FREED: dict[str, Callable[[Any], Any]] = {  # made of x, of which nothing else is to hold an array
    "input": lambda x: x * x,
    "result": lambda x: x.exp().sum(),
    "fused": lambda x: F.softmax(x, -1).sum(0),
    "kept": lambda x: F.layer_norm(x, (4,)).sum(0),
    "attention": lambda x: F.scaled_dot_product_attention(x[None], x[None] * 2, x[None] * 3).sum(),
    "option": lambda x: F.cross_entropy(x, (x.detach() * 0).sum(-1).long()),
    "index": lambda x: x[(x.detach() * 0).sum(-1).long()].sum(),
    "index and slice": lambda x: x[:, (x.detach() * 0).sum(0).long()].sum(),
    "function": lambda x: make_cube(tg).apply(x).sum(),
    "checkpoint": lambda x: checkpoint(lambda x: x.exp(), x).sum(),
}


@pytest.mark.parametrize("name", FREED)
def test_only_the_hooks_hold_what_is_saved(name: str) -> None:
    elsewhere, alive = Elsewhere(), []

    def pack(t: Any) -> int:
        alive.append(weakref.ref(t.array))
        return elsewhere.pack(t)

    def recorded(hooks: Any) -> tuple[Any, Any]:
        leaf = tg.tensor(np.random.default_rng(0).normal(size=(3, 4)), requires_grad=True)
        with hooks:
            return leaf, FREED[name](leaf * 1.0)

    leaf, out = recorded(Hooks(pack, elsewhere.unpack))
    gone = [ref() is None for ref in alive]
    assert gone and all(gone)
    out.sum().backward()
    other, wanted = recorded(contextlib.nullcontext())
    wanted.sum().backward()
    np.testing.assert_array_equal(leaf.grad.numpy(), other.grad.numpy())


def test_a_parameter_is_shown_itself_and_may_be_left_where_it_is() -> None:
    layer, x = nn.Linear(3, 2), tg.ones(4, 3, requires_grad=True)
    left: list[Any] = []

    def pack(t: Any) -> Any:
        left.append(isinstance(t, nn.Parameter))
        return t if isinstance(t, nn.Parameter) else t.numpy(force=True).tolist()

    with Hooks(pack, lambda kept: kept if isinstance(kept, tg.Tensor) else tg.tensor(kept)):
        out = layer(x).tanh().sum()
    assert left.count(True) >= 1 and left.count(False) >= 2
    out.backward(retain_graph=True)
    with tg.no_grad():
        layer.weight.mul_(2.0)
    with pytest.raises(RuntimeError, match="changed in place"):  # what was left where it is
        out.backward()


def test_what_was_copied_may_be_changed() -> None:
    x = tg.ones(3, requires_grad=True)
    for hooks in (Hooks(lambda t: t.clone(), lambda t: t), graph.save_on_cpu(pin_memory=True)):
        a = x * 2
        with hooks:
            y = (a * a).sum()
        a.mul_(5.0)
        x.grad = None
        y.backward()
        assert x.grad.tolist() == [8.0, 8.0, 8.0]
    a = x * 2
    with graph.save_on_cpu():
        y = (a * a).sum()
    a.mul_(5.0)
    with pytest.raises(RuntimeError, match="changed in place"):
        y.backward()


def test_unpack_may_write_into_what_it_makes() -> None:
    x = tg.full((2,), 3.0, requires_grad=True)
    with Hooks(lambda t: t.tolist(), lambda kept: tg.zeros(2).copy_(tg.tensor(kept))):
        y = (x * x).sum()
    y.backward()
    assert x.grad.tolist() == [6.0, 6.0]


def test_arguments_of_a_checkpoint_are_kept_by_the_hooks() -> None:
    x = tg.full((2,), 3.0, requires_grad=True)
    outcomes = []
    for hooks in (graph.save_on_cpu(pin_memory=True), graph.save_on_cpu()):
        a, b = x * 2, {"b": [x * 1.0]}
        with hooks:
            y = checkpoint(lambda a, b: a * a * b["b"][0], a, b=b)
        a.mul_(0.0)
        try:
            outcomes.append(tg.autograd.grad(y.sum(), [x])[0].tolist())
        except RuntimeError as error:
            outcomes.append(str(error))
    assert outcomes[0] == [108.0, 108.0]
    assert "argument of shape (2,) was changed in place" in str(outcomes[1])


def counting(counted: list[tuple[int, ...]]) -> Hooks:
    return Hooks(lambda t: counted.append(tuple(t.shape)) or t.clone(), lambda t: t)


def test_each_is_packed_once() -> None:
    x, rows, columns = tg.ones(3, 4, requires_grad=True), tg.tensor([0, 2]), tg.tensor([[1], [3]])
    counted: list[tuple[int, ...]] = []
    with counting(counted):
        x[rows, columns]
        assert sorted(counted) == [(2,), (2, 1)]
        counted.clear()
        y = checkpoint(lambda x, y: (x * y["y"]).exp() * y["y"], x, {"y": x * 2})
        assert counted == [(3, 4), (3, 4)]
        y.sum().backward()  # what is computed again is not packed
        assert counted == [(3, 4), (3, 4)]


@pytest.mark.parametrize("hooks", [contextlib.nullcontext(), graph.save_on_cpu()])
def test_a_changed_index_is_noticed_at_the_second_derivative(hooks: Any) -> None:
    x, index = tg.ones(3, 4, requires_grad=True), tg.tensor([1, 2])
    with hooks:
        (g,) = tg.autograd.grad((x[1:, index] ** 3).sum(), [x], create_graph=True)
        index.add_(1)
        with pytest.raises(RuntimeError, match="changed in place"):
            g.sum().backward()


def test_hooks_within_a_checkpoint_are_those_of_both_runs() -> None:
    x = tg.full((2,), 3.0, requires_grad=True)
    calls: list[str] = []

    def part(x: tg.Tensor) -> tg.Tensor:
        with Hooks(
            lambda t: (calls.append("pack"), t.tolist())[1], lambda k: (calls.append("unpack"), tg.tensor(k))[1]
        ):
            return make_cube(tg).apply(x * x)

    y = checkpoint(part, x)
    packed = calls.count("pack")
    assert packed == 4 and calls.count("unpack") == 0
    y.sum().backward()
    assert calls.count("pack") == 2 * packed and calls.count("unpack") >= 3
    np.testing.assert_allclose(x.grad.numpy(), [6 * 3.0**5] * 2)


# --- modes ------------------------------------------------------------------------------------------------------------


def plain() -> bool:
    return engine.Node is operation.Node and engine.Node.__mro__[1] is object


def test_hooks_cost_nothing_when_they_are_off() -> None:
    assert plain()
    with pytest.raises(ZeroDivisionError), graph.save_on_cpu(), graph.save_on_cpu():
        assert not plain()
        raise ZeroDivisionError
    assert plain()


@pytest.mark.parametrize("inside", [False, True])
def test_hooks_and_anomaly_mode_together(inside: bool) -> None:
    calls: list[Any] = []
    x = tg.zeros(1, requires_grad=True)
    modes = [Hooks(lambda t: calls.append(t) or t, lambda t: t), detect_anomaly()]
    with modes[inside], modes[not inside]:
        y = (x.sqrt() * 0).sum()
        assert calls
        with pytest.raises(RuntimeError, match="backward of sqrt gave NaN"):
            y.backward()
    assert plain()


def test_hooks_belong_to_their_thread() -> None:
    packed: list[Any] = []
    x = tg.ones(2, requires_grad=True)
    with Hooks(lambda t: packed.append(t) or t, lambda t: t):
        other = threading.Thread(target=lambda: (x * x).sum().backward())
        other.start()
        other.join()
        assert not packed
        assert x.grad.tolist() == [2.0, 2.0]
        (x * x).sum()
        assert len(packed) == 2


def test_hooks_can_be_forbidden() -> None:
    x = tg.ones(1, requires_grad=True)
    with graph.disable_saved_tensors_hooks("not here"):
        with pytest.raises(RuntimeError, match=r"^not here$"), graph.save_on_cpu():
            pass
        x.exp().sum().backward()
        with graph.disable_saved_tensors_hooks("nor here"), pytest.raises(RuntimeError, match="nor"):
            Hooks(lambda t: t, lambda t: t).__enter__()
        with pytest.raises(RuntimeError, match="not here"):
            Hooks(lambda t: t, lambda t: t).__enter__()
    with graph.save_on_cpu():
        with pytest.raises(RuntimeError, match="no more"), graph.disable_saved_tensors_hooks("no more"):
            pass
        x.exp().sum().backward()
    assert plain()


# --- misuse -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pack", "unpack", "error", "words"),
    [
        (3, lambda t: t, TypeError, "pack_hook must be a function, got int"),
        (lambda t: t, None, TypeError, "unpack_hook must be a function, got NoneType"),
        (lambda t: t.zero_(), lambda t: t, RuntimeError, r"pack changed its tensor in place; change a copy"),
        (lambda t: t, lambda t: 3, TypeError, "unpack must return a tensor, got int"),
        (lambda t: t, lambda t: t[:1], RuntimeError, r"of shape \(2,\) and float32, got shape \(1,\) and float32"),
        (lambda t: t, lambda t: t.double(), RuntimeError, r"and float32, got shape \(2,\) and float64"),
        (lambda t: 1 / 0, lambda t: t, ZeroDivisionError, "division"),
        (lambda t: t, lambda t: 1 / 0, ZeroDivisionError, "division"),
    ],
)
def test_misuse_is_told(pack: Any, unpack: Any, error: type[Exception], words: str) -> None:
    x = tg.ones(2, requires_grad=True)
    with pytest.raises(error, match=words) as told:
        with Hooks(pack, unpack):
            y = ((x * 1.0) * x).sum()
        y.backward()
    assert "\n" not in str(told.value) and x.grad is None and plain()


def test_the_module_has_pytorchs_names() -> None:
    torch: ModuleType = pytest.importorskip("torch")
    assert set(graph.__all__) <= set(dir(torch.autograd.graph)) and tg.autograd.graph is graph


# --- one saved tensor, and saved tensors that change ------------------------------------------------------------------


def test_hooks_on_one_saved_tensor() -> None:
    x, w = tg.tensor([1.0, 2.0], requires_grad=True), tg.tensor([3.0, 4.0], requires_grad=True)
    y = x * w
    raw = y.grad_fn._raw_saved_other
    raw.register_hooks(lambda t: t.numpy() * 10, lambda kept: tg.from_numpy(kept))
    assert y.grad_fn._saved_other.tolist() == [30.0, 40.0] and y.grad_fn._saved_self is x
    with pytest.raises(RuntimeError, match="b of mul has hooks already"):
        raw.register_hooks(lambda t: t, lambda t: t)
    y.sum().backward()
    assert x.grad.tolist() == [30.0, 40.0] and w.grad.tolist() == [1.0, 2.0]
    with pytest.raises(RuntimeError, match="the graph of mul was released"):
        raw.register_hooks(lambda t: t, lambda t: t)
    with pytest.raises(AttributeError, match="exp did not keep 'x'"):
        _ = x.exp().grad_fn._raw_saved_self


def test_what_is_saved_may_be_changed_where_that_is_allowed() -> None:
    x = tg.tensor([1.0, 2.0], dtype=tg.float64, requires_grad=True)
    with tg.autograd.graph.allow_mutation_on_saved_tensors() as copies:
        y = x.clone()
        z = (y * y).exp().sum()
        y.sin_()
        z.backward()
        late = (y * y).sum()
        assert len(copies.cloned) > 0
    np.testing.assert_allclose(x.grad.numpy(), 2 * np.exp([1.0, 4.0]) * [1.0, 2.0])
    with pytest.raises(RuntimeError, match="backward outside of the allow_mutation_on_saved_tensors"):
        late.backward()


def test_the_version_counts_changes_in_place() -> None:
    def counted(t: Any) -> list[int]:
        x = t.ones(3)
        found = [x._version]
        x.add_(1)
        x[0] = 2
        v = x[1:]
        v.mul_(2)
        y = x.detach()
        y.zero_()
        x.data.add_(1)
        t.autograd.graph.increment_version(x)
        found += [x._version, v._version, y._version, x.clone()._version]
        w = t.ones(2, requires_grad=True)
        w.sum().backward()
        t.optim.SGD([w], 0.1).step()
        return [*found, w._version]

    assert counted(tg) == [0, 5, 5, 5, 0, 1]
    torch = pytest.importorskip("torch")
    assert counted(torch) == counted(tg)
