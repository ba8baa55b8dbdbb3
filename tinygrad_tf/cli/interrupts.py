"""What signals do: they end a command in one line, and a training run with everything saved.

Ctrl-C, SIGTERM and the closing of the terminal are answered alike, within seconds, whatever is under way.
"""

from __future__ import annotations

import _thread
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from tinygrad_tf._signals import leave, numbers

GRACE = 5.0  # seconds in which a command that was interrupted must have ended
PATIENCE = 3.0  # seconds that the step, or the evaluation, which is under way may still take
SOON = 0.05  # seconds after which an exception that was lost comes again
AGAIN = 1.0  # seconds after which an interruption that was lost is repeated


class Handlers:
    """Has signals answered by `answer(first)` in a block; what was before comes back behind it.

    An exception can be lost: where it meets a destructor or a callback of compiled code, Python prints it and goes on.
    A KeyboardInterrupt that was lost is not printed, and comes again.
    """

    def __init__(self) -> None:
        self.received: int | None = None  # the first signal
        self.lost = False
        self._before: dict[int, Any] = {}
        self._hook_before: Any = None

    def __enter__(self) -> Any:
        if threading.current_thread() is threading.main_thread():  # others may set none
            self._before = {number: signal.signal(number, self._handle) for number in numbers()}
            self._hook_before, sys.unraisablehook = sys.unraisablehook, self._forgotten
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if self._hook_before is not None:
            sys.unraisablehook = self._hook_before

    def _forgotten(self, what: Any) -> None:
        if not issubclass(what.exc_type, KeyboardInterrupt):
            self._hook_before(what)
            return
        self.lost = True
        _later(SOON, _thread.interrupt_main)

    def _handle(self, number: int, frame: object) -> None:
        first = self.received is None
        self.received = number if first else self.received
        self.answer(first)

    def answer(self, first: bool) -> None:
        raise NotImplementedError


class Ending(Handlers):
    """A signal raises KeyboardInterrupt, so that what was begun is cleaned up.

    A second one does not disturb that. If it is never answered, as in a loop of compiled code, the process ends some
    seconds later anyway, where it is the command's `own`.
    """

    def __init__(self, own: bool) -> None:
        super().__init__()
        self.own = own

    def answer(self, first: bool) -> None:
        if first and self.own:
            _later(GRACE, lambda: leave(self.received or signal.SIGINT))
        if first or self.lost or not self.own:
            self.lost = False
            raise KeyboardInterrupt


class Interrupts(Handlers):
    """A signal asks for a stop after the current step, with everything saved.

    If that step, with its evaluation, takes longer than PATIENCE, KeyboardInterrupt is raised in it, again and again
    until the block ends; but never while files are written. A second Ctrl-C that comes after that time does the same.
    """

    def __init__(self) -> None:
        super().__init__()
        self._raise_from = 0.0
        self._held = self._ended = False
        self._ending = _thread.allocate_lock()

    def __exit__(self, *error: object) -> None:
        self._held = True  # one that is still on its way
        with self._ending:
            self._ended = True
        super().__exit__(*error)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Inside, signals are only noted."""
        self._held, before = True, self._held
        try:
            yield
        finally:
            self._held = before

    def answer(self, first: bool) -> None:
        if first:
            self._raise_from = time.monotonic() + PATIENCE
            what = "saving" if self._held else "stopping after this step, or without it if it takes long; then saving"
            with suppress(OSError):  # the terminal may be gone
                os.write(2, f"\n{what}\n".encode())  # print may be in the middle of a line of its own
            _later(PATIENCE, self._repeat)
        elif not self._held and time.monotonic() >= self._raise_from:
            self._raise_from = time.monotonic() + AGAIN / 2
            raise KeyboardInterrupt

    def _repeat(self) -> None:
        while True:
            with self._ending:
                if self._ended:
                    return
                _thread.interrupt_main()
            time.sleep(AGAIN)


def _later(seconds: float, action: Callable[[], object]) -> None:
    """Do that in a thread of its own; started so, as a signal may come amid the starting of a `threading.Thread`."""

    def run() -> None:
        time.sleep(seconds)
        action()

    _thread.start_new_thread(run, ())
