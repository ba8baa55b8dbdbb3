"""Optimisers that divide by the size of past gradients: Adagrad, RMSprop and Adadelta."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from tinygrad_tf.engine import make
from tinygrad_tf.optim.optimizer import refuse_negative
from tinygrad_tf.optim.parameterwise import Parameterwise, towards
from tinygrad_tf.tensor import Tensor


class Adagrad(Parameterwise):
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
        refuse_negative(lr_decay=lr_decay, initial_accumulator_value=initial_accumulator_value)
        settings = {
            "lr": lr,
            "lr_decay": lr_decay,
            "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value,
            "eps": eps,
            "maximize": maximize,
        }
        super().__init__(params, settings, foreach=foreach, fused=fused, differentiable=differentiable)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters with settings of their own; as in PyTorch, their sums are there before the first step."""
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        for p in group["params"]:
            self.state_of(group, p)

    def start(self, group: dict[str, Any], p: Tensor) -> dict[str, Tensor]:
        return {"sum": make(np.full(p.array.shape, group["initial_accumulator_value"], p.dtype))}

    def move(self, group: dict[str, Any], state: dict[str, Any], g: np.ndarray, lr: float, step: float) -> np.ndarray:
        total = state["sum"].array
        total += g * g
        rate = lr / (1.0 + (step - 1.0) * group["lr_decay"])
        return g / (np.sqrt(total) + group["eps"]) * rate


class RMSprop(Parameterwise):
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
        refuse_negative(alpha=alpha, momentum=momentum)
        settings = {
            "lr": lr,
            "alpha": alpha,
            "eps": eps,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "centered": centered,
            "maximize": maximize,
        }
        ways = {"foreach": foreach, "capturable": capturable, "differentiable": differentiable}
        super().__init__(params, settings, **ways)

    def start(self, group: dict[str, Any], p: Tensor) -> dict[str, Tensor]:
        wanted = ["square_avg"] + ["momentum_buffer"] * (group["momentum"] > 0) + ["grad_avg"] * group["centered"]
        return {name: make(np.zeros_like(p.array)) for name in wanted}

    def move(self, group: dict[str, Any], state: dict[str, Any], g: np.ndarray, lr: float, step: float) -> np.ndarray:
        alpha = group["alpha"]
        spread = towards(state["square_avg"], g * g, alpha)
        if group["centered"]:
            mean = state["grad_avg"].array
            mean += (g - mean) * (1.0 - alpha)
            spread = spread - mean * mean
        move = g / (np.sqrt(spread) + group["eps"])
        if group["momentum"] > 0:
            buffer = state["momentum_buffer"].array
            buffer *= group["momentum"]
            buffer += move
            move = buffer
        return move * lr


class Adadelta(Parameterwise):
    """Steps of the size of past steps over that of past gradients (Zeiler, 2012): the rate is 1.

    >>> from tinygrad_tf import nn, optim
    >>> optimizer = optim.Adadelta(nn.Linear(2, 1).parameters(), lr=1.0)
    """

    averages = ("square_avg", "acc_delta")

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ):
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Adadelta: rho must be in [0, 1], got {rho}")
        settings = {"lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize}
        ways = {"foreach": foreach, "capturable": capturable, "differentiable": differentiable}
        super().__init__(params, settings, **ways)

    def move(self, group: dict[str, Any], state: dict[str, Any], g: np.ndarray, lr: float, step: float) -> np.ndarray:
        rho, eps = group["rho"], group["eps"]
        size = np.sqrt(towards(state["square_avg"], g * g, rho) + eps)
        delta = np.sqrt(state["acc_delta"].array + eps) / size * g
        towards(state["acc_delta"], delta * delta, rho)
        return delta * lr
