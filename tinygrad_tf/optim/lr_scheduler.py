"""Learning rate schedules. A scheduler sets the rate of the first step when it is made, the next one at each `step`.

A schedule is a formula, `rate(base, step)`. Several schedulers may share an optimiser: one that finds a rate that it
did not set itself multiplies it by what its own formula changes, so that the schedules' factors multiply.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tinygrad_tf.optim.optimizer import Optimizer


class LRScheduler:
    """Base class. A schedule defines `rate(base, step)`, or `get_lr()`: the rates of all groups at self.last_epoch."""

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1):
        if not hasattr(optimizer, "param_groups"):
            raise TypeError(f"{type(self).__name__}: optimizer must be an Optimizer, got {type(optimizer).__name__}")
        self.optimizer = optimizer
        for group in optimizer.param_groups:
            if last_epoch == -1:
                group["initial_lr"] = float(group["lr"]) if "initial_lr" not in group else group["initial_lr"]
            elif "initial_lr" not in group:
                raise KeyError(f"last_epoch={last_epoch} continues a schedule: every group needs its 'initial_lr'")
        self.base_lrs: list[float] = [float(group["initial_lr"]) for group in optimizer.param_groups]
        self.rates = list(self.base_lrs)  # what this schedule alone would have set
        self.last_epoch: float = last_epoch
        self.step()

    def rate(self, base: float, step: float) -> float:
        """The learning rate at a step for a group that began with rate `base`."""
        raise NotImplementedError(f"{type(self).__name__} must define rate(base, step), or get_lr()")

    def get_lr(self) -> list[float]:
        """The rates of all groups at self.last_epoch."""
        found, rates = [], [self.rate(base, self.last_epoch) for base in self.base_lrs]
        for group, rate, before in zip(self.optimizer.param_groups, rates, self.rates, strict=True):
            alone = float(group["lr"]) == before or before == 0.0
            found.append(rate if alone else float(group["lr"]) * rate / before)
        self.rates = rates
        return found

    def step(self, epoch: float | None = None) -> None:
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        for group, lr in zip(self.optimizer.param_groups, self.get_lr(), strict=True):
            group["lr"] = lr
        self._last_lr = [group["lr"] for group in self.optimizer.param_groups]

    def start(self) -> None:
        """Begin anew, from the base rates."""
        for group, base in zip(self.optimizer.param_groups, self.base_lrs, strict=True):
            group["lr"] = base
        self.rates, self.last_epoch = list(self.base_lrs), -1
        self.step()

    def get_last_lr(self) -> list[float]:
        return self._last_lr

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimiser and functions."""
        return {k: v for k, v in self.__dict__.items() if k not in ("optimizer", "lr_lambdas")}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue where the saved scheduler stood, including the rates in the optimiser."""
        self.__dict__.update(state_dict)
        self._restore_rates()

    def _restore_rates(self) -> None:
        for group, lr in zip(self.optimizer.param_groups, self._last_lr, strict=True):
            group["lr"] = lr


def _functions(name: str, optimizer: Optimizer, functions: Any) -> list[Callable[[float], float]]:
    groups = len(optimizer.param_groups)
    found = [functions] * groups if callable(functions) else list(functions)
    if len(found) != groups:
        raise ValueError(f"{name}: needs one function, or {groups} for the parameter groups, got {len(found)}")
    return found


_LRScheduler = LRScheduler  # the name by which PyTorch 1 had it, and schedules written for that derive from it


class LambdaLR(LRScheduler):
    """base rate * function(step), one function for all groups or one each.

    >>> from tinygrad_tf import nn, optim, ones
    >>> optimizer = optim.SGD([nn.Parameter(ones(1))], lr=2.0)
    >>> schedule = LambdaLR(optimizer, lambda step: (step + 1) / 4)
    >>> optimizer.param_groups[0]["lr"]
    0.5
    """

    def __init__(self, optimizer: Optimizer, lr_lambda: Callable[[int], float] | Sequence[Any], last_epoch: int = -1):
        self.lr_lambdas = _functions("LambdaLR", optimizer, lr_lambda)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        return [base * f(self.last_epoch) for base, f in zip(self.base_lrs, self.lr_lambdas, strict=True)]


class MultiplicativeLR(LRScheduler):
    """The rate before * function(step)."""

    def __init__(self, optimizer: Optimizer, lr_lambda: Callable[[int], float] | Sequence[Any], last_epoch: int = -1):
        self.lr_lambdas = _functions("MultiplicativeLR", optimizer, lr_lambda)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        groups = self.optimizer.param_groups
        if self.last_epoch <= 0:
            return [group["lr"] for group in groups]
        return [group["lr"] * f(self.last_epoch) for group, f in zip(groups, self.lr_lambdas, strict=True)]


class StepLR(LRScheduler):
    """Multiply the rate by gamma every step_size steps."""

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1):
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def rate(self, base: float, step: float) -> float:
        return base * self.gamma ** (step // self.step_size)


class MultiStepLR(LRScheduler):
    """Multiply the rate by gamma at each milestone."""

    def __init__(self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1):
        self.milestones, self.gamma = sorted(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def rate(self, base: float, step: float) -> float:
        return base * self.gamma ** bisect_right(self.milestones, step)


class ConstantLR(LRScheduler):
    """The rate times factor, until step total_iters."""

    def __init__(self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5, last_epoch: int = -1):
        if not 0.0 <= factor <= 1.0:
            raise ValueError(f"ConstantLR: factor must be in [0, 1], got {factor}")
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def rate(self, base: float, step: float) -> float:
        return base * self.factor if step < self.total_iters else base


class LinearLR(LRScheduler):
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

    def rate(self, base: float, step: float) -> float:
        if step >= self.total_iters:
            return base * self.end_factor
        return base * (self.start_factor + (self.end_factor - self.start_factor) * step / self.total_iters)


class ExponentialLR(LRScheduler):
    """Multiply the rate by gamma at every step."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1):
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def rate(self, base: float, step: float) -> float:
        return base * self.gamma**step


class PolynomialLR(LRScheduler):
    """base (1 - step / total_iters)^power, 0 from step total_iters on."""

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1):
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def rate(self, base: float, step: float) -> float:
        return base * (1.0 - min(step, self.total_iters) / self.total_iters) ** self.power


def _cosine(start: float, end: float, share: float) -> float:
    """From start (share 0) to end (share 1) along half a cosine."""
    return end + (start - end) * 0.5 * (1.0 + math.cos(math.pi * share))


class CosineAnnealingLR(LRScheduler):
    """From the base rate to eta_min along half a cosine of T_max steps (Loshchilov and Hutter, 2017, equation 5)."""

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1):
        if T_max <= 0:
            raise ValueError(f"CosineAnnealingLR: T_max must be above 0, got {T_max}")
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def rate(self, base: float, step: float) -> float:
        return _cosine(base, self.eta_min, step / self.T_max)


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half cosines of T_0 steps, T_0 T_mult steps ..., each from the base rate to eta_min (the same paper)."""

    def __init__(self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1):
        if T_0 <= 0 or T_mult < 1 or T_mult != int(T_mult):
            raise ValueError(
                f"CosineAnnealingWarmRestarts: T_0 and T_mult must be integers from 1 on, got {T_0}, {T_mult}"
            )
        self.T_0, self.T_mult, self.eta_min = T_0, T_mult, eta_min
        super().__init__(optimizer, last_epoch)

    def rate(self, base: float, step: float) -> float:
        length = self.T_0
        if self.T_mult == 1:
            step %= length
        while step >= length:
            step -= length
            length *= self.T_mult
        return _cosine(base, self.eta_min, step / length)


class OneCycleLR(LRScheduler):
    """From max_lr / div_factor up to max_lr, then down to the first rate / final_div_factor (Smith and Topin, 2018).

    With cycle_momentum, momentum (or Adam's first beta) goes the other way. The length is total_steps, or epochs *
    steps_per_epoch.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float = 0.85,
        max_momentum: float = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ):
        if total_steps is None:
            if epochs is None or steps_per_epoch is None:
                raise ValueError("OneCycleLR: give total_steps, or epochs and steps_per_epoch")
            total_steps = epochs * steps_per_epoch
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"OneCycleLR: anneal_strategy must be 'cos' or 'linear', got {anneal_strategy!r}")
        groups = optimizer.param_groups
        self.total_steps, self.anneal_strategy, self.cycle_momentum = total_steps, anneal_strategy, cycle_momentum
        peaks = list(max_lr) if isinstance(max_lr, (list, tuple)) else [max_lr] * len(groups)
        for group, peak in zip(groups, peaks, strict=True):
            if last_epoch == -1:
                group["initial_lr"] = group["lr"] = peak / div_factor
        low, high = base_momentum, max_momentum
        starts = [(peak / div_factor, peak, peak / div_factor / final_div_factor) for peak in peaks]
        up = float(pct_start * total_steps) - 1
        if three_phase:  # where each phase ends, its rates, its momenta
            self.ends = [up, 2 * up, float(total_steps - 1)]
            self.lrs = [[(start, peak), (peak, start), (start, last)] for start, peak, last in starts]
            self.momenta = [(high, low), (low, high), (high, high)]
        else:
            self.ends = [up, float(total_steps - 1)]
            self.lrs = [[(start, peak), (peak, last)] for start, peak, last in starts]
            self.momenta = [(high, low), (low, high)]
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        if self.last_epoch >= self.total_steps:
            raise ValueError(
                f"OneCycleLR: step {self.last_epoch + 1:g} was asked for, but total_steps is {self.total_steps}"
            )
        phase = 0
        while phase < len(self.ends) - 1 and self.last_epoch > self.ends[phase]:
            phase += 1
        begin = self.ends[phase - 1] if phase else 0.0
        share = (self.last_epoch - begin) / (self.ends[phase] - begin)
        if self.cycle_momentum:
            momentum = self._between(*self.momenta[phase], share)
            for group in self.optimizer.param_groups:
                _set_momentum(group, momentum)
        return [self._between(*phases[phase], share) for phases in self.lrs]

    def _between(self, start: float, end: float, share: float) -> float:
        return _cosine(start, end, share) if self.anneal_strategy == "cos" else start + (end - start) * share


def _set_momentum(group: dict[str, Any], momentum: float) -> None:
    """Adam's is its first beta."""
    if "betas" in group:
        group["betas"] = (momentum, *group["betas"][1:])
    else:
        group["momentum"] = momentum


CYCLES: dict[str, tuple[Callable[[float, float], float], str]] = {  # how high a cycle goes, and what that depends on
    "triangular": (lambda gamma, cycle: 1.0, "cycle"),
    "triangular2": (lambda gamma, cycle: 0.5 ** (cycle - 1), "cycle"),
    "exp_range": (lambda gamma, step: gamma**step, "iterations"),
}


class CyclicLR(LRScheduler):
    """From base_lr up to max_lr in step_size_up steps, and down in step_size_down, again and again (Smith, 2017).

    The height of a cycle: "triangular" all of it, "triangular2" half of the last one's, "exp_range" gamma^step; or
    scale_fn of the number of the cycle (from 1 on), with scale_mode="iterations" of the step. With cycle_momentum,
    momentum (or Adam's first beta) goes the other way.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float = 0.8,
        max_momentum: float = 0.9,
        last_epoch: int = -1,
    ):
        groups = optimizer.param_groups
        if scale_fn is None and mode not in CYCLES:
            raise ValueError(f"CyclicLR: mode must be one of {', '.join(CYCLES)}, or give scale_fn; got {mode!r}")
        if cycle_momentum and not all("betas" in group or "momentum" in group for group in groups):
            raise ValueError("CyclicLR: the optimizer has no momentum to cycle; pass cycle_momentum=False")
        self.scale_fn, self.gamma, self.cycle_momentum = scale_fn, gamma, cycle_momentum
        self.mode, self.scale_mode = mode, scale_mode if scale_fn is not None else CYCLES[mode][1]
        self.total_size = float(step_size_up + (step_size_up if step_size_down is None else step_size_down))
        self.share_up = step_size_up / self.total_size
        bases, peaks = (list(x) if isinstance(x, (list, tuple)) else [x] * len(groups) for x in (base_lr, max_lr))
        self.max_lrs, self.momenta = peaks, (base_momentum, max_momentum)
        for group, base in zip(groups, bases, strict=True):
            if last_epoch == -1:
                group["initial_lr"] = group["lr"] = base
        super().__init__(optimizer, last_epoch)
        self.base_lrs = bases

    def get_lr(self) -> list[float]:
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1 + self.last_epoch / self.total_size - cycle
        share = x / self.share_up if x <= self.share_up else (x - 1) / (self.share_up - 1)
        along = cycle if self.scale_mode == "cycle" else self.last_epoch
        share *= CYCLES[self.mode][0](self.gamma, along) if self.scale_fn is None else self.scale_fn(along)
        if self.cycle_momentum:
            low, high = self.momenta
            for group in self.optimizer.param_groups:
                _set_momentum(group, high - (high - low) * share)
        return [base + (peak - base) * share for base, peak in zip(self.base_lrs, self.max_lrs, strict=True)]

    def state_dict(self) -> dict[str, Any]:
        """As of all schedules, without scale_fn, which is a function."""
        return {k: v for k, v in super().state_dict().items() if k != "scale_fn"}


class _Several(LRScheduler):
    """A schedule made of others."""

    def __init__(self, optimizer: Optimizer, schedulers: Sequence[LRScheduler]):
        for scheduler in schedulers:
            if getattr(scheduler, "optimizer", None) is not optimizer or isinstance(scheduler, ReduceLROnPlateau):
                name = type(scheduler).__name__
                raise ValueError(f"{type(self).__name__}: {name} cannot be part of it, or has another optimizer")
        self.optimizer, self._schedulers = optimizer, list(schedulers)

    def state_dict(self) -> dict[str, Any]:
        own = {k: v for k, v in self.__dict__.items() if k not in ("optimizer", "_schedulers")}
        return {**own, "_schedulers": [scheduler.state_dict() for scheduler in self._schedulers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.__dict__.update({k: v for k, v in state_dict.items() if k != "_schedulers"})
        for scheduler, state in zip(self._schedulers, state_dict["_schedulers"], strict=True):
            scheduler.load_state_dict(state)
        self._restore_rates()


class SequentialLR(_Several):
    """One schedule after the other; the next begins, at its step 0, when a milestone is reached.

    >>> from tinygrad_tf import nn, optim, ones
    >>> optimizer = optim.SGD([nn.Parameter(ones(1))], lr=1.0)
    >>> parts = [LinearLR(optimizer, 0.5, total_iters=2), CosineAnnealingLR(optimizer, 4)]
    >>> schedule, rates = SequentialLR(optimizer, parts, milestones=[2]), []
    >>> for _ in range(5):
    ...     rates.append(round(schedule.get_last_lr()[0], 3))
    ...     schedule.step()
    >>> rates
    [0.5, 0.75, 1.0, 0.854, 0.5]
    """

    def __init__(
        self, optimizer: Optimizer, schedulers: Sequence[LRScheduler], milestones: list[int], last_epoch: int = -1
    ):
        super().__init__(optimizer, schedulers)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                f"SequentialLR: {len(schedulers)} schedulers need one milestone less, got {len(milestones)}"
            )
        self._milestones = list(milestones)
        self.start()
        self.last_epoch = last_epoch + 1

    def start(self) -> None:
        self.last_epoch = 0
        self._schedulers[0].start()
        self._last_lr = self._schedulers[0].get_last_lr()

    def step(self, epoch: float | None = None) -> None:
        self.last_epoch += 1
        part = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[part]
        if part and self._milestones[part - 1] == self.last_epoch:
            scheduler.start()
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()


class ChainedScheduler(_Several):
    """All schedules at each step; their factors multiply."""

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None):
        if not schedulers:
            raise ValueError("ChainedScheduler: needs at least one scheduler")
        super().__init__(schedulers[0].optimizer if optimizer is None else optimizer, schedulers)
        self._last_lr = [group["lr"] for group in self.optimizer.param_groups]

    def step(self, epoch: float | None = None) -> None:
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = self._schedulers[-1].get_last_lr()


class ReduceLROnPlateau(LRScheduler):
    """Multiply the rate by factor when the metric given to `step` has not improved for more than `patience` steps."""

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float | list[float] = 0.0,
        eps: float = 1e-8,
    ):
        if factor >= 1.0:
            raise ValueError(f"ReduceLROnPlateau: factor must be below 1, got {factor}")
        if mode not in ("min", "max") or threshold_mode not in ("rel", "abs"):
            raise ValueError(
                f"ReduceLROnPlateau: mode is min or max, threshold_mode rel or abs, got {mode}, {threshold_mode}"
            )
        groups = optimizer.param_groups
        self.optimizer, self.mode, self.factor, self.patience = optimizer, mode, factor, patience
        self.threshold, self.threshold_mode, self.cooldown, self.eps = threshold, threshold_mode, cooldown, eps
        self.min_lrs = list(min_lr) if isinstance(min_lr, (list, tuple)) else [min_lr] * len(groups)
        if len(self.min_lrs) != len(groups):
            raise ValueError(f"ReduceLROnPlateau: needs one min_lr, or {len(groups)}, got {len(self.min_lrs)}")
        self.best = math.inf if mode == "min" else -math.inf
        self.last_epoch, self.cooldown_counter, self.num_bad_epochs = 0, 0, 0
        self._last_lr = [group["lr"] for group in groups]

    def step(self, metrics: Any, epoch: float | None = None) -> None:  # type: ignore[override]
        """`metrics` is the number to watch, such as the validation loss."""
        current = float(metrics)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self._is_better(current):
            self.best, self.num_bad_epochs = current, 0
        else:
            self.num_bad_epochs += 1
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            for group, lowest in zip(self.optimizer.param_groups, self.min_lrs, strict=True):
                lr = max(float(group["lr"]) * self.factor, lowest)
                group["lr"] = lr if group["lr"] - lr > self.eps else group["lr"]
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        self._last_lr = [group["lr"] for group in self.optimizer.param_groups]

    def _is_better(self, current: float) -> bool:
        if math.isinf(self.best):
            return current < self.best if self.mode == "min" else current > self.best
        margin = self.threshold * abs(self.best) if self.threshold_mode == "rel" else self.threshold
        if self.threshold_mode == "rel" and self.best < 0:
            margin = -margin  # as in PyTorch: best * (1 - threshold), whatever its sign
        return current < self.best - margin if self.mode == "min" else current > self.best + margin


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
