"""Anomaly mode: the first NaN in a backward pass is an error that names the operation and where it was called."""

from __future__ import annotations

import os
import traceback
from collections.abc import Sequence
from typing import Any

import numpy as np

from tinygrad_tf import engine
from tinygrad_tf.autograd._recording import PlainNode, record_with
from tinygrad_tf.operation import Edges

PACKAGE = os.path.dirname(engine.__file__) + os.sep


class _TracedNode(PlainNode):
    """A Node that remembers where the operation was called, and looks at the gradients that its rule gives."""

    __slots__ = ()

    def __init__(self, operation: Any, *rest: Any):
        watched = None if operation is None else _Watched(operation, _place())
        super().__init__(watched, *rest)


class _Watched:
    """Stands for an operation in the walk."""

    def __init__(self, operation: Any, place: str):
        self.operation, self.place = operation, place

    def __getattr__(self, name: str) -> Any:
        return getattr(self.operation, name)

    def pull(self, node: Any, edges: Edges, g: Any, create_graph: bool, own: bool = False) -> Sequence[Any]:
        from_above = _has_nan(g)  # the operation there was reported, or anomaly mode was off then
        parts = self.operation.pull(node, edges, g, create_graph, own)
        if from_above:
            return parts
        for i, part in enumerate(parts):
            if edges[i] is not None and _has_nan(part):
                raise RuntimeError(
                    f"backward of {self.name} gave NaN in the gradient of its input {i}; "
                    f"it was called here:\n{self.place}"
                )
        return parts


def _place() -> str:
    """The user's own lines of the stack: those outside of this package."""
    frames = [f for f in traceback.extract_stack() if not f.filename.startswith(PACKAGE)]
    return "".join(traceback.format_list(frames[-3:])).rstrip()


def _has_nan(part: Any) -> bool:
    array = getattr(part, "array", getattr(part, "value", part))
    if not isinstance(array, np.ndarray):
        return False
    if array.dtype == object:
        return any(_has_nan(a) for a in array)
    return array.dtype.kind in "fV" and bool(np.isnan(array.astype(np.float64)).any())


class set_detect_anomaly:
    """Switch anomaly mode on or off: at once, and back at the end of a `with` block. For all threads; it costs time.

    >>> import tinygrad_tf as tg
    >>> x = tg.zeros(1, requires_grad=True)
    >>> with set_detect_anomaly(True):
    ...     y = (x.sqrt() * 0).sum()
    ...     try:
    ...         y.backward()
    ...     except RuntimeError as error:
    ...         print(str(error).split(";")[0])
    backward of sqrt gave NaN in the gradient of its input 0
    """

    def __init__(self, mode: bool, check_nan: bool = True):
        self.before = record_with(_TracedNode, mode and check_nan)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: Any) -> None:
        record_with(_TracedNode, self.before)


class detect_anomaly(set_detect_anomaly):
    """`with detect_anomaly():` around forward and backward; see set_detect_anomaly."""

    def __init__(self, check_nan: bool = True):
        self.check_nan = check_nan

    def __enter__(self) -> None:
        super().__init__(True, self.check_nan)
