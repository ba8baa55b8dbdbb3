"""Numerical derivatives for the tests: central differences, element by element, in float64.

Independent of the package's own gradient checker, so that neither can hide a fault of the other. Most of the time of
the tests is spent here, so that every evaluation serves all gradients that can be compared with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tinygrad_tf import Tensor, as_tensor, engine, no_grad, use_reference

Function = Callable[[], Tensor]
Gradients = Sequence[Tensor | None]
STEP = 3e-5  # where the error of the formula, step^2, and that of rounding, 1e-16 / step, are together least


def numeric_gradients(values: Callable[[], np.ndarray], array: np.ndarray) -> np.ndarray:
    """d values / d array, a row for each value, by central differences (right to some 1e-8 over the table)."""
    columns = []
    for place in np.ndindex(array.shape):
        kept = array[place].copy()
        array[place] = kept + STEP
        up = values()
        array[place] = kept - STEP
        columns.append((up - values()) / (2 * STEP))
        array[place] = kept
    return np.stack(columns, axis=-1).reshape(-1, *array.shape) if columns else np.zeros((1, *array.shape))


def worst_error(values: Callable[[], np.ndarray], leaves: Sequence[Tensor], found: Sequence[Gradients]) -> float:
    """The worst error of the gradients found, those of one value or one set for each, relative to the largest entry."""
    worst = 0.0
    for position, leaf in enumerate(leaves):
        numeric = numeric_gradients(values, leaf.array)
        analytic = [gradients[position] for gradients in found]
        for gradient, wanted in zip(analytic, np.broadcast_to(numeric, (len(found), *leaf.shape)), strict=True):
            got = np.zeros(leaf.shape) if gradient is None else gradient.array
            assert got.shape == wanted.shape, (got.shape, wanted.shape)
            assert np.isfinite(got).all() and np.isfinite(wanted).all()
            if wanted.size:
                scale = max(np.abs(wanted).max(), np.abs(got).max(), 1e-3)
                worst = max(worst, float(np.abs(got - wanted).max() / scale))
    return worst


def first_order_error(function: Function, leaves: Sequence[Tensor]) -> float:
    """The worst error of the gradients of a random projection: those by kernels, and those by references.

    Both have the same values, which is made sure of, so that one numerical derivative is compared with both.
    """
    out = function()
    cotangent = np.random.default_rng(0).normal(size=out.shape)
    found = []
    for reference in (False, True):
        with use_reference(reference):
            again = function()
            scale = max(1.0, float(np.abs(out.array).max(initial=0.0)))
            np.testing.assert_allclose(again.array, out.array, rtol=0, atol=1e-10 * scale)
            found.append(gradients_of((again * as_tensor(cotangent)).sum(), leaves))

    def values() -> np.ndarray:
        with no_grad():
            return (function().array * cotangent).sum(keepdims=True).reshape(1)

    return worst_error(values, leaves, found)


def second_order_error(function: Function, leaves: Sequence[Tensor], square: bool = False) -> float:
    """The worst error of the gradients of a random projection of the first gradients.

    square: of those of the function's square, too. What comes down to each rule depends on the leaves then, and is no
    constant.
    """
    out = function()
    rng = np.random.default_rng(0)
    cotangent = rng.normal(size=out.shape)
    directions = [rng.normal(size=leaf.shape) for leaf in leaves]

    def slope(out: Tensor) -> Tensor:
        first = engine.grad([(out * as_tensor(cotangent)).sum()], leaves, [None], create_graph=True)
        parts = [(g * as_tensor(d)).sum() for g, d in zip(first, directions, strict=True) if g is not None]
        return sum(parts[1:], parts[0])

    def slope_by_arrays(out: Tensor, cotangent: np.ndarray) -> float:
        """By the rules on arrays, which order 1 tests, in a third of the time: those on tensors are tested here."""
        above = as_tensor(cotangent.astype(out.array.dtype, copy=False))
        first = engine.grad([out], leaves, [above], retain_graph=True)
        return sum(float((g.array * d).sum()) for g, d in zip(first, directions, strict=True) if g is not None)

    def values() -> np.ndarray:
        out = function()
        slopes = [slope_by_arrays(out, cotangent)]
        return np.array([*slopes, slope_by_arrays(out, 2 * out.array * cotangent)] if square else slopes)

    found = [gradients_of(slope(out), leaves)]
    if square:
        again = function()
        found.append(gradients_of(slope(again * again), leaves))
    return worst_error(values, leaves, found)


def gradients_of(out: Tensor, leaves: Sequence[Tensor]) -> Gradients:
    """None for each leaf where there is nothing to differentiate: a linear function has a constant gradient."""
    return engine.grad([out], leaves, [None]) if out.requires_grad else [None] * len(leaves)


def main() -> None:
    """`python -m tests.differences`: the worst errors of the table of everything differentiable."""
    from tinygrad_tf.checks import CASES

    for order in (1, 2):
        errors = []
        for case in CASES:
            if case.order >= order:
                function, leaves = case.build(np.random.default_rng(sum(map(ord, case.name))), np.float64)
                error = first_order_error if order == 1 else second_order_error
                errors.append((error(function, leaves), case.name))
        errors.sort(reverse=True)
        worst = ", ".join(f"{name} {error:.1e}" for error, name in errors[:5])
        print(f"order {order}: {len(errors)} rows, worst errors relative to the largest entry of each input: {worst}")


if __name__ == "__main__":
    main()
