"""SparseAdam: Adam for embeddings of which a step sees few rows."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from tinygrad_tf.engine import make
from tinygrad_tf.optim.optimizer import Optimizer, gradient_of, refuse_betas, refuse_negative
from tinygrad_tf.tensor import Tensor


class SparseAdam(Optimizer):
    """Adam, by which rows without a gradient stay as they are, with their running means.

    Gradients are dense here: rows whose gradient is 0 throughout count as those without one. eps is added before the
    second mean is corrected for its start, as in PyTorch.

    >>> import tinygrad_tf as tg
    >>> words = tg.nn.Embedding(3, 2, sparse=True)
    >>> optimizer, before = SparseAdam(words.parameters(), lr=0.1), words.weight.clone()
    >>> words(tg.tensor([1])).sum().backward()
    >>> optimizer.step()
    >>> (words.weight != before).any(1)
    tensor([False,  True, False])
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ):
        refuse_negative(lr=lr, eps=eps)
        refuse_betas(type(self).__name__, betas)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})

    def update_group(self, group: dict[str, Any], params: list[Tensor]) -> None:
        beta1, beta2 = group["betas"]
        for p in params:
            state = self.state[p]
            if not state:
                state["step"] = 0
                state["exp_avg"], state["exp_avg_sq"] = make(np.zeros_like(p.array)), make(np.zeros_like(p.array))
            state["step"] += 1
            g = gradient_of(p, group, 0.0)
            rows = np.flatnonzero(g.reshape(len(g), -1).any(1)) if g.ndim else ...
            m, v = state["exp_avg"].array, state["exp_avg_sq"].array
            m[rows] += (g[rows] - m[rows]) * (1.0 - beta1)
            v[rows] += (g[rows] * g[rows] - v[rows]) * (1.0 - beta2)
            rate = group["lr"] * math.sqrt(1.0 - beta2 ** state["step"]) / (1.0 - beta1 ** state["step"])
            p.array[rows] -= m[rows] / (np.sqrt(v[rows]) + group["eps"]) * rate
            p.storage.written()
