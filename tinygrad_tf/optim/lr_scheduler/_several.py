"""Schedules made of others, and the one that looks at a metric instead of the step."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from tinygrad_tf.optim.lr_scheduler._scheduler import LRScheduler
from tinygrad_tf.optim.optimizer import Optimizer


class _Several(LRScheduler):
    """A schedule made of others."""

    def __init__(self, optimizer: Optimizer, schedulers: Sequence[LRScheduler]):
        for scheduler in schedulers:
            if getattr(scheduler, "optimizer", None) is not optimizer or isinstance(scheduler, ReduceLROnPlateau):
                name = type(scheduler).__name__
                raise ValueError(f"{type(self).__name__}: {name} cannot be part of it, or has another optimizer")
        self.optimizer, self._schedulers = optimizer, list(schedulers)

    def begin(self) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = group["initial_lr"]
        self.start()

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
    >>> from tinygrad_tf.optim.lr_scheduler import CosineAnnealingLR, LinearLR
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
        self.begin()
        self.last_epoch = last_epoch + 1

    def start(self, last_epoch: int = -1) -> None:
        self.last_epoch = 0
        first = self._schedulers[bisect_right(self._milestones, 0)]
        first.start()
        self._last_lr = first.get_last_lr()

    def step(self) -> None:  # type: ignore[override]
        self.last_epoch += 1
        part = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[part]
        if part and self._milestones[part - 1] == self.last_epoch:
            scheduler.begin()
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

    def start(self, last_epoch: int = -1) -> None:
        for scheduler in self._schedulers:
            scheduler.start()
        self._last_lr = self._schedulers[-1].get_last_lr()

    def step(self) -> None:  # type: ignore[override]
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
        self.default_min_lr = None if isinstance(min_lr, (list, tuple)) else min_lr  # of groups that are added later
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
            for group, lowest in zip(self.optimizer.param_groups, self._lowest(), strict=True):
                lr = max(float(group["lr"]) * self.factor, lowest)
                group["lr"] = lr if group["lr"] - lr > self.eps else group["lr"]
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        self._last_lr = [group["lr"] for group in self.optimizer.param_groups]

    def _lowest(self) -> list[float]:
        """The rate of each group that none goes below."""
        own, groups = len(self.min_lrs), len(self.optimizer.param_groups)
        if own != groups:
            if self.default_min_lr is None:
                raise RuntimeError(
                    f"ReduceLROnPlateau: min_lr was given for {own} parameter groups of {groups}; set min_lrs"
                )
            self.min_lrs = [self.default_min_lr] * groups
        return self.min_lrs

    def _is_better(self, current: float) -> bool:
        if math.isinf(self.best):
            return current < self.best if self.mode == "min" else current > self.best
        margin = self.threshold * abs(self.best) if self.threshold_mode == "rel" else self.threshold
        if self.threshold_mode == "rel" and self.best < 0:
            margin = -margin  # as in PyTorch: best * (1 - threshold), whatever its sign
        return current < self.best - margin if self.mode == "min" else current > self.best + margin
