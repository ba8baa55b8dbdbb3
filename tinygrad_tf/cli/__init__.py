"""The command line: `tinygrad-tf train`, `sample`, `gradcheck` and `bench`; also `python -m tinygrad_tf`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

PACKAGES = ("numpy", "numba", "ml_dtypes", "safetensors", "rich", "typer", "matplotlib")  # as in pyproject.toml


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command (by default the process's own arguments) and give its exit code.

    0: done; 1: training could not go on, a gradient is wrong, a row of the benchmark failed, or the disk did;
    2: unusable input, told in one line; 130: stopped by Ctrl-C, 143 by SIGTERM.
    """
    try:
        from tinygrad_tf.cli.app import run  # typer is imported only when a command runs

        return run(arguments)
    except KeyboardInterrupt:  # nothing has begun yet
        print("tinygrad-tf: stopped", file=sys.stderr, flush=True)
        return 130
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in PACKAGES:
            raise
        needed = f"needs the package {package}, which this Python does not have"
        print(f"tinygrad-tf: {needed}; install it: {sys.executable} -m pip install {package}", file=sys.stderr)
        return 2
