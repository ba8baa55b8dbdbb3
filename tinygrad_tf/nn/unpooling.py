"""What undoes max pooling, as modules: each holds its settings and calls its twin in nn.functional."""

from __future__ import annotations

from typing import Any

from tinygrad_tf.nn import functional as F
from tinygrad_tf.nn.functional._sizes import Sizes, sizes_for
from tinygrad_tf.nn.module import Module
from tinygrad_tf.tensor import Tensor


class _MaxUnpool(Module):
    def __init__(self, count: int, kernel_size: Sizes, stride: Sizes | None, padding: Sizes):
        super().__init__()
        name = type(self).__name__
        self.kernel_size = sizes_for(name, "kernel_size", kernel_size, count)
        self.stride = self.kernel_size if stride is None else sizes_for(name, "stride", stride, count)
        self.padding = sizes_for(name, "padding", padding, count, 0)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpool):
    """Puts what MaxPool1d(..., return_indices=True) kept back at its place, with 0 between.

    >>> import tinygrad_tf as tg
    >>> best, places = tg.nn.MaxPool1d(2, return_indices=True)(tg.tensor([[[1.0, 2.0, 4.0, 3.0]]]))
    >>> MaxUnpool1d(2)(best, places)
    tensor([[[0., 2., 4., 0.]]])
    """

    def __init__(self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0):
        super().__init__(1, kernel_size, stride, padding)

    def forward(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Tensor:
        return F.max_unpool1d(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class MaxUnpool2d(_MaxUnpool):
    """Puts what MaxPool2d(..., return_indices=True) kept back at its place in images (N, C, H, W), with 0 between."""

    def __init__(self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0):
        super().__init__(2, kernel_size, stride, padding)

    def forward(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Tensor:
        return F.max_unpool2d(input, indices, self.kernel_size, self.stride, self.padding, output_size)
