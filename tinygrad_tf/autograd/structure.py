"""Two kinds of mistakes that show in how the axes of a Jacobian hang together: wrong order, and a term left out."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np

from tinygrad_tf._quiet import quiet
from tinygrad_tf.autograd.evidence import Evidence

MOST_AXES = 6


def permuted_axes(e: Evidence) -> Iterator[str]:
    """A is N with axes in another order, flipped, shifted, or with its columns in another order altogether."""
    yield from _transposed(e)
    yield from _moved(e)
    if _same_columns(e):
        yield "permuted: the entries of the gradient are right but in the wrong places"


def _transposed(e: Evidence) -> Iterator[str]:
    shape, outs = e.tensor_shape, len(e.pair.output_shape)
    if len(shape) > MOST_AXES:
        orders: Iterator[tuple[int, ...]] = _exchanges(len(shape))
    else:
        orders = itertools.permutations(range(len(shape)))
    n = e.numeric.reshape(shape)
    ordered = sorted(orders, key=lambda p: sum(i != a for i, a in enumerate(p)))
    for order in ordered:
        moved = [i for i, a in enumerate(order) if i != a]
        if not moved or any(shape[a] == 1 for a in moved):
            continue
        inside = all(i >= outs for i in moved)
        if tuple(shape[a] for a in order) != shape and not inside and any(i >= outs for i in moved):
            continue
        if e.fits(n.transpose(order).reshape(e.numeric.shape), e.analytic):
            yield _order_text(moved, outs, tuple(shape[a] for a in order) != shape)


def _exchanges(count: int) -> Iterator[tuple[int, ...]]:
    for i, j in itertools.combinations(range(count), 2):
        order = list(range(count))
        order[i], order[j] = j, i
        yield tuple(order)


def _order_text(moved: list[int], outs: int, reshaped: bool) -> str:
    inside = [i - outs for i in moved if i >= outs]
    outside = [i for i in moved if i < outs]
    word = "transposed or permuted" + (" (reshape used where a transpose is meant)" if reshaped else "")
    if not outside:
        return f"{word}: axes {_list(inside)} of this gradient are exchanged"
    if not inside:
        return f"{word}: axes {_list(outside)} of the output's gradient are exchanged on the way back"
    return (
        f"{word}: axis {_list(outside)} of the output and axis {_list(inside)} of the input are exchanged; "
        "is a transpose of a matrix missing, or a sum over the wrong axis?"
    )


def _list(axes: list[int]) -> str:
    return " and ".join(str(a) for a in axes)


def _moved(e: Evidence) -> Iterator[str]:
    """Flipped or shifted along one axis of the input or the output."""
    shape, outs = e.tensor_shape, len(e.pair.output_shape)
    n = e.numeric.reshape(shape)
    for axis, size in enumerate(shape):
        what = f"axis {axis} of the output" if axis < outs else f"axis {axis - outs} of the input"
        if size < 2:
            continue
        if size > 2 and e.fits(np.flip(n, axis).reshape(e.numeric.shape), e.analytic):
            yield f"permuted: reversed along {what}"
        for shift in range(1, size):
            rolled = np.roll(n, shift, axis)
            cut = _cut(rolled, axis, shift)
            back = np.roll(n, -shift, axis)
            for candidate, by in ((rolled, shift), (cut, shift), (_cut(back, axis, -shift), -shift)):
                if e.fits(candidate.reshape(e.numeric.shape), e.analytic):
                    yield f"permuted: shifted by {by} along {what} (off by {abs(by)})"


def _cut(x: np.ndarray, axis: int, shift: int) -> np.ndarray:
    """x with zeros where a shift without wrapping leaves nothing."""
    x = x.copy()
    index: list[slice] = [slice(None)] * x.ndim
    index[axis] = slice(0, shift) if shift > 0 else slice(shift, None)
    x[tuple(index)] = 0
    return x


def _same_columns(e: Evidence) -> bool:
    """Whether the columns of A are those of N in another order (or its rows)."""
    for a, n, back in ((e.analytic, e.numeric, False), (e.analytic.T, e.numeric.T, True)):
        if a.shape[1] < 3 or a.shape[1] > 400:
            continue
        distances = np.abs(a[:, :, None] - n[:, None, :]).max(0)
        order = distances.argmin(1)
        if len(set(order.tolist())) == order.size:
            candidate = n[:, order]
            if e.fits(candidate.T if back else candidate, e.analytic):
                return True
    return False


# --- terms left out along axes ----------------------------------------------------------------------------------------


def dropped_terms(e: Evidence) -> Iterator[str]:
    """Softmax without its sum, a mean or a variance taken as constant: each links A and N along some axes of the input.

    With s the sum over these axes, and for every output (row) by itself:
        softmax, log_softmax:  N = A - y sA       y the softmax of the input, or at least the same y > 0 in all rows
        mean as constant:      N = A - sA / n
        variance as constant:  N = A - x s(A x) / n  with x the input, centred and divided by its deviation
    """
    shape = e.pair.input_shape
    for size in range(1, len(shape) + 1):
        for axes in itertools.combinations(range(len(shape)), size):
            if math.prod(shape[a] for a in axes) > 1:
                yield from _dropped_along(e, axes)


def _axes_name(axes: tuple[int, ...]) -> str:
    return f"axis {axes[0]}" if len(axes) == 1 else f"axes {', '.join(map(str, axes))}"


def _dropped_along(e: Evidence, axes: tuple[int, ...]) -> Iterator[str]:
    name, behind = _axes_name(axes), tuple(a + 1 for a in axes)
    a, right = (jacobian.reshape(len(jacobian), *e.pair.input_shape) for jacobian in (e.analytic, e.numeric))

    def fits(candidate: np.ndarray) -> bool:
        return e.fits(candidate.reshape(e.numeric.shape), e.numeric)

    x = e.values.astype(np.float64)
    centred = x - x.mean(axis=axes, keepdims=True)
    no_mean = a - a.mean(axis=behind, keepdims=True)
    if fits(no_mean):
        yield f"the mean over {name} is taken as constant: the term - mean(gradient) is missing"
    mean_matters = bool(np.abs(no_mean - a).max() > e.tolerance.max())
    for start, both in ((no_mean, mean_matters), (a, False)):
        scaled = _variance_term(start, right, centred, axes)
        if scaled is not None and fits(scaled):
            what = "the mean and the variance" if both else "the variance"
            yield f"{what} over {name} {'are' if both else 'is'} taken as constant: a sum term is missing"
    if any(fits(candidate) for candidate in _softmax_terms(a, right, x, axes)):
        yield f"the softmax rule without its sum term: over {name}, y * sum(gradient) must be subtracted"


def _variance_term(a: np.ndarray, right: np.ndarray, centred: np.ndarray, axes: tuple[int, ...]) -> np.ndarray | None:
    """a - x s(a x) / n with x = centred / sqrt(variance + eps), where eps is found from the first row that tells it."""
    behind = tuple(axis + 1 for axis in axes)
    variance = (centred * centred).mean(axis=axes, keepdims=True)
    pattern = centred * (a * centred).mean(axis=behind, keepdims=True)
    if not pattern.any():
        return None
    missing = a - right
    groups = (pattern * pattern).sum(axis=behind, keepdims=True).sum(axis=0, keepdims=True)
    with quiet():
        inverse = (missing * pattern).sum(axis=behind, keepdims=True).sum(axis=0, keepdims=True) / groups
        eps = 1 / inverse - variance
    if not np.all(np.isfinite(eps)) or (eps < -0.02 * variance).any() or (eps > 0.5 + variance).any():
        return None
    return a - pattern * inverse


def _softmax_terms(a: np.ndarray, right: np.ndarray, x: np.ndarray, axes: tuple[int, ...]) -> Iterator[np.ndarray]:
    """A - y sA with y the softmax of the input, and with the y that the rows imply, if they agree in one.

    That is the softmax of something else: positive, and of sum 1.
    """
    total = a.sum(axis=tuple(axis + 1 for axis in axes), keepdims=True)
    with quiet():
        exponentials = np.exp(x - x.max(axis=axes, keepdims=True))
        y = exponentials / exponentials.sum(axis=axes, keepdims=True)
    yield a - y * total
    strength = (total * total).sum(axis=0)
    if a.shape[0] < 2 or not (strength > 0).all():
        return
    weights = ((a - right) * total).sum(axis=0) / strength
    if (weights > 0).all() and np.abs(weights.sum(axis=axes, keepdims=True) - 1).max() < 1e-3:
        yield a - weights * total
