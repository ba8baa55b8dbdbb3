"""Which class of Node operations record: modes that need one of their own cost nothing while they are off."""

from __future__ import annotations

import threading
from typing import Any

from tinygrad_tf import engine, operation

PlainNode = engine.Node
_on: list[type[engine.Node]] = []
_lock = threading.Lock()


def record_with(kind: type[engine.Node], on: bool) -> bool:
    """Have all operations, of all threads, record Nodes of this kind, too, or no longer; whether they did before.

    A kind derives from PlainNode and adds no slots, so that several can be on at once.
    """
    with _lock:
        before = kind in _on
        if on != before:
            _on.append(kind) if on else _on.remove(kind)
            node: Any = type(PlainNode.__name__, tuple(_on), {"__slots__": ()}) if _on else PlainNode
            operation.Node = engine.Node = node  # type: ignore[misc, attr-defined]
        return before
