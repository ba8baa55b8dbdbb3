"""Attention that stays uniform has learned nothing: four causes that look the same, and what tells them apart.

A block has to say which symbol stood three places before. It learns that, and each row of its attention has one dark
place (the first table). In the four others the rows stay as even as they began. Each has another reason, and another
sign, in the numbers that are printed:

    the learning rate is too small     there is a gradient, but the weights hardly move: a larger one, or more steps
    queries and keys start at zero     the gradient of each is a multiple of the other: exactly 0, for ever
    data without a pattern             weights move, but the loss stays at log(symbols), that of knowing nothing. Here
                                       the answers are those of other texts: look at what goes into the model
    too many layers                    a gradient at the last block, and next to none at the first: x + f(x), norm

    python examples/uniform_attention.py        writes uniform_attention.png
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

SYMBOLS, LENGTH, CHANNELS, BACK, BATCH = 8, 12, 32, 3, 16
STEPS = 150 if os.environ.get("TINYGRAD_TF_SMALL") else 250


class Case(NamedTuple):
    rate: float = 3e-3
    zero: bool = False  # queries and keys start at zero
    shuffled: bool = False  # each text gets the answers of another one
    plain_layers: int = 0  # in place of the one block, so many without residuals and norms


class Result(NamedTuple):
    """What was noted of the first block's attention, but for the loss."""

    loss: float  # of the last 20 steps
    table: np.ndarray  # (T, T): its weights, the mean of 64 texts
    evenness: float  # of its rows: 1 is uniform, 0 is one key alone
    first: float  # the mean size of the gradient of its queries' weights
    last: float  # the same of all weights of the last block
    moved: float  # how far these weights came, in parts of their size


CASES = {
    "all is well": Case(),
    "learning rate too small": Case(rate=3e-6),
    "queries and keys start at zero": Case(zero=True),
    "data without a pattern": Case(shuffled=True),
    "too many layers": Case(plain_layers=8),
}


class Copier(nn.Module):
    def __init__(self, case: Case):
        super().__init__()
        self.embed, self.places = nn.Embedding(SYMBOLS, CHANNELS), nn.SinusoidalPositions(LENGTH, CHANNELS)
        self.plain = case.plain_layers > 0
        self.blocks = nn.ModuleList(nn.Block(CHANNELS, 1) for _ in range(max(case.plain_layers, 1)))
        self.read = nn.Linear(CHANNELS, SYMBOLS)
        if case.zero:
            for block in self.blocks:
                for layer in (block.attention.query_proj, block.attention.key_proj):
                    nn.init.zeros_(layer.weight)
                    nn.init.zeros_(layer.bias)

    def forward(self, ids: tg.Tensor) -> tg.Tensor:
        x = self.places(self.embed(ids))
        for block in self.blocks:
            x = block.feed_forward(block.attention(x, is_causal=True)) if self.plain else block(x, is_causal=True)
        return self.read(x)

    def weights(self, ids: tg.Tensor) -> np.ndarray:
        """(B, T, T) of the first block."""
        block, x = self.blocks[0], self.places(self.embed(ids))
        x = x if self.plain else block.norm1(x)
        return block.attention(x, is_causal=True, need_weights=True)[1][:, 0].detach().numpy()


def evenness(weights: np.ndarray) -> float:
    """The entropy of the rows of causal weights (B, T, T) as a share of the largest; of those that have an answer."""
    entropy = -(weights * np.log(weights + 1e-30)).sum(-1)[:, BACK:]
    return float((entropy / np.log(np.arange(BACK, LENGTH) + 1)).mean())


def size(weights: list[nn.Parameter]) -> float:
    """The size of the gradient of all of them together."""
    gradients = [weight.grad.numpy() for weight in weights if weight.grad is not None]
    return math.sqrt(sum(float((gradient**2).sum()) for gradient in gradients))


def train(case: Case, steps: int = STEPS, seed: int = 0) -> Result:
    tg.manual_seed(seed)
    model = Copier(case)
    optimizer = tg.optim.Adam(model.parameters(), lr=case.rate)
    first, last = [model.blocks[0].attention.query_proj.weight], list(model.blocks[-1].parameters())
    start, notes = first[0].detach().numpy().copy(), []
    for _ in range(steps):
        ids = tg.randint(0, SYMBOLS, (BATCH, LENGTH))
        answers = ids[tg.randperm(BATCH)] if case.shuffled else ids
        loss = F.cross_entropy(model(ids)[:, BACK:].reshape(-1, SYMBOLS), answers[:, :-BACK].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        notes.append((loss.item(), size(first), size(last)))
    weights = model.weights(tg.randint(0, SYMBOLS, (64, LENGTH)))
    moved = np.linalg.norm(first[0].detach().numpy() - start) / (np.linalg.norm(start) or 1.0)
    losses, of_first, of_last = np.array(notes).T
    loss, sizes = losses[-20:].mean(), (of_first.mean(), of_last.mean())
    return Result(float(loss), weights.mean(0), evenness(weights), *map(float, sizes), float(moved))


def draw(results: dict[str, Result]) -> None:
    figure, axes = plt.subplots(1, len(results), figsize=(17, 3.9), layout="constrained")
    for ax, (name, result) in zip(axes, results.items(), strict=True):
        ax.imshow(result.table, cmap="Blues", vmin=0, vmax=1)
        ax.set(title=f"{name}\nevenness {result.evenness:.2f}", xlabel="key", ylabel="query")
    figure.savefig("uniform_attention.png", dpi=100)


def main() -> None:
    results = {name: train(case) for name, case in CASES.items()}
    print(f"loss of who knows nothing: log({SYMBOLS}) = {math.log(SYMBOLS):.3f}")
    print(f"{'':31s}    loss  evenness  gradient: queries, last block    moved")
    for name, r in results.items():
        print(f"{name:31s} {r.loss:7.3f} {r.evenness:9.3f} {r.first:15.1e} {r.last:13.1e} {r.moved:10.1%}")
    draw(results)

    well, slow, zero, shuffled, deep = results.values()
    assert well.evenness < 0.8 and well.loss < 1.0 and min(r.evenness for r in (slow, zero, shuffled, deep)) > 0.9
    assert slow.first > 1e-3 and slow.moved < 0.02
    assert zero.first == zero.moved == 0.0
    assert shuffled.moved > 0.1 and abs(shuffled.loss - math.log(SYMBOLS)) < 0.1
    assert deep.first < 1e-6 * deep.last


if __name__ == "__main__":
    main()
