"""Methods that look up and write by index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from tinygrad_tf import engine, random
from tinygrad_tf.methods._tools import in_place, operand
from tinygrad_tf.ops import index as by_index

if TYPE_CHECKING:
    from tinygrad_tf.tensor import Tensor

Generator = random.Generator


class IndexingMethods(engine.Tensor):
    __slots__ = ()

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
        """With the slices of `source`, times alpha, added at the places `index` of axis dim."""
        return by_index.index_add(self, dim, index, source, operand(alpha))

    def index_copy(self, dim: int, index: Tensor, source: Tensor) -> Tensor:
        """With the slices of `source` in place of those number index[0], index[1], ... of axis dim."""
        return by_index.index_copy(self, dim, index, source)

    def index_fill(self, dim: int, index: Tensor, value: Any) -> Tensor:
        """With one number in all slices number index[0], index[1], ... of axis dim."""
        return by_index.index_fill(self, dim, index, operand(value))

    def index_put(self, indices: Sequence[Tensor], values: Any, accumulate: bool = False) -> Tensor:
        """With self[indices] = values, or with the values added there."""
        return by_index.index_put(self, indices, operand(values), accumulate)

    def take(self, index: Tensor) -> Tensor:
        """Elements of the flattened tensor."""
        return by_index.take(self, index)

    def put_(self, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
        """Write the elements of `source`, or add them, at the places `index` of this tensor as if it were flattened."""
        if index.array.size != source.array.size:
            raise IndexError(
                f"put_: source must have an element for each of {index.array.size} indices, got {source.array.size}"
            )
        places = np.unravel_index(by_index.flat_places("put_", self, index), self.array.shape)
        where_to = [engine.make(axis.ravel()) for axis in places]
        return self.index_put_(where_to, source.reshape(-1), accumulate)

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
        """The indices of the elements that are not 0, a row each."""
        return by_index.nonzero(self)

    scatter_, scatter_add_, scatter_reduce_ = in_place(scatter), in_place(scatter_add), in_place(scatter_reduce)
    index_add_, index_copy_ = in_place(index_add), in_place(index_copy)
    index_fill_, index_put_ = in_place(index_fill), in_place(index_put)
    masked_scatter_ = in_place(masked_scatter)
