"""Resizing as modules: each holds its settings and calls F.interpolate."""

from __future__ import annotations

from typing import Any

from tinygrad_tf.nn import functional as F
from tinygrad_tf.nn.module import Module
from tinygrad_tf.tensor import Tensor


class Upsample(Module):
    """x (N, C, L) or (N, C, H, W) at another size, given as such or by a factor; see F.interpolate."""

    def __init__(
        self,
        size: Any = None,
        scale_factor: Any = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ):
        super().__init__()
        factors = scale_factor if isinstance(scale_factor, (tuple, list)) else (scale_factor,)
        exact = tuple(None if factor is None else float(factor) for factor in factors)
        self.scale_factor: Any = exact if factors is scale_factor else exact[0]
        self.size, self.mode = size, mode
        self.align_corners, self.recompute_scale_factor = align_corners, recompute_scale_factor

    def forward(self, input: Tensor) -> Tensor:
        settings = (self.mode, self.align_corners, self.recompute_scale_factor)
        return F.interpolate(input, self.size, self.scale_factor, *settings)

    def extra_repr(self) -> str:
        how = f"size={self.size}" if self.scale_factor is None else f"scale_factor={self.scale_factor}"
        return f"{how}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """Upsample images by repeating pixels."""

    def __init__(self, size: Any = None, scale_factor: Any = None):
        super().__init__(size, scale_factor)


class UpsamplingBilinear2d(Upsample):
    """Upsample images along straight lines between pixels, with the corners at the corners."""

    def __init__(self, size: Any = None, scale_factor: Any = None):
        super().__init__(size, scale_factor, "bilinear", align_corners=True)
