"""Type checkers know the public face: mypy confirms what tests/typing/face.py says of it, and no public name is Any."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import tinygrad_tf as tg
from tinygrad_tf import complex_numbers, fft, functions, linalg
from tinygrad_tf.compositions import elementwise, matrices, shapes, statistics
from tinygrad_tf.creation import counted, drawn, filled, given, typed
from tinygrad_tf.nn import functional as F

ROOT = Path(__file__).parents[1]
BY_TOPIC = elementwise, matrices, shapes, statistics, counted, drawn, filled, given, typed
MODULES = {"": (complex_numbers, *BY_TOPIC, functions), "linalg.": (linalg,), "fft.": (fft,)}
MODULES |= {"nn.functional.": (F,)}
TENSORS_OWN = set(tg.engine.Tensor.__slots__)  # what the engine keeps in a tensor
OF_PYTHON = {"Tensor.item", "Tensor.tolist"}  # numbers and lists of any kind
# with indices or counts, if asked for
SEVERAL_FORMS = {f"nn.functional.{kind}max_pool{n}d" for kind in ("", "adaptive_") for n in (1, 2, 3)}
SEVERAL_FORMS |= {f"{space}{name}" for space in ("", "Tensor.") for name in ("unique", "unique_consecutive")}


def public_names() -> list[str]:
    names = [f"{space}{name}" for space, modules in MODULES.items() for m in modules for name in m.__all__]
    return names + [f"Tensor.{name}" for name in dir(tg.Tensor) if name[0] != "_" and name not in TENSORS_OWN]


def test_the_types_are_as_promised(tmp_path: Path) -> None:
    api = pytest.importorskip("mypy.api", reason="mypy is not installed (pip install '.[test]')")
    names = public_names()
    lines = [f"reveal_type(tg.{name})" for name in names]
    (tmp_path / "names.py").write_text(
        "\n".join(["import tinygrad_tf as tg", "import tinygrad_tf.nn.functional", *lines])
    )
    files = [str(ROOT / "tests" / "typing" / "face.py"), str(tmp_path / "names.py")]
    settings = ["--config-file", str(ROOT / "pyproject.toml"), "--show-traceback"]
    told, trouble, _ = api.run([*settings, *files])
    assert not trouble
    assert not [line for line in told.splitlines() if "face.py" in line and "error:" in line]
    found = dict(re.findall(r'names\.py:(\d+): note: Revealed type is "(.*)"', told))
    assert len(found) == len(names)
    results = {name: found[str(i)].rpartition("->")[2].strip() for i, name in enumerate(names, 3)}
    unknown = {name for name, kind in results.items() if kind in ("Any", "Any)")}
    assert unknown - SEVERAL_FORMS - OF_PYTHON == set()
