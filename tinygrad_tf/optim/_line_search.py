"""How far to go along a direction: a search for a step that meets the strong Wolfe conditions.

With phi(t) = f(x + t d), a step t is taken where phi(t) <= phi(0) + c1 t phi'(0), so that the function has fallen
enough, and |phi'(t)| <= c2 |phi'(0)|, so that it is nearly level (Nocedal and Wright, Numerical Optimization, 2006,
equation 3.7). First an interval that holds such steps is found (algorithm 3.5), then it is narrowed (algorithm 3.6).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tinygrad_tf._quiet import quiet

ENOUGH_FALL, LEVEL_ENOUGH = 1e-4, 0.9  # c1 and c2, as the book has them for quasi-Newton methods
MOST_TRIALS = 26
FURTHER = 0.01, 10.0  # a step grows by this part of its last stretch at least, and to this many times itself at most
MARGIN = 0.1  # of an interval, at both of its ends, in which no two trials may follow each other
SHORTEST = 1e-9  # an interval in which no parameter moves further than this is not narrowed


class Trial(NamedTuple):
    """What is known of a step t: phi(t), the gradient there, and the slope phi'(t) = gradient . d."""

    t: float
    value: float
    gradient: np.ndarray
    slope: float


class LineSearch:
    """A search from `start`, the trial at 0, by at most `most` others, which `evaluate` makes.

    length: the largest |entry| of d.
    """

    def __init__(self, evaluate: Callable[[float], Trial], start: Trial, length: float, most: int = MOST_TRIALS):
        self.evaluate, self.start, self.length = evaluate, start, length
        self.trials, self.most = 0, min(most, MOST_TRIALS)

    def run(self, t: float) -> Trial:
        """The trial to go on from. t: the first step to try."""
        ends, found = self.interval(t)
        return found if found is not None else self.narrowed(ends)

    def tried(self, t: float) -> Trial:
        self.trials += 1
        return self.evaluate(t)

    def too_high(self, trial: Trial) -> bool:
        """Where the function is infinite or not a number the step is too long, too."""
        return not trial.value <= self.start.value + ENOUGH_FALL * trial.t * self.start.slope

    def level(self, trial: Trial) -> bool:
        return abs(trial.slope) <= -LEVEL_ENOUGH * self.start.slope

    def interval(self, t: float) -> tuple[list[Trial], Trial | None]:
        """The ends of an interval that holds good steps, or a good step met on the way."""
        before, now = self.start, self.tried(t)
        while self.trials < self.most:
            if self.too_high(now) or (self.trials > 2 and now.value >= before.value):
                return [before, now], None
            if self.level(now):
                return [], now
            if now.slope >= 0.0:
                return [before, now], None
            nearest, furthest = now.t + FURTHER[0] * (now.t - before.t), FURTHER[1] * now.t
            before, now = now, self.tried(cubic_minimum(before, now, nearest, furthest))
        return [self.start, now], None

    def narrowed(self, ends: list[Trial]) -> Trial:
        """A good step between the ends, or the lowest found when the trials or the interval are used up."""
        low = lower(ends)
        near_an_end = False
        while self.trials < self.most:
            left, right = sorted(end.t for end in ends)
            if (right - left) * self.length < SHORTEST:
                break
            t, margin = cubic_minimum(ends[0], ends[1], left, right), MARGIN * (right - left)
            crowded = min(right - t, t - left) < margin
            if crowded and (near_an_end or not left < t < right):  # the interval would hardly shrink
                t, crowded = (right - margin if abs(t - right) < abs(t - left) else left + margin), False
            near_an_end = crowded
            trial = self.tried(t)
            if self.too_high(trial) or trial.value >= ends[low].value:
                ends[1 - low] = trial
                low = lower(ends)
                continue
            if self.level(trial):
                return trial
            if trial.slope * (ends[1 - low].t - ends[low].t) >= 0.0:
                ends[1 - low] = ends[low]
            ends[low] = trial
        return ends[low]


def lower(ends: list[Trial]) -> int:
    """Which of two trials has the lower value: a number before what is none, the first where they are equal."""
    return 0 if ends[0].value <= ends[1].value or math.isnan(ends[1].value) else 1


def cubic_minimum(a: Trial, b: Trial, left: float, right: float) -> float:
    """Where the cubic through both values with both slopes is least (equation 3.59), not outside of [left, right].

    The middle where it has no least value, or where the values are no finite numbers.
    """
    if a.t > b.t:
        a, b = b, a
    with quiet():
        width = np.float64(b.t - a.t)
        d1 = a.slope + b.slope - 3.0 * (b.value - a.value) / width
        d2 = np.sqrt(d1 * d1 - a.slope * b.slope)
        t = float(b.t - width * ((b.slope + d2 - d1) / (b.slope - a.slope + 2.0 * d2)))
    return min(max(t, left), right) if math.isfinite(t) else (left + right) / 2.0
