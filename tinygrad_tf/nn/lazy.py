"""Layers that learn the size of their input from the first input they see, or from weights that are loaded into them
before, and are the plain layers from then on.

Their parameters exist from the start, without a shape, so that an optimiser may be made before the first forward.
"""

from __future__ import annotations

from typing import Any

from tinygrad_tf.creation import ones, zeros
from tinygrad_tf.nn.convolution import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
    _Convolution,
)
from tinygrad_tf.nn.linear import Linear
from tinygrad_tf.nn.module import Module
from tinygrad_tf.nn.norm import BatchNorm1d, BatchNorm2d, BatchNorm3d, _BatchNorm
from tinygrad_tf.nn.parameter import UninitializedParameter
from tinygrad_tf.tensor import Tensor


class _Lazy(Module):
    """What all lazy layers do; each says which size it lacks, and what it is made of once it is known."""

    plain: type[Module]

    def _await_size(self) -> None:
        for parameter in self._parameters.values():
            parameter.__class__ = UninitializedParameter

    def reset_parameters(self) -> None:
        """Nothing, before the size is known."""

    def _size_of(self, input: Tensor) -> int:
        """The size that was missing."""
        raise NotImplementedError

    def _size_in(self, weight: Tensor) -> int:
        """The size that was missing, from a weight (or a mean) that is loaded."""
        raise NotImplementedError

    def _take(self, size: int) -> None:
        """Make room for parameters of that size."""
        raise NotImplementedError

    def _become(self, size: int) -> None:
        self._take(size)
        self.__class__ = self.plain  # type: ignore[assignment]

    def forward(self, input: Tensor, *others: Any, **named: Any) -> Tensor:
        self._become(self._size_of(input))
        self.reset_parameters()
        return self.forward(input, *others, **named)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *others: Any) -> None:
        super()._load_from_state_dict(state_dict, prefix, *others)
        given = state_dict.get(f"{prefix}weight", state_dict.get(f"{prefix}running_mean"))
        if isinstance(given, Tensor) and given.numel():
            self._become(self._size_in(given))


class LazyLinear(_Lazy, Linear):
    """Linear, whose in_features are the last size of the first input.

    >>> import tinygrad_tf as tg
    >>> layer = LazyLinear(3)
    >>> layer(tg.zeros(2, 5)).shape, layer
    (torch.Size([2, 3]), Linear(in_features=5, out_features=3, bias=True))
    """

    plain = Linear

    def __init__(self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None):
        super().__init__(0, out_features, bias, device, dtype)
        self._await_size()

    def _size_of(self, input: Tensor) -> int:
        return input.shape[-1]

    def _size_in(self, weight: Tensor) -> int:
        return weight.shape[-1]

    def _take(self, size: int) -> None:
        self.in_features = size
        _materialize(self.weight, (self.out_features, size))
        _materialize(self.bias, (self.out_features,))


class _LazyConvolution(_Lazy, _Convolution):
    def __init__(self, out_channels: int, *settings: Any, **named: Any):
        super().__init__(0, out_channels, *settings, **named)
        self._await_size()

    def _size_of(self, input: Tensor) -> int:
        return input.shape[-1 - self.axes]

    def _size_in(self, weight: Tensor) -> int:
        return weight.shape[0] if self.transposed else weight.shape[1] * self.groups

    def _take(self, size: int) -> None:
        if size % self.groups:
            raise ValueError(f"{type(self).__name__}: groups must divide {size} channels, got {self.groups}")
        self.in_channels = size
        first, second = (size, self.out_channels) if self.transposed else (self.out_channels, size)
        _materialize(self.weight, (first, second // self.groups, *self.kernel_size))
        _materialize(self.bias, (self.out_channels,))


class LazyConv1d(_LazyConvolution, Conv1d):
    """Conv1d(out_channels, kernel_size, ...), whose in_channels are those of the first input."""

    plain = Conv1d


class LazyConv2d(_LazyConvolution, Conv2d):
    """Conv2d(out_channels, kernel_size, ...), whose in_channels are those of the first input."""

    plain = Conv2d


class LazyConv3d(_LazyConvolution, Conv3d):
    """Conv3d(out_channels, kernel_size, ...), whose in_channels are those of the first input."""

    plain = Conv3d


class LazyConvTranspose1d(_LazyConvolution, ConvTranspose1d):
    """ConvTranspose1d(out_channels, kernel_size, ...), whose in_channels are those of the first input."""

    plain = ConvTranspose1d


class LazyConvTranspose2d(_LazyConvolution, ConvTranspose2d):
    """ConvTranspose2d(out_channels, kernel_size, ...), whose in_channels are those of the first input."""

    plain = ConvTranspose2d


class LazyConvTranspose3d(_LazyConvolution, ConvTranspose3d):
    """ConvTranspose3d(out_channels, kernel_size, ...), whose in_channels are those of the first input."""

    plain = ConvTranspose3d


class _LazyBatchNorm(_Lazy, _BatchNorm):
    def __init__(self, *settings: Any, **named: Any):
        super().__init__(0, *settings, **named)
        self._await_size()

    def _size_of(self, input: Tensor) -> int:
        return input.shape[1]

    def _size_in(self, weight: Tensor) -> int:
        return weight.shape[0]

    def _take(self, size: int) -> None:
        self.num_features = size
        _materialize(self.weight, (size,))
        _materialize(self.bias, (size,))
        filled = ((self.weight, ones), (self.running_mean, zeros), (self.running_var, ones))
        for tensor, fill in filled:
            if tensor is not None:
                tensor.data = fill(size, dtype=tensor.dtype)


class LazyBatchNorm1d(_LazyBatchNorm, BatchNorm1d):
    """BatchNorm1d(eps, ...), whose num_features are the channels of the first input."""

    plain = BatchNorm1d


class LazyBatchNorm2d(_LazyBatchNorm, BatchNorm2d):
    """BatchNorm2d(eps, ...), whose num_features are the channels of the first input."""

    plain = BatchNorm2d


class LazyBatchNorm3d(_LazyBatchNorm, BatchNorm3d):
    """BatchNorm3d(eps, ...), whose num_features are the channels of the first input."""

    plain = BatchNorm3d


def _materialize(parameter: Any, shape: tuple[int, ...]) -> None:
    if isinstance(parameter, UninitializedParameter):
        parameter.materialize(shape)
