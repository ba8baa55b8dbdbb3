"""Switching the recording for gradients off and on: a context manager, a decorator, or (set_grad_enabled) at once."""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Generator
from typing import Any

from tinygrad_tf.autograd._recording import mark_storages
from tinygrad_tf.engine import mode


class _Switch:
    """What all switches share. One object may be entered several times; a decorated function switches at each call."""

    def __init__(self, on: bool):
        self.on = on
        self.before: list[bool] = []

    def __enter__(self) -> None:
        self.before.append(_set(self.on))

    def __exit__(self, *_: Any) -> None:
        _set(self.before.pop())

    def again(self) -> _Switch:
        """One more of its kind, for one call of a decorated function."""
        return _Switch(self.on)

    def __call__(self, function: Callable[..., Any]) -> Any:
        again = self.again
        if inspect.isgeneratorfunction(function):

            @functools.wraps(function)
            def generator(*args: Any, **kwargs: Any) -> Any:
                return (yield from _switched(function(*args, **kwargs), again))

            return generator

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with again():
                return function(*args, **kwargs)

        return wrapped


def _switched(inner: Generator[Any, Any, Any], again: Callable[[], _Switch]) -> Generator[Any, Any, Any]:
    """Run a generator with the switch set, never its caller: it is set at each step, and back at each yield."""
    step: Callable[[], Any] = functools.partial(next, inner)
    while True:
        try:
            with again():
                value = step()
        except StopIteration as end:
            return end.value
        try:
            step = functools.partial(inner.send, (yield value))
        except GeneratorExit:
            with again():
                inner.close()
            raise
        except BaseException as error:
            step = functools.partial(inner.throw, error)


class _Named(_Switch):
    """A switch with a fixed position, usable without brackets too: `@no_grad` as well as `@no_grad()`."""

    position: bool

    def __new__(cls, function: Callable[..., Any] | None = None) -> Any:
        self = super().__new__(cls)
        if function is None:
            return self
        if not callable(function):
            raise TypeError(f"{cls.__name__} takes no argument, or a function to decorate, got {function!r}")
        _Switch.__init__(self, cls.position)
        return self(function)

    def __init__(self, function: Callable[..., Any] | None = None):
        super().__init__(self.position)

    def clone(self) -> Any:
        """One more of its kind."""
        return type(self)()


class no_grad(_Named):
    """Record nothing: `with no_grad():` or `@no_grad()`. In each thread by itself.

    >>> import tinygrad_tf as tg
    >>> x = tg.ones(2, requires_grad=True)
    >>> with tg.no_grad():
    ...     (x * 2).requires_grad
    False
    """

    position = False


class enable_grad(_Named):
    """Record again inside a no_grad block. Inside inference_mode nothing is recorded all the same.

    >>> with no_grad(), enable_grad():
    ...     is_grad_enabled()
    True
    """

    position = True


class inference_mode(_Switch):
    """As no_grad, with a mark on the tensors made inside (is_inference); `inference_mode(False)` records.

    Outside they cannot be changed in place (.clone() can). That is all the mark forbids: where PyTorch refuses such
    tensors in later training, they are like others here.

    >>> import tinygrad_tf as tg
    >>> with inference_mode():
    ...     y = tg.ones(2) * 2
    >>> y.is_inference(), (y + 1).is_inference()
    (True, False)
    """

    def __new__(cls, mode: Any = True) -> Any:
        self = super().__new__(cls)
        if not callable(mode):
            return self
        cls.__init__(self, True)
        return self(mode)

    def __init__(self, mode: bool = True):
        super().__init__(not mode)
        self.mode = bool(mode)
        self.inferring: list[bool] = []

    def again(self) -> inference_mode:
        return inference_mode(self.mode)

    clone = again

    def __enter__(self) -> None:
        self.before.append(is_grad_enabled())
        self.inferring.append(mode.inference)
        mode.inference = self.mode
        _set(self.on)
        mark_storages(True)

    def __exit__(self, *_: Any) -> None:
        mark_storages(False)
        mode.inference = self.inferring.pop()
        super().__exit__()


def is_inference_mode_enabled() -> bool:
    """Whether this thread is in inference mode.

    >>> with inference_mode():
    ...     is_inference_mode_enabled()
    True
    """
    return mode.inference


class set_grad_enabled(_Switch):
    """Set recording on or off: at once when called, back at the end of a `with` block or a decorated call.

    >>> with set_grad_enabled(False):
    ...     is_grad_enabled()
    False
    """

    def __init__(self, mode: bool):
        if not isinstance(mode, (bool, int)):
            raise TypeError(f"set_grad_enabled: mode must be True or False, got {mode!r}")
        super().__init__(bool(mode))
        self.mode = self.on
        self.found = _set(self.on)

    def clone(self) -> set_grad_enabled:
        """One more, which sets it at once, too."""
        return set_grad_enabled(self.mode)

    def __repr__(self) -> str:
        return f"torch.autograd.grad_mode.set_grad_enabled(mode={self.on})"

    def __enter__(self) -> None:
        self.before.append(self.found)
        _set(self.on)

    def __call__(self, function: Callable[..., Any]) -> Any:
        _set(self.found)
        return super().__call__(function)


class _Asked(threading.local):
    """Whether recording is switched on in inference mode, where nothing is recorded: PyTorch tells it all the same."""

    in_vain = False


_asked = _Asked()


def _set(on: bool) -> bool:
    before = is_grad_enabled()
    mode.grad, _asked.in_vain = on and not mode.inference, on and mode.inference
    return before


def is_grad_enabled() -> bool:
    """Whether recording is switched on in this thread; in inference mode nothing is recorded all the same.

    >>> is_grad_enabled()
    True
    """
    return mode.grad or _asked.in_vain
