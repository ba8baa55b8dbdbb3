"""Mixed precision as PyTorch has it: autocast, and GradScaler for gradients that would vanish in float16.

With autocast, matrix products and attention take and give 16-bit numbers; weights, sums of residual branches, norms of
them and losses stay in float32 (Micikevicius et al., 2018, section 3.1). bfloat16 has float32's range and 8 bits of
precision; float16 has 11 bits, but nothing beyond 65,504 or below 6e-8: hence the scaling of losses (section 3.2).

    scaler = GradScaler("cpu")
    with autocast("cpu", dtype=float16):
        loss = model(inputs)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)                              only if gradients are clipped or looked at
    clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)                                  leaves the step out if a gradient is not finite
    scaler.update()
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from tinygrad_tf.dtypes import array_dtype, as_dtype, bfloat16, float16, float64
from tinygrad_tf.kernels import precision as precision_of_products
from tinygrad_tf.ops._precision import state
from tinygrad_tf.optim import Optimizer
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


def set_float32_matmul_precision(precision: str) -> None:
    """How exact products of float32 matrices, and attention, are on processors with matrix tiles; 'highest' at first.

    'highest' is float32, 24 bits. 'high' takes each number as a sum of two bfloat16, about 16 bits, and is 1.4 times as
    fast; 'medium' as one bfloat16, 8 bits. Sums are float32. It holds for the whole process; elsewhere (small products,
    float64, processors without tiles) products stay as exact as they are.

    >>> set_float32_matmul_precision("high")
    >>> get_float32_matmul_precision()
    'high'
    >>> set_float32_matmul_precision("highest")
    """
    if precision not in precision_of_products.PIECES:
        names = ", ".join(map(repr, precision_of_products.PIECES))
        raise ValueError(f"set_float32_matmul_precision: precision must be one of {names}; got {precision!r}")
    precision_of_products.choose(precision)


def get_float32_matmul_precision() -> str:
    """What `set_float32_matmul_precision` was given last, or what a training loop has asked for in this thread."""
    return precision_of_products.chosen()


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


READY, UNSCALED, STEPPED = "ready", "unscaled", "stepped"  # what has happened to an optimiser since the last update


class GradScaler:
    """Multiplies the loss so that small gradients survive float16, and divides the gradients again before the step.

    The scale starts high. A gradient that is inf or NaN shows that it was too high: that step is left out, and the
    scale is multiplied by backoff_factor; after growth_interval steps without one it is multiplied by growth_factor
    (Micikevicius et al., 2018, section 3.2). bfloat16 needs none of this.

    device: "cpu" here; for another one, as PyTorch's default "cuda", it switches itself off with a warning.

    >>> import tinygrad_tf as tg
    >>> from tinygrad_tf import nn, optim
    >>> p = nn.Parameter(tg.ones(1))
    >>> optimizer, scaler = optim.SGD([p], lr=0.1), GradScaler("cpu", init_scale=4.0)
    >>> scaler.scale((p * 2.0).sum()).backward()
    >>> p.grad
    tensor([8.])
    >>> _ = scaler.step(optimizer)
    >>> scaler.update()
    >>> p.data, scaler.get_scale()
    (tensor([0.8000]), 4.0)
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ):
        if enabled and str(device) != "cpu":
            warnings.warn(
                f"GradScaler: there is no device {device!r} here, so it is switched off; GradScaler('cpu') is on",
                stacklevel=2,
            )
            enabled = False
        self._enabled, self._device = enabled, device
        if enabled:
            if not init_scale > 0.0:
                raise ValueError(f"GradScaler: init_scale must be above 0, got {init_scale}")
            if not growth_factor > 1.0:
                raise ValueError(f"GradScaler: growth_factor must be above 1, got {growth_factor}")
            if not 0.0 < backoff_factor < 1.0:
                raise ValueError(f"GradScaler: backoff_factor must be between 0 and 1, got {backoff_factor}")
            if growth_interval < 1:
                raise ValueError(f"GradScaler: growth_interval must be at least 1, got {growth_interval}")
        self._scale, self._growth_tracker = float(np.float32(init_scale)), 0
        self._growth_factor, self._backoff_factor = float(growth_factor), float(backoff_factor)
        self._growth_interval = int(growth_interval)
        self._scaled = False  # whether scale() was ever called
        self._stages: dict[int, str] = {}  # by id of the optimiser
        self._found: dict[int, bool] = {}  # whether it had a gradient that is not finite

    def scale(self, outputs: Any) -> Any:
        """The loss, or each of several in lists and tuples, times the scale."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            self._scaled = True
            return outputs * self._scale
        if isinstance(outputs, (list, tuple)):
            return type(outputs)(self.scale(part) for part in outputs)
        raise ValueError(f"GradScaler: outputs must be a tensor or a list of tensors, got {type(outputs).__name__}")

    def unscale_(self, optimizer: Optimizer) -> None:
        """Divide the gradients of an optimiser by the scale, and look for those that are not finite. Once a step."""
        if not self._enabled:
            return
        if not self._scaled:  # dividing would make the gradients vanish
            raise RuntimeError(
                "GradScaler: the loss was never scaled; call scaler.scale(loss).backward() before the step"
            )
        stage = self._stages.get(id(optimizer), READY)
        if stage is not READY:
            done = "was already called" if stage is UNSCALED else "comes after step()"
            raise RuntimeError(f"GradScaler: unscale_() {done} for this optimizer since the last update()")
        found = False
        for group in optimizer.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                g = p.grad.array
                if g.dtype == np.float16:
                    raise ValueError("GradScaler: a gradient is float16, divided it would vanish; keep weights float32")
                with np.errstate(all="ignore"):
                    np.multiply(g, g.dtype.type(1.0 / self._scale), out=g)
                    found = found or not bool(np.isfinite(g.sum(dtype=np.float64)))
                p.grad.storage.written()
        self._stages[id(optimizer)], self._found[id(optimizer)] = UNSCALED, found

    def step(self, optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:
        """`optimizer.step()`, unless a gradient is not finite: then nothing is changed, and None comes back."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs or args:
            raise RuntimeError("GradScaler: step() takes no closure: gradients must be unscaled before the step")
        stage = self._stages.get(id(optimizer), READY)
        if stage is STEPPED:
            raise RuntimeError("GradScaler: step() was already called for this optimizer since the last update()")
        if stage is READY:
            self.unscale_(optimizer)
        self._stages[id(optimizer)] = STEPPED
        return None if self._found[id(optimizer)] else optimizer.step(**kwargs)

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """After the step: lower the scale, or raise it when it is time, or set it to new_scale."""
        if not self._enabled:
            return
        if new_scale is not None:
            self._scale = float(np.float32(float(new_scale)))
        elif not self._found:
            raise RuntimeError("GradScaler: update() needs a step() or unscale_() before it")
        elif any(self._found.values()):
            self._scale, self._growth_tracker = float(np.float32(self._scale * self._backoff_factor)), 0
        else:
            self._growth_tracker += 1
            if self._growth_tracker == self._growth_interval:
                larger = np.float32(min(self._scale * self._growth_factor, 3.5e38))
                self._scale = float(larger) if np.isfinite(larger) else self._scale
                self._growth_tracker = 0
        self._stages, self._found = {}, {}

    def get_scale(self) -> float:
        """The scale; 1 when it is switched off."""
        return self._scale if self._enabled else 1.0

    def is_enabled(self) -> bool:
        return self._enabled

    def get_growth_factor(self) -> float:
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        self._growth_factor = float(new_factor)

    def get_backoff_factor(self) -> float:
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        self._backoff_factor = float(new_factor)

    def get_growth_interval(self) -> int:
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        self._growth_interval = int(new_interval)

    def state_dict(self) -> dict[str, Any]:
        """Everything that `load_state_dict` needs to go on; empty when it is switched off."""
        if not self._enabled:
            return {}
        return {
            "scale": self._scale,
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._growth_tracker,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError("GradScaler: the loaded state is empty: it was saved by one that is switched off")
        self._scale = float(state_dict["scale"])
        self._growth_factor, self._backoff_factor = state_dict["growth_factor"], state_dict["backoff_factor"]
        self._growth_interval, self._growth_tracker = state_dict["growth_interval"], state_dict["_growth_tracker"]
