"""Mistakes that show in which outputs hang together with which inputs, whatever the numbers are.

An axis of the output belongs to an axis of the input if a number of the output depends only on those of the input that
have the same place along it. Along other axes things are mixed: by a softmax, a mean, a product with a matrix.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tinygrad_tf.autograd.evidence import WRONG_AXIS, Evidence


def wrong_axis(e: Evidence) -> Iterator[str]:
    """A mixes the elements along other axes than N does."""
    should, does = _mixed(e)
    lacks, more = _listed(should - does), _listed(does - should)
    if should and lacks and more:
        yield (
            f"over the wrong axis: the function mixes elements along axis {lacks}, and the gradient those along axis "
            f"{more}; a sum, a mean or a softmax of backward runs over the wrong one"
        )
    elif should and more:
        yield (
            f"over too many axes: the function mixes elements along axis {_listed(should)}, and the gradient also "
            f"those along axis {more}; a sum or mean of backward must not run over that"
        )


def not_mixed(e: Evidence) -> Iterator[str]:
    """A leaves out an axis along which N mixes the elements, or keeps another axis of the output."""
    should, does = _mixed(e)
    if should > does:
        yield (
            f"each output depends on several elements along axis {_listed(should - does)}, and the gradient on one "
            "alone: a sum over that axis is missing, or a transpose"
        )
    yield from _another_kept(e)


def _mixed(e: Evidence) -> list[set[int]]:
    """The axes along which N mixes, and A; none unless input and output have the same."""
    if e.pair.input_shape != e.pair.output_shape:
        return [set(), set()]
    return [_mixed_axes(e, e.alive(x)) for x in (e.numeric, e.analytic)]


def _mixed_axes(e: Evidence, alive: np.ndarray) -> set[int]:
    """The axes along which some output depends on another place of the input."""
    shape = e.pair.input_shape
    rows, columns = (np.unravel_index(i, shape) for i in np.nonzero(alive))
    return {axis for axis in range(len(shape)) if (rows[axis] != columns[axis]).any()}


def _listed(axes: set[int]) -> str:
    return ", ".join(map(str, sorted(axes)))


def _another_kept(e: Evidence) -> Iterator[str]:
    """For a bias, say: the output's axis that it belongs to must be kept, and all others summed over."""
    should, does = (_kept_axes(e, e.alive(x)) for x in (e.numeric, e.analytic))
    for axis, right in enumerate(should):
        if not right or right & does[axis]:
            continue
        if does[axis]:
            yield (
                f"{WRONG_AXIS}: axis {_listed(right)} of the output belongs to axis {axis} of the input and must be "
                f"kept; axis {_listed(does[axis])} is kept instead"
            )
        for other, given in enumerate(does):
            if given & right and not given & should[other]:
                yield (
                    f"spread over the wrong axis: axis {_listed(right)} of the output belongs to axis {axis} of the "
                    f"input, and the gradient has it along axis {other}"
                )


def _kept_axes(e: Evidence, alive: np.ndarray) -> list[set[int]]:
    """For each axis of the input the axes of the output that always have the same place."""
    outs, ins = e.pair.output_shape, e.pair.input_shape
    rows, columns = np.nonzero(alive)
    if not rows.size or not outs or not ins:
        return [set() for _ in ins]
    row, column = np.unravel_index(rows, outs), np.unravel_index(columns, ins)
    return [
        {q for q, m in enumerate(outs) if m == n and n > 1 and np.array_equal(row[q], column[p])}
        for p, n in enumerate(ins)
    ]


# --- time -------------------------------------------------------------------------------------------------------------


def not_causal(e: Evidence) -> Iterator[str]:
    """No output depends on what comes after it along some axis, and A says that it does."""
    n, a = e.alive(e.numeric), e.alive(e.analytic)
    for axis, before, after in _times(e):
        if (n & before).any() and not (n & after).any() and (a & after).any():
            yield (
                f"along axis {axis} of the input no output depends on what comes after it, and the gradient flows "
                "there: the causal mask is missing in backward, or places are mixed up (a view where a transpose is "
                "meant)"
            )


def _times(e: Evidence) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Axes of input and output of the same size, with the entries whose input comes before the output, and after."""
    outs, ins = e.pair.output_shape, e.pair.input_shape
    shape = e.numeric.shape
    for q, m in enumerate(outs):
        for p, n in enumerate(ins):
            if m == n and m > 2:
                row = np.unravel_index(np.arange(shape[0]), outs)[q][:, None]
                column = np.unravel_index(np.arange(shape[1]), ins)[p][None, :]
                yield p, column < row, column > row


def only_the_first(e: Evidence) -> Iterator[str]:
    """A is right for the first place along an axis of the output, and for none of the later ones."""
    outs = e.pair.output_shape
    right = np.asarray(e.right.all(1)).reshape(outs)
    lives = np.asarray(e.alive(e.numeric).any(1)).reshape(outs)
    alone = set().union(*_kept_axes(e, e.alive(e.numeric)))  # where no step depends on others
    for axis, size in enumerate(outs):
        if axis in alone:
            continue
        first, later = np.split(np.moveaxis(right, axis, 0), [1])
        if size > 2 and first.all() and np.moveaxis(lives, axis, 0)[0].any() and not later.any():
            yield (
                f"right for the first entry of axis {axis} of the output, and for none of the later ones: what comes "
                "through earlier steps (or places) is missing, or overwritten; in causal attention, where the first "
                "place sees itself alone, the gradient of the scores is not right"
            )
