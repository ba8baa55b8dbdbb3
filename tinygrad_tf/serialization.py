"""save and load: tensors in nested dictionaries, lists and settings, in one safetensors file.

The tensors are the file's tensors, named by their place ("model.wte.weight"), so that other tools read them; the
structure around them is JSON in the file's metadata. Nothing is ever unpickled: loading a file runs no code in it.
Files of PyTorch's torch.save are read, too, by utils/torch_files.py.

    JSON itself       None, bool, int, str, finite floats, lists
    {"tensor": name}  a tensor, with "parameter" and "requires_grad" where they hold
    {"complex": [real, imag]}         a complex tensor, by its two parts
    {"dict": [[key, value], ...]}     keys of any kind (the optimisers' are integers); {"OrderedDict": ...} likewise
    {"tuple": [...]}  {"set": [...]}  {"Size": [...]}
    {"float": "nan"}  {"bytes": hex}  {"dtype": "float32"}  {"device": "cpu"}
    {"Namespace": ...}                argparse.Namespace and types.SimpleNamespace, as Namespace
    {"array": name}                   a NumPy array or number
"""

from __future__ import annotations

import argparse
import io
import json
import math
import os
import types
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from tinygrad_tf._device import checked, device
from tinygrad_tf.complex_numbers import ComplexTensor
from tinygrad_tf.dtypes import DType, array_dtype, as_dtype
from tinygrad_tf.engine import make
from tinygrad_tf.nn.parameter import Parameter
from tinygrad_tf.tensor import Size, Tensor
from tinygrad_tf.utils.errors import InputError
from tinygrad_tf.utils.files import write_atomically

Place = str | os.PathLike[str] | BinaryIO
STRUCTURE = "tinygrad_tf"  # the metadata entry that holds the JSON
FORMAT = 1
NAMES = {  # safetensors' names of dtypes: NumPy's
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "BOOL": "bool",
    "I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8",
    "U64": "uint64", "U32": "uint32", "U16": "uint16", "U8": "uint8",
}  # fmt: skip


def save(
    obj: Any,
    f: Place,
    pickle_module: Any = None,
    pickle_protocol: int | None = None,
    _use_new_zipfile_serialization: bool = True,
) -> None:
    """Write tensors, and dictionaries, lists, numbers and strings around them, to a path or a binary file.

    A path is written atomically: after a crash it holds the old content or the new one. Tensors that share all their
    memory (tied weights) are stored once. Anything else (a Module, a function) is a TypeError that names its place.
    The other arguments concern PyTorch's pickles and change nothing.

    >>> import io, tinygrad_tf as tg
    >>> file = io.BytesIO()
    >>> tg.save({"step": 3, "weights": [tg.ones(2)]}, file)
    >>> _ = file.seek(0)
    >>> tg.load(file)
    {'step': 3, 'weights': [tensor([1., 1.])]}
    """
    from safetensors.numpy import save as serialized

    writer = _Writer()
    structure = {"format": FORMAT, "root": writer.packed(obj, "")}
    data = serialized(writer.tensors, {STRUCTURE: json.dumps(structure)})
    if hasattr(f, "write"):
        _check_binary("save", f)
        f.write(data)
        return
    try:
        write_atomically(Path(os.fsdecode(f)), data)
    except OSError as error:
        raise InputError(f"save: {os.fsdecode(f)}: cannot be written: {error.strerror or error}") from None


def load(
    f: Place,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    encoding: str = "utf-8",
) -> Any:
    """What `save` wrote; of another safetensors file, its tensors by name; of PyTorch's torch.save, what it holds.

    Loading is always safe, whatever weights_only says: a file of torch.save, which is a pickle, is read without running
    it, and so may hold plain data only: tensors, containers, numbers, text, NumPy arrays, Namespaces. What else it
    holds, and a broken file, is an InputError; a missing one a FileNotFoundError. All tensors come to the CPU, wherever
    they were; pickle_module, mmap and encoding concern PyTorch's way of reading and change nothing.
    """
    if not callable(map_location) and not isinstance(map_location, dict):
        checked(map_location)
    name = getattr(f, "name", "the file") if hasattr(f, "read") else os.fsdecode(f)
    try:
        if hasattr(f, "read"):
            _check_binary("load", f)
        data = f.read() if hasattr(f, "read") else Path(os.fsdecode(f)).read_bytes()
    except FileNotFoundError:
        raise FileNotFoundError(f"load: {name}: no such file") from None
    except OSError as error:
        raise InputError(f"load: {name}: cannot be read: {error.strerror or error}") from None
    try:
        tensors, structure = _opened(str(name), data)
    except InputError:
        from tinygrad_tf.utils.torch_files import is_torch_file, read_torch_file  # here, as few programs have one

        if not is_torch_file(data):  # asked second, as a safetensors file may begin with any letters
            raise
        return read_torch_file(str(name), data)
    if structure is None:
        return {key: make(array) for key, array in tensors.items()}
    try:
        return _Reader(tensors).unpacked(structure["root"])
    except (KeyError, TypeError, ValueError, AttributeError, StopIteration, RuntimeError) as error:
        raise InputError(f"load: {name}: is broken: {error!r}") from None


def _check_binary(what: str, file: Any) -> None:
    if isinstance(file, io.TextIOBase):
        mode = {"save": "wb", "load": "rb"}[what]
        raise InputError(f"{what}: {getattr(file, 'name', 'the file')} is open as text; open it with mode {mode!r}")


def _opened(name: str, data: bytes) -> tuple[dict[str, np.ndarray], Any]:
    """The arrays of a safetensors file, and our structure, if there is one."""
    from safetensors import SafetensorError, deserialize

    try:
        entries = dict(deserialize(data))
        length = int.from_bytes(data[:8], "little")
        metadata = json.loads(data[8 : 8 + length]).get("__metadata__", {})
        structure = json.loads(metadata[STRUCTURE]) if STRUCTURE in metadata else None
    except (SafetensorError, ValueError, RecursionError) as error:
        raise InputError(f"load: {name}: is broken, or no safetensors file ({error})") from None
    if structure is not None and not isinstance(structure, dict):
        raise InputError(f"load: {name}: is broken: its structure is a {type(structure).__name__}")
    if structure is not None and structure.get("format") != FORMAT:
        raise InputError(f"load: {name}: has format {structure.get('format')!r}; this version knows {FORMAT} only")
    return {key: _array(name, key, entry) for key, entry in entries.items()}, structure


def _array(name: str, key: str, entry: dict[str, Any]) -> np.ndarray:
    if entry["dtype"] not in NAMES:
        raise InputError(f"load: {name}: {key} has dtype {entry['dtype']}; there are {', '.join(NAMES)}")
    dtype = array_dtype(NAMES[entry["dtype"]])
    return np.frombuffer(bytearray(entry["data"]), dtype).reshape(entry["shape"])


KINDS = [
    "tensor",
    "complex",
    "array",
    "dict",
    "OrderedDict",
    "Namespace",
    "tuple",
    "set",
    "Size",
    "float",
    "bytes",
    "dtype",
    "device",
]


class _Writer:
    """Turns objects into JSON and gathers the tensors in them."""

    def __init__(self) -> None:
        self.tensors: dict[str, np.ndarray] = {}
        self.stored: dict[Any, tuple[str, np.ndarray]] = {}  # the arrays are kept, so that their addresses stay theirs
        self.open: set[int] = set()

    def packed(self, obj: Any, place: str) -> Any:
        if obj is None or isinstance(obj, (bool, str)) or type(obj) is int:
            return obj
        if isinstance(obj, float) and not isinstance(obj, np.generic):
            return obj if math.isfinite(obj) else {"float": repr(obj)}
        if isinstance(obj, Tensor):
            kept: dict[str, Any] = {"tensor": self._store(obj.array, place)}
            if obj.requires_grad:
                kept["requires_grad"] = True
            if isinstance(obj, Parameter):
                kept["parameter"] = True
            return kept
        if isinstance(obj, ComplexTensor):
            parts = {"real": obj.real, "imag": obj.imag}
            return {"complex": [self.packed(part, f"{place}.{name}") for name, part in parts.items()]}
        if isinstance(obj, (np.ndarray, np.generic)):
            kept = {"array": self._store(np.asarray(obj), place)}
            return {**kept, "number": True} if isinstance(obj, np.generic) else kept
        if isinstance(obj, bytes):
            return {"bytes": obj.hex()}
        if isinstance(obj, (DType, np.dtype)) or (isinstance(obj, type) and issubclass(obj, np.generic)):
            return {"dtype": as_dtype(obj).name}
        if isinstance(obj, device):
            return {"device": str(obj)}
        return self._container(obj, place)

    def _container(self, obj: Any, place: str) -> Any:
        if id(obj) in self.open:
            raise ValueError(f"save: {place or 'the object'} contains itself")
        self.open.add(id(obj))
        try:
            if isinstance(obj, (argparse.Namespace, types.SimpleNamespace)):
                return {"Namespace": self._pairs(vars(obj), place)}
            if isinstance(obj, dict):
                return {"OrderedDict" if isinstance(obj, OrderedDict) else "dict": self._pairs(obj, place)}
            if isinstance(obj, Size):
                return {"Size": list(obj)}
            if isinstance(obj, (list, tuple, set, frozenset)):
                items = [self.packed(item, f"{place}.{i}" if place else str(i)) for i, item in enumerate(obj)]
                kind = "tuple" if isinstance(obj, tuple) else "set"
                return items if isinstance(obj, list) else {kind: items}
        finally:
            self.open.discard(id(obj))
        hint = "; save its state_dict() instead" if hasattr(obj, "state_dict") else ""
        what = place or "the object"
        raise TypeError(f"save: {what} is a {type(obj).__name__}, which cannot be saved without pickling{hint}")

    def _pairs(self, mapping: dict[Any, Any], place: str) -> list[Any]:
        return [
            [self.packed(key, f"key {key!r}"), self.packed(value, f"{place}.{key}" if place else str(key))]
            for key, value in mapping.items()
        ]

    def _store(self, array: np.ndarray, place: str) -> str:
        """Keep an array's elements, in the order of its indices whatever its memory's; returns the name."""
        key = (array.__array_interface__["data"][0], array.shape, array.strides, array.dtype.str, array.dtype.name)
        if array.size and key in self.stored:
            return self.stored[key][0]
        names = {value: name for name, value in NAMES.items()}
        if array.dtype.name not in names:
            raise TypeError(f"save: {place or 'the tensor'} has dtype {array.dtype}, which cannot be saved")
        name = wanted = place or "tensor"
        number = 2
        while name in self.tensors:
            name, number = f"{wanted}#{number}", number + 1
        self.tensors[name] = np.array(array, order="C", copy=None)  # safetensors writes the memory as it lies
        self.stored[key] = name, array
        return name


class _Reader:
    """Turns JSON back into objects."""

    def __init__(self, tensors: dict[str, np.ndarray]):
        self.tensors = tensors

    def unpacked(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self.unpacked(item) for item in value]
        if not isinstance(value, dict):
            return value
        kind = next(iter(value))
        if kind not in KINDS:
            raise ValueError(f"unknown kind of value {kind!r}")
        return getattr(self, f"_{kind}")(value[kind], value)

    def _tensor(self, name: str, value: dict[str, Any]) -> Tensor:
        tensor: Tensor = make(self.tensors[name])
        requires_grad = value.get("requires_grad", False)
        return Parameter(tensor, requires_grad) if value.get("parameter") else tensor.requires_grad_(requires_grad)

    def _complex(self, parts: list[Any], value: Any) -> ComplexTensor:
        return ComplexTensor(*map(self.unpacked, parts))

    def _array(self, name: str, value: dict[str, Any]) -> Any:
        return self.tensors[name][()] if value.get("number") else self.tensors[name]

    def _mapping(self, pairs: list[Any], make_mapping: Callable[[Any], Any]) -> Any:
        return make_mapping((self.unpacked(key), self.unpacked(item)) for key, item in pairs)

    def _dict(self, pairs: list[Any], value: Any) -> dict[Any, Any]:
        return self._mapping(pairs, dict)

    def _OrderedDict(self, pairs: list[Any], value: Any) -> OrderedDict[Any, Any]:
        return self._mapping(pairs, OrderedDict)

    def _Namespace(self, pairs: list[Any], value: Any) -> argparse.Namespace:
        return argparse.Namespace(**self._mapping(pairs, dict))

    def _tuple(self, items: list[Any], value: Any) -> tuple[Any, ...]:
        return tuple(self.unpacked(items))

    def _set(self, items: list[Any], value: Any) -> set[Any]:
        return set(self.unpacked(items))

    def _Size(self, items: list[int], value: Any) -> Size:
        return Size(items)

    def _float(self, text: str, value: Any) -> float:
        return float(text)

    def _bytes(self, text: str, value: Any) -> bytes:
        return bytes.fromhex(text)

    def _dtype(self, name: str, value: Any) -> DType:
        return as_dtype(name)

    def _device(self, name: str, value: Any) -> device:
        return device(name)
