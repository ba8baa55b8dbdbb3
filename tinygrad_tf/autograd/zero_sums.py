"""Mistakes in functions that do not change when all elements along an axis grow alike, as softmax and what contains it.

The right gradient of such a function adds up to zero along that axis. One that does not has lost a term.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tinygrad_tf.autograd.evidence import Evidence


def zero_sums(e: Evidence) -> Iterator[str]:
    """The sum term of a softmax inside of the function, or the one-hot target of a cross-entropy.

    For one output and softmax weights y over the axis, a softmax inside leaves A - N = y w, with one w for each place
    beside the axis; the target leaves the same number in one entry of every row.
    """
    for axis, size in enumerate(e.pair.input_shape):
        if size < 2:
            continue
        n, a, noise = (
            np.moveaxis(x.reshape(-1, *e.pair.input_shape), axis + 1, 1).reshape(len(e.numeric), size, -1)
            for x in (e.numeric, e.analytic, np.broadcast_to(e.tolerance, e.numeric.shape))
        )
        room = noise.sum(1)
        if not (np.abs(n) > noise).any() or (np.abs(n.sum(1)) > room).any() or not (np.abs(a.sum(1)) > room).any():
            continue
        lost = a - n
        value = _one_each(lost, noise)
        if value is not None and (a * value > -noise).all():  # what is left are the softmax's own weights
            yield (
                f"one entry of each row along axis {axis} is off by {value:.4g}: "
                "the one-hot target of cross-entropy is not subtracted"
            )
        elif all(_is_outer(part, room) for part, room in zip(lost, noise, strict=True)):
            yield (
                f"the softmax rule without its sum term: along axis {axis}, where the right gradient adds up to zero, "
                "y * sum(gradient * y) must be subtracted (or, in a cross-entropy, the one-hot target)"
            )


def _one_each(lost: np.ndarray, noise: np.ndarray) -> float | None:
    """The number that one entry of each column is off by, if it is the same in all; more than two rows tell."""
    wrong = np.abs(lost) > noise
    if lost.shape[1] < 3 or not (wrong.sum(1) == 1).all():
        return None
    values = lost[wrong]
    return float(values[0]) if np.abs(values - values[0]).max() <= noise.max() else None


def _is_outer(lost: np.ndarray, noise: np.ndarray) -> bool:
    """Whether a (size, rest) array is y w with all of y of one sign (also if it is nothing)."""
    if (np.abs(lost) <= noise).all():
        return True
    strongest = lost[:, np.abs(lost).sum(0).argmax()]
    if min(strongest.max(), -strongest.min()) > noise.max():
        return False
    weights = strongest @ lost / (strongest @ strongest)
    return bool((np.abs(lost - np.outer(strongest, weights)) <= 4 * noise).all())
