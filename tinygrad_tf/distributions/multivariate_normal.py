"""The normal distribution of vectors, whose entries depend on each other."""

from __future__ import annotations

import math
from typing import Any

from tinygrad_tf import linalg
from tinygrad_tf.compositions import broadcast_shapes
from tinygrad_tf.distributions import constraints
from tinygrad_tf.distributions.distribution import Distribution, either, of_support, standard_normal
from tinygrad_tf.functions import broadcast_to
from tinygrad_tf.tensor import Tensor


class MultivariateNormal(Distribution):
    """Vectors (..., k) with mean `loc` and one of: covariance_matrix, precision_matrix (its inverse), scale_tril: the
    lower triangular L with covariance L L^T; each (..., k, k).

    >>> import tinygrad_tf as tg
    >>> MultivariateNormal(tg.zeros(2), tg.eye(2)).log_prob(tg.zeros(2))
    tensor(-1.8379)
    """

    support = constraints.real_vector

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ):
        given = {
            "covariance_matrix": covariance_matrix,
            "precision_matrix": precision_matrix,
            "scale_tril": scale_tril,
        }
        either("MultivariateNormal", **given)
        ((name, matrix),) = [(name, matrix) for name, matrix in given.items() if matrix is not None]
        if not isinstance(loc, Tensor) or not loc.ndim or not isinstance(matrix, Tensor) or matrix.ndim < 2:
            raise ValueError(
                f"MultivariateNormal: needs tensors, loc of shape (..., k) and {name} of shape (..., k, k)"
            )
        batch = broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        size = loc.shape[-1]
        self.loc = broadcast_to(loc, (*batch, size))
        matrix = broadcast_to(matrix, (*batch, size, size))
        self.shown = ("loc", name)
        setattr(self, name, matrix)
        if validate_args is not False:
            self._check_matrix(name, matrix)
        if name == "precision_matrix":
            matrix = linalg.inv(matrix)
        self._tril = matrix if name == "scale_tril" else linalg.cholesky(matrix)
        super().__init__(batch, (size,), validate_args)

    def _check_matrix(self, name: str, matrix: Tensor) -> None:
        if name == "scale_tril":
            right = bool((matrix == matrix.tril()).all()) and bool((matrix.diagonal(0, -2, -1) > 0).all())
            wanted = "lower triangular with a positive diagonal"
        else:
            right, wanted = matrix.allclose(matrix.mT, atol=1e-6), "symmetric"
        if not right:
            raise ValueError(f"MultivariateNormal: {name} must be {wanted}, got {matrix.tolist()!s:.80}")

    def __getattr__(self, name: str) -> Any:
        """The forms of the matrix that were not given."""
        if name == "scale_tril":
            return self._tril
        if name == "covariance_matrix":
            return self._tril @ self._tril.mT
        if name == "precision_matrix":
            return linalg.inv(self.covariance_matrix)
        raise AttributeError(f"MultivariateNormal has no {name}")

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        noise = standard_normal(self._extended(sample_shape), self.loc)
        return self.loc + (self._tril @ noise.unsqueeze(-1)).squeeze(-1)

    @of_support
    def log_prob(self, value: Tensor) -> Tensor:
        whitened = linalg.solve(self._tril, (value - self.loc).unsqueeze(-1)).squeeze(-1)
        constant = self.event_shape[0] * math.log(2 * math.pi)
        return -0.5 * (constant + (whitened**2).sum(-1)) - self.half_log_det()

    def half_log_det(self) -> Tensor:
        """Half of the logarithm of the covariance's determinant."""
        return self._tril.diagonal(0, -2, -1).log().sum(-1)

    @property
    def mode(self) -> Tensor:
        return self.loc

    def entropy(self) -> Tensor:
        return 0.5 * self.event_shape[0] * (1.0 + math.log(2 * math.pi)) + self.half_log_det()

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return (self._tril**2).sum(-1)
