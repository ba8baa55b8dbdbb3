"""A program on PyTorch and on this package: what it returns, with the gradients, and whether both agree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


def results(t: Any, function: Callable[..., Any], arrays: Sequence[np.ndarray], dtype: str) -> list[np.ndarray]:
    """What function(*leaves) returns on the library t, and the gradients of a fixed projection of all of it."""
    leaves = [t.tensor(np.ascontiguousarray(a.astype(dtype)), requires_grad=True) for a in arrays]
    found = function(*leaves)
    outputs = [found] if isinstance(found, t.Tensor) else found
    rng = np.random.default_rng(4)
    weights = [t.tensor(rng.normal(size=tuple(y.shape)).astype(y.detach().numpy().dtype)) for y in outputs]
    total = sum((y * w).sum() for y, w in zip(outputs, weights, strict=True) if y.requires_grad)
    gradients = t.autograd.grad(total, leaves, allow_unused=True) if isinstance(total, t.Tensor) else []
    return [y.detach().numpy() for y in outputs] + [np.zeros(0) if g is None else g.numpy() for g in gradients]


def assert_same(found: list[np.ndarray], wanted: list[np.ndarray], tolerance: float) -> None:
    """Of the same dtypes and shapes, and as close as that, where 1 is the size of what is small."""
    assert len(found) == len(wanted)
    for got, want in zip(found, wanted, strict=True):
        assert got.dtype == want.dtype and got.shape == want.shape
        scale = max(1.0, float(np.abs(want[np.isfinite(want)]).max(initial=0.0)))
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance * scale)
