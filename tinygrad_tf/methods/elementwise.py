"""Methods that work element by element, and their in-place forms (with an underscore at the end)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tinygrad_tf import engine
from tinygrad_tf.dtypes import array_dtype
from tinygrad_tf.methods._tools import factor_first, in_place, numpy_names, operand
from tinygrad_tf.ops import elementwise, softmax, special
from tinygrad_tf.ops._types import check_floats

if TYPE_CHECKING:
    from tinygrad_tf.tensor import Tensor

Operand = Any  # a tensor, a NumPy array, a number of Python or NumPy


class ElementwiseMethods(engine.Tensor):
    __slots__ = ()

    # --- arithmetic -----------------------------------------------------------------------------------------------

    def add(self, other: Operand, *older: Operand, alpha: Operand = 1) -> Tensor:
        """self + alpha * other."""
        if older:
            other, alpha = factor_first("add(other", "alpha", other, *older)
        return elementwise.with_alpha(elementwise.add, self, operand(other), operand(alpha))

    def sub(self, other: Operand, *older: Operand, alpha: Operand = 1) -> Tensor:
        """self - alpha * other."""
        if older:
            other, alpha = factor_first("sub(other", "alpha", other, *older)
        return elementwise.with_alpha(elementwise.sub, self, operand(other), operand(alpha))

    def mul(self, other: Operand) -> Tensor:
        """self * other."""
        return elementwise.mul(self, operand(other))

    def div(self, other: Operand, *, rounding_mode: str | None = None) -> Tensor:
        """self / other, rounded down ('floor') or towards zero ('trunc') if asked to."""
        return elementwise.divide(self, operand(other), rounding_mode)

    def floor_divide(self, other: Operand) -> Tensor:
        """self / other, rounded down."""
        return elementwise.floor_divide(self, operand(other))

    def remainder(self, other: Operand) -> Tensor:
        """What self // other leaves: it has the sign of other."""
        return elementwise.remainder(self, operand(other))

    def fmod(self, other: Operand) -> Tensor:
        """What division rounded towards zero leaves: it has the sign of self."""
        return elementwise.fmod(self, operand(other))

    def pow(self, exponent: Operand) -> Tensor:
        """self to the power `exponent`."""
        return elementwise.power(self, operand(exponent))

    def neg(self) -> Tensor:
        """-self."""
        return elementwise.neg(self)

    def lerp(self, end: Tensor, weight: Operand) -> Tensor:
        """From self (weight 0) to end (weight 1) in a straight line."""
        return elementwise.lerp(self, end, operand(weight))

    def addcmul(self, tensor1: Tensor, tensor2: Tensor, *older: Tensor, value: Operand = 1) -> Tensor:
        """self + value * tensor1 * tensor2."""
        if older:
            tensor1, tensor2, value = factor_first("addcmul(tensor1, tensor2", "value", tensor1, tensor2, *older)
        return elementwise.addcmul(self, tensor1, tensor2, operand(value))

    def addcdiv(self, tensor1: Tensor, tensor2: Tensor, *older: Tensor, value: Operand = 1) -> Tensor:
        """self + value * tensor1 / tensor2."""
        if older:
            tensor1, tensor2, value = factor_first("addcdiv(tensor1, tensor2", "value", tensor1, tensor2, *older)
        return elementwise.addcdiv(self, tensor1, tensor2, operand(value))

    subtract, multiply, divide, true_divide, negative = sub, mul, div, div, neg
    add_, sub_, mul_, div_, neg_ = in_place(add), in_place(sub), in_place(mul), in_place(div), in_place(neg)
    floor_divide_, remainder_, fmod_, pow_ = in_place(floor_divide), in_place(remainder), in_place(fmod), in_place(pow)
    lerp_, addcmul_, addcdiv_ = in_place(lerp), in_place(addcmul), in_place(addcdiv)
    subtract_, multiply_, divide_, true_divide_, negative_ = sub_, mul_, div_, div_, neg_

    # --- functions ------------------------------------------------------------------------------------------------

    def abs(self) -> Tensor:
        """|x|; its derivative at 0 is taken as 0."""
        return elementwise.abs_(self)

    def exp(self) -> Tensor:
        """e^x."""
        return elementwise.exp(self)

    def exp2(self) -> Tensor:
        """2^x."""
        return elementwise.exp2(self)

    def expm1(self) -> Tensor:
        """e^x - 1, exact near 0."""
        return elementwise.expm1(self)

    def log(self) -> Tensor:
        """The natural logarithm; NaN for negative numbers, -inf for 0."""
        return elementwise.log(self)

    def log2(self) -> Tensor:
        """The logarithm to base 2."""
        return elementwise.log2(self)

    def log10(self) -> Tensor:
        """The logarithm to base 10."""
        return elementwise.log10(self)

    def log1p(self) -> Tensor:
        """log(1 + x), exact near 0."""
        return elementwise.log1p(self)

    def sqrt(self) -> Tensor:
        """The square root; NaN for negative numbers."""
        return elementwise.sqrt(self)

    def rsqrt(self) -> Tensor:
        """1 / sqrt(x)."""
        return elementwise.rsqrt(self)

    def square(self) -> Tensor:
        """x * x."""
        return elementwise.square(self)

    def reciprocal(self) -> Tensor:
        """1 / x."""
        return elementwise.reciprocal(self)

    def sin(self) -> Tensor:
        """The sine of an angle in radians."""
        return elementwise.sin(self)

    def cos(self) -> Tensor:
        """The cosine of an angle in radians."""
        return elementwise.cos(self)

    def tan(self) -> Tensor:
        """The tangent of an angle in radians."""
        return elementwise.tan(self)

    def asin(self) -> Tensor:
        """The angle in [-pi/2, pi/2] whose sine this is."""
        return elementwise.asin(self)

    def acos(self) -> Tensor:
        """The angle in [0, pi] whose cosine this is."""
        return elementwise.acos(self)

    def atan(self) -> Tensor:
        """The angle in (-pi/2, pi/2) whose tangent this is."""
        return elementwise.atan(self)

    def sinh(self) -> Tensor:
        """The hyperbolic sine, (e^x - e^-x) / 2."""
        return elementwise.sinh(self)

    def cosh(self) -> Tensor:
        """The hyperbolic cosine, (e^x + e^-x) / 2."""
        return elementwise.cosh(self)

    def tanh(self) -> Tensor:
        """The hyperbolic tangent, sinh(x) / cosh(x)."""
        return elementwise.tanh(self)

    def asinh(self) -> Tensor:
        """The number whose hyperbolic sine this is."""
        return elementwise.asinh(self)

    def acosh(self) -> Tensor:
        """The number from 0 on whose hyperbolic cosine this is."""
        return elementwise.acosh(self)

    def atanh(self) -> Tensor:
        """The number whose hyperbolic tangent this is."""
        return elementwise.atanh(self)

    def sigmoid(self) -> Tensor:
        """1 / (1 + e^-x)."""
        return elementwise.sigmoid(self)

    def logit(self, eps: float | None = None) -> Tensor:
        """log(x / (1 - x)), the inverse of sigmoid."""
        return elementwise.logit(self, eps)

    def relu(self) -> Tensor:
        """max(x, 0)."""
        return elementwise.relu(self)

    def erf(self) -> Tensor:
        """The error function: 2 / sqrt(pi) times the integral of e^(-t^2) from 0 to x."""
        return elementwise.erf(self)

    def erfinv(self) -> Tensor:
        """The number whose erf this is."""
        return special.erfinv(self)

    def atan2(self, other: Tensor) -> Tensor:
        """The angle of the point (other, self)."""
        return elementwise.atan2(self, other)

    arctan2 = atan2

    def logaddexp(self, other: Tensor) -> Tensor:
        """log(e^self + e^other) without overflow."""
        return elementwise.logaddexp(self, other)

    @numpy_names
    def softmax(self, dim: int, dtype: Any = None) -> Tensor:
        """exp(x) / sum exp(x) along dim."""
        return softmax.softmax(self, dim, None if dtype is None else array_dtype(dtype))

    @numpy_names
    def log_softmax(self, dim: int, dtype: Any = None) -> Tensor:
        """log softmax(x) along dim, without overflow."""
        return softmax.log_softmax(self, dim, None if dtype is None else array_dtype(dtype))

    absolute = abs
    arcsin, arccos, arctan, arcsinh, arccosh, arctanh = asin, acos, atan, asinh, acosh, atanh
    exp2_, log2_, log10_, logit_ = in_place(exp2), in_place(log2), in_place(log10), in_place(logit)
    asin_, acos_, atan_, sinh_, cosh_ = in_place(asin), in_place(acos), in_place(atan), in_place(sinh), in_place(cosh)
    asinh_, acosh_, atanh_, atan2_ = in_place(asinh), in_place(acosh), in_place(atanh), in_place(atan2)
    arcsin_, arccos_, arctan_, arcsinh_, arccosh_, arctanh_ = asin_, acos_, atan_, asinh_, acosh_, atanh_
    arctan2_ = atan2_
    abs_, exp_, expm1_, log_, log1p_ = in_place(abs), in_place(exp), in_place(expm1), in_place(log), in_place(log1p)
    sqrt_, rsqrt_, square_, reciprocal_ = in_place(sqrt), in_place(rsqrt), in_place(square), in_place(reciprocal)
    sin_, cos_, tan_, tanh_ = in_place(sin), in_place(cos), in_place(tan), in_place(tanh)
    absolute_ = abs_
    sigmoid_, relu_, erf_, erfinv_ = in_place(sigmoid), in_place(relu), in_place(erf), in_place(erfinv)

    # --- choices --------------------------------------------------------------------------------------------------

    def sign(self) -> Tensor:
        """-1, 0 or 1."""
        return elementwise.sign(self)

    sgn = sign

    def floor(self) -> Tensor:
        """To the next integer below."""
        return elementwise.floor(self)

    def ceil(self) -> Tensor:
        """To the next integer above."""
        return elementwise.ceil(self)

    def trunc(self) -> Tensor:
        """Towards zero."""
        return elementwise.trunc(self)

    def round(self, *, decimals: int = 0) -> Tensor:
        """To the nearest number of `decimals` places; to the even one, where two are equally near."""
        return elementwise.round_(self, decimals)

    def frac(self) -> Tensor:
        """x - trunc(x)."""
        check_floats("frac", self)
        return elementwise.sub(self, elementwise.trunc(self))

    def clamp(self, min: Operand = None, max: Operand = None) -> Tensor:
        """Not below min, not above max (numbers or tensors, either may be None)."""
        for name, bound in (("min", min), ("max", max)):
            if isinstance(bound, str):
                raise TypeError(f"clamp: {name} must be a number or a tensor, got {bound!r}")
        return elementwise.clamp(self, operand(min), operand(max))

    def clamp_min(self, min: Operand) -> Tensor:
        """Not below min."""
        return elementwise.clamp(self, operand(min), None)

    def clamp_max(self, max: Operand) -> Tensor:
        """Not above max."""
        return elementwise.clamp(self, None, operand(max))

    def maximum(self, other: Tensor) -> Tensor:
        """The larger of both at each place; equal ones share the gradient."""
        return elementwise.maximum(self, other)

    def minimum(self, other: Tensor) -> Tensor:
        """The smaller of both at each place; equal ones share the gradient."""
        return elementwise.minimum(self, other)

    def where(self, condition: Tensor, other: Operand) -> Tensor:
        """self where the condition is True, other elsewhere."""
        return elementwise.where(condition, self, operand(other))

    def masked_fill(self, mask: Tensor, value: Operand) -> Tensor:
        """`value` where the mask is True, this tensor elsewhere."""
        return elementwise.masked_fill(self, mask, operand(value))

    def nan_to_num(self, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Tensor:
        """With numbers for NaN, inf and -inf; for the infinities by default the largest and smallest that there are."""
        return elementwise.nan_to_num(self, nan, posinf, neginf)

    clip, fix = clamp, trunc
    sign_, floor_, ceil_, trunc_, round_ = (
        in_place(sign),
        in_place(floor),
        in_place(ceil),
        in_place(trunc),
        in_place(round),
    )
    sgn_, fix_ = sign_, trunc_
    clamp_, clip_, clamp_min_, clamp_max_ = in_place(clamp), in_place(clip), in_place(clamp_min), in_place(clamp_max)
    masked_fill_, nan_to_num_, frac_ = in_place(masked_fill), in_place(nan_to_num), in_place(frac)
