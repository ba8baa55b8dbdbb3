"""Files of PyTorch's torch.save, read without unpickling them: nothing that a file names is ever imported or called.

Such a file is a pickle, a program for a little stack machine, and beside it the bytes of the tensors ("storages"): in a
zip archive, or, in files of before PyTorch 1.6, one behind the other. The machine is run here on inert values: a name
in the program ("torch._utils _rebuild_tensor_v2") stays a name, and calling it looks it up in CALLS, a short table of
what plain data are made of. A name that is not there is an InputError.
"""

from __future__ import annotations

import io
import pickletools
import zipfile
from argparse import Namespace
from collections import Counter, OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tinygrad_tf._device import device
from tinygrad_tf.dtypes import NAMES, as_dtype
from tinygrad_tf.engine import make
from tinygrad_tf.nn.parameter import Parameter
from tinygrad_tf.tensor import Size, Tensor
from tinygrad_tf.utils.errors import InputError

MAGIC = 0x1950A86A20F9469CFC6C  # the first value of a file of before PyTorch 1.6
STORAGES = {  # torch.FloatStorage and the others: the dtype of their elements
    "Double": "float64", "Float": "float32", "Half": "float16", "BFloat16": "bfloat16", "Bool": "bool",
    "Long": "int64", "Int": "int32", "Short": "int16", "Char": "int8", "Byte": "uint8",
}  # fmt: skip
Storage = np.ndarray  # its elements, or its bytes, in one row


class Name(NamedTuple):
    """What a file calls by module and name. It is text, and stays that."""

    module: str
    name: str


class ForeignName(Exception):
    """A name that is not in the table."""


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

    return _Machine(stored).run(io.BytesIO(content("data.pkl")))


def _from_pickles(data: bytes) -> Any:
    """Magic number, version, machine; the object; the storages' keys; then each storage: its length, its elements."""
    file = io.BytesIO(data)
    if _Machine().run(file) != MAGIC:
        raise InputError("is a pickle, but not of torch.save, and unpickling it could run any code")
    _version, machine = _Machine().run(file), _Machine().run(file)
    storages: dict[str, Storage] = {}

    def stored(kind: Any, key: str, place: Any, count: int, view: Any = None) -> Storage:
        if key not in storages:
            if not 0 <= count <= len(data):
                raise ValueError(f"storage {key} of {count} elements")
            storages[key] = np.zeros(count, _dtype_of(kind))  # filled below
        _, start, length = view or (None, 0, count)
        return storages[key][start : start + length]

    value = _Machine(stored).run(file)
    for key in _Machine().run(file):
        storage = storages[key]
        length = int.from_bytes(file.read(8), "little") * storage.itemsize
        storage[:] = _elements(storage.dtype, file.read(length), not machine["little_endian"])
    return value


def _dtype_of(kind: Any) -> np.dtype[Any]:
    """The dtype of what a kind of storage holds."""
    name = kind.name.removesuffix("Storage") if isinstance(kind, Name) else str(kind)
    if name == "Untyped":
        return np.dtype(np.uint8)
    if name not in STORAGES:
        raise InputError(f"holds tensors of a dtype that is not here, {name}")
    return as_dtype(STORAGES[name]).dtype


def _elements(dtype: np.dtype[Any], content: bytes, big: bool) -> Storage:
    elements = np.frombuffer(bytearray(content), dtype)
    return elements.byteswap() if big and dtype.itemsize > 1 else elements


# --- what plain data are made of --------------------------------------------------------------------------------------


def _tensor(storage: Storage, offset: int, size: Any, stride: Any, requires_grad: bool = False, *_: Any) -> Tensor:
    """A view of a storage, as torch._utils._rebuild_tensor_v2 makes it; tensors of one storage share memory."""
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
    tensor: Tensor = make(array)
    return tensor.requires_grad_(True) if requires_grad else tensor


def _tensor_of_dtype(storage: Storage, offset: int, size: Any, stride: Any, grad: bool, hooks: Any, dtype: Any) -> Any:
    """_rebuild_tensor_v3: of dtypes without a storage class of their own, as uint16; the storage is bytes."""
    return _tensor(storage.view(as_dtype(dtype).dtype), offset, size, stride, grad)


def _parameter(data: Tensor, requires_grad: bool = True, *_: Any) -> Parameter:
    return Parameter(data, bool(requires_grad))


def _bytes(text: str | bytes = "", encoding: str = "latin1") -> bytes:
    """_codecs.encode, by which protocol 2 writes bytes."""
    if encoding not in ("latin1", "latin-1"):
        raise ValueError(f"bytes in {encoding!r}")
    return text.encode("latin1") if isinstance(text, str) else bytes(memoryview(text))


def _bytearray(*content: Any) -> bytearray:
    return bytearray(_bytes(*content))


def _empty_array(*_: Any) -> np.ndarray:
    """An array to which BUILD gives its content."""
    return np.empty(0, np.uint8)


def _array_from_buffer(content: Any, dtype: Any, shape: Any, order: str) -> np.ndarray:
    array: np.ndarray = np.frombuffer(bytearray(_bytes(content)), dtype)
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
    Name("_codecs", "encode"): _bytes,
    **{Name(module, kind.__name__): kind for module in ("builtins", "__builtin__")
       for kind in (set, frozenset, complex)},
    **{Name(module, "bytes"): _bytes for module in ("builtins", "__builtin__")},
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
INERT |= {Name("torch", f"{kind}Storage") for kind in (*STORAGES, "ComplexFloat", "ComplexDouble")}


# --- the machine ------------------------------------------------------------------------------------------------------

_MARK = object()
_VALUES = {  # instructions that push what stands behind them
    "INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT", "STRING", "BINSTRING",
    "SHORT_BINSTRING", "UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8", "BINBYTES", "SHORT_BINBYTES",
    "BINBYTES8", "BYTEARRAY8",
}  # fmt: skip
_MAKERS: dict[str, Callable[[], Any]] = {  # those that push a constant, or something empty
    "NONE": lambda: None, "NEWTRUE": lambda: True, "NEWFALSE": lambda: False, "MARK": lambda: _MARK,
    "EMPTY_LIST": list, "EMPTY_TUPLE": tuple, "EMPTY_DICT": dict, "EMPTY_SET": set,
}  # fmt: skip


class _Machine:
    """Runs the program of a pickle on inert values; a method for each instruction (pickletools describes them).

    stored: gives the storage that the words behind "storage" in a persistent id stand for.
    """

    def __init__(self, stored: Callable[..., Storage] | None = None):
        self.stored = stored
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def run(self, file: io.BytesIO) -> Any:
        """The value of the program that comes next in the file, which is left behind its end."""
        for instruction, argument, _ in pickletools.genops(file):
            name = instruction.name
            if name == "STOP":
                return self.stack.pop()
            if name in _VALUES:
                self.stack.append(argument)
            elif name in _MAKERS:
                self.stack.append(_MAKERS[name]())
            elif hasattr(self, name):
                getattr(self, name)(argument)
            elif name not in ("PROTO", "FRAME"):
                raise ForeignName(f"the instruction {name}")
        raise EOFError("it has no end")

    def since_mark(self) -> list[Any]:
        """What was pushed since the last mark."""
        items: list[Any] = []
        while (item := self.stack.pop()) is not _MARK:
            items.append(item)
        return items[::-1]

    def target(self, kind: type) -> Any:
        """The container on top of the stack."""
        if not isinstance(self.stack[-1], kind):
            raise ValueError(f"a {type(self.stack[-1]).__name__} where a {kind.__name__} belongs")
        return self.stack[-1]

    def POP(self, _: Any) -> None:
        self.stack.pop()

    def POP_MARK(self, _: Any) -> None:
        self.since_mark()

    def DUP(self, _: Any) -> None:
        self.stack.append(self.stack[-1])

    def PUT(self, place: int) -> None:
        self.memo[place] = self.stack[-1]

    BINPUT = LONG_BINPUT = PUT

    def MEMOIZE(self, _: Any) -> None:
        self.memo[len(self.memo)] = self.stack[-1]

    def GET(self, place: int) -> None:
        self.stack.append(self.memo[place])

    BINGET = LONG_BINGET = GET

    def TUPLE(self, _: Any) -> None:
        self.stack.append(tuple(self.since_mark()))

    def TUPLE1(self, _: Any, count: int = 1) -> None:
        self.stack[-count:] = [tuple(self.stack[-count:])]

    def TUPLE2(self, _: Any) -> None:
        self.TUPLE1(_, 2)

    def TUPLE3(self, _: Any) -> None:
        self.TUPLE1(_, 3)

    def LIST(self, _: Any) -> None:
        self.stack.append(self.since_mark())

    def APPENDS(self, _: Any) -> None:
        items = self.since_mark()
        self.target(list).extend(items)

    def APPEND(self, _: Any) -> None:
        item = self.stack.pop()
        self.target(list).append(item)

    def FROZENSET(self, _: Any) -> None:
        self.stack.append(frozenset(self.since_mark()))

    def ADDITEMS(self, _: Any) -> None:
        items = self.since_mark()
        self.target(set).update(items)

    def DICT(self, _: Any) -> None:
        items = self.since_mark()
        self.stack.append(dict(zip(items[::2], items[1::2], strict=True)))

    def SETITEMS(self, _: Any) -> None:
        items = self.since_mark()
        self.target(dict).update(zip(items[::2], items[1::2], strict=True))

    def SETITEM(self, _: Any) -> None:
        key, value = self.stack[-2:]
        del self.stack[-2:]
        self.target(dict)[key] = value

    def GLOBAL(self, words: str) -> None:
        name = Name(*words.split(" ", 1))
        if name not in VALUES and name not in CALLS and name not in INERT:
            raise ForeignName(f"a {name.module}.{name.name}")
        self.stack.append(VALUES.get(name, name))

    def STACK_GLOBAL(self, _: Any) -> None:
        name = self.stack.pop()
        self.GLOBAL(f"{self.stack.pop()} {name}")

    def REDUCE(self, _: Any) -> None:
        arguments, name = self.stack.pop(), self.stack.pop()
        if not isinstance(name, Name) or name not in CALLS or not isinstance(arguments, tuple):
            raise ForeignName("a call of what is no name")
        self.stack.append(CALLS[name](*arguments))

    NEWOBJ = REDUCE

    def BUILD(self, _: Any) -> None:
        """Give an object what it holds besides."""
        state, value = self.stack.pop(), self.stack[-1]
        if isinstance(value, Namespace):
            vars(value).update(state)
        elif isinstance(value, np.ndarray):
            _version, shape, dtype, by_columns, content = state
            value.__setstate__((1, shape, np.dtype(dtype), bool(by_columns), _bytes(content)))  # type: ignore[arg-type]
        elif isinstance(value, np.dtype):
            _version, order, *others = state
            if others[:3] != [None] * 3 or len(others) != 6:
                raise ForeignName("a NumPy dtype of several parts")
            sizes = (value.itemsize, value.alignment) if value.kind in "SU" else (-1, -1)
            value.__setstate__((3, order, None, None, None, *sizes, 0))  # type: ignore[attr-defined]
        elif not isinstance(value, OrderedDict):  # of a state_dict: the versions of its modules
            raise ForeignName(f"a {type(value).__name__} with attributes")

    def BINPERSID(self, _: Any) -> None:
        word, *words = self.stack.pop()
        if self.stored is None or word != "storage":
            raise ValueError(f"no storage is called {word!r}")
        self.stack.append(self.stored(*words))
