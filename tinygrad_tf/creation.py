"""Making tensors: from data, filled, counted, random."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, ParamSpec

import numpy as np

from tinygrad_tf import _rejection, _twister, random
from tinygrad_tf._device import checked
from tinygrad_tf._layout import laid_out_like
from tinygrad_tf._quiet import quiet
from tinygrad_tf.dtypes import array_dtype, as_dtype
from tinygrad_tf.engine import make
from tinygrad_tf.methods._tools import NUMBERS, plain_data
from tinygrad_tf.ops._types import check_floats, default_float, fitting, plain_array, promote_types
from tinygrad_tf.ops.shape import sizes_of
from tinygrad_tf.tensor import Size, Tensor

Generator = random.Generator
_twister.given_out = make
_P = ParamSpec("_P")
INT64, UINT64, FLOAT64 = np.dtype(np.int64), np.dtype(np.uint64), np.dtype(np.float64)


def _into_out(function: Callable[_P, Tensor]) -> Callable[_P, Tensor]:
    """The function, with PyTorch's `out`: a tensor that takes the result over, in its own dtype and at any size."""

    @functools.wraps(function)
    def made(*args: _P.args, **options: _P.kwargs) -> Tensor:
        if "out" not in options:
            return function(*args, **options)
        out: Any = options.pop("out")
        if out is None:
            return function(*args, **options)
        if not isinstance(out, Tensor):
            raise TypeError(f"{function.__name__}: out must be a tensor, got {type(out).__name__}")
        options.setdefault("dtype", out.dtype)
        result = function(*args, **options)
        if result.shape != out.shape:
            out.resize_(result.shape)
        return out.copy_(result)

    return made


def _finish(array: np.ndarray, requires_grad: bool, device: Any = None) -> Tensor:
    checked(device)
    t: Tensor = make(array)
    return t.requires_grad_() if requires_grad else t


def _kind(dtype: Any, otherwise: Any = None) -> np.dtype:
    """The NumPy dtype asked for, or else the default."""
    if dtype is not None:
        return array_dtype(dtype)
    return default_float() if otherwise is None else np.dtype(otherwise)


def _sizes(name: str, sizes: tuple[Any, ...], size: Any = None) -> tuple[int, ...]:
    """A shape given as zeros(2, 3), zeros((2, 3)) or zeros(size=(2, 3))."""
    found = sizes_of(name, sizes if size is None else (*sizes, size))
    if min(found, default=0) < 0:
        raise RuntimeError(f"{name}: a shape has no negative sizes, got {found}")
    return found


def tensor(
    data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False
) -> Tensor:
    """A new tensor with a copy of `data`: numbers, nested lists, arrays. Python floats become float32.

    >>> tensor([[1, 2], [3, 4]])
    tensor([[1, 2],
            [3, 4]])
    """
    if isinstance(data, Tensor):
        array = data.array
    elif isinstance(data, (np.ndarray, np.generic)):
        array = _numbers(plain_array(np.asanyarray(data)))
    else:
        array = _from_sequence(data, dtype)
    if not isinstance(data, (Tensor, np.ndarray)):
        _check_range(array, dtype)
    with quiet():  # a number too large for the dtype becomes infinite
        return _finish(np.array(array, dtype=_kind(dtype, array.dtype), order="C"), requires_grad, device)


def _check_range(array: np.ndarray, dtype: Any) -> None:
    """Numbers that are given one by one must fit into an integer dtype; by themselves they are 64 bits with a sign."""
    by_itself = INT64 if array.dtype == UINT64 else array.dtype
    wanted = by_itself if dtype is None else array_dtype(dtype)
    if wanted.kind in "iu" and wanted != array.dtype and array.size:
        for end in (array.min(), array.max()):
            fitting("tensor", end.item(), wanted)


def _numbers(array: np.ndarray) -> np.ndarray:
    """The array, if its dtype is one that tensors have."""
    try:
        as_dtype(array.dtype)
    except TypeError:
        raise TypeError(
            f"a tensor cannot hold NumPy's {array.dtype}: bools, integers and floating point numbers only"
        ) from None
    return array


def _from_sequence(data: Any, dtype: Any = None) -> np.ndarray:
    """Lists may hold NumPy numbers, and tensors of one element, whose dtype counts; else floats are float32."""
    if isinstance(data, (str, bytes)):
        raise TypeError(f"tensor: needs numbers or nested lists of them, got {type(data).__name__}")
    plain = plain_data(data)
    try:
        array = np.asarray(plain)
    except ValueError:
        raise ValueError("tensor: nested lists must have the same length at each level") from None
    if array.dtype.kind in "OUS":
        raise TypeError(
            f"tensor: needs numbers (integers of at most 64 bits) or nested lists of them, got {data!r:.60}"
        )
    if dtype is None and array.dtype == FLOAT64:
        with quiet():
            array = array.astype(_float_of(plain), copy=False)
    return _numbers(array)


def _float_of(data: Any) -> np.dtype:
    """The dtype that floating point data stands for: that of the NumPy numbers in it, or else the default."""
    if isinstance(data, (np.ndarray, np.generic)):
        return data.dtype
    if not isinstance(data, (list, tuple)) or NUMBERS.issuperset(map(type, data)):
        return default_float()
    return functools.reduce(promote_types, {_float_of(d) for d in data})


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """As `tensor`, but shares memory with an array where it can."""
    if isinstance(data, Tensor):
        return data.to(device, dtype)
    if isinstance(data, np.ndarray) and (dtype is None or data.dtype == array_dtype(dtype)):
        return _finish(_numbers(plain_array(data)), False, device)
    return tensor(data, dtype=dtype, device=device)


def asarray(
    obj: Any, *, dtype: Any = None, device: Any = None, copy: bool | None = None, requires_grad: bool | None = None
) -> Tensor:
    """A tensor on the memory of `obj` where that is possible.

    copy: True for memory of its own, False for an error where a copy would be needed. requires_grad: True for a leaf,
    False for a tensor without a graph; by default that of `obj`, with its graph.

    >>> asarray([1.0, 2.0], requires_grad=True)
    tensor([1., 2.], requires_grad=True)
    """
    result = as_tensor(obj, dtype, device)
    memory = obj.array if isinstance(obj, Tensor) else obj if isinstance(obj, np.ndarray) else None
    shared = memory is not None and np.may_share_memory(result.array, memory)
    if copy is False and not shared:
        raise ValueError(f"asarray: copy=False, but a {type(obj).__name__} cannot become this tensor without a copy")
    if requires_grad is not None and requires_grad != result.requires_grad:
        result = result.detach()
    if copy and shared:
        result = result.clone()
    return result.requires_grad_() if requires_grad else result


def from_numpy(array: np.ndarray) -> Tensor:
    """A tensor on the array's own memory."""
    if not isinstance(array, np.ndarray):
        raise TypeError(f"from_numpy: needs a NumPy array, got {type(array).__name__}")
    return make(_numbers(plain_array(array)))


def frombuffer(buffer: Any, *, dtype: Any, count: int = -1, offset: int = 0, requires_grad: bool = False) -> Tensor:
    """A tensor on the memory of bytes (which cannot be written to) or of another buffer."""
    return _finish(np.frombuffer(buffer, array_dtype(dtype), count, offset), requires_grad)


class _TypeOfTensors(type):
    """PyTorch's old types: LongTensor([1, 2]) from data, LongTensor(2, 3) or LongTensor(x.size()) for a shape.

    No tensor is made by one of these classes; those of its dtype are said to be, as in isinstance(x, LongTensor).
    """

    wanted_dtype: str

    def __call__(cls, *data: Any) -> Any:
        if len(data) == 1 and not isinstance(data[0], (int, np.integer, Size)):
            return tensor(data[0], dtype=cls.wanted_dtype)
        return zeros(*data, dtype=cls.wanted_dtype) if data else zeros(0, dtype=cls.wanted_dtype)

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, Tensor) and value.array.dtype == array_dtype(cls.wanted_dtype)


def _constructor(name: str, dtype: str) -> Callable[..., Tensor]:
    return _TypeOfTensors(name, (), {"wanted_dtype": dtype, "__module__": __name__})


FloatTensor, DoubleTensor = _constructor("FloatTensor", "float32"), _constructor("DoubleTensor", "float64")
HalfTensor, BFloat16Tensor = _constructor("HalfTensor", "float16"), _constructor("BFloat16Tensor", "bfloat16")
LongTensor, IntTensor = _constructor("LongTensor", "int64"), _constructor("IntTensor", "int32")
ShortTensor, CharTensor = _constructor("ShortTensor", "int16"), _constructor("CharTensor", "int8")
ByteTensor, BoolTensor = _constructor("ByteTensor", "uint8"), _constructor("BoolTensor", "bool")


# --- filled -----------------------------------------------------------------------------------------------------------


def _filled(shape: tuple[int, ...], value: Any, kind: np.dtype) -> np.ndarray:
    """np.full, in a third of its time for few elements."""
    array = np.empty(shape, kind)
    array.fill(value)
    return array


@_into_out
def full(size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """One number everywhere; its dtype is the number's, float32 for Python floats."""
    fill = fill_value.array if isinstance(fill_value, Tensor) else np.asarray(fill_value)
    if fill.ndim:
        got = f"shape {fill.shape}" if isinstance(fill_value, Tensor) else repr(fill_value)
        raise TypeError(f"full: fill_value must be a number, got {got}")
    kind = _kind(
        dtype, None if fill.dtype.kind == "f" and not isinstance(fill_value, (Tensor, np.generic)) else fill.dtype
    )
    if fill.dtype.kind in "iufb":
        fitted = fitting("full", fill.item(), kind)
        fill = fitted if kind.kind in "iu" else fill
    with quiet():
        return _finish(_filled(_sizes("full", (size,)), fill, kind), requires_grad, device)


@_into_out
def zeros(*sizes: Any, size: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Zeros of a shape: zeros(2, 3) or zeros((2, 3))."""
    return _finish(np.zeros(_sizes("zeros", sizes, size), _kind(dtype)), requires_grad, device)


@_into_out
def ones(*sizes: Any, size: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Ones of a shape: ones(2, 3) or ones((2, 3))."""
    return _finish(_filled(_sizes("ones", sizes, size), 1, _kind(dtype)), requires_grad, device)


@_into_out
def empty(
    *sizes: Any,
    size: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """Zeros: memory with leftovers of other arrays in it has cost people days."""
    return _finish(np.zeros(_sizes("empty", sizes, size), _kind(dtype)), requires_grad, device)


def zeros_like(
    input: Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, memory_format: Any = None
) -> Tensor:
    """Zeros in the shape, dtype and layout of another tensor."""
    kind = _kind(dtype, input.array.dtype)
    return _finish(laid_out_like(input.array, lambda shape: np.zeros(shape, kind)), requires_grad, device)


def ones_like(
    input: Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, memory_format: Any = None
) -> Tensor:
    """Ones in the shape, dtype and layout of another tensor."""
    kind = _kind(dtype, input.array.dtype)
    return _finish(laid_out_like(input.array, lambda shape: _filled(shape, 1, kind)), requires_grad, device)


empty_like = zeros_like


def full_like(
    input: Tensor,
    fill_value: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """One number in the shape, dtype and layout of another tensor."""
    kind = input.dtype if dtype is None else dtype
    made = laid_out_like(input.array, lambda shape: full(shape, fill_value, dtype=kind).array)
    return _finish(made, requires_grad, device)


# --- counted ----------------------------------------------------------------------------------------------------------


@_into_out
def arange(
    start: Any = 0,
    end: Any = None,
    step: Any = 1,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """arange(end), arange(start, end), arange(start, end, step), without `end`; int64 for integers, else float32."""
    if end is None:
        start, end = 0, start
    values = [v.item() if isinstance(v, (Tensor, np.generic)) else v for v in (start, end, step)]
    start, end, step = values
    if not all(isinstance(v, (int, float)) and math.isfinite(v) for v in values):
        raise RuntimeError(f"arange: needs finite numbers, got start {start}, end {end} and step {step}")
    if step == 0 or (end - start) * step < 0:
        raise RuntimeError(f"arange: no step of {step} leads from {start} to {end}")
    kind = _kind(dtype, np.int64 if all(isinstance(v, int) for v in values) else None)
    count = math.ceil((end - start) / step)
    if kind.kind in "iu":  # as PyTorch has it: integers start and go on at whole numbers
        start, end, step = map(int, values)
        if not step:
            raise RuntimeError(f"arange: step must not be 0 in {kind}, got {values[2]}")
        count = max(math.ceil((end - start) / step), 0) if kind == np.int64 else count
        return _finish((start + step * np.arange(count)).astype(kind, copy=False), requires_grad, device)
    if kind.itemsize == 2:  # which are counted in float32
        for value in values:
            fitting("arange", value, np.dtype(np.float32))
    with quiet():  # beyond the largest number there is inf, as in PyTorch
        return _finish((start + step * np.arange(count, dtype=np.float64)).astype(kind), requires_grad, device)


def _equal_steps(name: str, start: Any, end: Any, steps: Any, kind: np.dtype) -> np.ndarray:
    """`steps` float64 numbers from start to end at equal distances; those for integers start and end at whole ones."""
    for what, value in (("start", start), ("end", end)):
        if isinstance(value, Tensor) and value.ndim:
            raise RuntimeError(f"{name}: {what} must be a number or a 0-d tensor, got shape {tuple(value.shape)}")
        fitting(f"{name}: {what}", float(value), kind)
    if not hasattr(steps, "__index__"):
        raise TypeError(f"{name}: steps must be an integer, got {steps!r}")
    if steps < 0:
        raise RuntimeError(f"{name}: steps must not be negative, got {steps}")
    number: Any = int if kind.kind in "iu" else float
    return np.linspace(number(start), number(end), int(steps))


@_into_out
def linspace(
    start: Any, end: Any, steps: int, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """`steps` numbers at equal distances from start to end, both included."""
    kind = _kind(dtype)
    if kind.kind == "b":
        raise RuntimeError("linspace: makes numbers, not bools; compare them to get a mask")
    return _finish(_equal_steps("linspace", start, end, steps, kind).astype(kind), requires_grad, device)


@_into_out
def logspace(
    start: Any,
    end: Any,
    steps: int,
    base: float = 10.0,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """base ** start to base ** end in `steps` equal factors."""
    kind = _kind(dtype)
    exponents = _equal_steps("logspace", start, end, steps, kind)
    with quiet():
        return _finish(np.power(float(base), exponents).astype(kind), requires_grad, device)


@_into_out
def eye(n: int, m: int | None = None, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Ones on the diagonal."""
    rows, columns = _sizes("eye", (n, n if m is None else m))
    return _finish(np.eye(rows, columns, dtype=_kind(dtype)), requires_grad, device)


def tril_indices(row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None) -> Tensor:
    """The row and column numbers of the lower triangle, (2, count)."""
    row, col = _sizes("tril_indices", (row, col))
    return _finish(np.stack(np.tril_indices(row, offset, col)).astype(_kind(dtype, np.int64)), False, device)


def triu_indices(row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None) -> Tensor:
    """The row and column numbers of the upper triangle, (2, count)."""
    row, col = _sizes("triu_indices", (row, col))
    return _finish(np.stack(np.triu_indices(row, offset, col)).astype(_kind(dtype, np.int64)), False, device)


# --- random -----------------------------------------------------------------------------------------------------------


@_into_out
def rand(
    *sizes: Any,
    size: Any = None,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Uniform in [0, 1)."""
    values = random.or_default(generator).uniform(_sizes("rand", sizes, size), dtype=_kind(dtype))
    return _finish(values, requires_grad, device)


@_into_out
def randn(
    *sizes: Any,
    size: Any = None,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Normal with mean 0 and standard deviation 1."""
    values = random.or_default(generator).normal(_sizes("randn", sizes, size), dtype=_kind(dtype))
    return _finish(values, requires_grad, device)


def rand_like(
    input: Tensor,
    *,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """rand in the shape, dtype and layout of another tensor."""
    kind, generator = _kind(dtype, input.array.dtype), random.or_default(generator)
    values = laid_out_like(input.array, lambda shape: generator.uniform(shape, dtype=kind))
    return _finish(values, requires_grad, device)


def randn_like(
    input: Tensor,
    *,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """randn in the shape, dtype and layout of another tensor."""
    kind = _kind(dtype, input.array.dtype)
    fresh = laid_out_like(input.array, lambda shape: np.empty(shape, kind))
    return _finish(random.normal_like(fresh, random.or_default(generator)), requires_grad, device)


def normal(
    mean: Any = 0.0,
    std: Any = 1.0,
    size: Any = None,
    *,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Normal random numbers: normal(mean, std, size), or of the shape of tensors of means and deviations."""
    if size is not None:
        values = random.or_default(generator).normal(_sizes("normal", (size,)), float(mean), float(std), _kind(dtype))
        return _finish(values, requires_grad, device)
    if not isinstance(mean, Tensor) and not isinstance(std, Tensor):
        raise TypeError("normal: size is missing, as in normal(0.0, 1.0, (2, 3))")
    shape = np.broadcast_shapes(*(x.array.shape for x in (mean, std) if isinstance(x, Tensor)))
    first = mean if isinstance(mean, Tensor) else std
    drawn = make(random.or_default(generator).normal(shape, dtype=first.array.dtype))
    return drawn * (std.detach() if isinstance(std, Tensor) else std) + (
        mean.detach() if isinstance(mean, Tensor) else mean
    )


def poisson(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Poisson random numbers: how many events come where `input` are expected, of its shape and dtype."""
    return _counts(_rejection.poisson, generator, input)


def binomial(count: Tensor, prob: Tensor, generator: Generator | None = None) -> Tensor:
    """Binomial random numbers: how many of `count` tries succeed, each with probability `prob`."""
    return _counts(_rejection.binomial, generator, count, prob)


def _counts(draw: Any, generator: Generator | None, *parameters: Tensor) -> Tensor:
    check_floats(draw.__name__, parameters[0])
    numbers = np.broadcast_arrays(*[p.array.astype(np.float64) for p in parameters])
    found = _rejection.drawn(draw, random.or_default(generator), *numbers)
    return _finish(found.astype(parameters[0].array.dtype), False, None)


@_into_out
def randint(
    *args: Any,
    size: Any = None,
    low: int | None = None,
    high: int | None = None,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """randint(high, size) or randint(low, high, size): integers from low to high - 1."""
    rest = list(args)
    if size is None and rest and isinstance(rest[-1], (tuple, list)):
        size = rest.pop()
    if size is None or len(rest) > 2 or (not rest and high is None):
        raise TypeError("randint: needs a range and a size, as in randint(0, 10, (2, 3)) or randint(10, (2, 3))")
    low, high = (rest[0], rest[1]) if len(rest) == 2 else (low or 0, rest[0] if rest else high)
    kind = _kind(dtype, np.int64)
    values = random.or_default(generator).integers(int(low), int(high), _sizes("randint", (size,)))  # type: ignore[arg-type]
    return _finish(values.astype(kind, copy=False), requires_grad, device)


def randint_like(
    input: Tensor,
    *bounds: int,
    low: int | None = None,
    high: int | None = None,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """randint_like(input, high) or randint_like(input, low, high): see randint."""
    kind = _kind(dtype, input.array.dtype)
    made = laid_out_like(
        input.array, lambda shape: randint(*bounds, size=shape, low=low, high=high, generator=generator).array
    )
    return _finish(made.astype(kind, copy=False), requires_grad, device)


@_into_out
def randperm(n: int, *, generator: Generator | None = None, dtype: Any = None, device: Any = None) -> Tensor:
    """The numbers from 0 to n - 1 in random order."""
    values = random.or_default(generator).permutation(n)
    return _finish(values.astype(_kind(dtype, np.int64), copy=False), False, device)


# Written out, so that type checkers and editors know it; a test holds it to the file.
# fmt: off
__all__ = [
    "BFloat16Tensor", "BoolTensor", "ByteTensor", "CharTensor", "DoubleTensor", "FloatTensor", "HalfTensor",
    "IntTensor", "LongTensor", "ShortTensor", "arange", "as_tensor", "asarray", "binomial", "empty", "empty_like",
    "eye", "from_numpy", "frombuffer", "full", "full_like", "linspace", "logspace", "normal", "ones", "ones_like",
    "poisson", "rand", "rand_like", "randint", "randint_like", "randn", "randn_like", "randperm", "tensor",
    "tril_indices", "triu_indices", "zeros", "zeros_like",
]
# fmt: on
