"""Adafactor: of a matrix of squared gradients only the sums of its rows and columns are kept."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from tinygrad_tf.dtypes import finfo
from tinygrad_tf.engine import make
from tinygrad_tf.optim.optimizer import Optimizer, refuse_negative, ways_of
from tinygrad_tf.tensor import Tensor


class Adafactor(Optimizer):
    """Adam without momentum, whose memory is that of a row and a column for a matrix (Shazeer and Stern, 2018).

    The mean of squared gradients at (i, j) is taken as row mean i times column mean j over the mean of all (algorithm
    4); tensors of more axes are stacks of matrices, vectors keep it as it is. A step is `lr` at most, times the size of
    the parameter (at least eps[1]), and is cut where its own size is above `d` (algorithm 5).

    eps: (what the mean of squares is kept above, as a root; by default the dtype's precision, the least size).
    beta2_decay: how the share of the new square falls with the number of the step. weight_decay: decoupled.

    >>> import tinygrad_tf as tg
    >>> weight = tg.nn.Parameter(tg.ones(3, 4))
    >>> optimizer = tg.optim.Adafactor([weight])
    >>> (weight**2).sum().backward()
    >>> optimizer.step()
    >>> [tuple(optimizer.state[weight][name].shape) for name in ("row_var", "col_var")]
    [(3, 1), (1, 4)]
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: Any = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ):
        if not isinstance(eps, (tuple, list)) or len(eps) != 2:
            raise TypeError(f"Adafactor: eps must be two numbers, as (None, 1e-3), got {eps!r}")
        refuse_negative(lr=lr, weight_decay=weight_decay, eps1=0.0 if eps[0] is None else eps[0], eps2=eps[1])
        if not beta2_decay <= 0.0:
            raise ValueError(f"Adafactor: beta2_decay must not be positive, got {beta2_decay}")
        if not d >= 1.0:
            raise ValueError(f"Adafactor: d must be at least 1, got {d}")
        settings = {"lr": lr, "beta2_decay": beta2_decay, "eps": eps, "d": d, "weight_decay": weight_decay}
        super().__init__(params, {**settings, **ways_of(foreach=foreach), "maximize": maximize})

    def update_group(self, group: dict[str, Any], params: list[Tensor]) -> None:
        lr = float(group["lr"])
        for p in params:
            state = self.state[p]
            if not state:
                state.update(_start(p.array))
            state["step"].array += 1
            step = float(state["step"].array)
            size = max(group["eps"][1], _root_mean_square(p.array)) * min(lr, 1.0 / math.sqrt(step))
            g = -p._grad.array if group["maximize"] else p._grad.array
            least = finfo(p.dtype).eps if group["eps"][0] is None else group["eps"][0]
            if group["weight_decay"]:
                p.array[...] *= 1.0 - lr * group["weight_decay"]
            squares = _mean_of_squares(state, g, step ** group["beta2_decay"], least)
            update = g / np.sqrt(np.maximum(squares, least * least))
            p.array[...] -= update * (size / max(1.0, _root_mean_square(update) / group["d"]))
            p.storage.written()


def _start(p: np.ndarray) -> dict[str, Tensor]:
    shapes = {"row_var": (*p.shape[:-1], 1), "col_var": (*p.shape[:-2], 1, *p.shape[-1:])}
    shapes = shapes if p.ndim > 1 else {"variance": p.shape}
    state = {name: make(np.zeros(shape, p.dtype)) for name, shape in shapes.items()}
    return {"step": make(np.zeros((), np.float32)), **state}


def _mean_of_squares(state: dict[str, Tensor], g: np.ndarray, share: float, least: float) -> np.ndarray:
    """The running mean of g^2, as far as it is kept."""
    squares = g * g
    if "variance" in state:
        return _towards(state["variance"].array, squares, share)
    rows = _towards(state["row_var"].array, squares.mean(-1, keepdims=True), share)
    columns = _towards(state["col_var"].array, squares.mean(-2, keepdims=True), share)
    return rows * columns / np.maximum(rows.mean(-2, keepdims=True), least)


def _towards(mean: np.ndarray, value: np.ndarray, share: float) -> np.ndarray:
    mean += (value - mean) * share
    return mean


def _root_mean_square(x: np.ndarray) -> float:
    return float(np.linalg.norm(x.ravel().astype(np.promote_types(x.dtype, np.float32)))) / math.sqrt(x.size)
