"""How the engine behaves: accumulation, graphs and their release, modes, hooks, in-place changes, depth, threads."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from typing import Any

import numpy as np
import pytest

import tinygrad_tf as tg
from tinygrad_tf import Tensor, engine, regions
from tinygrad_tf.nn import functional as F


def leaf(*values: float) -> Tensor:
    return tg.tensor(list(values), dtype=tg.float64, requires_grad=True)


# --- accumulation and graphs ------------------------------------------------------------------------------------------


def test_a_value_reached_by_several_paths() -> None:
    x = leaf(1.0)
    a = tg.tensor([1.0], dtype=tg.float64)
    xa, x2 = x * a, x * x
    (x * xa + x2 * a + x * xa).sum().backward()
    assert x.grad.tolist() == [6.0]


def test_only_leaves_accumulate() -> None:
    a = tg.tensor(2.0, dtype=tg.float64, requires_grad=True)
    b = a * 3
    c = b * b
    c.backward(retain_graph=True)
    assert a.grad.item() == 36.0
    c.backward()
    assert a.grad.item() == 72.0
    with pytest.warns(UserWarning, match=r"not a leaf is not kept; call .retain_grad"):
        assert b.grad is None


def test_accumulation_keeps_the_gradient_tensor() -> None:
    x = leaf(1.0)
    (x * 2).sum().backward()
    kept = x.grad
    (x * 3).sum().backward()
    assert x.grad is kept and kept.tolist() == [5.0]


def test_no_two_gradients_share_memory() -> None:
    a, b, g = leaf(1.0, 2.0), leaf(3.0, 4.0), tg.ones(2, dtype=tg.float64)
    (a + b).backward(g)
    a.grad.array += 5
    assert b.grad.tolist() == [1.0, 1.0] and g.tolist() == [1.0, 1.0]
    a, b = leaf(1.0, 2.0), leaf(3.0, 4.0)
    (a + b).backward(g, create_graph=True)
    assert not np.shares_memory(a.grad.array, b.grad.array)


UPWARD = {  # operations whose gradient is an array of their own, in which the rule below may work
    "layer_norm": lambda x: F.layer_norm(x, (4,)),
    "rms_norm": lambda x: F.rms_norm(x, (4,)),
    "softmax": lambda x: x.softmax(1),
    "log_softmax": lambda x: x.log_softmax(1),
}


@pytest.mark.parametrize("name", UPWARD)
def test_a_gradient_that_somebody_else_holds_is_not_overwritten(name: str) -> None:
    """Rules may work in place on a gradient that is theirs alone; those of users, hooks and other paths stay."""
    rng = np.random.default_rng(0)
    u, v, given = (tg.tensor(rng.normal(size=(3, 4)), requires_grad=n < 2) for n in range(3))
    operation, before = UPWARD[name], given.numpy().copy()

    def gradients(middle: object) -> list[np.ndarray]:
        return [g.numpy() for g in tg.autograd.grad(F.layer_norm(middle(u, v), (4,)), [u, v], given)]

    paths = (
        lambda u, v: operation(u) + v,  # both sides of a sum are sent the same array
        lambda u, v: operation(u).reshape(2, 6).reshape(3, 4) + v.reshape(12).reshape(3, 4),
        lambda u, v: operation(u).t().t() * 1 + v,
        lambda u, v: operation(u)[:, :4] + operation(u + v),
    )
    for middle in paths:
        twin = [x.detach().requires_grad_() for x in (u, v)]
        with tg.enable_grad():
            exact = tg.autograd.grad(F.layer_norm(middle(*twin), (4,)), twin, given, create_graph=True)
        for found, wanted in zip(gradients(middle), exact, strict=True):
            np.testing.assert_allclose(found, wanted.detach().numpy(), rtol=1e-12, atol=1e-15)
    seen: list[Tensor] = []
    y = operation(u)
    y.retain_grad()
    y.register_hook(lambda g: seen.append(g))
    F.layer_norm(y, (4,)).backward(given)
    twin = y.detach().requires_grad_()
    F.layer_norm(twin, (4,)).backward(given)
    assert np.array_equal(seen[0].numpy(), twin.grad.numpy())
    assert np.array_equal(y.grad.numpy(), twin.grad.numpy())
    operation(u).backward(given)
    assert np.array_equal(given.numpy(), before)
    z = operation(u)  # kept without a hook
    z.retain_grad()
    F.layer_norm(z, (4,)).backward(given)
    assert np.array_equal(z.grad.numpy(), twin.grad.numpy())


LAYOUTS = {  # memory of shape (2, 3, 4, 4), and in which order its axes are to lie in that of the gradient
    "C": (np.ones((2, 3, 4, 4)), (0, 1, 2, 3)),
    "reversed": (np.ones((4, 4, 3, 2)).transpose(3, 2, 1, 0), (3, 2, 1, 0)),
    "swapped": (np.ones((2, 4, 3, 4)).transpose(0, 2, 1, 3), (0, 2, 1, 3)),
    "gaps": (np.ones((4, 4, 3, 4)).transpose(3, 2, 1, 0)[::2], (0, 1, 2, 3)),
    "backwards": (np.ones((2, 3, 4, 4))[::-1], (0, 1, 2, 3)),
}
SENDERS = {  # operations that send back arrays of many layouts
    "sum": Tensor.sum,
    "product": lambda x: x * x.detach(),
    "attention": lambda x: F.scaled_dot_product_attention(x, x, x),
    "of a transposition": lambda x: F.layer_norm(x.permute(3, 2, 1, 0), (2,)),
    "copy of a transposition": lambda x: x.permute(3, 2, 1, 0).contiguous() * 2.0,
    "slice": lambda x: x[:1] * 2.0,
    "two paths": lambda x: x.exp() + x.permute(1, 0, 2, 3).contiguous().permute(1, 0, 2, 3) * 2.0,
}


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("sender", SENDERS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_gradient_of_a_leaf_lies_in_memory_as_the_leaf_does(layout: str, sender: str, create_graph: bool) -> None:
    """In the same order if the leaf fills its memory, and in C's order otherwise, as PyTorch promises."""
    memory, order = LAYOUTS[layout]
    x = tg.as_tensor(memory).requires_grad_()
    for _ in range(2):
        SENDERS[sender](x).sum().backward(create_graph=create_graph)
        assert x.grad.array.transpose(order).flags.c_contiguous
    if not create_graph:
        (alone,) = tg.autograd.grad(SENDERS[sender](x).sum(), x)
        np.testing.assert_array_equal(alone.numpy() * 2.0, x.grad.numpy())


@pytest.mark.parametrize("size", [8, 1 << 15, 1 << 17])
def test_sums_of_gradients_use_the_memory_of_either_side(size: int) -> None:
    """The same sum whether the first, the second, both or neither of two gradients are nobody else's."""
    held, part = np.arange(float(size)), np.ones(size)
    for own in (False, True):
        for fresh in (False, True):
            a, b = held.copy(), part.copy()
            total = regions.add(a, own, b, fresh)
            assert np.array_equal(total, held + part)
            assert np.shares_memory(total, a) == own and np.shares_memory(total, b) == (fresh and not own)
            assert own or np.array_equal(a, held)
            assert (fresh and not own) or np.array_equal(b, part)


def test_the_graph_is_released_and_a_second_backward_says_so() -> None:
    x = leaf(1.0, 2.0)
    y = x.exp()
    node = y.node
    y.sum().backward(retain_graph=True)
    (y * 1).sum().backward()
    with pytest.raises(RuntimeError, match=r"released .*retain_graph=True"):
        y.sum().backward()
    assert node.saved is None and not any(node.edges)


def test_what_saved_nothing_can_be_walked_again() -> None:
    x = leaf(1.0, 2.0)
    total = (x + 1.0).sum()
    total.backward()
    total.backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_graphs_go_without_the_garbage_collector() -> None:
    gc.collect()
    gc.disable()
    try:
        x = leaf(0.5, 1.0, 2.0)
        made = [x.exp() * 2, F.softmax(x, 0), F.layer_norm(x, (3,)), (x * 1.0).mul_(x)]
        made[0].retain_grad()
        view = made[0][1:]
        view.mul_(2.0)
        total = sum(((y * y).sum() for y in made), view.sum())
        references = [weakref.ref(t) for t in [*made, view, total]] + [weakref.ref(t.node) for t in made]
        total.backward()
        del made, view, total
        assert [r() for r in references] == [None] * len(references)
        y = x.exp()
        reference = weakref.ref(y.node)
        del y  # never walked
        assert reference() is None
    finally:
        gc.enable()


def test_a_chain_of_100_000_operations() -> None:
    gc.collect()
    gc.disable()
    try:
        x = leaf(1.0)
        y = x
        for _ in range(100_000):
            y = y + x * 0.0
        reference = weakref.ref(y.node)
        y.sum().backward()
        assert x.grad.tolist() == [1.0]
        del y
        assert reference() is None
        y = x
        for _ in range(100_000):
            y = y * 1.0
        del y  # freed without having been walked
    finally:
        gc.enable()


def test_an_exception_in_the_walk_changes_no_gradient() -> None:
    x, z = leaf(1.0), leaf(2.0)
    x.grad = tg.tensor([7.0], dtype=tg.float64)
    kept = z * 1.0
    bad = kept * kept
    kept.mul_(2.0)
    with pytest.raises(RuntimeError, match="changed in place"):
        (x * 3 + bad).sum().backward()
    assert x.grad.tolist() == [7.0] and z.grad is None


@pytest.mark.parametrize("gradient", [None, [1.0], [[1.0, 1.0, 1.0]]])
def test_a_gradient_of_the_wrong_shape_is_refused(gradient: object) -> None:
    x = leaf(1.0, 2.0, 3.0)
    with pytest.raises(RuntimeError, match=r"\(3,\)"):
        (x * 2).backward(None if gradient is None else tg.tensor(gradient, dtype=tg.float64))
    assert x.grad is None


def test_backward_without_a_graph_is_refused() -> None:
    with pytest.raises(RuntimeError, match="does not require a gradient"):
        tg.ones(()).backward()


def test_only_leaves_are_switched_on_and_only_what_is_no_view_is_detached_in_place() -> None:
    x = leaf(1.0, 2.0)
    y = x * 2
    with pytest.raises(RuntimeError, match="can only be set on leaves"):
        y.requires_grad = True
    assert y.requires_grad_() is y
    with pytest.raises(RuntimeError, match=r"view cannot be detached in place; use .detach"):
        y[:1].detach_()
    assert y.detach_().is_leaf and not y.requires_grad
    z = x * 3
    x.detach_()
    z.sum().backward()
    assert x.grad is None


def test_integers_cannot_require_gradients() -> None:
    with pytest.raises(RuntimeError, match="floating point"):
        tg.tensor([1, 2], requires_grad=True)


def test_backward_for_chosen_inputs_only() -> None:
    x, y = leaf(2.0), leaf(3.0)
    (x * y).backward(tg.ones(1, dtype=tg.float64), inputs=[x])
    assert x.grad.tolist() == [3.0] and y.grad is None


def test_dtypes_come_back_as_they_were() -> None:
    x = tg.tensor([1.0, 2.0], requires_grad=True)
    (x * tg.tensor([1.0, 2.0], dtype=tg.float64)).sum().backward()
    assert x.grad.dtype == np.float32


# --- higher orders ----------------------------------------------------------------------------------------------------


def test_derivatives_of_every_order() -> None:
    x = leaf(0.7)
    y = x.tanh()
    wanted = np.polynomial.Polynomial([0, 1])  # tanh' = 1 - t^2, so each derivative is a polynomial in t
    t = float(np.tanh(0.7))
    for _ in range(5):
        (y,) = engine.grad([y], [x], [None], create_graph=True)
        wanted = wanted.deriv() * np.polynomial.Polynomial([1, 0, -1])
        assert y.item() == pytest.approx(wanted(t), rel=1e-12)


def test_third_order_through_fused_operations() -> None:
    x = leaf(0.3, -0.2, 0.5)

    def third(reference: bool) -> np.ndarray:
        with tg.use_reference(reference):
            y = (F.layer_norm(F.gelu(x), (3,)) * x.exp().detach()).sum()
            for _ in range(2):
                (g,) = engine.grad([y], [x], [None], create_graph=True)
                y = (g * g).sum()
            return engine.grad([y], [x], [None])[0].array

    np.testing.assert_allclose(third(False), third(True), rtol=1e-9)


def test_an_ordinary_pass_after_a_higher_order_one() -> None:
    x = leaf(1.0, 2.0, 4.0)
    y = F.layer_norm(x, (3,))
    c = tg.tensor([1.0, -1.0, 3.0], dtype=tg.float64)
    y.backward(c, retain_graph=True)
    first, x.grad = x.grad.array, None
    engine.grad([(y * c).sum()], [x], [None], create_graph=True)
    y.backward(c)
    np.testing.assert_allclose(x.grad.array, first, rtol=1e-12)


# --- modes ------------------------------------------------------------------------------------------------------------


def test_no_grad_nests_recurs_and_survives_exceptions() -> None:
    @tg.no_grad()
    def inner(n: int) -> bool:
        return inner(n - 1) if n else tg.is_grad_enabled()

    with tg.no_grad():
        assert inner(3) is False and tg.is_grad_enabled() is False
        with tg.enable_grad():
            assert tg.is_grad_enabled()
        assert not tg.is_grad_enabled()
    with pytest.raises(KeyError), tg.no_grad():
        raise KeyError
    assert tg.is_grad_enabled()


def test_no_grad_round_a_generator() -> None:
    @tg.no_grad()
    def numbers() -> object:
        yield tg.is_grad_enabled()
        yield tg.is_grad_enabled()

    steps = numbers()
    assert (next(steps), tg.is_grad_enabled(), next(steps)) == (False, True, False)


def test_modes_belong_to_a_thread() -> None:
    seen = []
    with tg.no_grad(), tg.use_reference():
        thread = threading.Thread(target=lambda: seen.append((tg.is_grad_enabled(), engine.mode.reference)))
        thread.start()
        thread.join()
    assert seen == [(True, False)]


class Slow(np.ndarray):
    """An array to which two threads cannot add at once: what one has read is old when it writes."""

    def __iadd__(self, other: np.ndarray) -> Slow:
        total = np.asarray(self) + other
        time.sleep(0.001)
        np.copyto(self, total)
        return self


@pytest.mark.parametrize("start", [None, np.zeros(100).view(Slow)], ids=["none yet", "slow"])
def test_threads_that_add_to_the_same_leaf(start: np.ndarray | None) -> None:
    x = leaf(*np.zeros(100))
    x.grad = None if start is None else engine.make(start)

    def work() -> None:
        for _ in range(50):
            (x * 1.0).sum().backward()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert x.grad.tolist() == [200.0] * 100


# --- detach, retain, hooks --------------------------------------------------------------------------------------------


def test_detach_cuts_and_shares_memory() -> None:
    x = leaf(3.0)
    d = x.detach()
    (x * d).sum().backward()
    assert x.grad.tolist() == [3.0] and not d.requires_grad and np.shares_memory(d.array, x.array)


def test_changing_a_detached_tensor_is_noticed() -> None:
    y = leaf(2.0) * 1.0
    z = y * y
    y.detach().mul_(5.0)
    with pytest.raises(RuntimeError, match="changed in place"):
        z.sum().backward()


class Untouched(tg.autograd.Function):
    """A step that must not be gone back through."""

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        raise AssertionError("nobody asked for this gradient")


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("shape", [(2, 2), (3, 2, 2)])
def test_what_leads_to_no_input_that_is_asked_for_is_left_alone(create_graph, shape):
    """Its rules do not run, whatever was changed in place that they need; nor do rules for other inputs of a step."""
    tg.manual_seed(0)  # of other numbers some sums nearly cancel
    x, w = tg.randn(*shape, requires_grad=True), tg.randn(2, 2, requires_grad=True)
    aside, start = tg.softmax(w * 1, -1), w * 1
    held = start.sin()
    start.zero_()  # of which the way back from `held` to w knows nothing any more
    other = x * 3
    loss = (other @ Untouched.apply(held) * aside).sum()
    other.data.storage.written()  # so that the gradient of what it was multiplied with is not to be had, either
    (found,) = tg.autograd.grad(loss, x, create_graph=create_graph, retain_graph=True)
    wanted = 3 * aside.detach() @ (2 * held.detach()).T
    np.testing.assert_allclose(found.detach().numpy(), np.broadcast_to(wanted.numpy(), shape), rtol=1e-5)
    loss.backward(inputs=[x])
    np.testing.assert_array_equal(x.grad.numpy(), found.detach().numpy())
    with pytest.raises(RuntimeError, match="released by an earlier backward"):
        tg.autograd.grad(loss, x)


def test_zeros_for_what_is_not_used_have_a_gradient_if_the_graph_is_made() -> None:
    found = []
    for t in (pytest.importorskip("torch"), tg):
        x, y = (t.ones(2, requires_grad=True) for _ in range(2))
        for create_graph in (False, True):
            _, zeros = t.autograd.grad((x * x).sum(), [x, y], materialize_grads=True, create_graph=create_graph)
            found.append((zeros.tolist(), zeros.requires_grad))
    assert found[:2] == found[2:]


def test_retain_grad() -> None:
    x = leaf(2.0)
    y = x * 3
    y.retain_grad()
    (y * y).sum().backward()
    assert y.grad.tolist() == [12.0] and x.grad.tolist() == [36.0]


def test_who_retains_a_gradient_says_so() -> None:
    x = leaf(1.0, 2.0)
    y, z = x * 2, x * 3
    y.retain_grad()
    x.retain_grad()  # changes nothing
    assert (x.retains_grad, y.retains_grad, z.retains_grad) == (False, True, False)
    (y * z).sum().backward()
    assert y.grad.tolist() == z.tolist()  # and that needs no warning
    z.retain_grad()
    assert z.retains_grad and z.grad is None


def test_a_retained_gradient_is_that_of_the_value_after_a_change_in_place() -> None:
    x = leaf(2.0)
    y = x * 3
    y.retain_grad()
    y.neg_()
    (y * y).sum().backward()
    assert y.grad.tolist() == [-12.0] and x.grad.tolist() == [36.0]


def test_gradients_for_what_requires_none_are_refused() -> None:
    x = leaf(2.0)
    for inputs, fault in (
        ([], "`inputs` of backward is empty"),
        ([tg.ones(1)], "input 0 of backward does not require a gradient"),
        ([x, tg.ones(1)], "input 1 of backward does not require a gradient"),
    ):
        with pytest.raises(RuntimeError, match=fault):
            (x * x).sum().backward(inputs=inputs)
        with pytest.raises(RuntimeError, match=fault):
            tg.autograd.backward((x * x).sum(), inputs=inputs)
    assert x.grad is None


def test_a_leaf_that_is_switched_off_gathers_nothing_of_what_was_computed_before() -> None:
    x, y = leaf(2.0), leaf(3.0)
    product = x * y
    x.requires_grad_(False)
    product.sum().backward()
    assert x.grad is None and y.grad.tolist() == [2.0]


def test_a_view_older_than_the_shape_of_its_base_means_the_elements_it_meant() -> None:
    """The way from the base to the view would lead to other elements in the new shape."""
    x = tg.ones(2, 2, requires_grad=True)
    y = x * 1
    row = y[0]
    y.t_()
    y.mul_(2.0)
    (row * tg.tensor([1.0, 10.0])).sum().backward()
    assert x.grad.tolist() == [[2.0, 20.0], [0.0, 0.0]]


def test_a_view_older_than_the_shape_of_its_base_is_written_to() -> None:
    x = tg.arange(6.0).reshape(2, 3).requires_grad_()
    y = x * 1
    row = y[1]
    y.t_()
    y.unsqueeze_(1)
    row.add_(x[0])
    y.mul_(2)
    (row**2).sum().backward()
    assert row.tolist() == [6.0, 10.0, 14.0]
    assert x.grad.tolist() == [[24.0, 40.0, 56.0], [24.0, 40.0, 56.0]]


def test_a_retained_gradient_is_that_of_the_value_a_view_has_now() -> None:
    y = tg.ones(2, requires_grad=True) * 1
    first = y[:1]
    first.retain_grad()
    doubled = first * 2
    first.mul_(3)
    (first.sum() + doubled.sum()).backward()
    assert first.grad.tolist() == [1.0]


def test_hooks_see_the_complete_gradient_and_may_replace_it() -> None:
    x, seen = leaf(1.0), []
    y = x * 2
    handle = y.register_hook(lambda g: seen.append(g.item()))
    y.register_hook(lambda g: g * 10)
    (y + y * 3).sum().backward(retain_graph=True)
    assert seen == [4.0] and x.grad.tolist() == [80.0]
    handle.remove()
    x.grad = None
    (y * 1).sum().backward()
    assert seen == [4.0] and x.grad.tolist() == [20.0]


def test_a_hook_may_write_into_a_gradient_that_was_broadcast_and_go_with_a_block() -> None:
    x = leaf(1.0, 2.0)
    y = x * 2
    with y.register_hook(lambda g: g.mul_(5)):
        y.sum().backward()
    assert x.grad.tolist() == [10.0, 10.0]
    y = x * 2
    with y.register_hook(lambda g: g * 0):
        pass
    y.sum().backward()
    assert x.grad.tolist() == [12.0, 12.0]


def test_hooks_after_a_gradient_was_added_may_use_it_up() -> None:
    """The optimiser's step inside of the backward pass, as in PyTorch's tutorial of that name."""
    w, b = leaf(1.0, 2.0), leaf(3.0)
    optimizers = {t: tg.optim.SGD([t], lr=0.5) for t in (w, b)}
    seen = []

    def step(t: Tensor) -> None:
        seen.append(t.grad.tolist())
        optimizers[t].step()
        optimizers[t].zero_grad()

    handles = [t.register_post_accumulate_grad_hook(step) for t in (w, b)]
    (w * 4 + b).sum().backward()
    assert sorted(seen) == [[2.0], [4.0, 4.0]]
    assert (w.tolist(), b.tolist(), w.grad, b.grad) == ([-1.0, 0.0], [2.0], None, None)
    tg.autograd.grad((w * b).sum(), [w, b])  # adds to no .grad
    w.sum().backward(inputs=[w])
    assert len(seen) == 3
    for handle in handles:
        handle.remove()
    w.sum().backward()
    assert len(seen) == 3 and w.grad.tolist() == [1.0, 1.0]
    with pytest.raises(RuntimeError, match="only a leaf that requires a gradient"):
        (w * 2).register_post_accumulate_grad_hook(step)
    w.register_post_accumulate_grad_hook(lambda t: t.grad)
    with pytest.raises(RuntimeError, match="must return None"):
        w.sum().backward()


@pytest.mark.parametrize(
    ("returned", "error", "message"),
    [
        (lambda g: g.double(), RuntimeError, "dtype of its tensor, float32, got float64"),
        (lambda g: g[:1], RuntimeError, r"shape of its tensor, \(2,\), got \(1,\)"),
        (lambda g: g.detach().numpy(), TypeError, "that a hook returns must be a tensor or None, got ndarray"),
    ],
    ids=["dtype", "shape", "no tensor"],
)
@pytest.mark.parametrize("create_graph", [False, True])
def test_what_a_hook_returns_fits_its_tensor(
    returned: object, error: type[Exception], message: str, create_graph: bool
) -> None:
    x = tg.ones(2, requires_grad=True)
    for t in (x, x * 2):
        handle = t.register_hook(returned)
        with pytest.raises(error, match=message):
            (t * t).sum().backward(create_graph=create_graph)
        handle.remove()
    assert x.grad is None


@pytest.mark.parametrize(
    ("gradient", "error", "message"),
    [
        (tg.ones(3, 2), RuntimeError, r"shape of its tensor, \(2,\), got \(3, 2\)"),
        (tg.tensor(0.0), RuntimeError, r"\(2,\), got \(\)"),
        (tg.ones(2, dtype=tg.int64), RuntimeError, "dtype of its tensor, float32, got int64"),
        (tg.ones(2, dtype=tg.float64), RuntimeError, "got float64; use .to"),
        (np.ones(2, np.float32), TypeError, "must be a tensor or None, got ndarray"),
        (1.0, TypeError, "got float"),
    ],
)
def test_a_gradient_that_is_set_fits_its_tensor(gradient: object, error: type[Exception], message: str) -> None:
    for x in (tg.ones(2, requires_grad=True), tg.ones(2), tg.nn.Parameter(tg.ones(2))):
        with pytest.raises(error, match=message):
            x.grad = gradient
        assert x.grad is None
        with pytest.raises(RuntimeError, match="its own gradient"):
            x.grad = x


def test_a_gradient_that_is_set_is_added_to_and_can_be_taken_away() -> None:
    x, given = leaf(1.0, 2.0), tg.tensor([10.0, 20.0], dtype=tg.float64)
    x.grad = given
    x.sum().backward()
    assert x.grad is given and given.tolist() == [11.0, 21.0]
    del x.grad
    assert x.grad is None
    with pytest.raises(TypeError, match="gradient must be a tensor or None, got ndarray"):
        (x * 2).backward(np.ones(2))


# --- in place ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("use", [lambda u: u * u, Tensor.exp, Tensor.tanh, lambda u: F.softmax(u, 0), F.gelu])
def test_changing_what_a_rule_needs_is_noticed(use: object) -> None:
    u = leaf(1.0, 2.0) * 1.0
    v = use(u)  # type: ignore[operator]
    u.mul_(3.0)
    v.mul_(3.0)
    with pytest.raises(RuntimeError, match="changed in place"):
        v.sum().backward()


IDS = tg.tensor([0, 2, 2])
OPTIONS = {  # operations on x (3, 4) that take a tensor which gets no gradient, and such a tensor
    "index": (lambda x, t: x[t], IDS),
    "index beside a number": (lambda x, t: x[:, None][t, 0, 1:], IDS),
    "index of columns": (lambda x, t: x[..., t], IDS),
    "mask": (lambda x, t: x[t], tg.tensor([True, False, True])),
    "number of one row": (lambda x, t: tg.zeros(3, 4).index_put((t,), x), IDS),
    "target": (lambda x, t: F.cross_entropy(x, t), IDS),
    "every second target": (lambda x, t: F.cross_entropy(x, t[::2]), tg.tensor([0, 3, 1, 2, 0])),
    "class weight": (lambda x, t: F.cross_entropy(x, IDS, t), tg.tensor([1.0, 2.0, 3.0, 4.0])),
    "attention mask": (lambda x, t: F.scaled_dot_product_attention(x, x, x, t), tg.eye(3)),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_changing_an_option_is_noticed(name: str) -> None:
    """Memory for batches that is used again is changed when the graph is gone, but not before."""
    operation, option = OPTIONS[name]
    x, option = tg.randn(3, 4, requires_grad=True), option.clone()
    for _ in range(2):
        y = operation(x, option).sum()
        y.backward(retain_graph=True)
        option[:1] = 1
        with pytest.raises(RuntimeError, match="changed in place"):
            tg.autograd.grad(y, x, create_graph=True)
        with pytest.raises(RuntimeError, match=r"needed for the gradient of .*, was changed in place"):
            y.backward()


@engine.primitive(x=lambda g, factor: scaled(g, factor=factor))
def scaled(x: np.ndarray, *, factor: np.ndarray) -> np.ndarray:
    return x * factor


def _scaled_backward(g: np.ndarray, wanted: list[bool], kept: None, factor: np.ndarray) -> list[np.ndarray]:
    return [g * factor]


@engine.fused(reference=lambda x, *, factor: x * factor, backward=_scaled_backward)
def fused_scaled(x: np.ndarray, *, factor: np.ndarray) -> tuple[np.ndarray, None]:
    return x * factor, None


@pytest.mark.parametrize("operation", [scaled, fused_scaled])
@pytest.mark.parametrize("create_graph", [False, True])
def test_every_operation_takes_tensors_for_options_that_are_arrays(operation: object, create_graph: bool) -> None:
    x, factor = leaf(1.0, 2.0), tg.tensor([3.0, 4.0], dtype=tg.float64)
    y = (operation(x**2, factor=factor) ** 2).sum()  # type: ignore[operator]
    (g,) = tg.autograd.grad(y, x, retain_graph=True, create_graph=create_graph)
    assert g.tolist() == [36.0, 512.0]
    if create_graph:
        assert tg.autograd.grad(g.sum(), x, retain_graph=True)[0].tolist() == [108.0, 768.0]
    factor.mul_(2.0)
    for late in [y, g.sum()] if create_graph else [y]:
        with pytest.raises(RuntimeError, match="changed in place"):
            tg.autograd.grad(late, x, create_graph=create_graph, retain_graph=True)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: F.gelu(x, approximate="tanh"),
        lambda x: F.rms_norm(x, (4,)),
        lambda x: F.scaled_dot_product_attention(x, x * 2, x * 3),
        lambda x: F.softmax(x, -1),
        lambda x: F.layer_norm(x, (4,)),
        lambda x: F.linear(x, x[0] * 2),
    ],
    ids=["gelu", "rms_norm", "attention", "softmax", "layer_norm", "linear"],
)
def test_a_change_between_two_derivatives_is_noticed_or_changes_nothing(function: object) -> None:
    """The second derivative goes by twins of a fused operation's inputs, which lie in the same memory."""
    x = tg.tensor(np.random.default_rng(0).normal(size=(2, 3, 4)), requires_grad=True)

    def second(change: bool) -> Tensor:
        h = x * 1.0
        (first,) = tg.autograd.grad(function(h).pow(3).sum(), x, create_graph=True)  # type: ignore[operator]
        if change:
            h.mul_(1.5)
        return tg.autograd.grad((first * first).sum(), x)[0]

    try:
        found = second(True)
    except RuntimeError as error:
        assert "was changed in place after it was used" in str(error)
    else:
        assert found.tolist() == second(False).tolist()


def test_changing_an_option_is_noticed_by_higher_derivatives() -> None:
    x, ids = tg.randn(3, 4, requires_grad=True), IDS.clone()
    (first,) = tg.autograd.grad((x[ids] ** 3).sum(), x, create_graph=True)
    (second,) = tg.autograd.grad(first.sum(), x, create_graph=True)
    ids.zero_()
    for g in (first, second):
        with pytest.raises(RuntimeError, match="'index', needed for the gradient of put"):
            g.sum().backward(retain_graph=True)


@pytest.mark.parametrize(
    "again",
    [Tensor, tg.nn.Parameter, tg.nn.Buffer, tg.as_tensor, Tensor.detach, lambda a: Tensor(a[:1]), lambda a: a.view(-1)],
    ids=["Tensor", "Parameter", "Buffer", "as_tensor", "detach", "Tensor of a view", "view"],
)
def test_a_change_by_another_name_is_noticed(again: object) -> None:
    x, a = tg.ones(2, requires_grad=True), tg.ones(2)
    y = (x * a).sum()
    with tg.no_grad():
        again(a).fill_(9.0)  # type: ignore[operator]
    assert a[0].item() == 9.0
    with pytest.raises(RuntimeError, match="changed in place"):
        y.backward()


def test_a_tensor_with_other_data_says_what_does_not_fit() -> None:
    x = leaf(1.0, 2.0)
    y = (x * 2).sum()
    (x * 3).sum().backward()
    x.data = tg.ones(3, dtype=tg.float64)
    with pytest.raises(RuntimeError, match=r"shape \(2,\) does not fit its tensor, whose data now has shape \(3,\)"):
        y.backward()
    with pytest.raises(RuntimeError, match=r"added to .grad must have the shape of its tensor, \(2,\), got \(3,\)"):
        (x * 2).sum().backward()
    with pytest.raises(RuntimeError, match=r"must be floating point, got torch.int64"):
        x.data = tg.ones(3, dtype=tg.int64)
    x.grad = None
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0, 2.0]


def test_the_memory_without_its_history_is_the_way_round_that() -> None:
    """As in PyTorch: what is written through `.data`, or by NumPy, is the user's own affair."""
    x, a = tg.ones(2, requires_grad=True), tg.ones(2)
    y = (x * a).sum()
    a.data.fill_(9.0)
    y.backward()
    assert x.grad.tolist() == [9.0, 9.0]
    with pytest.raises(TypeError, match="data must be a tensor, got ndarray"):
        a.data = np.zeros(2)


def test_changing_what_no_rule_needs_is_allowed() -> None:
    x = leaf(1.0, 2.0)
    u = x * 1.0
    v = u + 1.0
    u.mul_(3.0)
    (v + u).sum().backward()
    assert x.grad.tolist() == [4.0, 4.0]


def test_leaves_are_protected_except_under_no_grad() -> None:
    x = leaf(1.0, 2.0)
    with pytest.raises(RuntimeError, match="leaf"):
        x.mul_(2.0)
    with pytest.raises(RuntimeError, match="view of a leaf"):
        x[0].mul_(2.0)
    with tg.no_grad():
        x.mul_(2.0)
    assert x.tolist() == [2.0, 4.0] and x.requires_grad and x.is_leaf


def test_a_view_taken_under_no_grad_is_written_to_there_only() -> None:
    """Otherwise the base would change, and nothing that is recorded would know of it."""
    x = leaf(1.0, 2.0, 3.0)
    for base in (x, x * 1):
        before = base.tolist()
        with tg.no_grad():
            view = base[:2]
            of_view = view.reshape(2, 1)
        for target in (view, view[1:], of_view):
            with pytest.raises(RuntimeError, match="view that was taken under no_grad"):
                target.mul_(2)
            with pytest.raises(RuntimeError, match="take the view where gradients are recorded"):
                target[0] = 7.0
        assert base.tolist() == before and not view.requires_grad
        (view * 2 + base[:2]).sum().backward()
        with tg.no_grad():
            view.mul_(3)
        assert base.tolist() == [3.0, 6.0, 3.0] and view.tolist() == [3.0, 6.0]
        with tg.no_grad():
            view.div_(3)
    plain = tg.ones(3)
    with tg.no_grad():
        view = plain[:2]
    view.mul_(2)
    assert plain.tolist() == [2.0, 2.0, 1.0]


def test_a_leaf_is_an_array_under_no_grad() -> None:
    x = leaf(1.0, 2.0)
    with pytest.raises(RuntimeError, match=r"use tensor.detach\(\).numpy\(\)"):
        x.numpy()
    with tg.no_grad():
        assert x.numpy() is x.array and np.asarray(x).tolist() == [1.0, 2.0]


def test_expanded_memory_is_not_written_to() -> None:
    with pytest.raises(RuntimeError, match="clone"):
        tg.ones(1, 3).expand(2, 3).mul_(2.0)


def test_a_view_taken_before_a_write_has_the_new_gradient() -> None:
    x = leaf(1.0, 2.0, 3.0)
    y = x * 1.0
    view = y[1:]
    y.mul_(x)  # y = x^2, and so is the view
    view.sum().backward()
    assert x.grad.tolist() == [0.0, 4.0, 6.0]


def test_a_view_of_a_constant_has_the_graph_that_the_constant_gets() -> None:
    w, base = leaf(2.0, 3.0), tg.ones(2, dtype=tg.float64)
    view = base[1:]
    base.mul_(w)
    assert view.requires_grad
    (view * view).sum().backward()
    assert w.grad.tolist() == [0.0, 6.0]


def test_a_write_through_a_view_of_a_transposed_reshape() -> None:
    x, v = tg.tensor(np.arange(6.0).reshape(2, 3), requires_grad=True), leaf(5.0, 7.0)
    y = x * 2.0
    y.t()[1].mul_(v)
    y.view(6)[5:] = 0.0
    (y * y).sum().backward()
    assert x.grad.tolist() == [[0.0, 8.0 * 25, 16.0], [24.0, 32.0 * 49, 0.0]]
    assert v.grad.tolist() == [2 * 5 * 4.0, 2 * 7 * 64.0]


def test_filling_a_table_row_by_row() -> None:
    x = leaf(1.0, 2.0, 3.0)
    table = tg.zeros(3, 2, dtype=tg.float64)
    for i in range(3):
        table[i] = x[i] * tg.tensor([1.0, 10.0], dtype=tg.float64)
    (table * table).sum().backward()
    assert x.grad.tolist() == [202.0, 404.0, 606.0]


# --- numbers ----------------------------------------------------------------------------------------------------------


def test_numpy_numbers_on_either_side() -> None:
    x = tg.tensor([1.0, 2.0], requires_grad=True)
    for number in (np.float64(2.0), np.float32(2.0), np.int64(2)):
        for y in (number * x, x * number):
            assert isinstance(y, Tensor) and y.requires_grad and y.dtype == np.float32
    y = np.float64(1.0) - x
    y.sum().backward()
    assert x.grad.tolist() == [-1.0, -1.0]


@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (2, 0, 3)])
def test_empty_and_0_d_tensors(shape: tuple[int, ...]) -> None:
    x = tg.ones(*shape, requires_grad=True) if shape else tg.tensor(1.0, requires_grad=True)
    ((x * 2 + x.exp()).reshape(-1).sum() + F.relu(x).sum()).backward()
    assert x.grad.shape == x.shape


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (lambda: tg.ones(2, 3) + tg.ones(4), r"add: .*\(2, 3\).*\(4,\)"),
        (lambda: tg.ones(2, 3) @ tg.ones(2, 3), r"matmul: .*\(2, 3\).*\(2, 3\)"),
        (lambda: F.linear(tg.ones(2, 3), tg.ones(4, 5)), r"linear: .*\(4, 5\).*\(2, 3\)"),
        (lambda: tg.ones(2, 3).view(4), r"view: .*\(4,\).*6"),
        (lambda: tg.ones(2, 3).t().view(6), r"view: .*contiguous"),
        (lambda: tg.cat([tg.ones(2, 3), tg.ones(3, 2)]), r"cat: .*\(2, 3\).*\(3, 2\)"),
        (lambda: tg.ones(2, 3).sum(2), r"sum: dim.*2"),
        (lambda: F.layer_norm(tg.ones(2, 3), (4,)), r"layer_norm: .*\(4,\).*\(2, 3\)"),
        (lambda: F.embedding(tg.tensor([3]), tg.ones(3, 2)), r"3"),
        (lambda: F.cross_entropy(tg.ones(2, 3), tg.tensor([0, 3])), r"3"),
        (
            lambda: F.scaled_dot_product_attention(*[tg.ones(2, 4, 5, 8)] * 3, attn_mask=tg.ones(2, 5, 5)),
            r"attention mask must broadcast to \(B, H, Tq, Tk\) = \(2, 4, 5, 5\), got \(2, 5, 5\)",
        ),
        (lambda: tg.nn.MultiHeadAttention(10, 3), r"10 and 3"),
        (lambda: tg.ones(2)[5], r"5"),
    ],
)
def test_errors_name_the_operation_and_both_sides(run: object, message: str) -> None:
    with pytest.raises((RuntimeError, ValueError, IndexError), match=message) as error:
        run()  # type: ignore[operator]
    assert "\n" not in str(error.value)


# --- the example of the articles --------------------------------------------------------------------------------------


def test_attention_of_three_words_by_hand() -> None:
    """x = [[1,0],[0,1],[1,1]] as queries, keys and values."""
    x = tg.tensor([[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]])
    attention = tg.nn.MultiHeadAttention(d_model=2, num_heads=1, bias=False)
    with tg.no_grad():
        for projection in (attention.query_proj, attention.key_proj, attention.value_proj, attention.out_proj):
            projection.weight.copy_(tg.eye(2))
    out, weights = attention(x, need_weights=True)
    wanted = [[0.40, 0.20, 0.40], [0.20, 0.40, 0.40], [0.25, 0.25, 0.50]]
    np.testing.assert_allclose(weights.detach().array[0, 0], wanted, atol=5e-3)
    np.testing.assert_allclose(out.array[0], [[0.80, 0.60], [0.60, 0.80], [0.75, 0.75]], atol=5e-3)


def test_gradients_of_slices_are_put_together():
    """Slices that tile an axis, in any order and of any size; overlapping ones; rows; and the whole beside them."""
    x = np.arange(24.0).reshape(2, 3, 4)
    weights = np.random.default_rng(0).standard_normal((2, 3, 4))

    def gradient(function):
        t = tg.tensor(x, requires_grad=True)
        function(t).backward()
        return t.grad.numpy()

    def weighted(*indices, whole=0.0):
        want = np.full(x.shape, whole)
        for scale, index in enumerate(indices, 1):
            want[index] += scale * weights[index]
        got = gradient(
            lambda t: sum(
                (scale * (t[index] * tg.tensor(weights[index])).sum() for scale, index in enumerate(indices, 1)),
                (whole * t).sum(),
            )
        )
        assert np.allclose(got, want, rtol=1e-14)

    every = slice(None)
    for whole in (0.0, 2.0):
        weighted((..., slice(0, 1)), (..., slice(1, 4)), whole=whole)
        weighted((..., slice(2, 4)), (..., slice(0, 2)), whole=whole)
        weighted((every, slice(0, 2)), (every, slice(1, 3)), whole=whole)  # overlap
        weighted((every, slice(0, 1)), (every, slice(2, 3)), whole=whole)  # a gap
        weighted((every, 2), (every, 0), (every, -2), whole=whole)
        weighted((every, slice(0, 1)), (..., slice(1, 4)), (0,), whole=whole)  # of different axes
        weighted((every, slice(0, 2)), (every, slice(0, 2)), whole=whole)  # the same twice
        weighted((every, slice(0, 3, 2)), (every, slice(1, 3, 2)), whole=whole)  # every other one
        weighted((1,), (0,), whole=whole)
    halves = gradient(lambda t: sum(part.sum() * n for n, part in enumerate(t.split([1, 2, 1], dim=2))))
    assert np.array_equal(halves[0, 0], [0, 1, 1, 2])


def test_slices_side_by_side_are_copied_together_once(monkeypatch):
    """The gradient of a split is not built from zeros."""
    t = tg.ones(4, 6, requires_grad=True)
    monkeypatch.setattr(np, "zeros", None)
    a, b, c = t.split(2, dim=1)
    (a + 2 * b + 3 * c).sum().backward()
    assert t.grad.numpy()[0].tolist() == [1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize("whole", [True, False])
def test_slices_of_one_array_are_not_copied_and_stay_as_they_are(monkeypatch, whole):
    """What `cat` sends to parts of one tensor is put together as it lies; it is also `z`'s, so nobody may add to it."""
    z, t = (tg.ones(4, 6, requires_grad=True) for _ in range(2))  # the walk comes to the oldest, z, last
    y = t * 1
    square = (y * y).sum()  # older than the slices: its gradient is added to theirs
    a, b = (y[:, :2], y[:, 2:]) if whole else (y[:, :2], y[:, 1:5])
    sent = tg.tensor(np.arange(24.0).reshape(4, 6))
    both = tg.cat([a, b], dim=1) + z
    if whole:
        monkeypatch.setattr(np, "concatenate", None)
    tg.autograd.backward([square, (both * sent).sum()])
    assert np.array_equal(z.grad.numpy(), sent.numpy())
    wanted = np.full((4, 6), 2.0)
    wanted[:, :2] += sent.numpy()[:, :2]
    wanted[:, slice(2, 6) if whole else slice(1, 5)] += sent.numpy()[:, 2:]
    assert np.array_equal(t.grad.numpy(), wanted)


# --- walking over a graph by hand, as PyTorch's tutorials do ----------------------------------------------------------


class Twice(tg.autograd.Function):
    """A Function with two results."""

    @staticmethod
    def forward(ctx, x):
        return x * 2, x + 2

    @staticmethod
    def backward(ctx, g, h):
        return 2 * g + h


def test_a_graph_can_be_walked_by_next_functions() -> None:
    x, y = leaf(1.0, 2.0), tg.ones(2, dtype=tg.float64)
    step = (x * y).log_softmax(0).grad_fn
    assert step.name() == "LogSoftmaxBackward0" and repr(step).startswith("<LogSoftmaxBackward0 object at 0x")
    ((product, number),) = step.next_functions
    assert product.name() == "MulBackward0" and number == 0 and not hasattr(product, "variable")
    (leaf_of_x, _), (nothing, _) = product.next_functions
    assert leaf_of_x.name() == "torch::autograd::AccumulateGrad" and leaf_of_x.variable is x and nothing is None
    assert leaf_of_x.next_functions == () and repr(leaf_of_x).startswith("<AccumulateGrad object")


def drawn(t: Any) -> list[Any]:
    """A graph as programs draw it: the classes of its steps, what leads where, leaves, and what was saved."""

    class Exp(t.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(y := x.exp())
            ctx.factor = 3
            return y

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]

    class Both(t.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx, x):
            return x * 1, x * 2

        @staticmethod
        def backward(ctx, g, h):
            return g + 2 * h

    x, w = (t.tensor([1.0, 2.0], requires_grad=True) for _ in range(2))
    called = Exp.apply(x)
    first, second = Both.apply(x * w)
    out = ((first * second).tanh() + called).sum()
    lines: list[Any] = [called.grad_fn.factor, called.grad_fn.needs_input_grad, first.grad_fn is second.grad_fn]
    seen: dict[Any, int] = {}

    def walk(step: Any) -> None:
        if step in seen:
            return
        seen[step] = len(seen)
        saved = [name for name in dir(step) if name.startswith("_saved_") and t.is_tensor(getattr(step, name))]
        held = [tuple(kept.shape) for kept in step.saved_tensors] if hasattr(step, "saved_tensors") else None
        lines.append((type(step).__name__, step.name(), saved, held))
        if hasattr(step, "variable"):
            lines.append((step.variable is x, step.variable is w))
        for other, number in step.next_functions:
            if other is not None:
                walk(other)
                lines.append((seen[step], seen[other], number))

    walk(out.grad_fn)
    view = x.view(1, 2)[0]
    return [*lines, view._is_view(), view._base is x, x._is_view(), x._base]


def test_a_graph_is_drawn_as_in_pytorch() -> None:
    found = drawn(tg)
    assert found[2] and ("MulBackward0", "MulBackward0", ["_saved_other", "_saved_self"], None) in found
    torch = pytest.importorskip("torch")
    assert found == drawn(torch)


def test_steps_have_pytorchs_names() -> None:
    torch = pytest.importorskip("torch")
    programs: list[Any] = [
        lambda t, x: t.nn.functional.linear(x, x, x[0]),
        lambda t, x: t.nn.functional.linear(x, x),
        lambda t, x: t.nn.Linear(3, 2)(x[None]),
        lambda t, x: x @ x.t(),
        lambda t, x: x.t(),
        lambda t, x: x[None] @ x[None].transpose(1, 2),
        lambda t, x: x.transpose(0, 1),
        lambda t, x: x.view(-1),
        lambda t, x: x.unsqueeze(0),
        lambda t, x: t.stack([x, x]),
        lambda t, x: x.sum(),
        lambda t, x: x.sum(1),
        lambda t, x: x.mean(0),
        lambda t, x: x.max(),
        lambda t, x: x.clamp(0, 1),
        lambda t, x: x.log1p(),
        lambda t, x: x[0].dot(x[1]),
        lambda t, x: x.std(),
        lambda t, x: x.norm(),
        lambda t, x: x.masked_fill(x > 1, 0.0),
        lambda t, x: t.nn.functional.mse_loss(x, t.ones(3, 3)),
        lambda t, x: t.nn.CrossEntropyLoss()(x, t.tensor([0, 1, 2])),
        lambda t, x: t.nn.functional.binary_cross_entropy_with_logits(input=x, target=t.ones(3, 3)),
        lambda t, x: t.nn.SiLU()(x),
        lambda t, x: t.nn.functional.leaky_relu(x),
    ]
    for number, program in enumerate(programs):
        names = []
        for t in (torch, tg):
            y = program(t, t.linspace(0.1, 2.0, 9).reshape(3, 3).requires_grad_())
            before = y.grad_fn.name()
            y.sum().backward()
            names += [before, y.grad_fn.name(), type(y.grad_fn).__name__]
        assert len(set(names)) == 1, (number, names)


def test_what_is_written_into_a_part_is_named() -> None:
    x = leaf(1.0, 2.0) * 1
    x[0].mul_(3)
    assert x.grad_fn.name() == "torch::autograd::CopySlices" and "grad_fn=<CopySlices>" in repr(x)


def test_what_is_handed_on_keeps_its_name() -> None:
    """A function that returns its input gives its name to nothing."""
    x = leaf(1.0, 2.0)
    y = x * 2
    assert tg.nn.functional.dropout(y, 0.0).grad_fn is y.grad_fn and y.grad_fn.name() == "MulBackward0"


ONE_STEP = {
    "RsubBackward1": lambda x: 1 - x,
    "VarBackward0": lambda x: x.var(1),
    "LogsumexpBackward0": lambda x: x.logsumexp(1),
    "StackBackward0": lambda x: tg.stack([x, x, x], 1),
    "TrilBackward0": lambda x: x.tril(),
    "TriuBackward0": lambda x: x.triu(1),
    "GatherBackward0": lambda x: x.gather(1, tg.tensor([[0], [1]])),
    "IndexBackward0": lambda x: x.max(1).values,
    "UnsafeViewBackward0": lambda x: tg.einsum("bij,bjk->bik", x.detach().reshape(1, 2, 2), x[None]),
}


@pytest.mark.parametrize("name", ONE_STEP)
def test_what_is_one_step_is_recorded_as_one(name: str) -> None:
    """A Node takes microseconds, as many as hundreds of elements do: for tiny models their number decides."""
    x = leaf(1.0, 2.0, 3.0, 5.0).reshape(2, 2)
    node = ONE_STEP[name](x).grad_fn
    behind = {step.name() for step, _ in node.next_functions if step is not None}
    assert node.name() == name and behind <= {"ViewBackward0", "UnsqueezeBackward0"}


def test_places_that_were_found_need_no_sum_of_repeats(monkeypatch: pytest.MonkeyPatch) -> None:
    """No element is the largest of two rows, so that gradients are assigned; np.add.at takes ten times as long."""
    monkeypatch.setattr(regions.Region, "add_to", refuse_repeats)
    x = tg.tensor([[3.0, 1.0, 2.0], [0.0, 5.0, 4.0]], dtype=tg.float64, requires_grad=True)
    for values in (x.max(1).values, x.max(0, keepdim=True).values, x.sort(1).values, x.topk(2, 0).values):
        values.sum().backward()
    assert x.grad.tolist() == [[4.0, 2.0, 2.0], [2.0, 4.0, 3.0]]


def refuse_repeats(region: regions.Region, total: np.ndarray) -> None:
    assert not region.repeats
    total[region.index] += region.value


def test_a_leaf_that_is_gone_is_drawn_as_nan() -> None:
    total = (leaf(1.0, 2.0) * 2).sum()
    gone = total.grad_fn.next_functions[0][0].next_functions[0][0].variable
    assert gone.shape == (2,) and gone.isnan().all()


def test_what_a_rule_keeps_is_seen_at_its_node() -> None:
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    product, root, total = x * w, x.exp(), x + w
    assert product.grad_fn._saved_self.tolist() == [1.0, 2.0] and product.grad_fn._saved_other.tolist() == [3.0, 4.0]
    assert product.grad_fn._saved_self.requires_grad and root.grad_fn._saved_result.tolist() == root.tolist()
    assert (x * 2).grad_fn._saved_other == 2
    with pytest.raises(AttributeError, match="add did not keep 'a' for its gradient, but nothing"):
        total.grad_fn._saved_self  # noqa: B018
    with pytest.raises(AttributeError, match="mul has no attribute 'weight'"):
        product.grad_fn.weight  # noqa: B018
    product.sum().backward()
    with pytest.raises(RuntimeError, match="released"):
        product.grad_fn._saved_self  # noqa: B018


def test_calls_of_functions_are_named_after_them() -> None:
    first, _ = Twice.apply(leaf(1.0))
    assert first.grad_fn.name() == "TwiceBackward" and "grad_fn=<TwiceBackward>" in repr(first)


def test_tensors_of_inference_mode_are_changed_in_it_alone_as_in_pytorch() -> None:
    torch = pytest.importorskip("torch")
    for t in (torch, tg):
        with t.inference_mode():
            x = t.ones(2)
            x.add_(1)
        changes = (lambda x: x.add_(1), lambda x: x[:1].mul_(2), lambda x: x.__setitem__(0, 3.0), lambda x: x.zero_())
        for change in changes:
            with pytest.raises(RuntimeError, match=r"[Ii]nference.*clone"), t.no_grad():
                change(x)
    assert x.tolist() == [2.0, 2.0] and x.clone().add_(1).tolist() == [3.0, 3.0]
