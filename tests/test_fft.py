"""Fourier transforms: NumPy's and PyTorch's numbers, with gradients; FNet trains; what is said of misuse."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tinygrad_tf as tg
from tinygrad_tf import fft, nn

A, B = np.random.default_rng(0).normal(size=(2, 3, 4, 5))
NORMS = (None, "backward", "ortho", "forward")
ONE = [
    (name, (n, dim, norm))
    for name in ("fft", "ifft", "rfft", "irfft")
    for n, dim in ((None, -1), (1, 0), (2, 1), (3, -1), (6, 1), (7, -2))
    for norm in NORMS
]
TWO = [
    (name, (s, dim, norm))
    for name in ("fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn")
    for (s, dim), norm in itertools.product([(None, (-2, -1)), ((4, 3), (0, 1)), ((2, 6), (-1, 0))], NORMS)
]
ALL = [
    (name, arguments)
    for name in ("fftn", "ifftn", "rfftn", "irfftn")
    for arguments in ((), ((3, 4),), ((-1, 3),), (None, 1), (3, 0))
]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("name", "arguments"), ONE + TWO)
def test_numbers_are_numpys(name: str, arguments: tuple[Any, ...], dtype: Any) -> None:
    kinds = [False] if name.startswith("r") else [False, True]
    for both in kinds:
        x = tg.complex(*map(tg.tensor, (A.astype(dtype), B.astype(dtype)))) if both else tg.tensor(A.astype(dtype))
        given, (n, dim, norm) = (A + 1j * B if both else A), arguments
        wanted = getattr(np.fft, name)(given, n, dim, norm)
        found = getattr(fft, name)(x, *arguments)
        assert np.iscomplexobj(found.numpy()) == np.iscomplexobj(wanted) and found.numpy().real.dtype == dtype
        np.testing.assert_allclose(found.numpy(), wanted, atol=1e-12 if dtype == np.float64 else 2e-5)


def outcome(t: Any, name: str, arguments: tuple[Any, ...], both: bool) -> list[np.ndarray]:
    """Parts of the value, gradients, and gradients of those, of a function of the parts that is no sum."""
    leaves = [t.tensor(x, requires_grad=True) for x in ((A, B) if both else (A,))]
    y = getattr(t.fft, name)(t.complex(*leaves) if both else leaves[0], *arguments)
    parts = t.stack([y.real, y.imag], -1) if t.is_complex(y) else y
    weights = t.tensor(np.random.default_rng(1).normal(size=tuple(parts.shape)))
    first = t.autograd.grad((parts * weights).sum() + (parts**3).sum() * 0.01, leaves, create_graph=True)
    second = t.autograd.grad(sum((g**2).sum() for g in first), leaves)
    return [x.detach().numpy() for x in (parts, *first, *second)]


@pytest.mark.parametrize("name", sorted({name for name, _ in ONE + TWO}))
def test_values_and_gradients_are_pytorchs(name: str) -> None:
    torch = pytest.importorskip("torch")
    for known, arguments in ONE + TWO + ALL:
        for both in (False, True) if known == name else ():
            if both and name.startswith("r"):
                continue
            for found, wanted in zip(*(outcome(t, name, arguments, both) for t in (tg, torch)), strict=True):
                assert found.shape == wanted.shape and found.dtype == wanted.dtype
                np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9, err_msg=f"{arguments}")


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_frequencies_and_shifts(n: int) -> None:
    np.testing.assert_allclose(fft.fftfreq(n, 0.3, dtype=tg.float64).numpy(), np.fft.fftfreq(n, 0.3), rtol=1e-15)
    np.testing.assert_allclose(fft.rfftfreq(n, d=2.0).numpy(), np.fft.rfftfreq(n, 2.0).astype(np.float32))
    assert fft.fftfreq(n).dtype == tg.float32 and fft.rfftfreq(n, requires_grad=True).requires_grad
    assert fft.fftshift(tg.tensor(3.0)).item() == 3.0
    x = np.arange(2.0 * n * 3).reshape(2, n, 3)
    for dim in (None, 1, (0, 2), -1, [1]):
        axes = tuple(dim) if isinstance(dim, list) else dim
        np.testing.assert_array_equal(fft.fftshift(tg.tensor(x), dim).numpy(), np.fft.fftshift(x, axes))
        np.testing.assert_array_equal(fft.ifftshift(tg.tensor(x), dim).numpy(), np.fft.ifftshift(x, axes))
        z = fft.fftshift(tg.complex(tg.tensor(x), tg.tensor(-x)), dim)
        np.testing.assert_array_equal(z.numpy(), np.fft.fftshift(x - 1j * x, axes))


def test_integers_become_numbers_and_the_input_stays() -> None:
    x = tg.tensor([[1, 0, 2], [3, 1, 0]])
    assert fft.fft(x).dtype == tg.complex64 and fft.rfft(x > 0).dtype == tg.complex64
    assert fft.irfft(fft.rfft(x), 3).dtype == tg.float32
    half = fft.rfft(tg.tensor(A))
    before = half.numpy().copy()
    leaf = half.real.clone().requires_grad_()
    fft.irfft(tg.complex(leaf, half.imag)).sum().backward()
    np.testing.assert_array_equal(half.numpy(), before)
    with tg.autocast("cpu", dtype=tg.bfloat16):  # raised, as in PyTorch
        assert fft.fft(tg.ones(3, dtype=tg.bfloat16)).dtype == tg.complex64
    np.testing.assert_array_equal(fft.fft2(tg.tensor(A).transpose(0, 2)).shape, (5, 4, 3))


def test_infinity_stays_in_its_part() -> None:
    z = tg.complex(tg.tensor([1.0, tg.nan]), tg.tensor([tg.inf, 0.0])).numpy()
    assert z[0] == complex(1.0, float("inf")) and np.isnan(z[1].real) and z[1].imag == 0.0


# --- complex numbers, as far as users of transforms need them ---------------------------------------------------------


def complex_programs(t: Any) -> dict[str, Any]:
    a, b = t.tensor(A, requires_grad=True), t.tensor(B, requires_grad=True)
    z, w = t.fft.fft(t.complex(a, b)), t.fft.rfft(b, 5)
    real, single = t.tensor(B), t.tensor(A[0, 0, 0], dtype=t.float32)
    wide = t.complex(t.ones(5), t.zeros(5)) + real
    low, spectrum = t.fft.rfft(a, dim=1), t.fft.fft2(a)
    low[:, 2:] = 0
    spectrum[1] = z[1]
    spectrum[:, ::2] = b[:, ::2]
    values = {
        "a low pass filter": t.fft.irfft(low, n=4, dim=1),
        "written": t.fft.ifft2(spectrum).real * spectrum.imag,
        "abs": t.abs(z) + z.abs() + abs(z),
        "angle": t.angle(z) * t.angle(a),
        "angle of nothing": t.angle(t.complex((a * 0.0).abs(), (b * 0.0).abs())) + a,
        "real factor": t.abs(real * z * 2) + t.abs(z * real),
        "real term": (real + z - 1.0).imag + (2.0 - z + real).real + (real - z).imag,
        "real divisor": (z / real).real + (real / z).imag + (1j / z).real,
        "wider": (wide * z).real,
        "single": (single * z).imag,
        "shapes": z.permute(1, 2, 0).mT.reshape(5, -1).T.narrow(0, 1, 5).flatten().real,
        "axes": z.swapaxes(0, 2).movedim(0, 1).select(1, 2).roll(1, 0).flip(1).imag,
        "functions": t.transpose(z, 0, 1).real.sum() * t.roll(z, 1, 2).mean().imag * t.sum(z, 0).real.mean(),
        "power": (z * z.conj()).real.sum(-1),
        "filter": t.fft.irfft(w * t.tensor([1.0, 0.5, 0.0]), n=5),
    }
    found: dict[str, Any] = {}
    for name, value in values.items():
        weights = t.tensor(np.random.default_rng(2).normal(size=tuple(value.shape)))
        gradients = t.autograd.grad((value * weights).sum(), [a, b], retain_graph=True, allow_unused=True)
        found[name] = [value.detach().numpy(), *[None if g is None else g.numpy() for g in gradients]]
    return found


def test_complex_numbers_are_pytorchs() -> None:
    torch = pytest.importorskip("torch")
    found, wanted = complex_programs(tg), complex_programs(torch)
    for name, arrays in wanted.items():
        for got, want in zip(found[name], arrays, strict=True):
            assert (got is None) == (want is None), name
            if want is not None:
                assert got.dtype == want.dtype, name
                np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9, err_msg=name)


# --- FNet -------------------------------------------------------------------------------------------------------------

TRAIN = """
import torch
from torch import nn
from torch.fft import fft

class Mixing(nn.Module):
    def forward(self, x):
        return {mixing}

torch.manual_seed(0)
mixing = Mixing(), nn.LayerNorm(16), Mixing(), nn.LayerNorm(16)
model = nn.Sequential(nn.Embedding(3, 16), *mixing, nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 5))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(150):
    ids = torch.randint(0, 3, (32, 8))
    loss = nn.functional.cross_entropy(model(ids).flatten(0, 1), (ids + ids.flip(1).roll(1, 1)).flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
"""


@pytest.mark.parametrize("mixing", ["torch.fft.fft2(x).real", "fft(fft(x, dim=-1), dim=-2).real"])
def test_fnet_trains_in_pytorchs_words(mixing: str, tmp_path: Path) -> None:
    """The same losses as PyTorch's: initial weights and random numbers are the same."""
    (tmp_path / "fnet.py").write_text(TRAIN.format(mixing=mixing))
    path = {"PYTHONPATH": str(Path(tg.__file__).parent.parent), "PATH": "", "TINYGRAD_TF_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "tinygrad_tf.as_torch", "fnet.py"]
    run = subprocess.run(command, cwd=tmp_path, env=path, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert abs(float(run.stdout) - 0.0040388) < 4e-5


# --- misuse -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: fft.fft([1.0, 2.0]), TypeError, "fft: input must be a tensor, got list"),
        (lambda: fft.rfft([1.0]), TypeError, "rfft: input must be a tensor, got list"),
        (lambda: fft.fftshift([1.0]), TypeError, "fftshift: input must be a tensor, got list"),
        (
            lambda: fft.rfft(fft.fft(tg.ones(3))),
            RuntimeError,
            "rfft: input must be real, got torch.complex64; use fft$",
        ),
        (lambda: fft.rfft2(fft.fft(tg.ones(3, 3))), RuntimeError, "use fft2$"),
        (lambda: fft.fft(tg.ones(3, dtype=tg.float16)), RuntimeError, "float32 or float64, got .*float16; cast it"),
        (lambda: fft.fft(tg.ones(3).bfloat16()), RuntimeError, "float32 or float64, got .*bfloat16"),
        (lambda: fft.fft(tg.complex(*[tg.ones(3).half()] * 2)), RuntimeError, "float32 or float64, got .*float16"),
        (lambda: fft.fft(tg.tensor(1.0)), RuntimeError, "fft: input must have at least one dimension"),
        (lambda: fft.fft(tg.ones(3), 0), RuntimeError, "fft: needs a whole number of points.*along dim 0, got 0"),
        (lambda: fft.ifft(tg.ones(3), 2.5), RuntimeError, r"ifft: needs a whole number of points.*got 2\.5"),
        (lambda: fft.fft(tg.ones(2, 0)), RuntimeError, "along dim 1, got 0"),
        (lambda: fft.irfft(tg.ones(1)), RuntimeError, "irfft: .*at least 1, along dim 0, got 0"),
        (lambda: fft.fft(tg.ones(3), dim=1), IndexError, r"fft: dim must be in \[-1, 0\]"),
        (lambda: fft.fft2(tg.ones(3)), IndexError, "fft2: dim must be in"),
        (lambda: fft.fft2(tg.ones(3, 3), dim=(0, -2)), RuntimeError, r"fft2: dim must name .* different ones, got \(0"),
        (lambda: fft.fftn(tg.ones(3, 3), dim=()), RuntimeError, r"fftn: dim must name .*, got \(\)"),
        (lambda: fft.fft2(tg.ones(3, 3), s=(2,)), RuntimeError, r"s must have an entry for each of the 2 axes"),
        (lambda: fft.fftn(tg.ones(3), s=(2, 2)), IndexError, "fftn: dim must be in"),
        (lambda: fft.fft(tg.ones(3), norm="both"), RuntimeError, "norm must be None, .*got 'both'"),
        (lambda: fft.fftfreq(0), RuntimeError, "fftfreq: n must be a whole number of at least 1, got 0"),
        (lambda: fft.rfftfreq(2.5), RuntimeError, r"rfftfreq: n must be a whole number.*got 2\.5"),
        (lambda: tg.zeros(2, dtype=tg.cfloat), TypeError, r"complex64 is not; complex\(real, imag\) makes"),
        (lambda: tg.ones(2).to(tg.complex128), TypeError, "tensors are real, and complex128 is not"),
    ],
)
def test_misuse_is_told(call: Callable[[], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words) as told:
        call()
    assert "\n" not in str(told.value)


def test_the_module_has_pytorchs_names() -> None:
    torch: ModuleType = pytest.importorskip("torch")
    assert set(fft.__all__) <= set(dir(torch.fft))
    assert nn is tg.nn and tg.fft is fft
