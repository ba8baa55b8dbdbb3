"""Divisors, exponents and slopes by differences, low-rank decompositions, short-time Fourier transforms: as PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinygrad_tf as tg

W = np.array([12, 18, -4, 0, 7]), np.array([8, 27, 6, 5, 0])
X = np.random.default_rng(3).normal(size=(3, 8))
SIGNAL = np.random.default_rng(4).normal(size=(2, 40))
Many = Callable[[Any], Any]


def _window(t: Any, x: Any) -> Any:
    return t.hann_window(8, dtype=x.dtype)


COMPARED: dict[str, Many] = {
    "gcd": lambda t: t.gcd(t.tensor(W[0]), t.tensor(W[1])),
    "lcm": lambda t: t.tensor(W[0]).lcm(t.tensor(W[1])[:, None]),
    "float_power": lambda t: t.float_power(t.tensor([2, 3]), t.tensor([0.5, 2.0])),
    "float_power of a number": lambda t: t.float_power(2, t.tensor([1, 3])),
    "ldexp": lambda t: t.ldexp(t.tensor([1.5, 2.0]), t.tensor([3, -4])),
    "frexp": lambda t: list(t.frexp(t.tensor([8.0, 0.3, -5.0, 0.0]))),
    "msort": lambda t: t.tensor([[3, 1], [2, 5]]).msort(),
    "gradient": lambda t: list(t.gradient(t.tensor(X))),
    "gradient of other spacing": lambda t: t.gradient(t.tensor([1.0, 4.0, 9.0]), spacing=2.0)[0],
    "gradient of spacings": lambda t: list(t.gradient(t.tensor(X), spacing=[0.5, 2.0], edge_order=2)),
    "gradient at points": lambda t: t.gradient(
        t.tensor(X), spacing=(t.tensor(X[0] ** 2).cumsum(0),), dim=-1, edge_order=2
    )[0],
    "gradient at points, one-sided": lambda t: t.gradient(
        t.tensor(X), spacing=(t.tensor([0.0, 1.0, 4.0], dtype=t.float64),), dim=[0]
    )[0],
    "gradient of two points": lambda t: t.gradient(t.tensor([1.0, 3.0]))[0],
    "windows": lambda t: [
        getattr(t, f"{name}_window")(n, periodic)
        for name in ("hann", "hamming", "blackman", "bartlett", "kaiser")
        for n in (0, 1, 2, 7, 8)
        for periodic in (True, False)
    ],
    "windows of other shapes": lambda t: [
        t.hamming_window(6, True, 0.6, 0.3, dtype=t.float64),
        t.kaiser_window(6, False, 4.0, dtype=t.float64),
    ],
    "stft": lambda t: t.view_as_real(t.stft(t.tensor(SIGNAL), 8, return_complex=True, window=_window(t, t.tensor(X)))),
    "stft whole": lambda t: t.view_as_real(
        t.stft(t.tensor(SIGNAL[0]), 9, 4, 6, center=False, normalized=True, onesided=False, return_complex=True,
               window=t.ones(6, dtype=t.float64))
    ),
    "istft": lambda t: t.istft(
        t.stft(t.tensor(SIGNAL), 8, window=_window(t, t.tensor(X)), return_complex=True), 8,
        window=_window(t, t.tensor(X)), length=40,
    ),
    "istft whole": lambda t: t.istft(
        t.stft(t.tensor(SIGNAL[0]), 9, 4, 9, center=False, normalized=True, onesided=False, return_complex=True,
               window=t.ones(9, dtype=t.float64)),
        9, 4, center=False, normalized=True, onesided=False, length=60, window=t.ones(9, dtype=t.float64),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", COMPARED)
def test_as_in_pytorch(name: str) -> None:
    torch = pytest.importorskip("torch")
    found = [COMPARED[name](t) for t in (tg, torch)]
    for got, want in zip(*(f if isinstance(f, list) else [f] for f in found), strict=True):
        assert str(got.dtype) == str(want.dtype)
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-6, atol=1e-7)


def test_ldexp_has_a_gradient_beside_negative_integers() -> None:
    x = tg.tensor([1.0, 3.0], requires_grad=True)
    tg.ldexp(x, tg.tensor([-1, 2])).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [0.5, 4.0]


@pytest.mark.parametrize("shape", [(9, 5), (2, 5, 9)])
def test_low_rank_decompositions_as_in_pytorch(shape: tuple[int, ...]) -> None:
    torch = pytest.importorskip("torch")
    values = np.random.default_rng(1).normal(size=shape)
    found = []
    for t in (torch, tg):
        t.manual_seed(2)
        parts = (
            t.svd_lowrank(t.tensor(values), 3, M=t.tensor(0.1, dtype=t.float64)),
            t.pca_lowrank(t.tensor(values)),
            t.randn(2),
        )
        found.append([parts[0][1], parts[1][1], parts[2], *(u * s.unsqueeze(-2) @ v.mT for u, s, v in parts[:2])])
    for got, want in zip(found[1], found[0], strict=True):
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: tg.lcm(tg.tensor([1]), 2), TypeError, "lcm: other must be a tensor"),
        (lambda: tg.ldexp(2.0, tg.ones(1)), TypeError, "ldexp: input must be a tensor"),
        (lambda: tg.msort([1]), TypeError, "msort: input must be a tensor"),
        (lambda: tg.gradient(2.0), TypeError, "gradient: input must be a tensor"),
        (lambda: tg.hann_window(-1), RuntimeError, "hann_window: window_length must be a whole number from 0 on"),
        (lambda: tg.hann_window(3, dtype=tg.int64), RuntimeError, "hann_window: dtype must be a floating point type"),
        (lambda: tg.stft(tg.ones(8), 4), RuntimeError, "stft: say return_complex=True"),
        (lambda: tg.stft(tg.ones(1, 1, 8), 4), RuntimeError, r"stft: input must be a tensor \(T\)"),
        (lambda: tg.stft(tg.ones(3), 4, center=False, return_complex=True), RuntimeError, "n_fft must be from 1 to"),
        (lambda: tg.stft(tg.ones(8), 4, 0, return_complex=True), RuntimeError, "hop_length must be at least 1, got 0"),
        (lambda: tg.stft(tg.ones(8), 4, 1, 5, return_complex=True), RuntimeError, "win_length must be from 1 to n_fft"),
        (
            lambda: tg.stft(tg.ones(8), 4, window=tg.ones(3), return_complex=True),
            RuntimeError,
            r"window must have the shape \(4,\), got \(3,\)",
        ),
        (lambda: tg.stft(tg.ones(8), 4, window=2, return_complex=True), TypeError, "window must be a tensor"),
        (lambda: tg.istft(tg.ones(3, 2), 4), RuntimeError, "istft: input must be complex"),
        (lambda: tg.istft(tg.fft.fft(tg.ones(2, 2)), 4), RuntimeError, "must have 3 frequencies for n_fft=4, got 2"),
        (lambda: tg.istft(tg.fft.fft(tg.ones(3, 2)), 4, return_complex=True), RuntimeError, "must be False"),
        (lambda: tg.istft(tg.fft.fft(tg.ones(3, 2)), 4, 4, 2), RuntimeError, "window must not be 0 at a point"),
        (lambda: tg.svd_lowrank(tg.ones(3)), RuntimeError, "svd_lowrank: A must be a tensor"),
        (lambda: tg.svd_lowrank(tg.ones(3, 3)), ValueError, "svd_lowrank: q must be from 0 to 3"),
        (lambda: tg.pca_lowrank(tg.ones(3)), RuntimeError, "pca_lowrank: A must be a tensor"),
        (lambda: tg.pca_lowrank(tg.ones(3, 3), 4), ValueError, "pca_lowrank: q must be from 0 to 3"),
    ],
)
def test_misuse_is_told(call: Callable[[], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()
