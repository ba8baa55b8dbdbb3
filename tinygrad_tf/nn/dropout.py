"""Dropout as modules: each holds its settings and calls its twin in nn.functional."""

from __future__ import annotations

from tinygrad_tf._arguments import check_probability
from tinygrad_tf.nn import functional as F
from tinygrad_tf.nn.module import Module
from tinygrad_tf.tensor import Tensor


class _DropoutNd(Module):
    """What all of them hold, under PyTorch's name."""

    def __init__(self, p: float = 0.5, inplace: bool = False):
        super().__init__()
        check_probability(f"{type(self).__name__}: p", p)
        self.p, self.inplace = p, inplace

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_DropoutNd):
    """In training, zero each element with probability p and scale the rest by 1 / (1 - p)."""

    def forward(self, input: Tensor) -> Tensor:
        if (self.p == 0.0 or not self.training) and isinstance(input, Tensor) and 0.0 <= self.p <= 1.0:
            return input  # as F.dropout does: most models call it several times a layer
        return F.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(_DropoutNd):
    """Dropout of whole channels of (N, C, L)."""

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(_DropoutNd):
    """Dropout of whole channels of (N, C, H, W)."""

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(_DropoutNd):
    """Dropout of whole channels of (N, C, D, H, W)."""

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(_DropoutNd):
    """Dropout that keeps mean 0 and variance 1, for networks with SELU."""

    def forward(self, input: Tensor) -> Tensor:
        return F.alpha_dropout(input, self.p, self.training, self.inplace)


class FeatureAlphaDropout(_DropoutNd):
    """Alpha dropout of whole channels of (N, C, *)."""

    def forward(self, input: Tensor) -> Tensor:
        return F.feature_alpha_dropout(input, self.p, self.training, self.inplace)
