"""What PyTorch computes: stored values for operations and ten training steps, and PyTorch itself if it is there."""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import numpy as np
import pytest

import tinygrad_tf
from tests.reference.make import PATH, ROWS_PATH
from tests.reference.programs import OPERATIONS, run_all, run_operation, ten_steps
from tests.reference.rows import run_row, run_rows
from tinygrad_tf.checks import CASES, Case


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


# --- the rows of the table --------------------------------------------------------------------------------------------

OURS_ALONE = 60  # rows, at most, that PyTorch cannot run: variants of attention, positions, our models


@cache
def stored_rows() -> dict[str, dict[str, np.ndarray]]:
    rows: dict[str, dict[str, np.ndarray]] = {}
    with np.load(ROWS_PATH) as file:
        for key in file.files:
            if key != "made_with":
                name, _, what = key.rpartition("/")
                rows.setdefault(name, {})[what] = file[key]
    return rows


def agree(found: dict[str, np.ndarray], wanted: dict[str, np.ndarray], tolerance: float) -> None:
    assert found.keys() == wanted.keys()
    for what, array in found.items():
        assert array.shape == wanted[what].shape, what
        scale = max(1.0, float(np.abs(wanted[what]).max(initial=0.0)))
        np.testing.assert_allclose(array, wanted[what], rtol=tolerance, atol=tolerance * scale, err_msg=what)


@pytest.mark.parametrize("case", [case for case in CASES if case.name in stored_rows()], ids=lambda case: case.name)
def test_row_of_the_table(case: Case) -> None:
    """Value and gradients as PyTorch's: in float64 to the last digits, and in float32."""
    wanted = stored_rows()[case.name]
    found = run_row(tinygrad_tf, case, np.float64)
    agree(found, wanted, 1e-9)
    assert {what: array.dtype for what, array in found.items()} == {what: array.dtype for what, array in wanted.items()}
    found = run_row(tinygrad_tf, case, np.float32)
    agree(found, wanted, 2e-4)
    assert all(array.dtype == np.float32 for array in found.values())


def test_most_rows_are_compared() -> None:
    assert len({case.name for case in CASES}) == len(CASES)
    assert len(stored_rows().keys() & {case.name for case in CASES}) >= len({case.name for case in CASES}) - OURS_ALONE


def test_the_stored_rows_are_those_of_the_installed_torch() -> None:
    torch: Any = pytest.importorskip("torch", reason="torch is not installed (pip install '.[torch]')")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what PyTorch will change one day
        values, _ = run_rows(torch)
    stored_again: dict[str, dict[str, np.ndarray]] = {}
    for key, array in values.items():
        name, _, what = key.rpartition("/")
        stored_again.setdefault(name, {})[what] = array
    assert stored_again.keys() == stored_rows().keys()
    for name, found in stored_again.items():
        agree(found, stored_rows()[name], 1e-10)
