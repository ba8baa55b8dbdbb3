"""The one exception for input that cannot be used."""

from __future__ import annotations


class InputError(ValueError):
    """Something that a user gave (a file, an option, a run folder) cannot be used.

    The message is one line that says what is wrong, where, and what to do; the command line prints it and exits with 2.
    """
