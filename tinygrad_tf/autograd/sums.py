"""Mistakes in the sums of a backward: over axes that were broadcast, over indices that repeat, over too many axes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator

import numpy as np

from tinygrad_tf._quiet import quiet
from tinygrad_tf.autograd.evidence import NOT_SUMMED, WRONG_AXIS, Evidence
from tinygrad_tf.autograd.report import Pair


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
        if rows and rows == set(values[counts > 1].tolist()) and _some_are_right(shape[0], rows, values):
            yield "only one of repeated indices counts: wrong are the rows indexed more than once; use np.add.at"


def _some_are_right(size: int, wrong: set[int], looked_up: np.ndarray) -> bool:
    """Whether rows that are looked up once are right, as they are not where the numbers are no indices: a mask."""
    return bool(set(looked_up[looked_up < size].tolist()) - wrong)


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
                yield (
                    f"{NOT_SUMMED}: only entry {i} of axis {axis} of the output counts (if that axis is time: the "
                    "gradient does not go back from one step to the one before)"
                )
    yield from _slice_of_another(e)


def _slice_of_another(e: Evidence) -> Iterator[str]:
    """Behind a loss: N is another input's gradient summed over broadcast axes; A is one slice, or another sum."""
    for p in e.report.pairs:
        axes = _broadcast_axes(e.pair.input_shape, p.input_shape)
        if p.output == e.pair.output and p.complete and axes:
            yield from _share_of(e, p, axes, p.numeric.reshape(-1, *p.input_shape))
            with quiet():  # the two are multiplied, perhaps
                factor = e.inputs[p.input] / e.values
            if np.isfinite(factor).all():
                yield from _share_of(e, p, axes, p.numeric.reshape(-1, *p.input_shape) * factor)


def _share_of(e: Evidence, p: Pair, axes: list[int], whole: np.ndarray) -> Iterator[str]:
    """The same, where `whole` may be what must be summed, in the shape of p's input."""
    behind = tuple(a + 1 for a in axes)
    if not e.fits(whole.sum(axis=behind).reshape(e.numeric.shape), e.numeric):
        return
    for others in itertools.combinations(range(len(p.input_shape)), len(axes)):
        total = whole.sum(axis=tuple(a + 1 for a in others))
        fits = total.size == e.analytic.size and e.fits(total.reshape(e.numeric.shape), e.analytic)
        if list(others) != axes and fits:
            yield f"{WRONG_AXIS}: over axis {_listed(others)} in place of {_listed(axes)} of {p.input}"
    for i in (0, -1):
        part = whole
        for a in behind:
            part = np.take(part, [i], axis=a)
        if e.fits(part.reshape(e.numeric.shape), e.analytic):
            which = "first" if i == 0 else "last"
            yield f"{NOT_SUMMED}: only the {which} entry of axis {_listed(axes)} of {p.input} counts"


def _broadcast_axes(small: tuple[int, ...], large: tuple[int, ...]) -> list[int] | None:
    """The axes of `large` along which `small` would be repeated to fit it; None if it does not fit."""
    extra = len(large) - len(small)
    if extra < 0 or any(n not in (1, m) for n, m in zip(small, large[extra:], strict=True)):
        return None
    return [*range(extra), *(i + extra for i, n in enumerate(small) if n != large[i + extra])]


def _listed(axes: Iterable[int]) -> str:
    return ", ".join(map(str, axes))


def _one_of_many(e: Evidence) -> Iterator[str]:
    """Yields "last" or "first" if A keeps just that one of the entries of every column of N."""
    n = e.alive(e.numeric)
    if not (n.sum(0) > 1).any():
        return
    for order in _orders(e):
        last, first = np.where(n, order, -1).max(0), np.where(n, order, n.shape[0]).min(0)
        for name, chosen in (("last", last), ("first", first)):
            keep = n & (order == chosen)
            if (n & ~keep).any() and e.fits(np.where(keep | ~n, e.numeric, 0.0), e.analytic):
                yield name


def _orders(e: Evidence) -> Iterator[np.ndarray]:
    """The places of the outputs, all in a row and then along each axis, as a column."""
    size = e.numeric.shape[0]
    yield np.arange(size)[:, None]
    if len(e.pair.output_shape) > 1:
        yield from (i[:, None] for i in np.unravel_index(np.arange(size), e.pair.output_shape))


def _whole_axis(e: Evidence) -> bool:
    """Whether every column has as many entries as some axis (or axes) of the output has elements: a broadcast."""
    counts = np.unique(e.alive(e.numeric).sum(0))
    return counts.size == 1 and _axis_of(e) is not None


def _axis_of(e: Evidence) -> int | tuple[int, ...] | None:
    """The axes of the output along which N has its several entries."""
    shape = e.pair.output_shape
    n = e.alive(e.numeric).reshape(*shape, -1)
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
    axes = _broadcast_axes(wanted, got)
    if axes is not None:
        inside = any(axis >= len(got) - len(wanted) for axis in axes)
        keep = ", with keepdims=True where the size is 1" if inside else ""
        yield f"{NOT_SUMMED}: sum over axis {_listed(axes)}{keep}"
    elif (reduced := _reduced_wrongly(got, e)) is not None:
        yield f"{WRONG_AXIS}: sum over axis {_listed(reduced)} of the output, along which {wanted} was repeated"
    elif sorted(got) == sorted(wanted):
        yield f"transposed or permuted: the axes {got} are those of {wanted} in another order"
    elif (extra := _axes_too_many(got, wanted)) is not None:
        yield f"{NOT_SUMMED}: sum over axis {_listed(extra)}"
    elif math.prod(got) == math.prod(wanted):
        yield f"not reshaped: {got} has as many elements as {wanted}"
    elif len(got) < len(wanted) or math.prod(got) < math.prod(wanted):
        yield f"summed over too many axes: {got} has fewer elements than {wanted}"


def _reduced_wrongly(got: tuple[int, ...], e: Evidence) -> list[int] | None:
    """The axes to sum over, if the gradient is the output's with other axes summed over instead."""
    right = _broadcast_axes(e.pair.input_shape, e.pair.output_shape)
    for count in range(1, len(e.pair.output_shape)) if right else ():
        for axes in itertools.combinations(range(len(e.pair.output_shape)), count):
            kept = tuple(1 if i in axes else n for i, n in enumerate(e.pair.output_shape))
            if list(axes) != right and got in (kept, tuple(n for i, n in enumerate(kept) if i not in axes)):
                return right
    return None


def _axes_too_many(got: tuple[int, ...], wanted: tuple[int, ...]) -> tuple[int, ...] | None:
    """The axes of `got` without which it would be `wanted`."""
    count = len(got) - len(wanted)
    for axes in itertools.combinations(range(len(got)), count) if count > 0 else ():
        if tuple(n for i, n in enumerate(got) if i not in axes) == wanted:
            return axes
    return None


def summed_too_much(e: Evidence) -> Iterator[str]:
    """A is N summed (or averaged) over axes of the input and spread out again."""
    shape, first = e.tensor_shape, len(e.pair.output_shape)
    n = e.numeric.reshape(shape)
    axes = range(first, len(shape))
    for count in range(1, len(e.pair.input_shape) + 1):
        for chosen in itertools.combinations(axes, count):
            total = n.sum(axis=chosen, keepdims=True)
            size = math.prod(shape[a] for a in chosen)
            if size > 1 and (not _all_alike(total) or _is_broadcast(e, chosen)):
                for value, word in ((total, "summed"), (total / size, "averaged")):
                    if e.fits(np.broadcast_to(value, shape).reshape(e.numeric.shape), e.analytic):
                        where = _listed(a - first for a in chosen)
                        yield f"{word} over too many axes: it must not be {word} over axis {where} of the input"


def _all_alike(total: np.ndarray) -> bool:
    """Whether there are several numbers other than 0, all of the same size."""
    sizes = np.abs(total)
    sizes = sizes[sizes > 1e-6 * sizes.max(initial=0.0)]
    return (
        bool(np.ptp(sizes) <= 1e-3 * sizes.max()) if sizes.size > 1 else bool(np.abs(sizes - 1).max(initial=0.0) < 1e-3)
    )


def _is_broadcast(e: Evidence, chosen: tuple[int, ...]) -> bool:
    """Whether an axis of the output belongs to each of the input's, as those of a bias. Else equal sums say nothing.

    Those of a softmax are 1, and so are those of the one maximum of a row.
    """
    alive = e.alive(e.numeric).reshape(e.tensor_shape)
    places = np.nonzero(alive)
    outs = range(len(e.pair.output_shape))
    return all(any(np.array_equal(places[q], places[p]) for q in outs) for p in chosen)
