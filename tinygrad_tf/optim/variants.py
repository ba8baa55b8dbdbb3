"""Relatives of Adam that tutorials compare: Adamax, NAdam and RAdam."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from tinygrad_tf.engine import make
from tinygrad_tf.optim.optimizer import refuse_negative
from tinygrad_tf.optim.parameterwise import Parameterwise, towards

Betas = tuple[float, float]


class Adamax(Parameterwise):
    """Adam with the largest gradient, which fades, for the mean of squares (Kingma and Ba, 2015, section 7.1)."""

    averages = ("exp_avg", "exp_inf")

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 2e-3,
        betas: Betas = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ):
        settings = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "maximize": maximize}
        ways = {"foreach": foreach, "capturable": capturable, "differentiable": differentiable}
        super().__init__(params, settings, **ways)

    def move(self, group: dict[str, Any], state: dict[str, Any], g: np.ndarray, lr: float, step: float) -> np.ndarray:
        beta1, beta2 = group["betas"]
        mean, largest = towards(state["exp_avg"], g, beta1), state["exp_inf"].array
        np.maximum(largest * beta2, np.abs(g) + group["eps"], out=largest)
        return mean / largest * (lr / (1.0 - beta1**step))


class NAdam(Parameterwise):
    """Adam with Nesterov's momentum (Dozat, 2016): the mean of the gradients looks a step ahead."""

    averages = ("exp_avg", "exp_avg_sq")

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 2e-3,
        betas: Betas = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ):
        refuse_negative(momentum_decay=momentum_decay)
        settings = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay,
            "maximize": maximize,
        }
        ways = {"foreach": foreach, "capturable": capturable, "differentiable": differentiable}
        super().__init__(params, settings, **ways)

    def move(self, group: dict[str, Any], state: dict[str, Any], g: np.ndarray, lr: float, step: float) -> np.ndarray:
        beta1, beta2 = group["betas"]
        now, ahead = (beta1 * (1.0 - 0.5 * 0.96 ** (n * group["momentum_decay"])) for n in (step, step + 1.0))
        product = state.setdefault("mu_product", make(np.ones((), np.float32))).array
        product *= now
        mean, squares = towards(state["exp_avg"], g, beta1), towards(state["exp_avg_sq"], g * g, beta2)
        size = np.sqrt(squares / (1.0 - beta2**step)) + group["eps"]
        of_now, of_mean = (1.0 - now) / (1.0 - float(product)), ahead / (1.0 - float(product) * ahead)
        return (g * of_now + mean * of_mean) / size * lr


class RAdam(Parameterwise):
    """Adam that divides by the size of the gradients only once enough of them were seen (Liu et al., 2020)."""

    averages = ("exp_avg", "exp_avg_sq")

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: Betas = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ):
        settings = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "decoupled_weight_decay": decoupled_weight_decay,
            "maximize": maximize,
        }
        ways = {"foreach": foreach, "capturable": capturable, "differentiable": differentiable}
        super().__init__(params, settings, **ways)

    def move(self, group: dict[str, Any], state: dict[str, Any], g: np.ndarray, lr: float, step: float) -> np.ndarray:
        beta1, beta2 = group["betas"]
        mean, squares = towards(state["exp_avg"], g, beta1), towards(state["exp_avg_sq"], g * g, beta2)
        mean = mean * (lr / (1.0 - beta1**step))
        longest = 2.0 / (1.0 - beta2) - 1.0  # the length of the average, as that of a simple mean: rho of the paper
        length = longest - 2.0 * step * beta2**step / (1.0 - beta2**step)
        if length <= 5.0:
            return mean
        rectified = (length - 4.0) * (length - 2.0) * longest / ((longest - 4.0) * (longest - 2.0) * length)
        return mean * (math.sqrt(rectified * (1.0 - beta2**step)) / (np.sqrt(squares) + group["eps"]))
