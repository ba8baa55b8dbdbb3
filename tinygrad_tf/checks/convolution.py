"""Rows for convolutions, pooling and resizing; part of the table in table.py."""

from __future__ import annotations

import tinygrad_tf as tg
from tinygrad_tf import Tensor, nn
from tinygrad_tf.checks.table import layer, normal, op, positive, spread
from tinygrad_tf.nn import functional as F


def kept_at_their_places(x: Tensor) -> Tensor:
    best, places = F.max_pool1d(x, 2, return_indices=True)
    return F.max_unpool1d(best, places, 2, output_size=(x.shape[-1],))


def kept_in_images(x: Tensor) -> Tensor:
    best, places = F.max_pool2d(x, (2, 1), return_indices=True)
    return F.max_unpool2d(best * best, places, (2, 1))


op("unfold overlapping", lambda a: a.unfold(1, 3, 2), normal(2, 8))
op("conv1d", lambda x, w, b: F.conv1d(x, w, b, stride=2, padding=1), normal(2, 3, 7), normal(4, 3, 3), normal(4))
op("conv1d groups", lambda x, w, b: F.conv1d(x, w, b, groups=2), normal(4, 5), normal(6, 2, 2), normal(6))
op(
    "conv2d",
    lambda x, w, b: F.conv2d(x, w, b, stride=(1, 2), padding=(1, 0), dilation=(1, 2)),
    normal(2, 2, 4, 6),
    normal(3, 2, 2, 2),
    normal(3),
)
op("conv2d same", lambda x, w: F.conv2d(x, w, padding="same", groups=2), normal(1, 2, 3, 4), normal(2, 1, 2, 3))
op(
    "conv_transpose1d",
    lambda x, w, b: F.conv_transpose1d(x, w, b, stride=2, padding=1, output_padding=1, groups=2),
    normal(2, 4, 3),
    normal(4, 2, 3),
    normal(4),
)
op(
    "conv_transpose2d",
    lambda x, w: F.conv_transpose2d(x, w, stride=2, dilation=2),
    normal(1, 2, 2, 3),
    normal(2, 2, 2, 2),
)
op(
    "conv3d",
    lambda x, w, b: F.conv3d(x, w, b, stride=(1, 2, 1), padding=(0, 1, 1), dilation=(1, 1, 2), groups=2),
    normal(2, 2, 2, 3, 4),
    normal(4, 1, 2, 2, 2),
    normal(4),
)
op("conv3d same", lambda x, w: F.conv3d(x, w, padding="same"), normal(2, 2, 3, 2), normal(1, 2, 2, 1, 3))
op(
    "conv_transpose3d",
    lambda x, w, b: F.conv_transpose3d(x, w, b, stride=(2, 1, 2), padding=(0, 1, 0), output_padding=(1, 0, 0)),
    normal(1, 2, 2, 2, 2),
    normal(2, 1, 2, 2, 2),
    normal(1),
)
op("F.unfold", lambda x: F.unfold(x, (2, 3), dilation=(1, 2), padding=1, stride=2), normal(2, 2, 4, 5))
op("F.fold", lambda x: F.fold(x, (4, 5), 2, padding=(1, 0), stride=(2, 1)), normal(2, 8, 12))
op("max_pool1d", lambda x: F.max_pool1d(x, 3, stride=2, padding=1), spread(2, 2, 6))
op("max_pool2d", lambda x: F.max_pool2d(x, 2, stride=1, dilation=(2, 1), ceil_mode=True), spread(1, 2, 4, 4))
op("max_pool3d", lambda x: F.max_pool3d(x, (1, 2, 3), stride=1, padding=(0, 0, 1)), spread(1, 2, 2, 3, 3))
op("avg_pool1d", lambda x: F.avg_pool1d(x, 3, stride=2, padding=1, count_include_pad=False), normal(2, 2, 6))
op("avg_pool2d", lambda x: F.avg_pool2d(x, (2, 3), padding=1, ceil_mode=True), normal(1, 2, 4, 5))
op("avg_pool3d", lambda x: F.avg_pool3d(x, 2, (1, 2, 2), 1, True, False), normal(1, 2, 2, 3, 4))
op("adaptive_avg_pool1d", lambda x: F.adaptive_avg_pool1d(x, 3), normal(2, 2, 7))
op("adaptive_avg_pool2d", lambda x: F.adaptive_avg_pool2d(x, (2, None)), normal(2, 2, 5, 3))
op("adaptive_avg_pool3d", lambda x: F.adaptive_avg_pool3d(x, (2, None, 1)), normal(1, 2, 3, 2, 2))
op("adaptive_max_pool1d", lambda x: F.adaptive_max_pool1d(x, 3), spread(2, 2, 7))
op("adaptive_max_pool2d", lambda x: F.adaptive_max_pool2d(x, 2), spread(1, 2, 5, 4))
op("adaptive_max_pool3d", lambda x: F.adaptive_max_pool3d(x, (1, 2, 2)), spread(1, 2, 2, 3, 3))
op("interpolate nearest", lambda x: F.interpolate(x, scale_factor=1.7), normal(2, 2, 5))
op("interpolate linear", lambda x: F.interpolate(x, 7, mode="linear", align_corners=True), normal(2, 2, 4))
op("interpolate bilinear", lambda x: F.interpolate(x, scale_factor=(1.5, 0.6), mode="bilinear"), normal(1, 2, 4, 5))
op("interpolate bicubic", lambda x: F.interpolate(x, (6, 3), mode="bicubic"), normal(1, 1, 4, 5))
op("interpolate trilinear", lambda x: F.interpolate(x, (3, 4, 2), mode="trilinear"), normal(1, 2, 2, 3, 3))
op("interpolate volumes by means", lambda x: F.interpolate(x, (2, 1, 2), mode="area"), normal(1, 1, 3, 2, 4))
op(
    "interpolate antialias",
    lambda x: F.interpolate(x, (3, 4), mode="bicubic", antialias=True) * 2.0,
    normal(1, 2, 7, 5),
)
op("max_pool1d and back", kept_at_their_places, spread(2, 2, 7))
op("max_pool2d and back", kept_in_images, spread(1, 2, 4, 5))
op("lp_pool1d", lambda x: F.lp_pool1d(x, 3, 3, stride=2, ceil_mode=True), positive(2, 2, 6))
op("lp_pool2d", lambda x: F.lp_pool2d(x * x, 1.5, (2, 3)), positive(1, 2, 4, 5))
op(
    "grid_sample",
    lambda x, g: F.grid_sample(x, g.tanh(), align_corners=False),
    normal(2, 2, 3, 4),
    normal(2, 3, 2, 2),
)
op(
    "grid_sample of volumes, at the border",
    lambda x, g: F.grid_sample(x, g * 0.9, padding_mode="border", align_corners=True),
    normal(1, 2, 2, 3, 4),
    normal(1, 2, 1, 2, 3),
)
op(
    "grid_sample bicubic, mirrored",
    lambda x, g: F.grid_sample(x, g, "bicubic", "reflection", False),
    normal(1, 2, 4, 3),
    normal(1, 2, 3, 2),
)
op(
    "grid_sample nearest, mirrored",
    lambda x, g: F.grid_sample(x, g * 1.1, "nearest", "reflection", True) * g.sum(),
    normal(1, 2, 4, 3),
    normal(1, 2, 3, 2),
)
op(
    "grid_sample mirrored",
    lambda x, g: F.grid_sample(x, g * 2.0, "bilinear", "reflection", True),
    normal(1, 1, 4, 3),
    normal(1, 2, 3, 2),
)
op(
    "a spatial transformer",
    lambda x, a: F.grid_sample(x, F.affine_grid(a * 0.5, (2, 1, 3, 2), align_corners=False), align_corners=False),
    normal(2, 1, 4, 3),
    normal(2, 2, 3),
)
op("affine_grid of volumes", lambda a: F.affine_grid(a, (1, 1, 2, 1, 3), align_corners=True), normal(1, 3, 4))
op("pixel_shuffle", lambda x: F.pixel_shuffle(x, 2), normal(2, 8, 2, 3))
op("pixel_unshuffle", lambda x: F.pixel_unshuffle(x, 2), normal(2, 2, 4, 6))
layer("nn.Conv1d", lambda: nn.Conv1d(3, 4, 3, padding=2, padding_mode="circular"), normal(2, 3, 5))
layer("nn.Conv2d", lambda: nn.Conv2d(2, 4, 2, stride=2, groups=2), normal(2, 2, 4, 5))
layer("nn.ConvTranspose1d", lambda: nn.ConvTranspose1d(2, 3, 3, stride=2, output_padding=1), normal(2, 2, 3))
layer("nn.ConvTranspose2d", lambda: nn.ConvTranspose2d(2, 3, 2, padding=1, bias=False), normal(1, 2, 3, 3))
layer("nn.Conv3d", lambda: nn.Conv3d(2, 2, 2, padding=1, padding_mode="replicate"), normal(1, 2, 2, 2, 3))
layer("nn.ConvTranspose3d", lambda: nn.ConvTranspose3d(2, 1, (1, 2, 2), stride=2), normal(1, 2, 2, 1, 2))
layer(
    "nn.ConvTranspose2d to a size",
    lambda: nn.ConvTranspose2d(1, 2, 3, stride=2, padding=1),
    normal(1, 1, 2, 3),
    call=lambda m, x: m(x, output_size=(4, 5)),
)
layer(
    "volumes to classes",
    lambda: nn.Sequential(nn.Conv3d(1, 2, 2), nn.InstanceNorm3d(2), nn.Tanh(), nn.AvgPool3d((1, 2, 2)), nn.Flatten()),
    normal(2, 1, 3, 4, 3),
)
layer(
    "volumes to their largest",
    lambda: nn.Sequential(nn.MaxPool3d(2, 1), nn.AdaptiveMaxPool3d((1, 2, 1)), nn.AdaptiveAvgPool3d(1)),
    spread(1, 2, 2, 4, 3),
)
layer(
    "convolutional classifier",
    lambda: nn.Sequential(
        nn.ReflectionPad2d(1), nn.Conv2d(1, 2, 3), nn.Tanh(), nn.AvgPool2d(2), nn.Upsample(scale_factor=2), nn.Flatten()
    ),
    normal(2, 1, 4, 4),
)
layer(
    "characters through a convolution",
    lambda: nn.Sequential(nn.Conv1d(3, 4, 2), nn.GELU(), nn.AdaptiveMaxPool1d(1), nn.Flatten(), nn.Linear(4, 2)),
    spread(2, 3, 5),
)
layer("patches", lambda: nn.Unfold(2, stride=2), normal(1, 2, 4, 4), call=lambda m, x: m(x) * tg.ones(1, dtype=x.dtype))
