"""Every row of the table: derivatives of both orders, both float types, strides, inputs left alone, twins agree."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from tests.differences import first_order_error, second_order_error
from tinygrad_tf import Tensor, as_tensor, engine, kernels, ops, regions, use_reference
from tinygrad_tf.checks import CASES, Case
from tinygrad_tf.creation import _kinds, counted, drawn, filled, given
from tinygrad_tf.ops.elementwise import arithmetic, choices, functions

every_case = pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)


SMALL = 64  # elements of all leaves together


def rng_of(case: Case) -> np.random.Generator:
    return np.random.default_rng(sum(map(ord, case.name)))


def is_small(leaves: Sequence[Tensor]) -> bool:
    return sum(leaf.numel() for leaf in leaves) <= SMALL


@every_case
def test_first_order(case: Case) -> None:
    """By kernels, and by references."""
    assert first_order_error(*case.build(rng_of(case), np.float64)) < 1e-6


@pytest.mark.parametrize("case", [c for c in CASES if c.order == 2], ids=lambda c: c.name)
def test_second_order(case: Case) -> None:
    """Of small rows also where the gradient from above depends on the leaves."""
    function, leaves = case.build(rng_of(case), np.float64)
    assert second_order_error(function, leaves, square=is_small(leaves)) < 1e-4


@pytest.mark.parametrize("case", [c for c in CASES if c.strides], ids=lambda c: c.name)
def test_strided_inputs_give_the_same(case: Case) -> None:
    """The same numbers in memory laid out differently: transposed, with gaps, and backwards."""
    function, leaves = case.build(rng_of(case), np.float64)
    wanted = first_order(function, leaves)
    for t in leaves:
        if not t.ndim:
            continue
        gaps = np.zeros((*(2 * n for n in reversed(t.shape)),))
        strided = gaps.T[tuple(slice(None, None, -2) for _ in t.shape)]
        strided[...] = t.array
        t.array = strided
    for got, want in zip(first_order(function, leaves), wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)


@every_case
def test_float32_stays_float32_and_is_close(case: Case) -> None:
    exact = first_order(*case.build(rng_of(case), np.float64))
    function, leaves = case.build(rng_of(case), np.float32)
    for got, want in zip(first_order(function, leaves), exact, strict=True):
        assert got.dtype == np.float32
        np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-5 * max(1.0, np.abs(want).max(initial=0.0)))


@every_case
def test_inputs_are_left_alone(case: Case) -> None:
    function, leaves = case.build(rng_of(case), np.float64)
    before = [t.array.copy() for t in leaves]
    first_order(function, leaves)
    for t, kept in zip(leaves, before, strict=True):
        np.testing.assert_array_equal(t.array, kept)


@pytest.mark.parametrize("case", [c for c in CASES if c.make is None], ids=lambda c: c.name)
def test_the_ways_for_large_arrays_give_the_same(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arithmetic, functions and choices on large arrays, and sums of gradients, are left to kernels: here all are."""
    wanted = first_order(*case.build(rng_of(case), np.float64))
    monkeypatch.setattr(arithmetic.large, "__defaults__", (1,))
    for module in (choices, functions):
        for name in {"COSTLY", "SLOW", "SEVERAL_PASSES"} & set(vars(module)):
            monkeypatch.setattr(module, name, 1)
    monkeypatch.setattr(ops.activation, "SLOW", 1)
    monkeypatch.setattr(ops.shape, "LARGE", 1)
    monkeypatch.setattr(regions, "LARGE", 1)
    monkeypatch.setattr(kernels.elementwise, "BINARY_SIZE", 1)
    monkeypatch.setattr(kernels.elementwise, "COPY_GRAIN", 1)
    for got, want in zip(first_order(*case.build(rng_of(case), np.float64)), wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-14)


@every_case
def test_a_change_of_an_index_a_mask_or_a_target_is_noticed(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other numbers are put into the tensors that a row makes on its way: the gradients stay right, or backward raises.

    So do those that walk a recorded backward pass.
    """
    made: list[Tensor] = []

    def make(array: np.ndarray) -> Tensor:
        made.append(engine.make(array))
        return made[-1]

    def change() -> None:
        for t in made:
            if t.node is None and t.array.flags.writeable and t.numel():
                t.copy_(~t if t.array.dtype == bool else (1.5 if t.is_floating_point() else t.max()) - t)

    for module in (_kinds, counted, drawn, filled, given):
        if hasattr(module, "make"):
            monkeypatch.setattr(module, "make", make)
    first_order(*case.build(rng_of(case), np.float64))
    for gradients in (first_order, second_order)[: case.order] if made else ():
        for reference in (False, True):
            with use_reference(reference):
                wanted = gradients(*case.build(rng_of(case), np.float64))
                made.clear()
                try:
                    got = gradients(*case.build(rng_of(case), np.float64), change)
                except RuntimeError as error:
                    assert "changed in place" in str(error)
                    continue
                for g, w in zip(got, wanted, strict=True):
                    np.testing.assert_array_equal(g, w)


def first_order(
    function: Callable[[], Tensor], leaves: list[Tensor], between: Callable[[], None] = lambda: None
) -> list[np.ndarray]:
    """The value, and the gradients of a fixed random projection of it. between: called before these are asked for."""
    out = function()
    value = out.array.copy()
    between()
    gradients = engine.grad([out], leaves, [projection(out)])
    return [value, *arrays_of(gradients, leaves)]


def second_order(
    function: Callable[[], Tensor], leaves: list[Tensor], between: Callable[[], None] = lambda: None
) -> list[np.ndarray]:
    """The gradients of a random projection of the first gradients."""
    out = function()
    first = engine.grad([out], leaves, [projection(out)], create_graph=True)
    roots = [g for g in first if g is not None and g.requires_grad]
    between()
    gradients = engine.grad(roots, leaves, [projection(g) for g in roots])
    return arrays_of(gradients, leaves)


def projection(out: Tensor) -> Tensor:
    return as_tensor(np.random.default_rng(1).normal(size=out.shape).astype(out.array.dtype))


def arrays_of(gradients: list[Tensor | None], leaves: list[Tensor]) -> list[np.ndarray]:
    return [np.zeros(t.shape, t.array.dtype) if g is None else g.array for t, g in zip(leaves, gradients, strict=True)]
