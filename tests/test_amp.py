"""Mixed precision: values as PyTorch's, memory halved, scaling of losses, and that models learn in 16 bits."""

from __future__ import annotations

import threading
import tracemalloc
from functools import cache
from typing import Any

import numpy as np
import pytest

import tinygrad_tf as tg
from tests.reference import precision
from tests.reference.make import PRECISION_PATH
from tinygrad_tf import nn, optim
from tinygrad_tf.amp import (
    GradScaler,
    autocast,
    custom_bwd,
    custom_fwd,
    get_autocast_dtype,
    is_autocast_available,
    is_autocast_enabled,
)
from tinygrad_tf.models import GPT, GPTConfig
from tinygrad_tf.nn import functional as F
from tinygrad_tf.ops._precision import state

BOTH = [tg.bfloat16, tg.float16]
LAST_BIT = {"bfloat16": 2.0**-7, "float16": 2.0**-10}


@cache
def stored() -> dict[str, np.ndarray]:
    with np.load(PRECISION_PATH) as file:
        return dict(file)


# --- as PyTorch -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", precision.DTYPES)
@pytest.mark.parametrize("name", precision.PROGRAMS)
def test_autocast_has_pytorchs_values(name: str, dtype: str) -> None:
    """To the last bit, but for what PyTorch rounds more often: inside attention, and where tanh rounds otherwise."""
    found = precision.run_program(tg, name, dtype)
    assert found.keys() == {key for key in stored() if key.startswith(f"{name}/{dtype}/")}
    tolerance = LAST_BIT[dtype] if "attention" in name or name == "two layers" else 1e-6
    for key, array in found.items():
        wanted = stored()[key]
        assert array.shape == wanted.shape
        scale = max(1.0, float(np.abs(wanted).max()))
        np.testing.assert_allclose(array, wanted, rtol=0, atol=tolerance * scale, err_msg=key)


def test_the_scaler_grows_backs_off_and_leaves_steps_out_as_pytorchs() -> None:
    found = precision.scaler_trace(tg)
    for key, array in found.items():
        np.testing.assert_array_equal(array, stored()[key], err_msg=key)
    scales = found["scaler/trace"][:, 0].tolist()
    assert scales == [8.0, 8.0, 2.0, 2.0, 2.0, 8.0, 2.0, 2.0, 2.0, 8.0, 8.0]


# --- memory -----------------------------------------------------------------------------------------------------------


def kept_bytes(dtype: Any, run: Any) -> int:
    """What a forward pass leaves in memory for the backward pass."""
    result = run(dtype)  # kernels are loaded, tables made
    del result
    state.forget()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    result = run(dtype)
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert result.requires_grad
    return after - before


@pytest.mark.parametrize("dtype", BOTH, ids=str)
def test_products_keep_half_of_the_bytes(dtype: Any) -> None:
    tg.manual_seed(0)
    layers = nn.Sequential(*(m for _ in range(4) for m in (nn.Linear(64, 64, bias=False), nn.GELU())))
    x = tg.randn(400, 64)

    def run(dtype: Any) -> Any:
        with autocast("cpu", dtype=dtype, enabled=dtype is not None):
            return layers(x)

    casts = (4 * 64 * 64 + 400 * 64) * 2  # of the weights and of x, which float32 has in memory anyhow
    share = (kept_bytes(dtype, run) - casts) / kept_bytes(None, run)
    assert 0.49 < share < 0.52


@pytest.mark.parametrize("dtype", BOTH, ids=str)
def test_a_gpt_keeps_far_less(dtype: Any) -> None:
    """Of 16 numbers a channel and layer, 14 are kept in 16 bits; three projections share one cast of their input."""
    tg.manual_seed(0)
    model, ids = GPT(GPTConfig(65, context=64, layers=2, heads=4, channels=64)), tg.randint(0, 65, (16, 64))

    def run(dtype: Any) -> Any:
        with autocast("cpu", dtype=dtype, enabled=dtype is not None):
            return model.loss(ids, ids)

    assert kept_bytes(dtype, run) < 0.64 * kept_bytes(None, run)


# --- what is cast, and when -------------------------------------------------------------------------------------------


def test_a_weight_is_cast_once_in_a_block_and_again_when_it_has_changed() -> None:
    w, x = nn.Parameter(tg.ones(3, 3)), tg.ones(2, 3)
    with autocast("cpu"):
        first = F.linear(x, w)
        assert len(state.weights) == 1
        cast = next(iter(state.weights.values()))[3]
        with autocast("cpu"):
            F.linear(x, w)
        assert next(iter(state.weights.values()))[3] is cast
        with tg.no_grad():
            F.linear(x, w)  # not recorded: of no use for the next line
        again = F.linear(x, w)
        assert again.requires_grad
        with tg.no_grad():
            w.mul_(2.0)
        assert F.linear(x, w).tolist() == (first * 2.0).tolist()
        with autocast("cpu", dtype=tg.float16):
            assert F.linear(x, w).dtype == tg.float16
    assert not state.weights and not state.last and state.depth == 0
    (first.sum() + again.sum()).float().backward()
    assert w.grad is not None and w.grad.tolist() == [[4.0] * 3] * 3


def test_a_cast_made_without_recording_is_not_used_where_gradients_are_wanted() -> None:
    w, x = nn.Parameter(tg.ones(3, 3)), tg.ones(2, 3)
    with autocast("cpu"):
        with tg.no_grad():
            assert not F.linear(x, w).requires_grad
        assert F.linear(x, w).requires_grad


def test_without_the_cache_nothing_is_kept() -> None:
    with autocast("cpu", cache_enabled=False):
        F.linear(tg.ones(2, 3), nn.Parameter(tg.ones(3, 3)))
        assert not state.weights and not state.last


def test_blocks_nest_and_end_with_their_thread_and_with_errors() -> None:
    a = tg.ones(2, 2)
    with autocast("cpu", dtype=tg.float16):
        assert get_autocast_dtype() == tg.float16 and is_autocast_enabled()
        with autocast("cpu", enabled=False):
            assert (a @ a).dtype == tg.float32 and not is_autocast_enabled()
        assert (a @ a).dtype == tg.float16
        seen: list[Any] = []
        thread = threading.Thread(target=lambda: seen.append((a @ a).dtype))
        thread.start()
        thread.join()
        assert seen == [tg.float32]
    with pytest.raises(ZeroDivisionError), autocast("cpu"):
        raise ZeroDivisionError
    assert not is_autocast_enabled() and (a @ a).dtype == tg.float32
    assert (a.double() @ a.double()).dtype == tg.float64
    with autocast("cpu"):
        assert (a.double() @ a.double()).dtype == tg.float64  # as in PyTorch: float64 is left alone


def test_what_is_said_to_another_device_leaves_the_cpu_as_it_is() -> None:
    """Parts that are to be exact on GPUs say autocast("cuda", enabled=False), whatever the CPU is told around them."""
    a, product = tg.ones(2, 2), autocast("cuda", enabled=False)(lambda a: a @ a)
    with autocast("cpu"):
        for block in (autocast("cuda", enabled=False), tg.cuda.amp.autocast()):
            with block:
                assert (a @ a).dtype == product(a).dtype == tg.bfloat16
        assert not is_autocast_enabled("cuda") and is_autocast_enabled("cpu")
        assert get_autocast_dtype("cuda") is tg.float16 and not is_autocast_available("cuda")


@pytest.mark.parametrize("cast_inputs", [None, tg.float32])
def test_a_function_of_ones_own_runs_under_autocast_as_it_says(cast_inputs: Any) -> None:
    """PyTorch's rules: with cast_inputs forward is exact, and backward, too; without it both are as around forward."""
    seen: list[Any] = []

    class Product(tg.autograd.Function):
        @staticmethod
        @custom_fwd(device_type="cpu", cast_inputs=cast_inputs)
        def forward(ctx: Any, a: tg.Tensor, parts: list[tg.Tensor], ids: tg.Tensor) -> tg.Tensor:
            ctx.save_for_backward(a, parts[0])
            seen.extend([a.dtype, parts[0].dtype, ids.dtype, is_autocast_enabled()])
            return a @ parts[0]

        @staticmethod
        @custom_bwd(device_type="cpu")
        def backward(ctx: Any, g: tg.Tensor) -> Any:
            _, b = ctx.saved_tensors
            seen.extend([is_autocast_enabled(), (g @ b).dtype])
            return g.float() @ b.T.float(), None, None

    a, b, ids = tg.ones(2, 2, requires_grad=True), tg.ones(2, 2, dtype=tg.float16), tg.arange(2)
    with autocast("cpu"):
        out = Product.apply(a, [b], ids)
    out.sum().backward()
    if cast_inputs is None:
        assert seen == [tg.float32, tg.float16, tg.int64, True, True, tg.bfloat16] and out.dtype == tg.bfloat16
    else:
        assert seen == [tg.float32, tg.float32, tg.int64, False, False, tg.float32] and out.dtype == tg.float32
    seen.clear()
    Product.apply(a, [b.float()], ids).sum().backward()  # outside of autocast nothing is changed
    assert seen == [tg.float32, tg.float32, tg.int64, False, False, tg.float32] and a.grad.dtype == tg.float32


@pytest.mark.parametrize("dtype", BOTH, ids=str)
@pytest.mark.parametrize("kind", ["full", "local", "block_sparse", "linear", "additive"])
@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_every_attention_loses_no_more_than_rounding(kind: str, dropout: float, dtype: Any) -> None:
    """Their many steps are not rounded one by one: value and gradient stay within some last bits of float32's."""
    tg.manual_seed(0)
    attention = nn.make_attention(kind, 16, 2, dropout, window=8, block_size=8)
    found = []
    for wanted in (None, dtype):
        x = tg.tensor(np.random.default_rng(0).normal(size=(1, 60, 16)).astype(np.float32), requires_grad=True)
        attention.zero_grad()
        tg.manual_seed(1)  # of the dropout
        with autocast("cpu", dtype=dtype, enabled=wanted is not None):
            y = attention(x, is_causal=kind == "linear")
        y.float().square().sum().backward()
        assert attention.query_proj.weight.grad is not None and x.grad is not None
        assert y.dtype == (tg.float32 if wanted is None else dtype)
        found.append([y.float().detach().numpy(), x.grad.numpy(), attention.query_proj.weight.grad.numpy()])
    for exact, rounded in zip(*found, strict=True):
        assert np.abs(exact - rounded).max() < 4 * LAST_BIT[str(dtype)[6:]] * np.abs(exact).max()


def test_masks_are_not_rounded() -> None:
    """Scores live in float32; a bias of -250.5 would become -250 in bfloat16."""
    q = tg.zeros(1, 1, 1, 4)
    v = tg.tensor([[[[0.0], [1.0]]]])
    mask = tg.tensor([[-250.5, -250.0]])
    with autocast("cpu"):
        out = F.scaled_dot_product_attention(q, tg.zeros(1, 1, 2, 4), v, attn_mask=mask)
    assert out.item() == pytest.approx(1 / (1 + np.exp(-0.5)), abs=2e-3)


# --- learning ---------------------------------------------------------------------------------------------------------


def train(dtype: Any, steps: int = 80, **scaling: Any) -> tuple[list[float], GradScaler]:
    """A small GPT on a repeated text."""
    tg.manual_seed(0)
    model = GPT(GPTConfig(12, context=16, layers=2, heads=2, channels=32))
    optimizer = optim.AdamW(model.parameters(), lr=1e-2)
    scaler = GradScaler("cpu", enabled=dtype == tg.float16, **scaling)
    rng = np.random.default_rng(0)
    text = np.tile(rng.integers(0, 12, 50), 20)
    losses = []
    for _ in range(steps):
        starts = rng.integers(0, len(text) - 17, 8)
        ids = np.stack([text[s : s + 17] for s in starts])
        optimizer.zero_grad()
        with autocast("cpu", dtype=dtype, enabled=dtype is not None):
            loss = model.loss(tg.tensor(ids[:, :-1]), tg.tensor(ids[:, 1:]))
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        with np.errstate(invalid="ignore"):  # inf * 0, in a step that will be left out
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return losses, scaler


def test_a_model_learns_as_well_in_16_bits() -> None:
    exact, _ = train(None)
    assert exact[-1] < 1.0 < 2.4 < exact[0]
    for dtype in BOTH:
        losses, _ = train(dtype)
        assert losses != exact
        assert np.abs(np.array(losses[:3]) - exact[:3]).max() < 0.02
        assert abs(np.mean(losses[-5:]) - np.mean(exact[-5:])) < 0.15


def test_a_scale_that_is_too_high_comes_down_and_the_model_learns() -> None:
    losses, scaler = train(tg.float16, init_scale=2.0**30)
    assert scaler.get_scale() < 2.0**20 and np.isfinite(losses).all()
    assert losses[-1] < 1.0


def test_small_gradients_survive_float16_only_when_scaled() -> None:
    gradients = []
    for scale in (1.0, 2.0**16):
        w = nn.Parameter(tg.ones(1, 1))
        scaler = GradScaler("cpu", init_scale=scale)
        with autocast("cpu", dtype=tg.float16):
            loss = F.linear(tg.ones(1, 1), w).float().sum() * 1e-9
        scaler.scale(loss).backward()
        scaler.unscale_(optim.SGD([w], lr=1.0))
        assert w.grad is not None
        gradients.append(w.grad.item())
    assert gradients[0] == 0.0 and gradients[1] == pytest.approx(1e-9, rel=2e-3)


# --- the scaler's interface -------------------------------------------------------------------------------------------


def one_step(scaler: GradScaler, size: float = 1.0) -> tuple[nn.Parameter, optim.Optimizer]:
    p = nn.Parameter(tg.ones(1))
    scaler.scale((p * size).sum()).backward()
    return p, optim.SGD([p], lr=0.1)


def test_calls_in_the_wrong_order_are_refused() -> None:
    scaler = GradScaler("cpu")
    with pytest.raises(RuntimeError, match=r"update\(\) needs a step"):
        scaler.update()
    p = nn.Parameter(tg.ones(1))
    p.sum().backward()
    with pytest.raises(RuntimeError, match="the loss was never scaled"):  # dividing would make the gradient vanish
        scaler.step(optim.SGD([p], lr=0.1))
    assert p.grad is not None and p.grad.tolist() == [1.0]
    _, optimizer = one_step(scaler)
    scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match=r"unscale_\(\) was already called"):
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    with pytest.raises(RuntimeError, match=r"step\(\) was already called"):
        scaler.step(optimizer)
    with pytest.raises(RuntimeError, match=r"unscale_\(\) comes after step"):
        scaler.unscale_(optimizer)
    scaler.update()
    with pytest.raises(RuntimeError, match="no closure"):
        scaler.step(optimizer, lambda: 0.0)
    with pytest.raises(ValueError, match="outputs must be a tensor"):
        scaler.scale("loss")
    half = nn.Parameter(tg.ones(1, dtype=tg.float16))
    half.sum().backward()
    with pytest.raises(ValueError, match="a gradient is float16"):
        scaler.unscale_(optim.SGD([half], lr=0.1))


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"init_scale": 0.0}, "init_scale must be above 0, got 0"),
        ({"growth_factor": 1.0}, "growth_factor must be above 1, got 1"),
        ({"backoff_factor": 1.0}, "backoff_factor must be between 0 and 1, got 1"),
        ({"growth_interval": 0}, "growth_interval must be at least 1, got 0"),
    ],
)
def test_unusable_settings_are_told(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        GradScaler("cpu", **settings)


def test_the_precision_of_products_is_one_of_three_words() -> None:
    for name in ("medium", "high", "highest"):
        tg.set_float32_matmul_precision(name)
        assert tg.get_float32_matmul_precision() == name
    for wrong in ("HIGH", 3, None):
        with pytest.raises(ValueError, match=f"must be one of 'highest', 'high', 'medium'; got {wrong!r}"):
            tg.set_float32_matmul_precision(wrong)  # type: ignore[arg-type]
    assert tg.get_float32_matmul_precision() == "highest"


def test_state_is_saved_and_loaded() -> None:
    scaler = GradScaler("cpu", init_scale=2.0, growth_interval=2)
    _, optimizer = one_step(scaler)
    scaler.step(optimizer)
    scaler.update()
    other = GradScaler("cpu")
    other.load_state_dict(scaler.state_dict())
    _, optimizer = one_step(other)
    other.step(optimizer)
    other.update()
    assert other.get_scale() == 4.0  # the second of two good steps
    other.update(new_scale=16.0)
    assert other.get_scale() == 16.0 and other.scale([tg.ones(1), (tg.ones(1),)])[1][0].item() == 16.0
    with pytest.raises(RuntimeError, match="saved by one that is switched off"):
        other.load_state_dict({})


def test_switched_off_it_changes_nothing() -> None:
    with pytest.warns(UserWarning, match="no device 'cuda' here"):
        scaler = GradScaler()
    assert not scaler.is_enabled() and scaler.get_scale() == 1.0 and scaler.state_dict() == {}
    p, optimizer = one_step(scaler)
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    assert p.item() == pytest.approx(0.9)
