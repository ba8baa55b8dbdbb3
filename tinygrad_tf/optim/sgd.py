"""Stochastic gradient descent, with momentum (Sutskever et al., 2013) and Nesterov's variant, as PyTorch has them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tinygrad_tf.engine import make
from tinygrad_tf.optim.optimizer import Optimizer, gradient_of, refuse_negative, ways_of
from tinygrad_tf.tensor import Tensor


class SGD(Optimizer):
    """p -= lr d, with d the gradient (plus weight_decay * p), or its running sum m = momentum m + (1 - dampening) d."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ):
        refuse_negative(lr=lr, momentum=momentum, weight_decay=weight_decay)
        if nesterov and (momentum <= 0.0 or dampening != 0.0):
            raise ValueError("nesterov needs momentum above 0 and dampening 0")
        settings = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
        }
        ways = ways_of(foreach=foreach, differentiable=differentiable, fused=fused)
        super().__init__(params, {**settings, **ways})

    def update_group(self, group: dict[str, Any], params: list[Tensor]) -> None:
        lr, momentum = float(group["lr"]), group["momentum"]
        for p in params:
            d = gradient_of(p, group, group["weight_decay"])
            if momentum:
                state = self.state[p]
                if state.get("momentum_buffer") is None:
                    state["momentum_buffer"] = make(d.copy())
                else:
                    m = state["momentum_buffer"].array
                    m *= momentum
                    m += d * (1.0 - group["dampening"])
                m = state["momentum_buffer"].array
                d = d + m * momentum if group["nesterov"] else m
            p.array[...] -= d * lr
            p.storage.written()
