"""JSON files with a format version, files of arrays, and folders that one process writes at a time."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tinygrad_tf.utils.errors import InputError
from tinygrad_tf.utils.files import write_atomically


def write_json(path: Path, value: Any) -> None:
    write_atomically(path, (json.dumps(value, indent=1, allow_nan=False) + "\n").encode("ascii"))


def read_json(path: Path, formats: tuple[int, ...] = (1,)) -> dict[str, Any]:
    """The object in a JSON file, whose "format" must be one of `formats`; else an InputError that names the file."""
    try:
        value = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:  # not UTF-8, or not JSON
        raise InputError(f"{path}: is broken, not JSON ({error})") from None
    if not isinstance(value, dict) or "format" not in value:
        raise InputError(f"{path}: was not written by tinygrad-tf (it has no format version)")
    if value["format"] not in formats:
        known = ", ".join(map(str, formats))
        raise InputError(f"{path}: has format {value['format']!r}; this version of tinygrad-tf knows {known} only")
    return value


def arrays_as_bytes(arrays: Mapping[str, np.ndarray], metadata: Mapping[str, str]) -> bytes:
    """A safetensors file. The library puts metadata in any order, but equal runs are to write equal bytes."""
    from safetensors.numpy import save

    data = save(dict(arrays))
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.dumps({"__metadata__": dict(metadata), **json.loads(data[8:start])}, separators=(",", ":"))
    header += " " * (-len(header) % 8)  # arrays begin at a multiple of 8 bytes
    return b"".join([len(header).to_bytes(8, "little"), header.encode("ascii"), memoryview(data)[start:]])


@contextlib.contextmanager
def locked(path: Path, name: str) -> Iterator[None]:
    """Hold a lock file; the system gives it back however the process ends. A second holder is an InputError."""
    try:
        import fcntl
    except ImportError:  # Windows: no lock
        yield
        return
    try:
        file = open(path, "ab")  # noqa: SIM115 - closed below
    except OSError as error:
        raise InputError(f"{name}: cannot be written: {error.strerror}") from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(f"{name}: another process is training in this run folder") from None
        except OSError:  # a file system without locks
            pass
        yield
