"""Trained on short texts, run on long ones: which kinds of positions go on working.

A small model learns letters in pieces of 32, with six kinds of positions, and is then given four times as much. Look at
the left picture, the loss at each position: up to 32 they are much alike. Behind it
- learned positions are vectors that were never trained;
- sinusoidal ones are sums that it has never seen, though each of their channels comes round again;
- RoPE turns queries and keys by the distance between them, and distances above 32 are new: it is often said to go on,
  and does so for a few letters;
- T5's relative bias has a last bucket for all that is far, and degrades slowly;
- without positions the loss is higher from the start, and a little more so when there are more letters to look at;
- ALiBi just takes more off the score the further a letter is: nothing new happens, and the loss stays.

The right one is fair to each: the loss on the same letters, given all the text before them or the last 32 letters
alone. More text ought to help. Only with ALiBi does it not hurt (Press et al., 2022, figure 1); with the others, cut
the text. What a longer context would do for a model that was trained on it is another question.

    python examples/beyond_training_length.py        writes beyond_training_length.png
"""

from __future__ import annotations

import os

import numpy as np
from matplotlib import pyplot as plt

import tinygrad_tf as tg
from tinygrad_tf.models import GPT, GPTConfig
from tinygrad_tf.nn import functional as F
from tinygrad_tf.utils.data.text import standard_library_text
from tinygrad_tf.utils.data.tokenizer import CharTokenizer

SMALL = bool(os.environ.get("TINYGRAD_TF_SMALL"))
TRAINED, LONG, STEPS, CHANNELS = (16, 64, 250, 32) if SMALL else (32, 128, 900, 48)
LETTERS = 100_000 if SMALL else 400_000
KINDS = ["rope", "alibi"] if SMALL else ["sinusoidal", "learned", "rope", "relative", "none", "alibi"]


def pieces(ids: np.ndarray, length: int, count: int, random: np.random.Generator) -> tg.Tensor:
    """(count, length + 1): pieces of a text that begin anywhere."""
    return tg.tensor(ids[random.integers(0, len(ids) - length, count)[:, None] + np.arange(length + 1)])


def train(positions: str, ids: np.ndarray, vocabulary: int, steps: int = STEPS) -> GPT:
    """On pieces of TRAINED letters; tables of positions are long enough for LONG."""
    tg.manual_seed(0)
    random = np.random.default_rng(0)
    config = GPTConfig(
        vocabulary, context=LONG, layers=2, heads=4, channels=CHANNELS, positions=positions, scale_embeddings=True
    )
    model = GPT(config)
    optimizer = tg.optim.AdamW(model.parameters(), lr=5e-3)
    for _ in range(steps):
        text = pieces(ids, TRAINED, 32, random)
        loss = model.loss(text[:, :-1], text[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


def losses(model: GPT, text: tg.Tensor) -> np.ndarray:
    """(B, T): the loss at each position, in nats."""
    with tg.no_grad():
        logits = model(text[:, :-1])
    each = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), text[:, 1:].reshape(-1), reduction="none")
    return each.numpy().reshape(text.shape[0], -1)


def all_or_the_last(model: GPT, text: tg.Tensor) -> tuple[float, float]:
    """The loss on the last letters, four for four: given all before them, and given the last TRAINED of that alone."""
    ends = range(text.shape[1] - 16, text.shape[1], 4)
    every = losses(model, text)
    whole = [every[:, end - 1].mean() for end in ends]
    cut = [losses(model, text[:, end - TRAINED : end + 1])[:, -1].mean() for end in ends]
    return float(np.mean(whole)), float(np.mean(cut))


def draw(curves: dict[str, np.ndarray], ends: dict[str, tuple[float, float]]) -> None:
    figure, (left, right) = plt.subplots(1, 2, figsize=(14, 4.8), layout="constrained", width_ratios=[1.5, 1])
    for name, curve in curves.items():
        smooth = np.convolve(curve, np.ones(8) / 8, "valid")
        left.plot(np.arange(len(smooth)) + 4, smooth, label=name)
    left.axvline(TRAINED, linestyle="--", color="gray", label="end of the texts in training")
    left.set(title="loss at each position (mean of 8 neighbours)", xlabel="position", ylabel="nats a letter")
    left.legend()
    for shift, i, label in ((-0.2, 0, "all the text before"), (0.2, 1, f"the last {TRAINED} letters")):
        right.barh(np.arange(len(ends)) + shift, [pair[i] for pair in ends.values()], 0.4, label=label)
    right.set_yticks(range(len(ends)), list(ends))
    right.invert_yaxis()
    right.set(title="loss on the same letters, given", xlabel="nats a letter", xlim=(0, None))
    right.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=2)
    figure.savefig("beyond_training_length.png", dpi=110)


def main() -> None:
    text = " ".join(standard_library_text(characters=LETTERS).content.split())  # without the long runs of indents
    tokenizer = CharTokenizer(text)
    ids = tokenizer.encode(text)
    known, unseen = ids[: len(ids) * 9 // 10], ids[len(ids) * 9 // 10 :]
    long = pieces(unseen, LONG, 256, np.random.default_rng(1))
    curves, ends = {}, {}
    for kind in KINDS:
        model = train(kind, known, tokenizer.vocabulary_size)
        curves[kind], ends[kind] = losses(model, long).mean(0), all_or_the_last(model, long)
        within, behind = curves[kind][TRAINED // 2 : TRAINED].mean(), curves[kind][2 * TRAINED :].mean()
        print(f"{kind:10s} loss up to {TRAINED}: {within:.2f}, from {2 * TRAINED} on: {behind:.2f};", end=" ")
        print(f"at the end, given all {ends[kind][0]:.2f}, given the last {TRAINED} letters {ends[kind][1]:.2f}")
    draw(curves, ends)

    worse = {kind: whole - cut for kind, (whole, cut) in ends.items()}
    assert abs(worse["alibi"]) < 0.1 < worse["rope"]
    assert SMALL or min(worse["sinusoidal"], worse["learned"]) > 0.15


if __name__ == "__main__":
    main()
