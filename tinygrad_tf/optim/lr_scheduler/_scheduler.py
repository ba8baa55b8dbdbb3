"""What all schedules are: a formula, and the rates that it sets at each step."""

from __future__ import annotations

import warnings
from typing import Any

from tinygrad_tf.optim.optimizer import Optimizer


class LRScheduler:
    """Base class. A schedule defines `rate(base, step)`, or `get_lr()`: the rates of all groups at self.last_epoch."""

    from_base = True  # whether it begins from the base rates, or from those that it finds
    floor = 0.0  # where the formula leads to: what lies above it is what other schedules' factors multiply

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
        self._step_count = 0  # of calls of step(), the first of which is the one here
        self.step()

    def rate(self, base: float, step: float) -> float:
        """The learning rate at a step for a group that began with rate `base`."""
        raise NotImplementedError(f"{type(self).__name__} must define rate(base, step), or get_lr()")

    def get_lr(self) -> list[float]:
        """The rates of all groups at self.last_epoch.

        A schedule that is made with last_epoch=k, for an optimiser that was loaded, finds the rate of step k + 1 in it.
        """
        for group in self.optimizer.param_groups[len(self.base_lrs) :]:  # added since: on from its own rate
            self.base_lrs.append(float(group["lr"]))
            self.rates.append(self.rate(self.base_lrs[-1], self.last_epoch - 1))
        found, rates = [], [self.rate(base, self.last_epoch) for base in self.base_lrs]
        continues = self._step_count == 1 and self.last_epoch > 0
        for group, rate, before in zip(self.optimizer.param_groups, rates, self.rates, strict=True):
            alone = float(group["lr"]) == before or before == self.floor
            if continues and not alone:
                found.append(float(group["lr"]))
                continue
            above = (rate - self.floor) / (before - self.floor) if not alone else 0.0
            found.append(rate if alone else self.floor + (float(group["lr"]) - self.floor) * above)
        self.rates = rates
        return found

    def step(self, epoch: float | None = None) -> None:
        if self._step_count == 1 and not getattr(self.optimizer, "_stepped", True):
            warnings.warn(
                f"{type(self).__name__}.step() was called before optimizer.step(), so that the first learning rate is "
                "skipped; call it after optimizer.step()",
                stacklevel=2,
            )
        self._step_count += 1
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        groups, rates = self.optimizer.param_groups, self.get_lr()
        if len(rates) != len(groups):
            raise ValueError(
                f"{type(self).__name__}: the optimizer has {len(groups)} parameter groups, the schedule gives "
                f"{len(rates)} rates; make a new schedule after add_param_group"
            )
        for group, lr in zip(groups, rates, strict=True):
            group["lr"] = lr
        self._last_lr = [group["lr"] for group in self.optimizer.param_groups]

    def start(self) -> None:
        """Begin anew, with the rates that are in the optimiser, as a new schedule does."""
        self.rates, self.last_epoch, self._step_count = list(self.base_lrs), -1, 0
        self.step()

    def get_last_lr(self) -> list[float]:
        return self._last_lr

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimiser."""
        return {k: v for k, v in self.__dict__.items() if k != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue where the saved scheduler stood, including the rates in the optimiser.

        Of a state that PyTorch saved, which has no `rates`, the formula tells them.
        """
        self.__dict__.update(state_dict)
        if "rates" not in state_dict and type(self).rate is not LRScheduler.rate:
            self.rates = [self.rate(base, self.last_epoch) for base in self.base_lrs]
        self._restore_rates()

    def _restore_rates(self) -> None:
        for group, lr in zip(self.optimizer.param_groups, self._last_lr, strict=True):
            group["lr"] = lr
