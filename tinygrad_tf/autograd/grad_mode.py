"""Switching the recording for gradients off and on, as a context or as a decorator."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from tinygrad_tf.engine import mode

F = TypeVar("F", bound=Callable[..., Any])


class set_grad_enabled:
    """Switch recording on or off: at once, and back at the end of a `with` block or of a decorated call.

    >>> with set_grad_enabled(False):
    ...     is_grad_enabled()
    False
    """

    def __init__(self, mode_: bool):
        self.before: list[bool] = [mode.grad]
        self.on = bool(mode_)
        mode.grad = self.on

    def __enter__(self) -> None:
        mode.grad = self.on

    def __exit__(self, *_: Any) -> None:
        mode.grad = self.before[-1]


class _Switch:
    """What no_grad and enable_grad share: usable with and without brackets, nested, recursive, round generators."""

    on: bool

    def __new__(cls, function: Any = None) -> Any:
        self = super().__new__(cls)
        self.before = []
        return self if function is None or isinstance(function, bool) else self(function)

    before: list[bool]

    def __enter__(self) -> None:
        self.before.append(mode.grad)
        mode.grad = self.on

    def __exit__(self, *_: Any) -> None:
        mode.grad = self.before.pop()

    def __call__(self, function: F) -> F:
        cls = type(self)
        if inspect.isgeneratorfunction(function):

            @functools.wraps(function)
            def generator(*args: Any, **kwargs: Any) -> Any:
                with cls():
                    inner = function(*args, **kwargs)
                sent: Any = None
                while True:  # the switch is on while the generator runs, never while its caller does
                    try:
                        with cls():
                            value = inner.send(sent)
                    except StopIteration as end:
                        return end.value
                    sent = yield value

            return generator  # type: ignore[return-value]

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with cls():
                return function(*args, **kwargs)

        return wrapped  # type: ignore[return-value]


class no_grad(_Switch):
    """Record nothing: `with no_grad():` or `@no_grad()`.

    >>> import tinygrad_tf as tg
    >>> x = tg.ones(2, requires_grad=True)
    >>> with tg.no_grad():
    ...     (x * 2).requires_grad
    False
    """

    on = False


class enable_grad(_Switch):
    """Record again inside a no_grad block."""

    on = True


class inference_mode(_Switch):
    """As no_grad."""

    on = False


def is_grad_enabled() -> bool:
    return mode.grad
