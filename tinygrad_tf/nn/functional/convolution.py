"""Convolutions: every window of the input is a column, and one product of the weight with all columns does them all."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tinygrad_tf import ops
from tinygrad_tf.nn.functional._sizes import Sizes, batched, sizes_for
from tinygrad_tf.ops.windows import Look, columns, count_windows, from_columns
from tinygrad_tf.tensor import Tensor


def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes | str = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """Cross-correlation of input (N, C, L) with weight (out, C / groups, K): (N, out, places).

    >>> from tinygrad_tf import tensor
    >>> conv1d(tensor([[[1.0, 2.0, 4.0]]]), tensor([[[-1.0, 1.0]]]))
    tensor([[[1., 2.]]])
    """
    return _convolved("conv1d", 1, input, weight, bias, stride, padding, dilation, groups)


def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes | str = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """Cross-correlation of input (N, C, H, W) with weight (out, C / groups, Kh, Kw): (N, out, rows, columns)."""
    return _convolved("conv2d", 2, input, weight, bias, stride, padding, dilation, groups)


def conv3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes | str = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """Cross-correlation of volumes input (N, C, D, H, W) with weight (out, C / groups, Kd, Kh, Kw)."""
    return _convolved("conv3d", 3, input, weight, bias, stride, padding, dilation, groups)


def ends_of(padding: Sizes | str, name: str, size: Sequence[int], dilation: Sequence[int]) -> list[int]:
    """The entries to add at both ends of each axis, last axis first, as `pad` wants them."""
    if isinstance(padding, str):
        if padding not in ("valid", "same"):
            raise ValueError(f"{name}: padding must be integers, 'valid' or 'same', got {padding!r}")
        total = [d * (k - 1) if padding == "same" else 0 for k, d in zip(size, dilation, strict=True)]
        return [n for t in reversed(total) for n in (t // 2, t - t // 2)]
    return [n for p in reversed(sizes_for(name, "padding", padding, len(size), 0)) for n in (p, p)]


def _convolved(
    name: str,
    count: int,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sizes,
    padding: Sizes | str,
    dilation: Sizes,
    groups: int,
) -> Tensor:
    x = batched(name, input, count)
    _check_weight(name, count, x, weight, groups)
    _check_bias(name, bias, weight.shape[0])
    steps = sizes_for(name, "stride", stride, count)
    spread = sizes_for(name, "dilation", dilation, count)
    size = tuple(weight.shape[2:])
    if padding == "same" and any(s != 1 for s in steps):
        raise ValueError(f"{name}: padding='same' needs stride 1, got {stride}")
    ends = ends_of(padding, name, size, spread)
    before = tuple(reversed(ends[::2]))
    lengths = tuple(n + sum(ends[2 * i : 2 * i + 2]) for i, n in zip(reversed(range(count)), x.shape[2:], strict=True))
    places = tuple(map(count_windows, lengths, size, steps, spread))
    if min(places) < 1:
        raise RuntimeError(
            f"{name}: a kernel of {size} with dilation {spread} does not fit into the padded input {lengths}"
        )
    fused = ops.convolution.convolution
    convolve = fused if ops.convolution.takes(x, weight, bias) else fused.reference
    y = convolve(x, weight, bias, look=Look(size, steps, spread, before, places), groups=groups)
    return y if input.ndim == x.ndim else y.squeeze(0)


def _check_bias(name: str, bias: Tensor | None, channels: int) -> None:
    if bias is not None and bias.array.shape != (channels,):
        raise RuntimeError(f"{name}: bias must have a number for each of {channels} channels, got {tuple(bias.shape)}")


def _check_weight(name: str, count: int, x: Tensor, weight: Tensor, groups: int) -> None:
    if weight.ndim != count + 2:
        raise RuntimeError(f"{name}: weight needs {count + 2} dimensions, got shape {tuple(weight.shape)}")
    if groups < 1 or x.shape[1] % groups or weight.shape[0] % groups:
        channels = f"{x.shape[1]} input channels and {weight.shape[0]} output channels"
        raise RuntimeError(f"{name}: groups must divide the {channels}, got {groups}")
    if weight.shape[1] * groups != x.shape[1]:
        raise RuntimeError(
            f"{name}: weight {tuple(weight.shape)} with groups={groups} wants {weight.shape[1] * groups} channels, got "
            f"input {tuple(x.shape)}"
        )


# --- transposed -------------------------------------------------------------------------------------------------------


def conv_transpose1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
) -> Tensor:
    """The adjoint of conv1d: input (N, C, L) with weight (C, out / groups, K)."""
    return _transposed("conv_transpose1d", 1, input, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_transpose2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
) -> Tensor:
    """The adjoint of conv2d: input (N, C, H, W) with weight (C, out / groups, Kh, Kw)."""
    return _transposed("conv_transpose2d", 2, input, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_transpose3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
) -> Tensor:
    """The adjoint of conv3d: input (N, C, D, H, W) with weight (C, out / groups, Kd, Kh, Kw)."""
    return _transposed("conv_transpose3d", 3, input, weight, bias, stride, padding, output_padding, groups, dilation)


def _transposed(
    name: str,
    count: int,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sizes,
    padding: Sizes,
    output_padding: Sizes,
    groups: int,
    dilation: Sizes,
) -> Tensor:
    """Every entry of the input adds its copy of the kernel to the output."""
    x = batched(name, input, count)
    channels = x.shape[1]
    if weight.ndim != count + 2 or weight.shape[0] != channels or groups < 1 or channels % groups:
        raise RuntimeError(
            f"{name}: weight must be ({channels}, out / groups, kernel) for input {tuple(x.shape)} and groups that "
            f"divide the channels, got {tuple(weight.shape)}, groups={groups}"
        )
    _check_bias(name, bias, weight.shape[1] * groups)
    steps, spread = sizes_for(name, "stride", stride, count), sizes_for(name, "dilation", dilation, count)
    cut, more = (
        sizes_for(name, "padding", padding, count, 0),
        sizes_for(name, "output_padding", output_padding, count, 0),
    )
    if any(m >= max(s, d) for m, s, d in zip(more, steps, spread, strict=True)):
        raise RuntimeError(f"{name}: output_padding must be below stride or dilation, got {output_padding}")
    size, places = tuple(weight.shape[2:]), tuple(x.shape[2:])
    found = tuple(
        s * (p - 1) + d * (k - 1) + 1 - 2 * c + o
        for s, p, d, k, c, o in zip(steps, places, spread, size, cut, more, strict=True)
    )
    if min(found) < 1:
        raise RuntimeError(f"{name}: nothing is left of the output, whose size would be {found}; lower the padding")
    fused = ops.convolution.transposed_convolution
    transpose = fused if ops.convolution.takes(x, weight, bias) else fused.reference
    shape, look = (x.shape[0], groups * weight.shape[1], *found), Look(size, steps, spread, cut, places)
    y = transpose(x, weight, bias, shape=shape, look=look, groups=groups)
    return y if input.ndim == x.ndim else y.squeeze(0)


# --- windows as columns -----------------------------------------------------------------------------------------------


def unfold(input: Tensor, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1) -> Tensor:
    """The windows of images (N, C, H, W) as columns: (N, C * Kh * Kw, places)."""
    x = batched("unfold", input, 2)
    size, spread = sizes_for("unfold", "kernel_size", kernel_size, 2), sizes_for("unfold", "dilation", dilation, 2)
    around, steps = sizes_for("unfold", "padding", padding, 2, 0), sizes_for("unfold", "stride", stride, 2)
    whole = tuple(n + 2 * p for n, p in zip(x.shape[2:], around, strict=True))
    places = tuple(map(count_windows, whole, size, steps, spread))
    if min(places) < 1:
        raise RuntimeError(f"unfold: no window of {size} fits into the padded input {whole}")
    seen = columns(x, look=Look(size, steps, spread, around, places))  # (C, *size, N, *places)
    found = seen.reshape(x.shape[1] * math.prod(size), x.shape[0], math.prod(places)).movedim(1, 0).contiguous()
    return found if input.ndim == 4 else found.squeeze(0)


def fold(
    input: Tensor,
    output_size: Sizes,
    kernel_size: Sizes,
    dilation: Sizes = 1,
    padding: Sizes = 0,
    stride: Sizes = 1,
) -> Tensor:
    """Sums the columns (N, C * Kh * Kw, places) of `unfold` up to images (N, C, *output_size)."""
    if input.ndim not in (2, 3):
        raise RuntimeError(f"fold: input must be (N, C * Kh * Kw, places), got shape {tuple(input.shape)}")
    given = input if input.ndim == 3 else input.unsqueeze(0)
    size, spread = sizes_for("fold", "kernel_size", kernel_size, 2), sizes_for("fold", "dilation", dilation, 2)
    steps, cut = sizes_for("fold", "stride", stride, 2), sizes_for("fold", "padding", padding, 2, 0)
    whole = tuple(n + 2 * p for n, p in zip(sizes_for("fold", "output_size", output_size, 2), cut, strict=True))
    places = tuple(map(count_windows, whole, size, steps, spread))
    if given.shape[1] % math.prod(size) or given.shape[2] != math.prod(places) or min(places) < 1:
        raise RuntimeError(
            f"fold: {places} windows of {size} want (N, C * {math.prod(size)}, {math.prod(places)}), "
            f"got {tuple(given.shape)}"
        )
    n, channels = given.shape[0], given.shape[1] // math.prod(size)
    seen = given.movedim(1, 0).reshape(channels, *size, n, *places)
    shape = n, channels, *(length - 2 * p for length, p in zip(whole, cut, strict=True))
    images = from_columns(seen, shape=shape, look=Look(size, steps, spread, cut, places))
    return images if input.ndim == 3 else images.squeeze(0)
