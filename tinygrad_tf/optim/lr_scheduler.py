"""Learning rate schedules. A scheduler sets the rate of the first step when it is made, and the next one at each `step`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tinygrad_tf.optim.optimizer import Optimizer


class LRScheduler:
    """Base class: `rate(base)` gives the learning rate at self.last_epoch for a group that began with rate `base`."""

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1):
        self.optimizer = optimizer
        for group in optimizer.param_groups:
            group.setdefault("initial_lr", group["lr"])
        self.base_lrs = [group["initial_lr"] for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self.step()

    def get_lr(self) -> list[float]:
        """The rates of all groups at self.last_epoch."""
        raise NotImplementedError(f"{type(self).__name__} must define get_lr")

    def step(self, epoch: int | None = None) -> None:
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        for group, lr in zip(self.optimizer.param_groups, self.get_lr(), strict=True):
            group["lr"] = lr

    def get_last_lr(self) -> list[float]:
        return [group["lr"] for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k != "optimizer" and not callable(v)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue where the saved scheduler stood, including the rates in the optimiser."""
        self.__dict__.update(state_dict)
        for group, lr in zip(self.optimizer.param_groups, self.get_lr(), strict=True):
            group["lr"] = lr


class LambdaLR(LRScheduler):
    """base rate * function(step), one function for all groups or one each."""

    def __init__(self, optimizer: Optimizer, lr_lambda: Callable[[int], float] | Sequence[Callable[[int], float]], last_epoch: int = -1):
        groups = len(optimizer.param_groups)
        self.lr_lambdas = [lr_lambda] * groups if callable(lr_lambda) else list(lr_lambda)
        if len(self.lr_lambdas) != groups:
            raise ValueError(f"LambdaLR: needs one function, or {groups} for the parameter groups, got {len(self.lr_lambdas)}")
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        return [base * f(self.last_epoch) for base, f in zip(self.base_lrs, self.lr_lambdas, strict=True)]

    def state_dict(self) -> dict[str, Any]:
        return {k: v for k, v in super().state_dict().items() if k != "lr_lambdas"}


class StepLR(LRScheduler):
    """Multiply the rate by gamma every step_size steps."""

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1):
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        return [base * self.gamma ** (self.last_epoch // self.step_size) for base in self.base_lrs]


class CosineAnnealingLR(LRScheduler):
    """From the base rate to eta_min along half a cosine of T_max steps (Loshchilov and Hutter, 2017, equation 5)."""

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1):
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        share = 0.5 * (1.0 + math.cos(math.pi * self.last_epoch / self.T_max))
        return [self.eta_min + (base - self.eta_min) * share for base in self.base_lrs]


def warmup_cosine(step: int, *, peak: float, floor: float, warmup: int, total: int) -> float:
    """The rate of step 0, 1, 2 ...: linear up to `peak` over `warmup` steps, then half a cosine down to `floor` at `total`.

    >>> [round(warmup_cosine(s, peak=1.0, floor=0.1, warmup=2, total=6), 3) for s in range(8)]
    [0.333, 0.667, 1.0, 0.868, 0.55, 0.232, 0.1, 0.1]
    """
    if step < warmup:
        return peak * (step + 1) / (warmup + 1)
    if step >= total or total <= warmup:
        return floor if step > warmup or total < warmup else peak
    return floor + (peak - floor) * 0.5 * (1.0 + math.cos(math.pi * (step - warmup) / (total - warmup)))


def noam(step: int, *, channels: int, warmup: int = 4000, factor: float = 1.0) -> float:
    """factor / sqrt(channels) * min(1 / sqrt(step), step / warmup^1.5) (Vaswani et al., 2017, section 5.3).

    >>> round(noam(4000, channels=512), 9)
    0.000698771
    """
    step = max(step, 1)
    return factor * channels**-0.5 * min(step**-0.5, step * warmup**-1.5)
