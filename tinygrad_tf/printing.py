"""How tensors print: PyTorch's form, `tensor([1., 2.], dtype=float64, requires_grad=True)`."""

from __future__ import annotations

from typing import Any

import numpy as np

PLAIN = {np.dtype(np.float32), np.dtype(np.int64), np.dtype(np.bool_)}


def tensor_repr(t: Any) -> str:
    array = t.array
    prefix = "tensor("
    body = np.array2string(array, separator=", ", precision=4, prefix=prefix, suppress_small=False, threshold=1000)
    if array.ndim == 0:
        body = f"{array.item():.4f}" if array.dtype.kind == "f" else str(array.item())
    parts = [body]
    if not array.size and array.ndim > 1:
        parts.append(f"size={array.shape}")
    if array.dtype not in PLAIN:
        parts.append(f"dtype={array.dtype}")
    node = t.grad_fn
    if node is not None:
        parts.append(f"grad_fn=<{node.name}>")
    elif t.requires_grad:
        parts.append("requires_grad=True")
    return prefix + ", ".join(parts) + ")"


def tensor_format(t: Any, spec: str) -> str:
    """A format such as :.4f applies to the number of a one-element tensor."""
    if spec and t.array.ndim == 0:
        return format(t.array.item(), spec)
    return format(repr(t), spec)
