"""Mixed precision as PyTorch has it: autocast, and a GradScaler for code that brings one."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

from tinygrad_tf.dtypes import array_dtype, bfloat16, float16
from tinygrad_tf.ops._precision import state
from tinygrad_tf.optim import Optimizer
from tinygrad_tf.tensor import Tensor


class autocast:
    """Inside, linear layers, matrix products and attention round their operands and results to dtype (bfloat16).

    `with autocast("cpu"):` or `@autocast("cpu")`. No processor's 16-bit arithmetic is used: products of the rounded
    operands are summed up in float32, so values are those of hardware that has it, and nothing gets faster. Another
    device_type than the CPU is switched off with a warning, as in PyTorch on a machine without that device.

    >>> import tinygrad_tf as tg
    >>> with autocast("cpu"):
    ...     (tg.ones(2, 2) @ tg.ones(2, 2)).dtype
    torch.bfloat16
    """

    def __init__(self, device_type: str = "cpu", dtype: Any = None, enabled: bool = True, cache_enabled: Any = None):
        if enabled and device_type != "cpu":
            warnings.warn(f"autocast: there is no device {device_type!r} here, so it is switched off", stacklevel=2)
            enabled = False
        self.dtype = bfloat16 if dtype is None else dtype
        if enabled and array_dtype(self.dtype) not in (bfloat16.dtype, float16.dtype):
            raise RuntimeError(f"autocast: dtype must be bfloat16 or float16, got {dtype}")
        self.enabled = enabled
        self.before: list[Any] = []

    def __enter__(self) -> autocast:
        self.before.append(state.dtype)
        state.dtype = self.dtype if self.enabled else None
        return self

    def __exit__(self, *_: Any) -> None:
        state.dtype = self.before.pop()

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with autocast("cpu", self.dtype, self.enabled):
                return function(*args, **kwargs)

        return wrapped


def is_autocast_enabled(device_type: str = "cpu") -> bool:
    """Whether autocast is on in this thread."""
    return state.dtype is not None


class GradScaler:
    """PyTorch's guard against gradients that vanish in float16 on a GPU. Here losses are float32: its scale is 1."""

    def __init__(self, device: str = "cuda", *settings: Any, enabled: bool = True, **more: Any):
        self.enabled = False

    def scale(self, outputs: Any) -> Any:
        return outputs

    def unscale_(self, optimizer: Optimizer) -> None:
        pass

    def step(self, optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:
        return optimizer.step(*args, **kwargs)

    def update(self, new_scale: float | Tensor | None = None) -> None:
        pass

    def get_scale(self) -> float:
        return 1.0

    def is_enabled(self) -> bool:
        return self.enabled

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        pass
