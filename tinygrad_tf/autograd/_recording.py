"""Which classes of Node and Storage operations make: modes that need their own cost nothing while they are off."""

from __future__ import annotations

import threading
from typing import Any

from tinygrad_tf import engine, graph, operation

PlainNode = engine.Node
PlainStorage = graph.Storage
_on: list[type[engine.Node]] = []
_inferring = 0  # inference modes that are on, in all threads
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


class _StorageNow(PlainStorage):
    """Makes the kind of Storage that belongs to the mode of its thread."""

    def __new__(cls) -> Any:
        return object.__new__(graph.OfInference if engine.mode.inference else PlainStorage)


def mark_storages(on: bool) -> None:
    """One more inference mode is on, or one fewer: what is made in it is marked."""
    global _inferring
    with _lock:
        _inferring += 1 if on else -1
        graph.Storage = _StorageNow if _inferring else PlainStorage  # type: ignore[misc]
