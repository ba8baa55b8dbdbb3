"""Methods that compare, test and combine bits element by element: bool or integer results, without gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tinygrad_tf import engine
from tinygrad_tf.methods._tools import in_place, operand
from tinygrad_tf.ops import compare

if TYPE_CHECKING:
    from tinygrad_tf.tensor import Tensor

Operand = Any  # a tensor, a NumPy array, a number of Python or NumPy


class ComparisonMethods(engine.Tensor):
    __slots__ = ()

    def eq(self, other: Operand) -> Tensor:
        """Where both are equal."""
        return compare.eq(self, operand(other))

    def ne(self, other: Operand) -> Tensor:
        """Where both differ."""
        return compare.ne(self, operand(other))

    def lt(self, other: Operand) -> Tensor:
        """Where self is smaller."""
        return compare.lt(self, operand(other))

    def le(self, other: Operand) -> Tensor:
        """Where self is not larger."""
        return compare.le(self, operand(other))

    def gt(self, other: Operand) -> Tensor:
        """Where self is larger."""
        return compare.gt(self, operand(other))

    def ge(self, other: Operand) -> Tensor:
        """Where self is not smaller."""
        return compare.ge(self, operand(other))

    not_equal, less, less_equal, greater, greater_equal = ne, lt, le, gt, ge

    def logical_and(self, other: Tensor) -> Tensor:
        """Where both are true, that is, not 0."""
        return compare.logical_and(self, other)

    def logical_or(self, other: Tensor) -> Tensor:
        """Where at least one is true, that is, not 0."""
        return compare.logical_or(self, other)

    def logical_xor(self, other: Tensor) -> Tensor:
        """Where just one of both is true, that is, not 0."""
        return compare.logical_xor(self, other)

    def logical_not(self) -> Tensor:
        """Where self is 0."""
        return compare.logical_not(self)

    def bitwise_and(self, other: Operand) -> Tensor:
        """The bits that both have."""
        return compare.bitwise_and(self, operand(other))

    def bitwise_or(self, other: Operand) -> Tensor:
        """The bits that at least one has."""
        return compare.bitwise_or(self, operand(other))

    def bitwise_xor(self, other: Operand) -> Tensor:
        """The bits that just one of both has."""
        return compare.bitwise_xor(self, operand(other))

    def bitwise_not(self) -> Tensor:
        """The bits that self has not."""
        return compare.bitwise_not(self)

    def bitwise_left_shift(self, other: Operand) -> Tensor:
        """self with its bits moved `other` places up: self * 2^other."""
        return compare.bitwise_left_shift(self, operand(other))

    def bitwise_right_shift(self, other: Operand) -> Tensor:
        """self with its bits moved `other` places down: self / 2^other, rounded down."""
        return compare.bitwise_right_shift(self, operand(other))

    bitwise_and_, bitwise_or_, bitwise_xor_ = in_place(bitwise_and), in_place(bitwise_or), in_place(bitwise_xor)
    bitwise_not_, bitwise_left_shift_ = in_place(bitwise_not), in_place(bitwise_left_shift)
    bitwise_right_shift_, logical_xor_ = in_place(bitwise_right_shift), in_place(logical_xor)
    logical_and_, logical_or_, logical_not_ = in_place(logical_and), in_place(logical_or), in_place(logical_not)
    eq_, ne_, lt_, le_, gt_, ge_ = in_place(eq), in_place(ne), in_place(lt), in_place(le), in_place(gt), in_place(ge)
    not_equal_, less_, less_equal_, greater_, greater_equal_ = ne_, lt_, le_, gt_, ge_

    def isnan(self) -> Tensor:
        """Where there is no number."""
        return compare.isnan(self)

    def isinf(self) -> Tensor:
        """Where there is inf or -inf."""
        return compare.isinf(self)

    def isfinite(self) -> Tensor:
        """Where there is neither NaN nor an infinity."""
        return compare.isfinite(self)

    def isclose(self, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
        """Where |self - other| <= atol + rtol |other|."""
        return compare.isclose(self, other, rtol, atol, equal_nan)

    def allclose(self, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
        """Whether isclose holds everywhere."""
        return compare.allclose(self, other, rtol, atol, equal_nan)

    def equal(self, other: Tensor) -> bool:
        """Whether both have the same shape and the same elements."""
        return compare.equal(self, other)
