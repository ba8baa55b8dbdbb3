"""The numerical derivatives by one entry of an input: few steps where they are enough, more where there is doubt."""

from __future__ import annotations

import numpy as np

from tinygrad_tf._quiet import quiet
from tinygrad_tf.autograd import numeric
from tinygrad_tf.autograd.probe import Probe


class Entry:
    """Entry number `entry` of input j. noise: that of each output; eps: kinks nearer than this are here."""

    def __init__(self, probe: Probe, j: int, entry: int, noise: np.ndarray, eps: float):
        self.line, self.size, self.exact = probe.entry_line(j, entry)
        self.value, self.unit, self.typical = float(probe.position(j, entry)), probe.unit(j), probe.typical(j)
        self.probe, self.base, self.noise, self.eps = probe, probe.base, noise, eps

    def quick(self, start: float) -> numeric.Derivative:
        """Three steps, the first of them `start` times the entry's size."""
        return self._climb(numeric.short_ladder(start * self.size))

    def careful(self, quick: numeric.Derivative, analytic: np.ndarray) -> numeric.Derivative:
        """The full ladder, and the wide one where noise is still too large; the best of each output."""
        found = self._climb(self._full())
        _keep_better(found, quick)
        scale = np.maximum(np.abs(found.value), np.abs(analytic))
        if np.any((found.error > 1e-3 * scale) & (found.error > 0) & (found.broken == 0) & (scale > 0)):
            _keep_better(found, self._climb(self._full(wide=True)))
        return found

    def confirm(self, found: numeric.Derivative) -> None:
        """Before an accusation: two ladders of other steps. By what they differ the uncertainty may have to grow."""
        for shrink in (0.83, 0.59):
            again = self._climb([h * shrink for h in self._full()])
            with quiet():
                spread = np.abs(again.value - found.value)
            found.error = np.where(
                (found.broken == 0) & np.isfinite(spread), np.maximum(found.error, spread), found.error
            )

    def acquit(self, found: numeric.Derivative, analytic: np.ndarray) -> None:
        """Where the two are far apart: what the smallest steps say for the analytic value.

        Large steps see little of a fast wiggle, of the teeth of x - floor(x), or of the stairs of floor(x), and may be
        very sure. So the value is the analytic one if a run of smaller steps agrees on it. Stairs may also be what
        rounding has left of a slope: if nothing tells which they are, the uncertainty is the slope itself.
        """
        with quiet():
            off = np.abs(found.value - analytic)
            rounding = 32 * self.base.relative * np.abs(self.base.flat) / self.size
            apart = (found.broken == 0) & (off > 0.01 * np.abs(found.value)) & (off > rounding)
        if not apart.any():
            return
        steps = [self.exact(h) for h in self._full()]
        ups, downs = np.array([self.line(h) for h in steps]), np.array([self.line(-h) for h in steps])
        with quiet():
            differences = (ups - downs) / (2 * np.array(steps)[:, None])
        value, spread = numeric.plateau(differences, analytic, found.value)
        agreed, silent = apart & np.isfinite(value), apart & (analytic == 0)
        height = np.where(silent, self._stairs(steps, ups, downs), 0.0) if silent.any() else np.zeros(silent.size)
        shaken = self.probe.unsteadiness if height.any() else height
        flat, unclear = height > 4 * shaken, (height > 0) & np.isinf(shaken)
        found.value = np.where(flat, 0.0, np.where(agreed, value, found.value))
        found.error = np.where(flat, 0.0, np.where(agreed, spread, found.error))
        found.error = np.where(unclear, np.maximum(found.error, np.abs(found.value)), found.error)

    def _stairs(self, steps: list[float], ups: np.ndarray, downs: np.ndarray) -> np.ndarray:
        """How high the stair is where f does not move for small steps, and larger ones take it to another; else 0.

        So do round and floor, and numbers of which rounding has left few digits: a large offset, a shorter dtype
        inside. A float32 inside is told by how little it moves.
        """
        here, columns = self.base.flat, np.arange(self.base.flat.size)
        changes = np.maximum(np.abs(ups - here), np.abs(downs - here))
        moves = ~(changes == 0)
        wakes = len(steps) - 1 - moves[::-1].argmax(0)  # the smallest step that moves f
        flat = moves.any(0) & (wakes < len(steps) - 3)
        for k in np.unique(wakes[flat]):
            step = self.exact(steps[k] * 1.01)
            beyond = np.maximum(np.abs(self.line(step) - here), np.abs(self.line(-step) - here))
            flat &= (wakes != k) | (beyond == changes[k])
        height = changes[wakes, columns]
        return np.where(flat & (height > 1e-5 * np.abs(here)), height, 0.0)

    def _full(self, wide: bool = False) -> list[float]:
        return numeric.full_ladder(self.value, self.unit, wide, self.typical)

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
    with quiet():
        agree = np.abs(other.value - found.value) <= other.error + found.error
    better = agree & (other.error < found.error) & (found.broken == 0) & (other.broken == 0)
    found.value, found.error = np.where(better, other.value, found.value), np.where(better, other.error, found.error)
