"""testing.assert_close: what passes and what fails, as in PyTorch, and what is said of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinygrad_tf as tg

NAN = math.nan
CASES: dict[str, Callable[[Any], tuple[Any, Any, dict[str, Any]]]] = {
    "same": lambda t: (t.ones(2, 3), t.ones(2, 3), {}),
    "rounding of float32": lambda t: (t.ones(2), t.ones(2) + 1e-5, {}),
    "more than rounding": lambda t: (t.ones(2), t.ones(2) + 1.3e-5, {}),
    "float64": lambda t: (t.ones(2, dtype=t.float64), t.ones(2, dtype=t.float64) + 1e-6, {}),
    "bfloat16": lambda t: (t.ones(2, dtype=t.bfloat16), t.ones(2, dtype=t.bfloat16) + 0.0079, {}),
    "integers": lambda t: (t.tensor([1, 2]), t.tensor([1, 3]), {}),
    "large integers": lambda t: (t.tensor([2**53]), t.tensor([2**53 + 1]), {}),
    "tolerance": lambda t: (t.ones(2), t.ones(2) + 0.01, {"rtol": 0.0, "atol": 0.011}),
    "relative to expected": lambda t: (t.ones(1) * 2, t.ones(1), {"rtol": 0.6, "atol": 0.0}),
    "nan": lambda t: (t.tensor([NAN]), t.tensor([NAN]), {}),
    "equal nan": lambda t: (t.tensor([NAN]), t.tensor([NAN]), {"equal_nan": True}),
    "infinities": lambda t: (t.tensor([math.inf, 1.0]), t.tensor([math.inf, 1.0]), {}),
    "infinity expected": lambda t: (t.tensor([1.0]), t.tensor([math.inf]), {}),
    "infinity found": lambda t: (t.tensor([math.inf]), t.tensor([1.0]), {}),
    "dtypes": lambda t: (t.ones(1), t.ones(1, dtype=t.float64), {}),
    "dtypes unchecked": lambda t: (t.ones(1), t.ones(1, dtype=t.float64), {"check_dtype": False}),
    "shapes": lambda t: (t.ones(1), t.ones(1, 1), {}),
    "strides": lambda t: (t.ones(2, 3).T, t.ones(3, 2), {"check_stride": True}),
    "numbers": lambda t: (1.0, 1.0 + 1e-8, {}),
    "numbers apart": lambda t: (1, 2, {}),
    "kinds of numbers": lambda t: (1, 1.0, {}),
    "arrays": lambda t: (np.ones(2), np.ones(2), {}),
    "containers": lambda t: ({"a": [t.ones(1), 1]}, {"a": (t.ones(1), 1)}, {}),
    "deep inside": lambda t: ({"a": [t.ones(1), 1]}, {"a": [t.ones(1), 2]}, {}),
    "keys": lambda t: ({"a": 1}, {"b": 1}, {}),
    "lengths": lambda t: ([1], [1, 2], {}),
    "none": lambda t: (None, None, {}),
    "tensor and number": lambda t: (t.ones(()), 1.0, {}),
    "tensor and list": lambda t: (t.ones(1), [1.0], {}),
    "strings": lambda t: ("a", "a", {}),
    "one tolerance": lambda t: (1.0, 1.0, {"rtol": 0.1}),
    "empty": lambda t: (t.ones(0), t.ones(0), {}),
}


@pytest.mark.parametrize("name", CASES)
def test_passes_and_fails_as_in_pytorch(name: str) -> None:
    torch = pytest.importorskip("torch")
    found = []
    for t in (torch, tg):
        actual, expected, options = CASES[name](t)
        try:
            t.testing.assert_close(actual, expected, **options)
            found.append(None)
        except (AssertionError, TypeError, ValueError) as error:
            found.append(type(error))
    assert found[0] is found[1]


def test_the_worst_places_are_named() -> None:
    with pytest.raises(AssertionError) as caught:
        tg.testing.assert_close(tg.tensor([[1.0, 2.0], [4.0, 0.25]]), tg.tensor([[1.0, 2.0], [8.0, 1.0]]))
    assert str(caught.value).split("\n")[2:] == [
        "Mismatched elements: 2 / 4 (50.0%)",
        "Greatest absolute difference: 4.0 at index (1, 0) (up to 1e-05 allowed)",
        "Greatest relative difference: 0.75 at index (1, 1) (up to 1.3e-06 allowed)",
    ]


@pytest.mark.parametrize(("msg", "said"), [("own", "^own$"), (lambda text: text + "!", "item \\['a'\\]\\[0\\]!$")])
def test_a_message_of_ones_own(msg: Any, said: str) -> None:
    with pytest.raises(AssertionError, match=said):
        tg.testing.assert_close({"a": [tg.ones(2)]}, {"a": [tg.zeros(2)]}, msg=msg)


def test_the_older_function_takes_more() -> None:
    tg.testing.assert_allclose(tg.tensor([1.0, NAN]), np.array([1.0, NAN]))
    with pytest.raises(AssertionError, match="1 / 2"):
        tg.testing.assert_allclose(tg.tensor([1.0, 2.0]), [1.0, 3.0])
