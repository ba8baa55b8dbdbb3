"""Methods that change the dtype or name the device, and makers of new tensors like this one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

import numpy as np

from tinygrad_tf import _device, _layout, dtypes, engine
from tinygrad_tf._quiet import quiet
from tinygrad_tf.methods._tools import plain_data
from tinygrad_tf.ops._types import fitting, plain_array
from tinygrad_tf.ops.shape import sizes_of

if TYPE_CHECKING:
    from tinygrad_tf.tensor import Tensor

# PyTorch's old names of tensor types, as in x.type('torch.LongTensor')
TYPE_NAMES = {
    "float32": "FloatTensor",
    "float64": "DoubleTensor",
    "float16": "HalfTensor",
    "bfloat16": "BFloat16Tensor",
    "int64": "LongTensor",
    "int32": "IntTensor",
    "int16": "ShortTensor",
    "int8": "CharTensor",
    "uint8": "ByteTensor",
    "bool": "BoolTensor",
}
OF_TYPE_NAME = {f"torch.{name}": dtype for dtype, name in TYPE_NAMES.items()}


class TypeMethods(engine.Tensor):
    __slots__ = ()

    @property
    def dtype(self) -> dtypes.DType:
        return dtypes.as_dtype(self.array.dtype)

    @property
    def device(self) -> _device.device:
        """Always the CPU."""
        return _device.CPU

    @property
    def layout(self) -> _layout.layout:
        """torch.strided: there is no other here."""
        return _layout.layout.strided

    @property
    def is_cuda(self) -> bool:
        return False

    is_meta = is_mps = is_nested = is_quantized = is_sparse = is_xla = is_xpu = (
        is_cuda  # nor anything but plain numbers
    )

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.array.itemsize

    @property
    def nbytes(self) -> int:
        return self.array.nbytes

    def element_size(self) -> int:
        """Bytes of one element."""
        return self.array.itemsize

    def get_device(self) -> int:
        """-1, which stands for the CPU."""
        return -1

    def is_floating_point(self) -> bool:
        """Whether the dtype has fractions."""
        return self.dtype.is_floating_point

    def is_complex(self) -> bool:
        """False: complex numbers are `ComplexTensor`s."""
        return False

    def is_signed(self) -> bool:
        """Whether the dtype has negative numbers."""
        return self.dtype.is_signed

    # --- casts ----------------------------------------------------------------------------------------------------

    def to(
        self,
        *args: Any,
        dtype: Any = None,
        device: Any = None,
        copy: bool = False,
        non_blocking: bool = False,
        memory_format: Any = None,
    ) -> Tensor:
        """Cast: to(dtype), to(other tensor), to(device, dtype), the device being the CPU; self if nothing changes."""
        for a in args:
            if isinstance(a, engine.Tensor):
                dtype = a.array.dtype
            elif isinstance(a, (dtypes.DType, np.dtype, type)) or a in dtypes.NAMES:
                dtype = a
            elif isinstance(a, (str, _device.device)):
                device = a
            elif a is not None and not isinstance(a, bool):
                raise TypeError(f"to: needs a dtype, a device or a tensor, got {a!r}")
        _device.checked(device)
        wanted = self.array.dtype if dtype is None else dtypes.array_dtype(dtype)
        if wanted == self.array.dtype and not copy:
            return self  # type: ignore[return-value]
        if wanted.kind in "biu":
            with np.errstate(invalid="ignore"):
                return engine.make(self.array.astype(wanted))
        return engine.cast(self, dtype=wanted)

    @overload
    def type(self, dtype: None = None) -> str: ...
    @overload
    def type(self, dtype: Any) -> Tensor: ...
    def type(self, dtype: Any = None) -> Any:
        """Cast to a dtype (or the name of a type of tensors); without one, that name: 'torch.FloatTensor'."""
        if dtype is None:
            return f"torch.{TYPE_NAMES.get(self.dtype.name, self.dtype.name)}"
        dtype = getattr(dtype, "wanted_dtype", dtype)  # the class torch.LongTensor
        return self.to(dtypes.as_dtype(OF_TYPE_NAME.get(dtype, dtype) if isinstance(dtype, str) else dtype))

    def type_as(self, other: Tensor) -> Tensor:
        """Cast to the dtype of another tensor."""
        return self.to(other.array.dtype)

    def cpu(self, memory_format: Any = None) -> Tensor:
        """The tensor itself: it is on the CPU."""
        return self  # type: ignore[return-value]

    def cuda(self, device: Any = None, non_blocking: bool = False) -> Tensor:
        """An error that says that there is the CPU alone."""
        return self.to(_device.device("cuda"))

    @property
    def is_cpu(self) -> bool:
        return True

    def to_dense(self) -> Tensor:
        """The tensor itself: all are dense."""
        return self  # type: ignore[return-value]

    def to_sparse(self) -> Tensor:
        """The tensor itself: there are no sparse ones."""
        return self  # type: ignore[return-value]

    def coalesce(self) -> Tensor:
        """The tensor itself: no entry stands in it twice."""
        return self  # type: ignore[return-value]

    def share_memory_(self) -> Tensor:
        """The tensor itself: threads share it already."""
        return self  # type: ignore[return-value]

    def is_pinned(self) -> bool:
        return False

    def pin_memory(self) -> Tensor:
        """The tensor itself: there is no other device that would read it."""
        return self  # type: ignore[return-value]

    # --- new tensors of this dtype --------------------------------------------------------------------------------

    def new(self, *data: Any) -> Tensor:
        """PyTorch's old form: new(2, 3) of that shape, new([1.0, 2.0]) from data."""
        if len(data) == 1 and isinstance(data[0], (list, tuple, np.ndarray)) and not isinstance(data[0], tuple):
            return self.new_tensor(data[0])
        return self.new_zeros(*data)

    def new_empty(
        self, *sizes: Any, size: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False
    ) -> Tensor:
        """Zeros of this tensor's dtype."""
        return self.new_zeros(*sizes, size=size, dtype=dtype, device=device, requires_grad=requires_grad)

    def new_zeros(
        self, *sizes: Any, size: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False
    ) -> Tensor:
        """Zeros of this tensor's dtype."""
        wanted = sizes_of("new_zeros", sizes if size is None else (size,))
        return self._new(np.zeros(wanted, self._kind(dtype)), device, requires_grad)

    def new_ones(
        self, *sizes: Any, size: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False
    ) -> Tensor:
        """Ones of this tensor's dtype."""
        wanted = sizes_of("new_ones", sizes if size is None else (size,))
        return self._new(np.ones(wanted, self._kind(dtype)), device, requires_grad)

    def new_full(
        self, size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
    ) -> Tensor:
        """One number everywhere, in this tensor's dtype."""
        kind = self._kind(dtype)
        fill = fill_value if isinstance(fill_value, engine.Tensor) else fitting("new_full", fill_value, kind)
        return self._new(np.full(sizes_of("new_full", (size,)), fill, kind), device, requires_grad)

    def new_tensor(self, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
        """A new tensor of `data`, of this tensor's dtype unless another is asked for."""
        array = data.array if isinstance(data, engine.Tensor) else plain_array(np.asanyarray(plain_data(data)))
        with quiet():
            return self._new(np.array(array, dtype=self._kind(dtype)), device, requires_grad)

    def _kind(self, dtype: Any) -> np.dtype:
        return self.array.dtype if dtype is None else dtypes.array_dtype(dtype)

    def _new(self, array: np.ndarray, device: Any, requires_grad: bool) -> Tensor:
        _device.checked(device)
        t = engine.make(array)
        return t.requires_grad_() if requires_grad else t

    # --- casts by name --------------------------------------------------------------------------------------------

    def bfloat16(self) -> Tensor:
        """Cast to bfloat16."""
        return self.to(dtypes.bfloat16)

    def half(self) -> Tensor:
        """Cast to float16."""
        return self.to(dtypes.float16)

    def double(self) -> Tensor:
        """Cast to float64."""
        return self.to(dtypes.float64)

    def long(self) -> Tensor:
        """Cast to int64."""
        return self.to(dtypes.int64)

    def short(self) -> Tensor:
        """Cast to int16."""
        return self.to(dtypes.int16)

    def char(self) -> Tensor:
        """Cast to int8."""
        return self.to(dtypes.int8)

    def byte(self) -> Tensor:
        """Cast to uint8."""
        return self.to(dtypes.uint8)


class PythonTypeMethods(TypeMethods):
    """The casts named after Python's types, apart from the others, so that `float` there still means Python's."""

    __slots__ = ()

    def float(self) -> Tensor:
        """Cast to float32."""
        return self.to(dtypes.float32)

    def int(self) -> Tensor:
        """Cast to int32."""
        return self.to(dtypes.int32)

    def bool(self) -> Tensor:
        """Cast to bool: True where the element is not 0."""
        return self.to(dtypes.bool_)
