"""Two of the oldest, which libraries that know every optimiser of PyTorch ask for: ASGD and Rprop."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from tinygrad_tf.engine import make
from tinygrad_tf.optim.optimizer import Optimizer, gradient_of, refuse_negative, ways_of
from tinygrad_tf.tensor import Tensor


class ASGD(Optimizer):
    """Gradient descent whose rate falls, with the mean of the parameters since step t0 in state["ax"] (Polyak and
    Juditsky, 1992).

    >>> from tinygrad_tf import nn, optim
    >>> optimizer = optim.ASGD(nn.Linear(2, 1).parameters(), lr=0.1)
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ):
        refuse_negative(lr=lr, weight_decay=weight_decay)
        settings = {"lr": lr, "lambd": lambd, "alpha": alpha, "t0": t0, "weight_decay": weight_decay}
        ways = ways_of(foreach=foreach, differentiable=differentiable, capturable=capturable)
        super().__init__(params, {**settings, "maximize": maximize, **ways})

    def update_group(self, group: dict[str, Any], params: list[Tensor]) -> None:
        lr, lambd = float(group["lr"]), group["lambd"]
        for p in params:
            state = self.state[p]
            if not state:
                state["ax"] = make(np.zeros_like(p.array))
                starts = {"step": 0.0, "eta": lr, "mu": 1.0}
                state.update({name: make(np.array(value, np.float32)) for name, value in starts.items()})
            state["step"].array += 1
            step, eta, mu = (float(state[name].array) for name in ("step", "eta", "mu"))
            g = gradient_of(p, group, group["weight_decay"])
            p.array[...] *= 1.0 - lambd * eta
            p.array[...] -= g * eta
            p.storage.written()
            state["ax"].array += (p.array - state["ax"].array) * mu
            state["eta"].array[...] = lr / (1.0 + lambd * lr * step) ** group["alpha"]
            state["mu"].array[...] = 1.0 / max(1.0, step - group["t0"])


class Rprop(Optimizer):
    """Steps that know only the sign of a gradient: each entry's grows while the sign stays, and shrinks when it changes
    (Riedmiller and Braun, 1993). For whole data sets, not for batches.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ):
        refuse_negative(lr=lr)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Rprop: etas must be one factor below 1 and one above, got {etas}")
        settings = {"lr": lr, "etas": etas, "step_sizes": step_sizes, "maximize": maximize}
        ways = ways_of(foreach=foreach, differentiable=differentiable, capturable=capturable)
        super().__init__(params, {**settings, **ways})

    def update_group(self, group: dict[str, Any], params: list[Tensor]) -> None:
        shrink, grow = group["etas"]
        for p in params:
            state = self.state[p]
            if not state:
                state["step"] = make(np.zeros((), np.float32))
                state["prev"] = make(np.zeros_like(p.array))
                state["step_size"] = make(np.full_like(p.array, float(group["lr"])))
            state["step"].array += 1
            g = gradient_of(p, group, 0.0)
            agrees = np.sign(g * state["prev"].array)
            factor = np.where(agrees > 0, grow, np.where(agrees < 0, shrink, 1.0))
            size = state["step_size"].array
            size[...] = (size * factor).clip(*group["step_sizes"])
            g = np.where(agrees < 0, g.dtype.type(0), g)  # where the sign has changed, this step is left out
            p.array[...] -= np.sign(g) * size
            p.storage.written()
            state["prev"].array[...] = g
