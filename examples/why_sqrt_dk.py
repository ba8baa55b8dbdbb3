"""Scores are divided by sqrt(d_k) because without it their variance is d_k, and softmax stops to learn.

Look at the left picture: 10,000 dot products of random vectors of 512 numbers spread over -75 ... 75; divided by
sqrt(512) = 22.6 they have variance 1 again. The middle one says why that matters: softmax over two scores is the
sigmoid of their difference, so that its gradient p (1 - p) vanishes in the same way. The third one: the gradient that
gets through softmax when heads grow, with and without the division. The last one is training: one head of 128 channels
learns to write a row backwards. Divided by sqrt(d_k) it has learned it after 40 steps; undivided it jumps from one
certainty to the next and does not settle; divided by d_k all weights are alike for long, and it starts late.

The table of evenness divides the scores of a head of d_k = 64 by other sizes that look alike in code: sqrt(d_model)
makes every head blur, d_model makes it blind, and the length of the text makes the same words attend differently in a
longer text.

    python examples/why_sqrt_dk.py        writes why_sqrt_dk.png
"""

from __future__ import annotations

import math
import os

import numpy as np
from matplotlib import pyplot as plt

import tinygrad_tf as tg
from tinygrad_tf import nn
from tinygrad_tf.nn import functional as F

SIZES = (4, 16, 64, 256, 1024)
STEPS = 40 if os.environ.get("TINYGRAD_TF_SMALL") else 120


def dot_products(count: int = 10_000, size: int = 512) -> np.ndarray:
    """`count` products of two vectors of `size` independent numbers with mean 0 and variance 1."""
    tg.manual_seed(0)
    return (tg.randn(count, size) * tg.randn(count, size)).sum(-1).numpy()


def softmax_of_two(differences: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The gradients, at each difference z, of softmax([z, 0])[0] and of sigmoid(z)."""
    z, y = (tg.tensor(differences, requires_grad=True) for _ in range(2))
    F.softmax(tg.stack([z, tg.zeros_like(z)], -1), dim=-1)[:, 0].sum().backward()
    y.sigmoid().sum().backward()
    return z.grad.numpy(), y.grad.numpy()


def softmax_gradient(size: int, divisor: float, rows: int = 500, keys: int = 10) -> float:
    """The size of the gradient that passes through softmax over the scores of `keys` keys: median of many rows."""
    tg.manual_seed(1)
    query, key = tg.randn(rows, 1, size), tg.randn(rows, keys, size)
    scores = ((query * key).sum(-1) / divisor).requires_grad_()
    (F.softmax(scores, dim=-1) * tg.randn(rows, keys)).sum().backward()
    return float(np.median(np.linalg.norm(scores.grad.numpy(), axis=-1)))


def evenness(divisor: float, size: int = 64, rows: int = 200, keys: int = 10) -> float:
    """The entropy of attention over `keys` keys as a share of the largest: 1 is the same weight for all, 0 one key."""
    tg.manual_seed(2)
    weights = F.softmax((tg.randn(rows, 1, size) * tg.randn(rows, keys, size)).sum(-1) / divisor, dim=-1).numpy()
    return float(-(weights * np.log(weights + 1e-30)).sum(-1).mean() / math.log(keys))


def train(divisor: float, size: int = 128, steps: int = STEPS, seed: int = 1) -> list[float]:
    """The loss at each step of one head that learns to write eight symbols backwards, by plain gradient descent.

    Its queries and keys start with mean 0 and variance 1, as the argument for sqrt(d_k) has it.
    """
    tg.manual_seed(seed)
    embed, places, read = nn.Embedding(8, size), nn.Embedding(8, size), nn.Linear(size, 8)
    projections = [nn.Linear(size, size, bias=False) for _ in range(3)]
    for projection in projections[:2]:
        nn.init.normal_(projection.weight, std=size**-0.5)
    parameters = [p for part in (embed, places, read, *projections) for p in part.parameters()]
    optimizer, losses = tg.optim.SGD(parameters, lr=0.5), []
    for _ in range(steps):
        ids = tg.randint(0, 8, (16, 8))
        x = (embed(ids) + places(tg.arange(8))) / math.sqrt(2)
        query, key, value = (projection(x) for projection in projections)
        logits = read(F.scaled_dot_product_attention(query, key, value, scale=1 / divisor))
        loss = F.cross_entropy(logits.reshape(-1, 8), ids.flip(1).reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def draw(products: np.ndarray, plain: list[float], divided: list[float], training: dict[str, list[float]]) -> None:
    figure, (left, middle, right, last) = plt.subplots(1, 4, figsize=(18, 4), layout="constrained")
    left.hist(products, 80, color="tab:red", alpha=0.6, label="q·k", density=True)
    left.hist(products / math.sqrt(512), 20, color="tab:blue", alpha=0.6, label="q·k / sqrt(512)", density=True)
    left.set(title="10,000 dot products of 512 numbers", yscale="log")
    z = np.linspace(-12, 12, 200)
    for gradient, name, style in zip(softmax_of_two(z), ("softmax of two", "sigmoid"), ("-", "--"), strict=True):
        middle.plot(z, gradient, style, label=name, linewidth=2)
    middle.set(title="gradient", xlabel="difference of the two scores")
    right.loglog(SIZES, plain, "o-", color="tab:red", label="scores as they are")
    right.loglog(SIZES, divided, "o-", color="tab:blue", label="divided by sqrt(d_k)")
    right.set(title="gradient through softmax over 10 keys (median)", xlabel="d_k")
    for name, losses in training.items():
        last.plot(losses, label=name)
    last.set(title="training: scores of d_k = 128 divided by", xlabel="step", ylabel="loss", ylim=(0, 2.6))
    for ax in (left, middle, right, last):
        ax.legend()
    figure.savefig("why_sqrt_dk.png", dpi=110)


def main() -> None:
    products = dot_products()
    print(f"variance of q·k with 512 numbers: {products.var():.1f}; of q·k / sqrt(512): {products.var() / 512:.3f}")
    z = np.array([0.0, 2.0, 5.0, 10.0])
    for difference, two, one in zip(z, *softmax_of_two(z), strict=True):
        print(f"scores that differ by {difference:4.0f}: gradient of softmax {two:.6f}, of sigmoid {one:.6f}")
    plain = [softmax_gradient(size, 1.0) for size in SIZES]
    divided = [softmax_gradient(size, math.sqrt(size)) for size in SIZES]
    for size, without, with_ in zip(SIZES, plain, divided, strict=True):
        print(f"d_k = {size:4d}: gradient through softmax {without:.2e} as it is, {with_:.2e} divided by sqrt(d_k)")
    wrong = {"sqrt(d_k) = 8": 8, "sqrt(d_model) = 22.6": 512**0.5, "d_model = 512": 512, "1": 1}
    wrong |= {f"sqrt(length), length {n}": n**0.5 for n in (10, 1000)}
    even = {name: evenness(divisor) for name, divisor in wrong.items()}
    for name, share in even.items():
        print(f"scores divided by {name:25s} evenness of attention {share:.3f}")
    training = {name: train(divisor) for name, divisor in (("1", 1.0), ("sqrt(d_k)", 128**0.5), ("d_k", 128.0))}
    late = {name: float(np.mean(losses[20:40])) for name, losses in training.items()}
    for name, losses in training.items():
        print(
            f"trained, divided by {name:9s} loss {late[name]:.3f} in steps 20 to 40, {np.mean(losses[-10:]):.3f} last"
        )
    draw(products, plain, divided, training)

    assert abs(products.var() / 512 - 1) < 0.05
    assert np.allclose(*softmax_of_two(z), atol=1e-7)
    assert plain[-1] < 1e-3 * plain[0] and divided[-1] > 0.5 * divided[0]
    assert even["1"] < 0.3 < even["sqrt(d_k) = 8"] < 0.9 < even["sqrt(d_model) = 22.6"] < even["d_model = 512"]
    assert late["sqrt(d_k)"] < 0.2 < 0.3 < late["1"] and late["d_k"] > 0.6
    assert even["sqrt(length), length 10"] < even["sqrt(d_k) = 8"] < even["sqrt(length), length 1000"]


if __name__ == "__main__":
    main()
