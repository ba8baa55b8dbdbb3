"""Padding as modules."""

from __future__ import annotations

from typing import Any

from tinygrad_tf.nn import functional as F
from tinygrad_tf.nn.module import Module
from tinygrad_tf.tensor import Tensor


class _Padding(Module):
    """Entries at the ends of the last axes: the same number everywhere, or (left, right, top, bottom)."""

    axes = 1
    mode = "constant"
    value: float | None = None

    def __init__(self, padding: Any):
        super().__init__()
        count = 2 * self.axes
        self.padding = (padding,) * count if isinstance(padding, int) else tuple(padding)
        if len(self.padding) != count:
            raise ValueError(f"{type(self).__name__}: padding must be an integer or {count} of them, got {padding!r}")

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, self.mode, self.value)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPadding(_Padding):
    def __init__(self, padding: Any, value: float):
        super().__init__(padding)
        self.value = value

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPadding):
    """Adds `value` at both ends of the last axis."""


class ConstantPad2d(_ConstantPadding):
    """Adds `value` around images."""

    axes = 2


class ZeroPad1d(ConstantPad1d):
    """Adds zeros at both ends of the last axis."""

    def __init__(self, padding: Any):
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ZeroPad2d(ConstantPad2d):
    """Adds zeros around images."""

    def __init__(self, padding: Any):
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ReflectionPad1d(_Padding):
    """Adds the mirror image, without the outermost entry."""

    mode = "reflect"


class ReflectionPad2d(_Padding):
    """Adds mirror images around images."""

    axes = 2
    mode = "reflect"


class ReplicationPad1d(_Padding):
    """Repeats the outermost entries."""

    mode = "replicate"


class ReplicationPad2d(_Padding):
    """Repeats the outermost pixels."""

    axes = 2
    mode = "replicate"


class CircularPad1d(_Padding):
    """Continues at the other end."""

    mode = "circular"


class CircularPad2d(_Padding):
    """Continues on the other side."""

    axes = 2
    mode = "circular"
