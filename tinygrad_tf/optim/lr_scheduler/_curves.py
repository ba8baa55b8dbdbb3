"""Schedules that follow one curve: functions, steps, lines, powers, cosines; and those of the papers as functions."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from types import FunctionType
from typing import Any

from tinygrad_tf.optim.lr_scheduler._scheduler import Curve, LRScheduler
from tinygrad_tf.optim.optimizer import Optimizer


def _functions(name: str, optimizer: Optimizer, functions: Any) -> list[Callable[[float], float]]:
    groups = len(optimizer.param_groups)
    found = [functions] * groups if callable(functions) else list(functions)
    if len(found) != groups:
        raise ValueError(f"{name}: needs one function, or {groups} for the parameter groups, got {len(found)}")
    return found


def attributes_of(function: Any) -> dict[str, Any] | None:
    """What is saved of a function that a schedule was given: nothing, but for the attributes of a callable object."""
    return None if function is None or isinstance(function, FunctionType) else dict(vars(function))


class _OfFunctions(LRScheduler):
    """A schedule of functions, one for all groups or one each.

    Of functions nothing is saved; of callable objects, as in PyTorch, their attributes.
    """

    def __init__(self, optimizer: Optimizer, lr_lambda: Callable[[int], float] | Sequence[Any], last_epoch: int = -1):
        self.lr_lambdas = _functions(type(self).__name__, optimizer, lr_lambda)
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "lr_lambdas": [attributes_of(f) for f in self.lr_lambdas]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "lr_lambdas"})
        for function, attributes in zip(self.lr_lambdas, state_dict.get("lr_lambdas") or (), strict=False):
            vars(function).update(attributes or {})


class LambdaLR(_OfFunctions):
    """base rate * function(step), one function for all groups or one each.

    >>> from tinygrad_tf import nn, optim, ones
    >>> optimizer = optim.SGD([nn.Parameter(ones(1))], lr=2.0)
    >>> schedule = LambdaLR(optimizer, lambda step: (step + 1) / 4)
    >>> optimizer.param_groups[0]["lr"]
    0.5
    """

    def get_lr(self) -> list[float]:
        return [base * f(self.last_epoch) for base, f in zip(self.base_lrs, self.lr_lambdas, strict=True)]


class MultiplicativeLR(_OfFunctions):
    """The rate before * function(step)."""

    def get_lr(self) -> list[float]:
        groups = self.optimizer.param_groups
        if self._is_initial:  # the optimiser has the rate of this step
            return [group["lr"] for group in groups]
        return [group["lr"] * f(self.last_epoch) for group, f in zip(groups, self.lr_lambdas, strict=True)]


class StepLR(Curve):
    """Multiply the rate by gamma every step_size steps."""

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1):
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def share(self, step: float) -> float:
        return self.gamma ** (step // self.step_size)


class MultiStepLR(Curve):
    """Multiply the rate by gamma at each milestone."""

    def __init__(self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1):
        self.milestones, self.gamma = Counter(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def share(self, step: float) -> float:
        return self.gamma ** sum(often for milestone, often in self.milestones.items() if milestone <= step)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict({**state_dict, "milestones": Counter(state_dict["milestones"])})


class ConstantLR(Curve):
    """The rate times factor, until step total_iters."""

    def __init__(self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5, last_epoch: int = -1):
        if not 0.0 <= factor <= 1.0:
            raise ValueError(f"ConstantLR: factor must be in [0, 1], got {factor}")
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def share(self, step: float) -> float:
        return self.factor if step < self.total_iters else 1.0


class LinearLR(Curve):
    """The rate times a factor that goes from start_factor to end_factor in total_iters steps."""

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ):
        if not 0.0 < start_factor <= 1.0 or not 0.0 <= end_factor <= 1.0:
            raise ValueError(f"LinearLR: factors must be in (0, 1] and [0, 1], got {start_factor} and {end_factor}")
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer, last_epoch)

    def share(self, step: float) -> float:
        if step >= self.total_iters:
            return self.end_factor
        return self.start_factor + (self.end_factor - self.start_factor) * step / self.total_iters


class ExponentialLR(Curve):
    """Multiply the rate by gamma at every step."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1):
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def share(self, step: float) -> float:
        return self.gamma**step


class PolynomialLR(Curve):
    """base (1 - step / total_iters)^power, 0 from step total_iters on."""

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1):
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def share(self, step: float) -> float:
        return (1.0 - min(step, self.total_iters) / self.total_iters) ** self.power


def half_cosine(start: float, end: float, share: float) -> float:
    """From start (share 0) to end (share 1) along half a cosine."""
    return end + (start - end) * 0.5 * (1.0 + math.cos(math.pi * share))


class CosineAnnealingLR(Curve):
    """From the base rate to eta_min along half a cosine of T_max steps (Loshchilov and Hutter, 2017, equation 5)."""

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1):
        if T_max <= 0:
            raise ValueError(f"CosineAnnealingLR: T_max must be above 0, got {T_max}")
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def share(self, step: float) -> float:
        return half_cosine(1.0, 0.0, step / self.T_max)


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half cosines of T_0 steps, T_0 T_mult steps ..., each from the base rate to eta_min (the same paper)."""

    def __init__(self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1):
        if T_0 <= 0 or int(T_0) != T_0 or T_mult < 1 or T_mult != int(T_mult):
            raise ValueError(
                f"CosineAnnealingWarmRestarts: T_0 and T_mult must be integers from 1 on, got {T_0}, {T_mult}"
            )
        self.T_0, self.T_mult, self.eta_min = T_0, T_mult, eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """From the base rates, whatever other schedules have made of them, as in PyTorch."""
        self.T_cur, self.T_i = self._place(self.last_epoch)
        return [half_cosine(base, self.eta_min, self.T_cur / self.T_i) for base in self.base_lrs]

    def _place(self, step: float) -> tuple[float, int]:
        """How many steps are done of which length since the last restart."""
        length = self.T_0
        if self.T_mult == 1:
            step %= length
        while step >= length:
            step -= length
            length *= self.T_mult
        return step, length


def warmup_cosine(step: int, *, peak: float, floor: float, warmup: int, total: int) -> float:
    """The rate of step 0, 1, 2 ...: linear up to `peak` over `warmup` steps, then half a cosine to `floor` at `total`.

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
