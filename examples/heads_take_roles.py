"""Trained heads take roles: one looks at its neighbour, one at the start, one for a mark wherever it stands.

Nobody tells a head what to do. One layer with three heads reads rows of letters with a single capital among them, and
each position is asked for the letter before it, for the first letter of the row, and for the capital. Look at the
pictures of the heads (one row of text): a diagonal, which goes by the place; a column at the left, which goes by the
place, too, but the same for all; and a column under the capital, which moves with it from row to row: that head goes by
content. The table gives for each head how much of its attention each of the three gets, on average over many rows.

Then each head is silenced (its part of the output layer is zero), and the answers that it gave are gone, while the
others stay. Another seed gives the same roles to other heads: roles belong to the task, not to the number of the head.
(With 48 channels and 8 letters two heads often share two roles: a wide head has room for two answers at once.)

    python examples/heads_take_roles.py        writes heads_take_roles.png
"""

from __future__ import annotations

import os

import numpy as np
from matplotlib import pyplot as plt

import tinygrad_tf as tg
from tinygrad_tf import nn
from tinygrad_tf.nn import functional as F

LETTERS, LENGTH, CHANNELS = 12, 10, 36  # ids 0 ... 11 are small letters, 12 ... 23 capitals
ROLES = ["the letter before", "the first letter", "the capital"]
SMALL = bool(os.environ.get("TINYGRAD_TF_SMALL"))
STEPS, SEEDS = (150, [0]) if SMALL else (400, [0, 1, 2])


class Reader(nn.Module):
    """One attention layer of three heads, without anything else that could move information between positions."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.places = nn.Embedding(2 * LETTERS, CHANNELS), nn.Embedding(LENGTH, CHANNELS)
        self.attention, self.read = nn.MultiHeadAttention(CHANNELS, 3), nn.Linear(CHANNELS, 3 * 2 * LETTERS)

    def forward(self, ids: tg.Tensor) -> tg.Tensor:
        """Logits (B, T, 3, 2 x letters), one row a question."""
        return self.read(self.attention(self.vectors(ids))).reshape(*ids.shape, 3, 2 * LETTERS)

    def vectors(self, ids: tg.Tensor) -> tg.Tensor:
        return self.embed(ids) + self.places(tg.arange(LENGTH))

    def weights(self, ids: tg.Tensor) -> np.ndarray:
        """(B, 3, T, T): where each head looks."""
        return self.attention(self.vectors(ids), need_weights=True)[1].detach().numpy()


def rows(count: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Letters (B, T) with one capital a row; and (B, 3, T, 1) where each position finds its three answers.

    The first position has no letter before it and is asked for itself.
    """
    ids = random.integers(0, LETTERS, (count, LENGTH))
    marked = random.integers(0, LENGTH, (count, 1))
    np.put_along_axis(ids, marked, np.take_along_axis(ids, marked, 1) + LETTERS, 1)
    before = np.broadcast_to(np.maximum(np.arange(LENGTH) - 1, 0), (count, LENGTH))
    sources = np.stack([before, np.zeros_like(before), np.broadcast_to(marked, before.shape)], 1)
    return ids, sources[..., None]


def train(seed: int, steps: int = STEPS) -> Reader:
    tg.manual_seed(seed)
    random = np.random.default_rng(seed)
    model = Reader()
    optimizer = tg.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(steps):
        ids, sources = rows(32, random)
        optimizer.zero_grad()
        F.cross_entropy(model(tg.tensor(ids)).reshape(-1, 2 * LETTERS), wanted(ids, sources).reshape(-1)).backward()
        optimizer.step()
    return model


def wanted(ids: np.ndarray, sources: np.ndarray) -> tg.Tensor:
    """(B, T, 3): the answers to the three questions of each position."""
    return tg.tensor(np.take_along_axis(ids[:, None, None], sources, 3)[..., 0].transpose(0, 2, 1))


def right(model: Reader, silenced: int | None = None) -> np.ndarray:
    """The share of right answers to each question; with one head's part of the output layer set to zero."""
    weight, size = model.attention.out_proj.weight, CHANNELS // 3
    kept = weight.detach().clone()
    ids, sources = rows(256, np.random.default_rng(99))
    with tg.no_grad():
        if silenced is not None:
            weight[:, silenced * size : (silenced + 1) * size] = 0.0
        answers = model(tg.tensor(ids)).argmax(-1)
        weight[:] = kept
    return (answers == wanted(ids, sources)).numpy().mean((0, 1))


def attention_to_answers(model: Reader) -> np.ndarray:
    """(heads, questions): the mean weight that a head gives to the place of each answer."""
    ids, sources = rows(256, np.random.default_rng(98))
    weights = model.weights(tg.tensor(ids))
    each = [np.take_along_axis(weights, sources[:, [question]], 3).mean((0, 2, 3)) for question in range(3)]
    return np.stack(each, 1)


def draw(model: Reader, looks: np.ndarray, loss: np.ndarray) -> None:
    ids = rows(2, np.random.default_rng(3))[0]
    weights = model.weights(tg.tensor(ids))
    figure, axes = plt.subplots(2, 4, figsize=(15, 7), layout="constrained")
    for b in range(2):
        text = ["abcdefghijklABCDEFGHIJKL"[i] for i in ids[b]]
        for h in range(3):
            axes[b, h].imshow(weights[b, h], cmap="Blues", vmin=0, vmax=1)
            axes[b, h].set_xticks(range(LENGTH), text)
            axes[b, h].set_yticks(range(LENGTH), text)
            axes[b, h].set(title=f"head {h} looks at: {ROLES[int(looks[h].argmax())]}")
    tables = ((looks, "attention to each answer"), (loss, "right answers lost without the head"))
    for ax, (table, title) in zip(axes[:, 3], tables, strict=True):
        ax.imshow(table, cmap="viridis", vmin=0, vmax=1)
        for (i, j), number in np.ndenumerate(table):
            ax.text(j, i, f"{number:.2f}", ha="center", va="center", color="white" if number < 0.7 else "black")
        ax.set_xticks(range(3), ["before", "first", "capital"])
        ax.set_yticks(range(3), [f"head {h}" for h in range(3)])
        ax.set(title=title)
    figure.savefig("heads_take_roles.png", dpi=110)


def main() -> None:
    found = []
    for seed in SEEDS:
        model = train(seed)
        looks, whole = attention_to_answers(model), right(model)
        loss = np.stack([whole - right(model, silenced=h) for h in range(3)])
        roles = looks.argmax(1).tolist()
        print(f"seed {seed}: right answers {', '.join(f'{share:.0%}' for share in whole)}")
        for h in range(3):
            each = ", ".join(f"{role} {share:.2f}" for role, share in zip(ROLES, looks[h], strict=True))
            print(f"  head {h} looks at {each}; without it {ROLES[int(loss[h].argmax())]} is lost most")
        found.append((model, looks, loss, roles, whole))
    draw(*found[0][:3])

    for _, looks, loss, roles, whole in found:
        assert whole.min() > 0.95 and sorted(roles) == [0, 1, 2] and looks.max(1).min() > 0.7
        assert loss.argmax(1).tolist() == roles and loss.max(1).min() > 0.3


if __name__ == "__main__":
    main()
