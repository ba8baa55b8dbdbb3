"""One operation for each tensor of a list: torch._foreach_add_ and its like, with which optimisers are written."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from tinygrad_tf import linalg
from tinygrad_tf.tensor import Tensor

ALONE = (  # a function of one tensor; each has a form in place
    "abs", "acos", "asin", "atan", "ceil", "cos", "cosh", "exp", "expm1", "floor", "frac", "lgamma", "log", "log10",
    "log1p", "log2", "neg", "reciprocal", "round", "rsqrt", "sigmoid", "sign", "sin", "sinh", "sqrt", "tan", "tanh",
    "trunc",
)  # fmt: skip
WITH_OTHERS = (  # of a tensor, and a number or a list of tensors or numbers
    "add", "addcdiv", "addcmul", "clamp_max", "clamp_min", "div", "lerp", "mul", "pow", "sub",
)  # fmt: skip
SCALED = ("addcdiv", "addcmul")  # whose last argument is a factor


def _one_by_one(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    """`method` of each tensor; an argument that is a list holds one value for each of them.

    Returns a tuple of results, or, in place, the list that was given.
    """

    def of_a_list(tensors: Sequence[Any], *others: Any, **settings: Any) -> Any:
        for other in others:
            if isinstance(other, (list, tuple)) and len(other) != len(tensors):
                raise RuntimeError(f"{name}: lists must be of one length, got {len(tensors)} and {len(other)}")
        results = []
        for i, tensor in enumerate(tensors):
            own = [other[i] if isinstance(other, (list, tuple)) else other for other in others]
            results.append(method(tensor, *own, **settings))
        return tensors if name.endswith("_") else tuple(results)

    of_a_list.__name__ = name
    return of_a_list


def _with_factor(method: Callable[..., Any]) -> Callable[..., Any]:
    """addcmul and addcdiv, which take their factor by position here."""

    @functools.wraps(method)
    def scaled(tensor: Any, first: Any, second: Any, value: Any = 1) -> Any:
        return method(tensor, first, second, value=value)

    return scaled


def of_lists() -> dict[str, Callable[..., Any]]:
    """The functions by their names in torch.

    >>> of_lists()["_foreach_mul"]([Tensor([1.0, 2.0]), Tensor([3.0])], [2.0, 10.0])
    (tensor([2., 4.]), tensor([30.]))
    """
    methods = {name: getattr(Tensor, name) for name in ("clone", "copy_", "maximum", "minimum", "zero_")}
    methods["norm"] = linalg.vector_norm
    for name in (form for plain in (*ALONE, *WITH_OTHERS) for form in (plain, f"{plain}_")):
        method = getattr(Tensor, name)
        methods[name] = _with_factor(method) if name.rstrip("_") in SCALED else method
    return {f"_foreach_{name}": _one_by_one(f"_foreach_{name}", method) for name, method in methods.items()}
