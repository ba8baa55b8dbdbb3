"""Gradient checkpointing: the same gradients to the last bit, from less memory."""

from __future__ import annotations

import contextlib
import gc
import tracemalloc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinygrad_tf as tg
from tinygrad_tf import nn
from tinygrad_tf.models import GPT, GPTConfig, Transformer, TransformerConfig
from tinygrad_tf.utils.checkpoint import CheckpointError, checkpoint, checkpoint_sequential


def leaf(*shape: int, seed: int = 0) -> tg.Tensor:
    return tg.tensor(np.random.default_rng(seed).normal(size=shape), requires_grad=True)


def both(build: Callable[[Callable[..., Any]], list[Any]]) -> None:
    """`build` gets `checkpoint`, or a plain call; what it gives must be equal bit for bit."""
    plain = build(lambda function, *args, **kwargs: function(*args, **kwargs))
    found = build(checkpoint)
    assert len(plain) == len(found)
    for a, b in zip(plain, found, strict=True):
        assert (a is None) == (b is None)
        assert a is None or np.array_equal(a.detach().numpy(), b.detach().numpy())


# --- the same gradients -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("precision", [None, tg.bfloat16, tg.float16], ids=str)
def test_blocks_with_dropout_have_the_same_gradients(precision: Any) -> None:
    tg.manual_seed(0)
    blocks = nn.ModuleList(nn.Block(16, 2, dropout=0.2) for _ in range(3))

    def build(call: Any) -> list[Any]:
        tg.manual_seed(5)
        blocks.zero_grad()
        x = h = tg.tensor(np.random.default_rng(0).normal(size=(2, 7, 16)).astype(np.float32), requires_grad=True)
        with tg.autocast("cpu", dtype=precision or tg.bfloat16, enabled=precision is not None):
            for block in blocks:
                h = call(block, h, is_causal=True)
        h.square().sum().backward()
        return [h, x.grad, *[p.grad for p in blocks.parameters()], tg.rand(3)]

    both(build)


def test_a_weight_that_autocast_has_cast_before_is_cast_again_inside() -> None:
    """Two checkpoints share a weight with each other and with the outside: both runs must record the same."""
    layer = nn.Linear(4, 4)

    def build(call: Any) -> list[Any]:
        layer.zero_grad()
        x = tg.ones(2, 4, requires_grad=True)
        with tg.autocast("cpu"):
            h = layer(x)
            h = call(lambda h: layer(h).tanh(), h)
            h = call(lambda h: layer(h).tanh(), h)
        h.float().sum().backward()
        return [h, x.grad]

    both(build)
    assert layer.weight.grad is not None


def test_second_derivatives_and_second_passes() -> None:
    def build(call: Any) -> list[Any]:
        x, w = leaf(4, 3), leaf(3, 3, seed=1)
        y = call(lambda x: (x @ w).tanh() * x.exp(), x).sum()
        (first,) = tg.autograd.grad(y, x, create_graph=True)
        both_of = tg.autograd.grad(first.square().sum(), [x, w], retain_graph=True)
        y.backward(retain_graph=True)
        once = x.grad.clone()
        y.backward()
        with pytest.raises(RuntimeError, match="released by an earlier backward"):
            y.backward()
        return [first, *both_of, once, x.grad, w.grad]

    both(build)


def test_several_results_nested_arguments_and_weights_in_the_function() -> None:
    w = leaf(3, seed=2)

    def function(pair: Any, *, factor: float, **more: Any) -> Any:
        a, b = pair
        return {"sum": (a + b) * w, "rest": [a * b * factor, "text", more["c"].sin()]}

    def build(call: Any) -> list[Any]:
        w.grad = None
        a, b, c = leaf(3), leaf(3, seed=1), leaf(3, seed=3)
        out = call(function, (a, b), factor=2.0, c=c)
        only = out["rest"][0]
        del out  # parts of the call lead nowhere
        only.sum().backward()
        out = call(function, (a, b), factor=3.0, c=c)
        (out["sum"].square() + out["rest"][2]).sum().backward()
        return [a.grad, b.grad, c.grad, w.grad]

    both(build)


class Cube(tg.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        ctx.times = 3
        return x**3

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g * ctx.times * x**2


def test_operations_of_ones_own_in_place_changes_and_views() -> None:
    def function(x: Any) -> Any:
        y = x * 2.0
        y.add_(1.0)
        z = y * y
        z[0] = z[1] * 2.0
        return Cube.apply(z.t().reshape(-1)[:6]).reshape(3, 2) + x.t()[:3, :2]

    def build(call: Any) -> list[Any]:
        x = leaf(3, 3)
        y = call(function, x)
        (g,) = tg.autograd.grad(y.sum(), x, create_graph=True)
        (second,) = tg.autograd.grad(g.square().sum(), x)
        call(function, x).sum().backward()
        return [y, g, second, x.grad]

    both(build)


def test_checkpoints_inside_of_checkpoints() -> None:
    layers = [leaf(4, 4, seed=i) for i in range(4)]

    def build(call: Any) -> list[Any]:
        for w in layers:
            w.grad = None
        x = leaf(2, 4, seed=9)

        def inner(x: Any, i: int) -> Any:
            return (x @ layers[i]).tanh()

        def outer(x: Any, i: int) -> Any:
            return call(inner, call(inner, x, i), i + 1) * x

        y = call(outer, call(outer, x, 0), 2)
        (g,) = tg.autograd.grad(y.sum(), x, create_graph=True)
        (second,) = tg.autograd.grad(g.square().sum(), x, retain_graph=True)
        y.sum().backward()
        return [y, g, second, x.grad, *[w.grad for w in layers]]

    both(build)


def test_without_recording_the_function_is_just_called() -> None:
    x = leaf(3)
    with tg.no_grad():
        assert not checkpoint(lambda x: x * 2, x).requires_grad
    assert checkpoint(lambda x: x.detach() * 2, x).requires_grad is False
    assert checkpoint(lambda: 3) == 3


def test_random_numbers_are_drawn_anew_if_that_is_wanted() -> None:
    def build(preserve: bool) -> tuple[Any, Any]:
        tg.manual_seed(0)
        x = tg.ones(1000, requires_grad=True)
        y = checkpoint(lambda x: nn.functional.dropout(x, 0.5), x, preserve_rng_state=preserve)
        y.sum().backward()
        return y, x.grad

    y, gradient = build(True)
    assert (y.detach().numpy() == gradient.numpy()).all()
    y, gradient = build(False)
    assert (y.detach().numpy() != gradient.numpy()).any()


def test_the_second_run_has_its_own_context() -> None:
    seen: list[str] = []

    @contextlib.contextmanager
    def note(text: str) -> Any:
        seen.append(text)
        yield
        seen.append(f"end of {text}")

    x = leaf(2)
    y = checkpoint(lambda x: x * x, x, context_fn=lambda: (note("first"), note("second")))
    assert seen == ["first", "end of first"]
    y.sum().backward()
    assert seen[2:] == ["second", "end of second"]


def test_the_reference_twins_are_used_again_if_they_were() -> None:
    x = leaf(3, 4)
    with tg.use_reference():
        y = checkpoint(lambda x: tg.softmax(x, -1), x)
    y.square().sum().backward()
    assert x.grad is not None


# --- less memory ------------------------------------------------------------------------------------------------------


def peak(call: Any, layers: int) -> int:
    """The most memory that a forward and a backward pass take, above what was there before."""
    tg.manual_seed(0)
    blocks = nn.ModuleList(nn.Block(32, 4) for _ in range(layers))
    x = tg.ones(8, 32, 32, requires_grad=True)
    for _ in range(2):
        blocks.zero_grad()
        tracemalloc.start()
        h = x
        for block in blocks:
            h = call(block, h)
        h.sum().backward()
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        del h
    return most


def test_memory_falls() -> None:
    plain = peak(lambda function, *args: function(*args), 8)
    assert peak(checkpoint, 8) < 0.35 * plain
    # One block's inside, and a vector of 32 channels for each further block.
    growth = peak(checkpoint, 8) - peak(checkpoint, 4)
    gradients = sum(p.numel() for p in nn.Block(32, 4).parameters()) * 4 * 4
    assert growth < gradients + 4 * 1.2 * (8 * 32 * 32 * 4)


def test_graphs_are_freed_without_the_garbage_collector() -> None:
    gc.collect()
    gc.disable()
    try:
        x, w = leaf(3), leaf(3, seed=1)
        y = checkpoint(lambda x: checkpoint(lambda x: (x * w).exp(), x) * w, x)
        node = weakref.ref(y.node)
        del y
        assert node() is None
        y = checkpoint(lambda x: checkpoint(lambda x: (x * w).exp(), x) * w, x)
        node = weakref.ref(y.node)
        tg.autograd.grad(y.sum(), w, retain_graph=True)
        del y
        assert node() is None
    finally:
        gc.enable()


# --- what cannot be run again -----------------------------------------------------------------------------------------


def test_a_function_that_does_something_else_is_told() -> None:
    calls = iter(range(9))
    x = leaf(2)
    y = checkpoint(lambda x: x * x if next(calls) == 0 else x.exp() + x, x)
    with pytest.raises(CheckpointError, match="operation 1 from its end was mul of shape"):
        y.sum().backward()
    assert x.grad is None
    calls = iter(range(9))
    y = checkpoint(lambda x: x * x if next(calls) == 0 else x.exp(), x, debug=True)
    with pytest.raises(CheckpointError, match=r"first, from its end, mul of shape .*; then exp of shape"):
        y.sum().backward()
    with pytest.raises(ValueError, match="determinism_check must be 'default' or 'none', got 'some'"):
        checkpoint(lambda x: x, x, determinism_check="some")
    calls = iter(range(9))
    y = checkpoint(lambda x: (x if next(calls) == 0 else x * x).exp(), x)
    with pytest.raises(CheckpointError, match="it recorded 1 operations, now 2"):
        y.sum().backward()


@pytest.mark.parametrize("which", ["input", "weight"])
def test_what_was_changed_in_between_is_told(which: str) -> None:
    x, w = leaf(2), leaf(2, seed=1)
    h = x * 1.0
    y = checkpoint(lambda h: (h + w).square(), h)
    with tg.no_grad():
        (h if which == "input" else w).mul_(2.0)
    with pytest.raises(CheckpointError, match=r"of shape \(2,\) was changed in place between"):
        y.sum().backward()


def test_an_error_of_the_second_run_comes_through_and_leaves_all_as_it_was() -> None:
    calls = iter(range(9))

    def function(x: Any) -> Any:
        if next(calls):
            raise ZeroDivisionError
        return nn.functional.dropout(x * x, 0.5)

    x = leaf(4)
    y = checkpoint(function, x)
    before = tg.get_rng_state().tolist()
    with pytest.raises(ZeroDivisionError):
        y.sum().backward()
    assert x.grad is None and tg.get_rng_state().tolist() == before and tg.is_grad_enabled()


# --- chains, and models -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("segments", [1, 2, 3, 5])
def test_a_chain_in_segments(segments: int) -> None:
    tg.manual_seed(0)
    chain = nn.Sequential(*(m for _ in range(3) for m in (nn.Linear(4, 4), nn.Tanh())))
    found = []
    for run in (chain, lambda x: checkpoint_sequential(chain, segments, x, use_reentrant=False)):
        x = tg.ones(2, 4, requires_grad=True)
        chain.zero_grad()
        run(x).sum().backward()
        found.append([x.grad.tolist(), *[p.grad.tolist() for p in chain.parameters()]])
    assert found[0] == found[1]
    with pytest.raises(ValueError, match=r"segments must be in \[1, 6\], got 7"):
        checkpoint_sequential(chain, 7, tg.ones(1, 4))


@pytest.mark.parametrize(("segments", "again"), [(1, ""), (2, "abc"), (3, "cdab"), (7, "fedcba")])
def test_which_functions_of_a_chain_run_again(segments: int, again: str) -> None:
    """All but the last part, the last ones first; what is left over by the division goes into the last part."""
    ran: list[str] = []
    chain = [lambda x, name=name: (ran.append(name), x * 2)[1] for name in "abcdefg"]
    out = checkpoint_sequential(chain, segments, tg.ones(2, requires_grad=True), use_reentrant=False)
    assert "".join(ran) == "abcdefg"
    ran.clear()
    out.sum().backward()
    assert "".join(ran) == again


@pytest.mark.parametrize("kind", ["gpt", "transformer"])
def test_models_recompute_their_layers(kind: str) -> None:
    found = []
    for recompute in (False, True):
        tg.manual_seed(0)
        ids = tg.tensor(np.random.default_rng(0).integers(1, 9, (2, 6)))
        if kind == "gpt":
            model: Any = GPT(GPTConfig(9, 8, 2, 2, 16, dropout=0.1, recompute=recompute, positions="relative"))
            loss = model.loss(ids, ids)
        else:
            sizes: dict[str, Any] = {"d_model": 16, "num_heads": 2, "d_ff": 16, "encoder_layers": 2}
            model = Transformer(TransformerConfig(9, **sizes, decoder_layers=2, pad=0, recompute=recompute))
            loss = model.loss(ids, ids, ids)
        loss.backward()
        found.append([loss.item(), *[p.grad.tolist() for p in model.parameters()]])
        model.eval()
        with tg.no_grad():
            assert np.isfinite(model(ids).numpy() if kind == "gpt" else model(ids, ids).numpy()).all()
    assert found[0] == found[1]
