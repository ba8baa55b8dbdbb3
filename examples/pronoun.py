"""A pronoun finds its noun: "it" looks at the animal when the sentence ends in "tired", at the street when in "wide".

Sentences such as "the animal did not cross the street because it was too tired" are generated, with the noun that is
meant before or behind the other one (Vaswani et al. found a head that does this in their figures 3 and 4). Two blocks
of attention are asked, at the word "it", which noun is meant, and told whether that was right; nobody tells them where
to look. Look at the tables: the row of "it" in the second block, in two sentences that differ in their last word alone,
and with the nouns in the other order. The weights are on the noun that is meant. A quarter of the pairs of nouns never
occur in training; the answers are right there, too, because what was learned is a relation between words and not a list
of sentences.

    python examples/pronoun.py        writes pronoun.png
"""

from __future__ import annotations

import os
from typing import NamedTuple

import numpy as np
from matplotlib import pyplot as plt

import tinygrad_tf as tg
from tinygrad_tf import nn
from tinygrad_tf.nn import functional as F

ANIMALS = ("animal", "cat", "horse", "dog", "cow", "fox", "goat", "bear")
PLACES = ("street", "river", "bridge", "field", "road", "hill", "yard", "lake")
OF_ANIMALS, OF_PLACES = ("tired", "hungry", "afraid"), ("wide", "wet", "steep")
FRAMES = ("the {} did not cross the {} because it was too {}", "the {} did not please the {} because it was too {}")
WORDS = sorted({*ANIMALS, *PLACES, *OF_ANIMALS, *OF_PLACES, *" ".join(FRAMES).replace("{}", "").split()})
NOUNS = (*ANIMALS, *PLACES)
LENGTH = len(FRAMES[0].split())
CHANNELS = 32
STEPS = 150 if os.environ.get("TINYGRAD_TF_SMALL") else 250


class Sentence(NamedTuple):
    words: list[str]
    meant: str  # the noun that "it" stands for
    held_out: bool  # whether its pair of nouns is kept from training


def sentences() -> list[Sentence]:
    """Every sentence that there is: frames, pairs of nouns and last words."""
    found = []
    for i, animal in enumerate(ANIMALS):
        for j, place in enumerate(PLACES):
            for frame, nouns in zip(FRAMES, ((animal, place), (place, animal)), strict=True):
                for last in (*OF_ANIMALS, *OF_PLACES):
                    meant = animal if last in OF_ANIMALS else place
                    found.append(Sentence(frame.format(*nouns, last).split(), meant, (i + j) % 4 == 0))
    return found


class Reader(nn.Module):
    """Two blocks of one head that see the whole sentence; the answer is read at the word "it"."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.places = nn.Embedding(len(WORDS), CHANNELS), nn.LearnedPositions(LENGTH, CHANNELS)
        self.blocks = nn.ModuleList(nn.Block(CHANNELS, 1) for _ in range(2))
        self.read = nn.Linear(CHANNELS, len(NOUNS))

    def forward(self, ids: tg.Tensor) -> tuple[tg.Tensor, tg.Tensor]:
        """ids (B, T) to logits (B, nouns) and the second block's weights (B, T, T)."""
        first, second = self.blocks
        x = first(self.places(self.embed(ids)))
        weights = second.attention(second.norm1(x), need_weights=True)[1]
        at = WORDS.index("it") == ids.numpy()
        return self.read(second(x)[tg.tensor(at)]), weights[:, 0]


def encode(chosen: list[Sentence]) -> tuple[tg.Tensor, tg.Tensor]:
    """ids (B, T) and the nouns that are meant (B,)."""
    ids = [[WORDS.index(word) for word in sentence.words] for sentence in chosen]
    return tg.tensor(ids), tg.tensor([NOUNS.index(sentence.meant) for sentence in chosen])


def train(steps: int = STEPS, seed: int = 0) -> Reader:
    tg.manual_seed(seed)
    random = np.random.default_rng(seed)
    model, known = Reader(), [s for s in sentences() if not s.held_out]
    optimizer = tg.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.1)
    for step in range(steps):
        ids, meant = encode([known[i] for i in random.integers(0, len(known), 32)])
        loss = F.cross_entropy(model(ids)[0], meant)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0 or step == steps - 1:
            print(f"step {step:4d}  loss {loss.item():.3f}")
    return model


def share_right(model: Reader, chosen: list[Sentence]) -> float:
    ids, meant = encode(chosen)
    return float((model(ids)[0].argmax(-1) == meant).float().mean().item())


def weights_on_nouns(model: Reader, chosen: list[Sentence]) -> tuple[float, float]:
    """What "it" gives, on average over sentences, to the noun that is meant and to the other one."""
    weights = model(encode(chosen)[0])[1].detach().numpy()
    meant, other = [], []
    for sentence, table in zip(chosen, weights, strict=True):
        row = table[sentence.words.index("it")]
        for word, weight in zip(sentence.words, row, strict=True):
            if word in NOUNS:
                (meant if word == sentence.meant else other).append(weight)
    return float(np.mean(meant)), float(np.mean(other))


def draw(model: Reader) -> None:
    shown = [s for s in sentences() if s.words[-1] in ("tired", "wide") and {"animal", "street"} <= set(s.words)]
    figure, axes = plt.subplots(2, 2, figsize=(13, 11), layout="constrained")
    tables = model(encode(shown)[0])[1].detach().numpy()
    for ax, sentence, table in zip(axes.flat, shown, tables, strict=True):
        ax.imshow(table, cmap="Blues", vmin=0, vmax=1)
        ax.set_xticks(range(LENGTH), sentence.words, rotation=60)
        ax.set_yticks(range(LENGTH), sentence.words)
        row = sentence.words.index("it")
        ax.axhspan(row - 0.5, row + 0.5, fill=False, edgecolor="tab:red", linewidth=2)
        for column, weight in enumerate(table[row]):
            if weight > 0.05:
                ax.text(column, row, f"{weight:.2f}", ha="center", va="center", color="w" if weight > 0.5 else "k")
        ax.set(title=f'"it" is the {sentence.meant}')
    figure.savefig("pronoun.png", dpi=90)


def main() -> None:
    model = train()
    known, new = ([s for s in sentences() if s.held_out == held_out] for held_out in (False, True))
    for name, chosen in (("pairs of nouns seen in training", known), ("new pairs", new)):
        meant, other = weights_on_nouns(model, chosen)
        right = share_right(model, chosen)
        print(f"{name:31s} {right:4.0%} right; weight on the noun meant {meant:.2f}, on the other {other:.2f}")
    draw(model)

    assert share_right(model, known) > 0.95 and share_right(model, new) > 0.85
    meant, other = weights_on_nouns(model, new)
    assert meant > 0.4 and meant > 4 * other


if __name__ == "__main__":
    main()
