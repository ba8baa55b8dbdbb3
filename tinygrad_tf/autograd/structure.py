"""Two kinds of mistakes that show in how the axes of a Jacobian hang together: wrong order, and a term left out."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from tinygrad_tf._quiet import quiet
from tinygrad_tf.autograd.evidence import Evidence
from tinygrad_tf.autograd.norms import axes_name, groups_of_axes

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
        sums = ", or summed is over the wrong axis" if not reshaped else ""
        return f"{word}: axes {_list(outside)} of the output's gradient are exchanged on the way back{sums}"
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
        order = _partners(np.abs(a[:, :, None] - n[:, None, :]).max(0))
        candidate = n[:, order]
        if e.fits(candidate.T if back else candidate, e.analytic):
            return True
    return False


def _partners(distances: np.ndarray) -> np.ndarray:
    """For each row the nearest column that no row before it has taken; equal columns are taken in turns."""
    distances = distances.copy()
    order = np.zeros(len(distances), int)
    for i in range(len(distances)):
        order[i] = distances[i].argmin()
        distances[:, order[i]] = np.inf
    return order


def reversed_windows(e: Evidence) -> Iterator[str]:
    """A is N with the window of the input that each output sees reversed: the kernel of a convolution, flipped or not.

    Windows that an edge cuts off are not looked at, if they are fewer than the others.
    """
    outs, shape = len(e.pair.output_shape), e.pair.input_shape
    alive = e.alive(e.numeric).reshape(-1, *shape)
    for count in range(1, len(shape) + 1):
        for axes in itertools.combinations(range(len(shape)), count):
            boxes = [_window(row, axes) for row in alive]
            sizes = [tuple(b.stop - b.start for b in box) for box in boxes]
            largest = max(sizes)
            whole = [k for k, size in enumerate(sizes) if size == largest]
            if outs == 0 or min(largest) < 2 or 2 * len(whole) <= len(boxes) or len(whole) < 2:
                continue
            if any(n == shape[a] for n, a in zip(largest, axes, strict=True)):
                continue
            candidate = e.analytic.copy().reshape(-1, *shape)
            for k in whole:
                candidate[k] = _turned(e.numeric[k].reshape(shape), axes, boxes[k])
            if e.fits(candidate.reshape(e.numeric.shape), e.analytic):
                yield (
                    "permuted: the kernel of a convolution is flipped the wrong way: what an output sees of the input "
                    f"is reversed along {axes_name(axes)}"
                )


def _window(alive: np.ndarray, axes: tuple[int, ...]) -> list[slice]:
    """Where along these axes something is alive."""
    found = []
    for a in axes:
        places = np.nonzero(alive.any(axis=tuple(i for i in range(alive.ndim) if i != a)))[0]
        found.append(slice(int(places[0]), int(places[-1]) + 1) if places.size else slice(0, 0))
    return found


def _turned(x: np.ndarray, axes: tuple[int, ...], box: list[slice]) -> np.ndarray:
    """x with the part inside of the box reversed."""
    index = [slice(None)] * x.ndim
    for a, part in zip(axes, box, strict=True):
        index[a] = part
    x = x.copy()
    x[tuple(index)] = np.flip(x[tuple(index)], axes).copy()
    return x


# --- the diagonal ---------------------------------------------------------------------------------------------------


def only_diagonal(e: Evidence) -> Iterator[str]:
    """A is the diagonal of N, and the rest of N is lost: p (1 - p) for a softmax."""
    diagonal = np.diag(np.diagonal(e.numeric))
    if len(diagonal) > 1 and e.alive(diagonal).any() and e.fits(diagonal, e.analytic):
        yield (
            "only the diagonal of the Jacobian is left, as p * (1 - p) of a softmax: each output also depends on other "
            "elements of the input"
        )


def direct_path(e: Evidence) -> Iterator[str]:
    """A and N differ by the identity, which a residual connection adds; or A is the identity, and N is not."""
    if e.pair.input_shape != e.pair.output_shape or not e.pair.input_shape:
        return
    one = np.eye(len(e.numeric))
    if e.fits(e.numeric - e.analytic, one):
        yield "a direct path is missing: the output's own gradient must be added, as for a residual connection x + ..."
    elif e.fits(e.analytic - e.numeric, one):
        yield "a direct path too many: the output's own gradient is added once more than it must be (x + ...)"
    elif e.fits(e.analytic, one):
        yield (
            "the output's gradient is passed on unchanged: the derivative of the function is missing, or that of the "
            "branch beside a residual connection"
        )


# --- terms left out along axes ----------------------------------------------------------------------------------------


def dropped_terms(e: Evidence) -> Iterator[str]:
    """Softmax without its sum, a mean or a variance taken as constant: each links A and N along some axes of the input.

    With s the sum over these axes, and for every output (row) by itself:
        softmax, log_softmax:  N = A - y sA       y the softmax of the input, or at least the same y > 0 in all rows
        mean as constant:      N = A - sA / n
        variance as constant:  N = A - x s(A x) / n  with x the input, centred and divided by its deviation
    """
    for axes in groups_of_axes(e.pair.input_shape):
        yield from _dropped_along(e, axes)


def _dropped_along(e: Evidence, axes: tuple[int, ...]) -> Iterator[str]:
    name, behind = axes_name(axes), tuple(a + 1 for a in axes)
    a, right = (jacobian.reshape(len(jacobian), *e.pair.input_shape) for jacobian in (e.analytic, e.numeric))

    def fits(candidate: np.ndarray) -> bool:
        return e.fits(candidate.reshape(e.numeric.shape), e.numeric)

    x = e.values.astype(np.float64)
    centred = x - x.mean(axis=axes, keepdims=True)
    no_mean = a - a.mean(axis=behind, keepdims=True)
    if fits(no_mean):
        other = ", or another term that is the same for all elements along it" if not e.pair.output_shape else ""
        yield f"the mean over {name} is taken as constant: the term - mean(gradient) is missing or not right{other}"
    mean_matters = bool(np.abs(no_mean - a).max() > e.tolerance.max())
    for start, both in ((no_mean, mean_matters), (a, False)):
        scaled = _variance_term(start, right, centred, axes)
        if scaled is not None and fits(scaled):
            what = "the mean and the variance" if both else "the variance"
            yield f"{what} over {name} {'are' if both else 'is'} taken as constant: a sum term is missing or not right"
    if any(fits(candidate) for candidate in _softmax_terms(a, right, x, axes)):
        coupled = e.alive(e.analytic) & (np.eye(*e.analytic.shape) == 0)
        term = "without its sum term" + (", or with another one" if coupled.any() else "")
        yield f"the softmax rule {term}: over {name}, y * sum(gradient) must be subtracted"


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
