"""What PyTorch computes: stored values for operations and ten training steps, and PyTorch itself if it is there."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import tinygrad_tf
from tests.reference.make import PATH
from tests.reference.programs import OPERATIONS, run_all, run_operation, ten_steps


@cache
def stored() -> dict[str, np.ndarray]:
    with np.load(PATH) as file:
        return dict(file)


def check(found: dict[str, np.ndarray], wanted: dict[str, np.ndarray]) -> None:
    assert found.keys() == wanted.keys()
    for key, array in found.items():
        assert array.dtype == wanted[key].dtype, key
        assert array.shape == wanted[key].shape, key
        # Adam turns the rounding noise in gradients that are zero (those of the keys' bias) into steps of full size.
        tolerance = 1e-10 if "float64" in key else 1e-3 if key == "gpt/weights" else 2e-5
        scale = max(1.0, float(np.abs(wanted[key]).max(initial=0.0)))
        np.testing.assert_allclose(array, wanted[key], rtol=tolerance, atol=tolerance * scale, err_msg=key)


@pytest.mark.parametrize("name", OPERATIONS)
def test_operation(name: str) -> None:
    check(run_operation(tinygrad_tf, name), {k: v for k, v in stored().items() if k.startswith(f"{name}/")})


def test_ten_training_steps() -> None:
    check(ten_steps(tinygrad_tf), {k: v for k, v in stored().items() if k.startswith("gpt/")})


def test_the_stored_values_are_those_of_the_installed_torch() -> None:
    torch: Any = pytest.importorskip("torch", reason="torch is not installed (pip install '.[torch]')")
    check(run_all(torch), {k: v for k, v in stored().items() if k != "made_with"})
