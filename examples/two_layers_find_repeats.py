"""What one attention layer cannot do, two do together: find where this was said before, and go on as it went on then.

Rows of symbols in random order are repeated, and a model is asked what comes next. The answer stands in the row: behind
the last occurrence of the same symbol. One layer can find the symbol, but not the one behind it, for a key only says
what stands at its own place. With two layers, a head of the first looks one place back, so that each place knows what
stood before it; a head of the second asks "whose neighbour was I?" and reads on from there. Together they are called an
induction head (Olsson et al., 2022).

Look at the pictures of a row of eight that is repeated: the first layer's strip just below the diagonal (as far as
anybody reads it), and the second layer's strips, which point to what followed an earlier time. At the right: the loss
of the one layer stays high, that of the two falls off a cliff when both have found each other. Layers are attention
alone: no feed-forward, no norm.

    python examples/two_layers_find_repeats.py        writes two_layers_find_repeats.png
"""

from __future__ import annotations

import os

import numpy as np
from matplotlib import pyplot as plt

import tinygrad_tf as tg
from tinygrad_tf import nn
from tinygrad_tf.nn import functional as F

SYMBOLS, LENGTH, CHANNELS, HEADS = 16, 24, 32, 2
STEPS = 220 if os.environ.get("TINYGRAD_TF_SMALL") else 600


class Attentions(nn.Module):
    """Causal attention layers with residual connections, and nothing else."""

    def __init__(self, layers: int):
        super().__init__()
        self.embed, self.places = nn.Embedding(SYMBOLS, CHANNELS), nn.Embedding(LENGTH, CHANNELS)
        self.layers = nn.ModuleList(nn.MultiHeadAttention(CHANNELS, HEADS, bias=False) for _ in range(layers))
        self.read = nn.Linear(CHANNELS, SYMBOLS)

    def forward(self, ids: tg.Tensor) -> tg.Tensor:
        return self.read(self.run(ids)[0])

    def run(self, ids: tg.Tensor) -> tuple[tg.Tensor, list[np.ndarray]]:
        """The last vectors, and the weights (B, H, T, T) of each layer."""
        x, weights = self.embed(ids) + self.places(tg.arange(ids.shape[1])), []
        for attention in self.layers:
            change, seen = attention(x, is_causal=True, need_weights=True)
            x = x + change
            weights.append(seen.detach().numpy())
        return x, weights


def rows(count: int, random: np.random.Generator, period: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """(B, T + 1) symbols, a piece in which none occurs twice, repeated; and the length of each piece (B, 1)."""
    symbols = random.permuted(np.tile(np.arange(SYMBOLS), (count, 1)), axis=1)
    periods = random.integers(4, LENGTH // 2 + 1, (count, 1)) if period is None else np.full((count, 1), period)
    return np.take_along_axis(symbols, np.arange(LENGTH + 1) % periods, 1), periods


def train(layers: int, steps: int = STEPS, seed: int = 0) -> tuple[Attentions, list[float]]:
    """A model, and its loss at each step, where the answer can be known: from the first repeated symbol on."""
    tg.manual_seed(seed)
    random = np.random.default_rng(seed)
    model, losses = Attentions(layers), []
    optimizer = tg.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.0)
    for _ in range(steps):
        text, periods = rows(32, random)
        targets = np.where(np.arange(LENGTH) >= periods, text[:, 1:], -100)  # -100: no question
        logits = model(tg.tensor(text[:, :-1]))
        loss = F.cross_entropy(logits.reshape(-1, SYMBOLS), tg.tensor(targets).reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return model, losses


def right(model: Attentions) -> float:
    """The share of right answers to new rows, where the answer can be known."""
    text, periods = rows(256, np.random.default_rng(99))
    answers = model(tg.tensor(text[:, :-1])).argmax(-1).numpy()
    return float((answers == text[:, 1:])[np.arange(LENGTH) >= periods].mean())


def looks_back(weights: np.ndarray) -> np.ndarray:
    """(H,): the mean weight that each head gives to the place just before its own."""
    return np.diagonal(weights, -1, 2, 3)[:, :, : LENGTH // 2].mean((0, 2))


def looks_behind_same(weights: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """(H,): the mean weight on places behind an earlier occurrence of the own symbol, where there is one."""
    followed = np.zeros((len(ids), LENGTH, LENGTH), dtype=bool)
    followed[:, :, 1:] = (ids[:, :, None] == ids[:, None, :-1]) & np.tri(LENGTH, LENGTH - 1, -1, dtype=bool)
    return (weights * followed[:, None]).sum(-1).transpose(1, 0, 2)[:, followed.any(-1)].mean(-1)


def draw(weights: list[np.ndarray], text: np.ndarray, losses: dict[str, list[float]]) -> None:
    figure, axes = plt.subplots(1, 3, figsize=(15, 4.8), layout="constrained")
    letters = ["abcdefghijklmnop"[i] for i in text]
    finders = looks_back(weights[0]), looks_behind_same(weights[1], text[None])
    for ax, layer, found, name in zip(axes, weights, finders, ("first", "second"), strict=False):
        ax.imshow(layer[0, int(found.argmax())], cmap="Blues", vmin=0, vmax=1)
        ax.set_xticks(range(LENGTH), letters)
        ax.set_yticks(range(LENGTH), letters)
        ax.set(title=f"a head of the {name} layer", xlabel="looks at", ylabel="asks what comes next")
    for name, values in losses.items():
        axes[2].plot(values, label=name)
    axes[2].set(title="loss where the answer can be known", xlabel="step", ylabel="nats a symbol", ylim=(0, 3.2))
    axes[2].legend()
    figure.savefig("two_layers_find_repeats.png", dpi=110)


def main() -> None:
    models = {name: train(layers) for name, layers in (("one layer", 1), ("two layers", 2))}
    shares = {name: right(model) for name, (model, _) in models.items()}
    for name, (_, losses) in models.items():
        print(f"{name:10s} loss {np.mean(losses[-20:]):.3f}, {shares[name]:.0%} right")
    text = rows(128, np.random.default_rng(7))[0][:, :-1]
    first, second = models["two layers"][0].run(tg.tensor(text))[1]
    back, behind = looks_back(first), looks_behind_same(second, text)
    print("first layer, weight on the place before, by head:          " + ", ".join(f"{w:.2f}" for w in back))
    print("second layer, weight behind the same symbol, by head:      " + ", ".join(f"{w:.2f}" for w in behind))
    one = rows(1, np.random.default_rng(5), period=8)[0][:, :-1]
    draw(models["two layers"][0].run(tg.tensor(one))[1], one[0], {name: losses for name, (_, losses) in models.items()})

    assert shares["one layer"] < 0.6 < 0.95 < shares["two layers"]
    assert back.max() > 0.7 and behind.max() > 0.8


if __name__ == "__main__":
    main()
