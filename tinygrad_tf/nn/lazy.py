"""Layers that learn the size of their input from the first input they see, and are the plain layers from then on.

Their parameters exist from the start, without elements, so that an optimiser may be made before the first forward.
"""

from __future__ import annotations

from typing import Any

from tinygrad_tf.creation import ones, zeros
from tinygrad_tf.nn.convolution import Conv1d, Conv2d, ConvTranspose1d, ConvTranspose2d, _Convolution
from tinygrad_tf.nn.layers import Linear
from tinygrad_tf.nn.norm import BatchNorm1d, BatchNorm2d
from tinygrad_tf.tensor import Tensor


class LazyLinear(Linear):
    """Linear, whose in_features are the last size of the first input.

    >>> import tinygrad_tf as tg
    >>> layer = LazyLinear(3)
    >>> layer(tg.zeros(2, 5)).shape, layer
    (torch.Size([2, 3]), Linear(in_features=5, out_features=3, bias=True))
    """

    def __init__(self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None):
        super().__init__(0, out_features, bias, device, dtype)

    def reset_parameters(self) -> None:
        """Nothing, before the size is known."""

    def forward(self, input: Tensor) -> Tensor:
        self.in_features = input.shape[-1]
        self.weight.data = zeros(self.out_features, self.in_features, dtype=self.weight.dtype)
        self.__class__ = Linear  # type: ignore[assignment]
        self.reset_parameters()
        return self.forward(input)


class _LazyConvolution(_Convolution):
    plain: type[_Convolution]

    def __init__(self, out_channels: int, *settings: Any, **named: Any):
        super().__init__(0, out_channels, *settings, **named)

    def reset_parameters(self) -> None:
        """Nothing, before the size is known."""

    def forward(self, input: Tensor) -> Tensor:
        self.in_channels = input.shape[-1 - self.axes]
        if self.in_channels % self.groups:
            raise ValueError(
                f"{type(self).__name__}: groups must divide {self.in_channels} channels, got {self.groups}"
            )
        shape = list(self.weight.shape)
        shape[0 if self.transposed else 1] = self.in_channels // (1 if self.transposed else self.groups)
        self.weight.data = zeros(*shape, dtype=self.weight.dtype)
        self.__class__ = self.plain  # type: ignore[assignment]
        self.reset_parameters()
        return self.forward(input)


class LazyConv1d(_LazyConvolution, Conv1d):
    """Conv1d(out_channels, kernel_size, ...), whose in_channels are those of the first input."""

    plain = Conv1d


class LazyConv2d(_LazyConvolution, Conv2d):
    """Conv2d(out_channels, kernel_size, ...), whose in_channels are those of the first input."""

    plain = Conv2d


class LazyConvTranspose1d(_LazyConvolution, ConvTranspose1d):
    """ConvTranspose1d(out_channels, kernel_size, ...), whose in_channels are those of the first input."""

    plain = ConvTranspose1d


class LazyConvTranspose2d(_LazyConvolution, ConvTranspose2d):
    """ConvTranspose2d(out_channels, kernel_size, ...), whose in_channels are those of the first input."""

    plain = ConvTranspose2d


class LazyBatchNorm1d(BatchNorm1d):
    """BatchNorm1d(eps, ...), whose num_features are the channels of the first input."""

    plain: type[BatchNorm1d] = BatchNorm1d

    def __init__(self, *settings: Any, **named: Any):
        super().__init__(0, *settings, **named)

    def forward(self, input: Tensor) -> Tensor:
        self.num_features = input.shape[1]
        for tensor, fill in (
            (self.weight, ones),
            (self.running_var, ones),
            (self.bias, zeros),
            (self.running_mean, zeros),
        ):
            if tensor is not None:
                tensor.data = fill(self.num_features, dtype=tensor.dtype)
        self.__class__ = self.plain  # type: ignore[assignment]
        return self.forward(input)


class LazyBatchNorm2d(LazyBatchNorm1d, BatchNorm2d):
    """BatchNorm2d(eps, ...), whose num_features are the channels of the first input."""

    plain = BatchNorm2d
