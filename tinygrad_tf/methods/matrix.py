"""Methods that multiply matrices, and invert them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from tinygrad_tf import engine
from tinygrad_tf.methods._tools import in_place, named
from tinygrad_tf.ops import decompose, linalg

if TYPE_CHECKING:
    from tinygrad_tf.tensor import Tensor


@named("slogdet")
class SlogDet(NamedTuple):
    """What slogdet returns: the sign (-1, 0 or 1) of the determinant, and the logarithm of its size."""

    sign: Tensor
    logabsdet: Tensor


class MatrixMethods(engine.Tensor):
    __slots__ = ()

    def matmul(self, other: Tensor) -> Tensor:
        """Products of (stacks of) matrices; a vector is a row on the left, a column on the right."""
        return linalg.matmul(self, other)

    def mm(self, mat2: Tensor) -> Tensor:
        """The product of two matrices."""
        return linalg.mm(self, mat2)

    def bmm(self, mat2: Tensor) -> Tensor:
        """The products of the matrices of two stacks."""
        return linalg.bmm(self, mat2)

    def mv(self, vec: Tensor) -> Tensor:
        """The product of a matrix and a vector."""
        return linalg.mv(self, vec)

    def dot(self, tensor: Tensor) -> Tensor:
        """The sum of the products of two vectors' elements."""
        return linalg.dot(self, tensor)

    def outer(self, vec2: Tensor) -> Tensor:
        """out[i][j] = self[i] * vec2[j]."""
        return linalg.outer(self, vec2)

    def addmm(self, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
        """beta * self + alpha * mat1 @ mat2."""
        return linalg.addmm(self, mat1, mat2, beta, alpha)

    def baddbmm(self, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
        """As addmm, for stacks of matrices."""
        return linalg.baddbmm(self, batch1, batch2, beta, alpha)

    def kron(self, other: Tensor) -> Tensor:
        """The Kronecker product: other, times each element of self."""
        return linalg.kron(self, other)

    ger = outer
    addmm_, baddbmm_ = in_place(addmm), in_place(baddbmm)

    # --- inverses and determinants --------------------------------------------------------------------------------

    def inverse(self) -> Tensor:
        """The inverse of square matrices; a singular one is a LinAlgError."""
        return linalg.inv(self)

    def det(self) -> Tensor:
        """The determinants of square matrices."""
        return linalg.det(self)

    def slogdet(self) -> SlogDet:
        """The sign of the determinant, and the logarithm of its size, which neither overflows nor underflows."""
        return SlogDet(*decompose.slogdet(self))

    def logdet(self) -> Tensor:
        """The logarithm of the determinant; NaN where that is negative."""
        return decompose.logdet(self)
