"""What a gradient check found: numbers, a verdict for each input, and the text that shows them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from tinygrad_tf._quiet import quiet

RIGHT = "right"
WRONG = "wrong"
KINK = "not differentiable here"
NOISY = "too noisy to tell"
RANDOM = "not deterministic"
SEVERITY = [RIGHT, NOISY, KINK, WRONG, RANDOM]
TOO_NOISY = 0.01  # an uncertainty of more than this part of the gradient says nothing
SHOWN = 5
watchers: list[Callable[[Report, bool], None]] = []  # told of every decision, for tables of results


@dataclass
class Pair:
    """The Jacobian of one output by one input: analytic and numeric, (m, n) each, and how sure the numeric is.

    entries: the flat positions in the input of the n columns. broken: 1 where there is a kink, 2 where a jump, 3 where
    the slopes of the entries do not add up (left: their sum along one direction, right: the slope along it), 4 where
    a kink is near.
    context: how large this gradient would be if its input mattered as much as the one that matters most.
    grain: for each row how much rounding leaves of a gradient that is zero.
    got_shape: what the backward returned, if that has not the input's shape (analytic is then of no use).
    """

    output: str
    input: str
    output_shape: tuple[int, ...]
    input_shape: tuple[int, ...]
    entries: np.ndarray
    analytic: np.ndarray
    numeric: np.ndarray
    error: np.ndarray
    broken: np.ndarray
    left: np.ndarray
    right: np.ndarray
    got_shape: tuple[int, ...] | None = None
    arrived: bool = True
    positions: tuple[int, int] = (0, 0)
    context: float = 0.0
    grain: np.ndarray | float = 0.0
    diagnosis: list[str] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        return self.entries.size == int(np.prod(self.input_shape)) and self.numeric.shape[0] == int(
            np.prod(self.output_shape)
        )

    @property
    def off(self) -> np.ndarray:
        """|analytic - numeric|, infinite where only one of them is a number."""
        with quiet():
            difference = np.abs(self.analytic - self.numeric)
            same = (self.analytic == self.numeric) | (np.isnan(self.analytic) & np.isnan(self.numeric))
        return np.where(same, 0.0, np.where(np.isfinite(difference), difference, np.inf))

    @property
    def wrong(self) -> np.ndarray:
        """Entries that differ by more than the uncertainty, away from kinks and jumps."""
        lost = self.broken.any(0) & ~np.isfinite(self.analytic)  # 0 times an infinite slope
        return (self.off > self.error) & (self.broken == 0) & np.isfinite(self.error) & ~lost & ~self.vanished

    @property
    def vanished(self) -> np.ndarray:
        """Entries that both sides call zero, but for rounding: the numeric one is none that stands out."""
        with quiet():
            zero = np.abs(self.numeric) <= np.minimum(self.grain, 10 * self.error)
            return zero & (np.abs(self.analytic) <= self.grain) & (self.error <= self._nothing())

    def scale(self) -> np.ndarray:
        """What an uncertainty is compared with: the entry, a hundredth of the largest, or what would be negligible."""
        with quiet():
            size = np.maximum(np.abs(self.analytic), np.abs(self.numeric))
            size = np.where(np.isfinite(size), size, 0.0)
        return np.maximum(size, max(size.max(initial=0.0) * 1e-2, 1e-6 * self.context))

    @property
    def verdict(self) -> str:
        if self.got_shape is not None or self.wrong.any():
            return WRONG
        if self.broken.any():
            return KINK
        return NOISY if self.unsure.any() else RIGHT

    @property
    def unsure(self) -> np.ndarray:
        """Entries whose uncertainty is so large that agreement says nothing."""
        unsure = ~np.isfinite(self.error) | (self.error > TOO_NOISY * self.scale()) | self._vague()
        zero = (self.analytic == 0) & (np.abs(self.numeric) <= self.error) & (self.error <= self._nothing())
        return unsure & ~self.vanished & ~zero

    def _nothing(self) -> float:
        """Up to which uncertainty a gradient of zero is one: a tenth of the largest, as in float32, or 0.001."""
        with np.errstate(all="ignore"):
            size = np.maximum(np.abs(self.analytic), np.abs(self.numeric))
        return max(0.1 * float(size[np.isfinite(size)].max(initial=0.0)), 1e-3)

    def _vague(self) -> np.ndarray:
        """Entries that stand out of their uncertainty, but not far: beside another input that matters much more."""
        with quiet():
            size = np.maximum(np.abs(self.analytic), np.abs(self.numeric))
            size = np.where(np.isfinite(size), size, 0.0)
        return (size > self.error) & (self.error > TOO_NOISY * np.maximum(size, 1e-2 * size.max(initial=0.0)))

    def passes(self, atol: float, rtol: float) -> bool:
        """PyTorch's answer: |analytic - numerical| <= atol + rtol |numerical| everywhere.

        An entry that the numbers cannot tell from right is not called wrong, however small the tolerances; one whose
        uncertainty is larger than itself, and than the tolerances, does not pass: anything would.
        """
        if self.got_shape is not None:
            return False
        close = self.off <= atol + rtol * np.abs(self.numeric)
        if self.verdict == RIGHT:
            close |= self.off <= self.error
        return bool((close & np.isfinite(self.analytic) & ~self.hidden(atol, rtol)).all())

    def hidden(self, atol: float, rtol: float) -> np.ndarray:
        """Entries that nothing is known of: the uncertainty is larger than they are, than what is tolerated, and than
        what would be nothing beside the largest.
        """
        with np.errstate(all="ignore"):
            known = self.error <= np.maximum(np.abs(self.numeric), atol + rtol * np.abs(self.numeric))
        return self.unsure & (self.broken == 0) & ~known & ~(self.error <= self._nothing())

    def worst(self, count: int = SHOWN) -> list[tuple[int, int]]:
        """Rows and columns of the entries that are off most, compared with their uncertainty and size."""
        with quiet():
            rank = np.where(np.isinf(self.off), np.inf, self.off / (self.error + 1e-3 * self.scale() + 1e-300))
            rank = np.where(self.wrong, 1e9 * (1 + rank), rank)
            rank = np.where(self.broken > 0, np.maximum(rank, 1.0), rank) if self.verdict == KINK else rank
        order = np.argsort(-rank, axis=None, kind="stable")[:count]
        chosen = [np.unravel_index(int(i), rank.shape) for i in order]
        keep = [(int(r), int(c)) for r, c in chosen if rank[r, c] > 0]
        return keep or [(int(r), int(c)) for r, c in chosen[:1]]

    def place(self, row: int, column: int) -> str:
        """`w[3, 1]`, and which element of the output it is a derivative of."""
        entry = np.unravel_index(int(self.entries[column]), self.input_shape) if self.input_shape else ()
        text = self.input + _index(entry)
        if self.output_shape and self.numeric.shape[0] > 1:
            text = f"d {self.output}{_index(np.unravel_index(row, self.output_shape))} / d {text}"
        return text

    def table(self) -> list[str]:
        rows = [("entry", "analytical", "numerical", "± uncertainty", "ratio")]
        for r, c in self.worst():
            a, n, e = self.analytic[r, c], self.numeric[r, c], self.error[r, c]
            with quiet():
                ratio = f"{a / n:.6g}" if n else "-"
            rows.append((self.place(r, c), f"{a:.10g}", f"{n:.10g}", f"{e:.1e}", ratio))
        widths = [max(len(row[i]) for row in rows) for i in range(5)]
        return ["    " + "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]

    def noise_line(self) -> str:
        if not np.isfinite(self.numeric).all():
            return "    the function is not finite here or right beside: there is no derivative to compare with"
        hidden = bool(self.hidden(0.0, 0.0).any())
        size = "as large as the gradient, so that nothing is proven" if hidden else "more than 1 % of the gradient"
        return f"    the uncertainty is {size}: do large numbers cancel in the function, or is a short dtype inside?"

    def kink_line(self) -> str:
        r, c = next((int(r), int(c)) for r, c in zip(*np.nonzero(self.broken), strict=True))
        if self.broken[r, c] == 2:
            return f"    at {self.place(r, c)} the function jumps"
        if self.broken[r, c] == 3:
            return (
                f"    at {self.place(r, c)} there is a crease, as in a median of equal numbers: along a direction in "
                f"which the slopes of the entries add up to {self.left[r, c]:.6g} the slope is {self.right[r, c]:.6g}, "
                "so that no gradient is right"
            )
        near, distance = ("near", ", nearer than eps,") if self.broken[r, c] == 4 else ("at", "")
        return (
            f"    {near} {self.place(r, c)}{distance} there is a kink: the slope is {self.left[r, c]:.6g} on the left "
            f"and {self.right[r, c]:.6g} on the right, the backward says {self.analytic[r, c]:.6g}"
        )


def _index(position: tuple[np.intp, ...] | tuple[int, ...]) -> str:
    return "[" + ", ".join(str(int(i)) for i in position) + "]" if len(position) else ""


@dataclass
class Directions:
    """The outcome of random directions, for an input too large for its full Jacobian: all agreed."""

    input: str
    input_shape: tuple[int, ...]
    count: int
    worst: float  # the largest relative difference seen
    sure: float  # the largest relative uncertainty
    verdict: str = RIGHT


@dataclass
class Report:
    """All that one check found. `str(report)` is the text; `bool(report)` is whether every gradient is right.

    problems: what is wrong apart from numbers (not deterministic, not linear in the output's gradient, wrong dtype).
    """

    title: str = "gradcheck"
    pairs: list[Pair] = field(default_factory=list)
    directions: list[Directions] = field(default_factory=list)
    problems: list[tuple[str, str]] = field(default_factory=list)
    evaluations: int = 0
    seed: int = 0

    @property
    def verdicts(self) -> dict[str, str]:
        """The verdict for each input, by name."""
        found: dict[str, str] = {}
        items: list[Directions | Pair] = [*self.directions, *self.pairs]
        for item in items:
            before = found.get(item.input, RIGHT)
            found[item.input] = max(before, item.verdict, key=SEVERITY.index)
        for verdict, _ in self.problems:
            found = {name: max(v, verdict, key=SEVERITY.index) for name, v in found.items()} or {"": verdict}
        return found

    @property
    def verdict(self) -> str:
        return max(self.verdicts.values(), key=SEVERITY.index, default=RIGHT)

    @property
    def diagnosis(self) -> list[str]:
        """The likely mistakes, without repetition."""
        return list(dict.fromkeys(d for p in self.pairs for d in p.diagnosis))

    @property
    def worst_error(self) -> float:
        """The largest difference, relative to the largest gradient entry of its input."""
        found = [d.worst for d in self.directions]
        for p in self.pairs:
            size = max(np.abs(p.analytic[np.isfinite(p.analytic)]).max(initial=0.0), 1e-6 * p.context)
            off = p.off[(p.broken == 0) & ~p.vanished].max(initial=0.0)
            found.append(off / size if size else (0.0 if off <= p.error.max(initial=0.0) else np.inf))
        return float(max(found, default=0.0))

    def passes(self, atol: float = 1e-5, rtol: float = 1e-3) -> bool:
        return not self.problems and all(p.passes(atol, rtol) for p in self.pairs)

    def __bool__(self) -> bool:
        return self.verdict == RIGHT

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self, failed: list[Pair] | None = None) -> list[str]:
        text = [f"{self.title}: {self.verdict}"]
        text += [f"  {line}" for _, line in self.problems]
        for d in self.directions:
            text.append(
                f"  {d.input} {list(d.input_shape)}: {d.verdict} along {d.count} random directions "
                f"(largest relative difference {d.worst:.1e}, seed {self.seed})"
            )
        for pair in self.pairs:
            if failed is None or any(pair is f for f in failed):
                text += describe(pair)
        return text


def _of(pair: Pair) -> str:
    """How many of an input's elements were looked at, where that is not all."""
    total = int(np.prod(pair.input_shape))
    return f", {pair.entries.size} elements looked at of {total}" if pair.entries.size < total else ""


def describe(pair: Pair) -> list[str]:
    """One line for a right gradient; the worst entries and the likely mistake for another."""
    head = f"  {pair.input} {list(pair.input_shape)} (gradient of {pair.output}): {pair.verdict}"
    if pair.got_shape is not None:
        head += f", the gradient has shape {pair.got_shape} and must have {pair.input_shape}"
        return [head, *[f"    likely mistake: {d}" for d in pair.diagnosis]]
    if pair.verdict == RIGHT:
        worst = (np.where(pair.vanished, 0.0, pair.off) / np.maximum(pair.scale(), 1e-300)).max(initial=0.0)
        return [f"{head} ({pair.numeric.size} entries{_of(pair)}, largest relative difference {worst:.1e})"]
    if pair.verdict == WRONG:
        shown = pair.wrong.sum()
        head += f" in {shown} of {pair.wrong.size} entries{_of(pair)}"
    text = [head, *pair.table()]
    if pair.verdict == NOISY:
        text.append(pair.noise_line())
    if pair.broken.any():
        text.append(pair.kink_line())
    return text + [f"    likely mistake: {d}" for d in pair.diagnosis]
