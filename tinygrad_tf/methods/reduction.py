"""Methods that reduce, run along or sort axes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple, overload

from tinygrad_tf import engine
from tinygrad_tf.dtypes import array_dtype
from tinygrad_tf.methods._tools import in_place, named, numpy_names
from tinygrad_tf.ops import elementwise, matrix_norms, order, reduce, scan
from tinygrad_tf.ops._types import axes, axis
from tinygrad_tf.ops.shape import cat

if TYPE_CHECKING:
    from tinygrad_tf.tensor import Tensor

Dim = int | tuple[int, ...] | list[int] | None


class ValuesIndices(NamedTuple):
    """What max, sort and topk along a dimension return: the elements, and where they were."""

    values: Tensor
    indices: Tensor


PAIRS: dict[str, Any] = {
    name: named(name)(type(name, (ValuesIndices,), {"__slots__": (), "__doc__": ValuesIndices.__doc__}))
    for name in ("max", "min", "sort", "topk", "kthvalue", "median", "nanmedian", "mode", "cummax", "cummin")
}


@named("aminmax")
class MinMax(NamedTuple):
    """What aminmax returns: the smallest and the largest elements."""

    min: Tensor
    max: Tensor


def _cast(x: Any, dtype: Any) -> Any:
    return x if dtype is None else engine.cast(x, dtype=array_dtype(dtype))


def _total(function: Any, x: Any, dtype: Any, *args: Any, **options: Any) -> Any:
    """A sum or product of x in `dtype`, which integers would otherwise leave for int64."""
    if dtype is None:
        return function(x, *args, **options)
    return _cast(function(_cast(x, dtype), *args, **options), dtype)


def _correction(unbiased: Any, correction: int | None) -> int:
    return int(unbiased) if correction is None else correction


class ReductionMethods(engine.Tensor):
    __slots__ = ()

    # --- sums and the like ----------------------------------------------------------------------------------------

    @numpy_names
    def sum(self, dim: Dim = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
        """The sum over all axes, or those in dim; integers add up in int64."""
        return _total(reduce.sum, self, dtype, dim, keepdim)

    @numpy_names
    def nansum(self, dim: Dim = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
        """The sum without NaN."""
        return _total(reduce.nansum, self, dtype, dim, keepdim)

    @numpy_names
    def mean(self, dim: Dim = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
        """The mean over all axes, or those in dim."""
        return reduce.mean(_cast(self, dtype), dim, keepdim)

    @numpy_names
    def nanmean(self, dim: Dim = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
        """The mean without NaN."""
        return reduce.nanmean(_cast(self, dtype), dim, keepdim)

    @numpy_names
    def prod(self, dim: int | None = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
        """The product of all elements, or along dim; integers multiply in int64."""
        return _total(reduce.prod, self, dtype, dim, keepdim)

    @numpy_names
    def var(
        self, dim: Any = None, unbiased: bool = True, keepdim: bool = False, *, correction: int | None = None
    ) -> Tensor:
        """The mean squared distance from the mean, over n - correction (n - 1 if unbiased)."""
        if isinstance(dim, bool):  # var(False)
            dim, unbiased = None, dim
        return reduce.var(self, dim, _correction(unbiased, correction), keepdim)

    @numpy_names
    def std(
        self, dim: Any = None, unbiased: bool = True, keepdim: bool = False, *, correction: int | None = None
    ) -> Tensor:
        """The square root of var; its derivative at 0 is taken as 0."""
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        return reduce.std(self, dim, _correction(unbiased, correction), keepdim)

    @numpy_names
    def norm(self, p: float | str | None = "fro", dim: Dim = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
        """(sum |x|^p)^(1/p); its derivative at 0 is taken as 0. p = "nuc": the sum of a matrix's singular values."""
        if p == "nuc":
            matrix = range(self.array.ndim) if dim is None else dim
            return matrix_norms.matrix_norm(_cast(self, dtype), p, tuple(matrix), keepdim)  # type: ignore[arg-type]
        return reduce.norm(_cast(self, dtype), p, dim, keepdim)

    @numpy_names
    def logsumexp(self, dim: Dim, keepdim: bool = False) -> Tensor:
        """log sum exp(x) without overflow."""
        return reduce.logsumexp(self, dim, keepdim)

    @numpy_names
    def any(self, dim: Dim = None, keepdim: bool = False) -> Tensor:
        """Whether any element is true, that is, not 0."""
        return reduce.any_(self, dim, keepdim)

    @numpy_names
    def all(self, dim: Dim = None, keepdim: bool = False) -> Tensor:
        """Whether all elements are true, that is, not 0."""
        return reduce.all_(self, dim, keepdim)

    @numpy_names
    def count_nonzero(self, dim: Dim = None) -> Tensor:
        """How many elements are not 0."""
        return reduce.count_nonzero(self, dim)

    # --- extrema --------------------------------------------------------------------------------------------------

    @numpy_names
    def amax(self, dim: Dim = None, keepdim: bool = False) -> Tensor:
        """The largest elements; equal ones share the gradient."""
        return reduce.amax(self, dims=axes("amax", dim, self.array.ndim), keepdim=keepdim)

    @numpy_names
    def amin(self, dim: Dim = None, keepdim: bool = False) -> Tensor:
        """The smallest elements; equal ones share the gradient."""
        return reduce.amin(self, dims=axes("amin", dim, self.array.ndim), keepdim=keepdim)

    def aminmax(self, *, dim: int | None = None, keepdim: bool = False) -> MinMax:
        """The smallest and the largest elements of all, or along dim."""
        dims = axes("aminmax", dim, self.array.ndim)
        return MinMax(reduce.amin(self, dims=dims, keepdim=keepdim), reduce.amax(self, dims=dims, keepdim=keepdim))

    @overload
    def max(self) -> Tensor: ...
    @overload
    def max(self, dim: int, keepdim: bool = False) -> ValuesIndices: ...
    @overload
    def max(self, dim: Tensor, /) -> Tensor: ...
    @overload
    def max(self, *, other: Tensor) -> Tensor: ...
    @numpy_names
    def max(self, dim: Any = None, keepdim: bool = False, *, other: Tensor | None = None) -> Any:
        """The largest element; with `dim`, the largest along it and where it is; with a tensor, as `maximum`."""
        return _extreme(self, dim if other is None else other, keepdim, True)

    @overload
    def min(self) -> Tensor: ...
    @overload
    def min(self, dim: int, keepdim: bool = False) -> ValuesIndices: ...
    @overload
    def min(self, dim: Tensor, /) -> Tensor: ...
    @overload
    def min(self, *, other: Tensor) -> Tensor: ...
    @numpy_names
    def min(self, dim: Any = None, keepdim: bool = False, *, other: Tensor | None = None) -> Any:
        """The smallest element; with `dim`, the smallest along it and where it is; with a tensor, as `minimum`."""
        return _extreme(self, dim if other is None else other, keepdim, False)

    @numpy_names
    def argmax(self, dim: int | None = None, keepdim: bool = False) -> Tensor:
        """Where the largest element is: in the flattened tensor, or along dim."""
        return reduce.arg_extreme("argmax", self, dim, keepdim)

    @numpy_names
    def argmin(self, dim: int | None = None, keepdim: bool = False) -> Tensor:
        """Where the smallest element is: in the flattened tensor, or along dim."""
        return reduce.arg_extreme("argmin", self, dim, keepdim)

    # --- along an axis --------------------------------------------------------------------------------------------

    @numpy_names
    def cumsum(self, dim: int, *, dtype: Any = None) -> Tensor:
        """The sums so far, along dim."""
        return _total(scan.cumsum, self, dtype, dim=axis("cumsum", dim, self.array.ndim))

    @numpy_names
    def cumprod(self, dim: int, *, dtype: Any = None) -> Tensor:
        """The products so far, along dim."""
        return _total(scan.cumprod, self, dtype, dim=axis("cumprod", dim, self.array.ndim), backwards=False)

    @numpy_names
    def cummax(self, dim: int) -> ValuesIndices:
        """The largest element so far, and where it is."""
        return PAIRS["cummax"](*order.cumulative(self, dim, True))

    @numpy_names
    def cummin(self, dim: int) -> ValuesIndices:
        """The smallest element so far, and where it is."""
        return PAIRS["cummin"](*order.cumulative(self, dim, False))

    @numpy_names
    def logcumsumexp(self, dim: int) -> Tensor:
        """log of the sum of exp(x) so far."""
        return scan.logcumsumexp(self, dim=axis("logcumsumexp", dim, self.array.ndim))

    @numpy_names
    def diff(self, n: int = 1, dim: int = -1, prepend: Tensor | None = None, append: Tensor | None = None) -> Tensor:
        """Each entry minus the one before, n times; `prepend` and `append` are put at the ends before."""
        parts = [part for part in (prepend, self, append) if part is not None and n]
        dim = axis("diff", dim, self.array.ndim)
        return scan.diff(cat(parts, dim) if len(parts) > 1 else self, n, dim)

    cumsum_, cumprod_ = in_place(cumsum), in_place(cumprod)

    # --- order ----------------------------------------------------------------------------------------------------

    @numpy_names
    def sort(self, dim: int = -1, descending: bool = False, stable: bool = True) -> ValuesIndices:
        """In order along dim; equal elements always stay in their order."""
        return PAIRS["sort"](*order.sort(self, dim, descending))

    @numpy_names
    def argsort(self, dim: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
        """Where the elements that `sort` gives are."""
        return order.argsort(self, dim, descending)

    @numpy_names
    def topk(self, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> ValuesIndices:
        """The k largest (smallest) along dim, in order, and where they are."""
        return PAIRS["topk"](*order.topk(self, k, dim, largest))

    @numpy_names
    def kthvalue(self, k: int, dim: int = -1, keepdim: bool = False) -> ValuesIndices:
        """The k-th smallest along dim, k from 1 on, and where it is."""
        return PAIRS["kthvalue"](*order.kthvalue(self, k, dim, keepdim))

    @numpy_names
    def mode(self, dim: int = -1, keepdim: bool = False) -> ValuesIndices:
        """The most frequent element along dim, the smallest of several such, and where it is last."""
        return PAIRS["mode"](*order.mode(self, dim, keepdim))

    @overload
    def median(self) -> Tensor: ...
    @overload
    def median(self, dim: int, keepdim: bool = False) -> ValuesIndices: ...
    @numpy_names
    def median(self, dim: int | None = None, keepdim: bool = False) -> Any:
        """The middle element, the lower one of two."""
        return order.median_of_all(self) if dim is None else PAIRS["median"](*order.median(self, dim, keepdim))

    @overload
    def nanmedian(self) -> Tensor: ...
    @overload
    def nanmedian(self, dim: int, keepdim: bool = False) -> ValuesIndices: ...
    @numpy_names
    def nanmedian(self, dim: int | None = None, keepdim: bool = False) -> Any:
        """The middle one of the elements that are not NaN, the lower one of two; NaN where there is no other.

        >>> from tinygrad_tf import nan, tensor
        >>> tensor([3.0, nan, 1.0, 2.0]).nanmedian()
        tensor(2.)
        """
        if dim is None:
            return order.nanmedian_of_all(self)
        return PAIRS["nanmedian"](*order.nanmedian(self, dim, keepdim))

    @numpy_names
    def quantile(
        self, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
    ) -> Tensor:
        """The value below which a share q of the elements lies; for a tensor of shares, one after the other.

        interpolation, where it lies between two elements: "linear", "lower", "higher", "nearest" or "midpoint".
        """
        return order.quantile(self, q, dim, keepdim, interpolation)

    @overload
    def unique(
        self,
        sorted: bool = True,
        return_inverse: Literal[False] = False,
        return_counts: Literal[False] = False,
        dim: int | None = None,
    ) -> Tensor: ...
    @overload
    def unique(
        self, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
    ) -> Any: ...
    def unique(
        self, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
    ) -> Any:
        """The different elements in order and, if asked for, where each went and how often each occurs."""
        return order.unique(self, return_inverse, return_counts, dim)

    @overload
    def unique_consecutive(
        self, return_inverse: Literal[False] = False, return_counts: Literal[False] = False, dim: int | None = None
    ) -> Tensor: ...
    @overload
    def unique_consecutive(
        self, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
    ) -> Any: ...
    def unique_consecutive(
        self, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
    ) -> Any:
        """The elements (or slices of axis `dim`) without those that equal the one before."""
        return order.unique_consecutive(self, return_inverse, return_counts, dim)

    def bincount(self, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
        """How often 0, 1, 2, ... occur in a vector (or the sum of their weights)."""
        return order.bincount(self, weights, minlength)

    def histc(self, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
        """How many elements lie in each of `bins` equal intervals from min to max, or of all if both are 0."""
        return order.histc(self, bins, min, max)


def _extreme(x: Any, dim: Any, keepdim: bool, largest: bool) -> Any:
    if dim is None:
        return (reduce.max_ if largest else reduce.min_)(x)
    if isinstance(dim, engine.Tensor):
        return (elementwise.maximum if largest else elementwise.minimum)(x, dim)
    return PAIRS["max" if largest else "min"](*order.extreme(x, dim, keepdim, largest))
