"""What channels do to their neighbours: norms over some of them, and new orders of groups."""

from __future__ import annotations

from tinygrad_tf.nn.functional.layers import pad
from tinygrad_tf.tensor import Tensor


def local_response_norm(input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """x / (k + alpha * mean of x^2 over `size` neighbouring channels)^beta; input (N, C, ...).

    Krizhevsky et al. (2012), section 3.3. Neighbours beyond the ends count as 0.

    >>> import tinygrad_tf as tg
    >>> local_response_norm(tg.full((1, 3, 1), 2.0), 3, alpha=3.0, beta=0.5).flatten()
    tensor([0.6667, 0.5547, 0.6667])
    """
    if input.ndim < 3:
        raise ValueError(f"local_response_norm: input must be (N, C, ...), got {tuple(input.shape)}")
    if size < 1:
        raise ValueError(f"local_response_norm: size must be above 0, got {size}")
    squares = pad((input * input).movedim(1, -1), (size // 2, (size - 1) // 2))
    means = squares.unfold(-1, size, 1).mean(-1).movedim(-1, 1)
    return input / (means * alpha + k) ** beta


def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """The channels (N, C, ...) of all groups in turn: the first of each, the second of each (Zhang et al., 2018).

    >>> import tinygrad_tf as tg
    >>> channel_shuffle(tg.arange(6).view(1, 6, 1), 2).flatten()
    tensor([0, 3, 1, 4, 2, 5])
    """
    if input.ndim < 3:
        raise RuntimeError(f"channel_shuffle: input must be (N, C, ...), got {tuple(input.shape)}")
    count, channels, *rest = input.shape
    if groups < 1 or channels % groups:
        raise RuntimeError(f"channel_shuffle: groups must divide the {channels} channels, got {groups}")
    return input.reshape(count, groups, channels // groups, *rest).transpose(1, 2).reshape(input.shape)
