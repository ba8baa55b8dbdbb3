"""The command line: `tinygrad-tf train`, `sample`, `gradcheck` and `bench`; also `python -m tinygrad_tf`."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command (by default the process's own arguments) and give its exit code.

    0: done; 1: training could not go on, a gradient is wrong, a row of the benchmark failed, or the disk did;
    2: unusable input, told in one line; 130: stopped by Ctrl-C, 143 by SIGTERM.
    """
    try:
        from tinygrad_tf.cli.app import run  # typer is imported only when a command runs
    except KeyboardInterrupt:  # nothing has begun yet
        print("tinygrad-tf: stopped", file=sys.stderr, flush=True)
        return 130
    return run(arguments)
