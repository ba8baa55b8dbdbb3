"""An encoder-decoder learns to write strings backwards; its attention is the mirror image.

10,000 generated strings of 3 to 12 letters, 1,000 of which are kept to be tested on: at least 99 % must come out right
to the last letter. Nothing in the model says "backwards"; it finds the letter to copy by its position alone. Look at
the picture: the attention of the decoder (rows: letters written) on the string (columns: letters read) runs from the
upper right to the lower left.

    python examples/reverse_strings.py        writes reverse_strings.png; about a minute on two cores
"""

from __future__ import annotations

import os
import string

import numpy as np
from matplotlib import pyplot as plt

import tinygrad_tf as tg
from tinygrad_tf.models import Transformer, TransformerConfig
from tinygrad_tf.training import PairConfig, PairTrainer, answers, exact_matches
from tinygrad_tf.utils.data.pairs import PAD, START, PairTokenizer

SMALL = bool(os.environ.get("TINYGRAD_TF_SMALL"))
SHORTEST = 3
PAIRS, LONGEST, STEPS = (2000, 5, 150) if SMALL else (10_000, 12, 1200)


def make_pairs(count: int, longest: int, seed: int = 0) -> list[tuple[str, str]]:
    """Different random strings and their reverses."""
    random = np.random.default_rng(seed)
    found: dict[str, str] = {}
    while len(found) < count:
        text = "".join(random.choice(list(string.ascii_lowercase), random.integers(SHORTEST, longest + 1)))
        found[text] = text[::-1]
    return list(found.items())


def make_model(vocabulary: int) -> Transformer:
    tg.manual_seed(0)
    sizes = {"d_model": 64, "num_heads": 4, "d_ff": 128, "encoder_layers": 2, "decoder_layers": 2, "max_len": 32}
    return Transformer(TransformerConfig(vocabulary, **sizes, dropout=0.0, norm_first=True, pad=PAD))


def draw(model: Transformer, tokenizer: PairTokenizer, text: str) -> np.ndarray:
    """The picture of one answer; gives the weights (T, S) of the head that looks most sharply."""
    ids = tg.tensor([tokenizer.encode(text)]), tg.tensor([[START, *tokenizer.encode(text[::-1])[:-1]]])
    heads = np.concatenate([w.numpy()[0] for w in model.cross_attention_weights(*ids)])
    weights = heads[np.argmax(heads.max(-1).mean(-1))]
    figure, ax = plt.subplots(figsize=(5.4, 4.4), layout="constrained")
    image = ax.imshow(weights, vmin=0, vmax=1, cmap="viridis")
    ax.set_xticks(range(len(text)), list(text))
    ax.set_yticks(range(len(text)), list(text[::-1]))
    ax.set(xlabel="key: read", ylabel="query: written", title="the sharpest head of the decoder")
    figure.colorbar(image, label="attention")
    figure.savefig("reverse_strings.png", dpi=120)
    return weights


def main() -> None:
    texts = make_pairs(PAIRS, LONGEST)
    tokenizer = PairTokenizer("".join(source for source, _ in texts))
    pairs = [(tokenizer.encode(source), tokenizer.encode(target)) for source, target in texts]
    held = PAIRS // 10
    model = make_model(len(tokenizer))
    config = PairConfig(steps=STEPS, batch=64, learning_rate=4e-3, schedule="linear", label_smoothing=0.1)
    print(f"strings of {SHORTEST} to {LONGEST} letters, {PAIRS - held} pairs; {model.num_parameters:,} parameters")
    for record in PairTrainer(config, model, pairs[held:]).train():
        if record.step % (STEPS // 3) == 0:
            right = exact_matches(model, pairs[: min(held, 250)])
            print(f"step {record.step:5d}  loss {record.loss:.3f}  {right:6.1%} right")
    right = exact_matches(model, pairs[:held])
    for (source, _), answer in zip(texts, answers(model, [source for source, _ in pairs[:3]]), strict=False):
        print(f"{source!r} -> {tokenizer.decode(answer)!r}")
    print(f"{right:.2%} of {held} unseen strings are right to the last letter")

    text = "backwards"[:LONGEST]
    weights = draw(model, tokenizer, text)
    mirrored = (weights.argmax(1) == np.arange(len(text))[::-1]).mean()
    print(f"{mirrored:.0%} of its rows are brightest at the letter that is written")
    if SMALL:
        assert right > 0.2 and record.loss < 1.4
    else:
        assert right >= 0.99 and mirrored >= 0.7


if __name__ == "__main__":
    main()
