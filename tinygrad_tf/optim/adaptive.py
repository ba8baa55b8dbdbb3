"""Two optimisers that divide by the size of past gradients: Adagrad and RMSprop."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from tinygrad_tf.engine import clock, make
from tinygrad_tf.optim.optimizer import Optimizer, gradient_of, refuse_negative, refuse_ways
from tinygrad_tf.tensor import Tensor


class Adagrad(Optimizer):
    """p -= lr g / (sqrt(sum g^2) + eps) (Duchi et al., 2011), with lr / (1 + (step - 1) lr_decay) for lr."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ):
        refuse_negative(lr=lr, lr_decay=lr_decay, weight_decay=weight_decay, eps=eps)
        refuse_ways(foreach, fused, differentiable)
        settings = {
            "lr": lr,
            "lr_decay": lr_decay,
            "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value,
            "eps": eps,
            "maximize": maximize,
        }
        super().__init__(params, settings)

    def update_group(self, group: dict[str, Any], params: list[Tensor]) -> None:
        for p in params:
            state = self.state[p]
            if not state:
                state["step"] = make(np.zeros((), np.float32))
                state["sum"] = make(np.full(p.array.shape, group["initial_accumulator_value"], p.dtype))
            state["step"].array += 1
            g, total = gradient_of(p, group, group["weight_decay"]), state["sum"].array
            total += g * g
            rate = float(group["lr"]) / (1.0 + (float(state["step"].array) - 1.0) * group["lr_decay"])
            p.array[...] -= g / (np.sqrt(total) + group["eps"]) * rate
            p.storage.changed = next(clock)


class RMSprop(Optimizer):
    """p -= lr g / (sqrt(v) + eps), with v the running mean of g^2 (Hinton, 2012).

    centered=True takes the running mean of g, squared, off v; momentum adds up the steps.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ):
        refuse_negative(lr=lr, alpha=alpha, weight_decay=weight_decay, momentum=momentum, eps=eps)
        refuse_ways(foreach, differentiable=differentiable)
        settings = {
            "lr": lr,
            "alpha": alpha,
            "eps": eps,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "centered": centered,
            "maximize": maximize,
        }
        super().__init__(params, settings)

    def update_group(self, group: dict[str, Any], params: list[Tensor]) -> None:
        alpha, lr = group["alpha"], float(group["lr"])
        for p in params:
            state = self.state[p]
            if not state:
                state["step"] = make(np.zeros((), np.float32))
                wanted = (
                    ["square_avg"] + ["momentum_buffer"] * (group["momentum"] > 0) + ["grad_avg"] * group["centered"]
                )
                state.update({name: make(np.zeros_like(p.array)) for name in wanted})
            state["step"].array += 1
            g, v = gradient_of(p, group, group["weight_decay"]), state["square_avg"].array
            v *= alpha
            v += g * g * (1.0 - alpha)
            spread = v
            if group["centered"]:
                mean = state["grad_avg"].array
                mean += (g - mean) * (1.0 - alpha)
                spread = v - mean * mean
            move = g / (np.sqrt(spread) + group["eps"])
            if group["momentum"] > 0:
                buffer = state["momentum_buffer"].array
                buffer *= group["momentum"]
                buffer += move
                move = buffer
            p.array[...] -= move * lr
            p.storage.changed = next(clock)
