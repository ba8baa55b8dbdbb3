"""NumPy's arrays beside tensors: those of other classes, those that take results, those that cannot be written to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tinygrad_tf as tg
from tinygrad_tf import nn

pytestmark = pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")  # of np.matrix

VALUES = [[1.0, 2.0], [3.0, 4.0]]
SQUARES = [[1.0, 4.0], [9.0, 16.0]]


class Own(np.ndarray):
    """A class with a product of its own, as np.matrix has one."""

    def __mul__(self, other: Any) -> Any:
        raise AssertionError("a tensor's product is not this one's")

    __rmul__ = __mul__


def of_class(name: str, folder: Path) -> np.ndarray:
    """The VALUES as an array of a class that is not NumPy's plain one."""
    array = np.array(VALUES)
    if name == "matrix":
        return np.asmatrix(array)
    if name == "masked array":
        return np.ma.masked_array(array, mask=False)
    if name == "memory map":
        mapped: Any = np.memmap(folder / "values", np.float64, "w+", shape=(2, 2))
        mapped[...] = array
        return mapped
    return array.view(Own)


TAKERS: dict[str, Callable[[Any], Any]] = {
    "tensor": tg.tensor,
    "as_tensor": tg.as_tensor,
    "from_numpy": tg.from_numpy,
    "Tensor": tg.Tensor,
    "DoubleTensor": tg.DoubleTensor,
    "new_tensor": lambda x: tg.ones(1, dtype=tg.float64).new_tensor(x),
    "Parameter": lambda x: nn.Parameter(tg.from_numpy(x)),
    "a list": lambda x: tg.tensor([x])[0],
    "written": lambda x: tg.zeros(2, 2, dtype=tg.float64).copy_(x),
}


@pytest.mark.parametrize("name", ["matrix", "masked array", "memory map", "another class"])
@pytest.mark.parametrize("taker", TAKERS)
def test_arrays_of_other_classes_become_plain_ones(taker: str, name: str, tmp_path: Path) -> None:
    array = of_class(name, tmp_path)
    x = TAKERS[taker](array)
    assert type(x.array) is np.ndarray and (x * x).tolist() == SQUARES and x[0].shape == (2,)
    if taker in ("from_numpy", "as_tensor"):
        assert np.shares_memory(x.array, array)


@pytest.mark.parametrize("name", ["matrix", "masked array", "memory map", "another class"])
def test_arrays_of_other_classes_are_operands_like_plain_ones(name: str, tmp_path: Path) -> None:
    x, other = tg.tensor(VALUES, dtype=tg.float64, requires_grad=True), of_class(name, tmp_path)
    for out in (x * other, tg.mul(x, other), tg.where(x > 0, x * other, other)):
        assert type(out.array) is np.ndarray and out.tolist() == SQUARES
    (x * other).sum().backward()
    assert type(x.grad.array) is np.ndarray and x.grad.tolist() == VALUES


@pytest.mark.parametrize("taker", [*TAKERS, "operand"])
def test_masked_entries_are_told(taker: str) -> None:
    array = np.ma.masked_array(VALUES, mask=[[False, True], [False, False]])
    take = TAKERS.get(taker, lambda x: tg.ones(2, 2) + x)
    with pytest.raises(TypeError, match=r"masked entries, got an array with 1; fill them first: x\.filled\(value\)"):
        take(array)
    assert take(array.filled(5.0)).array[0, 1] in (5.0, 6.0)


# --- NumPy's functions that write into an array -----------------------------------------------------------------------


def test_an_array_that_a_tensor_is_added_to_stays_an_array() -> None:
    array = kept = np.ones(2, np.float32)
    array += tg.tensor([1.0, 2.0])
    array *= tg.tensor([2.0, 2.0], dtype=tg.float64)
    assert array is kept and array.tolist() == [4.0, 6.0]
    assert np.add(array, tg.ones(2), out=kept) is kept and kept.tolist() == [5.0, 7.0]
    with pytest.raises(RuntimeError, match=r"requires a gradient; use tensor\.detach\(\)\.numpy\(\)"):
        array += tg.ones(2, requires_grad=True)
    with pytest.raises(TypeError, match="add: out must be a NumPy array, got a tensor"):
        np.add(array, array, out=tg.ones(2))
    assert kept.tolist() == [5.0, 7.0]
