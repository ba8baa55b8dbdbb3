"""Muon: momentum, made orthogonal, for the matrices of hidden layers."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from tinygrad_tf.dtypes import array_dtype, bfloat16
from tinygrad_tf.engine import make
from tinygrad_tf.optim.optimizer import Optimizer, refuse_negative
from tinygrad_tf.tensor import Tensor

ADJUSTMENTS = (None, "original", "match_rms_adamw")


class Muon(Optimizer):
    """p -= lr orthogonal(m), m the running mean of the gradients: all directions of a matrix move alike (Jordan, 2024).

    For matrices alone, and in earnest for those of hidden layers; embeddings, heads, biases and gains go to AdamW.
    orthogonal(m) is near U V^T of the singular value decomposition of m: `ns_steps` steps of Newton and Schulz with a
    polynomial of degree 5, in bfloat16. weight_decay: decoupled. nesterov: the gradient counts once more.

    adjust_lr_fn: "original" (or None) multiplies lr by sqrt(max(1, rows / columns)); "match_rms_adamw" by
    0.2 sqrt(max(rows, columns)), so that rates and decays of AdamW can be kept (Liu et al., 2025, "Muon is Scalable for
    LLM Training", equation 4).

    >>> import tinygrad_tf as tg
    >>> layer = tg.nn.Linear(4, 4)
    >>> muon, rest = tg.optim.Muon([layer.weight], lr=0.02), tg.optim.AdamW([layer.bias])
    >>> layer(tg.ones(1, 4)).sum().backward()
    >>> muon.step(), rest.step()
    (None, None)
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: Any = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ):
        refuse_negative(lr=lr, weight_decay=weight_decay, momentum=momentum, eps=eps)
        if adjust_lr_fn not in ADJUSTMENTS:
            raise ValueError(f"Muon: adjust_lr_fn must be None, 'original' or 'match_rms_adamw', got {adjust_lr_fn!r}")
        if len(ns_coefficients) != 3:
            raise ValueError(f"Muon: ns_coefficients must be three numbers, got {ns_coefficients!r}")
        if not 0 <= ns_steps < 100:
            raise ValueError(f"Muon: ns_steps must be from 0 to 99, got {ns_steps}")
        settings = {
            "lr": lr,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "nesterov": nesterov,
            "ns_coefficients": ns_coefficients,
            "eps": eps,
            "ns_steps": ns_steps,
            "adjust_lr_fn": adjust_lr_fn,
        }
        super().__init__(params, settings)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        super().add_param_group(param_group)
        for p in self.param_groups[-1]["params"]:
            if p.ndim != 2:
                self.param_groups.pop()
                raise ValueError(f"Muon: parameters must be matrices, got shape {tuple(p.shape)}; give others to AdamW")

    def update_group(self, group: dict[str, Any], params: list[Tensor]) -> None:
        lr, momentum = float(group["lr"]), group["momentum"]
        for p in params:
            g, state = p._grad.array, self.state[p]
            mean = state.setdefault("momentum_buffer", make(np.zeros_like(g))).array
            mean += (g - mean) * (1.0 - momentum)
            update = g + (mean - g) * momentum if group["nesterov"] else mean
            update = orthogonal(update, group["ns_coefficients"], group["ns_steps"], group["eps"])
            p.array[...] *= 1.0 - lr * group["weight_decay"]
            p.array[...] -= update.astype(p.array.dtype) * (lr * _adjustment(p.array.shape, group["adjust_lr_fn"]))
            p.storage.written()


def _adjustment(shape: tuple[int, ...], how: str | None) -> float:
    rows, columns = shape
    return 0.2 * math.sqrt(max(shape)) if how == "match_rms_adamw" else math.sqrt(max(1.0, rows / columns))


def orthogonal(x: np.ndarray, coefficients: tuple[float, float, float], steps: int, eps: float) -> np.ndarray:
    """A matrix in bfloat16 with the singular vectors of x, and singular values of about 1 (0.7 to 1.2 by default).

    x <- a x + (b s + c s^2) x with s = x x^T: each singular value v becomes a v + b v^3 + c v^5.
    """
    a, b, c = coefficients
    narrow = array_dtype(bfloat16)
    wide = np.float32

    def rounded(value: np.ndarray) -> np.ndarray:
        """In float32, with the bits of bfloat16: so each product is summed up in float32, and rounded once."""
        return value.astype(narrow).astype(wide)

    tall = x.shape[0] > x.shape[1]
    x = rounded(x.T if tall else x)
    x = rounded(x / max(float(rounded(np.linalg.norm(x).reshape(1))[0]), eps))
    for _ in range(steps):
        square = rounded(x @ x.T)
        curve = rounded(b * square + c * (square @ square))
        x = rounded(a * x + curve @ x)
    return (x.T if tall else x).astype(narrow)
