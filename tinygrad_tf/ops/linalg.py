"""Matrix products, inverses, determinants and systems of equations."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinygrad_tf import kernels
from tinygrad_tf.engine import Tensor, cast, computed, expand, make, mode, primitive
from tinygrad_tf.ops._precision import lowered
from tinygrad_tf.ops._precision import state as precision
from tinygrad_tf.ops._types import as_factor, axis, category
from tinygrad_tf.ops.elementwise import div, mul, together, where
from tinygrad_tf.ops.reduce import norm, sum
from tinygrad_tf.ops.shape import broadcast_shapes, permute, reshape, unsqueeze
from tinygrad_tf.regions import wide


def _swap(x: Any) -> Any:
    """The transpose of the last two axes."""
    if type(x) is np.ndarray:
        return x.swapaxes(-1, -2)
    n = x.ndim
    return permute(x, dims=(*range(n - 2), n - 1, n - 2))


def _check(name: str, arrays: list[Any]) -> list[Any]:
    a, b = arrays
    if a.shape[-1] != b.shape[-2]:
        raise RuntimeError(
            f"matmul: inner sizes must agree, got {a.shape} @ {b.shape}: {a.shape[-1]} against {b.shape[-2]}"
        )
    if a.shape[:-2] != b.shape[:-2]:
        broadcast_shapes("matmul: the batch axes of both", a.shape[:-2], b.shape[:-2])
    return _alike("matmul", arrays)


def _alike(name: str, arrays: list[Any]) -> list[Any]:
    a, b = arrays
    if a.dtype == bool:
        raise RuntimeError(f"{name}: not for bool tensors; turn them into numbers with .float() or .long()")
    if a.dtype != b.dtype:
        raise RuntimeError(f"{name}: both must have the same dtype, got {a.dtype} and {b.dtype}; cast one with .to()")
    return arrays


def _equally_long(name: str, arrays: list[Any]) -> list[Any]:
    a, b = arrays
    if a.shape != b.shape:
        raise RuntimeError(f"{name}: inner sizes must agree, got {a.shape} @ {b.shape}")
    return _alike(name, arrays)


@primitive(prepare=_equally_long, a=lambda g, b: g * b, b=lambda g, a: g * a)
def dot_(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The sum of the products of the elements of two vectors; 16-bit numbers are multiplied and summed in float32."""
    kind = wide(a.dtype)
    products = mul.forward(a.astype(kind, copy=False), b.astype(kind, copy=False))
    return np.add.reduce(products, dtype=kind).astype(a.dtype, copy=False)


@primitive(prepare=_check, a=lambda g, b: matmul_(g, _swap(b)), b=lambda g, a: matmul_(_swap(a), g))
def matmul_(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The product of (stacks of) matrices, at least two dimensions each."""
    if a.dtype.itemsize == 2 and category(a.dtype) == 2:  # 16 bits: products are summed in float32
        if a.dtype.kind == "V" and not mode.reference:  # the bfloat16 of ml_dtypes
            return kernels.matmul.product_of_bfloat16(a, b, rounded=True)
        wide = [kernels.cast.cast(x, np.float32) for x in (a, b)]
        product = np.matmul(*wide) if mode.reference else kernels.matmul.matmul(*wide)
        return kernels.cast.cast(product, a.dtype)
    if a.dtype.kind != "f" or mode.reference:
        return np.matmul(a, b)
    return kernels.matmul.matmul(a, b)


def matmul(a: Tensor, b: Tensor) -> Any:
    """PyTorch's matmul: vectors are taken as a row on the left, as a column on the right."""
    if precision.dtype is not None:
        return _lowered_matmul(a, b)
    if not isinstance(b, Tensor) or not isinstance(a, Tensor):
        raise TypeError(f"matmul: both operands must be tensors, got {type(a).__name__} and {type(b).__name__}")
    m, n = a.array.ndim, b.array.ndim
    if m == 0 or n == 0:
        raise RuntimeError(f"matmul: both operands need at least one dimension, got {a.array.shape} @ {b.array.shape}")
    if m == 1 and n == 1:
        return dot_(a, b)
    if m == 1:
        a = reshape(a, shape=(1, *a.array.shape))
    if n == 1:
        b = reshape(b, shape=(*b.array.shape, 1))
    out = matmul_(a, b)
    shape = out.array.shape
    if m == 1 or n == 1:
        out = reshape(out, shape=shape[:-2] + (shape[-1:] if m == 1 else shape[-2:-1]))
    return out


_lowered_matmul = lowered(matmul)


def _sized(name: str, t: Any, ndim: int) -> None:
    if not isinstance(t, Tensor) or t.array.ndim != ndim:
        found = f"shape {t.array.shape}" if isinstance(t, Tensor) else type(t).__name__
        raise RuntimeError(
            f"{name}: needs tensors of {ndim} dimension{'s' if ndim > 1 else ''}, got {found}; see matmul"
        )


@lowered
def mm(a: Tensor, b: Tensor) -> Any:
    """The product of two matrices."""
    _sized("mm", a, 2)
    _sized("mm", b, 2)
    return matmul_(a, b)


@lowered
def bmm(a: Tensor, b: Tensor) -> Any:
    """Products of the matrices of two stacks, which must be equally high."""
    _sized("bmm", a, 3)
    _sized("bmm", b, 3)
    if a.array.shape[0] != b.array.shape[0]:
        raise RuntimeError(f"bmm: both stacks must have the same height, got {a.array.shape} and {b.array.shape}")
    return matmul_(a, b)


def mv(a: Tensor, b: Tensor) -> Any:
    """A matrix times a vector."""
    _sized("mv", a, 2)
    _sized("mv", b, 1)
    return matmul(a, b)


def dot(a: Tensor, b: Tensor) -> Any:
    """The sum of the products of the elements of two vectors."""
    _sized("dot", a, 1)
    _sized("dot", b, 1)
    return matmul(a, b)


def outer(a: Tensor, b: Tensor) -> Any:
    """out[i][j] = a[i] b[j]."""
    _sized("outer", a, 1)
    _sized("outer", b, 1)
    return unsqueeze(a, 1) * b


def addmm(x: Any, a: Tensor, b: Tensor, beta: Any = 1, alpha: Any = 1) -> Any:
    """beta x + alpha a @ b."""
    return weighted_sum("addmm", x, mm(a, b), beta, alpha)


def baddbmm(x: Any, a: Tensor, b: Tensor, beta: Any = 1, alpha: Any = 1) -> Any:
    """beta x + alpha a @ b for stacks of matrices."""
    return weighted_sum("baddbmm", x, bmm(a, b), beta, alpha)


def weighted_sum(name: str, x: Any, product: Any, beta: Any, alpha: Any) -> Any:
    """beta x + alpha product, in the product's shape; what counts 0 times may be NaN."""
    own, shape = x.array.shape, product.array.shape
    if len(own) > len(shape) or any(m not in (1, n) for m, n in zip(reversed(own), reversed(shape), strict=False)):
        raise RuntimeError(f"{name}: input must broadcast to the product's shape {shape}, got {own}")
    beta, alpha = (
        as_factor(name, what, factor, wide(product.array.dtype)) for what, factor in (("beta", beta), ("alpha", alpha))
    )
    return _times(x, beta) + _times(product, alpha)


def _times(x: Any, factor: Any) -> Any:
    if isinstance(factor, (int, float)) and factor == 0:
        x, factor = where(make(np.zeros((), bool)), x, 0), 1
    return x if factor == 1 else x * factor


def tensordot(a: Tensor, b: Tensor, dims: Any = 2) -> Any:
    """Sum of products over axes of both: the last `dims` of a with the first of b, or those that two lists name."""
    if isinstance(dims, int):
        if not 0 <= dims <= min(a.array.ndim, b.array.ndim):
            raise RuntimeError(f"tensordot: {dims} axes are not there in shapes {a.array.shape} and {b.array.shape}")
        dims = range(a.array.ndim - dims, a.array.ndim), range(dims)
    first, second = ([d] if isinstance(d, int) else list(d) for d in dims)
    first, second = ([axis("tensordot", d, t.array.ndim) for d in ds] for t, ds in ((a, first), (b, second)))
    pairs = list(zip(first, second, strict=False))
    if len(first) != len(second) or any(1 != a.array.shape[i] != b.array.shape[j] != 1 for i, j in pairs):
        raise RuntimeError(f"tensordot: dims {first}, {second} do not fit shapes {a.array.shape} and {b.array.shape}")
    for i, j in pairs:  # an axis of one entry meets them all
        if a.array.shape[i] != b.array.shape[j]:
            a = cast(sum(a, i, keepdim=True), dtype=a.array.dtype) if b.array.shape[j] == 1 else a
            b = cast(sum(b, j, keepdim=True), dtype=b.array.dtype) if a.array.shape[i] == 1 else b
    rows = [d for d in range(a.array.ndim) if d not in first]
    columns = [d for d in range(b.array.ndim) if d not in second]
    inner = int(np.prod([a.array.shape[d] for d in first], dtype=np.int64))
    shape = (*(a.array.shape[d] for d in rows), *(b.array.shape[d] for d in columns))
    left = reshape(permute(a, dims=(*rows, *first)), shape=(a.array.size // max(inner, 1), inner))
    right = reshape(permute(b, dims=(*second, *columns)), shape=(inner, b.array.size // max(inner, 1)))
    return reshape(matmul_(left, right), shape=shape)


def kron(a: Tensor, b: Tensor) -> Any:
    """The Kronecker product: every element of a times the whole of b."""
    n = max(a.array.ndim, b.array.ndim)
    p, q = ((1,) * (n - t.array.ndim) + t.array.shape for t in (a, b))
    spread = reshape(a, shape=tuple(k for size in p for k in (size, 1)))
    wide = spread * reshape(b, shape=tuple(k for size in q for k in (1, size)))
    return reshape(wide, shape=tuple(i * j for i, j in zip(p, q, strict=True)))


def cdist(a: Tensor, b: Tensor, p: float = 2.0) -> Any:
    """The distance of each row of a (..., M, D) to each row of b (..., N, D): (..., M, N)."""
    if p < 0:
        raise RuntimeError(f"cdist: p must not be negative, got {p}")
    return norm(unsqueeze(a, -2) - unsqueeze(b, -3), p, -1)


def cosine_similarity(a: Tensor, b: Tensor, dim: int = 1, eps: float = 1e-8) -> Any:
    """a b / (|a| |b|) along dim, where no length counts as less than eps."""
    a, b = together(a, b)
    common = broadcast_shapes("cosine_similarity", a.array.shape, b.array.shape)
    both = [t if t.array.shape == common else expand(t, shape=common) for t in (a, b)]
    lengths = [norm(t, 2.0, dim, keepdim=True) for t in both]
    unit_a, unit_b = (div(t, n.clamp(min=eps)) for t, n in zip(both, lengths, strict=True))
    return (unit_a * unit_b).sum(dim)


# --- inverses, determinants and systems of equations ------------------------------------------------------------------


class LinAlgError(RuntimeError):
    """What has no answer, or none that was found: the inverse of a singular matrix, the singular values of NaN."""


def matrices(name: str, arrays: list[Any]) -> list[Any]:
    """The arrays, the first of which holds matrices."""
    if arrays[0].ndim < 2:
        raise RuntimeError(f"{name}: needs (stacks of) matrices, got shape {arrays[0].shape}")
    return arrays


def square_matrices(name: str, arrays: list[Any]) -> list[Any]:
    """The arrays, the first of which holds square matrices; all are float32 or float64."""
    a = arrays[0]
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise RuntimeError(f"{name}: needs (stacks of) square matrices, got shape {a.shape}")
    return full_precision(name, arrays)


def full_precision(name: str, arrays: list[Any]) -> list[Any]:
    for a in arrays:
        if a.dtype not in (np.float32, np.float64):
            raise RuntimeError(f"{name}: needs float32 or float64, got {a.dtype}; use .float()")
        if a.dtype != arrays[0].dtype:
            raise RuntimeError(f"{name}: all must have the same dtype, got {arrays[0].dtype} and {a.dtype}; use .to()")
    return arrays


def decomposed(name: str, function: Any, *arrays: np.ndarray, **options: Any) -> Any:
    """What one of NumPy's functions finds, with its complaints in one line that names the operation."""
    try:
        return computed(function, arrays, options)
    except np.linalg.LinAlgError as error:
        shapes = " and ".join(str(a.shape) for a in arrays)
        unknown = "" if all(np.isfinite(a).all() for a in arrays) else ", which has NaN or infinite entries"
        raise LinAlgError(f"{name}: {str(error).rstrip('.')}; input of shape {shapes}{unknown}") from None


def known(name: str, function: Any, x: np.ndarray, *others: np.ndarray) -> np.ndarray:
    """`decomposed`, with NaN for matrices that hold a NaN: to LAPACK they look singular."""
    unknown = np.isnan(x).any((-2, -1), keepdims=True)
    if not unknown.any():
        return np.asarray(decomposed(name, function, x, *others))
    found = decomposed(name, function, np.where(unknown, np.eye(x.shape[-1], dtype=x.dtype), x), *others)
    return np.where(unknown if found.ndim >= x.ndim else unknown[..., 0, 0], x.dtype.type(np.nan), found)


@primitive(prepare=square_matrices, x=lambda g, result: -matmul_(_swap(result), matmul_(g, _swap(result))))
def inv(x: np.ndarray) -> np.ndarray:
    return known("inv", np.linalg.inv, x)


def _cofactors(x: Any) -> Any:
    """d det(x) / d x without the inverse, for matrices that have none: det of what is left without row i and column j.

    For arrays by way of x = U diag(s) V^T: those of diag(s) are products of all values but one. That is fast, but its
    gradient does not exist where two of the values are equal, and so Tensors take the n^2 small determinants.
    """
    n = x.shape[-1]
    if isinstance(x, Tensor):
        others = np.array([[k for k in range(n) if k != i] for i in range(n)], np.int64).reshape(n, n - 1)
        signs = make((1.0 - 2.0 * (np.indices((n, n)).sum(0) % 2)).astype(x.array.dtype))
        return det(x[..., make(others[:, None, :, None]), make(others[None, :, None, :])]) * signs  # type: ignore[index]
    left, values, right = decomposed("det", np.linalg.svd, x)
    rest = np.where(np.eye(n, dtype=bool), 1.0, values[..., None, :]).prod(-1)
    turn = np.linalg.det(left) * np.linalg.det(right)
    return (left * (rest * turn[..., None])[..., None, :] @ right).astype(x.dtype)


def _det_rule(g: Any, x: Any, result: Any) -> Any:
    value = result.array if isinstance(result, Tensor) else result
    if (value != 0).all():
        return _swap(inv(x)) * (g * result)[..., None, None]
    return _cofactors(x) * g[..., None, None]


@primitive(prepare=square_matrices, x=_det_rule)
def det(x: np.ndarray) -> np.ndarray:
    return known("det", np.linalg.det, x)


def _solvable(name: str, arrays: list[Any]) -> list[Any]:
    a, b = square_matrices(name, arrays)
    if b.ndim < 2 or b.shape[-2] != a.shape[-1]:
        raise RuntimeError(f"{name}: matrices of shape {a.shape} and right sides of shape {b.shape} do not fit")
    broadcast_shapes(f"{name}: the batch axes of both", a.shape[:-2], b.shape[:-2])
    return arrays


@primitive(
    prepare=_solvable,
    a=lambda g, a, result: -matmul_(_solve(_swap(a), g), _swap(result)),
    b=lambda g, a: _solve(_swap(a), g),
)
def _solve(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return known("solve", np.linalg.solve, a, b)


def solve(a: Tensor, b: Tensor, left: bool = True) -> Any:
    """The x of a @ x = b, for vectors or matrices b; left=False: of x @ a = b."""
    if b.array.ndim == 1 or b.array.shape == a.array.shape[:-1]:
        if not left:
            raise RuntimeError(f"solve: left=False is for matrices B, got vectors of shape {b.array.shape}")
        return _solve(a, unsqueeze(b, -1))[..., 0]
    if left:
        return _solve(a, b)
    if b.array.ndim < 2:
        _solvable("solve", [a.array, b.array])
    return _swap(_solve(_swap(a), _swap(b)))
