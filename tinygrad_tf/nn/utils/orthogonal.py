"""Weights that stay orthogonal while they are trained (Lezcano-Casado, 2019)."""

from __future__ import annotations

from typing import Any

from tinygrad_tf import linalg
from tinygrad_tf.autograd import no_grad
from tinygrad_tf.creation import eye, randn, zeros
from tinygrad_tf.functions import cat
from tinygrad_tf.nn.module import Module
from tinygrad_tf.nn.utils import parametrize
from tinygrad_tf.tensor import Tensor

MAPS = ("matrix_exp", "cayley", "householder")


class _Orthogonal(Module):
    """An orthogonal matrix of any one, X (..., n, k): the transpose of that of X^T where n < k."""

    def __init__(self, shape: tuple[int, ...], orthogonal_map: str, use_trivialization: bool):
        super().__init__()
        self.shape, self.made_by, self.use_trivialization = shape, orthogonal_map, use_trivialization
        if use_trivialization:  # an orthogonal matrix (n, n) that the others are counted from
            self.register_buffer("base", None)

    def forward(self, X: Tensor) -> Tensor:
        wide = self.shape[-2] < self.shape[-1]
        tall = X.mT if wide else X
        made = _reflected(tall) if self.made_by == "householder" else _turned(tall, self.made_by)
        if self.use_trivialization:
            made = self.base @ made
        return made.mT if wide else made

    @no_grad()
    def right_inverse(self, weight: Tensor) -> Tensor:
        """X for a weight: -I, once the base is the orthogonal matrix nearest in its columns' order to the weight."""
        if tuple(weight.shape) != self.shape:
            raise ValueError(f"orthogonal: the weight must have the shape {self.shape}, got {tuple(weight.shape)}")
        if not self.use_trivialization:
            raise NotImplementedError("orthogonal: without use_trivialization the weight cannot be set")
        tall = weight.mT if weight.shape[-2] < weight.shape[-1] else weight
        *batch, n, k = tall.shape
        if n != k:
            tall = cat([tall, randn(*batch, n, n - k, dtype=tall.dtype)], -1)
        Q, R = linalg.qr(tall)
        self.base = Q * R.diagonal(0, -2, -1).sign().unsqueeze(-2)
        return (-eye(*weight.shape[-2:], dtype=weight.dtype)).expand(weight.shape).clone()


def _turned(X: Tensor, made_by: str) -> Tensor:
    """The first k columns of e^A, or of (I - A / 2)^-1 (I + A / 2), with A = L - L^T of the lower triangle L of X."""
    *batch, n, k = X.shape
    lower = X.tril() if n == k else cat([X.tril(), zeros(*batch, n, n - k, dtype=X.dtype)], -1)
    skew = lower - lower.mT
    if made_by == "matrix_exp":
        return linalg.matrix_exp(skew)[..., :k]
    one = eye(n, dtype=X.dtype)
    return linalg.solve(one - skew / 2, one + skew / 2)[..., :k]


def _reflected(X: Tensor) -> Tensor:
    """The first k columns of reflections one after the other, each along a column of X below the diagonal, with a 1 on
    it; their signs are X's diagonal."""
    n, k = X.shape[-2:]
    one = eye(n, k, dtype=X.dtype)
    along = X.tril(-1) + one
    Q = one
    for i in reversed(range(k)):
        v = along[..., i : i + 1]
        Q = Q - 2 / (v * v).sum(-2, keepdim=True) * v @ (v.mT @ Q)
    return Q * X.diagonal(0, -2, -1).detach().trunc().unsqueeze(-2)


def orthogonal(
    module: Module, name: str = "weight", orthogonal_map: str | None = None, *, use_trivialization: bool = True
) -> Any:
    """Keep a weight (..., n, k) orthogonal: its rows or columns, whichever are fewer, have length 1 and right angles.

    orthogonal_map: how it is made of the parameter that is trained: "matrix_exp", "cayley" or "householder"; None: the
    first for square weights, the last for others. use_trivialization: count from the weight that was set last, so that
    it starts from the weight that is there.

    >>> from tinygrad_tf import dist, eye, nn
    >>> weight = orthogonal(nn.Linear(4, 4)).weight
    >>> bool(dist(weight @ weight.T, eye(4)) < 1e-5)
    True
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"orthogonal: {type(module).__name__} has no parameter or buffer {name!r}")
    if weight.ndim < 2:
        raise ValueError(f"orthogonal: {name} must be a matrix or several, got shape {tuple(weight.shape)}")
    if orthogonal_map is None:
        orthogonal_map = "matrix_exp" if weight.shape[-2] == weight.shape[-1] else "householder"
    if orthogonal_map not in MAPS:
        raise ValueError(f"orthogonal: orthogonal_map must be one of {', '.join(MAPS)}, got {orthogonal_map!r}")
    part = _Orthogonal(tuple(weight.shape), orthogonal_map, use_trivialization)
    return parametrize.register_parametrization(module, name, part, unsafe=True)
