"""Eigenvalues, singular values and what is made of them, with their gradients.

A decomposition is computed once. Each of its parts is an operation of its own, which hands out what was `found` and has
a rule for its own gradient: the gradient of the whole is the sum, and a part that nobody uses adds nothing, not even
where its gradient does not exist. A rule that needs the other parts asks for them as operations, so that it can be
differentiated itself. Where two values are equal their vectors may be turned into each other: there is no gradient of
the vectors, and it is NaN, while the values still have one.

Sources: Giles, "An extended collection of matrix derivative results" (2008); Townsend, "Differentiating the singular
value decomposition" (2016); Seeger et al., "Auto-differentiating linear algebra" (2017); for the pseudoinverse Golub
and Pereyra, "The differentiation of pseudo-inverses and nonlinear least squares problems" (1973).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tinygrad_tf.engine import Tensor, alias, make, primitive
from tinygrad_tf.ops.linalg import _swap, decomposed, full_precision, matmul_, matrices, square_matrices


class Eigen(NamedTuple):
    """Ascending eigenvalues (..., N), and eigenvectors as columns (..., N, N)."""

    values: np.ndarray
    vectors: np.ndarray


class Singular(NamedTuple):
    """Left vectors as columns (..., M, K), descending singular values (..., K), right vectors as rows (..., K, N)."""

    left: np.ndarray
    values: np.ndarray
    right: np.ndarray


def _over_gaps(inner: Any, levels: Any) -> Any:
    """(inner - inner^T)[i, j] / (levels[j] - levels[i]), and 0 on the diagonal."""
    identity = np.eye(levels.shape[-1], dtype=levels.dtype.name)
    same = make(identity) if isinstance(levels, Tensor) else identity
    gaps = levels[..., None, :] - levels[..., None] + same
    return (inner - _swap(inner)) / gaps


def _scaled(columns: Any, factors: Any) -> Any:
    return columns * factors[..., None, :]


# --- symmetric matrices -----------------------------------------------------------------------------------------------


def _eigenvalues_rule(g: Any, x: Any, found: Eigen) -> Any:
    """With x = V diag(w) V^T: V diag(g) V^T."""
    vectors = _eigenvectors(x, found=found)
    return matmul_(_scaled(vectors, g), _swap(vectors))


def _eigenvectors_rule(g: Any, x: Any, found: Eigen) -> Any:
    """V (F * V^T g) V^T with F[i, j] = 1 / (w[j] - w[i]), of which only the symmetric part counts."""
    values, vectors = _eigenvalues(x, found=found), _eigenvectors(x, found=found)
    inner = _over_gaps(matmul_(_swap(vectors), g), values) * 0.5
    return matmul_(matmul_(vectors, inner), _swap(vectors))


@primitive(x=_eigenvalues_rule)
def _eigenvalues(x: np.ndarray, *, found: Eigen) -> np.ndarray:
    return found.values.copy()


@primitive(x=_eigenvectors_rule)
def _eigenvectors(x: np.ndarray, *, found: Eigen) -> np.ndarray:
    return found.vectors.copy()


def _eigen(name: str, x: Tensor, uplo: str) -> tuple[Tensor, Eigen]:
    """The tensor that the parts hang on, and what was found. No rule reads its elements: x may be written to later."""
    square_matrices(name, [x.array])
    if not isinstance(uplo, str) or uplo.upper() not in ("L", "U"):
        raise RuntimeError(f"{name}: UPLO must be 'L' or 'U', got {uplo!r}")
    return alias(x), Eigen(*decomposed(name, np.linalg.eigh, x.array, UPLO=uplo.upper()))


def eigh(x: Tensor, uplo: str = "L") -> tuple[Any, Any]:
    """The eigenvalues and eigenvectors of symmetric matrices, of which one triangle is read."""
    x, found = _eigen("eigh", x, uplo)
    return _eigenvalues(x, found=found), _eigenvectors(x, found=found)


def eigvalsh(x: Tensor, uplo: str = "L") -> Any:
    return _eigenvalues(*(pair := _eigen("eigvalsh", x, uplo))[:1], found=pair[1])


# --- singular values --------------------------------------------------------------------------------------------------


def _parts(x: Any, found: Singular) -> tuple[Any, Any, Any]:
    """U, s and V as operations on x: as many vectors as there are singular values, all of them columns."""
    count = found.values.shape[-1]
    left, right = _left(x, found=found)[..., :count], _right(x, found=found)[..., :count, :]
    return left, _singular_values(x, found=found), _swap(right)


def _rest(g: Any, vectors: Any) -> Any:
    """What of g lies outside of the space that the vectors span: (1 - U U^T) g."""
    return g - matmul_(vectors, matmul_(_swap(vectors), g))


def _singular_values_rule(g: Any, x: Any, found: Singular) -> Any:
    """With x = U diag(s) V^T: U diag(g) V^T."""
    left, _, right = _parts(x, found)
    return matmul_(_scaled(left, g), _swap(right))


def _vectors_rule(g: Any, own: Any, values: Any, other: Any) -> Any:
    """(U (F * (U^T g - g^T U)) diag(s) + (1 - U U^T) g / s) V^T, F[i, j] = 1 / (s[j]^2 - s[i]^2), for the vectors U."""
    inner = matmul_(own, _scaled(_over_gaps(matmul_(_swap(own), g), values * values), values))
    if own.shape[-2] > own.shape[-1]:
        inner = inner + _rest(g, own) / values[..., None, :]
    return matmul_(inner, _swap(other))


def _left_rule(g: Any, x: Any, found: Singular) -> Any:
    """Vectors beyond the singular values span what is left over; which of them do is arbitrary, and has no gradient."""
    left, values, right = _parts(x, found)
    return _vectors_rule(g[..., : values.shape[-1]], left, values, right)


def _right_rule(g: Any, x: Any, found: Singular) -> Any:
    """The rule of the left vectors, for x^T = V diag(s) U^T."""
    left, values, right = _parts(x, found)
    return _swap(_vectors_rule(_swap(g[..., : values.shape[-1], :]), right, values, left))


@primitive(x=_singular_values_rule)
def _singular_values(x: np.ndarray, *, found: Singular) -> np.ndarray:
    return found.values.copy()


@primitive(x=_left_rule)
def _left(x: np.ndarray, *, found: Singular) -> np.ndarray:
    return found.left.copy()


@primitive(x=_right_rule)
def _right(x: np.ndarray, *, found: Singular) -> np.ndarray:
    return found.right.copy()


def _singular(name: str, x: Tensor, full: bool) -> tuple[Tensor, Singular]:
    full_precision(name, matrices(name, [x.array]))
    return alias(x), Singular(*decomposed(name, np.linalg.svd, x.array, full_matrices=full))


def svd(x: Tensor, full: bool) -> tuple[Any, Any, Any]:
    """U, s and V^T with x = U diag(s) V^T; full: U and V are square."""
    x, found = _singular("svd", x, full)
    return _left(x, found=found), _singular_values(x, found=found), _right(x, found=found)


def svdvals(x: Tensor, name: str = "svdvals") -> Any:
    """The singular values, descending."""
    x, found = _singular(name, x, False)
    return _singular_values(x, found=found)


# --- what counts as 0, and the pseudoinverse --------------------------------------------------------------------------


def tolerance(name: str, x: np.ndarray, largest: np.ndarray, atol: Any, rtol: Any) -> np.ndarray:
    """Sizes (..., 1) up to which singular values count as 0: atol, or rtol times the largest if that is more.

    rtol is, if not given, the distance of 1 to the next number times the longer side, or 0 beside an atol.
    """
    absolute, relative = (t.array if isinstance(t, Tensor) else t for t in (atol, rtol))
    default = max(x.shape[-2:]) * float(np.finfo(x.dtype).eps)
    absolute = np.asarray(0.0 if absolute is None else absolute)
    relative = np.where(absolute > 0, 0.0, default) if relative is None else np.asarray(relative)
    return np.maximum(absolute[..., None], relative[..., None] * largest)


def singular_sizes(name: str, x: np.ndarray, hermitian: bool) -> np.ndarray:
    """The singular values, of symmetric matrices from their lower triangle."""
    if hermitian:
        square_matrices(name, [x])
        return np.abs(decomposed(name, np.linalg.eigvalsh, x))
    return decomposed(name, np.linalg.svd, x, compute_uv=False)


def matrix_rank(x: Tensor, atol: Any, rtol: Any, hermitian: bool) -> Any:
    """How many singular values do not count as 0."""
    full_precision("matrix_rank", matrices("matrix_rank", [x.array]))
    sizes = singular_sizes("matrix_rank", x.array, hermitian)
    least = tolerance("matrix_rank", x.array, sizes.max(-1, keepdims=True, initial=0.0), atol, rtol)
    return make(np.asarray((sizes > least).sum(-1)))


def _pinv_rule(g: Any, x: Any, result: Any) -> Any:
    """With P the result: (1 - x P) g^T P P^T + P^T P g^T (1 - P x) - P^T g P^T, as long as the rank stays the same."""
    back, turned = _swap(result), _swap(g)
    columns = matmul_(turned, matmul_(result, back))
    rows = matmul_(matmul_(back, result), turned)
    beyond = columns - matmul_(x, matmul_(result, columns)) + rows - matmul_(matmul_(rows, result), x)
    return beyond - matmul_(back, matmul_(g, back))


@primitive(x=_pinv_rule)
def pinv_(x: np.ndarray, *, atol: Any, rtol: Any, hermitian: bool) -> np.ndarray:
    """V diag(1 / s) U^T, with 0 for 1 / s where s counts as 0."""
    if hermitian:
        square_matrices("pinv", [x])
        values, vectors = decomposed("pinv", np.linalg.eigh, x)
        left, right = vectors, _swap(vectors)
    else:
        left, values, right = decomposed("pinv", np.linalg.svd, x, full_matrices=False)
    sizes = np.abs(values)
    counts = sizes > tolerance("pinv", x, sizes.max(-1, keepdims=True, initial=0.0), atol, rtol)
    inverse = np.where(counts, 1.0 / np.where(counts, values, 1.0), 0.0).astype(x.dtype)
    return _swap(right) * inverse[..., None, :] @ _swap(left)


def pinv(x: Tensor, atol: Any = None, rtol: Any = None, hermitian: bool = False) -> Any:
    """The pseudoinverse of Moore and Penrose."""
    full_precision("pinv", matrices("pinv", [x.array]))
    return pinv_(x, atol=atol, rtol=rtol, hermitian=hermitian)
