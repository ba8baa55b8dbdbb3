"""Trained on true texts alone, a model does not recover from its own mistakes; scheduled sampling teaches it to.

The task is a round trip: from the town that is named first, always the same way, eleven stops. Under teacher forcing
the model reads the true stops before each one that it has to say, and the last of them is all that it needs. When it
writes by itself it reads what it wrote, and now and then a stop comes out wrong (here one in ten, by a slip of the
pen). Look at the left picture: reading the truth it is always right, but of what it writes fewer and fewer stops are
right, as (1 - 1/10)^t would have it: it goes on from where it should not be. That is exposure bias. With scheduled
sampling (Bengio et al., 2015) more and more of what it reads in training is its own. It learns to look at the first
town, too, and a slip costs one stop; the right picture shows that for one mistake, planted at the fourth.

What it reads must hold mistakes, though: the likeliest stops of a model that is right are just the truth again, and
stops drawn at temperature 1 change next to nothing (the third curve). At temperature 6 they are wrong often enough.

    python examples/exposure_bias.py        writes exposure_bias.png
"""

from __future__ import annotations

import os
from functools import partial

import numpy as np
from matplotlib import pyplot as plt

import tinygrad_tf as tg
from tinygrad_tf import nn
from tinygrad_tf.nn import functional as F
from tinygrad_tf.training.scheduled_sampling import mixed_inputs, shift_right, teacher_share

TOWNS, STOPS, CHANNELS, BATCH = 12, 11, 32, 32
START = TOWNS
SLIP, PLANTED = 0.1, 3
STEPS = 240 if os.environ.get("TINYGRAD_TF_SMALL") else 400
WAYS = {"teacher forcing": None, "scheduled sampling": 6.0, "the same at temperature 1": 1.0}


def trips(first: np.ndarray) -> np.ndarray:
    """(B, STOPS): the stops behind the first town; the way leads through all towns in an order of its own."""
    order = np.random.default_rng(3).permutation(TOWNS)
    place = np.argsort(order)[first]
    return order[(place[:, None] + np.arange(1, STOPS + 1)) % TOWNS]


class Traveller(nn.Module):
    """A small decoder that reads the first town, a start token, and the stops so far."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.places = nn.Embedding(TOWNS + 1, CHANNELS), nn.LearnedPositions(STOPS + 1, CHANNELS)
        self.blocks = nn.ModuleList(nn.Block(CHANNELS, 2) for _ in range(2))
        self.read = nn.Linear(CHANNELS, TOWNS)

    def forward(self, first: tg.Tensor, stops: tg.Tensor) -> tg.Tensor:
        """first (B,) and stops (B, T), the start token before them, to logits (B, T, towns)."""
        x = self.places(self.embed(tg.cat([first.unsqueeze(1), stops], 1)))
        for block in self.blocks:
            x = block(x, is_causal=True)
        return self.read(x)[:, 1:]


def train(temperature: float | None, steps: int = STEPS, seed: int = 0) -> Traveller:
    """With what is read drawn from the model at a temperature, more and more of it; None: with the truth alone."""
    tg.manual_seed(seed)
    random = np.random.default_rng(seed)
    model = Traveller()
    optimizer = tg.optim.Adam(model.parameters(), lr=3e-3)
    for step in range(steps):
        towns = random.integers(0, TOWNS, BATCH)
        first, wanted = tg.tensor(towns), tg.tensor(trips(towns))
        read = shift_right(wanted, START)
        if temperature is not None:
            share = teacher_share(step, "linear", k=steps / 2)
            decode = partial(model, first)
            read = mixed_inputs(decode, read, share, random, temperature=temperature)
        loss = F.cross_entropy(model(first, read).reshape(-1, TOWNS), wanted.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


def write(model: Traveller, first: np.ndarray, slips: np.ndarray) -> np.ndarray:
    """(B, STOPS): what the model writes by itself; where `slips` is True another town comes out."""
    random, ids = np.random.default_rng(4), np.full((len(first), 1), START)
    with tg.no_grad():
        for t in range(STOPS):
            town = model(tg.tensor(first), tg.tensor(ids)).numpy()[:, -1].argmax(-1)
            other = (town + random.integers(1, TOWNS, len(first))) % TOWNS
            ids = np.concatenate([ids, np.where(slips[:, t], other, town)[:, None]], 1)
    return ids[:, 1:]


def shares_right(model: Traveller, count: int = 600) -> dict[str, np.ndarray]:
    """(STOPS,): the share of right stops, reading the truth, writing with slips, and behind one planted mistake."""
    random = np.random.default_rng(5)
    first = random.integers(0, TOWNS, count)
    wanted, slips = trips(first), random.random((count, STOPS)) < SLIP
    with tg.no_grad():
        told = model(tg.tensor(first), shift_right(tg.tensor(wanted), START)).numpy().argmax(-1)
    planted = np.zeros_like(slips)
    planted[:, PLANTED] = True
    written = {
        "reading the truth": told,
        "writing": write(model, first, slips),
        "one mistake": write(model, first, planted),
    }
    return {name: (ids == wanted).mean(0) for name, ids in written.items()}


def draw(shares: dict[str, dict[str, np.ndarray]]) -> None:
    figure, (left, right) = plt.subplots(1, 2, figsize=(13, 4.2), layout="constrained", sharey=True)
    stops = np.arange(1, STOPS + 1)
    for name, found in shares.items():
        left.plot(stops, found["writing"], "o-", label=f"{name}: writing")
        right.plot(stops, found["one mistake"], "o-", label=name)
    left.plot(
        stops,
        shares["teacher forcing"]["reading the truth"],
        color="tab:blue",
        linestyle=":",
        label="reading the truth",
    )
    left.plot(stops, (1 - SLIP) ** stops, "--", color="gray", label="(1 - 1/10)^t")
    left.set(title="share of right stops, one slip in ten", xlabel="stop", ylim=(-0.05, 1.05))
    right.set(title="share of right stops, one planted mistake", xlabel="stop")
    left.legend(fontsize=8)
    right.legend(fontsize=8, loc="center right")
    figure.savefig("exposure_bias.png", dpi=110)


def main() -> None:
    shares = {name: shares_right(train(temperature)) for name, temperature in WAYS.items()}
    for name, found in shares.items():
        print(name)
        for what, share in found.items():
            print(f"    {what:18s}" + "".join(f"{part:5.2f}" for part in share))
    print(f"    (1 - 1/10)^t      {''.join(f'{(1 - SLIP) ** t:5.2f}' for t in range(1, STOPS + 1))}")
    draw(shares)

    forced, scheduled, cold = shares.values()
    assert forced["reading the truth"].min() > 0.95 and scheduled["reading the truth"].mean() > 0.8
    assert np.abs(forced["writing"] - (1 - SLIP) ** np.arange(1, STOPS + 1)).max() < 0.08
    assert scheduled["writing"][-1] > forced["writing"][-1] + 0.1
    behind = slice(PLANTED + 1, None)
    assert forced["one mistake"][behind].max() < 0.2 and cold["one mistake"][behind].max() < 0.3
    assert scheduled["one mistake"][behind].mean() > 0.5


if __name__ == "__main__":
    main()
