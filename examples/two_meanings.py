"""One word, two meanings: "apple" has one embedding, and after attention two vectors, one a fruit's, one a company's.

A block learns to predict the next word of sentences like "at lunch the apple tastes sweet" and "in court the apple
sells phones"; nobody says what a fruit is. Look at the left picture: the vectors at the place of the noun, flattened to
the plane in which they spread most. There are two clouds, the fruits and the companies, and "apple" (the stars) is in
one or the other, by its context. Before attention all stars are the same point. The right picture is why: from the
place of "apple" the block looks at the words that tell.

    python examples/two_meanings.py        writes two_meanings.png
"""

from __future__ import annotations

import os

import numpy as np
from matplotlib import pyplot as plt

import tinygrad_tf as tg
from tinygrad_tf import nn
from tinygrad_tf.nn import functional as F

# The first words of a sentence, its noun, and its end; whoever is in both lists of nouns has two meanings.
MEANINGS = {
    "fruit": (
        ("at lunch the", "for dessert the", "on trees the"),
        ("pear", "plum", "grape", "apple"),
        ("tastes sweet", "tastes good", "smells ripe"),
    ),
    "company": (
        ("in court the", "on markets the", "at fairs the"),
        ("intel", "nokia", "sony", "apple"),
        ("sells phones", "hires people", "builds computers"),
    ),
}
NOUN = 3  # the noun's place in the sentence
SENTENCES = [
    (kind, f"{begin} {noun} {end}".split())
    for kind, (begins, nouns, ends) in MEANINGS.items()
    for begin in begins
    for noun in nouns
    for end in ends
]
WORDS = sorted({word for _, sentence in SENTENCES for word in sentence})
LENGTH, CHANNELS = len(SENTENCES[0][1]), 32
STEPS = 80 if os.environ.get("TINYGRAD_TF_SMALL") else 300
IDS = np.array([[WORDS.index(word) for word in sentence] for _, sentence in SENTENCES])


class NextWord(nn.Module):
    """One block of a GPT."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.places = nn.Embedding(len(WORDS), CHANNELS), nn.LearnedPositions(LENGTH, CHANNELS)
        self.block, self.norm = nn.Block(CHANNELS, 2), nn.LayerNorm(CHANNELS)
        self.read = nn.Linear(CHANNELS, len(WORDS))

    def before(self, ids: np.ndarray) -> tg.Tensor:
        return self.places(self.embed(tg.tensor(ids)))

    def after(self, ids: np.ndarray) -> tg.Tensor:
        return self.norm(self.block(self.before(ids), is_causal=True))

    def weights(self, ids: np.ndarray) -> np.ndarray:
        """(B, T, T): who looks at whom, the mean of the heads."""
        x = self.block.norm1(self.before(ids))
        return self.block.attention(x, is_causal=True, need_weights=True)[1].detach().numpy().mean(1)


def train(steps: int = STEPS, seed: int = 0) -> NextWord:
    tg.manual_seed(seed)
    random = np.random.default_rng(seed)
    model = NextWord()
    optimizer = tg.optim.AdamW(model.parameters(), lr=5e-3)
    for step in range(steps):
        ids = IDS[random.integers(0, len(IDS), 16)]
        logits = model.read(model.after(ids[:, :-1])).reshape(-1, len(WORDS))
        loss = F.cross_entropy(logits, tg.tensor(ids[:, 1:]).reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0 or step == steps - 1:
            print(f"step {step:4d}  loss {loss.item():.2f}")
    return model


def vectors(model: NextWord, kind: str, noun: str, after: bool = True) -> np.ndarray:
    """(sentences, C): the vectors at the noun, in all sentences of a kind with it, before or after the block."""
    chosen = np.array([IDS[i] for i, (k, sentence) in enumerate(SENTENCES) if k == kind and sentence[NOUN] == noun])
    return (model.after if after else model.before)(chosen)[:, NOUN].detach().numpy()


def kind_of(model: NextWord, vector: np.ndarray) -> str:
    """The kind whose other nouns' mean vector has the smallest angle to this one; "apple" itself does not vote."""

    def cosine(kind: str) -> float:
        others = [vectors(model, kind, noun) for noun in MEANINGS[kind][1] if noun != "apple"]
        mean = np.concatenate(others).mean(0)
        return float(vector @ mean / np.linalg.norm(vector) / np.linalg.norm(mean))

    return max(MEANINGS, key=cosine)


def draw(model: NextWord) -> None:
    figure, (left, right) = plt.subplots(1, 2, figsize=(13, 5), layout="constrained")
    clouds = {(kind, noun): vectors(model, kind, noun) for kind, (_, nouns, _) in MEANINGS.items() for noun in nouns}
    everything = np.concatenate(list(clouds.values()))
    centre = everything.mean(0)
    plane = np.linalg.svd(everything - centre)[2][:2].T
    colours = {"fruit": "tab:green", "company": "tab:blue"}
    for number, ((kind, noun), cloud) in enumerate(clouds.items()):
        x, y = ((cloud - centre) @ plane).T
        style = {"marker": "*", "s": 140, "edgecolor": "k"} if noun == "apple" else {"marker": "o", "s": 25}
        left.scatter(x, y, color=colours[kind], label=f"{noun} ({kind})" if noun == "apple" else None, **style)
        edge, shift, side = (x.max(), 9, "left") if number % 2 else (x.min(), -9, "right")  # neighbours keep apart
        place = {"textcoords": "offset points", "ha": side, "va": "center"}
        left.annotate(noun, (edge, y.mean()), (shift, 0), fontsize=11, **place)
    left.set(title="the noun's vectors after the block", xlabel="first direction", ylabel="second direction")
    left.margins(x=0.2)
    left.legend(loc="center")
    texts = [text.split() for text in ("at lunch the apple tastes sweet", "in court the apple sells phones")]
    rows = model.weights(np.array([[WORDS.index(word) for word in text] for text in texts]))[:, NOUN, : NOUN + 1]
    for shift, text, row, colour in zip((-0.2, 0.2), texts, rows, colours.values(), strict=True):
        right.bar(np.arange(NOUN + 1) + shift, row, 0.4, color=colour, label=" ".join(text))
    right.set_xticks(
        range(NOUN + 1), [one if one == two else f"{one} / {two}" for one, two in zip(*texts, strict=True)][: NOUN + 1]
    )
    right.set(title='where "apple" looks', ylabel="weight of attention")
    right.legend()
    figure.savefig("two_meanings.png", dpi=100)


def main() -> None:
    model = train()
    apart = {}
    for name, after in (("before attention", False), ("after it", True)):
        fruit, company = (vectors(model, kind, "apple", after) for kind in MEANINGS)
        apart[name] = float(np.linalg.norm(fruit.mean(0) - company.mean(0)) / np.linalg.norm(fruit.mean(0)))
        print(f'{name:16s} the vectors of "apple" as fruit and as company are {apart[name]:.2f} of their length apart')
    taken = {kind: [kind_of(model, vector) for vector in vectors(model, kind, "apple")] for kind in MEANINGS}
    for kind, found in taken.items():
        print(
            f'"apple" in sentences about a {kind:8s} is near others of its kind in {found.count(kind)} of {len(found)}'
        )
    draw(model)

    assert apart["before attention"] == 0.0 and apart["after it"] > 0.5
    assert all(set(found) == {kind} for kind, found in taken.items())


if __name__ == "__main__":
    main()
