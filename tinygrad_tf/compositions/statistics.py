"""Statistics, distances, integrals and counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from tinygrad_tf.creation import ones
from tinygrad_tf.dtypes import bool_
from tinygrad_tf.functions import cat, get_default_dtype, stack, where
from tinygrad_tf.methods._tools import check_all, named, numpy_names
from tinygrad_tf.methods.composed import as_methods
from tinygrad_tf.ops import linalg, order, reduce
from tinygrad_tf.tensor import Tensor


@numpy_names
def var_mean(
    input: Tensor, dim: Any = None, unbiased: bool = True, keepdim: bool = False, *, correction: int | None = None
) -> tuple[Tensor, Tensor]:
    """The variance, as of `var`, and the mean."""
    dim, unbiased = (None, dim) if isinstance(dim, bool) else (dim, unbiased)
    return input.var(dim, unbiased, keepdim, correction=correction), input.mean(dim, keepdim)


@numpy_names
def std_mean(
    input: Tensor, dim: Any = None, unbiased: bool = True, keepdim: bool = False, *, correction: int | None = None
) -> tuple[Tensor, Tensor]:
    """The standard deviation, as of `std`, and the mean."""
    dim, unbiased = (None, dim) if isinstance(dim, bool) else (dim, unbiased)
    return input.std(dim, unbiased, keepdim, correction=correction), input.mean(dim, keepdim)


def _observation_weights(name: str, weights: Tensor, count: int, floating: bool) -> None:
    """Refuse what is no weight for each of `count` observations."""
    if weights.ndim > 1 or weights.numel() != count:
        raise RuntimeError(f"cov: {name} must have one entry for each of {count} observations, got {weights.shape}")
    if weights.is_floating_point() is not floating or weights.dtype == bool_:
        wanted = "floating point numbers" if floating else "integers"
        raise RuntimeError(f"cov: {name} must be {wanted}, got {weights.dtype}")
    if count and weights.array.min() < 0:
        raise RuntimeError(f"cov: {name} must not be negative, got {weights.array.min()}")


def cov(
    input: Tensor, *, correction: int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None
) -> Tensor:
    """The covariances of the rows, which are variables; the columns are observations.

    fweights: how often each observation was made (integers); aweights: how much each of them counts.
    """
    if input.ndim > 2:
        raise RuntimeError(f"cov: needs at most two dimensions, got shape {tuple(input.shape)}")
    rows = input if input.is_floating_point() else input.to(get_default_dtype())
    rows = rows if input.ndim > 1 else rows.reshape(1, -1)
    for name, weights, floating in (("fweights", fweights, False), ("aweights", aweights, True)):
        if weights is not None:
            _observation_weights(name, weights, rows.size(1), floating)
    given = [w.reshape(-1) for w in (fweights, aweights) if w is not None]
    weight = math.prod(given[1:], start=given[0]) if given else ones(rows.size(1), dtype=rows.dtype)
    total = weight.sum()
    lost = correction if aweights is None or not correction else correction * (weight * aweights).sum() / total
    centred = rows - (rows * weight).sum(1, keepdim=True) / total
    return ((centred * weight) @ centred.t() / (total - lost).clamp(min=0)).squeeze()


def corrcoef(input: Tensor) -> Tensor:
    """The correlations of the rows."""
    found = cov(input)
    if not found.ndim:
        return found / found
    spread = found.diagonal().sqrt()
    return found / spread.unsqueeze(0) / spread.unsqueeze(1)


def dist(input: Tensor, other: Tensor, p: float = 2.0) -> Tensor:
    """The p-norm of the difference."""
    return reduce.norm(input - other, p)


def cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str = "use_mm_for_euclid_dist_if_necessary") -> Tensor:
    """The distance of each row of x1 (..., M, D) to each row of x2 (..., N, D).

    compute_mode, by which PyTorch may take products of matrices, is checked and changes nothing: differences are
    squared in every case, which is exact also for near rows.
    """
    modes = [f"use_mm_for_euclid_dist{end}" for end in ("_if_necessary", "")] + ["donot_use_mm_for_euclid_dist"]
    if compute_mode not in modes:
        raise ValueError(f"cdist: compute_mode must be one of {', '.join(modes)}, got {compute_mode!r}")
    if min(x1.ndim, x2.ndim) < 2:
        raise RuntimeError(f"cdist: x1 and x2 must be (..., rows, D), got {tuple(x1.shape)} and {tuple(x2.shape)}")
    return linalg.cdist(x1, x2, p)


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """x1 x2 / (|x1| |x2|) along dim, where no length counts as less than eps."""
    return linalg.cosine_similarity(x1, x2, dim, eps)


def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: float = 1.0, dim: int = -1) -> Tensor:
    """The integral of y along dim by the trapezoidal rule, at the points x or `dx` apart."""
    return _trapezoids(y, x, dx, dim).sum(dim)


trapz = trapezoid  # the older name


def cumulative_trapezoid(y: Tensor, x: Tensor | None = None, *, dx: float = 1.0, dim: int = -1) -> Tensor:
    """The integral of y along dim up to each point, by the trapezoidal rule."""
    return _trapezoids(y, x, dx, dim).cumsum(dim)


def _trapezoids(y: Tensor, x: Tensor | None, dx: float, dim: int) -> Tensor:
    n = y.size(dim)
    if not n:
        return y.narrow(dim, 0, 0)
    if x is not None and x.size(dim if x.ndim == y.ndim else -1) != n:
        raise RuntimeError(f"trapezoid: x must have a point for each of {n} values, got shape {tuple(x.shape)}")
    heights = (y.narrow(dim, 1, n - 1) + y.narrow(dim, 0, n - 1)) / 2.0
    return heights * (dx if x is None else x.diff(dim=dim))


def gradient(
    input: Tensor, *, spacing: Any = 1, dim: int | Sequence[int] | None = None, edge_order: int = 1
) -> tuple[Tensor, ...]:
    """The slopes of samples along each of `dim` (by default all): of the parabola through a point and its neighbours,
    and at both ends of the line (edge_order 1) or the parabola (2) through the last points.

    spacing: how far apart the points are, for all axes or one number for each, or their coordinates, a vector for each.

    >>> from tinygrad_tf import gradient, tensor
    >>> gradient(tensor([0.0, 1.0, 4.0, 9.0]))
    (tensor([1., 2., 4., 5.]),)
    """
    if edge_order not in (1, 2):
        raise RuntimeError(f"gradient: edge_order must be 1 or 2, got {edge_order!r}")
    axes = list(range(input.ndim)) if dim is None else [dim] if isinstance(dim, int) else list(dim)
    given = list(spacing) if isinstance(spacing, (list, tuple)) else [spacing] * len(axes)
    if len(given) != len(axes):
        raise RuntimeError(f"gradient: spacing must be one or {len(axes)}, one for each axis, got {len(given)}")
    values = input if input.is_floating_point() else input.to(get_default_dtype())
    return tuple(_slopes(values, apart, axis, edge_order) for axis, apart in zip(axes, given, strict=True))


def _slopes(y: Tensor, apart: Any, dim: int, edge_order: int) -> Tensor:
    n = y.size(dim)
    if n < edge_order + 1:
        raise RuntimeError(f"gradient: axis {dim} must have at least {edge_order + 1} points, got {n}")
    if isinstance(apart, Tensor) and apart.ndim:
        if apart.shape != (n,):
            raise RuntimeError(f"gradient: spacing must have {n} coordinates for axis {dim}, got {tuple(apart.shape)}")
        gaps = apart.to(y.dtype).diff()
    else:
        gaps = ones(n - 1, dtype=y.dtype) * apart
    gaps = gaps.reshape(-1, *(1,) * (y.ndim - 1 - dim % y.ndim))
    slopes = y.diff(dim=dim) / gaps  # of the lines between neighbours
    first, last = slopes.narrow(dim, 0, 1), slopes.narrow(dim, n - 2, 1)
    if n == 2:
        return cat([first, last], dim)
    left, right, low, high = slopes.narrow(dim, 0, n - 2), slopes.narrow(dim, 1, n - 2), gaps[:-1], gaps[1:]
    inner = (left * high + right * low) / (low + high)
    if edge_order == 2:
        first = first * 2.0 - inner.narrow(dim, 0, 1)
        last = last * 2.0 - inner.narrow(dim, n - 3, 1)
    return cat([first, inner, last], dim)


def nanquantile(
    input: Tensor, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:
    """As `quantile`, of the elements that are not NaN; NaN where there are none.

    >>> from tinygrad_tf import nanquantile, tensor
    >>> nanquantile(tensor([3.0, float("nan"), 1.0]), 0.5)
    tensor(2.)
    """
    shares = q if isinstance(q, Tensor) and q.ndim else None
    if shares is not None:
        return stack([nanquantile(input, s, dim, keepdim, interpolation=interpolation) for s in shares.tolist()])
    rows = input.reshape(-1) if dim is None else input.movedim(dim, -1)
    shape = rows.shape[:-1]
    found = [_of_numbers(row, q, interpolation) for row in rows.reshape(-1, rows.shape[-1])]
    result = stack(found).reshape(shape) if found else rows.sum(-1)
    if not keepdim:
        return result
    return result.reshape((1,) * input.ndim) if dim is None else result.unsqueeze(dim)


def _of_numbers(row: Tensor, q: Any, interpolation: str) -> Tensor:
    numbers = row[~row.isnan()]
    return numbers.quantile(q, interpolation=interpolation) if numbers.numel() else row[0]


def msort(input: Tensor) -> Tensor:
    """Sorted along the first axis."""
    return input.sort(0)[0]


def renorm(input: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """input, in which each part at one index of axis `dim` is scaled down so that its p-norm is at most maxnorm.

    >>> from tinygrad_tf import renorm, tensor
    >>> renorm(tensor([[3.0, 4.0], [0.3, 0.4]]), p=2, dim=0, maxnorm=1.0)
    tensor([[0.6000, 0.8000],
            [0.3000, 0.4000]])
    """
    if p <= 0 or maxnorm < 0:
        raise RuntimeError(f"renorm: p must be above 0 and maxnorm at least 0, got {p} and {maxnorm}")
    others = [axis for axis in range(input.ndim) if axis != dim % input.ndim]
    norms = input.norm(p, dim=others, keepdim=True) if others else input.abs()
    return input * where(norms > maxnorm, maxnorm / (norms + 1e-7), 1.0)


@named("histogram")
class _Histogram(NamedTuple):
    """What histogram returns: the counts, and the edges between which they were counted."""

    hist: Tensor
    bin_edges: Tensor


def histogram(
    input: Tensor,
    bins: Any = 100,
    *,
    range: tuple[float, float] | None = None,
    weight: Any = None,
    density: bool = False,
) -> _Histogram:
    """How many elements (or what weights) lie between the edges, and these edges; density: as parts of an area of 1."""
    return _Histogram(*order.histogram(input, bins, range, weight, density))


# fmt: off
__all__ = [
    "cdist", "corrcoef", "cosine_similarity", "cov", "cumulative_trapezoid", "dist", "gradient", "histogram",
    "msort", "nanquantile", "renorm", "std_mean", "trapezoid", "trapz", "var_mean",
]
# fmt: on

check_all(__all__, globals())
as_methods(Tensor, "corrcoef cov dist histogram msort nanquantile renorm", globals())
