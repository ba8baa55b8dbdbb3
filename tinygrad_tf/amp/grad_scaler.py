"""GradScaler: losses multiplied, so that small gradients survive float16."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from tinygrad_tf._quiet import quiet
from tinygrad_tf.optim import Optimizer
from tinygrad_tf.tensor import Tensor

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
                with quiet():
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
