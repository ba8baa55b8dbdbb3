"""Methods that move elements: views, copies, parts, repetitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tinygrad_tf import engine
from tinygrad_tf.dtypes import DType
from tinygrad_tf.methods._tools import in_place
from tinygrad_tf.ops import arrange, inplace, reduce, shape, windows
from tinygrad_tf.ops._types import axes

if TYPE_CHECKING:
    from tinygrad_tf.tensor import Tensor

Dim = int | tuple[int, ...] | list[int] | None


def _reshape(x: Any, sizes: tuple[Any, ...]) -> Any:
    wanted = shape.resolve_shape("reshape", shape.sizes_of("reshape", sizes), x.array.size)
    return shape.reshape(x, shape=wanted)


class ShapeMethods(engine.Tensor):
    __slots__ = ()

    # --- the same elements in another shape -----------------------------------------------------------------------

    # Sizes and axes may be written one by one, as a tuple, or as a tuple by its name: repeat(repeats=(2, 1)).

    def view(self, *sizes: Any, size: Any = None, dtype: Any = None) -> Tensor:
        """The same memory in another shape; use reshape if it may be copied. view(dtype): other numbers."""
        sizes = sizes if size is None and dtype is None else (size if dtype is None else dtype,)
        if len(sizes) == 1 and isinstance(sizes[0], DType):
            return shape.view_dtype(self, sizes[0].dtype)
        return shape.view(self, shape.sizes_of("view", sizes))

    def reshape(self, *sizes: Any, shape: Any = None) -> Tensor:
        """Another shape: a view where the memory allows it, a copy otherwise."""
        return _reshape(self, sizes if shape is None else (shape,))

    def view_as(self, other: Tensor) -> Tensor:
        """A view in the shape of another tensor."""
        return shape.view(self, other.array.shape)

    def reshape_as(self, other: Tensor) -> Tensor:
        """reshape to the shape of another tensor."""
        return self.reshape(other.array.shape)

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Tensor:
        """Axes start_dim to end_dim as one; by default all."""
        return shape.flatten(self, start_dim, end_dim)

    def ravel(self) -> Tensor:
        """All elements in one axis."""
        return shape.flatten(self)

    def unflatten(self, dim: int, sizes: Sequence[int]) -> Tensor:
        """Axis `dim` as several axes of the given sizes."""
        return shape.unflatten(self, dim, tuple(sizes))

    def transpose(self, dim0: int, dim1: int) -> Tensor:
        """Two axes exchanged, as a view."""
        return shape.transpose(self, dim0, dim1)

    def permute(self, *axes: Any, dims: Any = None) -> Tensor:
        """All axes in another order, as a view."""
        return shape.permute_all(self, shape.sizes_of("permute", axes if dims is None else (dims,)))

    def movedim(self, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
        """Axes moved to other places; the others keep their order."""
        return shape.movedim(self, source, destination)

    def swapaxes(self, axis0: int, axis1: int) -> Tensor:
        """Two axes exchanged, as a view."""
        return shape.transpose(self, axis0, axis1)

    swapdims, moveaxis = transpose, movedim

    def t(self) -> Tensor:
        """The transpose of a matrix; a vector stays as it is."""
        return shape.t(self)

    @property
    def T(self) -> Tensor:
        """All axes in reverse order."""
        return shape.permute(self, dims=tuple(reversed(range(self.array.ndim))))

    @property
    def mT(self) -> Tensor:
        """The last two axes exchanged."""
        return shape.matrix_transpose(self)

    @property
    def mH(self) -> Tensor:
        """The conjugate transpose of the matrices, which for real numbers is `mT`."""
        return shape.matrix_transpose(self)

    @property
    def H(self) -> Tensor:
        """The conjugate transpose of a matrix, which for real numbers is `T`."""
        if self.array.ndim != 2:
            raise RuntimeError(f"H: needs a matrix, got shape {self.array.shape}; for stacks of them there is mH")
        return shape.matrix_transpose(self)

    def adjoint(self) -> Tensor:
        """As `mH`."""
        return shape.matrix_transpose(self)

    def unsqueeze(self, dim: int) -> Tensor:
        """A new axis of size 1."""
        return shape.unsqueeze(self, dim)

    def squeeze(self, dim: Dim = None) -> Tensor:
        """Without axes of size 1: all of them, or those named."""
        return shape.squeeze(self, dim)

    def expand(self, *sizes: Any, size: Any = None) -> Tensor:
        """Axes of size 1 made larger, without copying; -1 keeps a size."""
        return shape.broadcast_to(self, shape.sizes_of("expand", sizes if size is None else (size,)))

    def expand_as(self, other: Tensor) -> Tensor:
        """expand to the shape of another tensor."""
        return shape.broadcast_to(self, other.array.shape)

    def broadcast_to(self, size: Sequence[int]) -> Tensor:
        """expand to a shape."""
        return shape.broadcast_to(self, tuple(size))

    def contiguous(self, memory_format: Any = None) -> Tensor:
        """The elements in memory in their order: this tensor if they are, else a copy."""
        return self if self.array.flags.c_contiguous else shape.contiguous(self)  # type: ignore[return-value]

    def clone(self, *, memory_format: Any = None) -> Tensor:
        """A copy, which gradients pass through."""
        return shape.clone(self)

    def unsqueeze_(self, dim: int) -> Tensor:
        """This tensor with a new axis of size 1."""
        return inplace.become(self, lambda x: shape.unsqueeze(x, dim))

    def squeeze_(self, dim: Dim = None) -> Tensor:
        """This tensor without axes of size 1."""
        return inplace.become(self, lambda x: shape.squeeze(x, dim))

    def transpose_(self, dim0: int, dim1: int) -> Tensor:
        """This tensor with two axes exchanged."""
        return inplace.become(self, lambda x: shape.transpose(x, dim0, dim1))

    swapaxes_ = swapdims_ = transpose_

    def t_(self) -> Tensor:
        """This matrix, transposed."""
        return inplace.become(self, shape.t)

    def resize_(self, *sizes: Any) -> Tensor:
        """Another shape in the same memory: of the first elements if it has fewer, of new memory if it has more, where
        the others are 0. Gradients do not pass, and old tutorials mean `reshape`.
        """
        return inplace.resize(self, shape.sizes_of("resize_", sizes))

    def resize_as_(self, the_template: Tensor) -> Tensor:
        """resize_ to the shape of another tensor."""
        return self.resize_(the_template.shape)

    # --- parts ----------------------------------------------------------------------------------------------------

    def split(self, split_size: int | Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
        """Views of `split_size` entries each (the last may be shorter), or of the sizes given."""
        return shape.split(self, split_size, dim)

    def chunk(self, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
        """At most `chunks` views of the same size; the last may be smaller."""
        return shape.chunk(self, chunks, dim)

    def tensor_split(self, indices_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
        """Views of (nearly) equal size, or cut at the given places."""
        return shape.tensor_split(self, indices_or_sections, dim)

    def unbind(self, dim: int = 0) -> tuple[Tensor, ...]:
        """All slices of an axis."""
        return shape.unbind(self, dim)

    def narrow(self, dim: int, start: int, length: int) -> Tensor:
        """`length` entries of axis dim from `start` on, as a view."""
        return shape.narrow(self, dim, start, length)

    def select(self, dim: int, index: int) -> Tensor:
        """One slice of an axis, as a view."""
        return shape.select(self, dim, index)

    def unfold(self, dimension: int, size: int, step: int) -> Tensor:
        """All windows of `size` entries, `step` apart, as a view with a new last axis."""
        return windows.unfold(self, dimension, size, step)

    def as_strided(self, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None) -> Tensor:
        """A view of the memory by sizes and steps of one's own, in elements."""
        own = 0 if storage_offset is None else storage_offset - self.storage_offset()  # type: ignore[attr-defined]
        return arrange.as_strided(self, tuple(size), tuple(stride), own)

    def tril(self, diagonal: int = 0) -> Tensor:
        """The lower triangle, zeros above the diagonal."""
        return arrange.tril(self, diagonal)

    def triu(self, diagonal: int = 0) -> Tensor:
        """The upper triangle, zeros below the diagonal."""
        return arrange.triu(self, diagonal)

    def diagonal(self, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
        """The diagonal of the matrices in two axes, as a view with that axis last."""
        return arrange.diagonal(self, offset, dim1, dim2)

    def diag(self, diagonal: int = 0) -> Tensor:
        """The diagonal of a matrix, or the matrix with this diagonal."""
        return arrange.diag(self, diagonal)

    def diag_embed(self, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
        """Matrices, in the axes dim1 and dim2, with the last axis on their diagonal."""
        return arrange.diag_embed(self, offset, dim1, dim2)

    def trace(self) -> Tensor:
        """The sum of the diagonal."""
        if self.array.ndim != 2:
            raise RuntimeError(f"trace: needs a matrix, got shape {self.array.shape}; see diagonal")
        return reduce.sum(arrange.diagonal(self))

    tril_, triu_ = in_place(tril), in_place(triu)

    # --- repeating and turning ------------------------------------------------------------------------------------

    def flip(self, *turned: Any, dims: Any = None) -> Tensor:
        """Axes in reverse order, as a copy."""
        named = shape.sizes_of("flip", turned if dims is None else (dims,))
        return shape.flip(self, dims=axes("flip", named, self.array.ndim) if named else ())

    def fliplr(self) -> Tensor:
        """The second axis in reverse order, as a copy."""
        if self.array.ndim < 2:
            raise RuntimeError(f"fliplr: needs at least 2 dimensions, got {self.array.ndim}")
        return shape.flip(self, dims=(1,))

    def flipud(self) -> Tensor:
        """The first axis in reverse order, as a copy."""
        if not self.array.ndim:
            raise RuntimeError("flipud: needs at least 1 dimension, got 0")
        return shape.flip(self, dims=(0,))

    def roll(self, shifts: int | Sequence[int], dims: int | Sequence[int] | None = None) -> Tensor:
        """Shifted along axes; what leaves at the end comes back at the start."""
        return arrange.roll(self, shifts, dims)

    def repeat(self, *sizes: Any, repeats: Any = None) -> Tensor:
        """The whole tensor, sizes[i] times along axis i."""
        return arrange.repeat(self, shape.sizes_of("repeat", sizes if repeats is None else (repeats,)))

    def tile(self, *sizes: Any, dims: Any = None) -> Tensor:
        """As repeat, but missing sizes count as 1."""
        return arrange.tile(self, shape.sizes_of("tile", sizes if dims is None else (dims,)))

    def repeat_interleave(self, repeats: Any, dim: int | None = None, *, output_size: int | None = None) -> Tensor:
        """Each entry `repeats` times, one after the other; output_size only says what the axis will measure."""
        return arrange.repeat_interleave(self, repeats, dim)
