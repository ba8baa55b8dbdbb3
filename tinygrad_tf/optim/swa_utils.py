"""Averages of a model's weights along its training, which often do better than the last weights do.

Equal averages: Izmailov et al. (2018), "Averaging Weights Leads to Wider Optima and Better Generalization".
Exponential ones: Polyak and Juditsky (1992), with weights that fade.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tinygrad_tf.autograd import no_grad
from tinygrad_tf.creation import tensor
from tinygrad_tf.nn.module import Module
from tinygrad_tf.nn.norm import _BatchNorm
from tinygrad_tf.optim.lr_scheduler import LRScheduler
from tinygrad_tf.optim.optimizer import Optimizer
from tinygrad_tf.tensor import Tensor

__all__ = [
    "SWALR",
    "AveragedModel",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]

Average = Callable[[Tensor, Tensor, Any], Tensor]  # the average so far, the new value, how many were averaged
Averages = Callable[[Sequence[Tensor], Sequence[Tensor], Any], None]  # the same for a list, in place


def get_swa_avg_fn() -> Average:
    """The equal average: average + (new - average) / (count + 1)."""
    return no_grad()(lambda average, new, count: average + (new - average) / (count + 1))


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """The exponential average: decay * average + (1 - decay) * new.

    >>> from tinygrad_tf import tensor
    >>> get_ema_avg_fn(0.75)(tensor(4.0), tensor(8.0), 1)
    tensor(5.)
    """
    if not 0.0 <= decay <= 1.0:
        raise ValueError(f"decay must be from 0 to 1, got {decay}")
    return no_grad()(lambda average, new, count: decay * average + (1 - decay) * new)


def get_swa_multi_avg_fn() -> Averages:
    """get_swa_avg_fn for lists of tensors, whose averages it changes in place."""
    return _for_lists(lambda average, new, count: average.lerp(new, 1.0 / (float(count) + 1)), get_swa_avg_fn())


def get_ema_multi_avg_fn(decay: float = 0.999) -> Averages:
    """get_ema_avg_fn for lists of tensors, whose averages it changes in place."""
    return _for_lists(lambda average, new, count: average.lerp(new, 1 - decay), get_ema_avg_fn(decay))


def _for_lists(between: Average, for_integers: Average) -> Averages:
    @no_grad()
    def update(averages: Sequence[Tensor], values: Sequence[Tensor], count: Any) -> None:
        for average, new in zip(averages, values, strict=True):
            function = between if average.is_floating_point() else for_integers
            average.copy_(function(average, new, count))

    return update


class AveragedModel(Module):
    """A copy of a model, `module`, that holds the average of the weights at each `update_parameters(model)`.

    avg_fn(average, new, count) says how, by default the equal average; or multi_avg_fn, for lists. use_buffers: average
    the buffers, too, which otherwise are the model's last ones. The first update takes the weights as they are.

    >>> from tinygrad_tf import nn, no_grad
    >>> model = nn.Linear(1, 1, bias=False)
    >>> averaged = AveragedModel(model)
    >>> for value in (1.0, 2.0, 6.0):
    ...     _ = nn.init.constant_(model.weight, value)
    ...     averaged.update_parameters(model)
    >>> averaged.module.weight.item(), averaged.n_averaged
    (3.0, tensor(3))
    """

    n_averaged: Tensor

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: Average | None = None,
        multi_avg_fn: Averages | None = None,
        use_buffers: bool = False,
    ):
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("AveragedModel: give either avg_fn or multi_avg_fn")
        self.module = copy.deepcopy(model).to(device)
        self.register_buffer("n_averaged", tensor(0))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    @no_grad()
    def update_parameters(self, model: Module) -> None:
        """Take the model's present weights into the average."""
        own, new = _tensors_of(self.module, self.use_buffers), _tensors_of(model, self.use_buffers)
        count = self.n_averaged.clone()
        if count.item() == 0:
            for average, value in zip(own, new, strict=True):
                average.copy_(value)
        elif self.avg_fn is None:
            self._average_lists(own, new, count)
        else:
            for average, value in zip(own, new, strict=True):
                average.copy_(self.avg_fn(average, value, count))
        if not self.use_buffers:
            for buffer, value in zip(self.module.buffers(), model.buffers(), strict=True):
                buffer.copy_(value)
        self.n_averaged += 1

    def _average_lists(self, own: list[Tensor], new: list[Tensor], count: Tensor) -> None:
        """One list for each dtype, as functions on lists expect."""
        function = get_swa_multi_avg_fn() if self.multi_avg_fn is None else self.multi_avg_fn
        for dtype in dict.fromkeys(t.dtype for t in own):
            chosen = [i for i, t in enumerate(own) if t.dtype == dtype]
            function([own[i] for i in chosen], [new[i] for i in chosen], count)


def _tensors_of(model: Module, with_buffers: bool) -> list[Tensor]:
    found = [*model.parameters(), *(model.buffers() if with_buffers else ())]
    return [t.detach() for t in found]


@no_grad()
def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Set the running means and variances of all batch norms to those of the data: one pass over `loader`.

    For averaged weights, with which no batch norm has ever run. A batch is the input, or a list that starts with it.
    """
    norms = {m: m.momentum for m in model.modules() if isinstance(m, _BatchNorm)}
    if not norms:
        return
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # the mean of all batches
    was_training = model.training
    model.train()
    for batch in loader:
        given = batch[0] if isinstance(batch, (list, tuple)) else batch
        model(given if device is None else given.to(device))
    for norm, momentum in norms.items():
        norm.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """From the present rate to swa_lr (one, or one for each group) within anneal_epochs steps, where it then stays.

    anneal_strategy: "cos", or "linear". Beside another schedule, it goes on from where that one stopped.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float | Sequence[float],
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ):
        groups = optimizer.param_groups
        rates = list(swa_lr) if isinstance(swa_lr, (list, tuple)) else [swa_lr] * len(groups)
        if len(rates) != len(groups):
            raise ValueError(f"SWALR: swa_lr must be one rate, or {len(groups)}, got {len(rates)}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"SWALR: anneal_strategy must be 'cos' or 'linear', got {anneal_strategy!r}")
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"SWALR: anneal_epochs must be an integer from 0 on, got {anneal_epochs!r}")
        for group, rate in zip(groups, rates, strict=True):
            group["swa_lr"] = rate
        self.anneal_epochs, self.anneal_strategy = anneal_epochs, anneal_strategy
        super().__init__(optimizer, last_epoch)

    def _share(self, step: int) -> float:
        """How much of the way is gone after so many steps."""
        t = max(0.0, min(1.0, step / max(1, self.anneal_epochs)))
        return t if self.anneal_strategy == "linear" else (1 - math.cos(math.pi * t)) / 2

    def get_lr(self) -> list[float]:
        step = self._step_count - 1  # since the start of this schedule
        step = max(1, step) if self.anneal_epochs == 0 else step
        before, share = self._share(step - 1), self._share(step)
        found = []
        for group in self.optimizer.param_groups:
            rate, goal = float(group["lr"]), float(group["swa_lr"])
            start = goal if before == 1 else (rate - before * goal) / (1 - before)
            found.append(goal * share + start * (1 - share))
        return found
