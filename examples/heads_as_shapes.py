"""Heads are a reshape, then a transpose; the other way gives the same shapes, no error, and a model that fails.

(2, 10, 512) is seen as (2, 10, 8, 64), and heads and positions change places: (2, 8, 10, 64). Asking for (2, 8, 10, 64)
at once gives the same shape. Here each number says where it comes from (position * 1000 + channel), so look at the
picture: rightly split, the ten rows of a head are the ten positions; wrongly split, a head holds all channels of one
position and a part of another, and can never see the rest. Both are trained to reverse a sequence. Only one learns.

How would one find it without training? Ask what depends on what. With a causal mask each output depends on all inputs
up to its own and on no later one. With the wrong order twice it is blind to many of the earlier; with a wrong split and
a right merge it sees later ones as well, for "row t of a head" is not position t any more.

    python examples/heads_as_shapes.py        writes heads_as_shapes.png
"""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
from matplotlib import pyplot as plt

import tinygrad_tf as tg
from tinygrad_tf import nn
from tinygrad_tf.nn import functional as F

B, T, C, H = 2, 10, 512, 8
STEPS = 200 if os.environ.get("TINYGRAD_TF_SMALL") else 300


def split(x: tg.Tensor, heads: int) -> tg.Tensor:
    """(B, T, C) to (B, H, T, D)."""
    return x.view(x.shape[0], x.shape[1], heads, -1).transpose(1, 2)


def split_wrongly(x: tg.Tensor, heads: int) -> tg.Tensor:
    """The same shapes, but the numbers stay in their old order in memory."""
    return x.reshape(x.shape[0], heads, x.shape[1], -1)


def merge(x: tg.Tensor) -> tg.Tensor:
    """(B, H, T, D) back to (B, T, C). After transpose memory is in another order, so view needs contiguous()."""
    return x.transpose(1, 2).contiguous().view(x.shape[0], x.shape[2], -1)


def merge_wrongly(x: tg.Tensor) -> tg.Tensor:
    return x.reshape(x.shape[0], x.shape[2], -1)


def where_from() -> tg.Tensor:
    """x (B, T, C), each number position * 1000 + channel."""
    return (tg.arange(T).view(1, T, 1) * 1000 + tg.arange(C)).expand(B, T, C).contiguous()


def view_error() -> str:
    """What view says to a tensor that is not contiguous."""
    try:
        split(where_from(), H).view(B, T, C)
    except RuntimeError as error:
        return str(error)
    return ""


def dependence(
    split_heads: Callable[[tg.Tensor, int], tg.Tensor], merge_heads: Callable[[tg.Tensor], tg.Tensor]
) -> np.ndarray:
    """(6, 6): whether output t of causal attention depends on input s at all."""
    tg.manual_seed(0)
    x, rows = tg.randn(1, 6, 8, requires_grad=True), []
    for t in range(6):
        x.grad = None
        heads = split_heads(x, 2)
        merge_heads(F.scaled_dot_product_attention(heads, heads, heads, is_causal=True))[0, t].sum().backward()
        rows.append(np.abs(x.grad[0].numpy()).sum(-1) > 0)
    return np.array(rows)


def learn_to_reverse(
    split_heads: Callable[[tg.Tensor, int], tg.Tensor],
    merge_heads: Callable[[tg.Tensor], tg.Tensor],
    steps: int = STEPS,
    length: int = 8,
    symbols: int = 6,
) -> float:
    """The share of right symbols after training one attention layer to write a sequence backwards."""
    tg.manual_seed(0)
    channels, heads = 32, 4
    embed, places = nn.Embedding(symbols, channels), nn.Embedding(length, channels)
    into, out, read = nn.Linear(channels, 3 * channels), nn.Linear(channels, channels), nn.Linear(channels, symbols)
    parameters = [p for part in (embed, places, into, out, read) for p in part.parameters()]
    optimizer = tg.optim.Adam(parameters, lr=1e-2)
    for _ in range(steps + 1):
        ids = tg.randint(0, symbols, (32, length))
        query, key, value = (split_heads(t, heads) for t in into(embed(ids) + places(tg.arange(length))).chunk(3, -1))
        logits = read(out(merge_heads(F.scaled_dot_product_attention(query, key, value))))
        loss = F.cross_entropy(logits.reshape(-1, symbols), ids.flip(1).reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return float((logits.argmax(-1) == ids.flip(1)).float().mean().item())


def draw(right: np.ndarray, wrong: np.ndarray) -> None:
    figure, axes = plt.subplots(1, 2, figsize=(12, 4.4), layout="constrained")
    for ax, positions, name in zip(axes, (right, wrong), ("reshape, then transpose", "reshape at once"), strict=True):
        ax.imshow(positions, cmap="viridis")
        for (i, j), position in np.ndenumerate(positions):
            ax.text(j, i, position, ha="center", va="center", color="white" if position < 7 else "black")
        ax.set(title=f"{name}: where each row begins", xlabel="row of the head", ylabel="head")
    figure.savefig("heads_as_shapes.png", dpi=110)


def main() -> None:
    x = where_from()
    right, wrong = split(x, H), split_wrongly(x, H)
    shapes = x, x.view(B, T, H, C // H), right, right @ right.transpose(2, 3), merge(right)
    for name, t in zip(("input", "reshape", "transpose", "scores", "merged"), shapes, strict=True):
        print(f"{name:10s} {tuple(t.shape)}")
    print(f"wrongly    {tuple(wrong.shape)}, the same shape as transpose")
    starts = [(t[0, :, :, 0].numpy() // 1000).astype(int) for t in (right, wrong)]
    for name, positions in zip(("rightly", "wrongly"), starts, strict=True):
        print(f"{name} split, the rows of head 0 begin at the positions {positions[0].tolist()}")
    print(f"view after transpose: {view_error()}")
    draw(*starts)
    pairs = {
        "both right": (split, merge),
        "both wrong": (split_wrongly, merge_wrongly),
        "split alone wrong": (split_wrongly, merge),
    }
    causal = np.tri(6, dtype=bool)
    blind, leaks = {}, {}
    for name, (divide, join) in pairs.items():
        depends = dependence(divide, join)
        blind[name], leaks[name] = int((causal & ~depends).sum()), int((depends & ~causal).sum())
        print(
            f"causal, {name:17s}: {blind[name]} of 21 inputs up to an output's own place have no effect on it,", end=" "
        )
        print(f"{leaks[name]} of 15 later ones have")
    learned, failed = learn_to_reverse(split, merge), learn_to_reverse(split_wrongly, merge_wrongly)
    print(f"reversing a sequence: {learned:.0%} right with the right order, {failed:.0%} with the wrong one")

    assert right.shape == wrong.shape == (2, 8, 10, 64)
    assert (merge(right) == x).all() and not (merge_wrongly(right) == x).all()
    assert all(set(row) == set(range(T)) for row in starts[0]) and all(len(set(row)) <= 3 for row in starts[1])
    assert "contiguous" in view_error()
    assert blind["both right"] == leaks["both right"] == 0 < min(blind["both wrong"], leaks["split alone wrong"])
    assert learned > 0.95 and failed < 0.6


if __name__ == "__main__":
    main()
