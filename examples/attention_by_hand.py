"""Attention is a soft dictionary: three words, step by step, with numbers that can be checked on paper.

The words are "I", "love" and "eat apples", with vectors of two numbers, and query = key = value = the vector itself.
Look at the four tables: each row is one word that asks, each column a word that is asked. The third row of the weights
is 0.25 0.25 0.50: "eat apples" finds most in itself, and takes half of what it says from there.

A dictionary gives the value of the one key that is equal; attention gives all values, weighted by how well each key
fits. The sharper the question, the more it is a dictionary again: see the last table.

    python examples/attention_by_hand.py        writes attention_by_hand.png
"""

from __future__ import annotations

import math

import numpy as np
from matplotlib import pyplot as plt

import tinygrad_tf as tg
from tinygrad_tf.nn import functional as F

WORDS = ["I", "love", "eat apples"]
X = tg.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])


def steps(query: tg.Tensor, key: tg.Tensor, value: tg.Tensor) -> dict[str, tg.Tensor]:
    """Equation 1 of "Attention Is All You Need" (Vaswani et al., 2017), one step a line."""
    scores = query @ key.transpose(0, 1)  # (3, 3): how well each key fits each query
    scaled = scores / math.sqrt(query.shape[-1])
    powers = (scaled - scaled.amax(-1, keepdim=True)).exp()  # less the largest: the same shares, and no overflow
    weights = powers / powers.sum(-1, keepdim=True)  # softmax: each row sums to 1
    return {"scores": scores, "scaled": scaled, "weights": weights, "outputs": weights @ value}


def lookup(sharpness: float) -> list[float]:
    """What "eat apples" finds when its question is asked `sharpness` times as loudly."""
    return steps(X[2:] * sharpness, X, X)["outputs"][0].tolist()


def draw(tables: dict[str, tg.Tensor]) -> None:
    figure, axes = plt.subplots(1, 4, figsize=(13, 3.4), layout="constrained")
    for ax, (name, table) in zip(axes, tables.items(), strict=True):
        ax.imshow(table.numpy(), cmap="Blues", vmin=0, vmax=1.4 * table.amax().item(), aspect="auto")
        for (i, j), number in np.ndenumerate(table.numpy()):
            ax.text(j, i, f"{number:.2f}", ha="center", va="center", fontsize=13)
        columns = WORDS if table.shape[1] == 3 else ["channel 0", "channel 1"]
        ax.set_xticks(range(len(columns)), columns)
        ax.set_yticks(range(3), WORDS if ax is axes[0] else [""] * 3)
        ax.set_title(name)
    axes[0].set_ylabel("asks")
    figure.savefig("attention_by_hand.png", dpi=110)


def main() -> None:
    tables = steps(X, X, X)
    for name, table in tables.items():
        print(name)
        for word, row in zip(WORDS, table.tolist(), strict=True):
            print(f"  {word:>10}  " + "  ".join(f"{number:.2f}" for number in row))
    print(f"a dictionary would answer {X[2].tolist()}; asked more sharply, so does attention:")
    for sharpness in (1, 4, 16, 64):
        print(f"  {sharpness:3d} times: " + "  ".join(f"{number:.4f}" for number in lookup(sharpness)))
    draw(tables)

    wanted = [[0.40, 0.20, 0.40], [0.20, 0.40, 0.40], [0.25, 0.25, 0.50]]
    assert np.allclose(tables["weights"].numpy(), wanted, atol=0.005)
    assert np.allclose(tables["outputs"].numpy(), [[0.80, 0.60], [0.60, 0.80], [0.75, 0.75]], atol=0.005)
    assert np.allclose(tables["outputs"].numpy(), F.scaled_dot_product_attention(X, X, X).numpy(), atol=1e-6)
    assert np.allclose(lookup(64), X[2].tolist(), atol=1e-6)


if __name__ == "__main__":
    main()
