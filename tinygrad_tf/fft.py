"""Discrete Fourier transforms under PyTorch's names (torch.fft), with gradients.

A transform of n points along one axis is X_k = sum over t of x_t e^(-i 2 pi k t / n). What comes out is a ComplexTensor
(complex_numbers.py), of the precision of what went in: complex64 for float32, complex128 for float64. Integers become
the default dtype first. All take the same arguments:

n, or s for several axes: how many points; the input is cut, or filled up with zeros at its end. None: as many as there
are. dim: the axis, or axes. norm: what is divided by the number of points: "backward" (or None) the inverse transform,
"forward" the other one; "ortho" divides both by its root, so that lengths stay.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from tinygrad_tf import functions
from tinygrad_tf.complex_numbers import ComplexTensor, view_as_complex, view_as_real
from tinygrad_tf.creation import tensor, zeros, zeros_like
from tinygrad_tf.dtypes import DType
from tinygrad_tf.ops import fourier
from tinygrad_tf.ops._precision import raised
from tinygrad_tf.ops._types import axes, axis, category, default_float, wants_tensor
from tinygrad_tf.tensor import Tensor

__all__ = ["fft", "fft2", "fftfreq", "fftn", "fftshift", "ifft", "ifft2", "ifftn", "ifftshift", "irfft", "irfft2"]
__all__ += ["irfftn", "rfft", "rfft2", "rfftfreq", "rfftn"]

Input = Tensor | ComplexTensor
Sizes = int | Sequence[int] | None
Dims = int | Sequence[int] | None
Norm = str | None
Either = TypeVar("Either", Tensor, ComplexTensor)
LAST_TWO = (-2, -1)

# --- one axis ---------------------------------------------------------------------------------------------------------


def fft(input: Input, n: int | None = None, dim: int = -1, norm: Norm = None) -> ComplexTensor:
    """The transform of real or complex numbers.

    >>> from tinygrad_tf import tensor
    >>> fft(tensor([1.0, 0.0, -1.0, 0.0])).real
    tensor([0., 2., 0., 2.])
    """
    return _transformed("fft", input, n, (dim,), norm, inverse=False)


def ifft(input: Input, n: int | None = None, dim: int = -1, norm: Norm = None) -> ComplexTensor:
    """The inverse of `fft`: sum over k of X_k e^(+i 2 pi k t / n), divided by n."""
    return _transformed("ifft", input, n, (dim,), norm, inverse=True)


def rfft(input: Tensor, n: int | None = None, dim: int = -1, norm: Norm = None) -> ComplexTensor:
    """The first n // 2 + 1 numbers of the transform of real ones. The others mirror them: X_(n-k) = conj(X_k).

    >>> from tinygrad_tf import tensor
    >>> rfft(tensor([1.0, 0.0, -1.0, 0.0])).tolist()
    [0j, (2+0j), 0j]
    """
    return _half("rfft", input, n, (dim,), norm)


def irfft(input: Input, n: int | None = None, dim: int = -1, norm: Norm = None) -> Tensor:
    """The inverse of `rfft`: n real numbers. Without n an even number of them, twice as many as there are, less two.

    >>> from tinygrad_tf import tensor
    >>> irfft(rfft(tensor([1.0, 2.0, 4.0])), n=3)
    tensor([1., 2., 4.])
    """
    return _whole("irfft", input, n, (dim,), norm)


# --- several axes -----------------------------------------------------------------------------------------------------


def fft2(input: Input, s: Sizes = None, dim: Dims = LAST_TWO, norm: Norm = None) -> ComplexTensor:
    """The transform over two axes. Its real part mixes words and channels in FNet (Lee-Thorp et al., 2022, equation 3).

    >>> from tinygrad_tf import ones
    >>> fft2(ones(2, 3, 4)).real[0]
    tensor([[12.,  0.,  0.,  0.],
            [ 0.,  0.,  0.,  0.],
            [ 0.,  0.,  0.,  0.]])
    """
    return _transformed("fft2", input, s, dim, norm, inverse=False)


def ifft2(input: Input, s: Sizes = None, dim: Dims = LAST_TWO, norm: Norm = None) -> ComplexTensor:
    """The inverse of `fft2`."""
    return _transformed("ifft2", input, s, dim, norm, inverse=True)


def rfft2(input: Tensor, s: Sizes = None, dim: Dims = LAST_TWO, norm: Norm = None) -> ComplexTensor:
    """`fft2` of real numbers: of the last of the axes the first half, as `rfft` has it."""
    return _half("rfft2", input, s, dim, norm)


def irfft2(input: Input, s: Sizes = None, dim: Dims = LAST_TWO, norm: Norm = None) -> Tensor:
    """The inverse of `rfft2`; s says whether the last axis had an odd number of points."""
    return _whole("irfft2", input, s, dim, norm)


def fftn(input: Input, s: Sizes = None, dim: Dims = None, norm: Norm = None) -> ComplexTensor:
    """The transform over several axes: `dim`, or the last ones, as many as s has entries, or all."""
    return _transformed("fftn", input, s, dim, norm, inverse=False)


def ifftn(input: Input, s: Sizes = None, dim: Dims = None, norm: Norm = None) -> ComplexTensor:
    """The inverse of `fftn`."""
    return _transformed("ifftn", input, s, dim, norm, inverse=True)


def rfftn(input: Tensor, s: Sizes = None, dim: Dims = None, norm: Norm = None) -> ComplexTensor:
    """`fftn` of real numbers: of the last of the axes the first half, as `rfft` has it."""
    return _half("rfftn", input, s, dim, norm)


def irfftn(input: Input, s: Sizes = None, dim: Dims = None, norm: Norm = None) -> Tensor:
    """The inverse of `rfftn`; s says whether the last axis had an odd number of points."""
    return _whole("irfftn", input, s, dim, norm)


# --- which frequency is where -----------------------------------------------------------------------------------------


def fftfreq(
    n: int, d: float = 1.0, *, dtype: DType | None = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """The frequencies of the entries of `fft`, in cycles for each unit of the distance d between two points.

    >>> fftfreq(4)
    tensor([ 0.0000,  0.2500, -0.5000, -0.2500])
    """
    n = _points("fftfreq", n)
    return _frequencies(n, d, [*range((n + 1) // 2), *range(-(n // 2), 0)], dtype, device, requires_grad)


def rfftfreq(
    n: int, d: float = 1.0, *, dtype: DType | None = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """The frequencies of the entries of `rfft`.

    >>> rfftfreq(4)
    tensor([0.0000, 0.2500, 0.5000])
    """
    n = _points("rfftfreq", n)
    return _frequencies(n, d, range(n // 2 + 1), dtype, device, requires_grad)


def fftshift(input: Either, dim: Dims = None) -> Either:
    """Frequency 0 in the middle of each axis of `dim` (None: of all), the negative ones before it.

    >>> fftshift(fftfreq(4))
    tensor([-0.5000, -0.2500,  0.0000,  0.2500])
    """
    return _shifted("fftshift", input, dim, lambda n: n // 2)


def ifftshift(input: Either, dim: Dims = None) -> Either:
    """The inverse of `fftshift`."""
    return _shifted("ifftshift", input, dim, lambda n: -(n // 2))


# --- how it is done ---------------------------------------------------------------------------------------------------


@raised
def _floats(name: str, input: Tensor) -> Tensor:
    """The input in a dtype that can be transformed."""
    dtype = input.array.dtype
    if category(dtype) < 2:
        return input.to(default_float())
    if dtype.itemsize == 2:
        raise RuntimeError(f"{name}: input must be of float32 or float64, got {input.dtype}; cast it with .float()")
    return input


def _pairs(name: str, input: Any) -> Tensor:
    """Real or complex numbers (...) as pairs (..., 2)."""
    if isinstance(input, ComplexTensor):
        _floats(name, input.real)
        return view_as_real(input)
    if not isinstance(input, Tensor):
        raise wants_tensor(name, "input", input)
    real = _floats(name, input)
    return functions.stack([real, zeros_like(real)], -1)


def _axes(name: str, shape: Sequence[int], s: Any, dim: Any, real: bool = False) -> tuple[tuple[int, ...], list[int]]:
    """The axes and how many points each is to have. real: of the last axis there is only the half."""
    sizes = None if s is None else list(s) if isinstance(s, (tuple, list)) else [s]
    if dim is None:
        dims = tuple(range(len(shape) if sizes is None else len(sizes)))
        dims = tuple(d - len(dims) for d in dims)
    else:
        dims = tuple(dim) if isinstance(dim, (tuple, list)) else (dim,)
    if not shape:
        raise RuntimeError(f"{name}: input must have at least one dimension, got a single number")
    dims = tuple(axis(name, d, len(shape)) for d in dims)
    if len(set(dims)) < len(dims) or not dims:
        raise RuntimeError(f"{name}: dim must name one axis or several different ones, got {dim}")
    if sizes is not None and len(sizes) != len(dims):
        raise RuntimeError(f"{name}: s must have an entry for each of the {len(dims)} axes {dims}, got {tuple(sizes)}")
    there = [shape[d] for d in dims]
    if real:
        there[-1] = 2 * (there[-1] - 1)
    points = there if sizes is None else [m if n == -1 else n for n, m in zip(sizes, there, strict=True)]
    for d, n in zip(dims, points, strict=True):
        if not isinstance(n, (int, np.integer)) or n < 1:
            raise RuntimeError(f"{name}: needs a whole number of points, at least 1, along dim {d}, got {n!r}")
    return dims, points


def _fitted(x: Tensor, dims: Sequence[int], sizes: Sequence[int]) -> Tensor:
    """Cut off, or filled up with zeros, at the end of each axis."""
    for d, n in zip(dims, sizes, strict=True):
        there = x.array.shape[d]
        if n < there:
            x = x.narrow(d, 0, n)
        elif n > there:
            missing = (*x.array.shape[:d], n - there, *x.array.shape[d + 1 :])
            x = functions.cat([x, zeros(missing, dtype=x.dtype)], d)
    return x


def _scale(name: str, norm: Norm, points: Sequence[int], inverse: bool) -> float:
    """What the sums are multiplied by."""
    if norm not in (None, "backward", "ortho", "forward"):
        raise RuntimeError(f"{name}: norm must be None, 'backward', 'ortho' or 'forward', got {norm!r}")
    if norm == "ortho":
        return 1.0 / math.sqrt(math.prod(points))
    return 1.0 / math.prod(points) if inverse == (norm != "forward") else 1.0


def _transformed(name: str, input: Input, s: Sizes, dim: Dims | tuple[int], norm: Norm, inverse: bool) -> ComplexTensor:
    pairs = _pairs(name, input)
    dims, points = _axes(name, input.shape, s, dim)
    scale = _scale(name, norm, points, inverse)
    return view_as_complex(fourier.transform(_fitted(pairs, dims, points), dims=dims, inverse=inverse, scale=scale))


def _half(name: str, input: Tensor, s: Sizes, dim: Dims | tuple[int], norm: Norm) -> ComplexTensor:
    if isinstance(input, ComplexTensor):
        raise RuntimeError(f"{name}: input must be real, got {input.dtype}; use {name.replace('r', '', 1)}")
    if not isinstance(input, Tensor):
        raise wants_tensor(name, "input", input)
    dims, points = _axes(name, input.shape, s, dim)
    scale = _scale(name, norm, points, inverse=False)
    pairs = fourier.to_half(_fitted(_floats(name, input), dims, points), dim=dims[-1], scale=scale, doubled=False)
    if len(dims) > 1:
        pairs = fourier.transform(pairs, dims=dims[:-1], inverse=False, scale=1.0)
    return view_as_complex(pairs)


def _whole(name: str, input: Input, s: Sizes, dim: Dims | tuple[int], norm: Norm) -> Tensor:
    pairs = _pairs(name, input)
    dims, points = _axes(name, input.shape, s, dim, real=True)
    scale = _scale(name, norm, points, inverse=True)
    pairs = _fitted(pairs, dims, [*points[:-1], points[-1] // 2 + 1])
    if len(dims) > 1:
        pairs = fourier.transform(pairs, dims=dims[:-1], inverse=True, scale=1.0)
    return fourier.from_half(pairs, dim=dims[-1], n=points[-1], scale=scale, halved=False)


def _points(name: str, n: Any) -> int:
    if not isinstance(n, (int, np.integer)) or n < 1:
        raise RuntimeError(f"{name}: n must be a whole number of at least 1, got {n!r}")
    return int(n)


def _frequencies(n: int, d: float, counts: Sequence[int], dtype: Any, device: Any, requires_grad: bool) -> Tensor:
    return tensor([k / (n * d) for k in counts], dtype=dtype, device=device, requires_grad=requires_grad)


def _shifted(name: str, input: Any, dim: Dims, by: Callable[[int], int]) -> Any:
    if not isinstance(input, (Tensor, ComplexTensor)):
        raise wants_tensor(name, "input", input)
    dims = axes(name, [dim] if isinstance(dim, int) else dim if dim is None else list(dim), input.ndim)
    return input.roll([by(input.shape[d]) for d in dims], dims) if dims else input
