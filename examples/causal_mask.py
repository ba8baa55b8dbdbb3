"""Without the causal mask the answers leak into the questions: the loss is too good to be true, and the text garbage.

A model is asked for the next symbol of texts in which each of 8 symbols is followed by one of two others, drawn by a
coin. Nobody can do better than log(2) = 0.69 nats, and with the mask nobody does. Without it position t simply looks at
position t + 1, and only the last one still has to guess: the loss falls to log(2) / 10. Nothing in training says that
something is wrong, but such a loss. It shows when the model writes: there is no next symbol to copy yet, and what it
puts down is seldom what may follow (the bars).

Look at the two tables in the picture: how strongly the vector at each position (row) depends on each input (column).
With the mask everything above the diagonal is 0: not small, exactly 0.

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
FOLLOWERS = np.stack([np.random.default_rng(i).permutation(SYMBOLS)[:2] for i in range(SYMBOLS)])


class NextSymbol(nn.Module):
    """One block of a GPT, with or without its mask."""

    def __init__(self, is_causal: bool):
        super().__init__()
        self.is_causal = is_causal
        self.embed, self.places = nn.Embedding(SYMBOLS, CHANNELS), nn.LearnedPositions(LENGTH, CHANNELS)
        self.block, self.read = nn.Block(CHANNELS, 4), nn.Linear(CHANNELS, SYMBOLS)

    def forward(self, ids: tg.Tensor) -> tg.Tensor:
        return self.read(self.block(self.places(self.embed(ids)), is_causal=self.is_causal))


def texts(count: int, random: np.random.Generator) -> np.ndarray:
    """(count, LENGTH + 1) symbols, each one of the two that may follow the one before."""
    ids = random.integers(0, SYMBOLS, (count, 1))
    while ids.shape[1] <= LENGTH:
        ids = np.concatenate([ids, FOLLOWERS[ids[:, -1], random.integers(0, 2, count)][:, None]], 1)
    return ids


def train(is_causal: bool, steps: int = STEPS) -> tuple[NextSymbol, list[float]]:
    """The model, and its loss at each step, on texts that are never the same again."""
    tg.manual_seed(0)
    random = np.random.default_rng(0)
    model = NextSymbol(is_causal)
    optimizer = tg.optim.Adam(model.parameters(), lr=5e-3)
    losses = []
    for _ in range(steps):
        text = tg.tensor(texts(32, random))
        loss = F.cross_entropy(model(text[:, :-1]).reshape(-1, SYMBOLS), text[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return model, losses


def write(model: NextSymbol, count: int = 200) -> np.ndarray:
    """(count, LENGTH) symbols, each drawn behind those that are there."""
    random = np.random.default_rng(1)
    ids = random.integers(0, SYMBOLS, (count, 1))
    with tg.no_grad():
        while ids.shape[1] < LENGTH:
            weights = F.softmax(model(tg.tensor(ids))[:, -1], dim=-1).numpy()
            drawn = (weights.cumsum(-1) > random.random((count, 1))).argmax(-1)
            ids = np.concatenate([ids, drawn[:, None]], 1)
    return ids


def allowed(ids: np.ndarray) -> float:
    """The share of the symbols that may follow the one before them."""
    return float((FOLLOWERS[ids[:, :-1]] == ids[:, 1:, None]).any(-1).mean())


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


def draw(losses: dict[str, list[float]], rules: dict[str, float], tables: dict[str, np.ndarray]) -> None:
    figure, axes = plt.subplots(1, 4, figsize=(17, 4.2), layout="constrained")
    for name, values in losses.items():
        axes[0].plot(values, label=name)
    axes[0].axhline(math.log(2), linestyle="--", color="gray", label="the best possible")
    axes[0].set(title="loss", xlabel="step", ylabel="nats a symbol", ylim=(0, 2.3))
    axes[0].legend()
    bars = axes[1].bar(list(rules), list(rules.values()), color=["tab:blue", "tab:orange"])
    axes[1].bar_label(bars, fmt="{:.0%}")
    axes[1].axhline(2 / SYMBOLS, linestyle="--", color="gray", label="by chance")
    axes[1].set(title="written symbols that may stand there", ylim=(0, 1.1))
    axes[1].legend()
    for ax, (name, table) in zip(axes[2:], tables.items(), strict=True):
        ax.imshow(np.where(table == 0, np.nan, np.log10(table + 1e-30)), cmap="viridis", vmin=-2, vmax=1)
        ax.set(title=f"{name}: gradient, white where exactly 0", xlabel="of input", ylabel="of output")
    figure.savefig("causal_mask.png", dpi=110)


def main() -> None:
    names = {"with the mask": True, "without": False}
    tables = {name: dependence(is_causal) for name, is_causal in names.items()}
    models, losses, rules = {}, {}, {}
    print(f"each symbol is followed by one of two: no loss below {math.log(2):.3f} is possible")
    for name, is_causal in names.items():
        models[name], losses[name] = train(is_causal)
        rules[name] = allowed(write(models[name]))
        later = np.triu(tables[name], 1).max()
        print(
            f"{name:14s} loss {np.mean(losses[name][-20:]):.3f}, largest gradient to later inputs {later:.3f}; "
            f"of what it writes, {rules[name]:.0%} may stand there"
        )
    draw(losses, rules, tables)

    with_, without = (float(np.mean(losses[name][-20:])) for name in names)
    assert math.log(2) - 0.03 < with_ < math.log(2) + 0.1
    assert without < math.log(2) - 0.1
    assert rules["with the mask"] > 0.95 and rules["without"] < 0.6
    assert (np.triu(tables["with the mask"], 1) == 0).all() and (np.tril(tables["with the mask"])[:, 0] > 0).all()
    assert (tables["without"] > 0).all()


if __name__ == "__main__":
    main()
