"""Files of PyTorch's torch.save, read without unpickling them: nothing that a file names is ever imported or called.

Such a file is a pickle, a program for a little stack machine, and beside it the bytes of the tensors ("storages"): in a
zip archive, or, in files of before PyTorch 1.6, one behind the other. The machine (`_pickle_machine.py`) is run on
inert values: a name in the program ("torch._utils _rebuild_tensor_v2") stays a name, and calling it looks it up in
CALLS, a short table of what plain data are made of. A name that is not there is an InputError.
"""

from __future__ import annotations

import io
import zipfile
from argparse import Namespace
from collections import Counter, OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tinygrad_tf._device import device
from tinygrad_tf.complex_numbers import ComplexTensor
from tinygrad_tf.dtypes import NAMES, as_dtype
from tinygrad_tf.engine import make
from tinygrad_tf.nn.parameter import Parameter
from tinygrad_tf.tensor import Size, Tensor
from tinygrad_tf.utils._pickle_machine import ForeignName, Machine, Name, as_bytes
from tinygrad_tf.utils.errors import InputError

MAGIC = 0x1950A86A20F9469CFC6C  # the first value of a file of before PyTorch 1.6
STORAGES = {  # torch.FloatStorage and the others: the dtype of their elements
    "Double": "float64", "Float": "float32", "Half": "float16", "BFloat16": "bfloat16", "Bool": "bool",
    "Long": "int64", "Int": "int32", "Short": "int16", "Char": "int8", "Byte": "uint8",
}  # fmt: skip
COMPLEX_STORAGES: dict[str, np.dtype[Any]] = {
    "ComplexFloat": np.dtype(np.complex64), "ComplexDouble": np.dtype(np.complex128),
}  # fmt: skip
Storage = np.ndarray  # its elements, or its bytes, in one row


def is_torch_file(data: bytes) -> bool:
    """Whether it may be one: a zip archive or a pickle."""
    return data[:4] == b"PK\x03\x04" or data[:1] == b"\x80"


def read_torch_file(name: str, data: bytes) -> Any:
    """What torch.save wrote; an InputError names the file and what is wrong with it."""
    try:
        return _from_zip(data) if data[:2] == b"PK" else _from_pickles(data)
    except ForeignName as error:
        raise InputError(
            f"load: {name}: holds {error}, which is not plain data, and loading it could run any code; "
            "in PyTorch, save a state_dict() instead of a module, and vars() instead of an object"
        ) from None
    except InputError as error:
        raise InputError(f"load: {name}: {error}") from None
    except Exception as error:  # of a program that makes no sense, anything may come
        why = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise InputError(f"load: {name}: is a broken file of torch.save ({why})") from None


def _from_zip(data: bytes) -> Any:
    archive = zipfile.ZipFile(io.BytesIO(data))
    entries = {entry.filename.partition("/")[2]: entry for entry in archive.infolist()}
    if "data.pkl" not in entries:
        raise InputError("is a zip archive, but not of torch.save; numpy.load reads .npz files")
    if "constants.pkl" in entries:
        raise InputError("is a TorchScript program; in PyTorch, save the state_dict() of the model with torch.save")

    def content(name: str) -> bytes:
        entry = entries[name]
        if entry.compress_type != zipfile.ZIP_STORED:
            raise ValueError(f"{name} is compressed")
        return archive.read(entry)

    big = "byteorder" in entries and content("byteorder") == b"big"
    storages: dict[str, Storage] = {}

    def stored(kind: Any, key: str, place: Any, count: int) -> Storage:
        if key not in storages:
            storages[key] = _elements(_dtype_of(kind), content(f"data/{key}"), big)
        return storages[key]

    return _machine(stored).run(io.BytesIO(content("data.pkl")))


def _from_pickles(data: bytes) -> Any:
    """Magic number, version, machine; the object; the storages' keys; then each storage: its length, its elements."""
    file = io.BytesIO(data)
    if _machine().run(file) != MAGIC:
        raise InputError("is a pickle, but not of torch.save, and unpickling it could run any code")
    _version, machine = _machine().run(file), _machine().run(file)
    storages: dict[str, Storage] = {}

    def stored(kind: Any, key: str, place: Any, count: int, view: Any = None) -> Storage:
        if key not in storages:
            if not 0 <= count <= len(data):
                raise ValueError(f"storage {key} of {count} elements")
            storages[key] = np.zeros(count, _dtype_of(kind))  # filled below
        _, first, length = view or (None, 0, count)
        return storages[key][first : first + length]

    start = file.tell()
    _machine(stored).run(file)  # it tells how long the storages are, which stand behind it
    for key in _machine().run(file):
        storage = storages[key]
        length = int.from_bytes(file.read(8), "little") * storage.itemsize
        storage[:] = _elements(storage.dtype, file.read(length), not machine["little_endian"])
    file.seek(start)
    return _machine(stored).run(file)


def _dtype_of(kind: Any) -> np.dtype[Any]:
    """The dtype of what a kind of storage holds."""
    name = kind.name.removesuffix("Storage") if isinstance(kind, Name) else str(kind)
    if name == "Untyped":
        return np.dtype(np.uint8)
    if name in COMPLEX_STORAGES:
        return COMPLEX_STORAGES[name]
    if name not in STORAGES:
        raise InputError(f"holds tensors of a dtype that is not here, {name}")
    return as_dtype(STORAGES[name]).dtype


def _elements(dtype: np.dtype[Any], content: bytes, big: bool) -> Storage:
    elements = np.frombuffer(bytearray(content), dtype)
    return elements.byteswap() if big and dtype.itemsize > 1 else elements


# --- what plain data are made of --------------------------------------------------------------------------------------


def _tensor(
    storage: Storage,
    offset: int,
    size: Any,
    stride: Any,
    requires_grad: bool = False,
    hooks: Any = None,
    about: dict[str, bool] | None = None,
) -> Any:
    """A view of a storage, as torch._utils._rebuild_tensor_v2 makes it; tensors of one storage share memory.

    about: what is to be done with the numbers yet, {"conj": True} or {"neg": True}.
    """
    size, stride = tuple(size), tuple(stride)
    if not all(type(n) is int and n >= 0 for n in (offset, *size, *stride)) or len(size) != len(stride):
        raise ValueError(f"a tensor of shape {size} and strides {stride} at {offset}")
    last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    if 0 in size:
        array = np.empty(size, storage.dtype)
    elif last >= len(storage):
        raise ValueError(f"a tensor of shape {size} reaches behind its storage of {len(storage)} elements")
    else:
        steps = [step * storage.itemsize for step in stride]
        array = np.lib.stride_tricks.as_strided(storage[offset:], size, steps)
    if about and about.get("conj"):
        array = array.conj()
    if about and about.get("neg"):
        array = -array
    tensor = ComplexTensor(make(array.real), make(array.imag)) if array.dtype.kind == "c" else make(array)
    return tensor.requires_grad_(True) if requires_grad else tensor


def _tensor_of_dtype(storage: Storage, offset: int, size: Any, stride: Any, grad: bool, hooks: Any, dtype: Any) -> Any:
    """_rebuild_tensor_v3: of dtypes without a storage class of their own, as uint16; the storage is bytes."""
    return _tensor(storage.view(as_dtype(dtype).dtype), offset, size, stride, grad)


def _parameter(data: Tensor, requires_grad: bool = True, *_: Any) -> Parameter:
    return Parameter(data, bool(requires_grad))


def _bytearray(*content: Any) -> bytearray:
    return bytearray(as_bytes(*content))


def _empty_array(*_: Any) -> np.ndarray:
    """An array to which BUILD gives its content."""
    return np.empty(0, np.uint8)


def _array_from_buffer(content: Any, dtype: Any, shape: Any, order: str) -> np.ndarray:
    array: np.ndarray = np.frombuffer(bytearray(as_bytes(content)), dtype)
    return array.reshape(shape, order="F" if order == "F" else "C")


def _number(dtype: Any, content: bytes) -> Any:
    return np.frombuffer(content, dtype)[0]


def _numpy_dtype(code: Any, *_: Any) -> np.dtype[Any]:
    """A copy, as BUILD sets its byte order; of objects there are none, as their bytes would be taken for addresses."""
    dtype = np.dtype(code, copy=True) if isinstance(code, str) else None
    if dtype is None or dtype.kind not in "biufcSU":
        raise ForeignName(f"a NumPy dtype {code!r}")
    return dtype


CALLS: dict[Name, Callable[..., Any]] = {
    Name("torch._utils", "_rebuild_tensor"): _tensor,
    Name("torch._utils", "_rebuild_tensor_v2"): _tensor,
    Name("torch._utils", "_rebuild_tensor_v3"): _tensor_of_dtype,
    Name("torch._utils", "_rebuild_parameter"): _parameter,
    Name("torch", "Size"): Size,
    Name("torch", "device"): device,
    Name("collections", "OrderedDict"): OrderedDict,
    Name("collections", "Counter"): Counter,
    Name("argparse", "Namespace"): Namespace,
    Name("types", "SimpleNamespace"): Namespace,
    Name("_codecs", "encode"): as_bytes,
    **{Name(module, kind.__name__): kind for module in ("builtins", "__builtin__")
       for kind in (set, frozenset, complex)},
    **{Name(module, "bytes"): as_bytes for module in ("builtins", "__builtin__")},
    **{Name(module, "bytearray"): _bytearray for module in ("builtins", "__builtin__")},
    **{Name(module, kind): Path for module in ("pathlib", "pathlib._local")
       for kind in ("PosixPath", "WindowsPath", "PurePosixPath")},
    Name("numpy", "dtype"): _numpy_dtype,
    **{Name(f"numpy.{core}.multiarray", "scalar"): _number for core in ("core", "_core")},
    **{Name(f"numpy.{core}.multiarray", "_reconstruct"): _empty_array for core in ("core", "_core")},
    **{Name(f"numpy.{core}.numeric", "_frombuffer"): _array_from_buffer for core in ("core", "_core")},
}  # fmt: skip
VALUES = {Name("torch", name): dtype for name, dtype in NAMES.items()}  # torch.float32, as a value
INERT = {Name("numpy", "ndarray"), Name("torch.storage", "UntypedStorage"), Name("torch", "UntypedStorage")}
INERT |= {Name("torch", f"{kind}Storage") for kind in (*STORAGES, *COMPLEX_STORAGES)}


def _machine(stored: Callable[..., Storage] | None = None) -> Machine:
    return Machine(CALLS, VALUES, INERT, stored)
