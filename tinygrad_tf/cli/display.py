"""What training shows: a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import os
import sys
import time
import unicodedata
from collections import deque

from tinygrad_tf.training.trainer import Record

BARS = "▁▂▃▄▅▆▇█"
SECONDS_BETWEEN_LINES = 10.0  # of the plain display
SECONDS_BETWEEN_FRAMES = 0.12  # of the live one
LONG = 5.0  # seconds from which on an evaluation is announced


class PlainDisplay:
    """One line now and then: the first step, evaluations, and otherwise every ten seconds."""

    def __init__(self) -> None:
        self._shown = -SECONDS_BETWEEN_LINES
        self._evaluation: Clock | None = None

    def message(self, text: str = "") -> None:
        """A line that stays."""
        print(text, flush=True)

    def start(self, step: int, steps: int) -> None:
        """Training goes from the step after `step` to `steps`."""
        self.steps = steps
        self.clock = Clock(step, steps)

    def show(self, record: Record) -> None:
        now = time.monotonic()
        left = self.clock.left(record.step)
        if record.validation_loss is not None or now - self._shown >= SECONDS_BETWEEN_LINES:
            self._shown = now
            self.message(
                f"step {record.step}/{self.steps}  loss {record.loss:.4f}{_validation(record)}  "
                f"{record.tokens_per_second:,.0f} tokens/s  {duration(left)} left"
            )

    def evaluated(self, done: int, total: int) -> None:
        """An evaluation has come so far, in characters."""
        now, left = time.monotonic(), self._seconds_left(done, total)
        if left > LONG and now - self._shown >= SECONDS_BETWEEN_LINES:
            self._shown = now
            self.message(_evaluating(done, total, left))

    def _seconds_left(self, done: int, total: int) -> float:
        """Of the evaluation that is under way, at the pace since its first batch."""
        if self._evaluation is None or done <= self._evaluation.first:
            self._evaluation = Clock(done, total)
        return self._evaluation.left(done) if done > self._evaluation.first else 0.0

    def sample(self, step: int, text: str) -> None:
        """A piece of generated text, on one line."""
        self.message(f"sample at step {step}: {one_line(text)}")

    def stop(self) -> None:
        """Nothing more will be shown."""


class LiveDisplay(PlainDisplay):
    """A progress bar that is redrawn in place; messages scroll by above it."""

    def __init__(self) -> None:
        super().__init__()
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        # Redrawn between steps by `show`, not by a thread of rich's own, which would take time from the kernels.
        self.console = Console(highlight=False)
        words = TextColumn("{task.fields[words]}", markup=False)
        bar = BarColumn(bar_width=10)
        self.progress = Progress(
            TextColumn("{task.fields[head]}"), bar, words, console=self.console, auto_refresh=False
        )
        self.losses = Curve(10)
        self.validation: float | None = None
        self._long = False  # whether the evaluation that is under way is shown

    def message(self, text: str = "") -> None:
        self.console.print(text, markup=False, soft_wrap=True)

    def start(self, step: int, steps: int) -> None:
        super().start(step, steps)
        self.task = self.progress.add_task("", total=steps, completed=step, head=f"{step}/{steps}", words="")
        self.progress.start()

    def show(self, record: Record) -> None:
        self.losses.add(record.loss)
        left = self.clock.left(record.step)
        if record.validation_loss is not None:
            self.validation = record.validation_loss
        now = time.monotonic()
        if now - self._shown >= SECONDS_BETWEEN_FRAMES or record.step == self.steps:
            self._shown = now
            head = f"{record.step}/{self.steps}"
            self.progress.update(self.task, completed=record.step, head=head, words=self._words(record, left))
            self.progress.refresh()

    def evaluated(self, done: int, total: int) -> None:
        now, left = time.monotonic(), self._seconds_left(done, total)
        if now - self._shown >= SECONDS_BETWEEN_FRAMES and (left > LONG or self._long):
            self._long, self._shown = done < total, now
            self.progress.update(self.task, words=_evaluating(done, total, left))
            self.progress.refresh()

    def _words(self, record: Record, left: float) -> str:
        validation = "" if self.validation is None else f" val {self.validation:.3f}"
        curve = f" {self.losses.drawn()}" if "utf" in self.console.encoding.lower() else ""
        speed = f"{self.clock.rate(record) / 1000:.1f}k tok/s"
        return f"loss {self.losses.recent():.3f}{validation} {speed} {duration(left)} left{curve}"

    def sample(self, step: int, text: str) -> None:
        from rich.text import Text

        line = Text.assemble((f"step {step}: ", "dim"), (one_line(text), "italic"))
        self.console.print(line, soft_wrap=True)

    def stop(self) -> None:
        if self.progress.live.is_started:
            self.progress.stop()


def make_display() -> PlainDisplay:
    """The live display if standard output is a terminal that can move its cursor."""
    live = sys.stdout.isatty() and os.environ.get("TERM", "") not in ("dumb", "unknown")
    return LiveDisplay() if live else PlainDisplay()


class Clock:
    """How fast it goes, and the time that is left at this pace."""

    def __init__(self, step: int, steps: int):
        self.first, self.steps, self.began = step, steps, time.monotonic()
        self.speeds: deque[float] = deque(maxlen=30)

    def left(self, step: int) -> float:
        """Expected seconds, by the mean pace since it was started or resumed."""
        return (time.monotonic() - self.began) / max(step - self.first, 1) * (self.steps - step)

    def rate(self, record: Record) -> float:
        """Tokens a second, over the last records shown."""
        self.speeds.append(record.tokens_per_second)
        return sorted(self.speeds)[len(self.speeds) // 2]


class Curve:
    """A curve of any number of values in a fixed number of columns: when they are full, neighbours are merged."""

    def __init__(self, columns: int):
        self.columns, self.share = columns, 1
        self.means: list[float] = []
        self.block: list[float] = []
        self.last: deque[float] = deque(maxlen=20)

    def add(self, value: float) -> None:
        self.last.append(value)
        self.block.append(value)
        if len(self.block) == self.share:
            self.means.append(sum(self.block) / self.share)
            self.block = []
        if len(self.means) == 2 * self.columns:
            self.means = [(a + b) / 2 for a, b in zip(self.means[::2], self.means[1::2], strict=True)]
            self.share *= 2

    def recent(self) -> float:
        """The mean of the last values: single batches jump about."""
        return sum(self.last) / len(self.last)

    def drawn(self) -> str:
        """The curve in block characters, from its lowest to its highest value."""
        means = self.means or self.block
        pairs = (
            [means[i : i + 2] for i in range(0, len(means), 2)] if len(means) > self.columns else [[m] for m in means]
        )
        values = [sum(pair) / len(pair) for pair in pairs]
        low, span = min(values), max(values) - min(values)
        return "".join(BARS[int((value - low) / span * (len(BARS) - 1)) if span else 0] for value in values)


def duration(seconds: float) -> str:
    """
    >>> duration(75), duration(3700)
    ('1:15', '1:01:40')
    """
    whole = max(0, round(seconds))
    hours, minutes = whole // 3600, whole // 60 % 60
    return f"{hours}:{minutes:02d}:{whole % 60:02d}" if hours else f"{minutes}:{whole % 60:02d}"


def one_line(text: str) -> str:
    """Line breaks as a sign, other control characters as escapes."""
    return visible(text.strip().replace("\n", " ⏎ "))


def visible(text: str, but: str = "") -> str:
    """Control characters but these as escapes: a text from anywhere must not move the cursor or colour the screen.

    >>> print(visible(chr(27) + "[31mred"))
    \\x1b[31mred
    """
    hidden = {c for c in set(text) - set(but) if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp")}
    return "".join(c.encode("unicode_escape").decode() if c in hidden else c for c in text)


def _evaluating(done: int, total: int, left: float) -> str:
    return f"evaluating: {done:,} of {total:,} characters, {duration(left)} left"


def _validation(record: Record) -> str:
    return "" if record.validation_loss is None else f"  validation {record.validation_loss:.4f}"
