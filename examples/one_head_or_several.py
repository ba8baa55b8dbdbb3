"""One head gives one average; whoever needs four symbols, each in its place, needs four heads.

Eight symbols stand in a row, and every position is asked for the ones before it: the last, the one before that, and so
on. Models with 1, 2 and 4 heads have equally many parameters: heads are the same channels, cut into pieces. Look at the
left picture: all is right where there are as many heads as questions. One head with four questions looks at all four
symbols at once and learns what was there, but not where: knowing four symbols without their order, the best guess is
right in 41 % of the cases. In the middle, where each head looks (one head for four questions, then four heads). At the
right, what a feed-forward network behind attention changes: the shares of an average are unequal, and it can use that.
Heads are the simple way, not the only one.

More heads do no good without end: each has fewer channels. The table ends with 32 heads of one channel.

    python examples/one_head_or_several.py        writes one_head_or_several.png
"""

from __future__ import annotations

import os

import numpy as np
from matplotlib import pyplot as plt

import tinygrad_tf as tg
from tinygrad_tf import nn
from tinygrad_tf.nn import functional as F

SMALL = bool(os.environ.get("TINYGRAD_TF_SMALL"))
SYMBOLS, LENGTH, CHANNELS = 8, 12, 32
STEPS = 200 if SMALL else 500
COUNTS = [1, 4] if SMALL else [1, 2, 4]  # of heads, and of questions
OTHERS = [] if SMALL else [8, 16, 32]  # more heads, for four questions


class Asked(nn.Module):
    """One attention layer that is asked, at each position, for the `questions` symbols before it, round the end."""

    def __init__(self, heads: int, questions: int, feed_forward: bool = False):
        super().__init__()
        self.embed, self.places = nn.Embedding(SYMBOLS, CHANNELS), nn.Embedding(LENGTH, CHANNELS)
        self.attention = nn.MultiHeadAttention(CHANNELS, heads)
        self.feed_forward = nn.FeedForward(CHANNELS) if feed_forward else None
        self.read = nn.Linear(CHANNELS, questions * SYMBOLS)

    def forward(self, ids: tg.Tensor) -> tg.Tensor:
        x = self.attention(self.vectors(ids))
        if self.feed_forward is not None:
            x = x + self.feed_forward(x)
        return self.read(x).reshape(*ids.shape, -1, SYMBOLS)

    def vectors(self, ids: tg.Tensor) -> tg.Tensor:
        return self.embed(ids) + self.places(tg.arange(LENGTH))

    def weights(self, ids: tg.Tensor) -> np.ndarray:
        """(H, T, T): where each head looks, the mean over the texts of ids."""
        return self.attention(self.vectors(ids), need_weights=True)[1].detach().numpy().mean(0)


def answers(ids: tg.Tensor, questions: int) -> tg.Tensor:
    """(B, T, questions): the symbol before each position, the one before that, ...; the row is closed to a ring."""
    return tg.stack([ids.roll(k, 1) for k in range(1, questions + 1)], -1)


def train(heads: int, questions: int, feed_forward: bool = False, steps: int = STEPS) -> tuple[Asked, float]:
    """A trained model, and its share of right answers to new texts."""
    tg.manual_seed(0)
    model = Asked(heads, questions, feed_forward)
    optimizer = tg.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(steps):
        ids = tg.randint(0, SYMBOLS, (32, LENGTH))
        wanted = answers(ids, questions)
        optimizer.zero_grad()
        F.cross_entropy(model(ids).reshape(-1, SYMBOLS), wanted.reshape(-1)).backward()
        optimizer.step()
    ids = tg.randint(0, SYMBOLS, (256, LENGTH))
    return model, float((model(ids).argmax(-1) == answers(ids, questions)).float().mean().item())


def best_without_order(symbols: int = SYMBOLS, drawn: int = 4, texts: int = 20_000) -> float:
    """How often the commonest of `drawn` symbols is right for one of them: the best guess without their order."""
    rows = np.random.default_rng(0).integers(0, symbols, (texts, drawn))
    return float(np.mean([np.bincount(row).max() / drawn for row in rows]))


def draw(table: np.ndarray, looks: dict[str, np.ndarray], bars: dict[str, float]) -> None:
    figure, axes = plt.subplots(1, 3, figsize=(14, 4.2), layout="constrained", width_ratios=[1, 1.6, 1])
    axes[0].imshow(table, cmap="viridis", vmin=0, vmax=1)
    for (i, j), share in np.ndenumerate(table):
        axes[0].text(j, i, f"{share:.0%}", ha="center", va="center", color="white" if share < 0.7 else "black")
    axes[0].set(title="right answers", xlabel="questions", ylabel="heads")
    axes[0].set_xticks(range(len(COUNTS)), COUNTS)
    axes[0].set_yticks(range(len(COUNTS)), COUNTS)
    pieces = [head for heads in looks.values() for head in (*heads, np.full((LENGTH, 1), np.nan))][:-1]
    gap = np.full((LENGTH, 1), np.nan)
    axes[1].imshow(np.hstack([part for piece in pieces for part in (piece, gap)]), cmap="Blues", vmin=0, vmax=1)
    axes[1].set(title="where heads look: " + ", then ".join(looks), xticks=[], ylabel="position that asks")
    axes[2].bar_label(axes[2].barh(list(bars), [100 * share for share in bars.values()]), fmt="%.0f %%", padding=2)
    axes[2].invert_yaxis()
    axes[2].set(title="four questions, right answers, percent", xlim=(0, 125))
    figure.savefig("one_head_or_several.png", dpi=110)


def main() -> None:
    models = {(heads, questions): train(heads, questions) for heads in COUNTS for questions in COUNTS}
    table = np.array([[models[heads, questions][1] for questions in COUNTS] for heads in COUNTS])
    for heads, shares in zip(COUNTS, table, strict=True):
        each = ", ".join(f"{questions}: {share:.0%}" for questions, share in zip(COUNTS, shares, strict=True))
        print(f"{heads:2d} heads, right answers by number of questions: {each}")
    bars = {f"{heads} heads" if heads > 1 else "1 head": models[heads, 4][1] for heads in COUNTS}
    bars |= {f"{heads} heads of {CHANNELS // heads}": train(heads, 4)[1] for heads in OTHERS}
    bars["1 head, feed-forward"] = train(1, 4, feed_forward=True)[1]
    for name, share in bars.items():
        print(f"four questions, {name:22s} {share:.0%} right")
    limit, sizes = best_without_order(), {sum(p.numel() for p in models[h, 4][0].parameters()) for h in COUNTS}
    print(f"the best without order: {limit:.0%}; parameters of the models for four questions: {sizes}")
    ids = tg.randint(0, SYMBOLS, (64, LENGTH))
    looks = {"one for four questions": models[1, 4][0].weights(ids), "four": models[4, 4][0].weights(ids)}
    draw(table, looks, bars)

    enough = np.array([[heads >= questions for questions in COUNTS] for heads in COUNTS])
    assert table[enough].min() > 0.95 and table[0, -1] < limit + 0.05
    assert table[0, -1] + 0.1 < bars["1 head, feed-forward"] and len(sizes) == 1
    sharpest = looks["four"].max(-1).mean(-1)  # of each head; one that serves all spreads over four
    assert sharpest.min() > 0.6 > looks["one for four questions"].max(-1).mean()


if __name__ == "__main__":
    main()
