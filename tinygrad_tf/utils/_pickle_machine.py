"""The little stack machine that a pickle is a program for, run on inert values: no name is ever imported or called.

What a name may make is in tables that the machine is given; a name in none of them is a ForeignName.
"""

from __future__ import annotations

import io
import pickletools
from argparse import Namespace
from collections import OrderedDict
from collections.abc import Callable, Mapping, Set
from typing import Any, NamedTuple

import numpy as np


class Name(NamedTuple):
    """What a file calls by module and name. It is text, and stays that."""

    module: str
    name: str


class ForeignName(Exception):
    """A name that is not in the table."""


def as_bytes(text: str | bytes = "", encoding: str = "latin1") -> bytes:
    """_codecs.encode, by which protocol 2 writes bytes."""
    if encoding not in ("latin1", "latin-1"):
        raise ValueError(f"bytes in {encoding!r}")
    return text.encode("latin1") if isinstance(text, str) else bytes(memoryview(text))


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


class Machine:
    """Runs the program of a pickle on inert values; a method for each instruction (pickletools describes them).

    calls: what a name makes when it is called; values: what it stands for; inert: names that are only handed on.
    stored: gives the storage that the words behind "storage" in a persistent id stand for.
    """

    def __init__(
        self,
        calls: Mapping[Name, Callable[..., Any]],
        values: Mapping[Name, Any],
        inert: Set[Name],
        stored: Callable[..., np.ndarray] | None = None,
    ):
        self.calls, self.values, self.inert, self.stored = calls, values, inert, stored
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
        if name not in self.values and name not in self.calls and name not in self.inert:
            raise ForeignName(f"a {name.module}.{name.name}")
        self.stack.append(self.values.get(name, name))

    def STACK_GLOBAL(self, _: Any) -> None:
        name = self.stack.pop()
        self.GLOBAL(f"{self.stack.pop()} {name}")

    def REDUCE(self, _: Any) -> None:
        arguments, name = self.stack.pop(), self.stack.pop()
        if not isinstance(name, Name) or name not in self.calls or not isinstance(arguments, tuple):
            raise ForeignName("a call of what is no name")
        self.stack.append(self.calls[name](*arguments))

    NEWOBJ = REDUCE

    def BUILD(self, _: Any) -> None:
        """Give an object what it holds besides."""
        state, value = self.stack.pop(), self.stack[-1]
        if isinstance(value, Namespace):
            vars(value).update(state)
        elif isinstance(value, np.ndarray):
            _version, shape, dtype, by_columns, content = state
            value.__setstate__((1, shape, np.dtype(dtype), bool(by_columns), as_bytes(content)))  # type: ignore[arg-type]
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
