"""TrainConfig: everything that decides how a training run goes. The command line's options are made from it."""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from dataclasses import dataclass
from typing import Any

from tinygrad_tf._arguments import check_choice
from tinygrad_tf.kernels.precision import PIECES
from tinygrad_tf.training.groups import parse_decays
from tinygrad_tf.training.schedules import SCHEDULES
from tinygrad_tf.utils.errors import InputError

TOO_LARGE = 2**63  # for a whole number
PRECISIONS = ("float32", "bfloat16", "float16")
MATMUL_PRECISIONS = tuple(PIECES)
NEWER = {"micro_batch", "schedule", "decay_of", "label_smoothing", "precision", "recompute", "patience", "min_delta"}
NEWER |= {"matmul_precision"}


def _option(
    default: Any,
    text: str,
    *,
    least: float = -math.inf,
    below: float = math.inf,
    fixed: bool = False,
    choices: tuple[str, ...] = (),
) -> Any:
    """A field with its help, its bounds or choices, and whether it is fixed once a run has begun."""
    metadata = {"help": text, "least": least, "below": below, "fixed": fixed, "choices": choices}
    return dataclasses.field(default=default, metadata=metadata)


@dataclass(frozen=True)
class TrainConfig:
    """The settings of a run; the defaults are nanoGPT's small configuration for a laptop's CPU.

    A value of the wrong type or out of its bounds is an InputError that names the option.

    >>> TrainConfig(steps=300).warmup
    30
    """

    # The model, a GPT on characters
    layers: int = _option(4, "Transformer blocks, one after the other", least=1, fixed=True)
    heads: int = _option(4, "attention heads in each block", least=1, fixed=True)
    channels: int = _option(128, "numbers that stand for one character; a multiple of heads", least=1, fixed=True)
    context: int = _option(64, "characters that the model looks back on", least=1, fixed=True)
    bias: bool = _option(False, "biases in the linear layers and the layer norms", fixed=True)
    dropout: float = _option(0.0, "share of activations dropped while training", least=0.0, below=1.0)

    # The steps
    batch: int = _option(12, "windows of text in one step", least=1)
    steps: int = _option(2000, "optimiser steps", least=1)
    micro_batch: int | None = _option(
        None, "windows that are in memory at once; gradients add up to those of the batch [default: --batch]", least=1
    )
    learning_rate: float = _option(1e-3, "learning rate after the warmup", least=0.0)
    schedule: str = _option("cosine", "how the learning rate goes on after the warmup", choices=SCHEDULES)
    min_learning_rate: float | None = _option(
        None, "learning rate at the end of the schedule [default: a tenth of --learning-rate]", least=0.0
    )
    warmup_steps: int | None = _option(
        None, "steps in which the rate rises [default: 100, at most a tenth of --steps]", least=0
    )
    decay_steps: int | None = _option(None, "step at which the cosine or the line ends [default: --steps]", least=1)
    weight_decay: float = _option(0.1, "AdamW's decay of matrices; vectors do not decay", least=0.0)
    decay_of: str | None = _option(
        None, "another decay for parts by name, as token_embedding=0,attention=0.2 [default: none]"
    )
    label_smoothing: float = _option(
        0.0, "share of each target that is spread over all characters", least=0.0, below=1.0
    )
    beta1: float = _option(0.9, "AdamW's memory of the gradient", least=0.0, below=1.0)
    beta2: float = _option(0.99, "AdamW's memory of its square", least=0.0, below=1.0)
    gradient_clip: float = _option(1.0, "largest norm of the gradient; 0: no clipping", least=0.0)

    precision: str = _option("float32", "of activations; 16 bits take half of the memory", choices=PRECISIONS)
    matmul_precision: str | None = _option(
        None, "of float32 products on matrix tiles: 24, 16 or 8 bits [default: high]", choices=MATMUL_PRECISIONS
    )
    recompute: bool = _option(False, "compute blocks again in the backward pass: less memory, more time")
    patience: int | None = _option(
        None, "stop after so many evaluations without progress, at the best weights [default: never]", least=1
    )
    min_delta: float = _option(0.0, "how much lower a validation loss must be to count as progress", least=0.0)

    # The data
    eval_interval: int = _option(250, "steps between evaluations; each one saves a checkpoint", least=1)
    eval_batches: int = _option(20, "validation batches in an evaluation; 0: the whole split", least=0)
    validation_fraction: float = _option(0.1, "share of the text, from its end, for validation", fixed=True)
    seed: int = _option(1337, "seed of the weights, the windows and the dropout", least=0, fixed=True)

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = _checked(field, getattr(self, field.name))
            object.__setattr__(self, field.name, value)
        if self.channels % self.heads:
            raise InputError(f"--channels {self.channels} cannot be divided among --heads {self.heads}")
        if self.decay_of is not None:
            parse_decays(self.decay_of)
        if self.min_delta and self.patience is None:
            raise InputError("--min-delta is about --patience: give that, too")
        if not 0.0 < self.validation_fraction < 1.0:
            raise InputError(f"--validation-fraction must lie between 0 and 1, got {self.validation_fraction:g}")
        if self.floor > self.learning_rate:
            raise InputError(
                f"--min-learning-rate {self.floor:g} is above --learning-rate {self.learning_rate:g}; "
                f"lower it or leave it out"
            )

    @property
    def floor(self) -> float:
        """The learning rate at the end of the schedule."""
        return self.learning_rate / 10 if self.min_learning_rate is None else self.min_learning_rate

    @property
    def warmup(self) -> int:
        """The number of warmup steps."""
        return min(100, self.steps // 10) if self.warmup_steps is None else self.warmup_steps

    @property
    def decay(self) -> int:
        """The step at which the schedule (cosine or linear) reaches its floor."""
        return self.steps if self.decay_steps is None else self.decay_steps

    @property
    def tokens_per_step(self) -> int:
        return self.batch * self.context

    def as_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: Any, name: str = "config") -> TrainConfig:
        """The inverse of `as_dict`; unknown or missing names are an InputError that names their place, `name`.

        What older versions did not know may be missing: they did what the default says.
        """
        known = {field.name for field in dataclasses.fields(cls)}
        if not isinstance(values, dict):
            raise InputError(f"{name}: not a configuration")
        for problem, names in (("unknown", set(values) - known), ("missing", known - set(values) - NEWER)):
            if names:
                raise InputError(f"{name}: {problem} setting {', '.join(sorted(names))}")
        try:
            return cls(**values)
        except InputError as error:
            raise InputError(f"{name}: {error}") from None


def flag(name: str) -> str:
    """The command line's name of a setting: --learning-rate of learning_rate."""
    return "--" + name.replace("_", "-")


def kind(name: str) -> type:
    """bool, int, float or str: the type of a setting, without its None."""
    hint = typing.get_type_hints(TrainConfig)[name]
    if isinstance(hint, types.UnionType):
        hint = next(part for part in typing.get_args(hint) if part is not types.NoneType)
    return hint


def parse_number(name: str, text: str, wanted: type) -> int | float:
    """The number that `text` stands for; 1e3 and 1_000 are whole too. An InputError names the option, `name`."""
    try:
        value = float(text) if wanted is float else _whole(text)
        if value != value:
            raise ValueError("NaN")
    except (ValueError, OverflowError):
        word = "a number" if wanted is float else "a whole number"
        raise InputError(f"{name} must be {word}, got {text!r}") from None
    return value


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        number = float(text)
        if number != int(number):
            raise ValueError from None
        return int(number)


def _checked(field: dataclasses.Field[Any], given: Any) -> Any:
    """The value in the field's type, within its bounds."""
    wanted: Any = kind(field.name)
    name, value = flag(field.name), given
    if value is None and field.default is None:
        return None
    if wanted is float and type(value) is int:
        value = float(value)
    if type(value) is not wanted or value != value:  # NaN
        words = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
        raise InputError(f"{name} must be {words[wanted]}, got {value!r}")
    if wanted is str:
        choices = field.metadata["choices"]
        if choices:
            check_choice(name, value, choices, InputError)
        return value
    least, below = field.metadata["least"], min(field.metadata["below"], math.inf if wanted is float else TOO_LARGE)
    if not least <= value < below:
        bounds = f"at least {least:g}" if value < least else "finite" if math.isinf(below) else f"below {plain(below)}"
        raise InputError(f"{name} must be {bounds}, got {plain(value)}")
    return value


def plain(number: float) -> str:
    """As people write it: 2 for 2.0, with all digits where it has many."""
    short = f"{number:g}"
    return short if isinstance(number, float) and float(short) == number else str(number)
