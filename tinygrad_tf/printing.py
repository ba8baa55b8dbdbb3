"""How tensors print: in PyTorch's form, so that the output of a notebook reads the same.

    tensor([[1.0000, 2.5000],
            [3.0000, 4.0000]], dtype=torch.float64, grad_fn=<MulBackward0>)

All elements get the same width. Floating point numbers are printed as whole numbers with a point if all of them are
whole, with four digits otherwise, and in scientific notation if they differ too much in size. Of a large tensor only
the edges are shown.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tinygrad_tf.ops._types import category, default_float


@dataclass(frozen=True)
class PrintOptions:
    precision: int = 4
    threshold: float = 1000  # elements, above which only the edges are shown
    edgeitems: int = 3  # elements at each end of an axis that is shortened
    linewidth: int = 80
    sci_mode: bool | None = None  # None: as the numbers need


PROFILES = {
    "default": PrintOptions(),
    "short": PrintOptions(precision=2, edgeitems=2),
    "full": PrintOptions(threshold=math.inf),
}
options = PROFILES["default"]


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Choose how tensors print: digits, when to shorten and to how much, line length, scientific notation or not.

    profile: 'default', 'short' or 'full' sets all of them first. sci_mode=None lets the numbers decide again.
    """
    global options
    if profile is not None and profile not in PROFILES:
        raise ValueError(f"set_printoptions: profile must be one of {', '.join(PROFILES)}, got {profile!r}")
    chosen = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    given: dict[str, Any] = {name: value for name, value in chosen.items() if value is not None}
    options = replace(PROFILES[profile] if profile else options, sci_mode=sci_mode, **given)


def tensor_repr(t: Any) -> str:
    array: np.ndarray = t.array
    prefix = "tensor("
    text = _array_text(array, len(prefix))
    notes = []
    if not array.size and array.ndim != 1:
        notes.append(f"size={tuple(array.shape)}")
    if array.dtype != default_float() and (not array.size or array.dtype not in (np.int64, np.bool_)):
        notes.append(f"dtype=torch.{array.dtype.name}")
    node = t.grad_fn
    if node is not None:
        notes.append(f"grad_fn=<{node.name().rpartition('::')[2]}>")
    elif t.requires_grad:
        notes.append("requires_grad=True")
    return _with_notes(prefix + text, notes, len(prefix))


def _with_notes(text: str, notes: list[str], indent: int) -> str:
    """The notes behind the text, on a new line where the last one would become too long."""
    used = len(text) - text.rfind("\n") + 1  # PyTorch keeps two places free
    for note in notes:
        if used + len(note) + 2 > options.linewidth:
            text += ",\n" + " " * indent + note
            used = indent + len(note)
        else:
            text += ", " + note
            used += len(note) + 2
    return text + ")"


def tensor_format(t: Any, spec: str) -> str:
    """A format such as :.4f applies to the number of a 0-d tensor."""
    if t.array.ndim == 0:
        return format(t.array.item(), spec)
    if spec:
        raise TypeError(
            f"format {spec!r} is for one number, got a tensor of shape {t.array.shape}; see also set_printoptions"
        )
    return repr(t)


# --- numbers ----------------------------------------------------------------------------------------------------------


Writer = tuple[Callable[[Any], str], int]  # writes one element; the width of the widest


def _writer(array: np.ndarray) -> Writer:
    """How to write one element of `array`, padded to the width of the widest (NaN and infinities may stand out)."""
    if category(array.dtype) < 2:
        width = max((len(str(x)) for x in array.ravel().tolist()), default=0)
        return lambda x: str(x).rjust(width), width
    wide = array.astype(np.float64)
    numbers = wide[np.isfinite(wide) & (wide != 0)]
    whole = bool((numbers == np.ceil(numbers)).all())
    write = _number_writer(np.abs(numbers), whole)
    width = max((len(write(x)) for x in numbers.tolist()), default=1)
    return lambda x: write(x).rjust(width), width


def _number_writer(sizes: np.ndarray, whole: bool) -> Callable[[float], str]:
    """How to write numbers of the given absolute values, all of them whole or not."""
    digits = options.precision
    scientific = options.sci_mode if sizes.size else False
    if scientific is None:
        smallest, largest = float(sizes.min()), float(sizes.max())
        scientific = largest / smallest > 1000 or largest > 1e8 or (not whole and smallest < 1e-4)
    if scientific:
        return lambda x: f"{x:.{digits}e}"
    if whole:
        return lambda x: f"{x:.0f}." if math.isfinite(x) else f"{x:.0f}"
    return lambda x: f"{x:.{digits}f}"


# --- brackets ---------------------------------------------------------------------------------------------------------


def _array_text(array: np.ndarray, indent: int) -> str:
    if not array.size:
        return "[]"
    if category(array.dtype) == 2 and array.dtype.itemsize == 2:
        array = array.astype(np.float32)
    shorten = array.size > options.threshold
    writer = _writer(_edges(array) if shorten else array)
    if not array.ndim:
        return writer[0](array.item())
    return _bracketed(array, indent, writer, shorten)


def _ends(n: int) -> tuple[list[int], list[int]]:
    """The first and the last indices of a shortened axis of size n; no last ones if it is short enough."""
    edge = options.edgeitems
    return (list(range(edge)), list(range(n - edge, n))) if n > 2 * edge else (list(range(n)), [])


def _edges(array: np.ndarray) -> np.ndarray:
    """The elements that are shown of a large tensor."""
    for dim, n in enumerate(array.shape):
        first, last = _ends(n)
        array = np.take(array, first + last, axis=dim)
    return array


def _bracketed(array: np.ndarray, indent: int, writer: Writer, shorten: bool) -> str:
    first, last = _ends(len(array)) if shorten else (list(range(len(array))), [])
    if array.ndim == 1:
        write, width = writer
        words = [write(x) for x in array[first].tolist()]
        if last:
            words += [" ...", *(write(x) for x in array[last].tolist())]
        on_a_line = max(1, (options.linewidth - indent) // (max(1, width) + 2))
        lines = [", ".join(words[i : i + on_a_line]) for i in range(0, len(words), on_a_line)]
        return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"
    parts = [_bracketed(array[i], indent + 1, writer, shorten) for i in first]
    if last:
        parts += ["...", *(_bracketed(array[i], indent + 1, writer, shorten) for i in last)]
    return "[" + ("," + "\n" * (array.ndim - 1) + " " * (indent + 1)).join(parts) + "]"
