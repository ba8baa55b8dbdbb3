"""The numerical derivatives by one entry of an input: few steps where they are enough, more where there is doubt."""

from __future__ import annotations

import numpy as np

from tinygrad_tf.autograd import numeric
from tinygrad_tf.autograd.probe import Probe


class Entry:
    """Entry number `entry` of input j. noise: that of each output; eps: kinks nearer than this are here."""

    def __init__(self, probe: Probe, j: int, entry: int, noise: np.ndarray, eps: float):
        self.line, self.size, self.exact = probe.entry_line(j, entry)
        self.value, self.unit = float(probe.position(j, entry)), probe.unit(j)
        self.base, self.noise, self.eps = probe.base, noise, eps

    def quick(self, start: float) -> numeric.Derivative:
        """Three steps, the first of them `start` times the entry's size."""
        return self._climb(numeric.short_ladder(start * self.size))

    def careful(self, quick: numeric.Derivative, analytic: np.ndarray) -> numeric.Derivative:
        """The full ladder, and the wide one where noise is still too large; the best of each output."""
        found = self._climb(numeric.full_ladder(self.value, self.unit))
        _keep_better(found, quick)
        scale = np.maximum(np.abs(found.value), np.abs(analytic))
        if np.any((found.error > 1e-3 * scale) & (found.error > 0) & (found.broken == 0) & (scale > 0)):
            _keep_better(found, self._climb(numeric.full_ladder(self.value, self.unit, wide=True)))
        return found

    def confirm(self, found: numeric.Derivative) -> None:
        """Before an accusation: two ladders of other steps. By what they differ the uncertainty may have to grow."""
        for shrink in (0.83, 0.59):
            again = self._climb([h * shrink for h in numeric.full_ladder(self.value, self.unit)])
            with np.errstate(all="ignore"):
                spread = np.abs(again.value - found.value)
            found.error = np.where(
                (found.broken == 0) & np.isfinite(spread), np.maximum(found.error, spread), found.error
            )

    def _climb(self, steps: list[float]) -> numeric.Derivative:
        rounded = [self.exact(h) for h in steps]
        return numeric.climb(self.line, rounded, self.base.flat, self.noise, self.eps, self.base.relative)


def is_doubtful(found: numeric.Derivative, precise: float) -> bool:
    """Whether more steps may tell more: an error above `precise`, as a part of the value, or signs of a wiggle.

    Where nothing moves, exactly, there is no more to learn from other steps of this size.
    """
    still = np.all((found.value == 0) & (found.error == 0))
    size = np.maximum(np.abs(found.value), np.abs(found.value).max(initial=0.0))
    vague = np.any(~(found.error <= precise * size))
    return bool(found.suspicious or (vague and not still))


def _keep_better(found: numeric.Derivative, other: numeric.Derivative) -> None:
    """Take what is more certain in `other`, unless the two contradict each other: large steps alone may be deceived."""
    with np.errstate(all="ignore"):
        agree = np.abs(other.value - found.value) <= other.error + found.error
    better = agree & (other.error < found.error) & (found.broken == 0) & (other.broken == 0)
    found.value, found.error = np.where(better, other.value, found.value), np.where(better, other.error, found.error)
