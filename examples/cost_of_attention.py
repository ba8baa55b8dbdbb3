"""Attention costs n^2 d where an RNN costs n d^2: at twice the length four times the work, and as many weights.

Look at the left picture: the multiply-adds of one layer against the length n of the text. Up to n = d the scores and
sums cost no more than an RNN, up to n = 2 d no more than attention's own linear layers; above, n^2 wins. The middle
one: the memory for n x n weights, beside that of the streaming kernel, which never holds them all (FlashAttention; Dao
et al., 2022), and that of an RNN, which grows with the length as well.

The right one is time, which is measured, but not asserted: it also depends on what else the machine does. The RNN does
less work on a long text and yet takes longer, for its n steps wait for one another: each is a small product, where
attention has two large ones.

    python examples/cost_of_attention.py        writes cost_of_attention.png
"""

from __future__ import annotations

import os
import time
import tracemalloc
from collections.abc import Callable

import numpy as np
from matplotlib import pyplot as plt

import tinygrad_tf as tg
from tinygrad_tf import nn
from tinygrad_tf.nn import functional as F

LENGTHS = [64, 128, 256, 512, 1024] if os.environ.get("TINYGRAD_TF_SMALL") else [64, 128, 256, 512, 1024, 2048]
CHANNELS = 64
RUNS = ["plain attention", "streaming attention", "RNN"]


def multiply_adds(n: int, d: int) -> dict[str, int]:
    """Of one layer with d channels on a text of length n."""
    return {
        "attention: scores and sums": 2 * n * n * d,  # Q K^T, and the weights times V
        "attention: linear layers": 4 * n * d * d,  # for query, key, value and output
        "RNN": 2 * n * d * d,  # from the input and from the last state
    }


def steps_in_a_row(n: int) -> dict[str, int]:
    """How many products of matrices must wait for the one before, whatever the machine (Vaswani et al., table 1)."""
    return {"attention": 2, "RNN": n}


def plain_attention(x: tg.Tensor) -> tg.Tensor:
    return F.softmax(x @ x.transpose(-2, -1) / CHANNELS**0.5, dim=-1) @ x


def streaming_attention(x: tg.Tensor) -> tg.Tensor:
    return F.scaled_dot_product_attention(x, x, x)


def peak_memory(run: Callable[[], object]) -> int:
    """The most bytes that were held at once in arrays made by `run`, on one thread: each has its own working memory."""
    threads = tg.get_num_threads()
    tg.set_num_threads(1)
    run()  # what is compiled or kept from the first time does not count
    tracemalloc.start()
    run()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    tg.set_num_threads(threads)
    return peak


def seconds(run: Callable[[], object]) -> float:
    """The best of three."""
    times = []
    for _ in range(3):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    tg.manual_seed(0)
    rnn = nn.RNN(CHANNELS, CHANNELS, batch_first=True)
    work, memory, times = [], [], []
    for n in LENGTHS:
        x = tg.randn(1, 1, n, CHANNELS)
        assert np.allclose(plain_attention(x).numpy(), streaming_attention(x).numpy(), atol=1e-5)
        runs = [lambda x=x: plain_attention(x), lambda x=x: streaming_attention(x), lambda x=x: rnn(x[0])]
        with tg.no_grad():
            memory.append([peak_memory(run) for run in runs])
            times.append([seconds(run) * 1e3 for run in runs])
        work.append(multiply_adds(n, CHANNELS))
        print(f"n = {n:5d}: " + ", ".join(f"{name} {count:,}" for name, count in work[-1].items()))
        print("           one after the other: " + ", ".join(f"{k} {s} products" for k, s in steps_in_a_row(n).items()))
        print("           bytes of memory: " + ", ".join(f"{k} {b:,}" for k, b in zip(RUNS, memory[-1], strict=True)))
        print("           milliseconds: " + ", ".join(f"{k} {t:.2f}" for k, t in zip(RUNS, times[-1], strict=True)))

    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(16, 4.4), layout="constrained")
    for name in work[0]:
        left.loglog(LENGTHS, [counts[name] for counts in work], "o-", label=name)
    left.axvline(2 * CHANNELS, linestyle="--", color="gray", label="n = 2 d")
    left.set(title=f"multiply-adds of a layer, d = {CHANNELS}", xlabel="length n")
    for ax, measured in ((middle, memory), (right, times)):
        for name, sizes in zip(RUNS, zip(*measured, strict=True), strict=True):
            ax.loglog(LENGTHS, sizes, "o-", label=name)
    middle.set(title="memory in bytes", xlabel="length n")
    right.set(title="time in milliseconds", xlabel="length n")
    for ax in (left, middle, right):
        ax.set_xticks(LENGTHS, LENGTHS)
        ax.minorticks_off()
        ax.legend()
    figure.savefig("cost_of_attention.png", dpi=110)

    one, two = multiply_adds(1000, 512), multiply_adds(2000, 512)
    assert [two[name] / one[name] for name in one] == [4.0, 2.0, 2.0]
    even = multiply_adds(2 * CHANNELS, CHANNELS)
    assert even["attention: scores and sums"] == even["attention: linear layers"]
    grown = dict(zip(RUNS, (now / before for now, before in zip(memory[-1], memory[-2], strict=True)), strict=True))
    assert grown["plain attention"] > 3 > max(grown["streaming attention"], grown["RNN"])
    assert memory[-1][1] < memory[-1][0]


if __name__ == "__main__":
    main()
