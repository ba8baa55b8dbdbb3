"""Methods that look up and write by index, fill, and multiply matrices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, overload

import numpy as np

from tinygrad_tf import engine, random
from tinygrad_tf._layout import laid_out_like
from tinygrad_tf.methods._tools import in_place, named, operand
from tinygrad_tf.ops import decompose, inplace, linalg
from tinygrad_tf.ops import index as by_index

if TYPE_CHECKING:
    from tinygrad_tf.tensor import Tensor

Generator = random.Generator


@named("slogdet")
class SlogDet(NamedTuple):
    """What slogdet returns: the sign (-1, 0 or 1) of the determinant, and the logarithm of its size."""

    sign: Tensor
    logabsdet: Tensor


class IndexingMethods(engine.Tensor):
    __slots__ = ()

    # --- looking up and writing -----------------------------------------------------------------------------------

    def gather(self, dim: int, index: Tensor) -> Tensor:
        """The elements at `index` along dim: out[i][j] = self[index[i][j]][j] for dim 0."""
        return by_index.gather(self, dim, index)

    def scatter(
        self, dim: int, index: Tensor, src: Any = None, value: Any = None, *, reduce: str | None = None
    ) -> Tensor:
        """With src (a tensor or a number) at `index` along dim: out[index[i][j]][j] = src[i][j] for dim 0."""
        return by_index.scatter(self, dim, index, operand(value if src is None else src), reduce)

    def scatter_add(self, dim: int, index: Tensor, src: Tensor) -> Tensor:
        """With src added at `index` along dim."""
        return by_index.scatter_add(self, dim, index, src)

    def scatter_reduce(self, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True) -> Tensor:
        """As scatter; several values for one place are reduced by 'sum', 'mean', 'prod', 'amax' or 'amin'."""
        return by_index.scatter_reduce(self, dim, index, src, reduce, include_self)

    def index_select(self, dim: int, index: Tensor) -> Tensor:
        """The slices number index[0], index[1], ... of axis dim."""
        return by_index.index_select(self, dim, index)

    def index_add(self, dim: int, index: Tensor, source: Tensor, *, alpha: Any = 1) -> Tensor:
        return by_index.index_add(self, dim, index, source, operand(alpha))

    def index_copy(self, dim: int, index: Tensor, source: Tensor) -> Tensor:
        return by_index.index_copy(self, dim, index, source)

    def index_fill(self, dim: int, index: Tensor, value: Any) -> Tensor:
        return by_index.index_fill(self, dim, index, operand(value))

    def index_put(self, indices: Sequence[Tensor], values: Any, accumulate: bool = False) -> Tensor:
        """With self[indices] = values, or with the values added there."""
        return by_index.index_put(self, indices, operand(values), accumulate)

    def take(self, index: Tensor) -> Tensor:
        """Elements of the flattened tensor."""
        return by_index.take(self, index)

    def take_along_dim(self, indices: Tensor, dim: int | None = None) -> Tensor:
        """gather, after both were broadcast against each other; without dim, of both flattened."""
        return by_index.take(self, indices.reshape(-1)) if dim is None else by_index.take_along_dim(self, indices, dim)

    def masked_select(self, mask: Tensor) -> Tensor:
        """The elements where the mask is True, as a vector."""
        return by_index.masked_select(self, mask)

    def masked_scatter(self, mask: Tensor, source: Tensor) -> Tensor:
        """With the elements of `source`, in order, where the mask is True."""
        return by_index.masked_scatter(self, mask, source)

    @overload
    def nonzero(self, *, as_tuple: Literal[False] = False) -> Tensor: ...
    @overload
    def nonzero(self, *, as_tuple: Literal[True]) -> tuple[Tensor, ...]: ...
    def nonzero(self, *, as_tuple: bool = False) -> Any:
        """The indices of the elements that are not 0: a row each, or one tensor for each axis."""
        return by_index.nonzero(self, as_tuple)

    def argwhere(self) -> Tensor:
        return by_index.nonzero(self)

    scatter_, scatter_add_, scatter_reduce_ = in_place(scatter), in_place(scatter_add), in_place(scatter_reduce)
    index_add_, index_copy_ = in_place(index_add), in_place(index_copy)
    index_fill_, index_put_ = in_place(index_fill), in_place(index_put)
    masked_scatter_ = in_place(masked_scatter)

    # --- filling --------------------------------------------------------------------------------------------------

    def fill_(self, value: Any) -> Tensor:
        if isinstance(value, engine.Tensor) and value.array.ndim:
            raise RuntimeError(f"fill_: value must be a number, got a tensor of shape {value.array.shape}; use copy_")
        inplace.set_item(self, ..., operand(value))
        return self  # type: ignore[return-value]

    def zero_(self) -> Tensor:
        return self.fill_(0)

    def copy_(self, src: Any, non_blocking: bool = False) -> Tensor:
        """Take the values of `src`, broadcast and cast to this tensor's shape and dtype."""
        inplace.set_item(self, ..., operand(src))
        return self  # type: ignore[return-value]

    def fill_diagonal_(self, fill_value: float, wrap: bool = False) -> Tensor:
        """One number where all indices are equal; wrap: in a tall matrix, once more below each square and its gap."""
        shape = self.array.shape
        if len(shape) < 2 or (len(shape) > 2 and len(set(shape)) > 1):
            raise RuntimeError(f"fill_diagonal_: needs a matrix, or axes of one size, got shape {shape}")
        rows = columns = np.arange(min(shape))
        if wrap and len(shape) == 2 and shape[0] > shape[1]:
            rows, columns = np.unravel_index(np.arange(0, self.array.size, shape[1] + 1), shape)
        inplace.set_item(self, (rows, *(columns,) * (len(shape) - 1)), fill_value)
        return self  # type: ignore[return-value]

    def normal_(self, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None) -> Tensor:
        """Normal random numbers."""
        return self.copy_(engine.make(random.normal_like(self.array, random.or_default(generator), mean, std)))

    def uniform_(self, from_: float = 0.0, to: float = 1.0, *, generator: Generator | None = None) -> Tensor:
        """Uniform random numbers in [from, to)."""
        return self._drawn(lambda shape: random.or_default(generator).uniform(shape, from_, to, self.array.dtype))

    def exponential_(self, lambd: float = 1.0, *, generator: Generator | None = None) -> Tensor:
        """Exponential random numbers with mean 1 / lambd."""
        return self._drawn(lambda shape: random.or_default(generator).exponential(shape, lambd, self.array.dtype))

    def bernoulli_(self, p: Any = 0.5, *, generator: Generator | None = None) -> Tensor:
        """1 with probability p (a number, or a tensor with one for each element), else 0."""
        if isinstance(p, engine.Tensor):
            return self.copy_(
                engine.make(random.or_default(generator).bernoulli(np.broadcast_to(p.array, self.array.shape)))
            )
        return self._drawn(lambda shape: random.or_default(generator).bernoulli(p, shape))

    def random_(self, from_: int = 0, to: int | None = None, *, generator: Generator | None = None) -> Tensor:
        """Random integers: random_(to), or random_(from, to), from `from` to `to` - 1; random_(): all that there are,
        of floating point dtypes those up to which no integer is left out.
        """
        low, high = (0, from_) if to is None and from_ else (from_, to)
        if high is None:
            return self._drawn(lambda shape: random.or_default(generator).whole_numbers(shape, self.array.dtype))
        return self._drawn(lambda shape: random.or_default(generator).integers(low, high, shape))

    def _drawn(self, draw: Callable[[tuple[int, ...]], np.ndarray]) -> Tensor:
        return self.copy_(engine.make(laid_out_like(self.array, draw)))

    def bernoulli(self, p: float | None = None, *, generator: Generator | None = None) -> Tensor:
        """0 or 1, where this tensor holds the probability of 1, or with the same probability p everywhere."""
        if p is not None:
            return engine.make(random.or_default(generator).bernoulli(p, self.array.shape).astype(self.array.dtype))
        return engine.make(random.or_default(generator).bernoulli(self.array).astype(self.array.dtype))

    def multinomial(self, num_samples: int, replacement: bool = False, *, generator: Generator | None = None) -> Tensor:
        """Indices drawn with the given weights, for each row; an entry of weight 0 is never drawn."""
        try:
            return engine.make(random.or_default(generator).multinomial(self.array, num_samples, replacement))
        except ValueError as error:
            raise RuntimeError(f"multinomial: {error}") from None

    # --- matrix products ------------------------------------------------------------------------------------------

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
        return linalg.kron(self, other)

    def inverse(self) -> Tensor:
        return linalg.inv(self)

    def det(self) -> Tensor:
        return linalg.det(self)

    def slogdet(self) -> SlogDet:
        """The sign of the determinant, and the logarithm of its size, which neither overflows nor underflows."""
        return SlogDet(*decompose.slogdet(self))

    def logdet(self) -> Tensor:
        """The logarithm of the determinant; NaN where that is negative."""
        return decompose.logdet(self)

    ger = outer
    addmm_, baddbmm_ = in_place(addmm), in_place(baddbmm)
