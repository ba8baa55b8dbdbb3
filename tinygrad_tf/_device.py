"""device: where a tensor lives. There is one place, the CPU; other devices have names, and no more."""

from __future__ import annotations

from typing import Any

KNOWN = ("cpu", "cuda", "mps", "xpu", "meta", "hip", "xla", "mtia", "hpu", "ipu")


class device:
    """device('cpu'), device('cuda:1'), device('cuda', 1): a type and, perhaps, an index.

    Naming a device other than the CPU is no error; putting a tensor there is.

    >>> device("cpu")
    device(type='cpu')
    >>> device("cuda:1").index
    1
    >>> import tinygrad_tf as tg
    >>> tg.ones(2).to("cuda")
    Traceback (most recent call last):
    tinygrad_tf._device.NoDevice: tinygrad_tf runs on the CPU alone: device must be 'cpu', got 'cuda'
    """

    __slots__ = ("index", "type")

    def __init__(self, type: Any = "cpu", index: int | None = None):
        kind, _, number = str(type).partition(":")
        if kind not in KNOWN or (number and (index is not None or not number.isdigit())):
            raise RuntimeError(f"device must be one of {', '.join(KNOWN)}, as in 'cpu' or 'cuda:0', got {type!r}")
        self.type: str = kind
        self.index: int | None = int(number) if number else index

    def __repr__(self) -> str:
        return f"device(type={self.type!r}" + (")" if self.index is None else f", index={self.index})")

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            return str(self) == other
        return isinstance(other, device) and (self.type, self.index) == (other.type, other.index)

    def __hash__(self) -> int:
        return hash(str(self))

    def __reduce__(self) -> Any:
        return device, (self.type, self.index)

    def __enter__(self) -> device:
        return checked(self)

    def __exit__(self, *_: Any) -> None:
        pass


CPU = device()


class NoDevice(AssertionError, RuntimeError):
    """There is the CPU alone: for CUDA PyTorch raises an AssertionError then, for others a RuntimeError."""


def checked(wanted: Any) -> device:
    """The device that an argument `device=` means: None and every spelling of the CPU, or NoDevice."""
    if wanted is None or wanted is CPU:
        return CPU
    named = wanted if isinstance(wanted, device) else device(wanted)
    if named.type != "cpu" or named.index not in (None, 0):
        raise NoDevice(f"tinygrad_tf runs on the CPU alone: device must be 'cpu', got {str(wanted)!r}")
    return CPU
