"""torch.exp(x) for x.exp(): the methods as functions, under PyTorch's names, and functions of several tensors."""

from __future__ import annotations

import builtins
import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar, overload

from tinygrad_tf.dtypes import DType, array_dtype, as_dtype
from tinygrad_tf.methods._tools import check_all, numpy_names, operand
from tinygrad_tf.ops import _types, compare, elementwise, order, shape
from tinygrad_tf.ops import einsum as by_letters
from tinygrad_tf.tensor import Tensor

_P = ParamSpec("_P")
_R = TypeVar("_R")


NUMBER_FIRST: dict[str, Any] = {  # functions whose first argument may be a number, the second then being a tensor
    "add": operator.add,
    **dict.fromkeys(("sub", "subtract"), operator.sub),
    **dict.fromkeys(("mul", "multiply"), operator.mul),
    **dict.fromkeys(("div", "divide", "true_divide"), operator.truediv),
    "floor_divide": operator.floordiv,
}


def _function(method: Callable[Concatenate[Tensor, _P], _R]) -> Callable[Concatenate[Tensor, _P], _R]:
    """The method as a function of `input`, which has to be a tensor."""
    name = method.__name__
    named = numpy_names(method)

    def function(input: Tensor, *args: _P.args, **options: _P.kwargs) -> _R:
        if not isinstance(input, Tensor):
            number_first = NUMBER_FIRST.get(name) if isinstance(input, (int, float)) and not options else None
            if number_first is not None and len(args) == 1 and isinstance(args[0], Tensor):
                return number_first(input, args[0])
            if hasattr(input, "is_complex") and hasattr(input, name):  # a ComplexTensor, whose file stands above
                return getattr(input, name)(*args, **options)
            raise TypeError(f"{name}: input must be a tensor, got {type(input).__name__}")
        if not options:
            return method(input, *args, **options)
        out: Any = options.pop("out", None)
        result = named(input, *args, **options)
        return result if out is None else _written(name, out, result)

    function.__name__ = function.__qualname__ = name
    function.__doc__, function.__wrapped__ = method.__doc__, method  # type: ignore[attr-defined]
    return function


def _called(function: Callable[..., _R], **names: str) -> Callable[..., _R]:
    """The function, some of whose arguments PyTorch calls otherwise than the method's: {its name: the method's}."""

    @functools.wraps(function)
    def renamed(*args: Any, **options: Any) -> _R:
        for theirs, ours in names.items():
            if theirs in options:
                options[ours] = options.pop(theirs)
        return function(*args, **options)

    return renamed


def _written(name: str, out: Any, result: Any) -> Any:
    """What `out=` asks for: the result in the memory of a tensor that is there already, or is empty."""
    if isinstance(out, Tensor) and isinstance(result, Tensor) and not out.array.size and not out.requires_grad:
        out.resize_(result.shape)
    if not isinstance(out, Tensor) or not isinstance(result, Tensor) or out.array.shape != result.array.shape:
        wanted = f"a tensor of shape {result.array.shape}" if isinstance(result, Tensor) else "left away here"
        raise RuntimeError(f"{name}: out must be {wanted}, got {getattr(out, 'shape', type(out).__name__)}")
    if _types.category(result.array.dtype) > _types.category(out.array.dtype):
        raise RuntimeError(f"{name}: the result of dtype {result.dtype} cannot be written into out of {out.dtype}")
    if result.requires_grad:
        raise RuntimeError(f"{name}: gradients do not pass through out=; leave it away, or use .copy_()")
    return out.copy_(result)


# --- arithmetic -------------------------------------------------------------------------------------------------------

add = _function(Tensor.add)
sub = _function(Tensor.sub)
mul = _function(Tensor.mul)
div = _function(Tensor.div)
floor_divide = _function(Tensor.floor_divide)
fmod = _function(Tensor.fmod)
neg = _function(Tensor.neg)
subtract, multiply, divide, true_divide, negative = sub, mul, div, div, neg
lerp = _function(Tensor.lerp)
addcmul = _function(Tensor.addcmul)
addcdiv = _function(Tensor.addcdiv)

# --- functions --------------------------------------------------------------------------------------------------------

abs = _function(Tensor.abs)
exp = _function(Tensor.exp)
exp2 = _function(Tensor.exp2)
expm1 = _function(Tensor.expm1)
log = _function(Tensor.log)
log2 = _function(Tensor.log2)
log10 = _function(Tensor.log10)
log1p = _function(Tensor.log1p)
sqrt = _function(Tensor.sqrt)
rsqrt = _function(Tensor.rsqrt)
square = _function(Tensor.square)
reciprocal = _function(Tensor.reciprocal)
sin = _function(Tensor.sin)
cos = _function(Tensor.cos)
tan = _function(Tensor.tan)
asin = _function(Tensor.asin)
acos = _function(Tensor.acos)
atan = _function(Tensor.atan)
sinh = _function(Tensor.sinh)
cosh = _function(Tensor.cosh)
tanh = _function(Tensor.tanh)
asinh = _function(Tensor.asinh)
acosh = _function(Tensor.acosh)
atanh = _function(Tensor.atanh)
sigmoid = _function(Tensor.sigmoid)
logit = _function(Tensor.logit)
relu = _function(Tensor.relu)
erf = _function(Tensor.erf)
erfinv = _function(Tensor.erfinv)
atan2 = _function(Tensor.atan2)
arcsin, arccos, arctan, arctan2 = asin, acos, atan, atan2
arcsinh, arccosh, arctanh = asinh, acosh, atanh
logaddexp = _function(Tensor.logaddexp)
softmax = _function(Tensor.softmax)
log_softmax = _function(Tensor.log_softmax)

# --- choices ----------------------------------------------------------------------------------------------------------

sign = _function(Tensor.sign)
sgn = sign
floor = _function(Tensor.floor)
ceil = _function(Tensor.ceil)
trunc = _function(Tensor.trunc)
round = _function(Tensor.round)
frac = _function(Tensor.frac)
clamp = _function(Tensor.clamp)
clamp_min = _function(Tensor.clamp_min)
clamp_max = _function(Tensor.clamp_max)
maximum = _function(Tensor.maximum)
minimum = _function(Tensor.minimum)
masked_fill = _function(Tensor.masked_fill)
nan_to_num = _function(Tensor.nan_to_num)
clip, fix, absolute = clamp, trunc, abs

# --- comparisons, tests, bits -----------------------------------------------------------------------------------------

eq = _function(Tensor.eq)
ne = _function(Tensor.ne)
lt = _function(Tensor.lt)
le = _function(Tensor.le)
gt = _function(Tensor.gt)
ge = _function(Tensor.ge)
not_equal, less, less_equal, greater, greater_equal = ne, lt, le, gt, ge
logical_and = _function(Tensor.logical_and)
logical_or = _function(Tensor.logical_or)
logical_xor = _function(Tensor.logical_xor)
logical_not = _function(Tensor.logical_not)
bitwise_and = _function(Tensor.bitwise_and)
bitwise_or = _function(Tensor.bitwise_or)
bitwise_xor = _function(Tensor.bitwise_xor)
bitwise_not = _function(Tensor.bitwise_not)
bitwise_left_shift = _function(Tensor.bitwise_left_shift)
bitwise_right_shift = _function(Tensor.bitwise_right_shift)
isnan = _function(Tensor.isnan)
isinf = _function(Tensor.isinf)
isfinite = _function(Tensor.isfinite)
isclose = _function(Tensor.isclose)
allclose = _function(Tensor.allclose)
equal = _function(Tensor.equal)

# --- reductions -------------------------------------------------------------------------------------------------------

sum = _function(Tensor.sum)
nansum = _function(Tensor.nansum)
mean = _function(Tensor.mean)
nanmean = _function(Tensor.nanmean)
prod = _function(Tensor.prod)
var = _function(Tensor.var)
std = _function(Tensor.std)
norm = _function(Tensor.norm)
logsumexp = _function(Tensor.logsumexp)
any = _function(Tensor.any)
all = _function(Tensor.all)
count_nonzero = _function(Tensor.count_nonzero)
amax = _function(Tensor.amax)
amin = _function(Tensor.amin)
aminmax = _function(Tensor.aminmax)
max = _function(Tensor.max)
min = _function(Tensor.min)
argmax = _function(Tensor.argmax)
argmin = _function(Tensor.argmin)

# --- along an axis, and order -----------------------------------------------------------------------------------------

cumsum = _function(Tensor.cumsum)
cumprod = _function(Tensor.cumprod)
cummax = _function(Tensor.cummax)
cummin = _function(Tensor.cummin)
logcumsumexp = _function(Tensor.logcumsumexp)
diff = _function(Tensor.diff)
sort = _function(Tensor.sort)
argsort = _function(Tensor.argsort)
topk = _function(Tensor.topk)
kthvalue = _function(Tensor.kthvalue)
median = _function(Tensor.median)
nanmedian = _function(Tensor.nanmedian)
mode = _function(Tensor.mode)
quantile = _function(Tensor.quantile)
unique = _function(Tensor.unique)
unique_consecutive = _function(Tensor.unique_consecutive)
bincount = _function(Tensor.bincount)
histc = _function(Tensor.histc)

# --- shapes -----------------------------------------------------------------------------------------------------------

reshape = _function(Tensor.reshape)
flatten = _function(Tensor.flatten)
ravel = _function(Tensor.ravel)
unflatten = _function(Tensor.unflatten)
transpose = _function(Tensor.transpose)
permute = _function(Tensor.permute)
movedim = _function(Tensor.movedim)
swapaxes, swapdims, moveaxis = _function(Tensor.swapaxes), transpose, movedim
t = _function(Tensor.t)
unsqueeze = _function(Tensor.unsqueeze)
squeeze = _function(Tensor.squeeze)
clone = _function(Tensor.clone)
split = _called(_function(Tensor.split), tensor="input", split_size_or_sections="split_size")
chunk = _function(Tensor.chunk)
tensor_split = _function(Tensor.tensor_split)
unbind = _function(Tensor.unbind)
narrow = _function(Tensor.narrow)
select = _function(Tensor.select)
tril = _function(Tensor.tril)
triu = _function(Tensor.triu)
diagonal = _function(Tensor.diagonal)
diag = _function(Tensor.diag)
diag_embed = _function(Tensor.diag_embed)
trace = _function(Tensor.trace)
as_strided = _function(Tensor.as_strided)
fliplr = _function(Tensor.fliplr)
flipud = _function(Tensor.flipud)
roll = _function(Tensor.roll)
tile = _function(Tensor.tile)
repeat_interleave = _function(Tensor.repeat_interleave)
broadcast_to = _function(Tensor.broadcast_to)

# --- indices ----------------------------------------------------------------------------------------------------------

gather = _function(Tensor.gather)
scatter = _function(Tensor.scatter)
scatter_add = _function(Tensor.scatter_add)
scatter_reduce = _function(Tensor.scatter_reduce)
index_select = _function(Tensor.index_select)
index_add = _function(Tensor.index_add)
index_copy = _function(Tensor.index_copy)
index_fill = _function(Tensor.index_fill)
index_put = _function(Tensor.index_put)
take = _function(Tensor.take)
take_along_dim = _function(Tensor.take_along_dim)
masked_select = _function(Tensor.masked_select)
masked_scatter = _function(Tensor.masked_scatter)
nonzero = _function(Tensor.nonzero)
argwhere = _function(Tensor.argwhere)

# --- products ---------------------------------------------------------------------------------------------------------

matmul = _function(Tensor.matmul)
mm = _function(Tensor.mm)
bmm = _function(Tensor.bmm)
mv = _function(Tensor.mv)
dot = _function(Tensor.dot)
outer = _function(Tensor.outer)
ger = outer
addmm = _function(Tensor.addmm)
baddbmm = _function(Tensor.baddbmm)
kron = _function(Tensor.kron)
inverse = _function(Tensor.inverse)
det = _function(Tensor.det)
slogdet = _function(Tensor.slogdet)
logdet = _function(Tensor.logdet)

# --- random -----------------------------------------------------------------------------------------------------------

bernoulli = _function(Tensor.bernoulli)
multinomial = _function(Tensor.multinomial)

# --- those whose first argument may be a number -----------------------------------------------------------------------


def _tensors(name: str, *operands: Any) -> list[Any]:
    """Tensors and numbers, at least one of them a tensor."""
    if not builtins.any(isinstance(x, Tensor) for x in operands):
        raise TypeError(f"{name}: needs a tensor, got {' and '.join(type(x).__name__ for x in operands)}")
    return [operand(x) for x in operands]


def pow(input: Any, exponent: Any) -> Tensor:
    """input to the power `exponent`, one of which may be a number."""
    return elementwise.power(*_tensors("pow", input, exponent))


def remainder(input: Any, other: Any) -> Tensor:
    """What input // other leaves: it has the sign of other."""
    return elementwise.remainder(*_tensors("remainder", input, other))


def rsub(input: Tensor, other: Any, *, alpha: Any = 1) -> Tensor:
    """other - alpha * input."""
    return elementwise.with_alpha(elementwise.sub, operand(other), input, operand(alpha))


@overload
def where(condition: Tensor) -> tuple[Tensor, ...]: ...
@overload
def where(condition: Tensor, input: Any, other: Any) -> Tensor: ...
def where(condition: Tensor, input: Any = None, other: Any = None) -> Any:
    """`input` where the condition is True, else `other`; the condition alone: where it is True, a tensor an axis."""
    if input is None and other is None:
        return nonzero(condition, as_tuple=True)
    return elementwise.where(condition, operand(input), operand(other))


# --- searching --------------------------------------------------------------------------------------------------------


def searchsorted(
    sorted_sequence: Tensor,
    input: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    """Where the values would have to be put in a sorted vector; for a tensor of more axes, row by row.

    right, or side="right": behind equal elements, not before them. sorter: the order (as of argsort) that sorts it.
    """
    if side not in (None, "left", "right") or (right and side == "left"):
        raise RuntimeError(f"searchsorted: side must be 'left' or 'right', and not against right, got {side!r}")
    places: Tensor = order.searchsorted(sorted_sequence, input, right or side == "right", sorter)
    return places.int() if out_int32 else places


def bucketize(input: Any, boundaries: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    """Between which of the sorted boundaries each value lies."""
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)


def isin(elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False) -> Tensor:
    """Which of the elements occur among `test_elements`."""
    return compare.isin(elements, test_elements, invert)


# --- several tensors --------------------------------------------------------------------------------------------------


@numpy_names
def cat(tensors: Sequence[Tensor], dim: int = 0, *, out: Tensor | None = None) -> Tensor:
    """One after the other along an axis that is there."""
    result = shape.cat(tensors, dim)
    return result if out is None else _written("cat", out, result)


concat = concatenate = cat


@numpy_names
def stack(tensors: Sequence[Tensor], dim: int = 0, *, out: Tensor | None = None) -> Tensor:
    """Side by side along a new axis."""
    result = shape.stack(tensors, dim)
    return result if out is None else _written("stack", out, result)


def hstack(tensors: Sequence[Tensor]) -> Tensor:
    """Side by side: along the second axis, or the only one."""
    return shape.hstack(tensors)


def vstack(tensors: Sequence[Tensor]) -> Tensor:
    """One below the other: along the first axis; vectors count as rows."""
    return shape.vstack(tensors)


row_stack = vstack


def einsum(equation: Any, *operands: Any) -> Tensor:
    """Sums of products named by letters: einsum("bthd,bshd->bhts", query, key).

    Or by numbers from 0 to 51, as einsum(query, [0, 1, 3], key, [0, 2, 3], [0, 1, 2]), and `...` in these lists.
    """
    if isinstance(equation, Tensor) and operands and isinstance(operands[0], (list, tuple)):
        return by_letters.einsum(*by_letters.lettered((equation, *operands)))
    if not isinstance(equation, str):
        raise TypeError(f"einsum: equation must be a string such as 'ij,jk->ik', got {type(equation).__name__}")
    return by_letters.einsum(equation, *operands)


def flip(input: Tensor, dims: Any) -> Tensor:
    """Axes in reverse order, as a copy."""
    return input.flip(dims)


# --- questions about tensors and dtypes -------------------------------------------------------------------------------


def is_tensor(obj: Any) -> bool:
    """Whether it is a Tensor."""
    return isinstance(obj, Tensor)


def is_floating_point(input: Tensor) -> bool:
    """Whether the dtype has fractions."""
    return input.is_floating_point()


def is_inference(input: Tensor) -> bool:
    """Whether a tensor was made in inference mode."""
    return input.is_inference()


def numel(input: Tensor) -> int:
    """How many elements there are."""
    return input.numel()


def result_type(a: Any, b: Any) -> DType:
    """The dtype of what an operation on both gives."""
    return as_dtype(_types.result_type(*(x.array if isinstance(x, Tensor) else operand(x) for x in (a, b))))


def promote_types(type1: Any, type2: Any) -> DType:
    """The smallest dtype that both can be turned into."""
    return as_dtype(_types.promote_types(array_dtype(type1), array_dtype(type2)))


def can_cast(from_: Any, to: Any) -> bool:
    """Whether a result may be written into `to`: not from floating point to integers, not from either to bool."""
    return _types.category(array_dtype(from_)) <= _types.category(array_dtype(to))


def get_default_dtype() -> DType:
    """The dtype of tensors made of Python floats."""
    return as_dtype(_types.default_float())


def set_default_dtype(dtype: Any) -> None:
    """Choose the dtype of tensors made of Python floats."""
    _types.set_default_float(array_dtype(dtype))


# Written out, so that type checkers and editors know it; a test holds it to the file.
# fmt: off
__all__ = [
    "abs", "absolute", "acos", "acosh", "add", "addcdiv", "addcmul", "addmm", "all", "allclose", "amax",
    "amin", "aminmax", "any", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "argmax",
    "argmin", "argsort", "argwhere", "as_strided", "asin", "asinh", "atan", "atan2", "atanh", "baddbmm", "bernoulli",
    "bincount", "bitwise_and", "bitwise_left_shift", "bitwise_not", "bitwise_or", "bitwise_right_shift", "bitwise_xor",
    "bmm", "broadcast_to", "bucketize", "can_cast", "cat", "ceil", "chunk", "clamp", "clamp_max", "clamp_min", "clip",
    "clone", "concat", "concatenate", "cos", "cosh", "count_nonzero", "cummax", "cummin", "cumprod", "cumsum", "det",
    "diag", "diag_embed", "diagonal", "diff", "div", "divide", "dot", "einsum", "eq", "equal", "erf", "erfinv", "exp",
    "exp2", "expm1", "fix", "flatten", "flip", "fliplr", "flipud", "floor", "floor_divide", "fmod", "frac", "gather",
    "ge", "ger", "get_default_dtype", "greater", "greater_equal", "gt", "histc", "hstack", "index_add", "index_copy",
    "index_fill", "index_put", "index_select", "inverse", "is_floating_point", "is_inference", "is_tensor", "isclose",
    "isfinite", "isin", "isinf", "isnan", "kron", "kthvalue", "le", "lerp", "less", "less_equal", "log", "log1p",
    "log2", "log10", "log_softmax", "logaddexp", "logcumsumexp", "logdet", "logical_and", "logical_not", "logical_or",
    "logical_xor", "logit", "logsumexp", "lt", "masked_fill", "masked_scatter", "masked_select", "matmul", "max",
    "maximum", "mean", "median", "min", "minimum", "mm", "mode", "moveaxis", "movedim", "mul", "multinomial",
    "multiply", "mv", "nan_to_num", "nanmean", "nanmedian", "nansum", "narrow", "ne", "neg", "negative", "nonzero",
    "norm", "not_equal", "numel", "outer", "permute", "pow", "prod", "promote_types", "quantile", "ravel", "reciprocal",
    "relu", "remainder", "repeat_interleave", "reshape", "result_type", "roll", "round", "row_stack", "rsqrt", "rsub",
    "scatter", "scatter_add", "scatter_reduce", "searchsorted", "select", "set_default_dtype", "sgn", "sigmoid", "sign",
    "sin", "sinh", "slogdet", "softmax", "sort", "split", "sqrt", "square", "squeeze", "stack", "std", "sub",
    "subtract", "sum", "swapaxes", "swapdims", "t", "take", "take_along_dim", "tan", "tanh", "tensor_split", "tile",
    "topk", "trace", "transpose", "tril", "triu", "true_divide", "trunc", "unbind", "unflatten", "unique",
    "unique_consecutive", "unsqueeze", "var", "vstack", "where",
]
# fmt: on

check_all(__all__, globals())
