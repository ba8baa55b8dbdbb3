"""A whole sentence squeezed into one vector: short ones fit, long ones do not, and attention ends the squeeze.

An encoder reads a row of symbols, a decoder writes it down again; both are GRUs. The plain one hands over its last
state alone, whatever the length (Sutskever et al., 2014; Cho et al., 2014). Look at the left picture: it writes short
rows without a fault, and the longer they are the more it forgets. A state of twice the size holds more, and forgets in
the same way later. With Bahdanau's additive attention (2015) the decoder looks back, for every symbol that it writes,
at the encoder's states of all symbols: as far as it was trained it hardly errs, and what it has to carry is where it
is, not what was there.

The right picture shows where it looked: a diagonal, the alignment of the two texts, which nobody told it.

    python examples/fixed_length_bottleneck.py        writes fixed_length_bottleneck.png
"""

from __future__ import annotations

import os

import numpy as np
from matplotlib import pyplot as plt

import tinygrad_tf as tg
from tinygrad_tf import nn
from tinygrad_tf.nn import functional as F

SMALL = bool(os.environ.get("TINYGRAD_TF_SMALL"))
SYMBOLS, START = 8, 8  # the id START stands before the first symbol that is written
LENGTHS = [4, 12] if SMALL else [2, 4, 6, 8, 10, 12, 14, 16, 20, 24]
STEPS, SHORTEST, LONGEST = (120, 12, 12) if SMALL else (900, 1, 16)  # in training


class Copier(nn.Module):
    """Encoder and decoder GRUs of `channels`; the decoder knows the encoder's last state and, with attention, all."""

    def __init__(self, attention: bool, channels: int = 32):
        super().__init__()
        self.embed = nn.Embedding(SYMBOLS + 1, channels)
        self.encoder = nn.GRU(channels, channels, batch_first=True)
        self.attention = nn.AdditiveAttention(channels) if attention else None
        inputs = 2 * channels if attention else channels
        self.decoder, self.read = nn.GRUCell(inputs, channels), nn.Linear(inputs, SYMBOLS)

    def forward(self, source: tg.Tensor, written: tg.Tensor) -> tuple[tg.Tensor, list[np.ndarray]]:
        """Source (B, S) and what has been written before each step (B, T) to logits (B, T, V) and T weights (B, S)."""
        states, last = self.encoder(self.embed(source))
        state, outputs, weights = last[0], [], []
        remembered = None if self.attention is None else self.attention.remember(states)
        for x in self.embed(written).unbind(1):
            if self.attention is None:
                state = self.decoder(x, state)
                outputs.append(state)
                continue
            context, seen = self.attention(state.unsqueeze(1), remembered, need_weights=True)
            state = self.decoder(tg.cat([x, context[:, 0]], -1), state)
            outputs.append(tg.cat([state, context[:, 0]], -1))
            weights.append(seen[:, 0, 0].detach().numpy())
        return self.read(tg.stack(outputs, 1)), weights


def behind_start(source: tg.Tensor) -> tg.Tensor:
    """What the decoder reads when it writes `source`: START and all but the last symbol (teacher forcing)."""
    return tg.cat([tg.full((source.shape[0], 1), START, dtype=tg.int64), source[:, :-1]], 1)


def train(attention: bool, channels: int = 32, steps: int = STEPS) -> Copier:
    """Trained on rows of SHORTEST ... LONGEST symbols."""
    tg.manual_seed(0)
    random = np.random.default_rng(0)
    model = Copier(attention, channels)
    optimizer = tg.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = 1e-2 * min(1.0, 2 * (1 - step / steps))
        source = tg.randint(0, SYMBOLS, (64, int(random.integers(SHORTEST, LONGEST + 1))))
        optimizer.zero_grad()
        F.cross_entropy(model(source, behind_start(source))[0].reshape(-1, SYMBOLS), source.reshape(-1)).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return model


def right(model: Copier, length: int) -> float:
    """The share of symbols of new rows that are written rightly."""
    tg.manual_seed(1)
    source = tg.randint(0, SYMBOLS, (200, length))
    with tg.no_grad():
        return float((model(source, behind_start(source))[0].argmax(-1) == source).float().mean().item())


def alignment(model: Copier, length: int) -> np.ndarray:
    """(T, S): where the decoder looks when it writes each symbol of one row."""
    tg.manual_seed(2)
    source = tg.randint(0, SYMBOLS, (1, length))
    with tg.no_grad():
        return np.concatenate(model(source, behind_start(source))[1])


def main() -> None:
    models = {"state of 32": train(False), "state of 32, attention": train(True)}
    if not SMALL:
        models["state of 64"] = train(False, 64)
    shares = {name: [right(model, length) for length in LENGTHS] for name, model in models.items()}
    for name, values in shares.items():
        each = ", ".join(f"{n}: {share:.0%}" for n, share in zip(LENGTHS, values, strict=True))
        print(f"{name:23s} symbols right by length: {each}")
    looks = alignment(models["state of 32, attention"], LONGEST)
    aligned = float(np.mean(looks.argmax(1) == np.arange(LONGEST)))
    print(f"with attention, {aligned:.0%} of the symbols of a row of {LONGEST} are looked up at their own place")

    figure, (left, right_) = plt.subplots(1, 2, figsize=(13, 4.6), layout="constrained", width_ratios=[1.5, 1])
    for name, values in shares.items():
        left.plot(LENGTHS, [100 * share for share in values], "o-", label=name)
    left.axvline(LONGEST, linestyle="--", color="gray", label="the longest in training")
    left.axhline(100 / SYMBOLS, linestyle=":", color="gray", label="guessing")
    left.set(title="symbols copied rightly, percent", xlabel="length of the row", ylim=(0, 103))
    left.legend()
    right_.imshow(looks, cmap="Blues", vmin=0, vmax=1)
    right_.set(title="where the decoder looks", xlabel="symbol read", ylabel="symbol written")
    figure.savefig("fixed_length_bottleneck.png", dpi=110)

    i = LENGTHS.index(LONGEST)
    assert shares["state of 32, attention"][i] - shares["state of 32"][i] > (0.1 if SMALL else 0.3)
    if not SMALL:
        assert min(values[0] for values in shares.values()) > 0.95
        assert shares["state of 32, attention"][i] > 0.9 and aligned > 0.7
        assert shares["state of 32"][i] < shares["state of 64"][i]


if __name__ == "__main__":
    main()
