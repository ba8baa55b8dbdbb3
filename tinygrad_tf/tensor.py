"""class Tensor: what users hold. Here are its identity, gradients and operators; methods/ has the rest by topic."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, overload

import numpy as np

from tinygrad_tf import engine
from tinygrad_tf._device import checked
from tinygrad_tf._quiet import quiet
from tinygrad_tf.dtypes import as_dtype
from tinygrad_tf.grad_fn import GradFn, shown
from tinygrad_tf.methods import (
    ComparisonMethods,
    ComposedMethods,
    ElementwiseMethods,
    FillingMethods,
    IndexingMethods,
    MatrixMethods,
    PythonTypeMethods,
    ReductionMethods,
    ShapeMethods,
)
from tinygrad_tf.methods._tools import in_place, operand, plain_data
from tinygrad_tf.ops import compare, elementwise, index, inplace, linalg
from tinygrad_tf.ops._types import axis, default_float, plain_array
from tinygrad_tf.printing import tensor_format, tensor_repr

Operand = Any  # a Tensor, a NumPy array, a number of Python or NumPy

# what an operator with a NumPy array or number on its left calls
NUMPY_OPERATORS: dict[Any, Callable[[Any, Any], Any]] = {
    np.add: elementwise.add,
    np.subtract: elementwise.sub,
    np.multiply: elementwise.mul,
    np.true_divide: elementwise.div,
    np.floor_divide: elementwise.floor_divide,
    np.remainder: elementwise.remainder,
    np.power: elementwise.power,
    np.equal: compare.eq,
    np.not_equal: compare.ne,
    np.less: compare.lt,
    np.less_equal: compare.le,
    np.greater: compare.gt,
    np.greater_equal: compare.ge,
}


class Size(tuple[int, ...]):
    """A shape: a tuple that also knows how many elements it has.

    >>> Size([2, 3]).numel()
    6
    """

    __slots__ = ()

    def numel(self) -> int:
        """How many elements there are."""
        return math.prod(self)

    def __add__(self, other: tuple[int, ...]) -> Size:  # type: ignore[override]
        return Size(tuple.__add__(self, tuple(other)))

    def __mul__(self, times: Any) -> Size:
        return Size(tuple.__mul__(self, times))

    def __getitem__(self, key: Any) -> Any:
        found = tuple.__getitem__(self, key)
        return Size(found) if isinstance(key, slice) else found

    def __repr__(self) -> str:
        return f"torch.Size({list(self)})"


OPERANDS = (engine.Tensor, int, float, np.generic, np.ndarray)


def _operator(operation: Callable[[Any, Any], Any], turned: bool = False) -> Callable[[Tensor, Operand], Tensor]:
    """`x + y` from an operation; turned: `y + x`. What it cannot take is left to the other operand, or a TypeError."""

    def apply(self: Tensor, other: Operand) -> Tensor:
        if not isinstance(other, engine.Tensor):
            if not isinstance(other, OPERANDS):
                return NotImplemented
            other = operand(other)
        return operation(other, self) if turned else operation(self, other)

    apply.__name__ = operation.__name__
    return apply


def _augmented(operator: Callable[[Tensor, Operand], Tensor]) -> Callable[[Tensor, Operand], Tensor]:
    """`x += y` from `x + y`: the result is written into the memory of x."""
    method = in_place(operator)

    def write(self: Tensor, other: Operand) -> Tensor:
        return method(self, other) if isinstance(other, OPERANDS) else NotImplemented

    return write


class Tensor(
    ElementwiseMethods,
    ComparisonMethods,
    ReductionMethods,
    ShapeMethods,
    IndexingMethods,
    FillingMethods,
    MatrixMethods,
    ComposedMethods,
    PythonTypeMethods,
    engine.Tensor,
    results=True,
):
    """An array with a history: operations on tensors that require gradients are recorded for `backward`.

    >>> import tinygrad_tf as tg
    >>> x = tg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    >>> (x * x).sum().backward()
    >>> x.grad
    tensor([2., 4., 6.])
    """

    __hash__ = object.__hash__

    def __init__(self, *data: Any, device: Any = None, requires_grad: bool = False):
        """Tensor([1, 2]), Tensor(array): of the default dtype, float32, whatever the array's (tensor() and from_numpy()
        keep that one), on its memory if it has that dtype; Tensor(tensor): on its memory; Tensor(2, 3): zeros of that
        shape.
        """
        checked(device)
        shared = data[0].storage if len(data) == 1 and isinstance(data[0], engine.Tensor) else engine.Storage()
        self.array, self.node, self._grad, self.storage, self.view_of = _constructed(data), None, None, shared, None
        if requires_grad:
            engine.leaf(self)
        elif type(self) is Tensor and isinstance(data[:1] and data[0], engine.Tensor):  # the same with its history
            self.node = engine.alias(data[0]).node

    # --- what it is -----------------------------------------------------------------------------------------------

    @property
    def shape(self) -> Size:
        return Size(self.array.shape)

    @property
    def ndim(self) -> int:
        return self.array.ndim

    @overload
    def size(self, dim: None = None) -> Size: ...
    @overload
    def size(self, dim: int) -> int: ...
    def size(self, dim: int | None = None) -> Any:
        """The shape, or the size of axis dim."""
        if dim is not None and not self.array.ndim:
            raise IndexError(f"size: a 0-d tensor has no dimensions, so none is number {dim}")
        return self.shape if dim is None else self.array.shape[axis("size", dim, self.array.ndim)]

    def dim(self) -> int:
        """How many axes there are."""
        return self.array.ndim

    def numel(self) -> int:
        """How many elements there are."""
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

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """Whether the elements lie in memory in the order of the axes, the only layout there is."""
        return self.array.flags.c_contiguous

    @overload
    def stride(self, dim: None = None) -> tuple[int, ...]: ...
    @overload
    def stride(self, dim: int) -> int: ...
    def stride(self, dim: int | None = None) -> Any:
        """Steps in elements."""
        steps = tuple(s // self.array.itemsize for s in self.array.strides)
        return steps if dim is None else steps[dim]

    def data_ptr(self) -> int:
        """The address of the first element."""
        return self.array.__array_interface__["data"][0]

    def storage_offset(self) -> int:
        """How many elements into the memory of the tensor that this is a view of."""
        return (self.data_ptr() - self.untyped_storage().data_ptr()) // self.array.itemsize

    def untyped_storage(self) -> UntypedStorage:
        """The memory that this tensor lies in: views of one tensor lie in the same."""
        root = self.array
        while isinstance(root.base, np.ndarray):
            root = root.base
        return UntypedStorage(root)

    def is_shared(self) -> bool:
        """False: memory is shared among threads, not processes."""
        return False

    ndimension = dim

    # --- to Python and NumPy --------------------------------------------------------------------------------------

    def item(self) -> Any:
        """The only element, as a number of Python."""
        if self.array.size != 1:
            raise RuntimeError(f"item: needs a tensor of one element, got shape {self.array.shape}")
        return self.array.item()

    def tolist(self) -> Any:
        """Nested lists of Python's numbers; of a 0-d tensor the number."""
        return self.array.tolist()

    def numpy(self, *, force: bool = False) -> np.ndarray:
        """The array itself, not a copy. force: also of a tensor that requires a gradient; or do it under no_grad."""
        if not force and engine.mode.grad and self.requires_grad:
            raise RuntimeError("numpy: this tensor requires a gradient; use tensor.detach().numpy()")
        return self.array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.numpy(), dtype=dtype, copy=copy)

    def __array_wrap__(self, array: np.ndarray, context: Any = None, return_scalar: bool = False) -> Tensor:
        """What NumPy's functions that are no ufuncs, as np.clip and np.transpose, make of this tensor is one, too."""
        return engine.make(np.asarray(array))

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """np.float64(2.0) * x is our product; NumPy's other functions work on the values and give a tensor.

        With `out`, as in `array += x`, the values go into that array, which stays NumPy's.
        """
        ours = NUMPY_OPERATORS.get(ufunc)
        if ours is not None and method == "__call__" and not options:
            return ours(*map(operand, inputs))
        arrays = [x.numpy() if isinstance(x, Tensor) else x for x in inputs]
        if any(isinstance(x, Tensor) for x in options.get("out", ())):
            raise TypeError(f"{ufunc.__name__}: out must be a NumPy array, got a tensor; use x.copy_(...) for that")
        result = getattr(ufunc, method)(*arrays, **options)
        if "out" in options:
            return result
        return engine.make(np.asarray(result)) if isinstance(result, (np.ndarray, np.generic)) else result

    def __float__(self) -> float:
        return float(_only_element(self))

    def __int__(self) -> int:
        return int(_only_element(self))

    def __index__(self) -> int:
        if self.array.dtype.kind not in "iu" or self.array.size != 1:
            raise TypeError(
                f"only an integer tensor of one element can be an index, got {self.dtype} {self.array.shape}"
            )
        return int(self.array.item())

    def __bool__(self) -> bool:
        if self.array.size != 1:
            raise RuntimeError(
                f"the truth value of a tensor of shape {self.array.shape} is ambiguous; use .any() or .all()"
            )
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
        copy.array, copy.storage, copy.node, copy.view_of = self.array.copy("K"), engine.Storage(), None, None
        copy._grad = None if self._grad is None else self._grad.detach().clone()
        copy.__dict__.update(self.__dict__)
        if self.node is not None:
            engine.leaf(copy)
        return copy

    def __reduce__(self) -> Any:
        """A plain tensor names no class: as_torch gives it another name, which is not found without as_torch."""
        return _rebuild, (None if type(self) is Tensor else type(self), self.array, self.requires_grad)

    # --- gradients ------------------------------------------------------------------------------------------------

    @property
    def grad(self) -> Tensor | None:
        """The gradient that backward has added up, of this tensor's shape and dtype; None before, and set to None.

        Asking a tensor that is not a leaf for what it does not keep brings a UserWarning.
        """
        if self._grad is None and self.node is not None and not (self.is_leaf or self.retains_grad):
            warnings.warn(
                "the .grad of a tensor that is not a leaf is not kept; call .retain_grad() on it before backward, "
                "or look at the leaf that it was computed from",
                stacklevel=2,
            )
        return self._grad

    @grad.setter
    def grad(self, gradient: Tensor | None) -> None:
        if gradient is self:
            raise RuntimeError("grad: a tensor cannot be its own gradient; use .clone()")
        if gradient is not None:
            engine.check_gradient("grad", gradient, self.array.shape, self.array.dtype)
        self._grad = gradient

    @grad.deleter
    def grad(self) -> None:
        self._grad = None

    @property
    def requires_grad(self) -> bool:
        return engine.current_node(self) is not None

    @requires_grad.setter
    def requires_grad(self, on: bool) -> None:
        if on and not self.is_leaf:
            raise RuntimeError("requires_grad can only be set on leaves; this tensor was computed of one that has it")
        self.requires_grad_(on)

    @property
    def is_leaf(self) -> bool:
        node = engine.current_node(self)
        return node is None or node.operation is None

    @property
    def _version(self) -> int:
        """How often the memory of this tensor, which its views share, was changed in place."""
        if self.storage.of_inference:
            raise RuntimeError("_version: changes of a tensor made in inference mode are not counted; see .clone()")
        return self.storage.version

    def _is_view(self) -> bool:
        """Whether this tensor was made as a view of another."""
        return self.view_of is not None

    @property
    def _base(self) -> Tensor | None:
        """The tensor whose memory this view shows; None if it is no view."""
        return None if self.view_of is None else self.view_of[0]  # type: ignore[return-value]

    def is_inference(self) -> bool:
        """Whether the memory of this tensor was made in inference mode."""
        return self.storage.of_inference

    @property
    def grad_fn(self) -> GradFn | None:
        node = engine.current_node(self)
        return shown(node)[0] if node is not None and node.operation is not None else None

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Ask for a gradient in `.grad` after backward (on leaves)."""
        if not self.is_leaf:
            if not requires_grad:
                raise RuntimeError("requires_grad can only be switched off on leaves; use .detach()")
        elif requires_grad and self.node is None:
            engine.leaf(self)
        elif not requires_grad and self.node is not None:
            self.node.owner = None  # what was computed of it until now sends it nothing, either
            self.node = None
        return self

    def backward(
        self,
        gradient: Tensor | None = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: Sequence[Tensor] | Tensor | None = None,
    ) -> None:
        """Add d self / d leaf to `.grad` of every leaf (or of `inputs`); several elements need a `gradient`."""
        chosen = [inputs] if isinstance(inputs, Tensor) else inputs
        engine.backward([self], [gradient], retain_graph, create_graph, chosen)

    def detach(self) -> Tensor:
        """The same memory without the history."""
        return engine.make(self.array, None, self.storage)

    def detach_(self) -> Tensor:
        """Forget the history; a view cannot, as its base would still know it."""
        if self.view_of is not None:
            raise RuntimeError("detach_: a view cannot be detached in place; use .detach()")
        if self.is_leaf:
            return self.requires_grad_(False)
        self.node = None
        return self

    @property
    def data(self) -> Tensor:
        """The same memory, outside of the recording; unlike `detach()`, changing it is not noticed by backward."""
        return engine.make(self.array)

    @data.setter
    def data(self, value: Tensor) -> None:
        if not isinstance(value, engine.Tensor):
            raise TypeError(f"data must be a tensor, got {type(value).__name__}; make one with tensor(...)")
        if self.node is not None and not value.is_floating_point():
            raise RuntimeError(f"data of a tensor that requires a gradient must be floating point, got {value.dtype}")
        self.array, self.storage = value.array, engine.Storage()
        if self.node is not None:
            self.node.shape, self.node.dtype = value.array.shape, value.array.dtype

    @property
    def retains_grad(self) -> bool:
        """Whether retain_grad() was called on this tensor, which is not a leaf."""
        node = engine.current_node(self)
        return node is not None and node.operation is not None and node.owner is not None and node.owner() is self

    def retain_grad(self) -> None:
        """Keep the gradient of a tensor that is not a leaf in `.grad`, too."""
        engine.retain_grad(self)

    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> engine.RemovableHandle:
        """Call `hook` with this tensor's complete gradient during backward; what it returns replaces the gradient."""
        return engine.add_hook(self, hook)

    def register_post_accumulate_grad_hook(self, hook: Callable[[Tensor], None]) -> engine.RemovableHandle:
        """Call `hook` with this leaf when a backward pass has added to its `.grad`, so that it can be used at once."""
        return engine.add_hook_after(self, hook)

    # --- arithmetic -----------------------------------------------------------------------------------------------

    __add__ = __radd__ = _operator(elementwise.add)
    __sub__, __rsub__ = _operator(elementwise.sub), _operator(elementwise.subtracted_from, turned=True)
    __mul__ = __rmul__ = _operator(elementwise.mul)
    __truediv__, __rtruediv__ = _operator(elementwise.div), _operator(elementwise.div, turned=True)
    __floordiv__, __rfloordiv__ = (
        _operator(elementwise.floor_divide),
        _operator(elementwise.floor_divide, turned=True),
    )
    __mod__, __rmod__ = _operator(elementwise.remainder), _operator(elementwise.remainder, turned=True)
    __pow__, __rpow__ = _operator(elementwise.power), _operator(elementwise.power, turned=True)

    __eq__ = _operator(compare.eq)  # type: ignore[assignment]
    __ne__ = _operator(compare.ne)  # type: ignore[assignment]
    __lt__, __le__, __gt__, __ge__ = map(_operator, (compare.lt, compare.le, compare.gt, compare.ge))

    __and__ = __rand__ = _operator(compare.bitwise_and)
    __or__ = __ror__ = _operator(compare.bitwise_or)
    __xor__ = __rxor__ = _operator(compare.bitwise_xor)
    __lshift__, __rlshift__ = (
        _operator(compare.bitwise_left_shift),
        _operator(compare.bitwise_left_shift, turned=True),
    )
    __rshift__, __rrshift__ = (
        _operator(compare.bitwise_right_shift),
        _operator(compare.bitwise_right_shift, turned=True),
    )

    def __matmul__(self, other: Tensor) -> Tensor:
        return linalg.matmul(self, other)

    def __neg__(self) -> Tensor:
        return elementwise.neg(self)

    def __abs__(self) -> Tensor:
        return elementwise.abs_(self)

    def __invert__(self) -> Tensor:
        if self.is_floating_point():
            raise TypeError(f"~: needs bool or integer tensors, got {self.dtype}; compare first (x != 0)")
        return compare.bitwise_not(self)

    def __pos__(self) -> Tensor:
        return self

    def __round__(self, decimals: int = 0) -> Tensor:
        return elementwise.round_(self, decimals)

    # --- in place -------------------------------------------------------------------------------------------------

    __iadd__, __isub__, __imul__, __itruediv__ = map(_augmented, (__add__, __sub__, __mul__, __truediv__))
    __ifloordiv__, __imod__, __ipow__ = map(_augmented, (__floordiv__, __mod__, __pow__))
    __iand__, __ior__, __ixor__ = map(_augmented, (__and__, __or__, __xor__))

    # --- index ----------------------------------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> Tensor:
        return index.index(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        inplace.set_item(self, key, operand(value))


def _only_element(t: Tensor) -> Any:
    """What float() and int() turn into a number; their errors are ValueErrors, as PyTorch's."""
    if t.array.size != 1:
        raise ValueError(f"only a tensor of one element is a number, got shape {t.array.shape}")
    return t.array.item()


class UntypedStorage:
    """The bytes behind a tensor and its views.

    >>> from tinygrad_tf import zeros
    >>> x = zeros(3, 2)
    >>> x.untyped_storage().nbytes(), x.untyped_storage().data_ptr() == x[1:].untyped_storage().data_ptr()
    (24, True)
    """

    __slots__ = ("_root",)

    def __init__(self, root: np.ndarray):
        self._root = root

    def data_ptr(self) -> int:
        """Where the bytes begin."""
        return self._root.__array_interface__["data"][0]

    def nbytes(self) -> int:
        return self._root.nbytes

    size = __len__ = nbytes

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self.nbytes()


def _constructed(data: tuple[Any, ...]) -> np.ndarray:
    """The array that `Tensor(...)` means."""
    if len(data) == 1:
        (first,) = data
        if isinstance(first, engine.Tensor):
            return first.array
        if isinstance(first, (np.ndarray, np.floating, np.bool_)):
            array = plain_array(np.asanyarray(first))
            as_dtype(array.dtype)  # refuses what no tensor holds
            return _floats(array)
        if isinstance(first, float):
            raise TypeError("Tensor: needs data or sizes; for a number use tensor(number)")
        if not isinstance(first, (int, np.integer)):
            first = tuple(first) if isinstance(first, (tuple, range, Size)) else first
            return np.zeros(first, default_float()) if isinstance(data[0], Size) else _floats(first)
    if not all(isinstance(n, (int, np.integer)) for n in data):
        raise TypeError(
            f"Tensor: needs data (a list, an array) or sizes, got {', '.join(type(n).__name__ for n in data)}"
        )
    return np.zeros(data or (0,), default_float())


def _floats(data: Any) -> np.ndarray:
    try:
        with quiet():
            return np.asarray(plain_data(data), dtype=default_float())
    except (ValueError, TypeError) as error:
        raise type(error)(
            f"Tensor: nested lists of numbers must have the same length at each level ({error})"
        ) from None


def _rebuild(cls: type[Tensor] | None, array: np.ndarray, requires_grad: bool) -> Tensor:
    cls = cls or Tensor
    t = cls.__new__(cls)
    t.array, t.node, t._grad, t.storage, t.view_of = array, None, None, engine.Storage(), None
    if requires_grad:
        engine.leaf(t)
    return t
