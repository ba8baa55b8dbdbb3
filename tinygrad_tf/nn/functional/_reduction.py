"""What losses share: the reduction of many numbers to one, and what shapes must be."""

from __future__ import annotations

import warnings

from tinygrad_tf.tensor import Tensor


def reduced(name: str, losses: Tensor, reduction: str) -> Tensor:
    """The mean or the sum of all entries, or the entries themselves."""
    if reduction == "mean":
        return losses.mean()
    if reduction == "sum":
        return losses.sum()
    if reduction != "none":
        raise ValueError(f"{name}: reduction must be 'mean', 'sum' or 'none', got {reduction!r}")
    return losses


def reduction_of(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """PyTorch's two old arguments, still found in tutorials, as a reduction."""
    if size_average is None and reduce is None:
        return reduction
    if isinstance(size_average, Tensor) or isinstance(reduce, Tensor):
        raise RuntimeError(
            "a loss is made with its options, and then called with input and target: nn.MSELoss()(input, target)"
        )
    new = "none" if reduce is False else "sum" if size_average is False else "mean"
    warnings.warn(f"size_average and reduce are deprecated, use reduction={new!r}", stacklevel=3)
    return new


def check_same_shape(name: str, input: Tensor, target: Tensor) -> None:
    """Refuse a target that would be broadcast."""
    if input.array.shape != target.array.shape:
        raise ValueError(f"{name}: target must have input's shape {input.array.shape}, got {target.array.shape}")


def as_numbers(target: Tensor, input: Tensor) -> Tensor:
    """Truths as the numbers 0 and 1, which can be subtracted."""
    return target.to(input.dtype) if target.array.dtype == bool else target


def warn_of_broadcasting(name: str, input: Tensor, target: Tensor) -> None:
    """Warn, as PyTorch does, of a target of another shape: broadcasting it is hardly ever meant."""
    if input.array.shape != target.array.shape:
        warnings.warn(
            f"{name}: input {input.array.shape} and target {target.array.shape} differ and are broadcast; "
            "give them the same shape",
            stacklevel=3,
        )
