"""What all schedules are: a formula, and the rates that it sets at each step."""

from __future__ import annotations

import warnings
from typing import Any

from tinygrad_tf.optim.optimizer import Optimizer


class LRScheduler:
    """Base class. A schedule defines `get_lr()`: the rates of all groups at self.last_epoch."""

    _is_initial = False  # whether the step is that which a schedule begins with

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
        self.start(last_epoch)

    def get_lr(self) -> list[float]:
        """The rates of all groups at self.last_epoch."""
        raise NotImplementedError(f"{type(self).__name__} must define get_lr()")

    def _get_closed_form_lr(self) -> list[float]:
        """The same by a formula, from the base rates alone, if there is one."""
        return self.get_lr()

    def step(self, epoch: float | None = None) -> None:
        if self._step_count == 1 and not getattr(self.optimizer, "_stepped", True):
            warnings.warn(
                f"{type(self).__name__}.step() was called before optimizer.step(), so that the first learning rate is "
                "skipped; call it after optimizer.step()",
                stacklevel=2,
            )
        self._step_count += 1
        self._update_lr(epoch)

    def _update_lr(self, epoch: float | None = None) -> None:
        self.last_epoch: float = self.last_epoch + 1 if epoch is None else epoch
        groups, rates = self.optimizer.param_groups, self.get_lr() if epoch is None else self._get_closed_form_lr()
        if len(rates) != len(groups):
            raise ValueError(
                f"{type(self).__name__}: the optimizer has {len(groups)} parameter groups, the schedule gives "
                f"{len(rates)} rates; make a new schedule after add_param_group"
            )
        for group, lr in zip(groups, rates, strict=True):
            group["lr"] = lr
        self._last_lr = [group["lr"] for group in self.optimizer.param_groups]

    def start(self, last_epoch: int = -1) -> None:
        """The first step, as of a new schedule: from the rates that are in the optimiser."""
        self.last_epoch = last_epoch
        self._step_count = 0  # of calls of step(), the first of which is the one here
        self._is_initial = True
        self.step()
        self._is_initial = False

    def begin(self) -> None:
        """Take over from another schedule at its milestone: step 0, from the base rates if there is a formula."""
        self._update_lr(0)

    def get_last_lr(self) -> list[float]:
        return self._last_lr

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimiser."""
        return {k: v for k, v in self.__dict__.items() if k != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue where the saved scheduler stood, including the rates in the optimiser."""
        self.__dict__.update(state_dict)
        self._restore_rates()

    def _restore_rates(self) -> None:
        for group, lr in zip(self.optimizer.param_groups, self._last_lr, strict=True):
            group["lr"] = lr


class Curve(LRScheduler):
    """A schedule that is a formula: `share(step)` says how much of the base rates there is at a step.

    Each step multiplies the rate that it finds by the change of its share, so that schedules which share an optimiser
    multiply. A rate that is the formula's own does not gather rounding errors: it comes from the base rate anew.
    """

    eta_min = 0.0  # where the share 0 leads to; what lies above it is what is multiplied

    def share(self, step: float) -> float:
        """The share of the base rate, above eta_min, at a step."""
        raise NotImplementedError(f"{type(self).__name__} must define share(step)")

    def rate(self, base: float, step: float) -> float:
        """The rate at a step for a group that began with rate `base`."""
        return self.eta_min + (base - self.eta_min) * self.share(step)

    def get_lr(self) -> list[float]:
        """The rates of all groups at self.last_epoch.

        A schedule that is made with last_epoch=k, for an optimiser that was loaded, finds the rate of step k + 1 in it.
        A group that was added since has no base rate here: it goes on from its own.
        """
        found = [float(group["lr"]) for group in self.optimizer.param_groups]
        bases = self.base_lrs + found[len(self.base_lrs) :]
        now, before = self.share(self.last_epoch), 1.0 if self._is_initial else self.share(self.last_epoch - 1)
        rates = []
        for base, lr in zip(bases, found, strict=True):
            if lr == (base if self._is_initial else self.rate(base, self.last_epoch - 1)):
                rates.append(self.rate(base, self.last_epoch))
            elif self._is_initial and self.last_epoch > 0:
                rates.append(lr)
            elif before == 0.0:
                rates.append(lr + (base - self.eta_min) * now)
            else:
                rates.append(self.eta_min + (lr - self.eta_min) * (now / before))
        return rates

    def _get_closed_form_lr(self) -> list[float]:
        return [self.rate(base, self.last_epoch) for base in self.base_lrs]
