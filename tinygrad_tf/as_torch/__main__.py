"""`python -m tinygrad_tf.as_torch`: run a script or a module with `import torch` answered by this package."""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path

from tinygrad_tf.as_torch import install, list_of_names
from tinygrad_tf.as_torch._stand_ins import ROOT


def main(arguments: list[str]) -> int:
    """Run a script or a module with `import torch` answered by this package, or print the list of names."""
    if arguments == ["--names"]:
        print(list_of_names())
        return 0
    as_module = arguments[:1] == ["-m"]
    rest = arguments[1:] if as_module else arguments
    if not rest or rest[0].startswith("-"):
        print(f"usage: python -m {ROOT}.as_torch (SCRIPT | -m MODULE | --names) [ARGS ...]", file=sys.stderr)
        return 2
    if not as_module and not Path(rest[0]).is_file():
        why = "is a directory; name a script in it" if Path(rest[0]).is_dir() else "no such file"
        print(f"{rest[0]}: {why}", file=sys.stderr)
        return 2
    install()
    sys.argv = rest
    if as_module:
        sys.path.insert(0, os.getcwd())
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = str(Path(rest[0]).resolve().parent)
        runpy.run_path(rest[0], run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
