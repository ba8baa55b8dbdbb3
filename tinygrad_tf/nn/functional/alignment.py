"""The loss of a sequence without an alignment: the probability of all ways to spread a text over longer frames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tinygrad_tf.engine import make
from tinygrad_tf.nn.functional._reduction import reduced
from tinygrad_tf.ops._places import check_range
from tinygrad_tf.ops._precision import raised
from tinygrad_tf.ops.elementwise import where
from tinygrad_tf.ops.shape import cat, stack
from tinygrad_tf.tensor import Tensor

IMPOSSIBLE = -1e30  # the logarithm of a probability of 0, with differences that are numbers


def _counts(name: str, lengths: Any, batch: int, most: int) -> np.ndarray:
    """Lengths, given as a tensor or a list, as an array of `batch` integers."""
    found = np.asarray(lengths.array if isinstance(lengths, Tensor) else lengths).reshape(-1)
    if found.shape != (batch,) or found.dtype.kind not in "iu":
        raise RuntimeError(f"ctc_loss: {name} must be {batch} integers, got {found.tolist()!s:.60}")
    if found.min(initial=0) < 0 or found.max(initial=0) > most:
        raise RuntimeError(f"ctc_loss: {name} must be from 0 to {most}, got {found.tolist()!s:.60}")
    return found


def _labels(targets: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Targets (N, S), from those of one axis that hold one text behind the other."""
    if targets.ndim == 2:
        return targets
    rows = np.zeros((len(lengths), int(lengths.max(initial=0))), targets.dtype)
    for row, text in zip(rows, np.split(targets[: lengths.sum()], np.cumsum(lengths)[:-1]), strict=True):
        row[: len(text)] = text
    return rows


@raised
def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor | Sequence[int],
    target_lengths: Tensor | Sequence[int],
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """-log of the probability that frames spell a text, each letter once or more, with blanks between or not.

    log_probs (T, N, C), as of log_softmax, or (T, C); targets (N, S), or all texts in one axis. "mean": each loss is
    divided by its text's length first. A text that does not fit has the loss inf, or 0 with zero_infinity=True; its
    gradient is 0. Graves et al. (2006), equations 6 to 8.

    >>> import tinygrad_tf as tg
    >>> frames = tg.tensor([[0.5, 0.5], [0.5, 0.5]]).log()  # of a blank and a letter
    >>> ctc_loss(frames, tg.tensor([1]), [2], [1]).exp()  # 1 / 0.75: "-1", "1-" or "11"
    tensor(1.3333)
    """
    batched = log_probs.ndim == 3
    if log_probs.ndim not in (2, 3) or targets.ndim not in (1, 2):
        shapes = f"got {tuple(log_probs.shape)} and {tuple(targets.shape)}"
        raise RuntimeError(f"ctc_loss: log_probs must be (T, N, C) or (T, C), targets (N, S) or in one axis, {shapes}")
    frames = log_probs if batched else log_probs.unsqueeze(1)
    steps, batch, classes = frames.shape
    most = targets.array.shape[-1] if targets.ndim == 2 or not batched else targets.numel()
    inputs = _counts("input_lengths", input_lengths, batch, steps)
    lengths = _counts("target_lengths", target_lengths, batch, most)
    if batched and targets.ndim == 1 and lengths.sum() != most:
        raise RuntimeError(f"ctc_loss: target_lengths must add up to the {most} targets, got {lengths.tolist()!s:.60}")
    ids = _labels(targets.array, lengths)
    if not 0 <= blank < classes:
        raise RuntimeError(f"ctc_loss: blank must be from 0 to {classes - 1}, got {blank}")
    check_range("ctc_loss: targets", ids, classes, 2)
    exact = frames if frames.array.dtype.itemsize > 2 else frames.float()  # half precision has no IMPOSSIBLE
    ways = _ways(exact, ids, inputs, lengths, blank)
    possible = make(ways.array > IMPOSSIBLE / 2)
    losses = where(possible, -ways, 0.0 if zero_infinity else float("inf"))
    if reduction == "mean":
        losses = losses / make(np.maximum(lengths, 1).astype(losses.dtype))
    return reduced("ctc_loss", losses if batched else losses.squeeze(0), reduction).to(log_probs.dtype)


def _ways(frames: Tensor, ids: np.ndarray, inputs: np.ndarray, lengths: np.ndarray, blank: int) -> Tensor:
    """The logarithm of the summed probabilities of all ways, (N,): forward variables, one frame after the other.

    A way walks over the text with a blank before, between and behind the letters; from a letter it may skip the blank
    if the next letter is another one.
    """
    batch, size = len(ids), 2 * ids.shape[1] + 1
    letters = np.full((batch, size), blank, np.int64)
    letters[:, 1::2] = ids
    skips = np.zeros((batch, size), bool)
    skips[:, 2:] = (letters[:, 2:] != blank) & (letters[:, 2:] != letters[:, :-2])
    scores = frames.gather(2, make(np.broadcast_to(letters, (len(frames), batch, size)).copy()))
    wall = make(np.full((batch, 2), IMPOSSIBLE, frames.array.dtype))
    begin, skip = make(np.arange(size) < 2), make(skips)
    ways = where(begin, scores[0], IMPOSSIBLE) if len(frames) else wall[:, :1].expand(batch, size)
    for t in range(1, len(frames)):
        behind = cat([wall, ways], 1)
        before = stack([ways, behind[:, 1:-1], where(skip, behind[:, :-2], IMPOSSIBLE)])
        later = before.logsumexp(0) + scores[t]
        ways = where(make(t < inputs[:, None]), later, ways)
    ends = 2 * lengths[:, None] - np.array([0, 1])
    last = ways.gather(1, make(np.maximum(ends, 0)))
    empty = make(inputs[:, None] == 0)  # no frame: all of an empty text, nothing of another
    last = where(make(ends < 0), IMPOSSIBLE, where(empty, where(make(lengths[:, None] == 0), 0.0, IMPOSSIBLE), last))
    return last.logsumexp(1)
