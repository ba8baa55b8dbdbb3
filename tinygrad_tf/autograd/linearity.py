"""Whether a backward is linear in the gradient of the output that it is given, as every right one is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tinygrad_tf.autograd.probe import near
from tinygrad_tf.autograd.subjects import Subject

IGNORED = "; likely mistake: backward does not multiply by the gradient that it is given"
OWN_SIGN = (
    "; likely mistake: a mask is taken from the gradient itself (grad > 0), as it shows with gradients of the other "
    "sign alone; take it from what was masked in forward (x > 0)"
)


def unlinear(subject: Subject, first: list[Any], weights: Sequence[np.ndarray], relative: float) -> list[str]:
    """What is wrong: minus four times the output's gradient must give minus four times the input's, and zero zero.

    first: what the weights give. relative: how the numbers are rounded.
    """
    try:
        scaled = subject.pull([w * -4 for w in weights])
        zero = subject.pull([w * 0 for w in weights])
    except Exception as error:
        raise ValueError(
            f"backward fails for other gradients of the output: {type(error).__name__}: {error}"
        ) from error
    lines = []
    for j, (x, a, b, nothing) in enumerate(zip(subject.inputs, first, scaled, zero, strict=True)):
        if a is None or b is None or a.shape != b.shape or not np.isfinite(a).all():
            continue
        tolerance = 1e3 * relative * np.abs(a).max(initial=0.0)
        vanishes = nothing is None or np.abs(nothing).max(initial=0.0) <= tolerance
        if near(a * -4, b, tolerance) and vanishes:
            continue
        line = f"the gradient of {x.name} is not proportional to the gradient of the output"
        if near(a, b, tolerance):
            line += IGNORED
        elif vanishes and near(a * 4, subject.pull([w * 4 for w in weights])[j], tolerance):
            line += OWN_SIGN
        lines.append(line)
    return lines
