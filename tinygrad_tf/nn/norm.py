"""Normalisation layers. They differ in what is averaged over: the last axes, groups of channels, or the batch."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinygrad_tf.creation import empty, ones, zeros
from tinygrad_tf.engine import make
from tinygrad_tf.nn import functional as F
from tinygrad_tf.nn import init
from tinygrad_tf.nn.functional.norm import layer_norm
from tinygrad_tf.nn.module import Module
from tinygrad_tf.nn.parameter import Parameter
from tinygrad_tf.ops._types import wants_tensor
from tinygrad_tf.tensor import Tensor


class _Norm(Module):
    """What all of them have: a scale that starts at 1 and a shift that starts at 0, if they have them."""

    def reset_parameters(self) -> None:
        """Scale by 1 and shift by 0 again."""
        for name, parameter in self._parameters.items():
            init.constant_(parameter, 1 if name == "weight" else 0)


class LayerNorm(_Norm):
    """Normalise the last axes to mean 0 and variance 1, then scale and shift (Ba et al., 2016)."""

    def __init__(
        self,
        normalized_shape: int | tuple[int, ...] | list[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ):
        super().__init__()
        self.normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        self.weight = (
            Parameter(empty(self.normalized_shape, dtype=dtype, device=device)) if elementwise_affine else None
        )
        self.bias = Parameter(empty(self.normalized_shape, dtype=dtype)) if elementwise_affine and bias else None
        self.reset_parameters()

    def forward(self, input: Tensor) -> Tensor:
        if not isinstance(input, Tensor):
            raise wants_tensor("layer_norm", "input", input)
        return layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        affine = f"elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"
        return f"{self.normalized_shape}, eps={self.eps}, {affine}"


class RMSNorm(_Norm):
    """Divide the last axes by their root mean square, then scale (Zhang and Sennrich, 2019)."""

    def __init__(
        self,
        normalized_shape: int | tuple[int, ...] | list[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: Any = None,
    ):
        super().__init__()
        self.normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        self.weight = (
            Parameter(empty(self.normalized_shape, dtype=dtype, device=device)) if elementwise_affine else None
        )
        self.reset_parameters()

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class GroupNorm(_Norm):
    """Normalise groups of channels (axis 1), each with all further axes, then scale and shift (Wu and He, 2018)."""

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ):
        super().__init__()
        if num_groups < 1 or num_channels % num_groups:
            raise ValueError(f"GroupNorm: num_channels {num_channels} do not split into num_groups {num_groups}")
        self.num_groups, self.num_channels, self.eps, self.affine = num_groups, num_channels, eps, affine
        self.weight = Parameter(empty(num_channels, dtype=dtype, device=device)) if affine else None
        self.bias = Parameter(empty(num_channels, dtype=dtype)) if affine and bias else None
        self.reset_parameters()

    def forward(self, input: Tensor) -> Tensor:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        affine = f"affine={self.affine}, bias={self.bias is not None}"
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}, {affine}"


class _NormBase(_Norm):
    """What batch and instance norms share: a scale and a shift for each channel, and statistics that may be kept."""

    _version = 2  # since num_batches_tracked is there
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ):
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        self.weight = Parameter(empty(num_features, dtype=dtype, device=device)) if affine else None
        self.bias = Parameter(empty(num_features, dtype=dtype)) if affine and bias else None
        track = track_running_stats
        self.register_buffer("running_mean", zeros(num_features, dtype=dtype) if track else None)
        self.register_buffer("running_var", ones(num_features, dtype=dtype) if track else None)
        self.register_buffer("num_batches_tracked", make(np.zeros((), np.int64)) if track else None)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Forget the batches so far: mean 0, variance 1."""
        for tensor, value in ((self.running_mean, 0), (self.running_var, 1), (self.num_batches_tracked, 0)):
            if tensor is not None:
                init.constant_(tensor, value)

    def reset_parameters(self) -> None:
        self.reset_running_stats()
        super().reset_parameters()

    def extra_repr(self) -> str:
        affine = f"affine={self.affine}, bias={self.bias is not None}"
        tracked = f"track_running_stats={self.track_running_stats}"
        return f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, {affine}, {tracked}"


class _BatchNorm(_NormBase):
    dimensions: tuple[int, ...]
    wanted: str

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim not in self.dimensions or input.shape[1] != self.num_features:
            wanted = self.wanted.format(self.num_features)
            raise ValueError(f"{type(self).__name__}: input must be {wanted}, got {tuple(input.shape)}")
        momentum = 0.0 if self.momentum is None else self.momentum
        if self.training and self.num_batches_tracked is not None:
            self.num_batches_tracked.array += 1
            momentum = 1.0 / int(self.num_batches_tracked.array) if self.momentum is None else momentum
        own = self.training or self.running_mean is None
        mean, var = (self.running_mean, self.running_var) if self.training or not own else (None, None)
        return F.batch_norm(input, mean, var, self.weight, self.bias, own, momentum, self.eps)


class BatchNorm1d(_BatchNorm):
    """Normalise each channel over the batch, x (N, C) or (N, C, L), then scale and shift (Ioffe and Szegedy, 2015).

    In training, running_mean and running_var move towards the batch's by `momentum` (None: they are the mean of all
    batches); in evaluation they are used instead of the batch's.
    """

    dimensions = (2, 3)
    wanted = "(N, {0}) or (N, {0}, L)"


class BatchNorm2d(_BatchNorm):
    """BatchNorm1d for images (N, C, H, W)."""

    dimensions = (4,)
    wanted = "(N, {0}, H, W)"


class BatchNorm3d(_BatchNorm):
    """BatchNorm1d for volumes (N, C, D, H, W)."""

    dimensions = (5,)
    wanted = "(N, {0}, D, H, W)"


class _InstanceNorm(_NormBase):
    dimensions: tuple[int, ...]
    wanted: str

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ):
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def forward(self, input: Tensor) -> Tensor:
        batched = input.ndim == max(self.dimensions)
        if input.ndim not in self.dimensions or input.shape[int(batched)] != self.num_features:
            wanted = self.wanted.format(self.num_features)
            raise ValueError(f"{type(self).__name__}: input must be {wanted}, got {tuple(input.shape)}")
        own = self.training or self.running_mean is None
        x = input if batched else input.unsqueeze(0)
        settings = (own, self.momentum or 0.0, self.eps)
        out = F.instance_norm(x, self.running_mean, self.running_var, self.weight, self.bias, *settings)
        return out if batched else out.squeeze(0)


class InstanceNorm1d(_InstanceNorm):
    """Normalise each channel of each example, x (N, C, L) or (C, L), over L (Ulyanov et al., 2016).

    Without `track_running_stats` the same in training and evaluation.
    """

    dimensions = (2, 3)
    wanted = "(N, {0}, L) or ({0}, L)"


class InstanceNorm2d(_InstanceNorm):
    """InstanceNorm1d for images (N, C, H, W) or (C, H, W)."""

    dimensions = (3, 4)
    wanted = "(N, {0}, H, W) or ({0}, H, W)"


class InstanceNorm3d(_InstanceNorm):
    """InstanceNorm1d for volumes (N, C, D, H, W) or (C, D, H, W)."""

    dimensions = (4, 5)
    wanted = "(N, {0}, D, H, W) or ({0}, D, H, W)"


class LocalResponseNorm(Module):
    """Divide by a power of the mean square of `size` neighbouring channels, x (N, C, ...) (Krizhevsky et al., 2012)."""

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0):
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: Tensor) -> Tensor:
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
