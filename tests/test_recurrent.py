"""Recurrent layers as one operation: the kernel against the plain formula, in all sizes, and what surrounds it."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import tinygrad_tf as tg
from tinygrad_tf import nn
from tinygrad_tf.kernels import _vector, recurrent
from tinygrad_tf.kernels._cache import cache_root
from tinygrad_tf.kernels._compile import get_num_threads, set_num_threads

KINDS = {"LSTM": (4, 2), "GRU": (3, 1), "RNN_TANH": (1, 1), "RNN_RELU": (1, 1)}  # gates and states
# N, T, I, H: one row, few and many, of few and many steps; units below, at and beyond a register, a panel, a block
SIZES = [
    (1, 3, 2, 5), (3, 4, 5, 8), (13, 2, 3, 33), (20, 3, 4, 64), (16, 2, 8, 200), (1, 2, 3, 130), (0, 2, 3, 4),
    (2, 9, 3, 20),
]  # fmt: skip


def arguments(kind: str, size: tuple[int, ...], dtype: Any, packed: bool = False, bias: bool = True) -> list[Any]:
    (N, T, I, H), (G, S) = size, KINDS[kind]
    rng = np.random.default_rng(sum(size))
    sizes = np.full(T, N) if not packed or not N else np.sort([N, *rng.integers(1, N + 1, T - 1)])[::-1]
    starts = recurrent.starts_of(tuple(sizes.tolist()))

    def draw(*shape: int) -> np.ndarray:
        return (rng.normal(size=shape) / np.sqrt(shape[-1])).astype(dtype)

    biases = [draw(G * H) if bias else None for _ in range(2)]
    return [
        kind, draw(starts[-1], I), tuple(draw(N, H) for _ in range(S)), draw(G * H, I), draw(G * H, H), *biases, starts
    ]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_kernel_computes_the_plain_formula(kind: str, size: tuple[int, ...], dtype: Any) -> None:
    for packed in (False, True):
        for backwards in (False, True):
            given = arguments(kind, size, dtype, packed, bias=not packed)
            out, _ = recurrent.recurrent(*given, backwards)
            wanted = recurrent.recurrent_reference(*given, backwards)
            np.testing.assert_allclose(out, wanted, atol=1e-6 if dtype == np.float32 else 1e-14)
            assert out.dtype == dtype


def gradients(kind: str, size: tuple[int, ...], backwards: bool, reference: bool) -> list[np.ndarray]:
    """Of a fixed projection of outputs and last states, by everything."""
    _, x, start, *weights, starts = arguments(kind, size, np.float64, packed=True)
    leaves = [tg.tensor(a, requires_grad=True) for a in (x, *start, *weights)]
    S, sizes = len(start), np.diff(starts).tolist()
    with tg.use_reference(reference):
        out, last = tg.ops.recurrent.recurrent(
            kind, leaves[0], tuple(leaves[1 : 1 + S]), tuple(leaves[1 + S :]), sizes, backwards
        )
        total = sum((t * tg.tensor(np.cos(np.arange(t.numel())).reshape(t.shape))).sum() for t in (out, *last))
        total.backward()
    return [t.grad.numpy() for t in leaves]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_gradients_are_those_of_the_plain_formulas(kind: str, size: tuple[int, ...]) -> None:
    for backwards in (False, True):
        pair = [gradients(kind, size, backwards, reference) for reference in (False, True)]
        for got, wanted in zip(*pair, strict=True):
            np.testing.assert_allclose(got, wanted, atol=1e-12 * max(1.0, np.abs(wanted).max(initial=0)))


@pytest.mark.parametrize("kind", KINDS)
def test_bits_do_not_depend_on_the_number_of_threads(kind: str) -> None:
    found = []
    before = get_num_threads()
    try:
        for number in (1, 2, 3):
            set_num_threads(number)
            for size in ((2, 3, 8, 256), (32, 3, 8, 160)):
                given = arguments(kind, size, np.float32)
                out, kept = recurrent.recurrent(*given)
                back = recurrent.recurrent_backward(
                    kind, out, given[1], kept, given[3], given[4], given[7], False, (True,) * 5
                )
                found.append([out, *back])
    finally:
        set_num_threads(before)
    for other in (found[2:4], found[4:6]):
        for got, wanted in zip(other, found[:2], strict=True):
            for a, b in zip(got, wanted, strict=True):
                np.testing.assert_array_equal(a, b)


def test_a_step_of_two_blocks_is_cut_by_size_alone() -> None:
    assert recurrent.plan(4, 16, 4, 4)[0] == 1
    assert recurrent.plan(32, 256, 4, 4)[0] > 1


def test_numbers_that_are_not_finite_go_through() -> None:
    for kind in KINDS:
        given = arguments(kind, (2, 3, 2, 8), np.float32)
        given[1][0, 0] = np.nan
        out, _ = recurrent.recurrent(*given)
        assert np.isnan(out[::2]).all() and np.isfinite(out[1::2]).all()
        given[1][0, 0] = 1e30
        with np.errstate(over="ignore"):
            np.testing.assert_allclose(recurrent.recurrent(*given)[0], recurrent.recurrent_reference(*given), rtol=1e-5)


@pytest.mark.parametrize("name", ["RNN", "LSTM", "GRU"])
@pytest.mark.parametrize("dtype", [tg.float16, tg.bfloat16])
def test_sixteen_bits_are_computed_in_float32_and_rounded_once(name: str, dtype: Any) -> None:
    tg.manual_seed(0)
    layer, x = getattr(nn, name)(3, 4).to(dtype), tg.randn(5, 2, 3).to(dtype)
    exact = getattr(nn, name)(3, 4)
    exact.load_state_dict({n: p.float() for n, p in layer.state_dict().items()})
    for reference in (False, True):
        with tg.use_reference(reference):
            out, wanted = layer(x)[0], exact(x.float())[0]
        assert out.dtype == dtype
        np.testing.assert_array_equal(out.float().detach().numpy(), wanted.to(dtype).float().detach().numpy())
    for one in (layer(x)[0].float(), exact(x.float())[0]):
        one.sum().backward()
    for p, q in zip(layer.parameters(), exact.parameters(), strict=True):
        assert p.grad.dtype == dtype
        np.testing.assert_allclose(p.grad.float().numpy(), q.grad.numpy(), rtol=0.02, atol=0.02)


def test_autocast_gives_pytorchs_dtypes() -> None:
    """Products are rounded to 16 bits, states are not: what PyTorch gives for an RNN, a GRU and their cells."""
    with tg.autocast("cpu", dtype=tg.bfloat16):
        for name, dtype in (("RNN", tg.bfloat16), ("GRU", tg.float32), ("LSTM", tg.float32)):
            out, last = getattr(nn, name)(3, 4)(tg.randn(5, 2, 3))
            assert out.dtype == dtype and (last[0] if isinstance(last, tuple) else last).dtype == dtype


def test_only_what_wants_a_gradient_gets_one() -> None:
    for name in ("LSTM", "GRU"):
        tg.manual_seed(0)
        layer, x = getattr(nn, name)(3, 4), tg.randn(5, 2, 3)
        layer(x)[0].sum().backward()
        wanted = {n: p.grad.numpy().copy() for n, p in layer.named_parameters()}
        for chosen in wanted:
            for n, p in layer.named_parameters():
                p.grad = None
                p.requires_grad_(n == chosen)
            layer(x)[0].sum().backward()
            assert [n for n, p in layer.named_parameters() if p.grad is not None] == [chosen]
            np.testing.assert_array_equal(layer.get_parameter(chosen).grad.numpy(), wanted[chosen])


def test_the_two_biases_have_gradients_of_their_own() -> None:
    layer = nn.LSTM(3, 4)
    layer(tg.randn(5, 2, 3))[0].sum().backward()
    assert not np.shares_memory(layer.bias_ih_l0.grad.array, layer.bias_hh_l0.grad.array)


def test_outputs_may_be_changed_in_place_and_states_detached() -> None:
    """PyTorch's are no views of one another, and what the gradients need is not in them."""
    tg.manual_seed(0)
    layer, x = nn.GRU(3, 4), tg.randn(5, 2, 3)
    out, last = layer(x)
    (out.relu().sum() + last.sum()).backward()
    wanted = layer.weight_hh_l0.grad.numpy().copy()
    layer.zero_grad()
    out, last = layer(x)
    (out.relu_().sum() + last.sum()).backward()
    np.testing.assert_array_equal(layer.weight_hh_l0.grad.numpy(), wanted)
    last.detach_()
    assert last.grad_fn is None and not last.requires_grad


def test_a_last_state_does_not_keep_the_outputs() -> None:
    with tg.no_grad():
        _, (h, c) = nn.LSTM(3, 4)(tg.randn(50, 2, 3))
    for state in (h, c):
        assert state.array.base is None or state.array.base.size <= 2 * state.array.size


def test_a_weight_changed_before_backward_is_noticed() -> None:
    layer = nn.LSTM(3, 4)
    out, _ = layer(tg.randn(5, 2, 3))
    with tg.no_grad():
        layer.weight_hh_l0.mul_(2.0)
    with pytest.raises(RuntimeError, match=r"'weight_hh' of shape .* was changed in place"):
        out.sum().backward()


def test_weights_that_lie_otherwise() -> None:
    """A transposed weight, one that may not be written to, and a batch that comes first."""
    tg.manual_seed(0)
    layer, x = nn.GRU(3, 4, batch_first=True), tg.randn(2, 5, 3)
    wanted = layer(x)[0].detach().numpy()
    for parameter in (layer.weight_hh_l0, layer.weight_ih_l0):
        parameter.array = np.asfortranarray(parameter.array)
    layer.bias_hh_l0.array.flags.writeable = False
    layer.weight_hh_l0.array.flags.writeable = False
    np.testing.assert_allclose(layer(x)[0].detach().numpy(), wanted, rtol=1e-6)


def test_an_empty_batch_gives_empty_outputs() -> None:
    for name in ("RNN", "LSTM", "GRU"):
        layer, x = getattr(nn, name)(3, 4), tg.zeros(5, 0, 3, requires_grad=True)
        out, _ = layer(x)
        out.sum().backward()
        assert tuple(out.shape) == (5, 0, 4) and tuple(x.grad.shape) == (5, 0, 3)
        np.testing.assert_array_equal(layer.weight_hh_l0.grad.numpy(), 0)


@pytest.mark.skipif(_vector.SETTING in os.environ, reason="this is that process")
@pytest.mark.parametrize("width", ["16", "32"])
def test_other_vector_widths(width: str) -> None:
    environment = dict(os.environ, **{_vector.SETTING: width})
    root = cache_root()
    if root is not None:
        environment["TINYGRAD_TF_CACHE"] = str(root / f"width-{width}")
    command = [sys.executable, "-m", "pytest", __file__, "-q", "-n0", "-p", "no:cacheprovider"]
    chosen = ["-k", "(computes and float32) or threads"]
    done = subprocess.run([*command, *chosen], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
