"""What the layers of this folder ask of their sizes."""

from __future__ import annotations

import operator
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
