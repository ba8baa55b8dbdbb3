"""Ctrl-C and SIGTERM while the command is still loading: they end it, in one line and at once.

Python's own answer to Ctrl-C, an exception, would be a traceback out of the middle of an import. Nothing has begun by
then, so nothing is lost. Programs that import this package keep Python's answer.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import sys
from typing import NoReturn

COMMAND = "tinygrad-tf"


def is_the_command() -> bool:
    """Whether this process is `tinygrad-tf`, or `python -m tinygrad_tf`."""
    words = getattr(sys, "argv", None) or [""]
    if words[0] != "-m":
        return os.path.splitext(os.path.basename(words[0]))[0] == COMMAND
    python = sys.orig_argv  # argv begins with -m as long as Python imports the package in which it looks for the module
    return "-mtinygrad_tf" in python or ("-m", "tinygrad_tf") in itertools.pairwise(python)


def numbers() -> list[signal.Signals]:
    """The signals that ask a process to end: Ctrl-C, SIGTERM, and that of a terminal that is closed."""
    wanted = [signal.SIGINT, signal.SIGTERM]
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as nohup has it
        wanted.append(signal.SIGHUP)  # Windows has none
    return wanted


def leave(number: int, frame: object = None) -> NoReturn:
    """End the process with one line; the exit code is 128 and the signal's number, as shells have it."""
    with contextlib.suppress(OSError):  # the terminal may be gone
        os.write(2, f"{COMMAND}: stopped\n".encode())
    os._exit(128 + number)


if is_the_command():
    for _number in numbers():
        signal.signal(_number, leave)
