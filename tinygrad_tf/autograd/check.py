"""The checker: every input of a subject against numerical derivatives, entry by entry or along random directions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinygrad_tf.autograd import numeric
from tinygrad_tf.autograd.creases import find_creases
from tinygrad_tf.autograd.diagnosis import diagnose
from tinygrad_tf.autograd.entry import Entry, is_doubtful
from tinygrad_tf.autograd.hidden import hidden_slopes
from tinygrad_tf.autograd.linearity import unlinear
from tinygrad_tf.autograd.probe import Gradients, Probe, flat, largest, near, typical
from tinygrad_tf.autograd.report import RANDOM, WRONG, Directions, Pair, Report
from tinygrad_tf.autograd.subjects import Projected, Subject
from tinygrad_tf.autograd.suspects import find_suspects
from tinygrad_tf.autograd.widened import UNITS, widened

MANY_INPUTS = 2000  # entries of one input above which directions are tried first
MANY_NUMBERS = 1_000_000  # entries of one Jacobian above which it is not built
SAMPLE = 2000  # entries looked at one by one where even that is too many
BESIDE = 200  # entries looked at beside those that are suspected
DIRECTIONS = 8
CONFIRMED = 8  # entries for which a disagreement is looked at with the full ladder
PRECISE, COARSE = 1e-7, 1e-3  # the uncertainty at which more steps are taken, for few and for many entries
FEW = 500
PATIENCE = 50  # with more than a few entries: how many may stay wrong or in doubt before the rest are hurried through


@dataclass
class Settings:
    """eps: kinks nearer than this are here. nondet_tol: how far two passes may differ. seed: of the directions."""

    eps: float = 1e-6
    nondet_tol: float = 0.0
    linear: bool = True
    dtypes: bool = False
    fast: bool = False
    seed: int = 0


def examine(subject: Subject, settings: Settings, title: str = "gradcheck") -> Report:
    """Check all inputs of the subject; the inputs' memory is as it was afterwards, whatever happens."""
    report = Report(title=title, seed=settings.seed)
    subject = widened(subject)
    saved = [x.array.copy() for x in subject.inputs]
    try:
        _Check(subject, settings, report).run()
    finally:
        for x, values in zip(subject.inputs, saved, strict=True):
            x.array[...] = values
    for pair in report.pairs:
        if pair.verdict == WRONG:
            pair.diagnosis = diagnose(pair, report, subject)
    return report


class _Check:
    def __init__(self, subject: Subject, settings: Settings, report: Report):
        self.subject, self.settings, self.report = subject, settings, report
        self.random = np.random.default_rng(settings.seed)
        self.probe = Probe(subject, report)

    def run(self) -> None:
        before = [x.array.copy() for x in self.subject.inputs]
        outputs = [o.copy() for o in self.probe.evaluate()]
        for x, values in zip(self.subject.inputs, before, strict=True):
            if not np.array_equal(x.array, values, equal_nan=True):
                raise ValueError(f"the function changed its input {x.name} in place; let it work on a copy")
        self.base = self.probe.start(outputs)
        if not self.probe.same(outputs, self.probe.evaluate(), self.settings.nondet_tol):
            self.report.problems.append(
                (
                    RANDOM,
                    "two calls of the function with the same inputs gave different outputs; fix its random numbers",
                )
            )
            return
        self.gradients = Gradients(self.subject, outputs)
        self._check_backward()
        for j in range(len(self.subject.inputs)):
            self._check_input(j)

    # --- the backward, apart from its numbers ---------------------------------------------------------------------

    def _check_backward(self) -> None:
        """Deterministic, linear in the output's gradient, of the input's dtype."""
        weights = [self.random.standard_normal(o.shape).astype(o.dtype) for o in self.base.outputs]
        first, again = self.subject.pull(weights), self.subject.pull(weights)
        names = [x.name for x in self.subject.inputs]
        for name, a, b in zip(names, first, again, strict=True):
            if a is not None and b is not None and a.shape == b.shape and not near(a, b, self.settings.nondet_tol):
                self.report.problems.append(
                    (RANDOM, f"backward is not deterministic: two passes gave different gradients for {name}")
                )
        if self.settings.linear and not self.report.problems:
            relative = max(self.base.relative, self.subject.blur / UNITS)
            lines = unlinear(self.subject, first, weights, relative)
            self.report.problems += [(WRONG, line) for line in lines]
        if self.settings.dtypes:
            dtypes = self.subject.dtypes or [x.array.dtype for x in self.subject.inputs]
            for name, dtype, a in zip(names, dtypes, first, strict=True):
                if a is not None and a.dtype != dtype:
                    line = f"the gradient of {name} has dtype {a.dtype}, and must have the input's {dtype}"
                    self.report.problems.append((WRONG, line))

    # --- one input ------------------------------------------------------------------------------------------------

    def _check_input(self, j: int) -> None:
        n, m = self.subject.inputs[j].array.size, self.base.flat.size
        large = n > MANY_INPUTS or n * m > MANY_NUMBERS or m > MANY_INPUTS
        if (self.settings.fast or large) and n and m:
            found = self._along_directions(j)
            if found is not None:
                self.report.directions.append(found)
                return
        if not large:
            self.report.pairs += self._every_entry(j, np.arange(n))
            return
        weights = [self.random.standard_normal(o.shape).astype(o.dtype) for o in self.base.outputs]
        inner = _Check(Projected(self.subject, weights), self.settings, self.report)
        inner.base = inner.probe.start([np.asarray(o) for o in inner.subject.evaluate()])
        inner.gradients = Gradients(inner.subject, inner.base.outputs)
        entries = np.arange(n) if n <= 10 * SAMPLE else inner._chosen_entries(j, n)
        self.report.pairs += inner._every_entry(j, entries)

    def _chosen_entries(self, j: int, n: int) -> np.ndarray:
        """Entries of a large input: those that are off, as far as they can be found, and a sample of the others."""
        (analytic,), _, _ = self.gradients.of(j, np.arange(n))
        noise, _ = self._survey(j)
        direction = self.random.standard_normal(n)

        def is_off(block: np.ndarray) -> bool:
            parts = analytic[block] * direction[block]
            found = self._along(j, block, direction[block], noise)
            room = 2 * found.error + self._floor(j) * np.linalg.norm(parts)
            return bool(found.broken.any() or not (np.abs(found.value - parts.sum()) <= room).all())

        suspects = find_suspects(n, is_off)
        sample = self.random.choice(n, BESIDE if suspects.size else SAMPLE, replace=False)
        return np.union1d(suspects, sample)

    def _every_entry(self, j: int, entries: np.ndarray) -> list[Pair]:
        """The pairs of this input with all outputs."""
        x = self.subject.inputs[j]
        analytic, got_shapes, arrived = self.gradients.of(j, entries)
        noise, start = self._survey(j)
        floor, blur = self._floor(j), self.subject.blur
        rounding = 1e-4 * floor * self.gradients.reach() / typical(x.array)
        slack = floor * np.abs(analytic) + (1e-3 * floor + blur) * largest(analytic, self.base.slices) + rounding
        slack = np.where(np.isfinite(slack), slack, 0.0)
        columns: list[numeric.Derivative] = []
        confirmed, precise = 0, PRECISE if len(entries) <= FEW else COARSE
        patience = PATIENCE if len(entries) > FEW else len(entries)
        for c, number in enumerate(entries):
            self.probe.failure = None
            entry = Entry(self.probe, j, int(number), noise, self.settings.eps)
            found = entry.quick(start)
            disagrees = self._disagree(found, analytic[:, c], slack[:, c])
            if patience and (is_doubtful(found, precise) or (disagrees and confirmed < CONFIRMED)):
                found = entry.careful(found, analytic[:, c])
                if confirmed < CONFIRMED and self._disagree(found, analytic[:, c], slack[:, c]):
                    entry.confirm(found)
                entry.acquit(found, analytic[:, c])
                disagrees = self._disagree(found, analytic[:, c], slack[:, c])
                confirmed += disagrees
                patience -= disagrees or is_doubtful(found, precise)
            if self.probe.failure is not None and np.isnan(found.value).all():
                raise self.probe.failure  # the function works at the point itself alone
            columns.append(found)
        find_creases(columns, analytic, slack, lambda moves: self._along(j, entries, moves, noise), self.random)
        still = np.logical_and.reduce([found.value == 0 for found in columns]) if columns else np.zeros(0, bool)
        for found, slope in zip(columns, hidden_slopes(self.probe, self.random, j, entries, still), strict=True):
            found.error = np.maximum(found.error, slope)
        grain = self._grain(j, noise, columns)
        return self._pairs(j, entries, analytic, slack, grain, columns, got_shapes, arrived)

    def _along(self, j: int, entries: np.ndarray, moves: np.ndarray, noise: np.ndarray) -> numeric.Derivative:
        """The derivatives along the direction that moves these entries of an input, each by its own number."""
        direction = np.zeros(self.subject.inputs[j].array.shape)
        direction.reshape(-1)[entries] = moves
        size = self.probe.typical(j)
        steps = numeric.full_ladder(size, self.probe.unit(j), typical=size)
        return self._climb(self.probe.direction_line(j, direction), steps, noise)

    def _grain(self, j: int, noise: np.ndarray, columns: list[numeric.Derivative]) -> np.ndarray:
        """For each output what rounding leaves of a gradient that must be zero, as those of the sum of a softmax.

        It moves the output by no more than its noise if the input moves by all of its size. Where the output never
        moves at all nothing tells how large the numbers behind it are, and 1 is taken.
        """
        still = np.ones(noise.size, bool)
        for found in columns:
            still &= (found.value == 0) & (found.error == 0)
        noise = np.where(still, np.maximum(noise, 4 * self.base.relative), noise)
        for part in self.base.slices if self.subject.blur else ():
            noise[part] = np.maximum(noise[part], self.subject.blur * np.abs(self.base.flat[part]).max(initial=0.0))
        return 8 * noise[:, None] / self.probe.typical(j)

    @staticmethod
    def _disagree(found: numeric.Derivative, analytic: np.ndarray, slack: np.ndarray) -> bool:
        return not bool((np.abs(found.value - analytic) <= 2 * found.error + slack).all())

    def _floor(self, j: int) -> float:
        """The part of a gradient that may be off without being wrong: float64 is held to more than float32."""
        double = (
            self.subject.inputs[j].array.dtype.itemsize == 8 and self.base.relative < 1e-12 and not self.subject.blur
        )
        return 1e-9 if double else 1e-4

    def _climb(self, line: Any, steps: list[float], noise: np.ndarray) -> numeric.Derivative:
        return numeric.climb(line, steps, self.base.flat, noise, self.settings.eps, self.base.relative)

    def _pairs(
        self,
        j: int,
        entries: np.ndarray,
        analytic: np.ndarray,
        slack: np.ndarray,
        grain: np.ndarray,
        columns: list[numeric.Derivative],
        got_shapes: Any,
        arrived: bool,
    ) -> list[Pair]:
        m = self.base.flat.size
        stacked = {
            name: np.stack([getattr(c, name) for c in columns], 1) if columns else np.zeros((m, 0))
            for name in ("value", "error", "broken", "left", "right", "plain")
        }
        numbers = np.where(stacked["broken"] > 0, stacked["plain"], stacked["value"])
        x = self.subject.inputs[j]
        pairs = []
        for o, part in enumerate(self.base.slices):
            pairs.append(
                Pair(
                    output=self.subject.output_names[o],
                    input=x.name,
                    output_shape=self.base.outputs[o].shape,
                    input_shape=x.array.shape,
                    entries=entries,
                    analytic=analytic[part],
                    numeric=numbers[part],
                    error=2 * stacked["error"][part] + slack[part],
                    grain=grain[part],
                    broken=stacked["broken"][part],
                    left=stacked["left"][part],
                    right=stacked["right"][part],
                    got_shape=got_shapes,
                    arrived=arrived,
                    positions=(o, j),
                    context=float(self.gradients.reach()[part].max(initial=0.0) / typical(x.array)),
                )
            )
        return pairs

    def _survey(self, j: int) -> tuple[np.ndarray, float]:
        """The noise of the outputs, and a good first step as a part of an entry's size, from one random direction."""
        array = self.subject.inputs[j].array
        if not array.size:
            return np.zeros(self.base.flat.size), numeric.LARGEST_STEP
        sizes = np.where(array == 0, typical(array), np.abs(array.astype(np.float64)))
        line = self.probe.direction_line(j, sizes * self.random.choice([-1.0, -0.7, 0.6, 1.0], array.shape))
        unit = self.probe.unit(j)
        noise = numeric.noise_level(line, max(1e-12, 8 * unit), self.base.flat, self.base.relative)
        found = self._climb(line, numeric.full_ladder(1.0, unit), noise)
        known = np.isfinite(found.error)
        chosen = found.step[known & (found.value != 0)]
        seen = np.where(known & (found.broken == 0), found.error * found.step, 0.0)  # noise that only the ladder met
        noise = np.maximum(found.noise, seen)
        for part in self.base.slices:  # elements of one output are alike
            noise[part] = numeric.alike(noise[part], np.abs(self.base.flat[part]))
        if not chosen.size:
            return noise, numeric.LARGEST_STEP
        return noise, min(max(4 * float(np.median(chosen)), 1e-9), numeric.LARGEST_STEP)

    # --- random directions ----------------------------------------------------------------------------------------

    def _along_directions(self, j: int) -> Directions | None:
        """The derivatives along random directions, against the analytic ones; None if any of them does not agree."""
        x = self.subject.inputs[j]
        noise, _ = self._survey(j)
        floor = self._floor(j)
        weights = [[self.random.standard_normal(o.shape).astype(o.dtype) for o in self.base.outputs] for _ in range(3)]
        pulled = [self.subject.pull(w)[j] for w in weights]
        if any(g is not None and g.shape != x.array.shape for g in pulled):
            return None
        gradients = [np.zeros(x.array.size) if g is None else g.astype(np.float64).ravel() for g in pulled]
        worst, sure, size = 0.0, 0.0, self.probe.typical(j)
        for _ in range(DIRECTIONS):
            direction = self.random.standard_normal(x.array.shape)
            steps = numeric.full_ladder(size, self.probe.unit(j), typical=size)
            found = self._climb(self.probe.direction_line(j, direction), steps, noise)
            still = found.value == 0
            if found.broken.any() or hidden_slopes(self.probe, self.random, j, np.zeros(1, int), still).any():
                return None
            for w, g in zip(weights, gradients, strict=True):
                u = flat(w)
                parts = g * direction.ravel()
                scale = math.sqrt(float(parts @ parts))
                off = abs(float(u @ found.value) - float(parts.sum()))
                uncertainty = float(np.abs(u) @ found.error)
                if not off <= uncertainty + floor * scale or uncertainty > 1e-4 * scale + 1e-7 * (scale == 0):
                    return None
                worst, sure = max(worst, off / (scale or 1.0)), max(sure, uncertainty / (scale or 1.0))
        return Directions(x.name, x.array.shape, DIRECTIONS, worst, sure)
