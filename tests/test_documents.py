"""Every example runs: those in docstrings, those in the README, and the scripts in examples/."""

from __future__ import annotations

import doctest
import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tinygrad_tf
from tests.test_architecture import FILES

TOP = Path(__file__).parent.parent
README = (TOP / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", sorted(n for n in FILES if not n.endswith(("__main__", "as_torch"))))
def test_docstrings(name: str) -> None:
    module = importlib.import_module(name)
    tinygrad_tf.manual_seed(0)
    with np.errstate(all="warn"):
        result = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    assert result.failed == 0


def test_docstrings_of_what_answers_for_torch() -> None:
    """In a process of its own, where nobody has imported torch before."""
    code = "import doctest; from tinygrad_tf import as_torch; raise SystemExit(doctest.testmod(as_torch).failed)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=TOP)
    assert run.returncode == 0, run.stdout + run.stderr


def test_readme_examples() -> None:
    """Python blocks run; a comment after a line shows what it prints."""
    blocks = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert blocks
    for block in blocks:
        expected = re.findall(r"print\(.*?\)  # (.*)", block)
        run = subprocess.run([sys.executable, "-c", block], capture_output=True, text=True, cwd=TOP)
        assert run.returncode == 0, run.stderr
        printed = [line.strip() for line in run.stdout.splitlines()]
        assert [line.strip() for line in expected] == printed, (expected, printed)


def test_ci_runs_the_command_of_the_readme() -> None:
    command = next(line.strip() for line in README.splitlines() if "pytest" in line and line.startswith("    "))
    assert command in (TOP / ".ci" / "run").read_text(encoding="utf-8")


def test_readme_names_every_file() -> None:
    """The file tree of the README shows the package's files and folders, and nothing that is not there."""
    tree = re.findall(r"^    (\S+)  ", README, re.MULTILINE)
    assert tree
    for name in tree:
        assert (TOP / "tinygrad_tf" / name.rstrip("/")).exists() or (TOP / name.rstrip("/")).exists(), name
    top = {p.name for p in (TOP / "tinygrad_tf").iterdir() if not p.name.startswith(("_", "."))}
    assert top <= {name.rstrip("/") for name in tree}


@pytest.mark.parametrize("script", sorted((TOP / "examples").glob("*.py")), ids=lambda p: p.name)
def test_examples(script: Path, tmp_path: Path) -> None:
    """Examples run from anywhere, small when TINYGRAD_TF_SMALL is set; what is written for PyTorch, by as_torch."""
    environment = {**os.environ, "TINYGRAD_TF_SMALL": "1", "MPLBACKEND": "Agg", "PYTHONPATH": str(TOP)}
    how = ["-m", "tinygrad_tf.as_torch"] if "\nimport torch\n" in script.read_text(encoding="utf-8") else []
    run = subprocess.run([sys.executable, *how, script], capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.strip()
