"""device: where a tensor lives. There is one place, the CPU."""

from __future__ import annotations

from typing import Any


class device:
    """The CPU. `device("cpu")` is all there is; any other name is a RuntimeError.

    >>> device("cpu")
    device(type='cpu')
    >>> device("cpu") == "cpu"
    True
    >>> device("cuda")
    Traceback (most recent call last):
    RuntimeError: tinygrad_tf runs on the CPU alone: device must be 'cpu', got 'cuda'
    """

    __slots__ = ()
    type = "cpu"
    index = None

    def __init__(self, type: Any = "cpu", index: int | None = None):
        if str(type) not in ("cpu", "cpu:0") or index not in (None, 0):
            wanted = str(type) if index is None else f"{type}:{index}"
            raise RuntimeError(f"tinygrad_tf runs on the CPU alone: device must be 'cpu', got {wanted!r}")

    def __repr__(self) -> str:
        return "device(type='cpu')"

    def __str__(self) -> str:
        return "cpu"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, device) or other == "cpu"

    def __hash__(self) -> int:
        return hash("cpu")

    def __enter__(self) -> device:
        return self

    def __exit__(self, *_: Any) -> None:
        pass


CPU = device()


def checked(wanted: Any) -> device:
    """The device that an argument `device=` means: None and every spelling of the CPU, or a RuntimeError."""
    return CPU if wanted is None or wanted is CPU else device(wanted)
