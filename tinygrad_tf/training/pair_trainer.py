"""The training loop of encoder-decoders: pairs of sequences in, one record a step out; and how often answers are right.

Shapes: B pairs, S source length, T target length.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tinygrad_tf import random
from tinygrad_tf._arguments import check_choice
from tinygrad_tf.autograd import no_grad
from tinygrad_tf.creation import from_numpy
from tinygrad_tf.generation import Conditioned, GenerationConfig, generate_batch
from tinygrad_tf.optim import Adam
from tinygrad_tf.tensor import Tensor
from tinygrad_tf.training.config import PRECISIONS
from tinygrad_tf.training.groups import parameter_groups
from tinygrad_tf.training.loop import Loop, Part
from tinygrad_tf.training.scheduled_sampling import mixed_inputs
from tinygrad_tf.training.schedules import SCHEDULES, rate_at
from tinygrad_tf.utils.data.pairs import END, PAD, POOL, START, PairBatch, batches_by_length, pad_rows, pair_batch
from tinygrad_tf.utils.errors import InputError

Pair = tuple[Sequence[int], Sequence[int]]  # source and answer, as ids without special tokens


@dataclass(frozen=True)
class PairConfig:
    """The settings of a run on pairs; the defaults are the Transformer paper's where a small model can have them.

    A value out of range is an InputError that names it.
    """

    steps: int = 1000  # optimiser steps
    batch: int = 64  # pairs in a step
    pool: int = POOL  # batches that are sorted by length together, see `batches_by_length`
    micro_batch: int | None = None  # pairs in memory at once; None: all of the batch
    learning_rate: float = 3e-3  # the highest, at the end of the warmup
    min_learning_rate: float = 0.0  # at the end of the schedule
    schedule: str = "noam"  # 'noam', 'cosine', 'linear' or 'constant': see `rate_at`
    warmup: int = 100  # steps
    label_smoothing: float = 0.1  # section 5.4
    beta1: float = 0.9  # of Adam (section 5.3)
    beta2: float = 0.98
    eps: float = 1e-9
    weight_decay: float = 0.0
    gradient_clip: float = 1.0  # 0: no clipping
    precision: str = "float32"  # of activations: 'float32', 'bfloat16' or 'float16'
    seed: int = 0  # of the order of the pairs, of dropout and of scheduled sampling

    def __post_init__(self) -> None:
        for name, least in (("steps", 1), ("batch", 1), ("pool", 1), ("micro_batch", 1), ("warmup", 0), ("seed", 0)):
            value = getattr(self, name)
            if value is None and name == "micro_batch":
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise InputError(f"PairConfig: {name} must be a whole number of at least {least}, got {value!r}")
        for name in ("learning_rate", "min_learning_rate", "eps", "weight_decay", "gradient_clip"):
            if not 0.0 <= getattr(self, name) < math.inf:
                raise InputError(f"PairConfig: {name} must be at least 0 and finite, got {getattr(self, name)!r}")
        for name in ("label_smoothing", "beta1", "beta2"):
            if not 0.0 <= getattr(self, name) < 1.0:
                raise InputError(f"PairConfig: {name} must be in [0, 1), got {getattr(self, name)!r}")
        for name, choices in (("schedule", SCHEDULES), ("precision", PRECISIONS)):
            check_choice(f"PairConfig: {name}", getattr(self, name), choices, InputError)


@dataclass(frozen=True)
class PairRecord:
    """What happened in one step."""

    step: int
    loss: float  # of the batch before its update, with label smoothing; nats a target token
    learning_rate: float
    gradient_norm: float | None  # before clipping; None: float16 overflowed, and the step was left out
    teacher_share: float  # of the tokens that the decoder read


class PairTrainer(Loop):
    """Trains an encoder-decoder on pairs of ids; the model has `loss`, `encode` and `decode`, as `models.Transformer`.

    Pairs hold no special tokens: START is put before what the decoder reads, END behind what it is to say, and PAD (id
    0, which must be the model's `config.pad`) behind shorter rows. Batches hold pairs of about equal length. teacher:
    the share of true tokens at step 0, 1, ..., for scheduled sampling; without it all are true.

    >>> from tinygrad_tf.models import Transformer, TransformerConfig
    >>> sizes = dict(d_model=8, num_heads=2, d_ff=16, encoder_layers=1, decoder_layers=1, dropout=0.0)
    >>> model = Transformer(TransformerConfig(vocab_size=9, pad=PAD, **sizes))
    >>> trainer = PairTrainer(PairConfig(steps=2, batch=2), model, [([3, 4, 5], [5, 4, 3]), ([6, 7], [7, 6])])
    >>> [record.step for record in trainer.train()]
    [1, 2]
    """

    def __init__(
        self,
        config: PairConfig,
        model: Any,
        pairs: Sequence[Pair],
        teacher: Callable[[int], float] | None = None,
    ):
        if not pairs:
            raise InputError("PairTrainer: there are no pairs to learn from")
        pad = getattr(getattr(model, "config", None), "pad", PAD)
        if pad != PAD:
            raise InputError(f"PairTrainer: the model must have pad={PAD} in its config, got {pad!r}")
        random.manual_seed(config.seed)
        groups = parameter_groups(model, config.weight_decay)
        optimizer = Adam(groups, lr=config.learning_rate, betas=(config.beta1, config.beta2), eps=config.eps)
        super().__init__(model, optimizer, config.gradient_clip, config.precision)
        self.config, self.pairs, self.teacher = config, pairs, teacher
        self.lengths = np.array([(len(source), len(target)) for source, target in pairs])
        self.generator = np.random.default_rng(config.seed)
        self.epoch: Iterator[NDArray[np.int64]] = iter(())
        self.epoch_began: Any = None  # the generator's state at its beginning
        self.taken = 0  # batches of the epoch

    def train(self) -> Iterator[PairRecord]:
        """Do the steps that are left, one at each `next`; TrainingError at the first that is not finite."""
        while self.step < self.config.steps:
            c, share = self.config, self.share()
            rate = rate_at(
                c.schedule, self.step, peak=c.learning_rate, floor=c.min_learning_rate, warmup=c.warmup, total=c.steps
            )
            loss, norm = self.update(self.step + 1, rate)
            self.step += 1
            yield PairRecord(self.step, loss, rate, norm, share)

    def share(self) -> float:
        """The share of true tokens that the decoder reads in the next step."""
        return 1.0 if self.teacher is None else self.teacher(self.step)

    def parts(self) -> Sequence[Part]:
        rows = self._next_rows()
        size = self.config.micro_batch or len(rows)
        batches = [self._batch(rows[i : i + size]) for i in range(0, len(rows), size)]
        return [Part(partial(self.loss, batch), batch.tokens) for batch in batches]

    def loss(self, batch: PairBatch) -> Tensor:
        """The cross-entropy of a batch, under teacher forcing or scheduled sampling."""
        source, inputs = from_numpy(batch.source), from_numpy(batch.inputs)
        share = self.share()
        if share < 1.0:
            inputs = self._mixed(source, inputs, share)
        return self.model.loss(source, inputs, from_numpy(batch.targets), self.config.label_smoothing)

    def _mixed(self, source: Tensor, inputs: Tensor, share: float) -> Tensor:
        with no_grad():
            memory, mask = self.model.encode(source), self.model.source_mask(source)
        # A generator of its own, so that the order of the pairs is the same with and without sampling.
        coins = np.random.default_rng((self.config.seed, self.step))
        return mixed_inputs(lambda ids: self.model.decode(ids, memory, mask), inputs, share, coins, pad=PAD)

    def _batch(self, rows: NDArray[np.int64]) -> PairBatch:
        return pair_batch([self.pairs[i][0] for i in rows], [self.pairs[i][1] for i in rows])

    def _next_rows(self) -> NDArray[np.int64]:
        """The numbers of the pairs of the next batch."""
        rows = next(self.epoch, None)
        if rows is None:
            self.epoch_began, self.taken = self.generator.bit_generator.state, 0
            self.epoch = batches_by_length(self.lengths, self.config.batch, self.generator, self.config.pool)
            rows = next(self.epoch)
        self.taken += 1
        return rows

    # --- stopping and going on ------------------------------------------------------------------------------------

    def progress(self) -> dict[str, Any]:
        began = self.epoch_began or self.generator.bit_generator.state
        return {**super().progress(), "epoch": began, "taken": self.taken}

    def load_progress(self, progress: dict[str, Any]) -> None:
        super().load_progress(progress)
        self.generator.bit_generator.state = progress["epoch"]
        self.epoch, self.epoch_began = iter(()), None
        for _ in range(int(progress["taken"])):
            self._next_rows()


def answers(model: Any, sources: Sequence[Sequence[int]], longest: int = 100, batch: int = 250) -> list[list[int]]:
    """The likeliest answer to each source, token by token (greedily), without its END; the model's mode stays.

    Sources are taken in order of their length, so that little is padded.
    """
    config = GenerationConfig(temperature=0, stop_tokens=(END,), max_new_tokens=longest)
    order = sorted(range(len(sources)), key=lambda i: len(sources[i]))
    found: list[list[int]] = [[] for _ in sources]
    for first in range(0, len(order), batch):
        some = order[first : first + batch]
        padded = pad_rows([sources[i] for i in some])
        rows = generate_batch(Conditioned(model, padded), [[START]] * len(some), config).rows()
        for i, row in zip(some, rows, strict=True):
            found[i] = row[:-1] if row and row[-1] == END else row
    return found


def exact_matches(model: Any, pairs: Sequence[Pair], batch: int = 250) -> float:
    """The share of pairs whose whole answer is right."""
    if not pairs:
        raise InputError("exact_matches: there are no pairs")
    longest = max(len(target) for _, target in pairs) + 2
    found = answers(model, [source for source, _ in pairs], longest, batch)
    return sum(answer == list(target) for answer, (_, target) in zip(found, pairs, strict=True)) / len(pairs)
