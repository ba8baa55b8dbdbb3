"""Adam (Kingma and Ba, 2015, algorithm 1) and AdamW (Loshchilov and Hutter, 2019, algorithm 2)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from tinygrad_tf import kernels
from tinygrad_tf.engine import make
from tinygrad_tf.optim.optimizer import Optimizer, gradient_of, refuse_betas, refuse_negative, ways_of
from tinygrad_tf.tensor import Tensor


class Adam(Optimizer):
    """p -= lr m' / (sqrt(v') + eps), with m and v the running means of the gradient and of its square.

    m' and v' are corrected for their start at zero. weight_decay adds weight_decay * p to the gradient; with
    decoupled_weight_decay it is AdamW's.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ):
        refuse_negative(lr=lr, eps=eps, weight_decay=weight_decay)
        refuse_betas(type(self).__name__, betas)
        self.plans: dict[int, Any] = {}
        settings = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
        }
        ways = ways_of(foreach=foreach, capturable=capturable, differentiable=differentiable, fused=fused)
        super().__init__(params, {**settings, **ways, "decoupled_weight_decay": decoupled_weight_decay})

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "plans": {}}  # plans hold addresses, which a copy must not have

    def update_group(self, group: dict[str, Any], params: list[Tensor]) -> None:
        by_step: dict[int, list[tuple[Tensor, dict[str, Any]]]] = {}
        for p in params:
            state = self.state[p]
            if not state:
                state["step"] = make(np.zeros((), np.float32))
                state["exp_avg"] = make(np.zeros_like(p.array, order="C"))
                state["exp_avg_sq"] = make(np.zeros_like(p.array, order="C"))
                if group["amsgrad"]:
                    state["max_exp_avg_sq"] = make(np.zeros_like(p.array, order="C"))
            count = state["step"].array
            count.fill(count.item() + 1)
            by_step.setdefault(int(count.item()), []).append((p, state))
        update = self._update_amsgrad if group["amsgrad"] else self._update
        for step, members in by_step.items():
            update(group, members, step)

    def _update(self, group: dict[str, Any], members: list[tuple[Tensor, dict[str, Any]]], step: int) -> None:
        beta1, beta2 = group["betas"]
        self.plans[id(group)] = kernels.adamw.adamw_step(
            [p.array for p, _ in members],
            [p._grad.array for p, _ in members],
            [state["exp_avg"].array for _, state in members],
            [state["exp_avg_sq"].array for _, state in members],
            lr=float(group["lr"]),
            beta1=float(beta1),
            beta2=float(beta2),
            eps=group["eps"],
            weight_decay=group["weight_decay"],
            step=step,
            decoupled=group["decoupled_weight_decay"],
            maximize=group["maximize"],
            plan=self.plans.get(id(group)),
        )
        for p, _ in members:
            p.storage.written()

    def _update_amsgrad(self, group: dict[str, Any], members: list[tuple[Tensor, dict[str, Any]]], step: int) -> None:
        """Divide by the largest v so far, so that the step size never grows (Reddi et al., 2018)."""
        (beta1, beta2), lr, decay = map(float, group["betas"]), float(group["lr"]), group["weight_decay"]
        decoupled = group["decoupled_weight_decay"]
        for p, state in members:
            m, v, largest = (state[name].array for name in ("exp_avg", "exp_avg_sq", "max_exp_avg_sq"))
            g = gradient_of(p, group, 0.0 if decoupled else decay)
            if decoupled:
                p.array[...] *= 1.0 - lr * decay
            m += (g - m) * (1.0 - beta1)
            v *= beta2
            v += g * g * (1.0 - beta2)
            np.maximum(largest, v, out=largest)
            root = np.sqrt(largest) / math.sqrt(1.0 - beta2**step) + group["eps"]
            p.array[...] -= m / root * (lr / (1.0 - beta1**step))
            p.storage.written()


class AdamW(Adam):
    """Adam with decoupled weight decay: p shrinks by lr * weight_decay, which never enters the running means."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ):
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=True,
        )

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        for group in self.param_groups:  # what Adam saved goes on as AdamW
            group["decoupled_weight_decay"] = True
