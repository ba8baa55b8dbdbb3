"""Pooling as modules: each holds its settings and calls its twin in nn.functional."""

from __future__ import annotations

from typing import Any

from tinygrad_tf.nn import functional as F
from tinygrad_tf.nn.functional._sizes import Sizes, sizes_for
from tinygrad_tf.nn.module import Module
from tinygrad_tf.tensor import Tensor


class _MaxPool(Module):
    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ):
        super().__init__()
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self.padding, self.dilation = padding, dilation
        self.return_indices, self.ceil_mode = return_indices, ceil_mode

    def _settings(self) -> tuple[Any, ...]:
        return self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode, self.return_indices

    def extra_repr(self) -> str:
        sizes = f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"
        return f"{sizes}, dilation={self.dilation}, ceil_mode={self.ceil_mode}"


class MaxPool1d(_MaxPool):
    """The largest entry of every window of x (N, C, L)."""

    def forward(self, input: Tensor) -> Any:
        return F.max_pool1d(input, *self._settings())


class MaxPool2d(_MaxPool):
    """The largest entry of every window of images (N, C, H, W).

    >>> import tinygrad_tf as tg
    >>> MaxPool2d(2)(tg.zeros(1, 3, 6, 8)).shape
    torch.Size([1, 3, 3, 4])
    """

    def forward(self, input: Tensor) -> Any:
        return F.max_pool2d(input, *self._settings())


class MaxPool3d(_MaxPool):
    """The largest entry of every window of volumes (N, C, D, H, W)."""

    def forward(self, input: Tensor) -> Any:
        return F.max_pool3d(input, *self._settings())


class _AvgPool(Module):
    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ):
        super().__init__()
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self.padding, self.ceil_mode, self.count_include_pad = padding, ceil_mode, count_include_pad

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool1d(_AvgPool):
    """The mean of every window of x (N, C, L)."""

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ):
        size = sizes_for("AvgPool1d", "kernel_size", kernel_size, 1)
        steps = size if stride is None else sizes_for("AvgPool1d", "stride", stride, 1)
        super().__init__(size, steps, sizes_for("AvgPool1d", "padding", padding, 1, 0), ceil_mode, count_include_pad)

    def forward(self, input: Tensor) -> Tensor:
        settings = (self.stride, self.padding, self.ceil_mode, self.count_include_pad)
        return F.avg_pool1d(input, self.kernel_size, *settings)


class _AvgPoolNd(_AvgPool):
    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ):
        super().__init__(kernel_size, stride, padding, ceil_mode, count_include_pad)
        self.divisor_override = divisor_override

    def _settings(self) -> tuple[Any, ...]:
        windows = (self.kernel_size, self.stride, self.padding)
        return *windows, self.ceil_mode, self.count_include_pad, self.divisor_override


class AvgPool2d(_AvgPoolNd):
    """The mean of every window of images (N, C, H, W)."""

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool2d(input, *self._settings())


class AvgPool3d(_AvgPoolNd):
    """The mean of every window of volumes (N, C, D, H, W)."""

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool3d(input, *self._settings())


class _LPPool(Module):
    def __init__(self, norm_type: float, kernel_size: Any, stride: Sizes | None = None, ceil_mode: bool = False):
        super().__init__()
        self.norm_type, self.kernel_size, self.stride, self.ceil_mode = norm_type, kernel_size, stride, ceil_mode

    def extra_repr(self) -> str:
        sizes = f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}"
        return f"{sizes}, ceil_mode={self.ceil_mode}"


class LPPool1d(_LPPool):
    """(sum x^p)^(1/p) of every window of x (N, C, L), with p = norm_type."""

    def forward(self, input: Tensor) -> Tensor:
        return F.lp_pool1d(input, self.norm_type, self.kernel_size, self.stride, self.ceil_mode)


class LPPool2d(_LPPool):
    """(sum x^p)^(1/p) of every window of images (N, C, H, W), with p = norm_type."""

    def forward(self, input: Tensor) -> Tensor:
        return F.lp_pool2d(input, self.norm_type, self.kernel_size, self.stride, self.ceil_mode)


class _AdaptivePool(Module):
    def __init__(self, output_size: Any):
        super().__init__()
        self.output_size = output_size

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptivePool):
    """Means over windows that divide x (N, C, L) into `output_size` parts."""

    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_avg_pool1d(input, self.output_size)


class AdaptiveAvgPool2d(_AdaptivePool):
    """Means over windows that divide images (N, C, H, W) into `output_size` parts; None keeps an axis."""

    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_avg_pool2d(input, self.output_size)


class AdaptiveAvgPool3d(_AdaptivePool):
    """Means over windows that divide volumes (N, C, D, H, W) into `output_size` parts; None keeps an axis."""

    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_avg_pool3d(input, self.output_size)


class _AdaptiveMaxPool(_AdaptivePool):
    def __init__(self, output_size: Any, return_indices: bool = False):
        super().__init__(output_size)
        self.return_indices = return_indices


class AdaptiveMaxPool1d(_AdaptiveMaxPool):
    """The largest entries of windows that divide x (N, C, L) into `output_size` parts; if asked for, with places."""

    def forward(self, input: Tensor) -> Any:
        return F.adaptive_max_pool1d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool2d(_AdaptiveMaxPool):
    """The largest entries of windows that divide images (N, C, H, W) into `output_size` parts; see the function."""

    def forward(self, input: Tensor) -> Any:
        return F.adaptive_max_pool2d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool3d(_AdaptiveMaxPool):
    """The largest entries of windows that divide volumes (N, C, D, H, W) into `output_size` parts; see the function."""

    def forward(self, input: Tensor) -> Any:
        return F.adaptive_max_pool3d(input, self.output_size, self.return_indices)
