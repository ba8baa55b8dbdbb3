"""Complex numbers as pairs of real tensors, as much as rotary positions and Fourier transforms (fft.py) need.

A ComplexTensor is no Tensor: it has a real and an imaginary part, whose operations carry the gradients, and the few
methods below. Everything else has to be done with the parts (`x.real`, `x.imag`, `view_as_real(x)`).
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from typing import Any, Self, overload

import numpy as np

from tinygrad_tf.dtypes import DType
from tinygrad_tf.functions import atan2, get_default_dtype, stack, where
from tinygrad_tf.methods.composed import as_methods
from tinygrad_tf.ops._types import wants_tensor
from tinygrad_tf.ops.shape import broadcast_shapes
from tinygrad_tf.tensor import Size, Tensor

complex64, complex128 = DType("complex64"), DType("complex128")
cfloat, cdouble = complex64, complex128

__all__ = [
    "ComplexTensor",
    "angle",
    "cdouble",
    "cfloat",
    "complex",
    "complex64",
    "complex128",
    "conj",
    "imag",
    "is_complex",
]
__all__ += ["polar", "real", "view_as_complex", "view_as_real"]


def _both(method: Callable[..., Tensor]) -> Callable[..., ComplexTensor]:
    """The method of the same name, for both parts."""

    def apply(self: ComplexTensor, *args: Any, **options: Any) -> ComplexTensor:
        return ComplexTensor(method(self.real, *args, **options), method(self.imag, *args, **options))

    apply.__name__, apply.__doc__ = method.__name__, method.__doc__
    return apply


class ComplexTensor:
    """real + i imag, two floating point tensors of one shape.

    >>> from tinygrad_tf import tensor
    >>> z = complex(tensor([0.0, 1.0]), tensor([1.0, 1.0]))
    >>> view_as_real(z * z)
    tensor([[-1.,  0.],
            [ 0.,  2.]])
    """

    def __init__(self, real: Tensor, imag: Tensor):
        if real.shape != imag.shape or real.dtype != imag.dtype or not real.is_floating_point():
            parts = f"{real.dtype} {tuple(real.shape)} and {imag.dtype} {tuple(imag.shape)}"
            raise RuntimeError(f"complex: both parts must be floating point, of one shape and dtype, got {parts}")
        self.real, self.imag = real, imag

    @property
    def dtype(self) -> DType:
        return complex128 if self.real.dtype.itemsize == 8 else complex64

    @property
    def shape(self) -> Size:
        return self.real.shape

    @property
    def ndim(self) -> int:
        return self.real.ndim

    @property
    def device(self) -> Any:
        return self.real.device

    @property
    def requires_grad(self) -> bool:
        return self.real.requires_grad or self.imag.requires_grad

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Say whether both parts are to get gradients."""
        self.real.requires_grad_(requires_grad)
        self.imag.requires_grad_(requires_grad)
        return self

    @property
    def grad(self) -> ComplexTensor | None:
        """The gradients of both parts, as one complex number, as in PyTorch; None before a backward."""
        parts = self.real.grad, self.imag.grad
        if parts[0] is None and parts[1] is None:
            return None
        return ComplexTensor(*(self.real.new_zeros(self.shape) if part is None else part for part in parts))

    def copy_(self, src: Any) -> Self:
        """Write other numbers, complex or real, into the memory of both parts."""
        a, b = _parts(src)
        self.real.copy_(a)
        self.imag.copy_(b) if isinstance(b, Tensor) else self.imag.fill_(b)
        return self

    def size(self, dim: int | None = None) -> Any:
        return self.real.size(dim)

    def dim(self) -> int:
        return self.real.ndim

    def numel(self) -> int:
        return self.real.numel()

    def __len__(self) -> int:
        return len(self.real)

    def is_complex(self) -> bool:
        return True

    def is_floating_point(self) -> bool:
        return False

    def numpy(self) -> np.ndarray:
        pairs = np.stack([self.real.numpy(), self.imag.numpy()], -1)
        return pairs.view(np.complex128 if pairs.itemsize == 8 else np.complex64)[..., 0]

    def tolist(self) -> Any:
        return self.numpy().tolist()

    def item(self) -> Any:
        return builtins.complex(self.real.item(), self.imag.item())

    def __repr__(self) -> str:
        values = np.array2string(self.detach().numpy(), precision=4, separator=", ", prefix="tensor(")
        return f"tensor({values})" if self.dtype == complex64 else f"tensor({values}, dtype={self.dtype})"

    # --- the same numbers in another shape ------------------------------------------------------------------------

    view = _both(Tensor.reshape)
    reshape = _both(Tensor.reshape)
    flatten = _both(Tensor.flatten)
    unflatten = _both(Tensor.unflatten)
    unsqueeze = _both(Tensor.unsqueeze)
    squeeze = _both(Tensor.squeeze)
    transpose = _both(Tensor.transpose)
    swapaxes = _both(Tensor.swapaxes)
    movedim = _both(Tensor.movedim)
    permute = _both(Tensor.permute)
    expand = _both(Tensor.expand)
    repeat = _both(Tensor.repeat)
    repeat_interleave = _both(Tensor.repeat_interleave)
    roll = _both(Tensor.roll)
    flip = _both(Tensor.flip)
    contiguous = _both(Tensor.contiguous)
    clone = _both(Tensor.clone)
    detach = _both(Tensor.detach)
    cpu = _both(Tensor.cpu)
    sum = _both(Tensor.sum)
    mean = _both(Tensor.mean)
    narrow = _both(Tensor.narrow)
    select = _both(Tensor.select)
    __getitem__ = _both(Tensor.__getitem__)
    __neg__ = _both(Tensor.__neg__)

    def __setitem__(self, index: Any, value: Any) -> None:
        """Written into the memory of both parts, as Tensor's is: spectrum[:, 10:] = 0."""
        self.real[index], self.imag[index] = _parts(value)

    @property
    def T(self) -> ComplexTensor:
        return ComplexTensor(self.real.T, self.imag.T)

    @property
    def mT(self) -> ComplexTensor:
        return ComplexTensor(self.real.mT, self.imag.mT)

    def to(self, *args: Any, **options: Any) -> ComplexTensor:
        """On another device, which is always the CPU, or as complex64 or complex128."""
        parts = {complex64: "float32", complex128: "float64"}
        args = tuple(parts.get(a, a) if isinstance(a, DType) else a for a in args)
        if isinstance(options.get("dtype"), DType):
            options["dtype"] = parts.get(options["dtype"], options["dtype"])
        return ComplexTensor(self.real.to(*args, **options), self.imag.to(*args, **options))

    # --- arithmetic -----------------------------------------------------------------------------------------------

    def __add__(self, other: Any) -> ComplexTensor:
        a, b = _parts(other)
        return ComplexTensor(*_alike(self.real + a, self.imag + b))

    def __sub__(self, other: Any) -> ComplexTensor:
        a, b = _parts(other)
        return ComplexTensor(*_alike(self.real - a, self.imag - b))

    def __mul__(self, other: Any) -> ComplexTensor:
        a, b = _parts(other)
        if isinstance(b, float) and b == 0.0:  # a real factor
            return ComplexTensor(self.real * a, self.imag * a)
        return ComplexTensor(self.real * a - self.imag * b, self.real * b + self.imag * a)

    __radd__, __rmul__ = __add__, __mul__

    def __rsub__(self, other: Any) -> ComplexTensor:
        return -self + other

    def __truediv__(self, other: Any) -> ComplexTensor:
        a, b = _parts(other)
        if isinstance(b, float) and b == 0.0:
            return ComplexTensor(self.real / a, self.imag / a)
        length = a * a + b * b
        return ComplexTensor((self.real * a + self.imag * b) / length, (self.imag * a - self.real * b) / length)

    def __rtruediv__(self, other: Any) -> ComplexTensor:
        length = self.real * self.real + self.imag * self.imag
        return self.conj() / length * other

    def conj(self) -> ComplexTensor:
        return ComplexTensor(self.real, -self.imag)

    def abs(self) -> Tensor:
        """The length; its derivative at 0 is taken as 0."""
        return stack([self.real, self.imag], -1).norm(dim=-1)

    __abs__ = abs

    def angle(self) -> Tensor:
        """Between -pi and pi; its derivative at 0 is taken as 0."""
        zero = (self.real == 0) & (self.imag == 0)
        return atan2(where(zero, self.imag.detach(), self.imag), where(zero, self.real.detach(), self.real))


def _parts(x: Any) -> tuple[Any, Any]:
    """Real and imaginary part of what stands on the other side of an operator; 0.0 for none."""
    if isinstance(x, (ComplexTensor, builtins.complex)):
        return x.real, x.imag
    return x, 0.0


def _alike(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Both parts in one shape and dtype: adding a real tensor may have widened the real part alone."""
    return a, (b if a.shape == b.shape else b.expand(a.shape)).to(a.dtype)


def _check_parts(name: str, **parts: Any) -> None:
    """Refuse what are not two floating point tensors of one dtype."""
    for argument, part in parts.items():
        if not isinstance(part, Tensor):
            raise wants_tensor(name, argument, part)
    first, second = parts.values()
    if first.dtype != second.dtype or not first.is_floating_point():
        wanted = " and ".join(parts)
        got = f"{first.dtype} and {second.dtype}"
        raise RuntimeError(f"{name}: {wanted} must be of one floating point dtype, got {got}")


def complex(real: Tensor, imag: Tensor) -> ComplexTensor:
    """real + i imag, in their common shape."""
    _check_parts("complex", real=real, imag=imag)
    common = broadcast_shapes("complex", real.array.shape, imag.array.shape)
    return ComplexTensor(real.expand(common), imag.expand(common))


def polar(abs: Tensor, angle: Tensor) -> ComplexTensor:
    """abs (cos angle + i sin angle)."""
    _check_parts("polar", abs=abs, angle=angle)
    return ComplexTensor(abs * angle.cos(), abs * angle.sin())


def view_as_complex(input: Tensor) -> ComplexTensor:
    """The pairs in the last axis, (..., 2), as complex numbers (...)."""
    if not isinstance(input, Tensor):
        raise wants_tensor("view_as_complex", "input", input)
    if not input.ndim or input.shape[-1] != 2:
        raise RuntimeError(f"view_as_complex: the last axis must have 2 entries, got shape {tuple(input.shape)}")
    return ComplexTensor(input[..., 0], input[..., 1])


def view_as_real(input: ComplexTensor) -> Tensor:
    """Complex numbers (...) as pairs (..., 2); a copy."""
    if not isinstance(input, ComplexTensor):
        raise RuntimeError(f"view_as_real: needs a complex tensor, got {type(input).__name__}")
    return stack([input.real, input.imag], -1)


def real(input: Tensor | ComplexTensor) -> Tensor:
    """The real part; of a real tensor, itself."""
    if not isinstance(input, (Tensor, ComplexTensor)):
        raise wants_tensor("real", "input", input)
    return input.real if isinstance(input, ComplexTensor) else input


def imag(input: ComplexTensor) -> Tensor:
    if not isinstance(input, ComplexTensor):
        raise RuntimeError(f"imag: needs a complex tensor, got {type(input).__name__}")
    return input.imag


@overload
def conj(input: Tensor) -> Tensor: ...
@overload
def conj(input: ComplexTensor) -> ComplexTensor: ...
def conj(input: Tensor | ComplexTensor) -> Any:
    """real - i imag; of a real tensor, itself."""
    if not isinstance(input, (Tensor, ComplexTensor)):
        raise wants_tensor("conj", "input", input)
    return input.conj() if isinstance(input, ComplexTensor) else input


def angle(input: Tensor | ComplexTensor) -> Tensor:
    """The angle of complex numbers, between -pi and pi; of real ones 0, or pi for those below 0."""
    if isinstance(input, ComplexTensor):
        return input.angle()
    if not isinstance(input, Tensor):
        raise wants_tensor("angle", "input", input)
    real = input if input.is_floating_point() else input.to(get_default_dtype())
    return where(real < 0, math.pi, where(real == real, real.sign() * 0.0, real))


def is_complex(input: Tensor | ComplexTensor) -> bool:
    return isinstance(input, ComplexTensor)


as_methods(Tensor, "angle conj", globals())
Tensor.real, Tensor.imag = property(real), property(imag)  # type: ignore[assignment]
