"""A subject of float32 looked at in float64: the function is differentiated sharply, its gradients stay as they are.

Differences of float32 numbers leave a gradient three digits at best, and none of those that are small beside others.
Most functions take float64 as well, and are the same function then. So the numerical derivatives are those of the
function in float64, at the very same point, and what is compared with them is the gradient that float32 gives.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tinygrad_tf._quiet import quiet
from tinygrad_tf.autograd.subjects import Input, Subject

UNITS = 32  # of the shorter dtype: how exact a gradient is held to be, as a part of the largest
OUTPUTS = 8  # times the rounding of the outputs, which is the better measure where large numbers cancel
MOST = 1e-3  # with more rounding than this float64 is a different function


def widened(subject: Subject) -> Subject:
    """The subject in float64; itself if it is so already, or if its function cannot be had in float64."""
    dtypes = [x.array.dtype for x in subject.inputs]
    if np.dtype(np.float32) not in dtypes or not all(d in (np.float32, np.float64) for d in dtypes):
        return subject
    wide = Widened(subject)
    try:
        with quiet():
            short, long = subject.evaluate(), wide.evaluate()
    except Exception:
        return subject  # it insists on its dtype
    if [o.shape for o in short] != [o.shape for o in long] or not all(o.dtype == np.float64 for o in long):
        return subject
    wide.blur = max(
        [UNITS * float(np.finfo(np.float32).eps)] + [OUTPUTS * _off(*o) for o in zip(short, long, strict=True)]
    )
    return wide if wide.blur <= MOST else subject


def _off(short: np.ndarray, long: np.ndarray) -> float:
    """By how much an output differs from that of float64, as a part of the largest of its elements."""
    with quiet():
        same = (short == long) | (np.isnan(short) & np.isnan(long))
        off = np.where(same, 0.0, np.abs(short - long)).max(initial=0.0)
        size = np.abs(long[np.isfinite(long)]).max(initial=0.0)
        return float(off / size) if off else 0.0


class Widened(Subject):
    """The inputs in float64, to be moved and evaluated; gradients come from the subject itself."""

    def __init__(self, subject: Subject):
        self.subject = subject
        self.inputs = [Input(x.name, x.array.astype(np.float64)) for x in subject.inputs]
        self.output_names, self.integers = subject.output_names, subject.integers
        self.dtypes = [x.array.dtype for x in subject.inputs]
        self.outputs = [o.dtype for o in subject.evaluate()]

    def evaluate(self) -> list[np.ndarray]:
        return self.evaluate_at([x.array for x in self.inputs])

    def evaluate_at(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        return self.subject.evaluate_at(arrays)

    def pull(self, weights: Sequence[np.ndarray | None]) -> list[Any]:
        short = [None if w is None else w.astype(d) for w, d in zip(weights, self.outputs, strict=True)]
        return self.subject.pull(short)
