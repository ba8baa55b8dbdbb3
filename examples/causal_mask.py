"""Without the causal mask the answers leak into the questions, and it shows: a loss below what can be known.

A model is asked for the next symbol of random text of 8 symbols. Nobody can do better than log(8) = 2.08 nats, and with
the mask nobody does. Without it position t simply looks at position t + 1, and only the last one still has to guess:
the loss falls to log(8) / 10. A loss that is too good to be true is a leak. Look at the two tables in the picture: how
strongly the vector at each position (row) depends on each input (column). With the mask everything above the diagonal
is 0: not small, exactly 0.

    python examples/causal_mask.py        writes causal_mask.png
"""

from __future__ import annotations

import math
import os

import numpy as np
from matplotlib import pyplot as plt

import tinygrad_tf as tg
from tinygrad_tf import nn
from tinygrad_tf.nn import functional as F

SYMBOLS, LENGTH, CHANNELS = 8, 10, 32
STEPS = 250 if os.environ.get("TINYGRAD_TF_SMALL") else 400


class NextSymbol(nn.Module):
    """One block of a GPT, with or without its mask."""

    def __init__(self, is_causal: bool):
        super().__init__()
        self.is_causal = is_causal
        self.embed, self.places = nn.Embedding(SYMBOLS, CHANNELS), nn.LearnedPositions(LENGTH, CHANNELS)
        self.block, self.read = nn.Block(CHANNELS, 4), nn.Linear(CHANNELS, SYMBOLS)

    def forward(self, ids: tg.Tensor) -> tg.Tensor:
        return self.read(self.block(self.places(self.embed(ids)), is_causal=self.is_causal))


def train(is_causal: bool, steps: int = STEPS) -> list[float]:
    """The loss at each step, on random text that is never the same again."""
    tg.manual_seed(0)
    model = NextSymbol(is_causal)
    optimizer = tg.optim.Adam(model.parameters(), lr=5e-3)
    losses = []
    for _ in range(steps):
        text = tg.randint(0, SYMBOLS, (32, LENGTH + 1))
        loss = F.cross_entropy(model(text[:, :-1]).reshape(-1, SYMBOLS), text[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def dependence(is_causal: bool) -> np.ndarray:
    """(T, T): the size of the gradient of output t with respect to input s, in a fresh block."""
    tg.manual_seed(0)
    block, x = nn.Block(CHANNELS, 4), tg.randn(1, LENGTH, CHANNELS, requires_grad=True)
    direction, rows = tg.randn(CHANNELS), []
    for t in range(LENGTH):
        x.grad = None
        (block(x, is_causal=is_causal)[0, t] * direction).sum().backward()
        rows.append(np.linalg.norm(x.grad[0].numpy(), axis=-1))
    return np.array(rows)


def draw(losses: dict[str, list[float]], tables: dict[str, np.ndarray]) -> None:
    figure, axes = plt.subplots(1, 3, figsize=(14, 4.2), layout="constrained")
    for name, values in losses.items():
        axes[0].plot(values, label=name)
    axes[0].axhline(math.log(SYMBOLS), linestyle="--", color="gray", label="the best possible")
    axes[0].set(title="loss on random text", xlabel="step", ylabel="nats a symbol", ylim=(0, 2.6))
    axes[0].legend()
    for ax, (name, table) in zip(axes[1:], tables.items(), strict=True):
        ax.imshow(np.where(table == 0, np.nan, np.log10(table + 1e-30)), cmap="viridis", vmin=-2, vmax=1)
        ax.set(title=f"{name}: gradient, white where exactly 0", xlabel="of input", ylabel="of output")
    figure.savefig("causal_mask.png", dpi=110)


def main() -> None:
    names = {"with the mask": True, "without": False}
    tables = {name: dependence(is_causal) for name, is_causal in names.items()}
    losses = {name: train(is_causal) for name, is_causal in names.items()}
    print(f"random text of {SYMBOLS} symbols: no loss below {math.log(SYMBOLS):.3f} is possible")
    for name in names:
        later = np.triu(tables[name], 1)
        print(f"{name:14s} loss {np.mean(losses[name][-20:]):.3f}, largest gradient to later inputs {later.max():.3f}")
    draw(losses, tables)

    with_, without = (float(np.mean(losses[name][-20:])) for name in names)
    assert with_ > math.log(SYMBOLS) - 0.02
    assert without < 0.5 * math.log(SYMBOLS)
    assert (np.triu(tables["with the mask"], 1) == 0).all() and (np.tril(tables["with the mask"])[:, 0] > 0).all()
    assert (tables["without"] > 0).all()


if __name__ == "__main__":
    main()
