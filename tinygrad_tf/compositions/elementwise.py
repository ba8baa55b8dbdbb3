"""Number by number: compositions of other functions."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from tinygrad_tf.dtypes import float64
from tinygrad_tf.engine import make
from tinygrad_tf.methods._tools import check_all, in_place, named, operand
from tinygrad_tf.methods.composed import as_methods
from tinygrad_tf.ops import elementwise, special
from tinygrad_tf.ops._types import check_broadcast, result_type
from tinygrad_tf.tensor import Tensor


def copysign(input: Tensor, other: Any) -> Tensor:
    """|input| with the sign of other, which may be -0.0."""
    return elementwise.copysign(input, operand(other))


def hypot(input: Tensor, other: Tensor) -> Tensor:
    """sqrt(input^2 + other^2)."""
    return special.hypot(input, other)


def fmax(input: Tensor, other: Tensor) -> Tensor:
    """The larger one of both; a number, where the other one is NaN. Of equal ones, input has the gradient."""
    return elementwise.where((input >= other) | (other != other), input, other)


def fmin(input: Tensor, other: Tensor) -> Tensor:
    """The smaller one of both; a number, where the other one is NaN. Of equal ones, input has the gradient."""
    return elementwise.where((input <= other) | (other != other), input, other)


def deg2rad(input: Tensor) -> Tensor:
    """Angles in degrees, in radians."""
    return input * (math.pi / 180.0)


def rad2deg(input: Tensor) -> Tensor:
    """Angles in radians, in degrees."""
    return input * (180.0 / math.pi)


def sinc(input: Tensor) -> Tensor:
    """sin(pi x) / (pi x), and 1 at 0."""
    return special.sinc(input)


def erfc(input: Tensor) -> Tensor:
    """1 - erf(x), exact where erf(x) is near 1, too."""
    return special.erfc(input)


def xlogy(input: Any, other: Any) -> Tensor:
    """input log(other), and 0 where input is 0."""
    if not isinstance(input, Tensor) and not isinstance(other, Tensor):
        raise TypeError(f"xlogy: needs a tensor, got {type(input).__name__} and {type(other).__name__}")
    return special.xlogy(operand(input), operand(other))


def heaviside(input: Tensor, values: Tensor) -> Tensor:
    """0 where input is negative, 1 where it is positive, `values` where it is 0."""
    return elementwise.where(input == 0, values, (input > 0).to(input.dtype))


def nextafter(input: Tensor, other: Tensor) -> Tensor:
    """The floating point number next to each of input, on the way to other; it has no gradient."""
    return make(np.asarray(np.nextafter(input.array, other.array)))


def fill(input: Tensor, value: Any) -> Tensor:
    """A tensor like input, full of one number; the gradient goes to value, if that is a tensor."""
    return input.clone().fill_(value)


def signbit(input: Tensor) -> Tensor:
    """Where the sign is negative, also that of -0.0."""
    return make(np.signbit(input.array))


def isposinf(input: Tensor) -> Tensor:
    """Where there is inf."""
    return input == math.inf


def isneginf(input: Tensor) -> Tensor:
    """Where there is -inf."""
    return input == -math.inf


def positive(input: Tensor) -> Tensor:
    """The tensor itself."""
    return input


def is_nonzero(input: Tensor) -> bool:
    """Whether the only element is not 0."""
    return bool(input)


def float_power(input: Any, exponent: Any) -> Tensor:
    """input^exponent in float64; one of them may be a number.

    >>> from tinygrad_tf import float_power, tensor
    >>> float_power(tensor([1, 2, 3]), -2)
    tensor([1.0000, 0.2500, 0.1111], dtype=torch.float64)
    """
    if not isinstance(input, Tensor) and not isinstance(exponent, Tensor):
        kinds = f"{type(input).__name__} and {type(exponent).__name__}"
        raise TypeError(f"float_power: needs a tensor, got {kinds}; for two numbers write input ** exponent")
    base, power = (x.to(float64) if isinstance(x, Tensor) else operand(x) for x in (input, exponent))
    found: Tensor = base**power
    return found


def ldexp(input: Tensor, other: Tensor) -> Tensor:
    """input 2^other."""
    return input * 2.0**other


@named("frexp")
class _Frexp(NamedTuple):
    mantissa: Tensor
    exponent: Tensor


def frexp(input: Tensor) -> _Frexp:
    """input = mantissa 2^exponent, with mantissas from 0.5 to 1 and whole exponents (int32).

    >>> from tinygrad_tf import frexp, tensor
    >>> frexp(tensor([1.0, -6.0]))
    torch.return_types.frexp(
    mantissa=tensor([ 0.5000, -0.7500]),
    exponent=tensor([1, 3], dtype=torch.int32))
    """
    if not input.is_floating_point():
        raise RuntimeError(f"frexp: needs floating point numbers, got {input.dtype}; cast with .float()")
    exponent = np.frexp(input.array.astype(np.float64))[1]
    half = exponent // 2  # in two steps, as 2^148 is no float32
    mantissa = input
    for part in (half, exponent - half):
        mantissa = mantissa * make(np.ldexp(1.0, -part).astype(input.array.dtype))
    return _Frexp(mantissa, make(exponent.astype(np.int32)))


def gcd(input: Tensor, other: Tensor) -> Tensor:
    """The greatest common divisor of integers.

    >>> from tinygrad_tf import gcd, tensor
    >>> gcd(tensor([12, 18]), tensor([8, -27]))
    tensor([4, 9])
    """
    return _of_integers("gcd", np.gcd, input, other)


def lcm(input: Tensor, other: Tensor) -> Tensor:
    """The least common multiple of integers.

    >>> from tinygrad_tf import lcm, tensor
    >>> lcm(tensor([4, 6]), tensor(10))
    tensor([20, 30])
    """
    return _of_integers("lcm", np.lcm, input, other)


def _of_integers(name: str, function: Any, a: Tensor, b: Tensor) -> Tensor:
    for x in (a, b):
        if x.array.dtype.kind not in "iu":
            raise NotImplementedError(f"{name}: needs tensors of integers, got {x.dtype}")
    dtype = result_type(a.array, b.array)
    check_broadcast(name, a.array.shape, b.array.shape)
    return make(function(*(x.array.astype(dtype) for x in (a, b))))


# fmt: off
__all__ = [
    "copysign", "deg2rad", "erfc", "fill", "float_power", "fmax", "fmin", "frexp", "gcd", "heaviside", "hypot",
    "is_nonzero", "isneginf", "isposinf", "lcm", "ldexp", "nextafter", "positive", "rad2deg", "signbit",
    "sinc", "xlogy",
]
# fmt: on

check_all(__all__, globals())
as_methods(
    Tensor,
    "copysign deg2rad erfc float_power fmax fmin frexp gcd heaviside hypot is_nonzero isneginf isposinf lcm "
    "ldexp nextafter positive rad2deg signbit sinc xlogy",
    globals(),
)
_in_place = {
    f"{name}_": in_place(globals()[name])
    for name in (
        "copysign",
        "deg2rad",
        "erfc",
        "gcd",
        "heaviside",
        "hypot",
        "lcm",
        "ldexp",
        "nextafter",
        "rad2deg",
        "sinc",
        "xlogy",
    )
}
as_methods(Tensor, " ".join(_in_place), _in_place)
