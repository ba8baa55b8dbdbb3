"""How many bits products of float32 keep on matrix tiles: a setting, read at each product.

highest   three pieces of bfloat16 stand for a number, six products of pieces for a product: float32's 24 bits
high      two and three: about 16 bits
medium    one and one: bfloat16's 8 bits; also where pairs of bfloat16 are multiplied (`_pairs.py`)

It is the process's. A thread may have another one for a while, so that loops in several threads do not undo each
other's.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

PIECES = {"highest": 3, "high": 2, "medium": 1}


class _Here(threading.local):
    pieces: int | None = None  # of this thread, where they are not the process's


_of_process, _here = PIECES["highest"], _Here()


def pieces() -> int:
    """How many bfloat16 stand for a number in the products of this thread."""
    here = _here.pieces
    return _of_process if here is None else here


def choose(name: str) -> None:
    global _of_process
    _of_process = PIECES[name]


def chosen() -> str:
    return next(name for name, count in PIECES.items() if count == pieces())


@contextmanager
def in_this_thread(name: str | None) -> Iterator[None]:
    """Inside, this thread's products are of that precision; None: as they are."""
    before = _here.pieces
    _here.pieces = before if name is None else PIECES[name]
    try:
        yield
    finally:
        _here.pieces = before
