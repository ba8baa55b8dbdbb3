"""einsum: products and sums of tensors whose axes are named by letters.

Each pair of tensors becomes one batched matrix product: axes that both have and the result (or a later tensor) needs
are its batch, axes that only these two have are summed over, and the others are its rows and columns.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from string import ascii_letters
from typing import Any

from tinygrad_tf.engine import Tensor, expand
from tinygrad_tf.ops.arrange import diagonal
from tinygrad_tf.ops.elementwise import mul
from tinygrad_tf.ops.linalg import matmul
from tinygrad_tf.ops.reduce import sum_
from tinygrad_tf.ops.shape import permute, reshape

Axes = list[str]  # one name for each axis; those that ... stands for are called .0, .1, ... from the right


def einsum(equation: str, *operands: Any) -> Any:
    """einsum('bhid,bhjd->bhij', q, k): multiply, and sum over the letters that the result does not name.

    Without `->`, the result names the letters that occur once, in alphabetical order. `...` stands for any other axes.
    """
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = tuple(operands[0])
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(operands):
        raise RuntimeError(f"einsum: {equation!r} names {len(terms)} tensors, got {len(operands)}")
    named = [_names(equation, term, t) for term, t in zip(terms, operands, strict=True)]
    _check_sizes(equation, named, operands)
    result = _result_axes(equation, named, right if arrow else None)
    pairs = [_without_repeats(t, names) for t, names in zip(operands, named, strict=True)]
    tensor, axes = pairs[0]
    for i, (other, other_axes) in enumerate(pairs[1:], 1):
        later = {*result, *(name for _, names in pairs[i + 1 :] for name in names)}
        tensor, axes = _product(tensor, axes, other, other_axes, later)
    tensor, axes = _summed(tensor, axes, set(result))
    if tensor is operands[0]:  # of one operand alone a view, never that tensor itself
        return permute(tensor, dims=tuple(axes.index(n) for n in result))
    return _turned(tensor, axes, result)


def lettered(given: Sequence[Any]) -> tuple[Any, ...]:
    """The equation and the operands for tensors that are each followed by a list of numbers, with the result's last."""
    terms = ",".join(map(_term, given[1::2]))
    return (f"{terms}->{_term(given[-1])}" if len(given) % 2 else terms), *given[: len(given) // 2 * 2 : 2]


def _term(numbers: Any) -> str:
    """The letters of a list of numbers: 0 is A, 26 is a."""
    if not isinstance(numbers, (list, tuple)) or not all(n is ... or n in range(52) for n in numbers):
        raise ValueError(f"einsum: axes must be lists of numbers from 0 to 51, or ..., got {numbers!r:.60}")
    return "".join("..." if n is ... else ascii_letters[(n + 26) % 52] for n in numbers)


def _names(equation: str, term: str, t: Any) -> Axes:
    if not isinstance(t, Tensor):
        raise TypeError(f"einsum: operands must be tensors, got {type(t).__name__}")
    before, dots, after = term.partition("...")
    rest = t.array.ndim - len(before) - len(after)
    if rest < 0 or (rest and not dots) or not (before + after + "a").isalpha():
        raise RuntimeError(f"einsum: {term!r} in {equation!r} does not fit a tensor of shape {t.array.shape}")
    return [*before, *(f".{i}" for i in reversed(range(rest))), *after]


def _check_sizes(equation: str, named: list[Axes], operands: tuple[Any, ...]) -> None:
    sizes: dict[str, int] = {}
    for names, t in zip(named, operands, strict=True):
        for name, n in zip(names, t.array.shape, strict=True):
            if sizes.setdefault(name, n) == 1:
                sizes[name] = n
            if n not in (1, sizes[name]):
                letter = "..." if name[0] == "." else name
                raise RuntimeError(f"einsum: {letter!r} in {equation!r} has size {sizes[name]} and {n}")


def _result_axes(equation: str, named: list[Axes], right: str | None) -> Axes:
    every = [name for names in named for name in names]
    dots = sorted({name for name in every if name[0] == "."}, key=lambda name: -int(name[1:]))
    if right is None:
        return [*dots, *sorted(name for name in set(every) if name[0] != "." and every.count(name) == 1)]
    before, found, after = right.partition("...")
    result = [*before, *(dots if found else ()), *after]
    for name in result:
        if name not in every or result.count(name) > 1:
            raise RuntimeError(f"einsum: {name!r} after -> in {equation!r} must name one axis of the tensors, and once")
    return result


def _without_repeats(t: Any, names: Axes) -> tuple[Any, Axes]:
    """'ii' means the diagonal."""
    while len(set(names)) < len(names):
        name = next(n for n in names if names.count(n) > 1)
        first = names.index(name)
        second = names.index(name, first + 1)
        t = diagonal(t, 0, first, second)
        names = [n for i, n in enumerate(names) if i not in (first, second)] + [name]
    return t, names


def _product(a: Any, a_axes: Axes, b: Any, b_axes: Axes, later: set[str]) -> tuple[Any, Axes]:
    a, a_axes = _summed(a, a_axes, {*b_axes, *later})
    b, b_axes = _summed(b, b_axes, {*a_axes, *later})
    shared = [n for n in a_axes if n in b_axes]
    batch, inner = [n for n in shared if n in later], [n for n in shared if n not in later]
    rows, columns = [n for n in a_axes if n not in shared], [n for n in b_axes if n not in shared]
    sizes = {n: max(a.array.shape[a_axes.index(n)], b.array.shape[b_axes.index(n)]) for n in shared}
    a, b = _widened(a, a_axes, sizes), _widened(b, b_axes, sizes)
    sizes.update(zip(a_axes, a.array.shape, strict=True))
    sizes.update(zip(b_axes, b.array.shape, strict=True))

    def matrices(t: Any, axes: Axes, first: Axes, second: Axes) -> Any:
        order = [*batch, *first, *second]
        product = [math.prod([sizes[n] for n in group]) for group in (first, second)]
        return _shaped(_turned(t, axes, order), (*[sizes[n] for n in batch], *product))

    multiply = matmul if inner or a.array.dtype == b.array.dtype else mul  # two dtypes meet where nothing is summed
    out = multiply(matrices(a, a_axes, rows, inner), matrices(b, b_axes, inner, columns))
    axes = [*batch, *rows, *columns]
    return _shaped(out, tuple([sizes[n] for n in axes])), axes


def _summed(t: Any, axes: Axes, needed: set[str]) -> tuple[Any, Axes]:
    dims = tuple(i for i, name in enumerate(axes) if name not in needed)
    return (sum_(t, dims=dims, keepdim=False), [n for n in axes if n in needed]) if dims else (t, axes)


def _widened(t: Any, axes: Axes, sizes: dict[str, int]) -> Any:
    shape = tuple(sizes.get(n, size) for n, size in zip(axes, t.array.shape, strict=True))
    return t if shape == t.array.shape else expand(t, shape=shape)


def _turned(t: Any, axes: Axes, order: Axes) -> Any:
    return t if axes == order else permute(t, dims=tuple([axes.index(n) for n in order]))


def _shaped(t: Any, shape: tuple[int, ...]) -> Any:
    return t if t.array.shape == shape else reshape(t, shape=shape)
