"""class Tensor: what users hold. Every operator and method is one line that calls an operation of ops/.

This file is longer than others because it is a list: the whole typed face of a tensor in one place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from tinygrad_tf import engine
from tinygrad_tf.ops import activation, elementwise, index, inplace, linalg, reduce, shape, softmax
from tinygrad_tf.ops._types import DEFAULT_FLOAT, axes, axis, category
from tinygrad_tf.printing import tensor_format, tensor_repr

Dim = int | tuple[int, ...] | list[int] | None
Number = bool | int | float
Operand = Any  # a Tensor, a Python or NumPy number


class Size(tuple[int, ...]):
    """A shape: a tuple that also knows how many elements it has."""

    def numel(self) -> int:
        return int(np.prod(self, dtype=np.int64))

    def __repr__(self) -> str:
        return f"Size({list(self)})"


class ValuesIndices(NamedTuple):
    """What max, min, sort and topk along a dimension return."""

    values: Tensor
    indices: Tensor


def _operand(x: Any) -> Any:
    """A NumPy number as a Python number, so that it never widens a float32 tensor."""
    return x.item() if isinstance(x, np.generic) else x


def _sizes(sizes: tuple[Any, ...]) -> tuple[int, ...]:
    """view(2, 3) and view((2, 3)) mean the same."""
    if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)):
        sizes = tuple(sizes[0])
    return tuple(int(n) for n in sizes)


class Tensor(engine.Tensor, results=True):
    """An array with a history: operations on tensors that require gradients are recorded, `backward` differentiates them.

    >>> import tinygrad_tf as tg
    >>> x = tg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    >>> (x * x).sum().backward()
    >>> x.grad
    tensor([2., 4., 6.])
    """

    __array_ufunc__ = None  # np.float64(2.0) * x leaves the product to us
    __hash__ = object.__hash__

    def __init__(self, data: Any = (), requires_grad: bool = False):
        array = data.array if isinstance(data, engine.Tensor) else np.asarray(data)
        if not isinstance(data, (engine.Tensor, np.ndarray, np.generic)):
            array = array.astype(DEFAULT_FLOAT)
        self.array, self.node, self.grad, self.storage, self.view_of = array, None, None, engine.Storage(), None
        if requires_grad:
            engine.leaf(self)

    # --- what it is -----------------------------------------------------------------------------------------------

    @property
    def shape(self) -> Size:
        return Size(self.array.shape)

    @property
    def dtype(self) -> np.dtype:
        return self.array.dtype

    @property
    def ndim(self) -> int:
        return self.array.ndim

    def size(self, dim: int | None = None) -> Any:
        return self.shape if dim is None else self.array.shape[axis("size", dim, self.array.ndim)]

    def dim(self) -> int:
        return self.array.ndim

    def numel(self) -> int:
        return self.array.size

    nelement = numel

    def __len__(self) -> int:
        if not self.array.ndim:
            raise TypeError("len() of a 0-d tensor")
        return len(self.array)

    def __repr__(self) -> str:
        return tensor_repr(self)

    def __format__(self, spec: str) -> str:
        return tensor_format(self, spec)

    def is_contiguous(self) -> bool:
        return self.array.flags.c_contiguous

    def stride(self, dim: int | None = None) -> Any:
        """Steps in elements."""
        steps = tuple(s // self.array.itemsize for s in self.array.strides)
        return steps if dim is None else steps[dim]

    def data_ptr(self) -> int:
        return self.array.__array_interface__["data"][0]

    def is_floating_point(self) -> bool:
        return category(self.array.dtype) == 2

    # --- to Python and NumPy --------------------------------------------------------------------------------------

    def item(self) -> Any:
        if self.array.size != 1:
            raise RuntimeError(f"item: needs a tensor of one element, got shape {self.array.shape}")
        return self.array.item()

    def tolist(self) -> Any:
        return self.array.tolist()

    def numpy(self) -> np.ndarray:
        """The array itself, not a copy."""
        if self.requires_grad:
            raise RuntimeError("numpy: this tensor requires a gradient; use tensor.detach().numpy()")
        return self.array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.numpy(), dtype=dtype, copy=copy)

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __index__(self) -> int:
        if self.array.dtype.kind not in "iu" or self.array.size != 1:
            raise TypeError(f"only an integer tensor of one element can be an index, got {self.dtype} {self.array.shape}")
        return int(self.array.item())

    def __bool__(self) -> bool:
        if self.array.size != 1:
            raise RuntimeError(f"the truth value of a tensor of shape {self.array.shape} is ambiguous; use .any() or .all()")
        return bool(self.array.item())

    def __iter__(self) -> Iterator[Tensor]:
        if not self.array.ndim:
            raise TypeError("iteration over a 0-d tensor")
        return iter(self.unbind(0))

    def __contains__(self, value: Any) -> bool:
        return bool((self == value).any())

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        if self.node is not None and self.node.operation is not None:
            raise RuntimeError("only leaf tensors can be deep-copied; use .detach().clone()")
        copy = type(self).__new__(type(self))
        memo[id(self)] = copy
        copy.array, copy.storage, copy.node, copy.view_of = self.array.copy(), engine.Storage(), None, None
        copy.grad = None if self.grad is None else self.grad.detach().clone()
        copy.__dict__.update(self.__dict__)
        if self.node is not None:
            engine.leaf(copy)
        return copy

    def __reduce__(self) -> Any:
        return _rebuild, (type(self), self.array, self.requires_grad)

    # --- gradients ------------------------------------------------------------------------------------------------

    @property
    def requires_grad(self) -> bool:
        return engine.current_node(self) is not None

    @requires_grad.setter
    def requires_grad(self, on: bool) -> None:
        self.requires_grad_(on)

    @property
    def is_leaf(self) -> bool:
        node = engine.current_node(self)
        return node is None or node.operation is None

    @property
    def grad_fn(self) -> engine.Node | None:
        node = engine.current_node(self)
        return node if node is not None and node.operation is not None else None

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Ask for a gradient in `.grad` after backward (on leaves)."""
        if not self.is_leaf:
            if not requires_grad:
                raise RuntimeError("requires_grad can only be switched off on leaves; use .detach()")
        elif requires_grad and self.node is None:
            engine.leaf(self)
        elif not requires_grad:
            self.node = None
        return self

    def backward(
        self,
        gradient: Tensor | None = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: Sequence[Tensor] | Tensor | None = None,
    ) -> None:
        """Add d self / d leaf to `.grad` of every leaf (or of `inputs`); a tensor of several elements needs `gradient`."""
        chosen = [inputs] if isinstance(inputs, Tensor) else inputs
        engine.backward([self], [gradient], retain_graph, create_graph, chosen)

    def detach(self) -> Tensor:
        """The same memory without the history."""
        return engine.make(self.array, None, self.storage)

    def detach_(self) -> Tensor:
        self.node, self.view_of = None, None
        return self

    @property
    def data(self) -> Tensor:
        """The same memory, outside of the recording; unlike `detach()`, changing it is not noticed by backward."""
        return engine.make(self.array)

    @data.setter
    def data(self, value: Tensor) -> None:
        self.array, self.storage = value.array, engine.Storage()
        if self.node is not None:
            self.node.shape, self.node.dtype = value.array.shape, value.array.dtype

    def retain_grad(self) -> None:
        """Keep the gradient of a tensor that is not a leaf in `.grad`, too."""
        node = engine.current_node(self)
        if node is None:
            raise RuntimeError("retain_grad: this tensor does not require a gradient")
        node.owner = engine.weakref.ref(self)

    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> engine.HookHandle:
        """Call `hook` with this tensor's complete gradient during backward; what it returns replaces the gradient."""
        return engine.add_hook(self, hook)

    def clone(self) -> Tensor:
        return shape.clone(self)

    # --- arithmetic -----------------------------------------------------------------------------------------------

    def __add__(self, other: Operand) -> Tensor:
        return elementwise.add(self, _operand(other)) if _known(other) else NotImplemented

    __radd__ = __add__

    def __sub__(self, other: Operand) -> Tensor:
        return elementwise.sub(self, _operand(other)) if _known(other) else NotImplemented

    def __rsub__(self, other: Operand) -> Tensor:
        return elementwise.sub(_operand(other), self) if _known(other) else NotImplemented

    def __mul__(self, other: Operand) -> Tensor:
        return elementwise.mul(self, _operand(other)) if _known(other) else NotImplemented

    __rmul__ = __mul__

    def __truediv__(self, other: Operand) -> Tensor:
        return elementwise.div(self, _operand(other)) if _known(other) else NotImplemented

    def __rtruediv__(self, other: Operand) -> Tensor:
        return elementwise.div(_operand(other), self) if _known(other) else NotImplemented

    def __pow__(self, other: Operand) -> Tensor:
        return elementwise.power(self, _operand(other)) if _known(other) else NotImplemented

    def __rpow__(self, other: Operand) -> Tensor:
        return elementwise.power(_operand(other), self) if _known(other) else NotImplemented

    def __matmul__(self, other: Tensor) -> Tensor:
        return linalg.matmul(self, other)

    def __neg__(self) -> Tensor:
        return elementwise.neg(self)

    def __abs__(self) -> Tensor:
        return elementwise.abs_(self)

    def __eq__(self, other: Operand) -> Tensor:  # type: ignore[override]
        return elementwise.eq(self, _operand(other)) if _known(other) else NotImplemented

    def __ne__(self, other: Operand) -> Tensor:  # type: ignore[override]
        return elementwise.ne(self, _operand(other)) if _known(other) else NotImplemented

    def __lt__(self, other: Operand) -> Tensor:
        return elementwise.lt(self, _operand(other)) if _known(other) else NotImplemented

    def __le__(self, other: Operand) -> Tensor:
        return elementwise.le(self, _operand(other)) if _known(other) else NotImplemented

    def __gt__(self, other: Operand) -> Tensor:
        return elementwise.gt(self, _operand(other)) if _known(other) else NotImplemented

    def __ge__(self, other: Operand) -> Tensor:
        return elementwise.ge(self, _operand(other)) if _known(other) else NotImplemented

    def __and__(self, other: Operand) -> Tensor:
        return elementwise.bitwise_and(self, _operand(other)) if _known(other) else NotImplemented

    def __or__(self, other: Operand) -> Tensor:
        return elementwise.bitwise_or(self, _operand(other)) if _known(other) else NotImplemented

    def __invert__(self) -> Tensor:
        return elementwise.bitwise_not(self)

    # --- in place -------------------------------------------------------------------------------------------------

    def __iadd__(self, other: Operand) -> Tensor:
        return inplace.write("add_", self, elementwise.add, _operand(other)) if _known(other) else NotImplemented

    def __isub__(self, other: Operand) -> Tensor:
        return inplace.write("sub_", self, elementwise.sub, _operand(other)) if _known(other) else NotImplemented

    def __imul__(self, other: Operand) -> Tensor:
        return inplace.write("mul_", self, elementwise.mul, _operand(other)) if _known(other) else NotImplemented

    def __itruediv__(self, other: Operand) -> Tensor:
        return inplace.write("div_", self, elementwise.div, _operand(other)) if _known(other) else NotImplemented

    def add_(self, other: Operand, *, alpha: Number = 1) -> Tensor:
        return inplace.write("add_", self, Tensor.add, other, alpha=alpha)

    def sub_(self, other: Operand, *, alpha: Number = 1) -> Tensor:
        return inplace.write("sub_", self, Tensor.sub, other, alpha=alpha)

    def mul_(self, other: Operand) -> Tensor:
        return inplace.write("mul_", self, elementwise.mul, _operand(other))

    def div_(self, other: Operand) -> Tensor:
        return inplace.write("div_", self, elementwise.div, _operand(other))

    def zero_(self) -> Tensor:
        return self.fill_(0)

    def fill_(self, value: Operand) -> Tensor:
        inplace.set_item(self, ..., _operand(value))
        return self

    def copy_(self, source: Tensor) -> Tensor:
        """Take the values of `source`, broadcast and cast to this tensor's shape and dtype."""
        inplace.set_item(self, ..., source)
        return self

    def masked_fill_(self, mask: Tensor, value: Operand) -> Tensor:
        return inplace.write("masked_fill_", self, Tensor.masked_fill, mask, _operand(value))

    # --- functions ------------------------------------------------------------------------------------------------

    def add(self, other: Operand, *, alpha: Number = 1) -> Tensor:
        return self + (other if alpha == 1 else other * alpha)

    def sub(self, other: Operand, *, alpha: Number = 1) -> Tensor:
        return self - (other if alpha == 1 else other * alpha)

    def mul(self, other: Operand) -> Tensor:
        return self * other

    def div(self, other: Operand) -> Tensor:
        return self / other

    def pow(self, exponent: Operand) -> Tensor:
        return self**exponent

    def matmul(self, other: Tensor) -> Tensor:
        return linalg.matmul(self, other)

    def neg(self) -> Tensor:
        return -self

    def abs(self) -> Tensor:
        return elementwise.abs_(self)

    def exp(self) -> Tensor:
        return elementwise.exp(self)

    def log(self) -> Tensor:
        return elementwise.log(self)

    def log1p(self) -> Tensor:
        return elementwise.log1p(self)

    def sqrt(self) -> Tensor:
        return elementwise.sqrt(self)

    def rsqrt(self) -> Tensor:
        return 1.0 / elementwise.sqrt(self)

    def square(self) -> Tensor:
        return self * self

    def tanh(self) -> Tensor:
        return elementwise.tanh(self)

    def sigmoid(self) -> Tensor:
        return elementwise.sigmoid(self)

    def relu(self) -> Tensor:
        return elementwise.relu(self)

    def sin(self) -> Tensor:
        return elementwise.sin(self)

    def cos(self) -> Tensor:
        return elementwise.cos(self)

    def erf(self) -> Tensor:
        return elementwise.erf(self)

    def sign(self) -> Tensor:
        return elementwise.sign(self)

    def clamp(self, min: Number | None = None, max: Number | None = None) -> Tensor:
        return elementwise.clamp(self, low=min, high=max)

    def softmax(self, dim: int, dtype: Any = None) -> Tensor:
        return softmax.softmax(self, dim, dtype)

    def log_softmax(self, dim: int, dtype: Any = None) -> Tensor:
        return softmax.log_softmax(self, dim, dtype)

    def masked_fill(self, mask: Tensor, value: Operand) -> Tensor:
        """`value` where the mask is True, this tensor elsewhere."""
        return elementwise.where(mask, _operand(value), self)

    # --- reductions -----------------------------------------------------------------------------------------------

    def sum(self, dim: Dim = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
        return reduce.sum(self if dtype is None else self.to(dtype), dim, keepdim)

    def mean(self, dim: Dim = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
        return reduce.mean(self if dtype is None else self.to(dtype), dim, keepdim)

    def var(self, dim: Dim = None, unbiased: bool = True, keepdim: bool = False, *, correction: int | None = None) -> Tensor:
        return reduce.var(self, dim, int(unbiased) if correction is None else correction, keepdim)

    def std(self, dim: Dim = None, unbiased: bool = True, keepdim: bool = False, *, correction: int | None = None) -> Tensor:
        return self.var(dim, unbiased, keepdim, correction=correction).sqrt()

    def amax(self, dim: Dim = None, keepdim: bool = False) -> Tensor:
        return reduce.amax(self, dims=axes("amax", dim, self.array.ndim), keepdim=keepdim)

    def amin(self, dim: Dim = None, keepdim: bool = False) -> Tensor:
        return reduce.amin(self, dims=axes("amin", dim, self.array.ndim), keepdim=keepdim)

    def max(self, dim: int | None = None, keepdim: bool = False) -> Any:
        """The largest element; with `dim`, the largest along it and where it is."""
        return self.amax() if dim is None else self._along(dim, keepdim, np.argmax)

    def min(self, dim: int | None = None, keepdim: bool = False) -> Any:
        return self.amin() if dim is None else self._along(dim, keepdim, np.argmin)

    def _along(self, dim: int, keepdim: bool, where: Any) -> ValuesIndices:
        dim = axis(where.__name__[3:], dim, self.array.ndim)
        places = engine.make(np.asarray(where(self.array, axis=dim, keepdims=True)))
        values = index.gather(self, dim, places)
        return ValuesIndices(values, places) if keepdim else ValuesIndices(values.squeeze(dim), places.squeeze(dim))

    def argmax(self, dim: int | None = None, keepdim: bool = False) -> Tensor:
        return engine.make(np.asarray(np.argmax(self.array, axis=dim, keepdims=keepdim)))

    def argmin(self, dim: int | None = None, keepdim: bool = False) -> Tensor:
        return engine.make(np.asarray(np.argmin(self.array, axis=dim, keepdims=keepdim)))

    def any(self, dim: Dim = None, keepdim: bool = False) -> Tensor:
        return engine.make(np.asarray(self.array.any(axis=axes("any", dim, self.array.ndim), keepdims=keepdim)))

    def all(self, dim: Dim = None, keepdim: bool = False) -> Tensor:
        return engine.make(np.asarray(self.array.all(axis=axes("all", dim, self.array.ndim), keepdims=keepdim)))

    def cumsum(self, dim: int) -> Tensor:
        return reduce.cumsum(self, dim=axis("cumsum", dim, self.array.ndim))

    # --- shape ----------------------------------------------------------------------------------------------------

    def view(self, *sizes: Any) -> Tensor:
        """The same memory with another shape; use reshape if it may be copied."""
        return shape.view(self, _sizes(sizes))

    def reshape(self, *sizes: Any) -> Tensor:
        return shape.reshape(self, shape=shape.resolve_shape("reshape", _sizes(sizes), self.array.size))

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Tensor:
        return shape.flatten(self, start_dim, end_dim)

    def transpose(self, dim0: int, dim1: int) -> Tensor:
        return shape.transpose(self, dim0, dim1)

    def permute(self, *dims: Any) -> Tensor:
        return shape.permute(self, dims=axes("permute", _sizes(dims), self.array.ndim))

    def movedim(self, source: int, destination: int) -> Tensor:
        return shape.movedim(self, source, destination)

    def t(self) -> Tensor:
        if self.array.ndim > 2:
            raise RuntimeError(f"t: needs at most 2 dimensions, got {self.array.shape}; use .transpose(-2, -1)")
        return shape.permute(self, dims=tuple(reversed(range(self.array.ndim))))

    @property
    def T(self) -> Tensor:
        return shape.permute(self, dims=tuple(reversed(range(self.array.ndim))))

    @property
    def mT(self) -> Tensor:
        return shape.transpose(self, -2, -1)

    def unsqueeze(self, dim: int) -> Tensor:
        return shape.unsqueeze(self, dim)

    def squeeze(self, dim: Dim = None) -> Tensor:
        return shape.squeeze(self, dim)

    def expand(self, *sizes: Any) -> Tensor:
        return shape.broadcast_to(self, _sizes(sizes))

    def expand_as(self, other: Tensor) -> Tensor:
        return shape.broadcast_to(self, other.array.shape)

    def contiguous(self) -> Tensor:
        return self if self.array.flags.c_contiguous else shape.contiguous(self)

    def split(self, split_size: int | Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
        return shape.split(self, split_size, dim)

    def chunk(self, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
        return shape.chunk(self, chunks, dim)

    def unbind(self, dim: int = 0) -> tuple[Tensor, ...]:
        return shape.unbind(self, dim)

    def flip(self, *dims: Any) -> Tensor:
        return shape.flip(self, dims=axes("flip", _sizes(dims), self.array.ndim))

    def gather(self, dim: int, index_: Tensor) -> Tensor:
        return index.gather(self, dim, index_)

    def __getitem__(self, key: Any) -> Tensor:
        return index.index(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        inplace.set_item(self, key, _operand(value))

    # --- types ----------------------------------------------------------------------------------------------------

    def to(self, *args: Any, dtype: Any = None, **ignored: Any) -> Tensor:
        """Cast: to(dtype), to(other tensor) or to(device), where the device can only be the CPU."""
        for a in args:
            if isinstance(a, Tensor):
                dtype = a.dtype
            elif isinstance(a, np.dtype) or (isinstance(a, type) and issubclass(a, np.generic)):
                dtype = a
        return self if dtype is None or self.array.dtype == dtype else engine.cast(self, dtype=np.dtype(dtype))

    def type_as(self, other: Tensor) -> Tensor:
        return self.to(other.dtype)

    def float(self) -> Tensor:
        return self.to(np.dtype(np.float32))

    def double(self) -> Tensor:
        return self.to(np.dtype(np.float64))

    def half(self) -> Tensor:
        return self.to(np.dtype(np.float16))

    def long(self) -> Tensor:
        return self.to(np.dtype(np.int64))

    def int(self) -> Tensor:
        return self.to(np.dtype(np.int32))

    def bool(self) -> Tensor:
        return self.to(np.dtype(np.bool_))

    def cpu(self) -> Tensor:
        return self


def _known(x: Any) -> bool:
    """Whether an operator can take it; otherwise Python asks the other operand, or raises TypeError."""
    return isinstance(x, (engine.Tensor, int, float, np.generic))


def _rebuild(cls: type[Tensor], array: np.ndarray, requires_grad: bool) -> Tensor:
    t = cls.__new__(cls)
    t.array, t.node, t.grad, t.storage, t.view_of = array, None, None, engine.Storage(), None
    if requires_grad:
        engine.leaf(t)
    return t
