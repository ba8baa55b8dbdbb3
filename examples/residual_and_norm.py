"""Residuals carry the gradient down, pre-norm tames it at the top, LayerNorm does not look at its neighbours.

Look at the left picture: the gradient that reaches each layer of a fresh stack of 24 feed-forward layers. Without x +
it is multiplied by every layer above and fades; with x + it arrives. The middle one: the gradient of the last block's
weights in fresh stacks of 3 to 24 blocks. With post-norm (the original) it is as large as ever, however deep the stack,
which is why training has to begin with warmup; with pre-norm it falls as 1 / sqrt(layers) (Xiong et al., 2020, theorem
1).

The right one: three short sentences in one batch, padded to the same length. How much do the vectors of the first
change when the others change, or get more padding? With LayerNorm not at all; with BatchNorm a lot: it averages over
all.

    python examples/residual_and_norm.py        writes residual_and_norm.png
"""

from __future__ import annotations

import numpy as np
from matplotlib import pyplot as plt

import tinygrad_tf as tg
from tinygrad_tf import nn

CHANNELS, LENGTH = 32, 8
LAYERS = [3, 6, 12, 24]


def gradient_by_depth(residual: bool, layers: int = 24) -> np.ndarray:
    """The size of the gradient that reaches each of the layers, from the first to the last."""
    tg.manual_seed(0)
    stack = [nn.FeedForward(CHANNELS) for _ in range(layers)]
    x = tg.randn(LENGTH, CHANNELS, requires_grad=True)
    inputs = []
    for layer in stack:
        x.retain_grad()
        inputs.append(x)
        x = x + layer(x) if residual else layer(x)
    (x * tg.randn(LENGTH, CHANNELS)).sum().backward()
    return np.array([np.linalg.norm(t.grad.numpy()) for t in inputs])


def gradient_at_the_top(norm_first: bool, layers: int) -> float:
    """The size of the gradient of the last block's feed-forward weights; with pre-norm a last norm follows."""
    tg.manual_seed(0)
    blocks = [nn.Block(CHANNELS, 4, activation="relu", norm_first=norm_first) for _ in range(layers)]
    for parameter in (p for block in blocks for p in block.parameters() if p.ndim == 2):
        nn.init.xavier_uniform_(parameter)
    x = tg.randn(4, LENGTH, CHANNELS)
    for block in blocks:
        x = block(x, is_causal=True)
    x = nn.LayerNorm(CHANNELS)(x) if norm_first else x
    (x * tg.randn(4, LENGTH, CHANNELS)).sum().backward()
    return float(np.linalg.norm(blocks[-1].feed_forward.down.weight.grad.numpy()))


def change_by_neighbours(name: str) -> dict[str, float]:
    """How much the normalised vectors of the first sentence change when something else in the batch does."""
    tg.manual_seed(0)
    norm, first, others = nn.make_norm(name, CHANNELS), tg.randn(1, 3, CHANNELS), tg.randn(2, LENGTH, CHANNELS)

    def batch(length: int, others: tg.Tensor) -> np.ndarray:
        padded = tg.zeros(3, length, CHANNELS)
        padded[:1, :3], padded[1:, : others.shape[1]] = first, others
        return norm(padded)[0, :3].detach().numpy()

    before = batch(LENGTH, others)
    after = {
        "other neighbours": batch(LENGTH, 3 * tg.randn(2, LENGTH, CHANNELS)),
        "more padding": batch(4 * LENGTH, others),
        "alone": norm(first)[0].detach().numpy(),
    }
    return {change: float(np.abs(numbers - before).max()) for change, numbers in after.items()}


def main() -> None:
    depth = {name: gradient_by_depth(residual) for name, residual in (("x + f(x)", True), ("f(x)", False))}
    kinds = (("pre-norm", True), ("post-norm", False))
    tops = {name: np.array([gradient_at_the_top(first, layers) for layers in LAYERS]) for name, first in kinds}
    changes = {name: change_by_neighbours(kind) for name, kind in (("LayerNorm", "layer"), ("BatchNorm", "batch"))}
    for name, sizes in depth.items():
        print(f"{name:10s} gradient at layer 24: {sizes[-1]:8.2e}, at layer 1: {sizes[0]:8.2e}")
    for name, sizes in tops.items():
        each = ", ".join(f"{layers}: {size:.0f}" for layers, size in zip(LAYERS, sizes, strict=True))
        print(f"{name:10s} gradient of the last block's weights, by number of layers: {each}")
    for name, change in changes.items():
        print(f"{name:10s} change by " + ", ".join(f"{what}: {size:.3f}" for what, size in change.items()))

    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(14, 4.2), layout="constrained")
    for name, sizes in depth.items():
        left.semilogy(range(1, len(sizes) + 1), sizes, "o-", label=name)
    for name, sizes in tops.items():
        middle.loglog(LAYERS, sizes, "o-", label=name)
    middle.loglog(LAYERS, tops["pre-norm"][0] * np.sqrt(3 / np.array(LAYERS)), "--", label="1 / sqrt(layers)")
    left.set(title="gradient by depth", xlabel="layer")
    middle.set(title="gradient of the last block's weights", xlabel="number of layers", ylim=(10, 300))
    middle.set_xticks(LAYERS, LAYERS)
    middle.minorticks_off()
    for shift, (name, change) in zip((-0.2, 0.2), changes.items(), strict=True):
        bars = right.bar(np.arange(3) + shift, list(change.values()), 0.4, label=name)
        right.bar_label(bars, fmt="%.2f")
    right.set(title="change of the first sentence's vectors", xticks=range(3), xticklabels=list(changes["LayerNorm"]))
    for ax in (left, middle, right):
        ax.legend()
    figure.savefig("residual_and_norm.png", dpi=110)

    assert depth["f(x)"][0] < 1e-6 * depth["f(x)"][-1] and depth["x + f(x)"][0] > 0.5 * depth["x + f(x)"][-1]
    pre, post = (tops[name][-1] / tops[name][0] for name in ("pre-norm", "post-norm"))
    assert 0.7 < pre * np.sqrt(LAYERS[-1] / LAYERS[0]) < 1.4 and 0.7 < post < 1.4
    assert max(changes["LayerNorm"].values()) == 0.0 and min(changes["BatchNorm"].values()) > 0.1


if __name__ == "__main__":
    main()
