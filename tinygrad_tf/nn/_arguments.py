"""What the layers of this folder ask of their arguments."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any


def check_size(name: str, value: Any, least: int = 1) -> int:
    """`value` as an int; a ValueError of one line unless it is a whole number of at least `least`.

    >>> check_size("Linear: in_features", 3)
    3
    """
    try:
        size = operator.index(value)
    except TypeError:
        raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}") from None
    if isinstance(value, bool) or size < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}")
    return size


def check_choice(name: str, value: Any, allowed: Iterable[str]) -> None:
    """A ValueError that lists the allowed names, unless `value` is one of them."""
    allowed = tuple(allowed)
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(allowed)}; got {value!r}")


def check_probability(name: str, value: float) -> None:
    if not 0.0 <= value <= 1.0:
        raise ValueError(f"{name} must be in [0, 1], got {value}")
