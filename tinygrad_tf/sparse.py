"""Matrices that are mostly zeros, given by their entries, as lessons on graph networks write adjacency matrices.

They are kept whole: each function gives, and takes, ordinary tensors. What PyTorch has only of its sparse layout (their
`indices()` and `values()`) is not here.

>>> from tinygrad_tf import ones, tensor
>>> edges = tensor([[0, 1, 1], [1, 0, 2]])  # the row and the column of each entry
>>> mm(sparse_coo_tensor(edges, tensor([1.0, 0.5, 0.5]), (3, 3)), ones(3, 1))
tensor([[1.],
        [1.],
        [0.]])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tinygrad_tf.creation import as_tensor, zeros
from tinygrad_tf.functions import addmm, mm, sum
from tinygrad_tf.tensor import Tensor

__all__ = ["FloatTensor", "addmm", "mm", "sum"]  # sparse_coo_tensor stands in torch itself


def sparse_coo_tensor(
    indices: Any,
    values: Any,
    size: Sequence[int] | None = None,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    is_coalesced: bool | None = None,
) -> Tensor:
    """A tensor (size) that is 0 but for entry i of `values` (N, ...) at indices[:, i]; those at one place are added.

    indices: (D, N) whole numbers from 0 on. size: D lengths, and then the shape of an entry; by default the smallest
    that holds all. The values get gradients; with requires_grad, the result is a leaf that gets one.
    """
    places, entries = as_tensor(indices), as_tensor(values, dtype=dtype, device=device)
    if places.ndim != 2 or places.is_floating_point() or places.dtype.name == "bool":
        raise RuntimeError(
            f"sparse_coo_tensor: indices must be whole numbers of shape (dimensions, entries), "
            f"got {places.dtype} of shape {tuple(places.shape)}"
        )
    count = len(entries) if entries.ndim else None
    if count != places.shape[1]:
        raise RuntimeError(f"sparse_coo_tensor: {places.shape[1]} columns of indices, but values for {count} entries")
    least = (places.max(1).values + 1).tolist() if count else [0] * len(places)
    shape = [*least, *entries.shape[1:]] if size is None else [int(n) for n in size]
    if len(shape) != len(least) + entries.ndim - 1 or tuple(shape[len(least) :]) != tuple(entries.shape[1:]):
        wanted = (*least, *entries.shape[1:])
        raise RuntimeError(f"sparse_coo_tensor: size must have the form {wanted}, got {tuple(shape)}")
    if count and (places.min() < 0 or any(n > room for n, room in zip(least, shape, strict=False))):
        raise RuntimeError(f"sparse_coo_tensor: indices must lie within size {tuple(shape)}, got up to {least} less 1")
    found: Tensor = zeros(shape, dtype=entries.dtype).index_put(tuple(places), entries, accumulate=True)
    return found.detach().requires_grad_() if requires_grad else found


def FloatTensor(indices: Any, values: Any, size: Sequence[int] | None = None) -> Tensor:
    """sparse_coo_tensor of float32, by its older name."""
    return sparse_coo_tensor(indices, values, size, dtype="float32")
