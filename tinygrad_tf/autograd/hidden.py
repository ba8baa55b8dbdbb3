"""Outputs that never moved: whether they are flat, or whether rounding hides what there is to see."""

from __future__ import annotations

import numpy as np

from tinygrad_tf.autograd.probe import Probe

FAR = (3.0, 100.0, 3000.0)  # times the size of an input, to see whether it matters at all to an output


def hidden_slopes(
    probe: Probe, random: np.random.Generator, j: int, entries: np.ndarray, still: np.ndarray
) -> np.ndarray:
    """The slopes of the outputs `still` by input j that rounding may hide, a row for each entry; 0 where it is flat.

    Far away the output is another number, or it depends on this input nowhere. If that number changes with the
    precision, then so may what there is to see near by, which may be as steep as the way from here to there.
    """
    slopes = np.zeros((entries.size, still.size))
    for far in FAR if still.any() else ():
        moves = far * probe.typical(j) * random.standard_normal(probe.subject.inputs[j].array.shape)
        one, other = probe.in_both_precisions(j, moves)
        with np.errstate(all="ignore"):
            moved = np.abs(one - probe.base.flat)
            lost = still & (moved > 0) & (np.abs(one - other) > moved / 4)
            steepest = np.where(lost, moved, 0.0) / np.abs(moves.reshape(-1)[entries])[:, None]
        slopes = np.maximum(slopes, steepest)
    return slopes
