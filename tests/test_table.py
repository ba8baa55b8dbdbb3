"""Every row of the table: derivatives of both orders, both float types, strides, inputs left alone, twins agree."""

from __future__ import annotations

import numpy as np
import pytest

from tests.differences import worst_error
from tinygrad_tf import Tensor, engine, use_reference
from tinygrad_tf.checks import CASES, Case

every_case = pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)


def rng_of(case: Case) -> np.random.Generator:
    return np.random.default_rng(sum(map(ord, case.name)))


@every_case
@pytest.mark.parametrize("reference", [False, True], ids=["kernels", "reference"])
def test_first_order(case: Case, reference: bool) -> None:
    function, leaves = case.build(rng_of(case), np.float64)
    with use_reference(reference):
        assert worst_error(function, leaves, order=1) < 1e-6


@pytest.mark.parametrize("case", [c for c in CASES if c.order == 2], ids=lambda c: c.name)
def test_second_order(case: Case) -> None:
    function, leaves = case.build(rng_of(case), np.float64)
    assert worst_error(function, leaves, order=2) < 1e-4


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


def first_order(function: object, leaves: list[Tensor]) -> list[np.ndarray]:
    """The value, and the gradients of a fixed random projection of it."""
    out = function()  # type: ignore[operator]
    cotangent = Tensor(np.random.default_rng(1).normal(size=out.shape).astype(out.dtype))
    gradients = engine.grad([out], leaves, [cotangent])
    found = [np.zeros(t.shape, t.dtype) if g is None else g.array for t, g in zip(leaves, gradients, strict=True)]
    return [out.array, *found]
