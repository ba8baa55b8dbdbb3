"""Schedules that go up and down, and take the momentum along."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tinygrad_tf.optim.lr_scheduler._curves import attributes_of, half_cosine
from tinygrad_tf.optim.lr_scheduler._scheduler import LRScheduler
from tinygrad_tf.optim.optimizer import Optimizer


class OneCycleLR(LRScheduler):
    """From max_lr / div_factor up to max_lr, then down to the first rate / final_div_factor (Smith and Topin, 2018).

    With cycle_momentum, momentum (or Adam's first beta) goes the other way. The length is total_steps, or epochs *
    steps_per_epoch. max_lr and the momenta: one number, or one for each group, which keeps them.
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
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ):
        if total_steps is None:
            if epochs is None or steps_per_epoch is None:
                raise ValueError("OneCycleLR: give total_steps, or epochs and steps_per_epoch")
            total_steps = epochs * steps_per_epoch
        if not isinstance(total_steps, int) or total_steps <= 0:
            raise ValueError(f"OneCycleLR: the number of steps must be an integer above 0, got {total_steps!r}")
        if not 0.0 <= pct_start <= 1.0:
            raise ValueError(f"OneCycleLR: pct_start is a share of the steps, from 0 to 1, got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"OneCycleLR: anneal_strategy must be 'cos' or 'linear', got {anneal_strategy!r}")
        self.total_steps, self._anneal_func_type, self.cycle_momentum = total_steps, anneal_strategy, cycle_momentum
        self._schedule_phases = _phases(total_steps, pct_start, three_phase)
        peaks = _for_groups("OneCycleLR: max_lr", optimizer, max_lr)
        for group, peak in zip(optimizer.param_groups, peaks, strict=True):
            if last_epoch == -1:
                first = peak / div_factor
                group.update(lr=first, initial_lr=first, max_lr=peak, min_lr=first / final_div_factor)
        if cycle_momentum:
            _take_momenta("OneCycleLR", optimizer, base_momentum, max_momentum, last_epoch)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        if self.last_epoch > self.total_steps:  # as in PyTorch: the step behind the last step of training is asked for
            raise ValueError(
                f"OneCycleLR: step {self.last_epoch:g} was asked for, but total_steps is {self.total_steps}"
            )
        begin, (phase, *later) = 0.0, self._schedule_phases
        while later and self.last_epoch > phase["end_step"]:
            begin, (phase, *later) = phase["end_step"], later
        share = (self.last_epoch - begin) / (phase["end_step"] - begin)
        groups = [g for g in self.optimizer.param_groups if "max_lr" in g]  # one added since has no cycle: step tells
        if self.cycle_momentum:
            for group in groups:
                _set_momentum(group, self._between(group[phase["start_momentum"]], group[phase["end_momentum"]], share))
        return [self._between(group[phase["start_lr"]], group[phase["end_lr"]], share) for group in groups]

    def _between(self, start: float, end: float, share: float) -> float:
        return half_cosine(start, end, share) if self._anneal_func_type == "cos" else start + (end - start) * share


def _phases(total_steps: int, pct_start: float, three_phase: bool) -> list[dict[str, Any]]:
    """Where each phase ends, and which settings of a group lie at its start and end."""
    names = ("end_step", "start_lr", "end_lr", "start_momentum", "end_momentum")
    up, end = float(pct_start * total_steps) - 1, total_steps - 1
    phases: list[tuple[Any, ...]] = [(up, "initial_lr", "max_lr", "max_momentum", "base_momentum")]
    if three_phase:
        phases.append((2 * up, "max_lr", "initial_lr", "base_momentum", "max_momentum"))
        phases.append((end, "initial_lr", "min_lr", "max_momentum", "max_momentum"))
    else:
        phases.append((end, "max_lr", "min_lr", "base_momentum", "max_momentum"))
    return [dict(zip(names, phase, strict=True)) for phase in phases]


def _for_groups(name: str, optimizer: Optimizer, value: Any) -> list[float]:
    """One number for each parameter group."""
    groups = len(optimizer.param_groups)
    found = list(value) if isinstance(value, (list, tuple)) else [value] * groups
    if len(found) != groups:
        raise ValueError(f"{name} must be one number, or {groups} for the parameter groups, got {len(found)}")
    return found


def _take_momenta(
    schedule: str, optimizer: Optimizer, base: float | list[float], top: float | list[float], last_epoch: int
) -> tuple[list[float], list[float]]:
    """The momenta that each group goes between; one that begins takes them as settings."""
    if not all("betas" in group or "momentum" in group for group in optimizer.param_groups):
        raise ValueError(f"{schedule}: the optimizer has no momentum to cycle; pass cycle_momentum=False")
    bases = _for_groups(f"{schedule}: base_momentum", optimizer, base)
    tops = _for_groups(f"{schedule}: max_momentum", optimizer, top)
    if last_epoch == -1:
        for group, low, high in zip(optimizer.param_groups, bases, tops, strict=True):
            group.update(base_momentum=low, max_momentum=high)
    return bases, tops


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
        base_momentum: float | list[float] = 0.8,
        max_momentum: float | list[float] = 0.9,
        last_epoch: int = -1,
    ):
        if scale_fn is None and mode not in CYCLES:
            raise ValueError(f"CyclicLR: mode must be one of {', '.join(CYCLES)}, or give scale_fn; got {mode!r}")
        self._scale_fn_custom, self.gamma, self.cycle_momentum = scale_fn, gamma, cycle_momentum
        self.mode, self.scale_mode = mode, scale_mode if scale_fn is not None else CYCLES[mode][1]
        self.total_size = float(step_size_up + (step_size_up if step_size_down is None else step_size_down))
        self.step_ratio = step_size_up / self.total_size
        if cycle_momentum:
            self.base_momentums, self.max_momentums = _take_momenta(
                "CyclicLR", optimizer, base_momentum, max_momentum, last_epoch
            )
        bases = _for_groups("CyclicLR: base_lr", optimizer, base_lr)
        self.max_lrs = _for_groups("CyclicLR: max_lr", optimizer, max_lr)
        for group, base in zip(optimizer.param_groups, bases, strict=True):
            if last_epoch == -1:
                group["lr"] = base
        super().__init__(optimizer, last_epoch)
        self.base_lrs = bases

    def get_lr(self) -> list[float]:
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1 + self.last_epoch / self.total_size - cycle
        share = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        share *= self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            momenta = zip(self.optimizer.param_groups, self.base_momentums, self.max_momentums, strict=True)
            for group, low, high in momenta:
                _set_momentum(group, high - (high - low) * share)
        return [base + (peak - base) * share for base, peak in zip(self.base_lrs, self.max_lrs, strict=True)]

    def scale_fn(self, x: float) -> float:
        """The height of a cycle, x its number; with scale_mode="iterations" that at step x."""
        return CYCLES[self.mode][0](self.gamma, x) if self._scale_fn_custom is None else self._scale_fn_custom(x)

    def state_dict(self) -> dict[str, Any]:
        """As of all schedules; of a scale_fn that is a callable object its attributes."""
        return {**super().state_dict(), "_scale_fn_custom": attributes_of(self._scale_fn_custom)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "_scale_fn_custom"})
        if attributes := state_dict.get("_scale_fn_custom"):
            vars(self._scale_fn_custom).update(attributes)
