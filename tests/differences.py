"""Numerical derivatives for the tests: extrapolated central differences, element by element, in float64.

Independent of the package's own gradient checker, so that neither can hide a fault of the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tinygrad_tf import Tensor, as_tensor, engine, no_grad


def numeric_gradient(value: Callable[[], float], array: np.ndarray, step: float = 1e-3) -> np.ndarray:
    """d value / d array, by two central differences and one of Richardson's extrapolations (error of order step^4)."""
    gradient = np.zeros(array.shape)
    for place in np.ndindex(array.shape):
        kept = array[place].copy()
        slopes = []
        for h in (step, step / 2):
            array[place] = kept + h
            up = value()
            array[place] = kept - h
            down = value()
            slopes.append((up - down) / (2 * h))
        array[place] = kept
        gradient[place] = (4 * slopes[1] - slopes[0]) / 3
    return gradient


def worst_error(function: Callable[[], Tensor], leaves: Sequence[Tensor], order: int, seed: int = 0) -> float:
    """The worst error of the analytic gradient of a random projection, relative to the largest entry of each input's.

    order 2 differentiates a random projection of the first gradients once more.
    """
    rng = np.random.default_rng(seed)
    cotangent = rng.normal(size=function().shape)
    directions = [rng.normal(size=leaf.shape) for leaf in leaves]

    def projected() -> Tensor:
        return (function() * as_tensor(cotangent)).sum()

    def first(recorded: bool) -> list[tuple[Tensor, np.ndarray]]:
        """The gradients that there are, each with its direction."""
        gradients = engine.grad([projected()], leaves, [None], create_graph=recorded)
        return [(g, d) for g, d in zip(gradients, directions, strict=True) if g is not None]

    def slope() -> Tensor:
        parts = [(gradient * as_tensor(direction)).sum() for gradient, direction in first(recorded=True)]
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        return total

    def value() -> float:
        if order == 1:
            with no_grad():
                return projected().item()
        # By the rules on arrays, which order 1 tests, in a third of the time: those on tensors are what is tested here.
        return sum(float((gradient.array * direction).sum()) for gradient, direction in first(recorded=False))

    out = projected() if order == 1 else slope()
    linear = not out.requires_grad  # a linear function has a constant gradient
    analytic = [None] * len(leaves) if linear else engine.grad([out], leaves, [None])
    worst = 0.0
    for leaf, gradient in zip(leaves, analytic, strict=True):
        numeric = numeric_gradient(value, leaf.array)
        found = np.zeros(leaf.shape) if gradient is None else gradient.array
        assert found.shape == numeric.shape, (found.shape, numeric.shape)
        assert np.isfinite(found).all() and np.isfinite(numeric).all()
        if numeric.size:
            scale = max(np.abs(numeric).max(), np.abs(found).max(), 1e-3)
            worst = max(worst, float(np.abs(found - numeric).max() / scale))
    return worst


def main() -> None:
    """`python -m tests.differences`: the worst errors of the table of everything differentiable."""
    from tinygrad_tf.checks import CASES

    for order in (1, 2):
        errors = []
        for case in CASES:
            if case.order >= order:
                function, leaves = case.build(np.random.default_rng(sum(map(ord, case.name))), np.float64)
                errors.append((worst_error(function, leaves, order), case.name))
        errors.sort(reverse=True)
        worst = ", ".join(f"{name} {error:.1e}" for error, name in errors[:5])
        print(f"order {order}: {len(errors)} rows, worst errors relative to the largest entry of each input: {worst}")


if __name__ == "__main__":
    main()
