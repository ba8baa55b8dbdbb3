"""What makes methods of methods: the in-place form, and NumPy's names of arguments."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Iterable
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np

from tinygrad_tf.engine import Tensor
from tinygrad_tf.grad_fn import call_step
from tinygrad_tf.ops import inplace
from tinygrad_tf.ops._types import plain_array, wants_tensor

P = ParamSpec("P")
S = TypeVar("S")
R = TypeVar("R")
N = TypeVar("N")


NUMBERS = {bool, int, float}


def operand(x: Any) -> Any:
    """A NumPy number as a Python number, so that it never widens a float32 tensor; its other arrays as plain ones."""
    if isinstance(x, Tensor) or not isinstance(x, (np.generic, np.ndarray)):
        return x
    return x.item() if isinstance(x, np.generic) else plain_array(x)


def plain_data(data: Any) -> Any:
    """Nested lists with NumPy numbers in place of tensors, whose one element counts whatever the shape around it."""
    if isinstance(data, Tensor):
        if data.array.size != 1:
            raise ValueError(
                f"tensor: only tensors of one element may be in a list, got the shape {data.array.shape}; see stack"
            )
        return data.array.reshape(())[()]
    if isinstance(data, np.ndarray):
        return plain_array(data)
    if isinstance(data, (list, tuple)) and not NUMBERS.issuperset(map(type, data)):
        return [plain_data(d) for d in data]
    return data


def factor_first(call: str, name: str, first: Any, *others: Any) -> tuple[Any, ...]:
    """The operands, and behind them the factor `name` that PyTorch's programs once gave before them: add_(-lr, grad).

    call: how it is written today, which a warning says.
    """
    if len(others) != call.count(",") + 1 or not isinstance(others[-1], Tensor):
        given = ", ".join(type(x).__name__ for x in (first, *others))
        raise TypeError(f"write {call}, {name}=...); got the operands {given}")
    warnings.warn(f"the factor before the operands is the older form of {call}, {name}=...)", stacklevel=3)
    return (*others, first)


def in_place(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """The method that writes its result into the tensor's own memory (ops/inplace.py), and returns the tensor."""
    name = method.__name__.strip("_") + "_"

    def write(self: S, *args: P.args, **options: P.kwargs) -> R:
        return inplace.write(name, self, method, *args, **options)

    write.__name__, write.__qualname__ = name, name
    write.__doc__ = f"`{name[:-1]}`, written into this tensor's own memory; returns this tensor."
    return write


def named(name: str) -> Callable[[type[N]], type[N]]:
    """The class of named results, printed as the one that PyTorch has under this name."""

    def text(self: Any) -> str:
        parts = [f"{field}={part!r}" for field, part in zip(self._fields, self, strict=True)]
        return f"torch.return_types.{name}(\n" + ",\n".join(parts) + ")"

    def printed(results: type[N]) -> type[N]:
        results.__repr__ = text  # type: ignore[method-assign]
        return results

    return printed


def flags_of(function: Callable[..., Any]) -> list[str]:
    """The parameters that are True or False."""
    return [name for name, kind in getattr(function, "__annotations__", {}).items() if kind == "bool"]


def check_flags(function: Callable[..., Any], flags: Iterable[str], options: dict[str, Any]) -> None:
    """Refuse what is given by name for a flag and is none: "no" would count as True."""
    for name in flags:
        value = options.get(name, False)
        if value is not False and value is not True and not isinstance(value, np.bool_):
            raise TypeError(f"{function.__name__}: {name} must be True or False, got {value!r}")


def numpy_names(method: Callable[P, R]) -> Callable[P, R]:
    """Let a reduction be called with NumPy's names too: axis for dim, keepdims for keepdim."""

    @functools.wraps(method)
    def renamed(*args: P.args, **options: P.kwargs) -> R:
        if options:
            if "axis" in options:
                options["dim"] = options.pop("axis")
            if "keepdims" in options:
                options["keepdim"] = options.pop("keepdims")
                check_flags(method, ("keepdim",), options)  # under its own name tensors_only has checked it
        return method(*args, **options)

    return renamed


def tensors_only(function: Callable[P, R]) -> Callable[P, R]:
    """The function, which says so at once if a parameter annotated as a Tensor is given something else."""
    kinds = {"Tensor": False, "Tensor | None": True}
    annotations, flags = function.__annotations__, flags_of(function)
    code = inspect.unwrap(function).__code__  # an inspect.signature for each would be a tenth of the import
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    wanted = [(i, name, kinds[kind]) for i, name in enumerate(names) if (kind := annotations.get(name)) in kinds]
    if not wanted and not flags:
        return function

    @functools.wraps(function)
    def checked(*args: P.args, **options: P.kwargs) -> R:
        given = len(args)
        for place, name, optional in wanted:
            if place < given and isinstance(args[place], Tensor):  # mostly; the rest takes longer
                continue
            x: Any = args[place] if place < given else options.get(name, None if optional else function)
            if not isinstance(x, Tensor) and x is not function and not (optional and x is None):
                raise wants_tensor(function.__name__, name, x)
        if options:
            check_flags(function, flags, options)
        return function(*args, **options)

    return checked


def all_tensors(name: str, given: Iterable[Any]) -> None:
    """Refuse what is no tensor among several, by its number."""
    for i, x in enumerate(given):
        if not isinstance(x, Tensor):
            raise wants_tensor(name, f"number {i} of the tensors", x)


def check_all(names: Iterable[str], holder: Any) -> None:
    """Put tensors_only around functions of a module (its dictionary) or methods of a class."""
    for name in names:
        function = holder[name] if isinstance(holder, dict) else vars(holder).get(name)
        if inspect.isfunction(function) and isinstance(holder, dict):
            holder[name] = tensors_only(function)
        elif inspect.isfunction(function):
            setattr(holder, name, tensors_only(function))


def call_steps(names: dict[str, str], holder: Any) -> None:
    """Give the results of functions of a module (its dictionary) or methods of a class PyTorch's names of their steps.

    names: for a function the name of what is one step there and several operations here.
    """
    for name, step in names.items():
        if isinstance(holder, dict):
            holder[name] = _calling(step, holder[name])
        else:
            setattr(holder, name, _calling(step, vars(holder)[name]))


def _calling(step: str, function: Callable[P, R]) -> Callable[P, R]:
    @functools.wraps(function)
    def called(*args: P.args, **options: P.kwargs) -> R:
        result: Any = function(*args, **options)
        if getattr(result, "node", None) is None:
            return result
        if any(result is x for x in (*args, *options.values())):  # as it was given
            return result
        return call_step(result, step)

    return called
