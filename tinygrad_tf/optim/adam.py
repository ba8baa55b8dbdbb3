"""Adam (Kingma and Ba, 2015, algorithm 1) and AdamW (Loshchilov and Hutter, 2019, algorithm 2)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from tinygrad_tf import kernels
from tinygrad_tf.engine import clock, make
from tinygrad_tf.optim.optimizer import Optimizer
from tinygrad_tf.tensor import Tensor


class Adam(Optimizer):
    """p -= lr m' / (sqrt(v') + eps), with m and v the running means of the gradient and of its square.

    m' and v' are corrected for their start at zero. weight_decay adds weight_decay * p to the gradient (AdamW: see there).
    """

    decoupled = False

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ):
        if float(lr) < 0.0 or eps < 0.0 or weight_decay < 0.0:
            raise ValueError(f"lr, eps and weight_decay must not be negative, got {lr}, {eps}, {weight_decay}")
        if not all(0.0 <= beta < 1.0 for beta in betas):
            raise ValueError(f"betas must be in [0, 1), got {betas}")
        if amsgrad:
            raise ValueError("amsgrad=True is not supported; use amsgrad=False")
        settings = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "maximize": maximize}
        super().__init__(params, settings)

    def update_group(self, group: dict[str, Any], params: list[Tensor]) -> None:
        by_step: dict[int, list[Tensor]] = {}
        for p in params:
            state = self.state[p]
            if not state:
                state["step"] = make(np.zeros((), np.float32))
                state["exp_avg"] = make(np.zeros_like(p.array, order="C"))
                state["exp_avg_sq"] = make(np.zeros_like(p.array, order="C"))
            state["step"].array += 1
            by_step.setdefault(int(state["step"].array), []).append(p)
        for step, group_params in by_step.items():
            self._update(group, group_params, step)

    def _update(self, group: dict[str, Any], params: list[Tensor], step: int) -> None:
        beta1, beta2 = group["betas"]
        kernels.adamw.adamw_step(
            [p.array for p in params],
            [-p.grad.array if group["maximize"] else p.grad.array for p in params],
            [self.state[p]["exp_avg"].array for p in params],
            [self.state[p]["exp_avg_sq"].array for p in params],
            lr=float(group["lr"]),
            beta1=float(beta1),
            beta2=float(beta2),
            eps=group["eps"],
            weight_decay=group["weight_decay"],
            step=step,
            decoupled=self.decoupled,
        )
        now = next(clock)
        for p in params:
            p.storage.changed = now


class AdamW(Adam):
    """Adam with decoupled weight decay: p shrinks by lr * weight_decay, and the decay never enters the running means."""

    decoupled = True

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
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize)
