"""Short-time Fourier transforms and the windows that they look through, under PyTorch's names.

A window of n points is that of n + 1 without its last one if it is periodic, as transforms want it.
"""

from __future__ import annotations

import math
from typing import Any

from tinygrad_tf import fft, special
from tinygrad_tf.complex_numbers import ComplexTensor, view_as_real
from tinygrad_tf.creation import arange, ones, zeros
from tinygrad_tf.dtypes import DType, float64
from tinygrad_tf.functions import get_default_dtype
from tinygrad_tf.methods._tools import check_all
from tinygrad_tf.methods.composed import as_methods
from tinygrad_tf.nn import functional as F
from tinygrad_tf.ops._types import wants_tensor
from tinygrad_tf.tensor import Tensor


def _points(name: str, window_length: int, periodic: bool, dtype: DType | None) -> Tensor:
    """From 0 to 1, in float64; a window of one point has its middle."""
    if not isinstance(window_length, int) or window_length < 0:
        raise RuntimeError(f"{name}: window_length must be a whole number from 0 on, got {window_length!r}")
    if dtype is not None and not ones(0, dtype=dtype).is_floating_point():
        raise RuntimeError(f"{name}: dtype must be a floating point type, got {dtype}")
    last = window_length if periodic else window_length - 1
    points: Tensor = arange(window_length, dtype=float64) / max(last, 1)
    return points if window_length != 1 else points + 0.5


def _made(window: Tensor, dtype: DType | None, requires_grad: bool) -> Tensor:
    return window.to(dtype or get_default_dtype()).requires_grad_(requires_grad)


def hann_window(
    window_length: int, periodic: bool = True, *, dtype: DType | None = None, requires_grad: bool = False, **like: Any
) -> Tensor:
    """sin^2(pi x) for x from 0 to 1.

    >>> hann_window(4)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    x = _points("hann_window", window_length, periodic, dtype)
    return _made((math.pi * x).sin() ** 2, dtype, requires_grad)


def hamming_window(
    window_length: int, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46, *,
    dtype: DType | None = None, requires_grad: bool = False, **like: Any,
) -> Tensor:  # fmt: skip
    """alpha - beta cos(2 pi x) for x from 0 to 1."""
    x = _points("hamming_window", window_length, periodic, dtype)
    window = alpha - beta * (2 * math.pi * x).cos()
    return _made(window if window_length != 1 else x * 2, dtype, requires_grad)


def blackman_window(
    window_length: int, periodic: bool = True, *, dtype: DType | None = None, requires_grad: bool = False, **like: Any
) -> Tensor:
    """0.42 - 0.5 cos(2 pi x) + 0.08 cos(4 pi x) for x from 0 to 1."""
    x = _points("blackman_window", window_length, periodic, dtype)
    window = 0.42 - 0.5 * (2 * math.pi * x).cos() + 0.08 * (4 * math.pi * x).cos()
    return _made(window.clamp(min=0.0), dtype, requires_grad)


def bartlett_window(
    window_length: int, periodic: bool = True, *, dtype: DType | None = None, requires_grad: bool = False, **like: Any
) -> Tensor:
    """The triangle 1 - |2 x - 1| for x from 0 to 1."""
    x = _points("bartlett_window", window_length, periodic, dtype)
    return _made(1 - (2 * x - 1).abs(), dtype, requires_grad)


def kaiser_window(
    window_length: int, periodic: bool = True, beta: float = 12.0, *,
    dtype: DType | None = None, requires_grad: bool = False, **like: Any,
) -> Tensor:  # fmt: skip
    """i0(beta sqrt(1 - (2 x - 1)^2)) / i0(beta) for x from 0 to 1 (Kaiser, 1974)."""
    x = _points("kaiser_window", window_length, periodic, dtype)
    inside = (1 - (2 * x - 1) ** 2).clamp(min=0.0).sqrt()
    return _made(special.i0(beta * inside) / special.i0(ones((), dtype=x.dtype) * beta), dtype, requires_grad)


def stft(
    input: Tensor, n_fft: int, hop_length: int | None = None, win_length: int | None = None,
    window: Tensor | None = None, center: bool = True, pad_mode: str = "reflect", normalized: bool = False,
    onesided: bool | None = None, return_complex: bool | None = None,
) -> Any:  # fmt: skip
    """The Fourier transforms of pieces of n_fft points of a signal, (T) or (B, T), `hop_length` (n_fft // 4) apart,
    each seen through `window`: a ComplexTensor (..., frequencies, pieces), or of pairs (..., 2) without return_complex.

    center: piece t has its middle at t hop_length; the ends are filled up as pad_mode says. normalized: divided by
    sqrt(n_fft). onesided: only the frequencies from 0 to half (True).

    >>> from tinygrad_tf import ones
    >>> stft(ones(8), 4, window=ones(4), return_complex=True).real[:, 0]
    tensor([4., 0., 0.])
    """
    if not isinstance(input, Tensor) or input.ndim not in (1, 2):
        raise RuntimeError(f"stft: input must be a tensor (T) or (B, T), got {_shape(input)}")
    if return_complex is None:
        raise RuntimeError("stft: say return_complex=True, or False for pairs of real numbers")
    if center:
        half = n_fft // 2
        rows = input.reshape(-1, 1, input.shape[-1])
        input = F.pad(rows, (half, half), mode=pad_mode).reshape(*input.shape[:-1], -1)
    if not 0 < n_fft <= input.shape[-1]:
        raise RuntimeError(f"stft: n_fft must be from 1 to the signal's {input.shape[-1]} points, got {n_fft}")
    seen = input.unfold(-1, n_fft, _hop("stft", n_fft, hop_length)) * _looking("stft", input, n_fft, win_length, window)
    change = fft.fft if onesided is False else fft.rfft
    found = change(seen, norm="ortho" if normalized else None).transpose(-1, -2)
    return found if return_complex else view_as_real(found)


def istft(
    input: ComplexTensor, n_fft: int, hop_length: int | None = None, win_length: int | None = None,
    window: Tensor | None = None, center: bool = True, normalized: bool = False, onesided: bool | None = None,
    length: int | None = None, return_complex: bool = False,
) -> Tensor:  # fmt: skip
    """The signal that has these short-time Fourier transforms, or the one nearest to them: the pieces are added where
    they overlap, and divided by the sum of the squared windows (Griffin and Lim, 1984).

    length: cut, or filled up with zeros, to so many points.
    """
    if not isinstance(input, ComplexTensor) or input.ndim not in (2, 3):
        raise RuntimeError(f"istft: input must be complex, (..., frequencies, pieces), got {_shape(input)}")
    if return_complex:
        raise RuntimeError("istft: return_complex must be False: signals are real here")
    wanted = n_fft if onesided is False else n_fft // 2 + 1
    if input.shape[-2] != wanted:
        raise RuntimeError(f"istft: input must have {wanted} frequencies for n_fft={n_fft}, got {input.shape[-2]}")
    hop = _hop("istft", n_fft, hop_length)
    looking = _looking("istft", input.real, n_fft, win_length, window)
    spectra, norm = input.transpose(-1, -2), "ortho" if normalized else None
    pieces = fft.ifft(spectra, norm=norm).real if onesided is False else fft.irfft(spectra, n_fft, norm=norm)
    signal, weight = _added(pieces * looking, hop), _added((looking * looking).expand(*pieces.shape[-2:]), hop)
    begin = n_fft // 2 if center else 0
    end = begin + length if length is not None else signal.shape[-1] - begin
    signal, weight = signal[..., begin:end], weight[begin:end]
    if float(weight.abs().min()) < 1e-11:
        raise RuntimeError("istft: window must not be 0 at a point in all pieces that hold it")
    found = signal / weight
    return found if length is None else F.pad(found, (0, max(length - found.shape[-1], 0)))


def _hop(name: str, n_fft: int, hop_length: int | None) -> int:
    hop = n_fft // 4 if hop_length is None else hop_length
    if hop < 1:
        raise RuntimeError(f"{name}: hop_length must be at least 1, got {hop}")
    return hop


def _looking(name: str, like: Tensor, n_fft: int, win_length: int | None, window: Tensor | None) -> Tensor:
    """The window in the middle of n_fft points."""
    size = n_fft if win_length is None else win_length
    if not 0 < size <= n_fft:
        raise RuntimeError(f"{name}: win_length must be from 1 to n_fft={n_fft}, got {size}")
    if window is None:
        window = ones(size, dtype=like.dtype)
    if not isinstance(window, Tensor):
        raise wants_tensor(name, "window", window)
    if tuple(window.shape) != (size,):
        raise RuntimeError(f"{name}: window must have the shape ({size},), got {tuple(window.shape)}")
    left = (n_fft - size) // 2
    return F.pad(window, (left, n_fft - size - left))


def _added(pieces: Tensor, hop: int) -> Tensor:
    """Pieces (..., number, n) in their places `hop` apart, added up where they overlap."""
    *batch, number, n = pieces.shape
    places = (arange(number)[:, None] * hop + arange(n)).reshape(-1)
    return zeros(*batch, (number - 1) * hop + n, dtype=pieces.dtype).index_add(-1, places, pieces.flatten(-2))


def _shape(value: Any) -> str:
    return f"shape {tuple(value.shape)}" if isinstance(value, (Tensor, ComplexTensor)) else type(value).__name__


__all__ = ["bartlett_window", "blackman_window", "hamming_window", "hann_window", "istft", "kaiser_window", "stft"]

check_all(__all__, globals())
as_methods(Tensor, "istft stft", globals())
as_methods(ComplexTensor, "istft", globals())
