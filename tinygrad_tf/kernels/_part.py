"""Functions and loops that are compiled as parts of the kernels that use them, never by themselves."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from numba import types

from tinygrad_tf.kernels._atomics import intrinsic
from tinygrad_tf.kernels._cache import config
from tinygrad_tf.kernels._compile import _compile_into_caller, arguments_of, emit_loop, plain_loop


def part(returns: Any = types.none, halves: Callable[..., Any] | None = None) -> Callable[[Callable[..., Any]], Any]:
    """Decorate a function that only kernels call, and whose result has the numba type `returns`.

    A `kernel` that another one calls is optimised and turned into machine code alone, then again as a piece of its
    caller, and so on up: once for each level of calls, and once more for each constant that it is called with. A part
    is compiled with its caller only, and once for all calls in it. That takes a third off the time for a tall stack.

    Nor does a part count references to the arrays that it is given: its caller holds them. To count would be six locked
    additions a call, a fifth of the time to split 16 rows of 32 numbers. So a part neither makes nor returns arrays.

        @part()
        def add_row(count, source, target): ...

    halves: what takes its place where the first array that it is given holds bfloat16, as bits in uint16.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        if config.DISABLE_JIT:
            return function
        names = ", ".join(inspect.signature(function).parameters)
        # numba wants a function of the part's own parameters.
        definition = eval(
            f"lambda _typing, {names}: _part.define({names})", {"_part": _Part(function, returns, halves)}
        )
        definition.__name__, definition.__doc__ = function.__name__, function.__doc__
        return intrinsic(definition)

    return decorate


class _Part:
    def __init__(self, function: Callable[..., Any], returns: Any, halves: Callable[..., Any] | None) -> None:
        self.function, self.returns, self.halves = function, returns, halves

    def define(self, *kinds: Any) -> Any:
        return self.returns(*map(types.unliteral, kinds)), self.emit

    def emit(self, context: Any, builder: Any, signature: Any, args: Any) -> Any:
        library = context.active_code_library
        compiled = library.__dict__.setdefault("_tinygrad_tf_parts", {})
        function = self.halves if self.halves is not None and _of_halves(signature) else self.function
        key = function, signature
        if key not in compiled:
            compiled[key] = _compile_into_caller(context, function, signature, counts=False)
        return context.call_internal(builder, compiled[key], signature, args)


def _of_halves(signature: Any) -> bool:
    return next(kind.dtype for kind in signature.args if isinstance(kind, types.Array)) == types.uint16


def parallel_part(block: Callable[..., Any]) -> Any:
    """Turn `block(index, *args)` into `run(count, *args)`, as `parallel` does, but for kernels only.

    With the loops of matrix products as parts, the first step of a small GPT comes after 16.7 seconds instead of 18.4.
    """
    names = ", ".join(["_count", *arguments_of(block)])
    if config.DISABLE_JIT:
        return plain_loop(block)

    def define(count: Any, *kinds: Any) -> Any:
        plain = tuple(map(types.unliteral, kinds))
        return types.void(types.intp, *plain), emit

    def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return emit_loop(context, builder, block, signature.args[1:], values[0], values[1:])

    definition = eval(f"lambda _typing, {names}: _define({names})", {"_define": define})
    definition.__name__, definition.__doc__ = block.__name__, block.__doc__
    return intrinsic(definition)
