"""The one exception for input that cannot be used, and a check that raises it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


class InputError(ValueError):
    """Something that a user gave (a file, an option, a run folder) cannot be used.

    The message is one line that says what is wrong, where, and what to do; the command line prints it and exits with 2.
    """


def check_choice(name: str, value: Any, choices: Iterable[str]) -> None:
    """An InputError that lists the choices, unless `value` is one of them."""
    choices = tuple(choices)
    if value not in choices:
        raise InputError(f"{name} must be one of {', '.join(choices)}; got {value!r}")
