"""autocast: 16-bit operands where they do no harm; what asks about it, and Functions of one's own under it."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

from tinygrad_tf.dtypes import array_dtype, as_dtype, bfloat16, float16, float64
from tinygrad_tf.ops._precision import state
from tinygrad_tf.tensor import Tensor


class autocast:
    """Inside, linear layers, matrix products and attention work on operands cast to dtype (bfloat16), and give it.

    `with autocast("cpu"):` or `@autocast("cpu")`. Losses are taken in float32; other operations work in the dtype that
    they are given. What is kept for the gradients is 16-bit, too, so that activations take about half of the memory.
    Products of the rounded operands are summed in float32. On processors with matrix tiles those of bfloat16 are faster
    than those of float32; elsewhere nothing is, but the memory is saved. For another device_type than the CPU it does
    nothing, with a warning where it should be on, as in PyTorch on a machine without that device.

    cache_enabled: cast each weight once for the whole block. Leave the block before `backward`.

    >>> import tinygrad_tf as tg
    >>> with autocast("cpu"):
    ...     (tg.ones(2, 2) @ tg.ones(2, 2)).dtype
    torch.bfloat16
    """

    def __init__(self, device_type: str = "cpu", dtype: Any = None, enabled: bool = True, cache_enabled: Any = None):
        if enabled and device_type != "cpu":
            warnings.warn(f"autocast: there is no device {device_type!r} here, so it is switched off", stacklevel=2)
            enabled = False
        self.device = device_type
        self.dtype = bfloat16 if dtype is None else dtype
        if enabled and array_dtype(self.dtype) not in (bfloat16.dtype, float16.dtype):
            raise RuntimeError(f"autocast: dtype must be bfloat16 or float16, got {dtype}")
        self.enabled = enabled
        self.cache_enabled = True if cache_enabled is None else bool(cache_enabled)
        self.before: list[Any] = []

    def __enter__(self) -> autocast:
        self.before.append((state.dtype, state.cache))
        if self.device == "cpu":
            state.dtype, state.cache = array_dtype(self.dtype) if self.enabled else None, self.cache_enabled
        state.depth += 1
        return self

    def __exit__(self, *_: Any) -> None:
        state.dtype, state.cache = self.before.pop()
        state.depth -= 1
        if not state.depth:
            state.forget()

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with autocast(self.device, self.dtype, self.enabled, self.cache_enabled):
                return function(*args, **kwargs)

        return wrapped


def is_autocast_enabled(device_type: str = "cpu") -> bool:
    """Whether autocast is on in this thread; for another device than the CPU it never is."""
    return device_type == "cpu" and state.dtype is not None


def get_autocast_dtype(device_type: str = "cpu") -> Any:
    """The dtype that autocast uses in this thread, bfloat16 where it is off; float16 for another device.

    >>> get_autocast_dtype("cpu")
    torch.bfloat16
    """
    if device_type != "cpu":
        return float16
    return bfloat16 if state.dtype is None else as_dtype(state.dtype)


def is_autocast_available(device_type: str) -> bool:
    """Whether autocast can be on for that device: for the CPU alone."""
    return device_type == "cpu"


def custom_fwd(fwd: Any = None, *, device_type: str, cast_inputs: Any = None) -> Any:
    """Decorates the `forward` of an autograd.Function that is to run under autocast.

    cast_inputs: a dtype to which float tensors are cast where autocast is on; forward then runs with it switched off.
    Without it forward runs as autocast has it. Outside of autocast, and for another device, nothing is changed.

    >>> import tinygrad_tf as tg
    >>> class Exact(tg.autograd.Function):
    ...     @staticmethod
    ...     @custom_fwd(device_type="cpu", cast_inputs=tg.float32)
    ...     def forward(ctx, x):
    ...         return x @ x
    >>> with autocast("cpu"):
    ...     Exact.apply(tg.ones(2, 2)).dtype
    torch.float32
    """
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def forward(context: Any, *args: Any, **kwargs: Any) -> Any:
        enabled = is_autocast_enabled(device_type)
        context._dtype, context._fwd_used_autocast = get_autocast_dtype(device_type), enabled and cast_inputs is None
        if not enabled or cast_inputs is None:
            return fwd(context, *args, **kwargs)
        with autocast(device_type, enabled=False):
            return fwd(context, *_cast(args, cast_inputs), **_cast(kwargs, cast_inputs))

    return forward


def custom_bwd(bwd: Any = None, *, device_type: str) -> Any:
    """Decorates the `backward` beside a `custom_fwd`: it runs under autocast if, and as, forward did."""
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def backward(context: Any, *args: Any, **kwargs: Any) -> Any:
        with autocast(device_type, dtype=context._dtype, enabled=context._fwd_used_autocast):
            return bwd(context, *args, **kwargs)

    return backward


def _cast(value: Any, dtype: Any) -> Any:
    """Tensors of 16- and 32-bit floats in that dtype, in lists, tuples and dictionaries, too; all else as it is."""
    if isinstance(value, Tensor):
        return value.to(dtype) if value.is_floating_point() and value.dtype != float64 else value
    if isinstance(value, (list, tuple)):
        return type(value)(_cast(part, dtype) for part in value)
    if isinstance(value, dict):
        return {name: _cast(part, dtype) for name, part in value.items()}
    return value
