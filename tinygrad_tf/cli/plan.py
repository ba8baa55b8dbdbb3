"""What is known before the first step: the text, the model, and how long it will take."""

from __future__ import annotations

import dataclasses
import datetime
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tinygrad_tf.cli.display import PlainDisplay, duration, one_line
from tinygrad_tf.training.calibrate import (
    ENOUGH_STEPS,
    MARGIN,
    SIZE,
    Calibration,
    calibrate,
    expected_seconds,
    memory,
    sizes_to_try,
    steps_for,
    whole_evaluation,
)
from tinygrad_tf.training.config import TrainConfig
from tinygrad_tf.training.trainer import Trainer
from tinygrad_tf.utils.data import CharTokenizer, split_tokens
from tinygrad_tf.utils.data.tokens import Tokens
from tinygrad_tf.utils.errors import InputError

STARTED = time.monotonic()
WIDE = 128  # channels from which a step is mostly products
NOTABLE_SECONDS, NOTABLE_SHARE = 10.0, 0.1  # of the last evaluation


@dataclass(frozen=True)
class Data:
    """A text as tokens."""

    tokens: Tokens
    tokenizer: CharTokenizer
    text: dict[str, Any]  # source, files, characters


def tell(display: PlainDisplay, label: str, text: Any) -> None:
    """One line of the description."""
    display.message(f"{label:<11}{text}")


def tell_text(display: PlainDisplay, data: Data, config: TrainConfig) -> None:
    train, validation = split_tokens(data.tokens, config.context, config.validation_fraction)
    files = int(data.text.get("files", 1))
    source = one_line(str(data.text.get("source"))) + (f" ({files} files)" if files > 1 else "")
    different = len(data.tokenizer)
    size = f"{len(data.tokens):,} characters, {different} different one{'' if different == 1 else 's'}"
    tell(display, "text", f"{source}: {size}; {len(train):,} to train on, {len(validation):,} for validation")
    if different == 1:
        tell(display, "note", "each next character is certain before the first step: there is nothing to learn")


def tell_twice(display: PlainDisplay, files: Sequence[str]) -> None:
    """A note about files that are joined more than once: what validation measures may then have been trained on."""
    there: set[str] = set()
    for name in files:
        path = os.path.realpath(name)
        if path in there:
            tell(display, "note", f"{one_line(name)} is named twice: its text may be in both parts, trained on and not")
        there.add(path)


def check_memory(config: TrainConfig, data: Data) -> None:
    """An InputError when the machine has not got the memory that this model and batch take at the least."""
    try:
        there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # Windows
        return
    needed = memory(config, len(data.tokenizer))
    if needed > there:
        sizes = f"--layers {config.layers}, --channels {config.channels}, --batch {config.batch} of {config.context}"
        raise InputError(
            f"{sizes}: takes at least {needed / 2**30:,.0f} GB, and this machine has {there / 2**30:,.0f}; "
            "make one of them smaller (--micro-batch and --recompute save memory)"
        )


def tell_model(display: PlainDisplay, config: TrainConfig, model: Any) -> None:
    count = sum(p.numel() for p in model.parameters())
    sizes = ((config.layers, "layer"), (config.heads, "head"), (config.channels, "channel"))
    words = ", ".join(f"{number} {word}{'' if number == 1 else 's'}" for number, word in sizes)
    tell(display, "model", f"{words}, context {config.context}: {count:,} parameters")


def tell_plan(display: PlainDisplay, trainer: Trainer, measured: Calibration) -> None:
    """Steps, characters, and when it will be done."""
    c, left = trainer.config, trainer.config.steps - trainer.step
    tokens = left * c.tokens_per_step
    share = tokens / len(trainer.train_tokens)
    steps = f"{left:,} step{'' if left == 1 else 's'}"
    tell(display, "training", f"{steps} of {c.batch} x {c.context} characters: {share:.2g} times the text")
    if c.micro_batch is not None and c.micro_batch < c.batch:
        tell(display, "parts", f"{-(-c.batch // c.micro_batch)} of at most {c.micro_batch} windows make up a step")
    _tell_precision(display, c)
    if c.learning_rate == 0.0:
        tell(display, "note", "at --learning-rate 0 every weight stays as it is: nothing will be learnt")
    if trainer.step < c.decay <= c.warmup:
        tell(display, "note", f"the learning rate rises for {c.warmup} steps, and the run has only {c.steps}")
    seconds = expected_seconds(trainer, measured)
    finish = datetime.datetime.now() + datetime.timedelta(seconds=min(seconds, 1e9))
    day = "" if finish.date() == datetime.date.today() else f"{finish:%Y-%m-%d} "
    pace = f"{measured.step * 1000:.3g} ms a step"
    tell(display, "time", f"{pace}: about {duration(seconds)}, done at {day}{finish:%H:%M:%S}")
    last = whole_evaluation(trainer, measured)
    if last > NOTABLE_SECONDS and last > NOTABLE_SHARE * seconds:
        split = f"the validation split, {len(trainer.validation_tokens):,} characters"
        tell(display, "note", f"the last {duration(last)} of it are an evaluation over {split}")


def _tell_precision(display: PlainDisplay, c: TrainConfig) -> None:
    from tinygrad_tf.kernels import _matrix_tiles, _vector  # there is a kernel by now, and so a compiler

    if c.precision != "float32":
        tell(display, "precision", f"{c.precision} activations; weights, sums and the loss in float32")
    if c.matmul_precision not in (None, "highest"):
        bits = {"high": 16, "medium": 8}[c.matmul_precision]
        where = "matrix tiles" + (" or AVX512_BF16" if c.matmul_precision == "medium" else "")
        note = f"where the processor has {where}, sums in float32; for all bits --matmul-precision highest"
        tell(display, "products", f"of about {bits} bits {note}")
    in_pairs = _vector.HAS_PAIRS and not _matrix_tiles.AVAILABLE
    if in_pairs and c.precision == "float32" and c.matmul_precision != "medium" and c.channels >= WIDE:
        tell(display, "note", "this processor multiplies bfloat16 twice as fast: --precision bfloat16 takes less time")


@contextmanager
def compiling(display: PlainDisplay) -> Iterator[None]:
    """Say that kernels are being compiled, if they are, and afterwards how long it took."""
    from tinygrad_tf.kernels import _compile

    notice = "compiling the kernels for this processor: once, 10 to 60 seconds; later starts are quick"
    inside = True
    _compile.on_compile(lambda: display.message(notice) if inside else None)
    before = _compile.compile_seconds()
    try:
        yield
    finally:
        inside = False
    seconds = _compile.compile_seconds() - before
    if seconds > 0:
        display.message(f"compiled in {seconds:.1f} s")


def measured_trainer(config: TrainConfig, data: Data) -> tuple[Trainer, Calibration]:
    trainer = Trainer(config, data.tokens, len(data.tokenizer))
    return trainer, calibrate(trainer)


def fitting_trainer(config: TrainConfig, data: Data, minutes: float, chosen: set[str]) -> tuple[Trainer, Calibration]:
    """A trainer with the steps that fit the time; and, if no part of the size was chosen, with a size that does."""
    trainer, measured = measured_trainer(config, data)
    if not chosen & set(SIZE):
        for size in sizes_to_try(seconds_left(minutes), measured, config):
            try:
                trainer, measured = measured_trainer(size, data)
            except InputError:  # the text is too short for such a context
                continue
            if steps_for(trainer, measured, seconds_left(minutes)) >= ENOUGH_STEPS:
                break
    steps = steps_for(trainer, measured, seconds_left(minutes))
    trainer.config = dataclasses.replace(trainer.config, steps=steps)
    return trainer, measured


def seconds_left(minutes: float) -> float:
    """What remains for training. The start has had its part; compiling, which happens once, comes on top of the
    minutes: on a slow machine it would leave nothing of them."""
    from tinygrad_tf.kernels import _compile

    return minutes * 60 * MARGIN - (time.monotonic() - STARTED - _compile.compile_seconds())
