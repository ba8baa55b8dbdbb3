"""A dictionary that can learn: attention looks things up, and because it is soft it can be taught how.

Each text is a dictionary of its own: eight pairs of a word and a number, and one of the words as a question. Python's
dict answers at once. Attention has to learn from right and wrong answers what "the same word" means. Look at the first
two pictures: rows are questions, columns the words in the dictionary. Before training all weights are alike, and the
answer is an average of all; after it, each question finds its word, and the answer is that word's value.

Why soft? The hard dictionary, which takes the best-fitting entry alone, gives queries and keys no gradient: exactly 0,
for a small change of a question does not change which entry is best. It cannot learn to look anything up (third
picture). And the soft one has answers where a dict has none: half way between two words it blends the values of the
two; asked for a word that is not there, it still answers from those that are, where a dict raises KeyError.

    python examples/soft_dictionary.py        writes soft_dictionary.png
"""

from __future__ import annotations

import os

import numpy as np
from matplotlib import pyplot as plt

import tinygrad_tf as tg
from tinygrad_tf import nn
from tinygrad_tf.nn import functional as F

WORDS, NUMBERS, ENTRIES, CHANNELS = 16, 8, 8, 32
STEPS = 200 if os.environ.get("TINYGRAD_TF_SMALL") else 600


class Dictionary(nn.Module):
    """Keys (B, N), values (B, N) and questions (B, Q) to logits (B, Q, numbers); hard takes the best entry alone."""

    def __init__(self, hard: bool = False):
        super().__init__()
        self.hard = hard
        self.words, self.numbers = nn.Embedding(WORDS, CHANNELS), nn.Embedding(NUMBERS, CHANNELS)
        self.query_proj, self.key_proj = nn.Linear(CHANNELS, CHANNELS), nn.Linear(CHANNELS, CHANNELS)
        self.read = nn.Linear(CHANNELS, NUMBERS)

    def forward(self, keys: tg.Tensor, values: tg.Tensor, questions: tg.Tensor) -> tg.Tensor:
        return self.read(self.weights(self.words(questions), keys) @ self.numbers(values))

    def weights(self, asked: tg.Tensor, keys: tg.Tensor) -> tg.Tensor:
        """(B, Q, N), for questions given as vectors (B, Q, C)."""
        scores = self.query_proj(asked) @ self.key_proj(self.words(keys)).transpose(1, 2) / CHANNELS**0.5
        return F.one_hot(scores.argmax(-1), keys.shape[1]).float() if self.hard else F.softmax(scores, dim=-1)


def dictionaries(count: int, random: np.random.Generator) -> tuple[tg.Tensor, tg.Tensor, tg.Tensor, tg.Tensor]:
    """Keys, values, questions and answers (B, N) each: different words, any numbers, every word asked for once."""
    keys = random.permuted(np.tile(np.arange(WORDS), (count, 1)), axis=1)[:, :ENTRIES]
    values = random.integers(0, NUMBERS, keys.shape)
    order = random.permuted(np.tile(np.arange(ENTRIES), (count, 1)), axis=1)
    asked, answers = np.take_along_axis(keys, order, 1), np.take_along_axis(values, order, 1)
    return tg.tensor(keys), tg.tensor(values), tg.tensor(asked), tg.tensor(answers)


def train(hard: bool, steps: int = STEPS) -> tuple[Dictionary, list[float], float]:
    """A trained dictionary, its share of right answers at each step, and the first gradient of the query projection."""
    tg.manual_seed(0)
    random = np.random.default_rng(0)
    model, shares, gradient = Dictionary(hard), [], 0.0
    optimizer = tg.optim.Adam(model.parameters(), lr=5e-3)
    for step in range(steps):
        keys, values, questions, answers = dictionaries(32, random)
        logits = model(keys, values, questions)
        optimizer.zero_grad()
        F.cross_entropy(logits.reshape(-1, NUMBERS), answers.reshape(-1)).backward()
        if step == 0 and model.query_proj.weight.grad is not None:
            gradient = float(np.abs(model.query_proj.weight.grad.numpy()).max())
        optimizer.step()
        shares.append(float((logits.argmax(-1) == answers).float().mean().item()))
    return model, shares, gradient


def between(model: Dictionary) -> tuple[float, float, float]:
    """The weights asked for the point half way between two words: the larger of theirs, the smaller, all others.

    On average over the pairs of words of a dictionary.
    """
    keys, (first, second) = tg.arange(ENTRIES).reshape(1, -1), np.triu_indices(ENTRIES, 1)
    words = model.words(keys[0])
    weights = model.weights((words[first] + words[second]).unsqueeze(0) / 2, keys)[0].detach().numpy()
    two = np.sort(np.take_along_axis(weights, np.stack([first, second], 1), 1), 1)
    return float(two[:, 1].mean()), float(two[:, 0].mean()), float((1 - two.sum(1)).mean())


def most_for_a_missing_word(model: Dictionary) -> float:
    """The largest weight when the word is not in the dictionary, on average over all such words."""
    keys = tg.arange(ENTRIES).reshape(1, -1)
    missing = model.words(tg.arange(ENTRIES, WORDS)).unsqueeze(0)
    return float(model.weights(missing, keys).amax(-1).mean().item())


def draw(models: dict[str, Dictionary], shares: dict[str, list[float]]) -> None:
    figure, axes = plt.subplots(1, 3, figsize=(14, 4.4), layout="constrained")
    keys, _, questions, _ = dictionaries(1, np.random.default_rng(5))
    for ax, (name, model) in zip(axes, models.items(), strict=False):
        ax.imshow(model.weights(model.words(questions), keys)[0].detach().numpy(), cmap="Blues", vmin=0, vmax=1)
        ax.set_xticks(range(ENTRIES), [f"word {k}" for k in keys[0].tolist()], rotation=60)
        ax.set_yticks(range(ENTRIES), [f"word {k}?" for k in questions[0].tolist()])
        ax.set(title=name)
    for name, values in shares.items():
        axes[2].plot([100 * share for share in values], label=name)
    axes[2].set(title="right answers, percent", xlabel="step", ylim=(0, 103))
    axes[2].legend()
    figure.savefig("soft_dictionary.png", dpi=110)


def main() -> None:
    tg.manual_seed(0)
    fresh = Dictionary()
    (soft, soft_shares, soft_gradient), (_, hard_shares, hard_gradient) = train(hard=False), train(hard=True)
    learned, failed = float(np.mean(soft_shares[-20:])), float(np.mean(hard_shares[-20:]))
    print(f"right answers: soft {learned:.0%}, hard {failed:.0%}; guessing {1 / NUMBERS:.0%}")
    print(f"largest gradient of the query projection at the first step: soft {soft_gradient:.1e}, hard {hard_gradient}")
    one, other, rest = between(soft)
    print(f"half way between two words: {one:.2f} of the one, {other:.2f} of the other, {rest:.2f} of all else")
    missing = most_for_a_missing_word(soft)
    print(f"a word that is not there: the largest weight is {missing:.2f} on average; a dict raises KeyError")
    draw({"before training": fresh, "after": soft}, {"soft": soft_shares, "hard": hard_shares})

    assert learned > 0.97 and failed < 0.6
    assert soft_gradient > 1e-5 and hard_gradient == 0.0
    assert rest < 0.3 and one < 0.95
    assert missing < 0.9


if __name__ == "__main__":
    main()
