"""Rows for linear algebra; part of the table in table.py.

Eigenvectors and singular vectors are determined up to their sign, and so they enter by functions that do not see it.
"""

from __future__ import annotations

from typing import Any

import tinygrad_tf as tg
from tinygrad_tf import Tensor
from tinygrad_tf.checks.table import Maker, normal, op


def well_posed(*shape: int) -> Maker:
    """Matrices whose singular values, and those of whose first columns, lie apart from each other and from 0."""

    def make(rng: Any) -> Any:
        entries = rng.normal(size=shape) * 0.3
        for i in range(min(shape[-2:])):
            entries[..., i, i] += 1.0 + i
        return entries

    return make


def symmetric(x: Tensor) -> Tensor:
    return x + x.mT


def projected(vectors: Tensor) -> Tensor:
    """The projections v v^T onto columns, each weighted by its number: these do not change with the sign of v."""
    return vectors * tg.arange(1, vectors.shape[-1] + 1).to(vectors.dtype) @ vectors.mT


def exponential(a: Tensor) -> Tensor:
    values, vectors = tg.linalg.eigh(symmetric(a))
    return vectors * values.exp().unsqueeze(-2) @ vectors.mT


def with_sines(a: Tensor) -> Tensor:
    left, values, right = tg.linalg.svd(a, full_matrices=False)
    return left * values.sin().unsqueeze(-2) @ right


def both_factors(a: Tensor) -> Tensor:
    q, r = tg.linalg.qr(a)
    return (q * q) @ r.cos()


def unpacked(a: Tensor) -> Tensor:
    permutation, lower, upper = tg.lu_unpack(*tg.linalg.lu_factor(a))
    return (permutation @ lower).sin() @ upper.cos()


def lower_and_upper(a: Tensor) -> Tensor:
    permutation, lower, upper = tg.linalg.lu(a)
    return permutation @ lower.cos() @ (upper * upper)


op("eigvalsh", lambda a: tg.linalg.eigvalsh(symmetric(a)), well_posed(2, 3, 3))
op("eigvalsh of one triangle", lambda a: tg.linalg.eigvalsh(symmetric(a), UPLO="U"), well_posed(3, 3))
op("eigh vectors", lambda a: projected(tg.linalg.eigh(symmetric(a)).eigenvectors), well_posed(2, 3, 3))
op("eigh both", exponential, well_posed(3, 3))
op("svdvals", tg.linalg.svdvals, well_posed(2, 3, 4))
op("svd left", lambda a: projected(tg.linalg.svd(a, full_matrices=False).U), well_posed(2, 4, 3))
op("svd right", lambda a: projected(tg.linalg.svd(a, full_matrices=False).Vh.mT), well_posed(3, 4))
op("svd full", lambda a: projected(tg.linalg.svd(a).U[..., :2]), well_posed(3, 2))
op("svd of all parts", with_sines, well_posed(2, 3, 3))
op("qr tall", both_factors, well_posed(2, 4, 3))
op("qr wide", both_factors, well_posed(2, 4))
op("qr complete", lambda a: tg.linalg.qr(a, "complete").Q, well_posed(3, 4))
op("cholesky upper", lambda a: tg.linalg.cholesky(a @ a.mT, upper=True), well_posed(3, 3))
op("cholesky_solve", lambda a, b: tg.cholesky_solve(b, a.tril()), well_posed(3, 3), normal(2, 3, 2))
op("cholesky_inverse", lambda a: tg.cholesky_inverse(a.triu(), upper=True), well_posed(3, 3))
op("pinv tall", tg.linalg.pinv, well_posed(2, 4, 3))
op("pinv wide", tg.linalg.pinv, well_posed(2, 4))
op("pinv hermitian", lambda a: tg.linalg.pinv(symmetric(a), hermitian=True), well_posed(3, 3))
op("lstsq tall", lambda a, b: tg.linalg.lstsq(a, b).solution, well_posed(4, 2), normal(4, 2))
op("lstsq wide", lambda a, b: tg.linalg.lstsq(a, b).solution, well_posed(2, 2, 3), normal(2, 2, 1))
op("lstsq residuals", lambda a, b: tg.linalg.lstsq(a, b, driver="gelsd").residuals, well_posed(4, 2), normal(4, 2))
op("solve from the right", lambda a, b: tg.linalg.solve(a, b, left=False), well_posed(3, 3), normal(2, 2, 3))
op(
    "solve_triangular",
    lambda a, b: tg.linalg.solve_triangular(a, b, upper=True),
    well_posed(2, 3, 3),
    normal(3, 2),
)
op(
    "solve_triangular from the right",
    lambda a, b: tg.linalg.solve_triangular(a, b, upper=False, left=False, unitriangular=True),
    well_posed(3, 3),
    normal(2, 3),
)
op("lu", lower_and_upper, well_posed(2, 3, 3))
op("lu_unpack", unpacked, well_posed(2, 3, 4))
op("lu tall", lower_and_upper, well_posed(4, 2))
op("lu wide", lower_and_upper, well_posed(2, 4))
op("lu_solve", lambda a, b: tg.linalg.lu_solve(*tg.linalg.lu_factor(a), b), well_posed(3, 3), normal(2, 3, 2))
op(
    "lu_solve transposed",
    lambda a, b: tg.linalg.lu_solve(*tg.linalg.lu_factor(a), b, left=False, adjoint=True),
    well_posed(3, 3),
    normal(2, 3),
)
op("matrix_norm nuc", lambda a: tg.linalg.matrix_norm(a, "nuc"), well_posed(2, 3, 4))
op("matrix_norm 2", lambda a: tg.linalg.norm(a, 2, dim=(0, 2), keepdim=True), well_posed(3, 3, 2))
op("matrix_norm -2", lambda a: tg.linalg.matrix_norm(a, -2), well_posed(3, 3))
op("matrix_norm 1", lambda a: tg.linalg.matrix_norm(a, 1), well_posed(3, 3))
op("cond", tg.linalg.cond, well_posed(3, 3))
op("det of a singular matrix", lambda a, b: tg.linalg.det(a.unsqueeze(1) @ b.unsqueeze(0)), normal(3), normal(3))
op("tensorinv", lambda a: tg.linalg.tensorinv(a.reshape(2, 3, 6), ind=2), well_posed(6, 6))
op("tensorsolve", lambda a, b: tg.linalg.tensorsolve(a.reshape(2, 2, 4), b), well_posed(4, 4), normal(2, 2))
op("vander", lambda a: tg.linalg.vander(a, N=4), normal(2, 3))
