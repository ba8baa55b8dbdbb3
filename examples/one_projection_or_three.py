"""A query of one's own is what asking takes: where query and key are the same vector, nobody can prefer a neighbour.

Eight symbols stand in a ring, and each position is asked for the one at its left. With query = key the scores are
symmetric: i fits j as j fits i. Then a position would have to fit its left neighbour better than the one at its right,
all round the ring, each pair tighter than the last, and the last tighter than itself: at least one position must fail.
(It also fits itself best, unless its neighbour's vector is longer.) Look at the pictures: with three projections a
strip beside the diagonal; with query = key a blur on both sides of it, darkest on the diagonal itself.

The value may be shared: it says what is taken, not who is asked, and all is right with key = value or query = value.
And several heads can share the work, each with its own gap in the ring, so that with four heads even one projection for
all may do. With its own projections one head is enough.

    python examples/one_projection_or_three.py        writes one_projection_or_three.png
"""

from __future__ import annotations

import os

import numpy as np
from matplotlib import pyplot as plt

import tinygrad_tf as tg
from tinygrad_tf import nn
from tinygrad_tf.nn import functional as F

SMALL = bool(os.environ.get("TINYGRAD_TF_SMALL"))
SYMBOLS, LENGTH, CHANNELS = 8, 8, 32
STEPS, SEEDS = (150, [0]) if SMALL else (600, [0, 1, 2])
KINDS = {  # which of its projections make query, key and value
    "three projections": (0, 1, 2),
    "key = value": (0, 1, 1),
    "query = value": (0, 1, 0),
    "query = key": (0, 0, 1),
    "one for all": (0, 0, 0),
}


class Ring(nn.Module):
    """Attention with as many projections as its kind has, that is asked for the symbol at the left."""

    def __init__(self, kind: str, heads: int = 1):
        super().__init__()
        self.roles, self.heads = KINDS[kind], heads
        self.embed, self.places = nn.Embedding(SYMBOLS, CHANNELS), nn.Embedding(LENGTH, CHANNELS)
        self.projections = nn.ModuleList(nn.Linear(CHANNELS, CHANNELS) for _ in set(self.roles))
        self.out, self.read = nn.Linear(CHANNELS, CHANNELS), nn.Linear(CHANNELS, SYMBOLS)

    def heads_of(self, ids: tg.Tensor) -> list[tg.Tensor]:
        """Query, key and value (B, H, T, D)."""
        x = self.embed(ids) + self.places(tg.arange(LENGTH))
        return [self.projections[i](x).view(*ids.shape, self.heads, -1).transpose(1, 2) for i in self.roles]

    def forward(self, ids: tg.Tensor) -> tg.Tensor:
        found = F.scaled_dot_product_attention(*self.heads_of(ids))
        return self.read(self.out(found.transpose(1, 2).reshape(*ids.shape, CHANNELS)))

    def weights(self, ids: tg.Tensor) -> np.ndarray:
        """(T, T): where the positions look, the mean over heads and over the texts of ids."""
        query, key, _ = self.heads_of(ids)
        scores = query @ key.transpose(2, 3) / (CHANNELS // self.heads) ** 0.5
        return F.softmax(scores, dim=-1).detach().numpy().mean((0, 1))


def train(kind: str, heads: int = 1, seed: int = 0, steps: int = STEPS) -> tuple[Ring, float]:
    """A trained model, and its share of right answers to new rings."""
    tg.manual_seed(seed)
    model = Ring(kind, heads)
    optimizer = tg.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(steps):
        ids = tg.randint(0, SYMBOLS, (32, LENGTH))
        optimizer.zero_grad()
        F.cross_entropy(model(ids).reshape(-1, SYMBOLS), ids.roll(1, 1).reshape(-1)).backward()
        optimizer.step()
    ids = tg.randint(0, SYMBOLS, (256, LENGTH))
    return model, float((model(ids).argmax(-1) == ids.roll(1, 1)).float().mean().item())


def at_the_left(scores: np.ndarray) -> int:
    """How many positions of the ring fit their left neighbour best. With scores X X^T never all of them."""
    return int((scores.argmax(1) == (np.arange(len(scores)) - 1) % len(scores)).sum())


def draw(looks: dict[str, np.ndarray], shares: dict[tuple[str, int], list[float]], heads: list[int]) -> None:
    figure, axes = plt.subplots(1, 4, figsize=(16, 4.2), layout="constrained", width_ratios=[1, 1, 1, 1.5])
    for ax, (name, weights) in zip(axes, looks.items(), strict=False):
        ax.imshow(weights, cmap="Blues", vmin=0, vmax=1)
        ax.set(title=name, xlabel="looks at", ylabel="asks for its left neighbour")
    for shift, count in zip((-0.2, 0.2), heads, strict=False):
        means = [100 * np.mean(shares[kind, count]) for kind in KINDS]
        bars = axes[3].barh(np.arange(len(KINDS)) + shift, means, 0.4, label=f"{count} head{'s' * (count > 1)}")
        axes[3].bar_label(bars, fmt="%.0f %%", padding=2)
    axes[3].set_yticks(range(len(KINDS)), list(KINDS))
    axes[3].invert_yaxis()
    axes[3].set(title="right answers, percent", xlim=(0, 130))
    axes[3].legend(loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=2)
    figure.savefig("one_projection_or_three.png", dpi=110)


def main() -> None:
    ids, looks, shares = tg.randint(0, SYMBOLS, (256, LENGTH)), {}, {}
    heads = [1] if SMALL else [1, 4]
    for count in heads:
        for kind in KINDS:
            models = [train(kind, count, seed) for seed in SEEDS]
            shares[kind, count] = [share for _, share in models]
            if count == 1:
                looks[kind] = models[0][0].weights(ids)
            size = sum(p.numel() for p in models[0][0].parameters())
            each = ", ".join(f"{share:.0%}" for share in shares[kind, count])
            print(f"{count} head{'s' * (count > 1)}, {kind:17s} {size:,} parameters, right answers {each}")
    draw({kind: looks[kind] for kind in ("three projections", "query = key", "one for all")}, shares, heads)
    random = np.random.default_rng(0)
    most = max(at_the_left(x @ x.T) for x in random.standard_normal((2000, LENGTH, 4)))
    print(f"of 2,000 random scores X X^T, the most positions that fit their left neighbour best: {most} of {LENGTH}")

    for kind, (query, key, _) in KINDS.items():
        if query == key:  # 7 places of 8 for certain, and half a chance at the last, are the most that can be
            assert max(shares[kind, 1]) < 7 / 8 + 0.09
        else:
            assert min(shares[kind, 1]) > 0.98
    assert most < LENGTH


if __name__ == "__main__":
    main()
