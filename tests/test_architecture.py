"""The house stands as drawn: imports point downwards, there are no circles, the engine is short, importing is cheap."""

from __future__ import annotations

import ast
import io
import os
import subprocess
import sys
import tokenize
from pathlib import Path

import tinygrad_tf
from tinygrad_tf import functions
from tinygrad_tf.compositions import elementwise, matrices, shapes, statistics
from tinygrad_tf.creation import counted, drawn, filled, given, typed

ROOT = Path(tinygrad_tf.__file__).parent

# From the ground up. A file may import from its own floor and from those below.
FLOORS = [
    [
        "kernels",
        "random",
        "_twister",
        "_box_muller",
        "_sampling",
        "_rejection",
        "_layout",
        "_quiet",
        "_arguments",
        "dtypes",
        "_device",
        "_version",
        "_signals",
    ],
    ["_step_names", "graph", "grad_fn", "operation", "regions", "hooks", "engine"],
    ["ops"],
    [
        "printing",
        "methods",
        "tensor",
        "creation",
        "functions",
        "compositions",
        "complex_numbers",
        "fft",
        "linalg",
        "matrix_functions",
        "special",
        "sparse",
    ],
    ["autograd", "nn", "optim", "utils", "serialization", "amp", "func", "distributions", "testing", "short_time"],
    ["generation"],
    ["models"],
    ["checks"],
    ["training"],
    ["bench"],
    ["cli", "__main__"],
]
FLOOR = {name: i for i, names in enumerate(FLOORS) for name in names}
ABOVE_ALL = {"__init__", "as_torch"}  # the list of what the package offers
WRITTEN_AS_USERS_WRITE = {"checks"}  # may import that list


def module_name(path: Path) -> str:
    parts = [ROOT.name, *path.relative_to(ROOT).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {module_name(path): path for path in sorted(ROOT.rglob("*.py"))}


def imported(name: str, path: Path) -> set[str]:
    """The package's own modules that a file imports when it runs; what only annotations need does not count."""
    found = set()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for branch in [n for n in ast.walk(tree) if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING"]:
        branch.body = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: write imports in full"
            base = node.module or ""
            found |= {f"{base}.{a.name}" if f"{base}.{a.name}" in FILES else base for a in node.names}
    return {f for f in found if f.split(".")[0] == ROOT.name and f != name}


IMPORTS = {name: imported(name, path) for name, path in FILES.items()}


def part(name: str) -> str:
    """The first name below the package: its file or folder."""
    return [*name.split("."), "__init__"][1]


def test_imports_point_downwards() -> None:
    wrong = []
    for name, others in IMPORTS.items():
        if part(name) in ABOVE_ALL:
            continue
        assert part(name) in FLOOR, f"{name} stands on no floor: add it to FLOORS"
        for other in others:
            if part(other) in ABOVE_ALL and part(name) in WRITTEN_AS_USERS_WRITE:
                continue
            if part(other) in ABOVE_ALL or FLOOR[part(other)] > FLOOR[part(name)]:
                wrong.append(f"{name} imports {other}")
    assert not wrong, "\n".join(wrong)


def test_there_are_no_circles() -> None:
    """A package and its __init__ count as one only for those outside of it."""
    done: set[str] = set()

    def visit(name: str, trail: list[str]) -> None:
        assert name not in trail, " -> ".join([*trail[trail.index(name) :], name])
        if name in done:
            return
        for other in sorted(IMPORTS[name]):
            if other in FILES and not name.startswith(other + "."):
                visit(other, [*trail, name])
        done.add(name)

    for name in FILES:
        visit(name, [])


def lines_of_code(path: Path) -> int:
    """Lines that are neither blank, nor comments, nor docstrings."""
    source = path.read_text(encoding="utf-8")
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    text: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, documented) and ast.get_docstring(node) is not None:
            text |= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    skipped = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in skipped:
            code |= set(range(token.start[0], token.end[0] + 1))
    return len(code - text)


def test_the_engine_can_be_read_in_one_sitting() -> None:
    for name in ("graph.py", "operation.py", "engine.py"):
        assert lines_of_code(ROOT / name) < 250


IMPORT = """
import numpy, sys, time
calls = 0
def count(frame, event, argument):
    global calls
    calls += event in ("call", "c_call")
if sys.argv[1:]:
    sys.setprofile(count)
start = time.process_time()
import tinygrad_tf
end = time.process_time()
sys.setprofile(None)
print(calls, end - start, *sorted({name.split(".")[0] for name in sys.modules}))
"""


def test_importing_compiles_nothing_and_is_cheap(tmp_path: Path) -> None:
    """No compiler, no pictures, no command line on import; after NumPy's it makes few calls, and is soon done.

    How many calls is the same on every machine. The time, a fifth of the bound on an idle one, is the processor's, the
    least of five runs, since the tests run several at once.
    """
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(tmp_path), "PYTHONPATH": str(ROOT.parent)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)

    def imported_by(*arguments: str) -> list[str]:
        run = [sys.executable, "-c", IMPORT, *arguments]
        return subprocess.run(run, env=environment, capture_output=True, text=True, check=True).stdout.split()

    loaded = set(imported_by()[2:])  # and the byte code is kept
    assert not loaded & {"numba", "llvmlite", "matplotlib", "rich", "typer", "safetensors", "ml_dtypes", "torch"}
    assert 10_000 < int(imported_by("count")[0]) < 130_000
    assert min(float(imported_by()[1]) for _ in range(5)) < 0.5


def test_the_lists_of_public_functions_are_complete() -> None:
    by_topic = elementwise, matrices, shapes, statistics, counted, drawn, filled, given, typed
    for module in (*by_topic, functions):
        own = {n for n, v in vars(module).items() if getattr(v, "__module__", "") == module.__name__ and n[0] != "_"}
        assert set(module.__all__) == own
        assert len(module.__all__) == len(set(module.__all__))
