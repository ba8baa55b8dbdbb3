"""What functions, layers and configurations ask of their arguments: a size, a choice, a share, a number."""

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


def check_choice(name: str, value: Any, choices: Iterable[str], error: type[ValueError] = ValueError) -> None:
    """An error that lists the choices, unless `value` is one of them. error: InputError, where a user's files and
    options are checked.
    """
    choices = tuple(choices)
    if value not in choices:
        raise error(f"{name} must be one of {', '.join(choices)}; got {value!r}")


def check_number(name: str, value: Any) -> None:
    """A TypeError for what cannot be taken as one number."""
    if isinstance(value, str) or not hasattr(value, "__float__"):
        raise TypeError(f"{name} must be a number, got {type(value).__name__}")


def check_probability(name: str, value: float) -> None:
    """A ValueError for what is no share of 1."""
    if not 0.0 <= value <= 1.0:
        raise ValueError(f"{name} must be in [0, 1], got {value}")
