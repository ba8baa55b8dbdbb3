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
