"""BatchNorm makes a word's vector depend on the rest of the batch, and on its padding; LayerNorm does neither.

Two models that differ in their norm alone learn a walk (each symbol is followed by one of two others, drawn by a coin:
nobody gets below log(2) = 0.693) on batches of 1 to 32 texts of very different lengths, padded to the longest. Then
both are asked about long texts that they have not seen. Look at the left picture: in large batches the two are alike,
but the smaller the batch, the more BatchNorm loses: the averages over a few short texts that it learned with are not
those that it has to go by later. The right one: one and the same text, in a batch that is padded more and more.
BatchNorm's loss on it moves, LayerNorm's stays the same number.

    python examples/layer_or_batch_norm.py        writes layer_or_batch_norm.png
"""

from __future__ import annotations

import os

import numpy as np
from matplotlib import pyplot as plt

import tinygrad_tf as tg
from tinygrad_tf import nn
from tinygrad_tf.nn import functional as F

SYMBOLS, CHANNELS, LONGEST = 10, 32, 24
PAD, IGNORED = SYMBOLS, -100
SMALL = bool(os.environ.get("TINYGRAD_TF_SMALL"))
STEPS = 100 if SMALL else 150
BATCHES, SEEDS = ((1, 16), 2) if SMALL else ((1, 2, 4, 8, 32), 3)
NORMS = {"LayerNorm": "layer", "BatchNorm": "batch"}


class NextSymbol(nn.Module):
    def __init__(self, norm: str):
        super().__init__()
        self.embed, self.places = nn.Embedding(SYMBOLS + 1, CHANNELS), nn.LearnedPositions(LONGEST, CHANNELS)
        self.blocks = nn.ModuleList(nn.Block(CHANNELS, 4, norm=norm) for _ in range(2))
        self.norm, self.read = nn.make_norm(norm, CHANNELS), nn.Linear(CHANNELS, SYMBOLS)

    def loss(self, ids: np.ndarray, rows: int | None = None) -> tg.Tensor:
        """The mean over the real tokens of ids (B, T + 1), padded behind with PAD; or over those of the first rows."""
        seen, wanted = tg.tensor(ids[:, :-1]), np.where(ids[:, 1:] == PAD, IGNORED, ids[:, 1:])
        wanted[len(wanted) if rows is None else rows :] = IGNORED
        x, mask = self.places(self.embed(seen)), nn.padding_mask(seen, pad=PAD)
        for block in self.blocks:
            x = block(x, mask, is_causal=True)
        logits = self.read(self.norm(x)).reshape(-1, SYMBOLS)
        return F.cross_entropy(logits, tg.tensor(wanted.reshape(-1)), ignore_index=IGNORED)


def walks(lengths: np.ndarray, random: np.random.Generator, width: int = 0) -> np.ndarray:
    """A walk of each length, padded behind to the longest, or to `width`."""
    table = np.stack([np.random.default_rng(i).permutation(SYMBOLS)[:2] for i in range(SYMBOLS)])
    ids = np.full((len(lengths), max(width, *lengths)), PAD)
    for row, length in zip(ids, lengths, strict=True):
        row[0] = random.integers(SYMBOLS)
        for t in range(1, length):
            row[t] = table[row[t - 1], random.integers(2)]
    return ids


def ragged(count: int, random: np.random.Generator) -> np.ndarray:
    """Most texts have three or four symbols, and one in four is long."""
    long = random.random(count) < 0.25
    return walks(np.where(long, LONGEST, random.integers(3, 5, count)), random)


def train(norm: str, batch: int, steps: int = STEPS, seed: int = 0) -> NextSymbol:
    tg.manual_seed(seed)
    random = np.random.default_rng(seed)
    model = NextSymbol(norm)
    optimizer = tg.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(steps):
        loss = model.loss(ragged(batch, random))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


def held_out(model: NextSymbol) -> float:
    """The loss on 100 long texts, as at the time of use: norms of the batch take the averages that they noted."""
    model.eval()
    loss = model.loss(walks(np.full(100, LONGEST), np.random.default_rng(1000)))
    model.train()
    return float(loss.item())


def by_padding(model: NextSymbol, widths: range) -> list[float]:
    """The loss on the first of three short texts, padded to each width, in training."""
    return [float(model.loss(walks(np.array([4, 4, 4]), np.random.default_rng(7), w), rows=1).item()) for w in widths]


def draw(losses: dict[str, dict[int, float]], padded: dict[str, list[float]], widths: range) -> None:
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.2), layout="constrained")
    for name, by_batch in losses.items():
        left.semilogx(list(by_batch), list(by_batch.values()), "o-", label=name)
        right.plot(widths, padded[name], "o-", label=name)
    left.set_xticks(BATCHES, [str(batch) for batch in BATCHES])
    left.minorticks_off()
    left.axhline(np.log(2), linestyle=":", color="gray", label="the best possible")
    left.set(title="loss on new texts", xlabel="texts in a batch, in training", ylabel="nats a symbol")
    right.set(title="loss on one text of 4 symbols", xlabel="length that its batch is padded to")
    left.legend()
    right.legend()
    figure.savefig("layer_or_batch_norm.png", dpi=110)


def main() -> None:
    losses: dict[str, dict[int, float]] = {name: {} for name in NORMS}
    padded, widths = {}, range(4, LONGEST + 1, 4)
    for name, norm in NORMS.items():
        for batch in BATCHES:
            models = [train(norm, batch, seed=seed) for seed in range(SEEDS)]
            losses[name][batch] = float(np.mean([held_out(model) for model in models]))
            print(f"{name}, batches of {batch:2d}: loss on new texts {losses[name][batch]:.3f}, mean of {SEEDS} runs")
        padded[name] = by_padding(models[-1], widths)
        print(f"{name}, one text in a batch padded to {list(widths)}: loss {np.round(padded[name], 3).tolist()}")
    draw(losses, padded, widths)

    gap = {batch: losses["BatchNorm"][batch] - losses["LayerNorm"][batch] for batch in BATCHES}
    assert gap[BATCHES[0]] > 0.1 > abs(gap[BATCHES[-1]])
    assert np.ptp(padded["LayerNorm"]) < 1e-5 < 0.01 < np.ptp(padded["BatchNorm"])


if __name__ == "__main__":
    main()
