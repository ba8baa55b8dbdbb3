"""Naming the likely mistake in a wrong gradient.

Each test asks whether the analytic Jacobian A and the numeric one N fit what a well-known mistake would have made of
N. A test names its mistake only if every entry fits; the first that does is the diagnosis. Notation: A and N are (m,
n), one row for each element of the output and one column for each element of the input.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinygrad_tf.autograd.report import Pair, Report
from tinygrad_tf.autograd.structure import permuted, row_rules
from tinygrad_tf.autograd.zero_sums import lost_terms

WRONG_SIDE = "a mask applied to the wrong side"
NOT_SUMMED = "not summed over a broadcast axis"
LOOSE = 1e-4  # how exactly numbers must fit a mistake, relative to the largest entry


@dataclass
class Evidence:
    """One wrong pair, with what the tests need besides: the other pairs, the input's values, and integer inputs."""

    pair: Pair
    report: Report
    values: np.ndarray
    integers: list[np.ndarray]

    def __post_init__(self) -> None:
        self.analytic, self.numeric = self.pair.analytic, self.pair.numeric
        self.largest = max(float(np.abs(self.numeric).max(initial=0.0)), float(np.abs(self.analytic).max(initial=0.0)))
        self.tolerance = LOOSE * np.maximum(np.abs(self.numeric), 1e-2 * self.largest) + 5 * self.pair.error

    def fits(self, a: np.ndarray, b: np.ndarray) -> bool:
        with np.errstate(all="ignore"):
            return a.shape == b.shape and bool(np.all(np.abs(a - b) <= self.tolerance))

    @property
    def tensor_shape(self) -> tuple[int, ...]:
        return (*self.pair.output_shape, *self.pair.input_shape)


Test = Callable[[Evidence], Iterator[str]]


def diagnose(pair: Pair, report: Report, subject: Any, settings: Any) -> list[str]:
    """The likely mistake, as a list of at most one line (empty if none fits)."""
    position = pair.positions[1]
    evidence = Evidence(pair, report, subject.inputs[position].array, subject.integers)
    if pair.got_shape is not None:
        return list(itertools.islice(wrong_shape(evidence), 1))
    if not np.isfinite(pair.analytic).all():
        return ["the gradient is not finite: a division by zero, the logarithm or root of zero, or 0 times infinity"]
    if not np.isfinite(pair.numeric).all():
        return []
    tests: list[Test] = [detached, rounded, constant_factor, swapped_inputs, wrong_mask]
    if pair.complete:
        tests += [repeated_indices, not_summed, permuted_axes, dropped_terms, summed_too_much]
    tests += [exchanged_branches, missing_mask, only_some_rows, zero_sums]
    return list(itertools.islice(itertools.chain.from_iterable(test(evidence) for test in tests), 1))


# --- nothing, a factor, another input's -------------------------------------------------------------------------------


def detached(e: Evidence) -> Iterator[str]:
    if not e.analytic.any():
        way = "no gradient ever reached this input" if not e.pair.arrived else "the gradient is zero everywhere"
        yield f"{way}: it was detached (.detach(), .data, no_grad, a NumPy detour), or backward forgot it"


def rounded(e: Evidence) -> Iterator[str]:
    """A is N to so many digits that only rounding can have taken the others."""
    off = np.abs(e.analytic - e.numeric) / np.maximum(np.abs(e.numeric), 1e-2 * e.largest)
    worst = float(off.max(initial=0.0))
    if worst < LOOSE:
        why = "as if backward worked in float32 somewhere" if worst < 1e-6 else "a constant or a step is inexact"
        yield f"right to {max(1, int(-math.log10(worst)))} digits, {why}: keep to float64, or allow for it with rtol"


def constant_factor(e: Evidence) -> Iterator[str]:
    """A = c N."""
    strong = np.abs(e.numeric) > 1e-3 * e.largest
    if not strong.any():
        return
    ratios = e.analytic[strong] / e.numeric[strong]
    c = float(np.median(ratios))
    if c == 0 or not np.isfinite(c) or not np.abs(e.analytic - c * e.numeric).max() <= (1 + abs(c)) * e.tolerance.max():
        return
    if bool(np.all(np.abs(e.analytic - c * e.numeric) <= max(1.0, abs(c)) * e.tolerance)):
        yield f"a constant factor: the gradient is {c:.6g} times the right one{_factor_name(c, e)}"


def _factor_name(c: float, e: Evidence) -> str:
    """What the factor may be: a sign, a small number, a size or its root, or one divided by them."""
    sign = " and the sign is wrong" if c < 0 else ""
    size = abs(c)
    if abs(size - 1) < 1e-4:  # of c > 0 that is no factor at all, and `rounded` has named it
        return " (the sign is wrong)"
    for value, name in _known_factors(e):
        for power, text in ((1.0, name), (-1.0, f"1/{name}")):
            if abs(size / value**power - 1) < 1e-4:
                return f" ({text}{sign})"
    return f" ({sign.removeprefix(' and ')})" if sign else ""


def _known_factors(e: Evidence) -> Iterator[tuple[float, str]]:
    yield 2.0, "2"
    sizes: dict[int, str] = {}
    for what, shape in (("the input", e.pair.input_shape), ("the output", e.pair.output_shape)):
        total = math.prod(shape)
        for n, name in [(total, f"the number of elements of {what}")] + [
            (n, f"the size of axis {i} of {what}") for i, n in enumerate(shape)
        ]:
            if n > 2:
                sizes.setdefault(n, name)
    for p in e.report.pairs:
        for i, n in enumerate(p.input_shape):
            if n > 2:
                sizes.setdefault(n, f"the size of axis {i} of {p.input}")
    for n, name in sizes.items():
        yield float(n), f"{n}, {name}"
        yield math.sqrt(n), f"sqrt({n}), the root of {name.removeprefix('the ')}"
        if n > 3:
            yield float(n - 1), f"{n - 1}, one less than {name}"
    for n in (3, 4, 5, 6, 8, 10):
        yield float(n), str(n)
    for value, name in (
        (math.sqrt(2), "sqrt(2)"),
        (math.pi, "pi"),
        (math.sqrt(math.pi), "sqrt(pi)"),
        (math.log(2), "ln 2"),
    ):
        yield value, name


def swapped_inputs(e: Evidence) -> Iterator[str]:
    """A of this input is N of another one."""
    for p in e.report.pairs:
        same = p.output == e.pair.output and p is not e.pair and p.input_shape == e.pair.input_shape
        if same and p.numeric.shape == e.numeric.shape and e.fits(e.analytic, p.numeric):
            yield f"swapped: this is the gradient of {p.input}"


# --- masks and branches -----------------------------------------------------------------------------------------------


def wrong_mask(e: Evidence) -> Iterator[str]:
    """A lives in exactly those columns (or rows) in which N does not."""
    a, n = _alive(e, e.analytic), _alive(e, e.numeric)
    if not a.any() or not n.any():
        return
    columns_a, columns_n = a.any(0), n.any(0)
    if not (columns_a & columns_n).any() and (columns_a | columns_n).all():
        yield f"{WRONG_SIDE}: the gradient flows exactly where it must be zero, and is zero elsewhere"
        return
    rows_a, rows_n = a.any(1), n.any(1)
    if a.shape[0] > 1 and not (rows_a & rows_n).any() and (rows_a | rows_n).all():
        yield f"{WRONG_SIDE}: the gradient comes from exactly the outputs that do not depend on the input"


def missing_mask(e: Evidence) -> Iterator[str]:
    """A is N where N lives, and does not vanish where N does."""
    n = _alive(e, e.numeric)
    a = _alive(e, e.analytic)
    if n.any() and (a & ~n).any() and bool(np.all(~n | (np.abs(e.analytic - e.numeric) <= e.tolerance))):
        yield "a mask is missing: the gradient also flows where it must be zero"


def exchanged_branches(e: Evidence) -> Iterator[str]:
    """A / N takes two values, each the other's inverse: two branches of a condition were exchanged."""
    alive = _alive(e, e.numeric)
    if not alive.any() or (_alive(e, e.analytic) != alive).any():
        return
    ratios = e.analytic[alive] / e.numeric[alive]
    if not (ratios > 0).all():
        return
    logs = np.log(ratios)
    size = float(np.abs(logs).max())
    two = np.abs(np.abs(logs) - size) < 1e-3 * max(size, 1e-9)
    if size > 1e-3 and two.all() and (logs > 0).any() and (logs < 0).any():
        yield f"{WRONG_SIDE}: the slopes of two branches of a condition are exchanged"


def _alive(e: Evidence, x: np.ndarray) -> np.ndarray:
    return np.abs(x) > np.maximum(5 * e.pair.error, 1e-6 * e.largest)


# --- sums that are not taken ------------------------------------------------------------------------------------------


def repeated_indices(e: Evidence) -> Iterator[str]:
    """Of several entries in a column only one is left: the last (or first) that indexes this element."""
    for found in _one_of_many(e):
        if e.integers and not _whole_axis(e):
            yield f"only the {found} of repeated indices counts: use np.add.at, assigning (also +=) keeps one of them"
        elif not _whole_axis(e):
            yield f"only the {found} of several contributions counts (repeated indices?): assigning overwrites"
    yield from _wrong_where_repeated(e)


def _wrong_where_repeated(e: Evidence) -> Iterator[str]:
    """Behind a loss contributions cannot be told apart, but wrong are just those rows that an index repeats."""
    shape = e.pair.input_shape
    wrong = (np.abs(e.analytic - e.numeric) > e.tolerance).any(0)
    if not shape or wrong.all():
        return
    rows = set(np.nonzero(wrong.reshape(shape[0], -1).any(1))[0].tolist())
    for index in e.integers:
        values, counts = np.unique(index[index >= 0], return_counts=True)
        if rows and rows == set(values[counts > 1].tolist()):
            yield "only one of repeated indices counts: wrong are the rows indexed more than once; use np.add.at"


def not_summed(e: Evidence) -> Iterator[str]:
    """The same, where the contributions lie along a whole axis of the output; or A is one slice of that axis."""
    for found in _one_of_many(e):
        if _whole_axis(e):
            yield (
                f"{NOT_SUMMED}: only the {found} contribution counts; sum the output's gradient over axis {_axis_of(e)}"
            )
    shape = e.tensor_shape
    n = e.numeric.reshape(shape)
    for axis in range(len(e.pair.output_shape)):
        for i in range(shape[axis]):
            kept = np.zeros(shape[axis], bool)
            kept[i] = True
            view = [1] * len(shape)
            view[axis] = -1
            if shape[axis] > 1 and e.fits(np.where(kept.reshape(view), n, 0).reshape(e.numeric.shape), e.analytic):
                yield f"{NOT_SUMMED}: only entry {i} of axis {axis} of the output counts"
    yield from _slice_of_another(e)


def _slice_of_another(e: Evidence) -> Iterator[str]:
    """Behind a loss: N is another input's gradient summed over the axes that broadcast, and A is one slice of that."""
    wanted = e.pair.input_shape
    for p in e.report.pairs:
        extra = len(p.input_shape) - len(wanted)
        if p.output != e.pair.output or extra < 0 or not p.complete:
            continue
        if any(n not in (1, m) for n, m in zip(wanted, p.input_shape[extra:], strict=True)):
            continue
        axes = [*range(extra), *(i + extra for i, n in enumerate(wanted) if n != p.input_shape[i + extra])]
        whole = p.numeric.reshape(-1, *p.input_shape)
        behind = tuple(a + 1 for a in axes)
        if not axes or not e.fits(whole.sum(axis=behind).reshape(e.numeric.shape), e.numeric):
            continue
        for i in (0, -1):
            part = whole
            for a in behind:
                part = np.take(part, [i], axis=a)
            if e.fits(part.reshape(e.numeric.shape), e.analytic):
                which = "first" if i == 0 else "last"
                yield f"{NOT_SUMMED}: only the {which} entry of axis {_some(axes)} of {p.input} counts"


def _some(axes: list[int]) -> str:
    return ", ".join(map(str, axes))


def _one_of_many(e: Evidence) -> Iterator[str]:
    """Yields "last" or "first" if A keeps just that one of the entries of every column of N."""
    n = _alive(e, e.numeric)
    counts = n.sum(0)
    if not (counts > 1).any():
        return
    order = np.arange(n.shape[0])[:, None]
    last, first = np.where(n, order, -1).max(0), np.where(n, order, n.shape[0]).min(0)
    for name, chosen in (("last", last), ("first", first)):
        keep = n & (order == chosen)
        if e.fits(np.where(keep | ~n, e.numeric, 0.0), e.analytic):
            yield name


def _whole_axis(e: Evidence) -> bool:
    """Whether every column has as many entries as some axis (or axes) of the output has elements: a broadcast."""
    counts = np.unique(_alive(e, e.numeric).sum(0))
    return counts.size == 1 and _axis_of(e) is not None


def _axis_of(e: Evidence) -> int | tuple[int, ...] | None:
    """The axes of the output along which N has its several entries."""
    shape = e.pair.output_shape
    n = _alive(e, e.numeric).reshape(*shape, -1)
    for count in range(1, len(shape) + 1):
        for axes in itertools.combinations(range(len(shape)), count):
            size = math.prod(shape[a] for a in axes)
            sums = np.asarray(n.sum(axis=axes))
            if size > 1 and bool(np.all((sums == 0) | (sums == size))) and int(n.sum()) == size * n.shape[-1]:
                return axes[0] if count == 1 else axes
    return None


def wrong_shape(e: Evidence) -> Iterator[str]:
    """The gradient has the shape of the output, say, because a broadcast was not undone; or is transposed."""
    got, wanted = e.pair.got_shape, e.pair.input_shape
    assert got is not None
    extra = len(got) - len(wanted)
    if extra >= 0 and all(n in (1, m) for n, m in zip(wanted, got[extra:], strict=True)):
        axes = [*range(extra), *(i + extra for i, n in enumerate(wanted) if n != got[i + extra])]
        keep = "" if not any(a >= extra for a in axes) else ", with keepdims=True where the size is 1"
        yield f"{NOT_SUMMED}: sum over axis {', '.join(map(str, axes))}{keep}"
    elif sorted(got) == sorted(wanted):
        yield f"transposed or permuted: the axes {got} are those of {wanted} in another order"
    elif math.prod(got) == math.prod(wanted):
        yield f"not reshaped: {got} has as many elements as {wanted}"
    elif len(got) < len(wanted) or math.prod(got) < math.prod(wanted):
        yield f"summed over too many axes: {got} has fewer elements than {wanted}"


def summed_too_much(e: Evidence) -> Iterator[str]:
    """A is N summed (or averaged) over axes of the input and spread out again."""
    shape, first = e.tensor_shape, len(e.pair.output_shape)
    n = e.numeric.reshape(shape)
    axes = range(first, len(shape))
    for count in range(1, len(e.pair.input_shape) + 1):
        for chosen in itertools.combinations(axes, count):
            total = n.sum(axis=chosen, keepdims=True)
            size = math.prod(shape[a] for a in chosen)
            if size > 1:
                for value, word in ((total, "summed"), (total / size, "averaged")):
                    if e.fits(np.broadcast_to(value, shape).reshape(e.numeric.shape), e.analytic):
                        where = ", ".join(str(a - first) for a in chosen)
                        yield f"{word} over too many axes: it must not be {word} over axis {where} of the input"


# --- order, and terms -------------------------------------------------------------------------------------------------


def permuted_axes(e: Evidence) -> Iterator[str]:
    yield from permuted(e.analytic, e.numeric, e.pair.output_shape, e.pair.input_shape, e.fits)


def dropped_terms(e: Evidence) -> Iterator[str]:
    yield from row_rules(e.analytic, e.numeric, e.pair.input_shape, e.values, e.fits, e.tolerance)


def zero_sums(e: Evidence) -> Iterator[str]:
    yield from lost_terms(e.analytic, e.numeric, e.pair.input_shape, e.tolerance)


def only_some_rows(e: Evidence) -> Iterator[str]:
    """A is right for some outputs and zero for others, or for some inputs."""
    right = np.abs(e.analytic - e.numeric) <= e.tolerance
    alive = _alive(e, e.analytic)
    columns_zero, rows_zero = ~np.any(alive, 0, keepdims=True), ~np.any(alive, 1, keepdims=True)
    if columns_zero.any() and bool(np.all(right | columns_zero)):
        yield "the gradient never reached a part of the input: it was detached, overwritten or cut off there"
    elif rows_zero.any() and bool(np.all(right | rows_zero)):
        yield "the gradient of a part of the output is lost on its way: it was detached, overwritten or cut off"
