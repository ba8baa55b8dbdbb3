"""Two kinds of mistakes that show in how the axes of a Jacobian hang together: wrong order, and a term left out."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator

import numpy as np

Fits = Callable[[np.ndarray, np.ndarray], bool]
MOST_AXES = 6


def permuted(
    analytic: np.ndarray, numeric: np.ndarray, output_shape: tuple[int, ...], input_shape: tuple[int, ...], fits: Fits
) -> Iterator[str]:
    """A is N with axes in another order, flipped, shifted, or with its columns in another order altogether."""
    yield from _transposed(analytic, numeric, output_shape, input_shape, fits)
    yield from _moved(analytic, numeric, output_shape, input_shape, fits)
    if _same_columns(analytic, numeric, fits):
        yield "permuted: the entries of the gradient are right but in the wrong places"


def _transposed(
    analytic: np.ndarray, numeric: np.ndarray, output_shape: tuple[int, ...], input_shape: tuple[int, ...], fits: Fits
) -> Iterator[str]:
    shape, outs = (*output_shape, *input_shape), len(output_shape)
    if len(shape) > MOST_AXES:
        orders: Iterator[tuple[int, ...]] = _exchanges(len(shape))
    else:
        orders = itertools.permutations(range(len(shape)))
    n = numeric.reshape(shape)
    ordered = sorted(orders, key=lambda p: sum(i != a for i, a in enumerate(p)))
    for order in ordered:
        moved = [i for i, a in enumerate(order) if i != a]
        if not moved or any(shape[a] == 1 for a in moved):
            continue
        inside = all(i >= outs for i in moved)
        if tuple(shape[a] for a in order) != shape and not inside and any(i >= outs for i in moved):
            continue
        if fits(n.transpose(order).reshape(numeric.shape), analytic):
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


def _moved(
    analytic: np.ndarray, numeric: np.ndarray, output_shape: tuple[int, ...], input_shape: tuple[int, ...], fits: Fits
) -> Iterator[str]:
    """Flipped or shifted along one axis of the input or the output."""
    shape, outs = (*output_shape, *input_shape), len(output_shape)
    n = numeric.reshape(shape)
    for axis, size in enumerate(shape):
        what = f"axis {axis} of the output" if axis < outs else f"axis {axis - outs} of the input"
        if size < 2:
            continue
        if size > 2 and fits(np.flip(n, axis).reshape(numeric.shape), analytic):
            yield f"permuted: reversed along {what}"
        for shift in range(1, size):
            rolled = np.roll(n, shift, axis)
            cut = _cut(rolled, axis, shift)
            back = np.roll(n, -shift, axis)
            for candidate, by in ((rolled, shift), (cut, shift), (_cut(back, axis, -shift), -shift)):
                if fits(candidate.reshape(numeric.shape), analytic):
                    yield f"permuted: shifted by {by} along {what} (off by {abs(by)})"


def _cut(x: np.ndarray, axis: int, shift: int) -> np.ndarray:
    """x with zeros where a shift without wrapping leaves nothing."""
    x = x.copy()
    index: list[slice] = [slice(None)] * x.ndim
    index[axis] = slice(0, shift) if shift > 0 else slice(shift, None)
    x[tuple(index)] = 0
    return x


def _same_columns(analytic: np.ndarray, numeric: np.ndarray, fits: Fits) -> bool:
    """Whether the columns of A are those of N in another order (or its rows)."""
    for a, n, back in ((analytic, numeric, False), (analytic.T, numeric.T, True)):
        if a.shape[1] < 3 or a.shape[1] > 400:
            continue
        distances = np.abs(a[:, :, None] - n[:, None, :]).max(0)
        order = distances.argmin(1)
        if len(set(order.tolist())) == order.size:
            candidate = n[:, order]
            if fits(candidate.T if back else candidate, analytic):
                return True
    return False


# --- terms left out along axes ----------------------------------------------------------------------------------------


def row_rules(
    analytic: np.ndarray,
    numeric: np.ndarray,
    input_shape: tuple[int, ...],
    values: np.ndarray,
    fits: Fits,
    tolerance: np.ndarray,
) -> Iterator[str]:
    """Softmax without its sum, a mean or a variance taken as constant: each links A and N along some axes of the input.

    With s the sum over these axes, and for every output (row) by itself:
        softmax, log_softmax:  N = A - y sA       y the softmax of the input, or at least the same y > 0 in all rows
        mean as constant:      N = A - sA / n
        variance as constant:  N = A - x s(A x) / n  with x the input, centred and divided by its deviation
    """
    count = len(input_shape)
    for size in range(1, count + 1):
        for axes in itertools.combinations(range(count), size):
            n = math.prod(input_shape[a] for a in axes)
            if n > 1:
                name = _axes_name(axes)
                yield from _rules_along(analytic, numeric, input_shape, values, fits, tolerance, axes, n, name)


def _axes_name(axes: tuple[int, ...]) -> str:
    return f"axis {axes[0]}" if len(axes) == 1 else f"axes {', '.join(map(str, axes))}"


def _rules_along(
    analytic: np.ndarray,
    numeric: np.ndarray,
    input_shape: tuple[int, ...],
    values: np.ndarray,
    fits: Fits,
    tolerance: np.ndarray,
    axes: tuple[int, ...],
    n: int,
    name: str,
) -> Iterator[str]:
    behind = tuple(a + 1 for a in axes)
    full = (analytic.shape[0], *input_shape)
    a, right = analytic.reshape(full), numeric.reshape(full)
    total = a.sum(axis=behind, keepdims=True)
    x = values.astype(np.float64)
    centred = x - x.mean(axis=axes, keepdims=True)
    variance = (centred * centred).mean(axis=axes, keepdims=True)
    no_mean = a - total / n
    if fits(no_mean.reshape(numeric.shape), numeric):
        yield f"the mean over {name} is taken as constant: the term - mean(gradient) is missing"
    for start, also in ((a, "the mean and "), (no_mean, "")):
        if also == "":
            start = a
        scaled = _variance_term(start if not also else no_mean, right, centred, variance, behind, n)
        if scaled is not None and fits(scaled.reshape(numeric.shape), numeric):
            both = bool(np.abs(no_mean - a).max() > tolerance.max()) and also != ""
            what = "the mean and the variance" if both else "the variance"
            yield f"{what} over {name} {'are' if both else 'is'} taken as constant: a sum term is missing"
    if _softmax_like(a, right, total, x, axes, behind, fits, numeric.shape, tolerance):
        yield f"the softmax rule without its sum term: over {name}, y * sum(gradient) must be subtracted"


def _variance_term(
    a: np.ndarray, right: np.ndarray, centred: np.ndarray, variance: np.ndarray, behind: tuple[int, ...], n: int
) -> np.ndarray | None:
    """a - x s(a x) / n with x = centred / sqrt(variance + eps), where eps is found from the first row that tells it."""
    product = (a * centred).sum(axis=behind, keepdims=True) / n
    missing = a - right
    pattern = centred * product
    size = float((pattern * pattern).sum())
    if size == 0:
        return None
    groups = (pattern * pattern).sum(axis=behind, keepdims=True).sum(axis=0, keepdims=True)
    with np.errstate(all="ignore"):
        inverse = (missing * pattern).sum(axis=behind, keepdims=True).sum(axis=0, keepdims=True) / groups
        eps = 1 / inverse - variance
    if not np.all(np.isfinite(eps)) or (eps < -0.02 * variance).any() or (eps > 0.5 + variance).any():
        return None
    return a - pattern * inverse


def _softmax_like(
    a: np.ndarray,
    right: np.ndarray,
    total: np.ndarray,
    x: np.ndarray,
    axes: tuple[int, ...],
    behind: tuple[int, ...],
    fits: Fits,
    shape: tuple[int, ...],
    tolerance: np.ndarray,
) -> bool:
    with np.errstate(all="ignore"):
        e = np.exp(x - x.max(axis=axes, keepdims=True))
        y = e / e.sum(axis=axes, keepdims=True)
    if fits((a - y * total).reshape(shape), right.reshape(shape)):
        return True
    # the softmax of something else: the weights that the rows imply must agree, be positive and sum to 1
    strength = (total * total).sum(axis=0)
    if a.shape[0] < 2 or not (strength > 0).all():
        return False
    weights = ((a - right) * total).sum(axis=0) / strength
    sums = weights.sum(axis=axes, keepdims=True)
    plausible = bool((weights > 0).all() and np.abs(sums - 1).max() < 1e-3)
    return plausible and fits((a - weights * total).reshape(shape), right.reshape(shape))
