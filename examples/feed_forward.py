"""Attention fetches, the feed-forward network computes: a rule about two words is learned by its width.

The task is a table of 32 x 32 random answers: at each place, say what belongs to this symbol and the one before. To
fetch the symbol before is attention's work; the best that can be said by adding up something for each of the two is the
dashed line. Look at the left picture: the loss after the same training against the inner width of the network, with 0
for none at all. The wider, the more of the table it holds (Geva et al., 2021, read it as a memory of keys and values).
The right one spreads the same network over two or four blocks: much the same. Three blocks of attention alone, which
have as many weights as the one with its network, are far behind.

The network works at each position by itself: another word changes no vector but its own (the last line).

    python examples/feed_forward.py        writes feed_forward.png
"""

from __future__ import annotations

import math
import os
from itertools import pairwise

import numpy as np
from matplotlib import pyplot as plt

import tinygrad_tf as tg
from tinygrad_tf import nn
from tinygrad_tf.nn import functional as F

SMALL = bool(os.environ.get("TINYGRAD_TF_SMALL"))
LENGTH, CHANNELS, BATCH = 9, 32, 32
SYMBOLS, STEPS = (20, 180) if SMALL else (32, 300)
WIDTHS = (0, 128) if SMALL else (0, 4, 16, 64, 128, 256)
STACKS = ((1, 128), (2, 0)) if SMALL else ((1, 128), (2, 64), (4, 32), (3, 0))  # blocks, and the inner width of each
ANSWERS = np.random.default_rng(5).integers(0, SYMBOLS, (SYMBOLS, SYMBOLS))


class Lookup(nn.Module):
    """Blocks with a feed-forward network of the given inner width, or with attention alone (0)."""

    def __init__(self, blocks: int, width: int):
        super().__init__()
        self.embed, self.places = nn.Embedding(SYMBOLS, CHANNELS), nn.SinusoidalPositions(LENGTH, CHANNELS)
        self.blocks = nn.ModuleList(nn.Block(CHANNELS, 2, width or 1) for _ in range(blocks))
        self.norm, self.read = nn.LayerNorm(CHANNELS), nn.Linear(CHANNELS, SYMBOLS)
        self.width = width

    def in_use(self) -> list[nn.Parameter]:
        """The blocks' weights, without those of networks that are left out."""
        named = self.blocks.named_parameters()
        return [p for name, p in named if self.width or "attention" in name or "norm1" in name]

    def forward(self, ids: tg.Tensor) -> tg.Tensor:
        x = self.places(self.embed(ids))
        for block in self.blocks:
            x = block(x, is_causal=True) if self.width else x + block.attention(block.norm1(x), is_causal=True)
        return self.read(self.norm(x))[:, 1:]


def best_sum() -> float:
    """The loss of the best logits of the form a[this] + b[before], found by gradient descent."""
    wanted = np.eye(SYMBOLS)[ANSWERS]
    a, b = np.zeros((SYMBOLS, SYMBOLS)), np.zeros((SYMBOLS, SYMBOLS))
    for _ in range(1000):
        logits = a[:, None] + b
        p = np.exp(logits - logits.max(-1, keepdims=True))
        p /= p.sum(-1, keepdims=True)
        a -= (p - wanted).mean(1) * 4
        b -= (p - wanted).mean(0) * 4
    return float(-np.log(np.take_along_axis(p, ANSWERS[..., None], -1)).mean())


def train(blocks: int, width: int, steps: int = STEPS, seed: int = 0) -> float:
    """The loss of the last 20 steps."""
    tg.manual_seed(seed)
    model = Lookup(blocks, width)
    optimizer = tg.optim.Adam(model.parameters(), lr=5e-3)
    losses = []
    for _ in range(steps):
        ids = tg.randint(0, SYMBOLS, (BATCH, LENGTH))
        numbers = ids.numpy()
        answers = tg.tensor(ANSWERS[numbers[:, 1:], numbers[:, :-1]])
        loss = F.cross_entropy(model(ids).reshape(-1, SYMBOLS), answers.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return float(np.mean(losses[-20:]))


def change_elsewhere() -> float:
    """The largest change of the other positions' vectors when one position's input to the network changes."""
    tg.manual_seed(0)
    network, x = nn.FeedForward(CHANNELS), tg.randn(1, LENGTH, CHANNELS)
    changed = x.clone()
    changed[:, 4] = changed[:, 4] + 1.0
    difference = (network(changed) - network(x)).abs().amax(-1)[0].tolist()
    return max(size for t, size in enumerate(difference) if t != 4)


def draw(by_width: dict[int, float], by_stack: dict[str, float]) -> None:
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.2), layout="constrained")
    left.plot(range(len(by_width)), list(by_width.values()), "o-")
    left.set_xticks(range(len(by_width)), [str(width) for width in by_width])
    left.set(title="one block: loss by the network's inner width", xlabel="inner width", ylabel="nats a symbol")
    bars = right.barh(list(by_stack), list(by_stack.values()))
    right.bar_label(bars, fmt="%.2f", padding=3)
    right.invert_yaxis()
    right.set(
        title="loss: one wide network, several narrow ones, none",
        xlabel="nats a symbol",
        xlim=(0, 1.1 * math.log(SYMBOLS)),
    )
    left.axhline(best_sum(), linestyle="--", color="gray", label="the best sum")
    left.axhline(math.log(SYMBOLS), linestyle=":", color="gray", label="without looking")
    left.legend()
    figure.savefig("feed_forward.png", dpi=110)


def main() -> None:
    print(f"without looking the loss is log({SYMBOLS}) = {math.log(SYMBOLS):.2f}, of the best sum {best_sum():.2f}")
    by_width = {width: train(1, width) for width in WIDTHS}
    for width, loss in by_width.items():
        print(f"one block, inner width {width:3d}: loss {loss:.2f}")
    by_stack = {}
    for blocks, width in STACKS:
        weights = sum(p.numel() for p in Lookup(blocks, width).in_use())
        name = f"{blocks} of width {width}" if width else f"{blocks} of attention alone"
        by_stack[name] = by_width[width] if blocks == 1 else train(blocks, width)
        print(f"{name:22s} {weights:6,} weights in the blocks: loss {by_stack[name]:.2f}")
    print(f"another word at one place changes the network's vectors elsewhere by {change_elsewhere():.1f}")
    draw(by_width, by_stack)

    assert by_width[0] > best_sum() - 0.4 and by_width[128] < by_width[0] - 0.5
    losses = list(by_width.values())
    assert all(wider < narrower + 0.15 for narrower, wider in pairwise(losses))
    wide, *_, alone = by_stack.values()
    assert wide < alone - 0.3
    assert change_elsewhere() == 0.0


if __name__ == "__main__":
    main()
