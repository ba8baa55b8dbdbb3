"""Where a token stands: vectors that are added to the embeddings."""

from __future__ import annotations

import numpy as np

from tinygrad_tf.creation import empty
from tinygrad_tf.engine import make
from tinygrad_tf.nn import init
from tinygrad_tf.nn.module import Module
from tinygrad_tf.nn.parameter import Parameter
from tinygrad_tf.tensor import Tensor


def sinusoidal_table(max_len: int, d_model: int) -> np.ndarray:
    """PE(pos, 2i) = sin(pos / 10000^(2i / d_model)), PE(pos, 2i + 1) its cosine (Vaswani et al., 2017, section 3.5).

    float64, (max_len, d_model); an odd d_model ends with a sine.

    >>> sinusoidal_table(2, 4)[1].round(6).tolist()
    [0.841471, 0.540302, 0.01, 0.99995]
    """
    rates = 10000.0 ** (-np.arange(0, d_model, 2) / d_model)
    angles = np.arange(max_len)[:, None] * rates
    table = np.empty((max_len, d_model))
    table[:, 0::2] = np.sin(angles)
    table[:, 1::2] = np.cos(angles[:, : d_model // 2])
    return table


class _Positions(Module):
    """Adds row t of a table (max_len, C) to position t of x (B, T, C)."""

    table: Tensor

    def __init__(self, max_len: int, d_model: int):
        super().__init__()
        self.max_len, self.d_model = max_len, d_model

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        stop = start + x.shape[-2]
        if stop > self.max_len:
            raise ValueError(
                f"{type(self).__name__}: positions up to {stop} were asked for, but max_len is {self.max_len}"
            )
        return x + self.table[start:stop]

    def extra_repr(self) -> str:
        return f"max_len={self.max_len}, d_model={self.d_model}"


class SinusoidalPositions(_Positions):
    """Sines and cosines of geometric frequencies; fixed. PE(pos + k) is a rotation of PE(pos)."""

    def __init__(self, max_len: int, d_model: int):
        super().__init__(max_len, d_model)
        self.register_buffer("table", make(sinusoidal_table(max_len, d_model).astype(np.float32)))


class LearnedPositions(_Positions):
    """A trained vector for each position (Gehring et al., 2017); starts normal with standard deviation 0.02."""

    def __init__(self, max_len: int, d_model: int):
        super().__init__(max_len, d_model)
        self.table = init.normal_(Parameter(empty(max_len, d_model)), std=0.02)
