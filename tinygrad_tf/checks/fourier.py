"""Rows for Fourier transforms and complex numbers; part of the table in table.py."""

from __future__ import annotations

from typing import Any

import tinygrad_tf as tg
from tinygrad_tf import Tensor
from tinygrad_tf.checks.table import normal, op, positive
from tinygrad_tf.nn import functional as F


def parts(z: Any) -> Tensor:
    return tg.stack([z.real, z.imag], -1)


def mixed(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """How FNet mixes words and channels (Lee-Thorp et al., 2022): the real part of a transform over both."""
    return F.layer_norm(x + tg.fft.fft(tg.fft.fft(x, dim=-1), dim=-2).real, x.shape[-1:], weight, bias)


op("fft", lambda a, b: parts(tg.fft.fft(tg.complex(a, b), 5, dim=0)), normal(4, 3), normal(4, 3))
op("fft of real numbers", lambda a: parts(tg.fft.fft(a, norm="ortho")) ** 2, normal(2, 5))
op("ifft", lambda a, b: parts(tg.fft.ifft(tg.complex(a, b), 3)), normal(2, 4), normal(2, 4))
op("rfft", lambda a: parts(tg.fft.rfft(a, 6)) ** 2, normal(2, 5))
op("rfft odd", lambda a: parts(tg.fft.rfft(a, dim=0, norm="forward")) ** 2, normal(5, 2))
op("irfft", lambda a, b: tg.fft.irfft(tg.complex(a, b)) ** 2, normal(2, 4), normal(2, 4))
op("irfft odd", lambda a, b: tg.fft.irfft(tg.complex(a, b), 5, 0, "ortho") ** 2, normal(4, 2), normal(4, 2))
op("fft2 real part", lambda a: tg.fft.fft2(a).real ** 2, normal(2, 3, 4))
op("ifft2", lambda a, b: parts(tg.fft.ifft2(tg.complex(a, b), (3, 2))), normal(2, 4), normal(2, 4))
op("rfft2", lambda a: parts(tg.fft.rfft2(a)) ** 2, normal(2, 3, 4))
op("irfft2", lambda a, b: tg.fft.irfft2(tg.complex(a, b)) ** 2, normal(3, 4), normal(3, 4))
op("fftn", lambda a: abs(tg.fft.fftn(a, norm="forward")), normal(2, 3, 2))
op("ifftn", lambda a: parts(tg.fft.ifftn(a, dim=(0, 2))), normal(2, 3, 2))
op("fftshift", lambda a: parts(tg.fft.fftshift(tg.fft.fft(a))) * tg.fft.ifftshift(a)[:, None], normal(5))
op("convolution by fft", lambda a, b: tg.fft.irfft(tg.fft.rfft(a, 8) * tg.fft.rfft(b, 8), 8), normal(2, 5), normal(4))
op("angle", lambda a, b: tg.angle(tg.complex(a, b)), normal(5), normal(5))
op("number by complex", lambda a, b, c: parts(c / tg.complex(a, b)), normal(3), normal(3), normal(2, 3))
op("FNet mixing", mixed, normal(2, 3, 4), normal(4), normal(4))
op(
    "stft",
    lambda a, w: parts(tg.stft(a, 8, 3, 6, w, pad_mode="constant", return_complex=True)) ** 2,
    normal(2, 11),
    normal(6),
)
op(
    "istft",
    lambda a, b, w: tg.istft(tg.complex(a, b), 4, 2, window=w),
    normal(3, 4),
    normal(3, 4),
    positive(4),
)
