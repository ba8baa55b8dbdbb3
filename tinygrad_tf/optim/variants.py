"""Relatives of Adam and Adagrad that tutorials compare: Adadelta, Adamax, NAdam and RAdam."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from tinygrad_tf.engine import clock, make
from tinygrad_tf.optim.optimizer import Optimizer, gradient_of, refuse_betas, refuse_negative, refuse_ways
from tinygrad_tf.tensor import Tensor

Betas = tuple[float, float]


class _Variant(Optimizer):
    """What the four share: checks, state, weight decay. A class says how a parameter moves: `move` returns the step."""

    averages: tuple[str, ...] = ()  # the arrays of a parameter's state, which start at zero

    def __init__(self, params: Iterable[Any], settings: dict[str, Any], ways: tuple[Any, Any]):
        refuse_negative(**{name: settings[name] for name in ("lr", "weight_decay", "eps")})
        refuse_ways(ways[0], differentiable=ways[1])
        if "betas" in settings:
            refuse_betas(type(self).__name__, settings["betas"])
        super().__init__(params, settings)

    def update_group(self, group: dict[str, Any], params: list[Tensor]) -> None:
        for p in params:
            state = self.state[p]
            if not state:
                state["step"] = make(np.zeros((), np.float32))
                state.update({name: make(np.zeros_like(p.array)) for name in self.averages})
            state["step"].array += 1
            decay, lr, decoupled = group["weight_decay"], float(group["lr"]), group.get("decoupled_weight_decay")
            g = gradient_of(p, group, 0.0 if decoupled else decay)
            if decoupled:
                p.array[...] *= 1.0 - lr * decay
            p.array[...] -= self.move(group, state, g, lr, float(state["step"].array))
            p.storage.changed = next(clock)

    def move(self, group: dict[str, Any], state: dict[str, Any], g: np.ndarray, lr: float, step: float) -> np.ndarray:
        raise NotImplementedError


def _towards(average: Tensor, value: np.ndarray, keep: float) -> np.ndarray:
    """A running mean, moved towards a new value in its own memory."""
    average.array *= keep
    average.array += value * (1.0 - keep)
    return average.array


class Adadelta(_Variant):
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
        maximize: bool = False,
        differentiable: bool = False,
    ):
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Adadelta: rho must be in [0, 1], got {rho}")
        settings = {"lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize}
        super().__init__(params, settings, (foreach, differentiable))

    def move(self, group: dict[str, Any], state: dict[str, Any], g: np.ndarray, lr: float, step: float) -> np.ndarray:
        rho, eps = group["rho"], group["eps"]
        size = np.sqrt(_towards(state["square_avg"], g * g, rho) + eps)
        delta = np.sqrt(state["acc_delta"].array + eps) / size * g
        _towards(state["acc_delta"], delta * delta, rho)
        return delta * lr


class Adamax(_Variant):
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
        differentiable: bool = False,
    ):
        settings = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "maximize": maximize}
        super().__init__(params, settings, (foreach, differentiable))

    def move(self, group: dict[str, Any], state: dict[str, Any], g: np.ndarray, lr: float, step: float) -> np.ndarray:
        beta1, beta2 = group["betas"]
        mean, largest = _towards(state["exp_avg"], g, beta1), state["exp_inf"].array
        np.maximum(largest * beta2, np.abs(g) + group["eps"], out=largest)
        return mean / largest * (lr / (1.0 - beta1**step))


class NAdam(_Variant):
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
        super().__init__(params, settings, (foreach, differentiable))

    def move(self, group: dict[str, Any], state: dict[str, Any], g: np.ndarray, lr: float, step: float) -> np.ndarray:
        beta1, beta2 = group["betas"]
        now, ahead = (beta1 * (1.0 - 0.5 * 0.96 ** (n * group["momentum_decay"])) for n in (step, step + 1.0))
        product = state.setdefault("mu_product", make(np.ones((), np.float32))).array
        product *= now
        mean, squares = _towards(state["exp_avg"], g, beta1), _towards(state["exp_avg_sq"], g * g, beta2)
        size = np.sqrt(squares / (1.0 - beta2**step)) + group["eps"]
        of_now, of_mean = (1.0 - now) / (1.0 - float(product)), ahead / (1.0 - float(product) * ahead)
        return (g * of_now + mean * of_mean) / size * lr


class RAdam(_Variant):
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
        super().__init__(params, settings, (foreach, differentiable))

    def move(self, group: dict[str, Any], state: dict[str, Any], g: np.ndarray, lr: float, step: float) -> np.ndarray:
        beta1, beta2 = group["betas"]
        mean, squares = _towards(state["exp_avg"], g, beta1), _towards(state["exp_avg_sq"], g * g, beta2)
        mean = mean * (lr / (1.0 - beta1**step))
        longest = 2.0 / (1.0 - beta2) - 1.0  # the length of the average, as that of a simple mean: rho of the paper
        length = longest - 2.0 * step * beta2**step / (1.0 - beta2**step)
        if length <= 5.0:
            return mean
        rectified = (length - 4.0) * (length - 2.0) * longest / ((longest - 4.0) * (longest - 2.0) * length)
        return mean * (math.sqrt(rectified * (1.0 - beta2**step)) / (np.sqrt(squares) + group["eps"]))
