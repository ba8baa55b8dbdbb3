"""Without warmup a deep post-norm stack stays where it began; pre-norm does not need it.

The task is a walk: each of 10 symbols is followed by one of two others, drawn by a coin, so that nobody gets below
log(2) = 0.693 nats a symbol. Three stacks of 10 blocks learn it with the same Adam, learning rate and data. Look at the
curves: with pre-norm, x + f(norm(x)), the loss falls at once. With post-norm, norm(x + f(x)), as the original paper has
it, it stops at what can be said without looking at the text at all (the dashed line): within ten steps of full size the
stack has become blind. Its vectors are the same at all positions (the middle picture: how much they differ), and hardly
any gradient comes back to the first block (the right one). The same stack learns when the learning rate rises slowly
from 0 (Vaswani et al., 2017, section 5.3; Xiong et al., 2020, section 3).

    python examples/warmup.py        writes warmup.png
"""

from __future__ import annotations

import math
import os
from typing import NamedTuple

import numpy as np
from matplotlib import pyplot as plt

import tinygrad_tf as tg
from tinygrad_tf import nn
from tinygrad_tf.nn import functional as F
from tinygrad_tf.optim.lr_scheduler import LambdaLR

SYMBOLS, LENGTH, CHANNELS, LAYERS, BATCH = 10, 16, 32, 10, 8
STEPS, WARMUP = (110, 80) if os.environ.get("TINYGRAD_TF_SMALL") else (300, 100)
RATE = 3e-3


class Run(NamedTuple):
    """What was noted at each step."""

    losses: np.ndarray
    spreads: np.ndarray  # how far the vectors that the last block gives differ from each other
    gradients: np.ndarray  # the size of that of the first block's feed-forward weights


class Stack(nn.Module):
    """A decoder whose matrices start by Xavier's rule, as in the paper's code."""

    def __init__(self, norm_first: bool, layers: int = LAYERS):
        super().__init__()
        self.embed, self.places = nn.Embedding(SYMBOLS, CHANNELS), nn.LearnedPositions(LENGTH, CHANNELS)
        self.blocks = nn.ModuleList(
            nn.Block(CHANNELS, 4, activation="relu", norm_first=norm_first) for _ in range(layers)
        )
        self.norm = nn.LayerNorm(CHANNELS) if norm_first else nn.Identity()
        self.read = nn.Linear(CHANNELS, SYMBOLS)
        for matrix in (p for p in self.blocks.parameters() if p.ndim == 2):
            nn.init.xavier_uniform_(matrix)

    def vectors(self, ids: tg.Tensor) -> tg.Tensor:
        x = self.places(self.embed(ids))
        for block in self.blocks:
            x = block(x, is_causal=True)
        return self.norm(x)


def followers() -> np.ndarray:
    """(SYMBOLS, 2): the two different symbols that may follow each."""
    random = np.random.default_rng(9)
    return np.stack([random.permutation(SYMBOLS)[:2] for _ in range(SYMBOLS)])


def walks(count: int, random: np.random.Generator) -> np.ndarray:
    """(count, LENGTH + 1) symbols of walks that start anywhere."""
    ids, table = np.empty((count, LENGTH + 1), np.int64), followers()
    ids[:, 0] = random.integers(0, SYMBOLS, count)
    for t in range(LENGTH):
        ids[:, t + 1] = table[ids[:, t], random.integers(0, 2, count)]
    return ids


def blind() -> float:
    """The loss of who knows how often each symbol occurs, and does not look at the text: its entropy."""
    counts = np.bincount(walks(20_000, np.random.default_rng(1))[:, 1:].ravel(), minlength=SYMBOLS)
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log(shares)).sum())


def train(norm_first: bool, warmup: int, steps: int = STEPS, seed: int = 0) -> Run:
    tg.manual_seed(seed)
    random = np.random.default_rng(seed)
    model = Stack(norm_first)
    optimizer = tg.optim.Adam(model.parameters(), lr=RATE)
    schedule = LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / warmup) if warmup else 1.0)
    watched, notes = model.blocks[0].feed_forward.down.weight, []
    for _ in range(steps):
        ids = tg.tensor(walks(BATCH, random))
        vectors = model.vectors(ids[:, :-1]).reshape(-1, CHANNELS)
        loss = F.cross_entropy(model.read(vectors), ids[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        spread = vectors.detach().numpy().std(0).mean()
        notes.append((loss.item(), float(spread), float(np.linalg.norm(watched.grad.numpy()))))
    return Run(*np.array(notes).T)


def smooth(values: np.ndarray, width: int = 8) -> np.ndarray:
    return np.convolve(values, np.full(width, 1 / width), "valid")


def draw(runs: dict[str, Run]) -> None:
    figure, axes = plt.subplots(1, 3, figsize=(15, 4.2), layout="constrained")
    for name, run in runs.items():
        for ax, values in zip(axes, run, strict=True):
            ax.plot(smooth(values), label=name)
    axes[0].axhline(blind(), linestyle="--", color="gray", label="without looking at the text")
    axes[0].axhline(math.log(2), linestyle=":", color="gray", label="the best possible")
    axes[0].set(title=f"loss of {LAYERS} blocks", ylabel="nats a symbol", ylim=(0, 3))
    axes[1].set(title="how much the last block's vectors differ", yscale="log")
    axes[2].set(title="gradient of the first block's weights", yscale="log")
    for ax in axes:
        ax.set(xlabel="step")
        ax.legend()
    figure.savefig("warmup.png", dpi=110)


def main() -> None:
    ways = {"pre-norm, no warmup": (True, 0), "post-norm, no warmup": (False, 0), "post-norm, warmup": (False, WARMUP)}
    runs = {name: train(*way) for name, way in ways.items()}
    print(f"the best possible loss is {math.log(2):.3f}, without looking at the text {blind():.3f}")
    last = {name: Run(*(float(values[-20:].mean()) for values in run)) for name, run in runs.items()}
    for name, (loss, spread, gradient) in last.items():
        print(f"{name:21s} loss {loss:.3f}; vectors differ by {spread:.1e}; first block's gradient {gradient:.1e}")
    draw(runs)

    pre, bare, warm = last.values()
    assert pre.losses < 0.85 and warm.losses < 1.5
    assert bare.losses > blind() - 0.2 and bare.spreads < 0.05 < 0.2 < min(pre.spreads, warm.spreads)
    assert bare.gradients < 0.1 * min(pre.gradients, warm.gradients)


if __name__ == "__main__":
    main()
