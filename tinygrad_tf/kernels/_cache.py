"""Compiled kernels on disk, never stale: an old entry cannot be found, rather than being checked and thrown away.

An entry lies in `<root>/kernels-<hash>/`. The hash is taken of everything that compiled code depends on: the sources of
all files in this folder, the versions of Python, NumPy, numba and llvmlite, the processor with its features, and the
settings of numba. numba's own cache watches only the file of the function itself, so a change to a helper in another
file goes unnoticed; and it never finds a function again that closes over another kernel. Within the folder an entry is
named after the function, the types of its arguments, and a fingerprint of the function (its bytecode, what it closes
over, and the kernels it calls), so that kernels made by a factory are told apart.

Several processes may use one folder: files appear by renaming, and one that cannot be read counts as missing. Where
nothing can be written, or the source is not a file of this folder (a notebook, a test), kernels are compiled in memory.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import logging
import os
import pickle
import re
import shutil
import sys
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import llvmlite
import numba
import numpy
from numba.core import caching, compiler, dispatcher
from numba.core.bytecode import FunctionIdentity
from numba.core.registry import cpu_target
from numba.core.serialize import dumps
from numba.extending import _Intrinsic

config: Any = numba.config
SOURCE_FOLDER = Path(__file__).parent
FOLDERS_KEPT = 4
# NaN and infinity keep their IEEE meaning: neither "nnan" nor "ninf" is among the flags.
FAST_MATH = {"contract", "nsz", "arcp", "reassoc"}
_FOLDER_NAME = re.compile(r"kernels-[0-9a-f]{20}")
_DIGEST_BYTES = hashlib.sha256().digest_size
_SETTINGS = ("OPT", "LOOP_VECTORIZE", "SLP_VECTORIZE", "BOUNDSCHECK", "DEBUGINFO_DEFAULT", "FULL_TRACEBACKS")


def cache_root() -> Path | None:
    """The folder for compiled code: `TINYGRAD_TF_CACHE`, else this platform's place; None where there is none."""
    chosen = os.environ.get("TINYGRAD_TF_CACHE")
    if chosen:
        return Path(chosen).absolute()
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or "~/AppData/Local"
    elif sys.platform == "darwin":
        base = "~/Library/Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    expanded = Path(os.path.expanduser(base))
    return expanded / "tinygrad_tf" if expanded.is_absolute() else None


def source_hash(folder: Path) -> str | None:
    """A hash of every source file in `folder`; None where the sources cannot be read."""
    digest = hashlib.sha256()
    try:
        paths = sorted(folder.rglob("*.py"))
        for path in paths:
            content = path.read_bytes()
            digest.update(f"{path.relative_to(folder).as_posix()} {len(content)}\n".encode())
            digest.update(content)
    except OSError:
        return None
    return digest.hexdigest() if paths else None


@functools.cache
def _machine() -> str:
    """Everything besides the sources that compiled code depends on."""
    versions = (sys.version, numpy.__version__, numba.__version__, llvmlite.__version__)
    settings = tuple(getattr(config, name, None) for name in _SETTINGS)
    settings += (os.environ.get("TINYGRAD_TF_VECTOR_BYTES"),)  # of _vector.py
    return repr((versions, settings, cpu_target.target_context.codegen().magic_tuple()))


_SOURCES = source_hash(SOURCE_FOLDER)  # before any kernel is read


@functools.cache
def cache_folder() -> Path | None:
    """The folder of this version of the kernels on this machine, which need not exist yet."""
    root = cache_root()
    if root is None or _SOURCES is None:
        return None
    digest = hashlib.sha256(repr((_SOURCES, _machine())).encode()).hexdigest()[:20]
    folder = root / f"kernels-{digest}"
    with contextlib.suppress(OSError):
        os.utime(folder)  # the folders used last are kept
    return folder


def fingerprint(value: Any, seen: frozenset[int] = frozenset()) -> Any:
    """What tells `value` from another of the same name, in the next process too; functions are followed into."""
    if id(value) in seen:
        return "recursion"
    if isinstance(value, dispatcher.Dispatcher):
        return fingerprint(value.py_func, seen | {id(value)})
    if isinstance(value, _Intrinsic):
        return fingerprint(value._defn, seen | {id(value)})
    if isinstance(value, types.FunctionType):
        seen |= {id(value)}
        names = {name: value.__globals__[name] for name in _names(value.__code__) if name in value.__globals__}
        outside = sorted((name, fingerprint(used, seen)) for name, used in names.items())
        inside = [fingerprint(cell.cell_contents, seen) for cell in value.__closure__ or ()]
        text = repr((_code(value.__code__), value.__defaults__, inside, outside))
        return hashlib.sha256(text.encode()).hexdigest()  # short, or nested functions would double it at each level
    if isinstance(value, (tuple, list)):
        return repr([fingerprint(item, seen) for item in value])
    if value is None or isinstance(value, (int, float, complex, str, bytes, frozenset, numpy.dtype, numba.types.Type)):
        return repr(value)
    if isinstance(value, numpy.ndarray):
        return repr((value.dtype, value.shape, value.tobytes()))
    return getattr(value, "__qualname__", None) or getattr(value, "__name__", None) or type(value).__qualname__


def _code(code: types.CodeType) -> Any:
    constants = [_code(item) if isinstance(item, types.CodeType) else repr(item) for item in code.co_consts]
    return code.co_code, code.co_names, code.co_varnames, constants


def _names(code: types.CodeType) -> set[str]:
    inner = [_names(item) for item in code.co_consts if isinstance(item, types.CodeType)]
    return set(code.co_names).union(*inner)


def compiled(function: Any, source: str = "", for_c: bool = False) -> Any:
    """The one way in which kernels are compiled; `source` is the file that they are written in.

    `for_c` asks for a second entry, with the calling convention of C.
    """
    options: dict[str, Any] = {
        "nogil": True,
        "error_model": "numpy",
        "fastmath": FAST_MATH,
        "no_cfunc_wrapper": not for_c,
    }
    result: Any = numba.njit(**options)(function)
    if not config.DISABLE_JIT:
        result._cache = KernelCache(function, source or function.__code__.co_filename)
        result.get_call_template = functools.partial(_call_template, result)
    return result


def _call_template(called: Any, args: Sequence[Any], kws: Mapping[str, Any]) -> Any:
    """How a kernel calls another: constants count as numbers, or what is called would be compiled for each of them."""
    plain = {name: numba.types.unliteral(kind) for name, kind in kws.items()}
    return type(called).get_call_template(called, tuple(map(numba.types.unliteral, args)), plain)


def _name_functions_apart() -> None:
    """Let numba number functions from a random start on.

    The numbers are what tells two functions of one name apart in the linker, and every process counts from 1. Two
    kernels that a factory made, compiled by two processes, would have the same symbols; a third process that loads both
    from disk would silently run the first one's helpers in place of the second's.
    """
    FunctionIdentity._unique_ids = itertools.count(int.from_bytes(os.urandom(6), "big"))


_name_functions_apart()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_name_functions_apart)


class KernelCache(caching._Cache):
    """The cache of one function, as numba's dispatchers ask for it; `source` is the file the function comes from."""

    def __init__(self, function: Any, source: str) -> None:
        self._function = function
        self._is_ours = Path(source).is_relative_to(SOURCE_FOLDER)
        self._enabled = True

    @property
    def cache_path(self) -> str | None:
        folder = cache_folder() if self._is_ours and self._enabled else None
        return None if folder is None else str(folder)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        path = self._path(sig)
        if path is None:
            return None
        target_context.refresh()
        try:
            content = path.read_bytes()
            digest, data = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
            if hashlib.sha256(data).digest() != digest:
                return None
            return compiler.CompileResult._rebuild(target_context, *pickle.loads(data))
        except OSError:
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        path = self._path(sig)
        if path is None or source_hash(SOURCE_FOLDER) != _SOURCES:
            return  # a source was edited since this process started, so the code may not belong into this folder
        if data.lifted or data.library.has_dynamic_globals:
            return  # it holds addresses of this process
        content = dumps(data._reduce())
        scratch = path.with_suffix(f".{os.getpid()}.tmp")
        try:
            if not path.parent.is_dir():
                path.parent.mkdir(parents=True, exist_ok=True)
                _remove_old_folders(path.parent)
            scratch.write_bytes(hashlib.sha256(content).digest() + content)
            os.replace(scratch, path)
        except OSError as error:
            with contextlib.suppress(OSError):
                scratch.unlink()
            _notice_once(f"{error.strerror or error}: {path.parent.parent}")

    def enable(self) -> None:
        self._enabled = True

    def disable(self) -> None:
        self._enabled = False

    def flush(self) -> None:
        """Nothing to throw away: entries that do not fit are never found."""

    def _path(self, sig: Any) -> Path | None:
        folder = self.cache_path
        if folder is None:
            return None
        key = hashlib.sha256(repr((sig, self._fingerprint)).encode()).hexdigest()[:20]
        return Path(folder, f"{self._function.__module__.rpartition('.')[2]}.{self._function.__name__}-{key}.bin")

    @functools.cached_property
    def _fingerprint(self) -> str:
        return hashlib.sha256(fingerprint(self._function).encode()).hexdigest()


def _remove_old_folders(newest: Path) -> None:
    folders = [folder for folder in newest.parent.iterdir() if _FOLDER_NAME.fullmatch(folder.name)]
    with contextlib.suppress(OSError):
        folders.sort(key=lambda folder: folder.stat().st_mtime, reverse=True)
    for folder in folders[FOLDERS_KEPT:]:
        if folder != newest:
            shutil.rmtree(folder, ignore_errors=True)


_notices: list[str] = []


def _notice_once(reason: str) -> None:
    """Say it through logging, which cannot turn into an exception inside a kernel as a warning can."""
    if not _notices:
        _notices.append(reason)
        logging.getLogger("tinygrad_tf").warning(
            "compiled kernels cannot be kept (%s), so every start compiles them anew; "
            "set TINYGRAD_TF_CACHE to a folder that can be written",
            reason,
        )
