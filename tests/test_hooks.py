"""Hooks on the way back through a module: what they see, what they replace, and what is said of misuse."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tinygrad_tf as tg
from tinygrad_tf import nn


def seen_by_hooks(t: ModuleType) -> list[Any]:
    """What hooks on a small network note, in order, with and without a gradient for the input."""
    net = t.nn.Sequential(t.nn.Linear(4, 3), t.nn.Tanh(), t.nn.Linear(3, 2))
    for i, p in enumerate(net.parameters()):
        p.data.copy_(t.linspace(-1.0, 1.0 + i, p.numel()).reshape(p.shape))
    noted: list[Any] = []

    def hook(module: Any, grad_input: Any, grad_output: Any) -> None:
        noted.append((type(module).__name__, [None if g is None else g.tolist() for g in (*grad_input, *grad_output)]))

    for module in net.modules():
        module.register_full_backward_hook(hook)
    net[2].register_full_backward_pre_hook(lambda module, grad_output: (grad_output[0] * 2,))
    net[1].register_full_backward_hook(lambda module, grad_input, grad_output: (grad_input[0] * 3,), prepend=True)
    x = t.linspace(-2.0, 1.0, 8).reshape(2, 4)
    net(x).pow(2).sum().backward()
    x.requires_grad_()
    net(x).pow(2).sum().backward()
    return [*noted, ("x", [x.grad.tolist()]), *[("p", [p.grad.tolist()]) for p in net.parameters()]]


def test_hooks_see_and_replace_what_they_do_in_pytorch() -> None:
    torch = pytest.importorskip("torch")
    found, wanted = seen_by_hooks(tg), seen_by_hooks(torch)
    assert [name for name, _ in found] == [name for name, _ in wanted]
    for (_, got), (_, want) in zip(found, wanted, strict=True):
        for a, b in zip(got, want, strict=True):
            assert (a is None) == (b is None)
            if a is not None:
                np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


class Both(nn.Module):
    """Two arguments, one of them a number, and two results."""

    def forward(self, x: tg.Tensor, factor: Any) -> tuple[tg.Tensor, tg.Tensor]:
        return x * factor, x + 1


def noting(noted: list[Any]) -> Callable[..., None]:
    return lambda module, grad_input, grad_output: noted.append((grad_input, grad_output))


def test_results_and_arguments_without_a_gradient_are_none() -> None:
    module, x, noted = Both(), tg.ones(2, requires_grad=True), []
    handle = module.register_full_backward_hook(noting(noted))
    module(x, 3.0)[0].sum().backward()
    (grad_input, grad_output) = noted[0]
    assert grad_input[0].tolist() == [3.0, 3.0] and grad_input[1] is None
    assert grad_output[0].tolist() == [1.0, 1.0] and grad_output[1] is None
    handle.remove()
    module(x, 3.0)[0].sum().backward()
    assert len(noted) == 1 and x.grad is not None and x.grad.tolist() == [6.0, 6.0]


def test_second_derivatives_pass_through_hooks() -> None:
    layer, noted = nn.Linear(2, 2), []
    layer.register_full_backward_hook(noting(noted))
    x = tg.ones(1, 2, requires_grad=True)
    (slope,) = tg.autograd.grad(layer(x).pow(2).sum(), x, create_graph=True)
    slope.pow(2).sum().backward()
    assert layer.weight.grad is not None and noted[0][0][0].requires_grad


def test_an_attention_layer_calls_the_hooks_of_its_projections() -> None:
    """Its queries, keys and values come of one product otherwise."""
    layer = nn.MultiHeadAttention(8, 2)
    noted: list[Any] = []
    for module in list(layer.modules())[1:]:
        if isinstance(module, nn.Linear):
            module.register_full_backward_hook(noting(noted))
    layer(tg.ones(1, 3, 8, requires_grad=True)).sum().backward()
    assert len(noted) == 4


def test_misuse_of_backward_hooks_is_told() -> None:
    layer = nn.Linear(2, 2)
    with pytest.raises(TypeError, match="hook must be a function to be called with the module, got int"):
        layer.register_full_backward_hook(3)  # type: ignore[arg-type]
    layer.register_full_backward_hook(lambda module, grad_input, grad_output: grad_input * 2)
    with pytest.raises(RuntimeError, match="the hook must return 1 gradients or None, got 2"):
        layer(tg.ones(1, 2, requires_grad=True)).sum().backward()


# --- hooks on the steps of a graph, and on several tensors ------------------------------------------------------------


def graph_of(t: ModuleType) -> tuple[Any, ...]:
    """Leaves a and b, a product c, and what is computed of c and of b."""
    a = t.tensor([1.0, 2.0], requires_grad=True)
    b = t.tensor([[3.0, 4.0], [5.0, 6.0]], requires_grad=True)
    c = a * b
    return a, b, c, c.exp().sum() * 1.0 + (b * b).sum()


def lists(gradients: Any) -> list[Any]:
    return [None if g is None else g.tolist() for g in gradients]


def steps_seen(t: ModuleType) -> list[Any]:
    """What hooks on Nodes see, in order, and what their replacements do."""
    a, b, c, out = graph_of(t)
    noted: list[Any] = []
    c.grad_fn.register_hook(lambda to, of: noted.append(("after", lists(to), lists(of))))
    c.grad_fn.register_prehook(lambda of: noted.append(("before", lists(of))))
    c.register_hook(lambda g: noted.append(("tensor", g.tolist())))
    first = c.grad_fn.register_prehook(lambda of: (of[0] * 2,))
    second = c.grad_fn.register_hook(lambda to, of: (None if to[0] is None else to[0] * 3, to[1]))
    leaf = c.grad_fn.next_functions[0][0]
    leaf.register_prehook(lambda of: (of[0] + 1,))
    leaf.register_hook(lambda to, of: noted.append(("leaf", to, lists(of), a.grad.tolist())))
    out.backward(retain_graph=True)
    noted.append(lists((a.grad, b.grad)))
    noted.append(lists(t.autograd.grad(out, [b], retain_graph=True)))
    noted.append(lists(t.autograd.grad(out, [c], retain_graph=True)))  # its Node is not run
    (slope,) = t.autograd.grad(out, [a], create_graph=True)
    noted.append(lists(t.autograd.grad(slope.sum(), [a, b], retain_graph=True)))
    first.remove()
    with second:
        out.backward(retain_graph=True)
    out.backward()
    noted.append(lists((a.grad, b.grad)))
    c.grad_fn.metadata["note"] = 1
    return [*noted, c.grad_fn.metadata, leaf.variable is a]


def several_seen(t: ModuleType) -> list[Any]:
    """What hooks on several tensors see of whole passes, and of passes to some of the leaves."""
    leaf, b, _, _ = graph_of(t)
    a = leaf * 1.0
    c = a * b
    out, other = (c * c).sum() * 1.0 + (b * b).sum(), (a * 2).sum() * 1.0
    noted: list[Any] = []
    register = t.autograd.graph.register_multi_grad_hook
    handle = register((a, c, other), lambda gradients: noted.append(("all", lists(gradients))))
    register((c, b, t.ones(1)), lambda g: noted.append(("any", g.tolist())), mode="any")
    out.backward(retain_graph=True)
    t.autograd.grad(out, a, retain_graph=True)
    t.autograd.grad(out, b, retain_graph=True)
    (out + other).backward(inputs=[leaf], retain_graph=True)
    handle.remove()
    (out + other).backward()
    return noted


def edges_used(t: ModuleType) -> list[Any]:
    """Gradients by the places in the graph where they arrive."""
    a, b, c, out = graph_of(t)
    edge = t.autograd.graph.get_gradient_edge
    noted = [edge(a).node.name(), edge(a).output_nr, edge(c).node is c.grad_fn, edge(a) == edge(a)]
    at_a, at_c, at_out = edge(a), edge(c), edge(out)
    del c, out
    noted += lists(t.autograd.grad(at_out, [at_a, b, at_c], retain_graph=True))
    t.autograd.backward(at_c, t.ones(2, 2), retain_graph=True)
    t.autograd.backward([at_out], inputs=[at_a])
    return noted + lists((a.grad, b.grad))


def retained(t: ModuleType) -> list[Any]:
    """The gradients that tensors on the way retain, and hooks called, whatever is asked for."""
    a, b, c, out = graph_of(t)
    aside = b.sin()
    out = out + aside.sum()
    noted: list[Any] = []
    for y in (c, aside):
        y.retain_grad()
        y.register_hook(lambda g: noted.append(g.tolist()))
    noted += lists(t.autograd.grad(out, [a], retain_graph=True))
    noted += lists((c.grad, aside.grad, a.grad))  # aside does not lead to a
    noted += lists(t.autograd.grad(out, [c], retain_graph=True))
    out.backward(inputs=[a], retain_graph=True)
    noted += lists((c.grad, aside.grad, a.grad, b.grad))
    asked = a * 2
    (asked * 3).sum().backward(inputs=[asked])
    noted += [asked.retains_grad, asked.grad.tolist()]
    (slope,) = t.autograd.grad(out, [b], create_graph=True)
    noted += [c.grad.requires_grad, *lists((slope, c.grad, aside.grad))]
    return noted


def assert_alike(found: Any, wanted: Any) -> None:
    if isinstance(wanted, (list, tuple)):
        assert len(found) == len(wanted)
        for a, b in zip(found, wanted, strict=True):
            assert_alike(a, b)
    else:
        assert found == (pytest.approx(wanted, rel=1e-5) if isinstance(wanted, float) else wanted)


@pytest.mark.parametrize("program", [steps_seen, several_seen, edges_used, retained], ids=lambda f: f.__name__)
def test_what_is_hung_onto_a_graph_is_told_what_pytorch_tells(program: Callable[[ModuleType], list[Any]]) -> None:
    torch = pytest.importorskip("torch")
    assert_alike(program(tg), program(torch))


def test_a_retained_gradient_shares_no_memory_with_the_one_returned() -> None:
    x = tg.ones(2, requires_grad=True)
    y = x * 2
    y.retain_grad()
    (g,) = tg.autograd.grad((y * y).sum(), [y])
    assert y.grad is not g and not np.shares_memory(y.grad.array, g.array)


def test_all_counts_the_gradient_that_a_pass_starts_with() -> None:
    a, noted = tg.ones(1, requires_grad=True), []
    b = a * 2
    tg.autograd.graph.register_multi_grad_hook((b, a), lambda gradients: noted.append(lists(gradients)))
    b.backward()
    assert noted == [[[1.0], [2.0]]]


def test_misuse_of_hooks_on_a_graph_is_told() -> None:
    x = tg.ones(2, requires_grad=True)
    graph = tg.autograd.graph
    with pytest.raises(ValueError, match="mode must be 'all' or 'any', got 'some'"):
        graph.register_multi_grad_hook((x,), print, mode="some")
    with pytest.raises(TypeError, match="fn must be a function, got int"):
        graph.register_multi_grad_hook((x,), 3)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="get_gradient_edge: this tensor does not require a gradient"):
        graph.get_gradient_edge(tg.ones(2))
    with pytest.raises(TypeError, match="get_gradient_edge: tensor must be a tensor, got int"):
        graph.get_gradient_edge(2)  # type: ignore[arg-type]
    y = x * 2
    with pytest.raises(TypeError, match="register_hook: hook must be a function, got int"):
        y.grad_fn.register_hook(3)
    y.grad_fn.register_hook(lambda to, of: (to[0],))
    with pytest.raises(RuntimeError, match="register_hook: the hook must return 2 gradients or None, got 1"):
        y.sum().backward()
    z = x * 2
    z.grad_fn.register_prehook(lambda of: of[0][:1])
    with pytest.raises(RuntimeError, match="a hook of register_prehook returns must have the shape of its tensor"):
        z.sum().backward()


def seen_at_a_step_of_several_results(t: Any, used: str, create_graph: bool) -> list[Any]:
    """What hooks see at the step of a Function with two results, one or both of which are used, and what they make."""
    seen: list[Any] = []

    def note(*gradients: Any) -> None:
        seen.append([None if g is None else g.tolist() for g in gradients])

    class Both(t.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            ctx.save_for_backward(x, y)
            return x * y, x + y

        @staticmethod
        def backward(ctx: Any, g: Any, h: Any) -> Any:
            note(g, h)
            x, y = ctx.saved_tensors
            return g * y + h, g * x + h

    def before(outputs: Any) -> Any:
        note(*outputs)
        return tuple(None if g is None else g * 2 for g in outputs)

    def after(inputs: Any, outputs: Any) -> Any:
        note(*inputs, *outputs)
        return tuple(g * 10 for g in inputs)

    x, y = t.tensor([1.0, 2.0], requires_grad=True), t.tensor([3.0, 4.0], requires_grad=True)
    product, total = Both.apply(x, y)
    assert product.grad_fn is total.grad_fn
    handles = [product.grad_fn.register_prehook(before), total.grad_fn.register_hook(after)]
    loss = sum((result * result).sum() for result in {"p": [product], "t": [total], "pt": [product, total]}[used])
    first = t.autograd.grad(loss, [x, y], create_graph=create_graph, retain_graph=True)
    note(*first)
    if create_graph:
        note(*t.autograd.grad(sum(g.sum() for g in first), [x, y], retain_graph=True))
    for handle in handles:
        handle.remove()
    note(*t.autograd.grad(loss, [x, y], retain_graph=True))
    product.grad_fn.register_prehook(lambda outputs: (t.ones(2), t.ones(2)))
    if used != "pt":
        with pytest.raises(RuntimeError):  # where there was no gradient there can be none
            t.autograd.grad(loss, [x, y])
    return seen


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("used", ["p", "t", "pt"])
def test_hooks_on_the_step_of_several_results(used: str, create_graph: bool) -> None:
    seen = seen_at_a_step_of_several_results(tg, used, create_graph)
    assert seen[0] == [[6.0, 16.0] if "p" in used else None, [8.0, 12.0] if "t" in used else None]
    torch = pytest.importorskip("torch")
    assert seen == seen_at_a_step_of_several_results(torch, used, create_graph)
