"""How far back a gradient reaches: through a recurrent layer it fades with every step, attention takes one step.

Look at the left picture: the gradient of the last output with respect to the input k steps before it, in fresh layers.
In an RNN it is multiplied by the same matrix at every step, so that it vanishes (PyTorch's usual weights), or explodes
(weights twice as large as those of a rotation), but does not stay (Bengio et al., 1994; Pascanu et al., 2013). An LSTM
carries its memory by addition, times a forget gate: with a gate at 1/2, as it starts, it fades as well; with the bias
of the gate set to 3 it reaches far. Attention is as far from the first word as from the last.

The right one shows what follows. Layers are trained to repeat, at the end of a row, the symbol at its start: with equal
training the RNN manages a few steps, the LSTM some dozens, attention all.

    python examples/gradient_reach.py        writes gradient_reach.png
"""

from __future__ import annotations

import os

import numpy as np
from matplotlib import pyplot as plt

import tinygrad_tf as tg
from tinygrad_tf import nn
from tinygrad_tf.nn import functional as F

SMALL = bool(os.environ.get("TINYGRAD_TF_SMALL"))
CHANNELS, LENGTH, SYMBOLS = 32, 128, 4
STEPS, DISTANCES = (60, [3, 15]) if SMALL else (300, [4, 9, 19, 39, 79])
KINDS = ["RNN", "LSTM", "attention"]


class FromBehind(nn.Module):
    """A layer whose last output (B, C) is looked at: of an RNN, an LSTM, or attention by the last position.

    gain: recurrent weights are a rotation times this number; forget: the bias of the LSTM's forget gate.
    """

    def __init__(self, kind: str, gain: float | None = None, forget: float | None = None):
        super().__init__()
        if kind == "attention":
            self.layer: nn.Module = nn.MultiHeadAttention(CHANNELS, 4)
        else:
            self.layer = {"RNN": nn.RNN, "LSTM": nn.LSTM}[kind](CHANNELS, CHANNELS, batch_first=True)
        self.kind = kind
        with tg.no_grad():
            if gain is not None:
                nn.init.orthogonal_(self.layer.weight_hh_l0, gain=gain)
            if forget is not None:
                self.layer.bias_ih_l0[CHANNELS : 2 * CHANNELS] = forget

    def forward(self, x: tg.Tensor) -> tg.Tensor:
        return self.layer(x[:, -1:], x)[:, 0] if self.kind == "attention" else self.layer(x)[0][:, -1]


FRESH = {
    "RNN": ("RNN", None, None),
    "RNN, weights a rotation": ("RNN", 1.0, None),
    "RNN, weights twice a rotation": ("RNN", 2.0, None),
    "LSTM": ("LSTM", None, None),
    "LSTM, forget bias 3": ("LSTM", None, 3.0),
    "attention": ("attention", None, None),
}


def reach(kind: str, gain: float | None, forget: float | None, length: int = LENGTH) -> np.ndarray:
    """(length,): the size of the gradient with respect to the input 0, 1, 2, ... steps before the end."""
    tg.manual_seed(0)
    layer, x = FromBehind(kind, gain, forget), tg.randn(8, length, CHANNELS, requires_grad=True)
    (layer(x) * tg.randn(8, CHANNELS)).sum().backward()
    return np.sqrt((x.grad.numpy().astype(np.float64) ** 2).sum(-1).mean(0))[::-1]


class Repeater(nn.Module):
    """Symbols (B, T) to logits (B, V) of the first one, from the last output of a layer."""

    def __init__(self, kind: str, length: int):
        super().__init__()
        self.embed, self.read = nn.Embedding(SYMBOLS, CHANNELS), nn.Linear(CHANNELS, SYMBOLS)
        self.places = nn.Embedding(length, CHANNELS) if kind == "attention" else None
        self.layer = FromBehind(kind, forget=3.0 if kind == "LSTM" else None)

    def forward(self, ids: tg.Tensor) -> tg.Tensor:
        x = self.embed(ids)
        return self.read(self.layer(x if self.places is None else x + self.places.weight))


def repeats(kind: str, distance: int, steps: int = STEPS) -> float:
    """The share of right answers when trained to say at the end what stood `distance` steps before it."""
    tg.manual_seed(0)
    model = Repeater(kind, distance + 1)
    optimizer = tg.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(steps):
        ids = tg.randint(0, SYMBOLS, (32, distance + 1))
        optimizer.zero_grad()
        F.cross_entropy(model(ids), ids[:, 0]).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    ids = tg.randint(0, SYMBOLS, (500, distance + 1))
    with tg.no_grad():
        return float((model(ids).argmax(-1) == ids[:, 0]).float().mean().item())


def draw(sizes: dict[str, np.ndarray], shares: dict[str, list[float]]) -> None:
    figure, (left, right) = plt.subplots(1, 2, figsize=(13, 4.6), layout="constrained")
    for name, values in sizes.items():
        left.semilogy(np.where(values > 0, values, np.nan), label=name, linewidth=2)
    left.set(title="gradient with respect to an earlier input", xlabel="steps before the end", ylim=(1e-12, 1e8))
    for name, values in shares.items():
        right.plot(DISTANCES, [100 * share for share in values], "o-", label=name)
    right.axhline(100 / SYMBOLS, linestyle="--", color="gray", label="guessing")
    right.set(title="right answers about the first symbol, percent", xlabel="steps from it", ylim=(0, 105))
    for ax in (left, right):
        ax.legend()
    figure.savefig("gradient_reach.png", dpi=110)


def main() -> None:
    sizes = {name: reach(*settings) for name, settings in FRESH.items()}
    for name, values in sizes.items():
        print(f"{name:30s} " + ", ".join(f"{k} steps: {values[k]:.1e}" for k in (1, 10, 50, 100)))
    shares = {kind: [repeats(kind, distance) for distance in DISTANCES] for kind in KINDS}
    for kind, values in shares.items():
        each = ", ".join(f"{d}: {share:.0%}" for d, share in zip(DISTANCES, values, strict=True))
        print(f"{kind:10s} right about the symbol so many steps before: {each}")
    draw(sizes, shares)

    kept = {name: values[100] / values[1] for name, values in sizes.items()}
    assert kept["RNN"] < 1e-9 and kept["LSTM"] < 1e-9 and kept["RNN, weights twice a rotation"] > 1e3
    assert kept["LSTM, forget bias 3"] > 0.05 and 0.3 < kept["attention"] < 3
    assert min(values[0] for values in shares.values()) > 0.9  # nearby all of them can
    assert shares["RNN"][-1] < 0.45 and shares["attention"][-1] > 0.9


if __name__ == "__main__":
    main()
