"""A unit learns where the gradient of its activation is not 0: sigmoid and tanh lose it on both sides, ReLU on one.

Look at the dashed lines, the gradients. Those of sigmoid (at most 0.25) and tanh are near 0 from about |x| = 5, that of
ReLU is exactly 0 on the left: a unit that is negative for every example never changes again. GELU and SiLU are smooth,
and fall a little before they rise: around there they still learn.

Gradients of layers multiply: the number in each title is what is left of one behind 20 layers of 64 units (weights of
variance 1 / 64, no residuals). Of sigmoid's less than a millionth of a millionth.

    python examples/activations.py        writes activations.png
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from matplotlib import pyplot as plt

import tinygrad_tf as tg
from tinygrad_tf.nn import functional as F

ACTIVATIONS: dict[str, Callable[[tg.Tensor], tg.Tensor]] = {
    "sigmoid": tg.sigmoid,
    "tanh": tg.tanh,
    "ReLU": F.relu,
    "leaky ReLU": partial(F.leaky_relu, negative_slope=0.1),
    "GELU": F.gelu,
    "GELU, by tanh": partial(F.gelu, approximate="tanh"),
    "SiLU": F.silu,
    "softplus": F.softplus,
}


def curve(activation: Callable[[tg.Tensor], tg.Tensor], points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The activation and, by backward, its gradient at each of the points."""
    x = tg.tensor(points, requires_grad=True)
    y = activation(x)
    y.sum().backward()
    return y.detach().numpy(), x.grad.numpy()


def through_layers(activation: Callable[[tg.Tensor], tg.Tensor], layers: int = 20, units: int = 64) -> float:
    """The size of the gradient at the input of a stack of fresh layers, as a part of that at its output."""
    tg.manual_seed(0)
    x = tg.randn(32, units, requires_grad=True)
    y, at_the_top = x, tg.randn(32, units)
    for _ in range(layers):
        y = activation(y @ (tg.randn(units, units) / units**0.5))
    y.backward(at_the_top)
    return float(x.grad.norm() / at_the_top.norm())


def main() -> None:
    points = np.linspace(-6, 6, 241)
    figure, axes = plt.subplots(2, 4, figsize=(13, 6), sharex=True, layout="constrained")
    print("gradient at             -5         0         5   largest   behind 20 layers")
    left = {name: through_layers(activation) for name, activation in ACTIVATIONS.items()}
    for ax, (name, activation) in zip(axes.flat, ACTIVATIONS.items(), strict=True):
        values, gradients = curve(activation, points)
        ax.axhline(0, color="gray", linewidth=0.5)
        ax.plot(points, values, label="value")
        ax.plot(points, gradients, "--", label="gradient")
        ax.set(title=f"{name}: {left[name]:.0e}", ylim=(-1.2, 2.5), xlabel="x")
        ax.label_outer()
        row = "".join(f"{curve(activation, np.array([at]))[1][0]:10.5f}" for at in (-5.0, 0.0, 5.0))
        print(f"{name:14s}{row}{gradients.max():10.5f}{left[name]:19.0e}")
        step = 1e-5  # the slope between two near points says the same as backward, except at a corner
        slope = (curve(activation, points + step)[0] - curve(activation, points - step)[0]) / (2 * step)
        smooth = np.abs(points) > step
        assert np.allclose(gradients[smooth], slope[smooth], atol=1e-6), name
    axes[0, 0].legend()
    figure.suptitle("beside each name: the share of the gradient that is left behind 20 layers")
    figure.savefig("activations.png", dpi=110)

    ends = np.array([-5.0, 5.0])
    assert (curve(tg.sigmoid, ends)[1] < 0.01).all() and (curve(tg.tanh, ends)[1] < 0.01).all()
    assert curve(tg.sigmoid, points)[1].max() <= 0.25
    assert (curve(F.relu, points)[1][points < 0] == 0).all()
    assert left["sigmoid"] < 1e-12 < 1e-6 < min(left["ReLU"], left["tanh"])
    assert curve(F.gelu, points)[1].min() < -0.1 and curve(F.silu, points)[1].min() < -0.05


if __name__ == "__main__":
    main()
