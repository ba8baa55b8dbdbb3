"""Functions with PyTorch's names that are short compositions of others, and those of several tensors."""

from __future__ import annotations

import builtins
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, overload

import numpy as np

from tinygrad_tf.creation import arange, ones
from tinygrad_tf.dtypes import bool_
from tinygrad_tf.engine import expand, make
from tinygrad_tf.functions import get_default_dtype, stack
from tinygrad_tf.methods._tools import all_tensors, check_all, in_place, named, numpy_names, operand
from tinygrad_tf.methods.composed import as_methods
from tinygrad_tf.ops import elementwise, linalg, order, reduce, shape, special
from tinygrad_tf.tensor import Size, Tensor

# --- elementwise ------------------------------------------------------------------------------------------------------


def copysign(input: Tensor, other: Any) -> Tensor:
    """|input| with the sign of other, which may be -0.0."""
    return elementwise.copysign(input, operand(other))


def hypot(input: Tensor, other: Tensor) -> Tensor:
    """sqrt(input^2 + other^2)."""
    return special.hypot(input, other)


def fmax(input: Tensor, other: Tensor) -> Tensor:
    """The larger one of both; a number, where the other one is NaN. Of equal ones, input has the gradient."""
    return elementwise.where((input >= other) | (other != other), input, other)


def fmin(input: Tensor, other: Tensor) -> Tensor:
    """The smaller one of both; a number, where the other one is NaN. Of equal ones, input has the gradient."""
    return elementwise.where((input <= other) | (other != other), input, other)


def deg2rad(input: Tensor) -> Tensor:
    """Angles in degrees, in radians."""
    return input * (math.pi / 180.0)


def rad2deg(input: Tensor) -> Tensor:
    """Angles in radians, in degrees."""
    return input * (180.0 / math.pi)


def sinc(input: Tensor) -> Tensor:
    """sin(pi x) / (pi x), and 1 at 0."""
    return special.sinc(input)


def erfc(input: Tensor) -> Tensor:
    """1 - erf(x), exact where erf(x) is near 1, too."""
    return special.erfc(input)


def xlogy(input: Any, other: Any) -> Tensor:
    """input log(other), and 0 where input is 0."""
    if not isinstance(input, Tensor) and not isinstance(other, Tensor):
        raise TypeError(f"xlogy: needs a tensor, got {type(input).__name__} and {type(other).__name__}")
    return special.xlogy(operand(input), operand(other))


def heaviside(input: Tensor, values: Tensor) -> Tensor:
    """0 where input is negative, 1 where it is positive, `values` where it is 0."""
    return elementwise.where(input == 0, values, (input > 0).to(input.dtype))


def nextafter(input: Tensor, other: Tensor) -> Tensor:
    """The floating point number next to each of input, on the way to other; it has no gradient."""
    return make(np.asarray(np.nextafter(input.array, other.array)))


def fill(input: Tensor, value: Any) -> Tensor:
    """A tensor like input, full of one number; the gradient goes to value, if that is a tensor."""
    return input.clone().fill_(value)


def signbit(input: Tensor) -> Tensor:
    """Where the sign is negative, also that of -0.0."""
    return make(np.signbit(input.array))


def isposinf(input: Tensor) -> Tensor:
    """Where there is inf."""
    return input == math.inf


def isneginf(input: Tensor) -> Tensor:
    """Where there is -inf."""
    return input == -math.inf


def positive(input: Tensor) -> Tensor:
    """The tensor itself."""
    return input


def is_nonzero(input: Tensor) -> bool:
    """Whether the only element is not 0."""
    return bool(input)


# --- statistics, distances, integrals ---------------------------------------------------------------------------------


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


# --- axes -------------------------------------------------------------------------------------------------------------


def _at_least(n: int, tensors: tuple[Any, ...], widen: Any) -> Any:
    given = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)) else tensors
    all_tensors(f"atleast_{n}d", given)
    found = tuple(t if t.ndim >= n else widen(t) for t in given)
    return found[0] if len(found) == 1 and given is tensors else found


@overload
def atleast_1d(tensors: Tensor, /) -> Tensor: ...
@overload
def atleast_1d(*tensors: Any) -> tuple[Tensor, ...]: ...
def atleast_1d(*tensors: Any) -> Any:
    """Numbers as vectors of one element."""
    return _at_least(1, tensors, lambda t: t.reshape(1))


@overload
def atleast_2d(tensors: Tensor, /) -> Tensor: ...
@overload
def atleast_2d(*tensors: Any) -> tuple[Tensor, ...]: ...
def atleast_2d(*tensors: Any) -> Any:
    """Vectors as rows, numbers as (1, 1)."""
    return _at_least(2, tensors, lambda t: t.reshape(1, -1))


@overload
def atleast_3d(tensors: Tensor, /) -> Tensor: ...
@overload
def atleast_3d(*tensors: Any) -> tuple[Tensor, ...]: ...
def atleast_3d(*tensors: Any) -> Any:
    """Vectors as (1, n, 1), matrices as (m, n, 1)."""
    return _at_least(3, tensors, lambda t: t.unsqueeze(-1) if t.ndim == 2 else t.reshape(1, -1, 1))


def column_stack(tensors: Sequence[Tensor]) -> Tensor:
    """Side by side; vectors count as columns."""
    all_tensors("column_stack", tensors)
    return shape.cat([t.reshape(-1, 1) if t.ndim < 2 else t for t in tensors], 1)


def dstack(tensors: Sequence[Tensor]) -> Tensor:
    """One behind the other, along the third axis."""
    return shape.cat(list(atleast_3d(list(tensors))), 2)


def _equal_parts(name: str, input: Tensor, parts: Any, dim: int, least: int) -> None:
    """Refuse tensors of too few axes, and a number of parts that leaves a rest."""
    if input.ndim < least:
        raise RuntimeError(f"{name}: needs at least {least} dimension{'s' if least > 1 else ''}, got {input.ndim}")
    if isinstance(parts, int) and parts > 0 and input.size(dim) % parts:
        raise RuntimeError(f"{name}: dim {dim} of shape {tuple(input.shape)} has no {parts} equal parts; see chunk")


def hsplit(input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """Apart along the second axis, or the only one."""
    _equal_parts("hsplit", input, indices_or_sections, 0 if input.ndim == 1 else 1, 1)
    return input.tensor_split(indices_or_sections, 0 if input.ndim == 1 else 1)


def vsplit(input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """Apart along the first axis."""
    _equal_parts("vsplit", input, indices_or_sections, 0, 2)
    return input.tensor_split(indices_or_sections, 0)


def rot90(input: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """Turned k times by 90 degrees, from the first of both axes towards the second."""
    if len(dims) != 2 or input.ndim < 2:
        raise RuntimeError(f"rot90: needs two dims of a tensor that has as many, got dims {dims} of {input.ndim}")
    if (dims[0] - dims[1]) % input.ndim == 0:
        raise RuntimeError(f"rot90: needs two different dims, got {dims}")
    a, b = dims
    if k % 4 == 2:
        return input.flip((a, b))
    turned = input.flip((b,)).transpose(a, b) if k % 4 == 1 else input.transpose(a, b).flip((b,))
    return turned if k % 2 else input.clone()


def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    """The matrix with the flattened tensor on its diagonal."""
    return input.reshape(-1).diag_embed(offset)


def unravel_index(indices: Tensor, shape: Any) -> tuple[Tensor, ...]:
    """The indices along every axis of `shape` that numbers of elements stand for."""
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    return tuple(make(np.asarray(i)) for i in np.unravel_index(indices.array, sizes))


# --- products ---------------------------------------------------------------------------------------------------------


def inner(input: Tensor, other: Tensor) -> Tensor:
    """Sums of products over the last axes of both; a plain product where one has no axes."""
    if not input.ndim or not other.ndim:
        return input * other
    return linalg.tensordot(input, other, ([input.ndim - 1], [other.ndim - 1]))


def vdot(input: Tensor, other: Tensor) -> Tensor:
    """The sum of the products of two vectors' elements."""
    return input.dot(other)


def cross(input: Tensor, other: Tensor, dim: int | None = None) -> Tensor:
    """The cross product of vectors along `dim`, or along the first axis of 3 entries."""
    axis = next((i for i, n in enumerate(input.shape) if n == 3), 0) if dim is None else dim
    if not input.ndim or input.shape[axis] != 3 or other.shape[axis] != 3:
        shapes = f"{tuple(input.shape)} and {tuple(other.shape)}"
        raise RuntimeError(f"cross: needs 3 entries along dim {axis}, got {shapes}")
    (a, b, c), (x, y, z) = input.unbind(axis), other.unbind(axis)
    return stack([b * z - c * y, c * x - a * z, a * y - b * x], axis)


def chain_matmul(*matrices: Tensor) -> Tensor:
    """The product of all matrices, from left to right."""
    product = matrices[0]
    for m in matrices[1:]:
        product = product @ m
    return product


def matrix_power(input: Tensor, n: int) -> Tensor:
    """The product of n times the same square matrix; negative n: of its inverse."""
    if n < 0:
        return matrix_power(input.inverse(), -n)
    if not n:
        size = input.shape[-1]
        identity = make(np.broadcast_to(np.eye(size, dtype=input.array.dtype), input.array.shape).copy())
        chosen = make(np.ones((), bool))
        return elementwise.where(chosen, identity, input) if input.requires_grad else identity  # with the gradient 0
    half = matrix_power(input, n // 2) if n > 1 else None
    if half is None:
        return input
    return half @ half if n % 2 == 0 else half @ half @ input


def matrix_exp(input: Tensor) -> Tensor:
    """e^input of square matrices (..., N, N): the sum of input^k / k!.

    Taken of input / 2^s, so small that 16 terms are enough, and then squared s times (Moler and Van Loan, 2003).

    >>> from tinygrad_tf import tensor
    >>> A = tensor([[0.0, 1.0], [0.0, 0.0]])
    >>> matrix_exp(A)
    tensor([[1., 1.],
            [0., 1.]])
    """
    if input.dtype.itemsize == 2 and input.is_floating_point():
        return matrix_exp(input.float()).to(input.dtype)
    if input.ndim < 2 or input.shape[-1] != input.shape[-2] or input.array.dtype.kind != "f":
        raise RuntimeError(f"matrix_exp: input must be square matrices of floats, got shape {tuple(input.shape)}")
    size = float(np.abs(input.array).sum(-1, dtype=np.float64).max(initial=0.0))
    squarings = max(math.ceil(math.log2(size)) + 1, 0) if 0.0 < size < math.inf else 0
    part = input * 2.0**-squarings
    identity = matrix_power(input.detach(), 0)
    exponential = identity
    for k in builtins.range(16, 0, -1):
        exponential = identity + part @ exponential / k
    for _ in builtins.range(squarings):
        exponential = exponential @ exponential
    return exponential


# --- counting ---------------------------------------------------------------------------------------------------------


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


def range(start: float = 0, end: float | None = None, step: float = 1, **options: Any) -> Tensor:
    """As arange with `end` included; PyTorch advises against it."""
    start, end = (0, start) if end is None else (start, end)
    return arange(float(start), end + step / 2.0, step, **options)


# --- several tensors --------------------------------------------------------------------------------------------------


def broadcast_shapes(*shapes: Any) -> Size:
    """The shape that all of them broadcast to."""
    return Size(
        shape.broadcast_shapes("broadcast_shapes", *(tuple(s) if not isinstance(s, int) else (s,) for s in shapes))
    )


def broadcast_tensors(*tensors: Tensor) -> tuple[Tensor, ...]:
    """All of them as views of their common shape."""
    all_tensors("broadcast_tensors", tensors)
    common = shape.broadcast_shapes("broadcast_tensors", *(t.array.shape for t in tensors))
    return tuple(expand(t, shape=common) for t in tensors)


def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Tensor, ...]:
    """Coordinates of a grid; 'ij': the first vector varies along the first axis, 'xy': along the second."""
    vectors = list(tensors[0]) if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else list(tensors)
    all_tensors("meshgrid", vectors)
    if any(v.array.ndim > 1 or v.dtype != vectors[0].dtype for v in vectors):
        got = ", ".join(f"{v.dtype} of shape {tuple(v.shape)}" for v in vectors)
        raise RuntimeError(f"meshgrid: needs vectors of one dtype, got {got}")
    if indexing not in ("ij", "xy"):
        raise RuntimeError(f"meshgrid: indexing must be 'ij' or 'xy', got {indexing!r}")
    turn = indexing == "xy" and len(vectors) > 1
    if turn:
        vectors[:2] = vectors[1::-1]
    n = len(vectors)
    sizes = tuple(v.array.size for v in vectors)
    grids = [
        expand(v.reshape([-1 if i == k else 1 for i in builtins.range(n)]), shape=sizes) for k, v in enumerate(vectors)
    ]
    if turn:
        grids[:2] = grids[1::-1]
    return tuple(grids)


def cartesian_prod(*tensors: Tensor) -> Tensor:
    """All combinations of one element of each vector, a row each."""
    if len(tensors) == 1:
        return tensors[0]
    return shape.stack([g.reshape(-1) for g in meshgrid(*tensors)], 1)


def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """All choices of r elements of a vector, a row each."""
    if input.ndim != 1 or r < 0:
        raise RuntimeError(f"combinations: needs a vector and r from 0 on, got shape {tuple(input.shape)} and r = {r}")
    if not r:
        return input.new_empty(0)
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    rows = np.array(list(choose(builtins.range(input.numel()), r)), np.int64).reshape(-1, r)
    return input[make(rows)]


def block_diag(*tensors: Tensor) -> Tensor:
    """Matrices along the diagonal of a large one."""
    all_tensors("block_diag", tensors)
    matrices = [t.reshape(1, -1) if t.array.ndim < 2 else t for t in tensors]
    width = builtins.sum(m.size(1) for m in matrices)
    rows, column = [], 0
    for m in matrices:
        left, right = m.new_zeros(m.size(0), column), m.new_zeros(m.size(0), width - column - m.size(1))
        rows.append(shape.cat([left, m, right], 1))
        column += m.size(1)
    return shape.cat(rows, 0)


def tensordot(a: Tensor, b: Tensor, dims: Any = 2) -> Tensor:
    """Sum of products over axes of both: the last `dims` of a with the first of b, or those that two lists name."""
    return linalg.tensordot(a, b, dims)


# --- a part replaced --------------------------------------------------------------------------------------------------


def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """A copy of input with `src` in place of input.select(dim, index); gradients reach both.

    >>> select_scatter(ones(2, 2), ones(2) * 5.0, dim=0, index=1)
    tensor([[1., 1.],
            [5., 5.]])
    """
    return _with_part("select_scatter", input, lambda x: x.select(dim, index), src)


def slice_scatter(
    input: Tensor, src: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    """A copy of input with `src` in place of the slice start:end:step of axis dim; gradients reach both."""
    return _with_part("slice_scatter", input, lambda x: x.movedim(dim, 0)[start:end:step].movedim(0, dim), src)


def diagonal_scatter(input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """A copy of input with `src` in place of input.diagonal(offset, dim1, dim2); gradients reach both."""
    return _with_part("diagonal_scatter", input, lambda x: x.diagonal(offset, dim1, dim2), src)


def _with_part(name: str, input: Tensor, part: Callable[[Tensor], Tensor], src: Tensor) -> Tensor:
    """A copy of input, in which `part` finds the view that src is written to."""
    changed = input.clone()
    place = part(changed)
    if place.shape != src.shape:
        raise RuntimeError(
            f"{name}: src must have the shape of what it replaces, {tuple(place.shape)}, got {tuple(src.shape)}"
        )
    place.copy_(src)
    return changed


# Written out, so that type checkers and editors know it; a test holds it to the file.
# fmt: off
__all__ = [
    "atleast_1d", "atleast_2d", "atleast_3d", "block_diag", "broadcast_shapes", "broadcast_tensors", "cartesian_prod",
    "cdist", "chain_matmul", "column_stack", "combinations", "copysign", "corrcoef", "cosine_similarity", "cov",
    "cross", "cumulative_trapezoid", "deg2rad", "diagflat", "diagonal_scatter", "dist", "dstack", "erfc", "fill",
    "fmax", "fmin", "heaviside", "histogram", "hsplit", "hypot", "inner", "is_nonzero", "isneginf", "isposinf",
    "matrix_exp", "matrix_power", "meshgrid", "nextafter", "positive", "rad2deg", "range", "rot90", "select_scatter",
    "signbit", "sinc", "slice_scatter", "std_mean", "tensordot", "trapezoid", "trapz", "unravel_index", "var_mean",
    "vdot", "vsplit", "xlogy",
]
# fmt: on

check_all(__all__, globals())
as_methods(
    Tensor,
    "copysign corrcoef cov cross deg2rad diagflat diagonal_scatter dist erfc fmax fmin heaviside histogram hsplit "
    "hypot inner is_nonzero isneginf isposinf matrix_exp matrix_power nextafter positive rad2deg rot90 select_scatter "
    "signbit sinc slice_scatter vdot vsplit xlogy",
    globals(),
)
_in_place = {
    f"{name}_": in_place(globals()[name])
    for name in ("copysign", "deg2rad", "erfc", "heaviside", "hypot", "nextafter", "rad2deg", "sinc", "xlogy")
}
as_methods(Tensor, " ".join(_in_place), _in_place)
