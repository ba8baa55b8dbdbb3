"""Choosing, given the random numbers: where a point falls, who arrives first, who swaps places with whom."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tinygrad_tf._quiet import quiet

Array = NDArray[Any]
FEW = 400  # swaps that Python has made one by one before NumPy has made them all at once


class InvalidRandomArgument(ValueError, RuntimeError):
    """An argument out of range: a ValueError as Python has it, and the RuntimeError that PyTorch's programs expect."""


def first_to_arrive(rows: Array, waits: Array, num_samples: int) -> NDArray[np.int64]:
    """The `num_samples` indices of each row with the largest weight / wait, the largest first; never one of weight 0.

    With exponential waits, index i comes first with probability weight_i / sum, and the next ones as if drawn without
    replacement (Efraimidis and Spirakis 2006).
    """
    exponents = np.frexp(rows.max(axis=1, keepdims=True))[1]
    with quiet():
        speeds = np.ldexp(rows, -exponents) / waits  # a scale of 2**k changes no bit and keeps clear of overflow
    speeds[rows == 0.0] = -1.0  # not even where small weights underflow or a wait is 0
    if num_samples == 1:
        return speeds.argmax(axis=1)
    return np.argsort(-speeds, axis=1, kind="stable")[:, :num_samples]


def where_points_fall(rows: Array, points: Array) -> NDArray[np.int64]:
    """The index of each row on whose stretch each point in [0, 1) falls, weights laid end to end and scaled to 1."""
    points = np.maximum(points, np.finfo(np.float64).tiny)  # the point 0 must not fall on leading weights of 0
    chosen = np.empty(points.shape, np.int64)
    for row, sums in enumerate(np.cumsum(rows, axis=1, dtype=np.float64)):
        chosen[row] = np.searchsorted(sums / float(sums[-1]), points[row])
    return chosen


def check_weights(rows: Array, num_samples: int, replacement: bool) -> None:
    if num_samples < 1:
        raise InvalidRandomArgument(f"num_samples must be at least 1, got {num_samples}")
    with quiet():
        sums = rows.sum(axis=1, dtype=np.float64)
    if not (rows.min(initial=0.0) >= 0.0 and sums.min(initial=1.0) > 0.0 and sums.max(initial=1.0) < np.inf):
        raise _wrong_weights(rows)
    if num_samples == 1 or replacement:
        return
    positive = np.count_nonzero(rows, axis=1)
    if num_samples > positive.min(initial=num_samples):
        raise InvalidRandomArgument(
            f"cannot draw num_samples={num_samples} different indices from a row with {positive.min()} positive "
            "probabilities: ask for fewer, or draw with replacement=True"
        )


def _wrong_weights(rows: Array) -> InvalidRandomArgument:
    """What is wrong with rows that are no weights: an entry, or the sum of a row."""
    bad = rows[~((rows >= 0.0) & (rows < np.inf))]
    if bad.size:
        return InvalidRandomArgument(f"probabilities must be finite and not negative (no NaN), got {bad[0]}")
    positive = np.count_nonzero(rows, axis=1)
    if not positive.all():
        return InvalidRandomArgument(
            f"each row of probabilities needs a positive sum, that of row {positive.argmin()} is 0"
        )
    return InvalidRandomArgument("probabilities must have a finite sum: divide the row by its largest entry first")


def swapped(partner: NDArray[np.int64]) -> NDArray[np.int64]:
    """0 .. n - 1 after swapping places i and partner[i] >= i for i = 0, 1, .. n - 1 in turn; n < 2**31.

    Many are made all at once. Step i puts in place i what lies in place j = partner[i] by then. That is j itself, but
    where an earlier step swapped with j; the last such step k < i left there what lay in place k before it. So a place
    leads back to an earlier step and on from there, until a place that no step had touched: `origin` follows these
    chains, twice as far each round.
    """
    if len(partner) < FEW:
        found = list(range(len(partner)))
        for place, other in enumerate(partner.tolist()):
            found[place], found[other] = found[other], found[place]
        return np.array(found, np.int64)
    steps = np.arange(len(partner), dtype=np.int32)
    origin = steps.copy()
    moving = partner != steps
    origin[partner[moving]] = steps[moving]  # of several steps that swapped with one place, the last one stays
    unsettled = np.flatnonzero(origin != steps)
    while unsettled.size:
        before = origin[unsettled]
        further = origin[before]
        origin[unsettled] = further
        unsettled = unsettled[further != before]
    by_place = np.sort((partner << 32) | steps)
    places, order = by_place >> 32, by_place & 0xFFFFFFFF
    again = np.flatnonzero(places[1:] == places[:-1])  # a step that is not the first to swap with its place
    shuffled = partner.copy()
    shuffled[order[again + 1]] = origin[order[again]]
    return shuffled
