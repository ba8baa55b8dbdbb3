"""Convolutions as modules, and windows of images as columns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tinygrad_tf.creation import empty
from tinygrad_tf.nn import functional as F
from tinygrad_tf.nn import init
from tinygrad_tf.nn.functional._sizes import Sizes, sizes_for
from tinygrad_tf.nn.functional.convolution import ends_of
from tinygrad_tf.nn.module import Module
from tinygrad_tf.nn.parameter import Parameter
from tinygrad_tf.tensor import Tensor

PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


class _Convolution(Module):
    """What all convolutions have: settings, a weight and a bias, uniform within 1 / sqrt(fan in) at the start."""

    axes = 1
    transposed = False

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes | str = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ):
        super().__init__()
        name = type(self).__name__
        if groups < 1 or in_channels % groups or out_channels % groups:
            raise ValueError(
                f"{name}: groups must divide in_channels {in_channels} and out_channels {out_channels}, got {groups}"
            )
        if padding_mode not in PADDING_MODES:
            raise ValueError(f"{name}: padding_mode must be one of {PADDING_MODES}, got {padding_mode!r}")
        self.in_channels, self.out_channels, self.groups, self.padding_mode = (
            in_channels,
            out_channels,
            groups,
            padding_mode,
        )
        self.kernel_size = sizes_for(name, "kernel_size", kernel_size, self.axes)
        self.stride = sizes_for(name, "stride", stride, self.axes)
        self.dilation = sizes_for(name, "dilation", dilation, self.axes)
        ends_of(padding, name, self.kernel_size, self.dilation)  # checks it
        self.padding = padding if isinstance(padding, str) else sizes_for(name, "padding", padding, self.axes, 0)
        first, second = (in_channels, out_channels) if self.transposed else (out_channels, in_channels)
        self.weight = Parameter(empty(first, second // groups, *self.kernel_size, dtype=dtype, device=device))
        self.bias = Parameter(empty(out_channels, dtype=dtype)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        init.kaiming_uniform_(self.weight, a=math.sqrt(5.0))
        fan_in = math.prod(self.weight.shape[1:])
        if self.bias is not None and fan_in:
            init.uniform_(self.bias, -1.0 / math.sqrt(fan_in), 1.0 / math.sqrt(fan_in))

    def extra_repr(self) -> str:
        shown = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        none = (0,) * self.axes
        for name, usual in (("padding", none), ("dilation", (1,) * self.axes), ("output_padding", none), ("groups", 1)):
            if getattr(self, name, usual) != usual:
                shown += f", {name}={getattr(self, name)}"
        shown += "" if self.bias is not None else ", bias=False"
        return shown if self.padding_mode == "zeros" else f"{shown}, padding_mode={self.padding_mode}"

    def _padded(self, input: Tensor) -> tuple[Tensor, Any]:
        """The input, and the padding that is left to do: modes other than zeros are done here."""
        if self.padding_mode == "zeros":
            return input, self.padding
        ends = ends_of(self.padding, type(self).__name__, self.kernel_size, self.dilation)
        return F.pad(input, ends, mode=self.padding_mode), 0


class Conv1d(_Convolution):
    """Cross-correlation over x (N, in_channels, L): (N, out_channels, places).

    weight (out_channels, in_channels / groups, kernel_size), bias (out_channels).

    >>> import tinygrad_tf as tg
    >>> Conv1d(3, 5, kernel_size=3, padding=1)(tg.zeros(2, 3, 7)).shape
    torch.Size([2, 5, 7])
    """

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """The layer with other weights: what classes that change the weights on the way override or call."""
        x, padding = self._padded(input)
        return F.conv1d(x, weight, bias, self.stride, padding, self.dilation, self.groups)


class Conv2d(_Convolution):
    """Cross-correlation over images x (N, in_channels, H, W): (N, out_channels, rows, columns).

    weight (out_channels, in_channels / groups, *kernel_size), bias (out_channels).

    >>> import tinygrad_tf as tg
    >>> patches = Conv2d(3, 8, kernel_size=4, stride=4)
    >>> patches(tg.zeros(2, 3, 12, 8)).shape
    torch.Size([2, 8, 3, 2])
    """

    axes = 2

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """As Conv1d's."""
        x, padding = self._padded(input)
        return F.conv2d(x, weight, bias, self.stride, padding, self.dilation, self.groups)


class Conv3d(_Convolution):
    """Cross-correlation over volumes x (N, in_channels, D, H, W), as of a video or a scan.

    weight (out_channels, in_channels / groups, *kernel_size), bias (out_channels). Kernels take up to two axes: this
    one's windows are gathered in NumPy.

    >>> import tinygrad_tf as tg
    >>> Conv3d(1, 4, kernel_size=(1, 3, 3))(tg.zeros(2, 1, 5, 8, 8)).shape
    torch.Size([2, 4, 5, 6, 6])
    """

    axes = 3

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """As Conv1d's."""
        x, padding = self._padded(input)
        return F.conv3d(x, weight, bias, self.stride, padding, self.dilation, self.groups)


class _TransposedConvolution(_Convolution):
    transposed = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes = 0,
        output_padding: Sizes = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Sizes = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ):
        if padding_mode != "zeros":
            raise ValueError(f"{type(self).__name__}: padding_mode must be 'zeros', got {padding_mode!r}")
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, "zeros", device, dtype
        )
        self.output_padding = sizes_for(type(self).__name__, "output_padding", output_padding, self.axes, 0)

    def _settings(self, input: Tensor, output_size: Sequence[int] | None) -> tuple[Any, ...]:
        more = self.output_padding if output_size is None else self._padding_to(input, output_size)
        return self.stride, self.padding, more, self.groups, self.dilation

    def _padding_to(self, input: Tensor, output_size: Sequence[int]) -> tuple[int, ...]:
        """The output_padding that gives this size: a stride above 1 leaves several to choose from."""
        name, given = type(self).__name__, tuple(output_size)
        wanted = given[-self.axes :] if len(given) in (self.axes, input.ndim) else ()
        if len(wanted) != self.axes or input.ndim not in (self.axes + 1, self.axes + 2):
            raise ValueError(
                f"{name}: output_size must be {self.axes} integers or a whole shape of {input.ndim}, got {given}"
            )
        settings: Any = (input.shape[-self.axes :], self.stride, self.padding, self.dilation, self.kernel_size)
        least = [(n - 1) * s - 2 * p + d * (k - 1) + 1 for n, s, p, d, k in zip(*settings, strict=True)]
        if any(not a <= w < a + s for w, a, s in zip(wanted, least, self.stride, strict=True)):
            most = [a + s - 1 for a, s in zip(least, self.stride, strict=True)]
            raise ValueError(f"{name}: output_size must be from {least} to {most} for this input, got {wanted}")
        return tuple(w - a for w, a in zip(wanted, least, strict=True))


class ConvTranspose1d(_TransposedConvolution):
    """The adjoint of Conv1d: x (N, in_channels, L) to a longer (N, out_channels, L').

    A convolution with a stride takes several lengths to one; `output_size` says which of them comes back.

    >>> import tinygrad_tf as tg
    >>> layer = ConvTranspose1d(1, 1, kernel_size=3, stride=2)
    >>> layer(tg.zeros(1, 1, 4)).shape, layer(tg.zeros(1, 1, 4), output_size=[10]).shape
    (torch.Size([1, 1, 9]), torch.Size([1, 1, 10]))
    """

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        return F.conv_transpose1d(input, self.weight, self.bias, *self._settings(input, output_size))


class ConvTranspose2d(_TransposedConvolution):
    """The adjoint of Conv2d: images x (N, in_channels, H, W) to larger ones; output_size as of ConvTranspose1d."""

    axes = 2

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        return F.conv_transpose2d(input, self.weight, self.bias, *self._settings(input, output_size))


class ConvTranspose3d(_TransposedConvolution):
    """The adjoint of Conv3d: volumes x (N, in_channels, D, H, W) to larger ones; output_size as of ConvTranspose1d."""

    axes = 3

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        return F.conv_transpose3d(input, self.weight, self.bias, *self._settings(input, output_size))


# --- windows as columns -----------------------------------------------------------------------------------------------


class _Windows(Module):
    """Where the windows of images lie."""

    def __init__(self, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1):
        super().__init__()
        self.kernel_size, self.dilation, self.padding, self.stride = kernel_size, dilation, padding, stride

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, dilation={self.dilation}, padding={self.padding}, stride={self.stride}"


class Unfold(_Windows):
    """The windows of images (N, C, H, W) as columns: (N, C * Kh * Kw, places)."""

    def forward(self, input: Tensor) -> Tensor:
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)


class Fold(_Windows):
    """Sums the columns of `Unfold` up to images (N, C, *output_size)."""

    def __init__(
        self, output_size: Sizes, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1
    ):
        super().__init__(kernel_size, dilation, padding, stride)
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        return F.fold(input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}, {super().extra_repr()}"
