"""Schedules that go up and down, and take the momentum along."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tinygrad_tf.optim.lr_scheduler._curves import half_cosine
from tinygrad_tf.optim.lr_scheduler._scheduler import LRScheduler
from tinygrad_tf.optim.optimizer import Optimizer


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
        if self.last_epoch > self.total_steps:  # as in PyTorch: the step behind the last step of training is asked for
            raise ValueError(
                f"OneCycleLR: step {self.last_epoch:g} was asked for, but total_steps is {self.total_steps}"
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
        return half_cosine(start, end, share) if self.anneal_strategy == "cos" else start + (end - start) * share


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
