"""Attention does not see order: "dog bites man" and "man bites dog" give the same vectors, until positions are added.

Look at the first picture: one row a position, fast channels on the left, slow ones on the right, no two rows equal. The
second is how alike two positions are (their dot product): it depends on their distance alone, because PE(pos + k) is a
rotation of PE(pos). Plain numbers 0, 1, 2, ... fail in two ways, in the third: they outgrow the words, and the product
of two neighbours changes along the text. (Divided by the length, a step would have another size in every text.)

Four models are trained to reverse a sequence. Without positions none of it can be known. Added or concatenated, it is
learned; added takes fewer parameters, as nothing grows wider. With plain numbers, added along one direction that is
learned, it is not: the score of a key is then a straight line in its number, which is highest at an end of the text,
never in the middle.

    python examples/positions.py        writes positions.png
"""

from __future__ import annotations

import os

import numpy as np
from matplotlib import pyplot as plt

import tinygrad_tf as tg
from tinygrad_tf import nn
from tinygrad_tf.nn import functional as F

STEPS = 150 if os.environ.get("TINYGRAD_TF_SMALL") else 400


def change_of_order(positions: bool, channels: int = 16) -> float:
    """How far the vectors of "man bites dog" are from those of "dog bites man", word by word."""
    tg.manual_seed(0)
    attention, table = nn.MultiHeadAttention(channels, 2), nn.SinusoidalPositions(3, channels)
    words, order = tg.randn(1, 3, channels), [2, 1, 0]
    one, other = (attention(table(x) if positions else x) for x in (words, words[:, order]))
    return float((one[:, order] - other).abs().max().item())


class Reverser(nn.Module):
    """A layer of attention, asked for its input backwards. positions: 'added', 'concatenated', 'numbers' or 'none'."""

    def __init__(self, positions: str, symbols: int = 6, length: int = 8, channels: int = 32):
        super().__init__()
        self.positions = positions
        self.embed = nn.Embedding(symbols, channels)
        self.table = tg.tensor(nn.sinusoidal_table(length, channels), dtype=tg.float32)
        width = 2 * channels if positions == "concatenated" else channels
        self.direction = nn.Linear(1, channels, bias=False) if positions == "numbers" else None
        self.attention, self.read = nn.MultiHeadAttention(width, 4), nn.Linear(width, symbols)

    def forward(self, ids: tg.Tensor) -> tg.Tensor:
        x = self.embed(ids)
        if self.positions == "added":
            x = x + self.table
        if self.positions == "concatenated":
            x = tg.cat([x, self.table.expand(*x.shape)], -1)
        if self.direction is not None:
            x = x + self.direction(tg.arange(ids.shape[1]).float().unsqueeze(1))
        return self.read(self.attention(x))


def learn_to_reverse(positions: str, steps: int = STEPS) -> tuple[float, int]:
    """The share of right symbols after training, and how many numbers were trained."""
    tg.manual_seed(0)
    model = Reverser(positions)
    optimizer = tg.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(steps + 1):
        ids = tg.randint(0, 6, (32, 8))
        logits = model(ids)
        optimizer.zero_grad()
        F.cross_entropy(logits.reshape(-1, 6), ids.flip(1).reshape(-1)).backward()
        optimizer.step()
    right = (logits.argmax(-1) == ids.flip(1)).float().mean().item()
    return float(right), sum(p.numel() for p in model.parameters())


def draw(table: np.ndarray) -> None:
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(15, 4.2), layout="constrained")
    left.imshow(table[:100], cmap="RdBu", aspect="auto", interpolation="nearest")
    left.set(title="the table", xlabel="channel", ylabel="position")
    middle.imshow(table[:100] @ table[:100].T, cmap="viridis")
    middle.set(title="how alike two positions are", xlabel="position", ylabel="position")
    places = np.arange(100)
    right.plot(places, np.linalg.norm(table[:100], axis=1), label="sinusoidal: length of the vector")
    right.plot(places, places, label="plain numbers: their size")
    right.axhline(64**0.5, linestyle="--", color="gray", label="a word of 64 channels")
    right.set(title="beside the words that they are added to", xlabel="position")
    right.legend()
    figure.savefig("positions.png", dpi=110)


def main() -> None:
    without, with_ = change_of_order(False), change_of_order(True)
    print(f"dog bites man, man bites dog: vectors differ by {without:.1e} without positions, by {with_:.2f} with them")
    table = nn.sinusoidal_table(512, 64)
    apart = np.linalg.norm(table[:, None] - table, axis=-1)[~np.eye(512, dtype=bool)]
    print(f"512 positions: two of them are at least {apart.min():.2f} apart")
    waves = 2 * np.pi * 10000 ** (np.arange(0, 64, 2) / 64)
    print(f"the fastest channels come round after {waves[0]:.1f} positions, the slowest after {waves[-1]:,.0f}")
    errors = {k: float(np.abs(table[:-k] @ nn.rotation(k, 64).T - table[k:]).max()) for k in (1, 7, 100)}
    print("PE(pos + k) = R_k PE(pos), largest error: " + ", ".join(f"k = {k}: {e:.0e}" for k, e in errors.items()))
    neighbours = (table[:-1] * table[1:]).sum(-1)
    print(
        f"product of neighbours: {neighbours.min():.3f} to {neighbours.max():.3f}; of plain numbers: 0 to {510 * 511:,}"
    )
    draw(table)
    learned = {positions: learn_to_reverse(positions) for positions in ("none", "added", "concatenated", "numbers")}
    for positions, (right, parameters) in learned.items():
        print(f"reversing with positions {positions:12s} {right:4.0%} right, {parameters:,} parameters")

    assert without < 1e-6 < 0.01 < with_
    assert apart.min() > 0.1 and max(errors.values()) < 1e-10
    assert np.ptp(neighbours) < 1e-9
    assert learned["none"][0] < 0.6 and learned["numbers"][0] < 0.75
    assert min(learned["added"][0], learned["concatenated"][0]) > 0.95
    assert learned["added"][1] < learned["concatenated"][1]


if __name__ == "__main__":
    main()
