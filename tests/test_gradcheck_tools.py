"""Around gradcheck: the pytest plugin, what the command finds in a file, and the example with its five bugs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tinygrad_tf.autograd.targets import TargetError, find
from tinygrad_tf.cli.gradcheck import Request, run
from tinygrad_tf.utils.errors import InputError

ROOT = Path(__file__).parent.parent

LAYERS = """
import numpy as np
from tinygrad_tf import nn

def layer(x, w):
    return np.maximum(x @ w, 0)

def layer_backward(g, x, w):
    g = g * (x @ w > 0)
    return g @ w.T, x.T @ g

def half(x):
    return x**2

def half_backward(g, x):
    return x * g

half_inputs = np.array([1.0, 2.0])

def product(a, b):
    return (a * b).tanh()

def product_inputs():
    return np.ones(3), np.full(3, 0.5)

def check_cube():
    import tinygrad_tf as tg
    return lambda x: x**3, tg.ones(2, dtype=tg.float64, requires_grad=True)

class Square:
    def forward(self, x):
        self.x = x
        return x**2
    def backward(self, g):
        return 2 * self.x * g

square = Square()
square_inputs = np.ones(3)

class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 2)
    def forward(self, x):
        return self.linear(x)
"""


@pytest.fixture
def layers(tmp_path: Path) -> str:
    path = tmp_path / "my_layers.py"
    path.write_text(LAYERS)
    return str(path)


def test_jobs_of_a_file(layers: str) -> None:
    assert [j.name for j in find(layers)] == ["half", "product", "check_cube", "square"]
    verdicts = {j.name: j.run().verdict for j in find(layers)}
    assert verdicts == {"half": "wrong", "product": "right", "check_cube": "right", "square": "right"}
    (job,) = find(f"{layers}::layer", [(3, 4), (4, 2)])
    assert job.run().verdicts == {"x": "right", "w": "right"}
    (job,) = find(f"{layers}::Square", [(2, 3)])
    assert job.run().verdicts == {"x": "right"}
    (job,) = find(f"{layers}::Scale", [(2, 3)])
    assert job.run().verdicts == {"x": "right", "linear.weight": "right", "linear.bias": "right"}


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("nowhere.py", "no such file"),
        ("", "no such file: ''"),
        (".", "is a directory; name a file in it"),
        ("{}::nothing", "has no 'nothing'; it has: Scale, check_cube, half, layer, product"),
        ("{}::layer", "needs inputs for x, w: add layer_inputs"),
        ("{}::half_inputs", "is a ndarray"),
    ],
)
def test_what_cannot_be_found_is_one_line(layers: str, target: str, words: str) -> None:
    with pytest.raises(TargetError, match=words) as caught:
        for job in find(target.format(layers)):
            job.run()
    assert "\n" not in str(caught.value)


OPERATIONS = """
import functools
import tinygrad_tf as tg
from tinygrad_tf.autograd import Function

class Square(Function):
    @staticmethod
    def forward(ctx, number, times=1):
        ctx.save_for_backward(number)
        return number**2

    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0], None

class Product(Function):
    @staticmethod
    def forward(left, right):
        return left * right

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        left, right = ctx.saved_tensors
        return g * right, g * left

Product_inputs = tg.ones(2, dtype=tg.float64), tg.ones(2, dtype=tg.float64)
for tensor in Product_inputs:
    tensor.requires_grad_()
net = tg.nn.Linear(3, 2)
net_inputs = tg.ones(1, 3)
cube = functools.partial(pow, exp=3)
cube_inputs = Product_inputs[:1]

def number():
    return 1

def truth():
    return tg.ones(1).numpy().all()
"""


def test_operations_modules_and_anything_that_can_be_called_with_inputs(tmp_path: Path) -> None:
    path = tmp_path / "operations.py"
    path.write_text(OPERATIONS)
    assert [j.name for j in find(str(path))] == ["Product", "net", "cube"]
    verdicts = {j.name: j.run().verdicts for j in find(str(path))}
    assert verdicts["Product"] == {"left": "right", "right": "right"} and set(verdicts["cube"].values()) == {"right"}
    assert set(verdicts["net"].values()) == {"right"} and len(verdicts["net"]) >= 2
    (job,) = find(f"{path}::Square", [(3,)])
    assert job.run().verdicts == {"number": "wrong"}
    with pytest.raises(TargetError, match="needs inputs for number: add Square_inputs"):
        find(f"{path}::Square")[0].run()
    with pytest.raises(TargetError, match="it has: Product, Square, cube, net, number, truth"):
        find(f"{path}::nothing")
    with pytest.raises(TargetError, match=r"must check something.*got int"):
        find(f"{path}::number")[0].run()
    assert find(f"{path}::truth")[0].run().verdict == "right"


@pytest.mark.parametrize("shape", ["x", ",", "3,,4", "3x", "-1", "a"])
def test_shapes_that_are_none_are_told(layers: str, shape: str) -> None:
    with pytest.raises(InputError, match="--shape must be sizes like 3,4"):
        run(Request([f"{layers}::layer"], [shape]))


def test_a_file_that_does_not_load(tmp_path: Path) -> None:
    path = tmp_path / "broken.py"
    path.write_text("1 / 0")
    with pytest.raises(TargetError, match=r"cannot be imported: ZeroDivisionError"):
        find(str(path))
    path.write_text("import sys; sys.exit(3)")
    with pytest.raises(TargetError, match=r"cannot be imported: SystemExit: 3"):
        find(str(path))
    path.write_text("x = 3")
    with pytest.raises(TargetError, match=r"nothing to check by itself: write a function in it, or a module"):
        find(str(path))
    path.write_text("def g(x): return x\ndef f(x): return x")
    with pytest.raises(TargetError, match=r"name one of f, g \(as .*broken.py::f --shape 3,4\), or add f_inputs"):
        find(str(path))


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("raise KeyError('k')", "KeyError: 'k'"),
        ("return 1 / 0", "ZeroDivisionError: division by zero"),
        ("return x.nothing()", "AttributeError: 'Tensor' object has no attribute 'nothing'"),
        ("assert False", "AssertionError"),
        ("import sys; sys.exit(1)", "SystemExit: 1"),
        ("pytest.skip('no GPU')", "Skipped: no GPU"),  # which is no Exception
    ],
)
def test_an_error_of_the_users_function_is_one_line_that_names_its_line(tmp_path: Path, body: str, told: str) -> None:
    path = tmp_path / "mistaken.py"
    path.write_text(f"import pytest\n\ndef f(x):\n    {body}\n\nf_inputs = [1.0]\n")
    with pytest.raises(InputError) as caught:
        run(Request([f"{path}::f"], ["3"]))
    assert str(caught.value) == f"f cannot be checked: {told} (mistaken.py, line 4)"


def test_one_function_that_cannot_be_checked_does_not_hide_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "three.py"
    path.write_text(
        "def f(x):\n    return x * x\n\ndef g(x):\n    return x.nothing()\n\ndef h(x):\n    return x.exp()\n\n"
        "f_inputs = g_inputs = h_inputs = __import__('numpy').ones(3)\n"
    )
    assert run(Request([str(path)])) == 1
    shown = capsys.readouterr().out
    rows = {
        words[1]: words[3:5] for line in shown.splitlines() if (words := line.split())[1:2] in (["f"], ["g"], ["h"])
    }
    assert rows == {"f": ["right", "│"], "g": ["not", "checked"], "h": ["right", "│"]}
    told = "AttributeError: 'Tensor' object has no attribute 'nothing' (three.py, line 5)"
    assert f"g cannot be checked: {told}" in shown


def test_files_with_dataclasses_any_number_of_inputs_and_names_that_are_taken(tmp_path: Path) -> None:
    path = tmp_path / "json.py"
    path.write_text(
        "from __future__ import annotations\nimport dataclasses, numpy as np\n"
        "@dataclasses.dataclass\nclass Size:\n    n: int = 3\n"
        "def f(*x):\n    return x[0] * Size().n\n"
        "def f_inputs():\n    yield np.ones(2)\n"
    )
    json = sys.modules["json"]
    assert run(Request([str(path)])) == 0
    assert sys.modules["json"] is json


def test_the_command_prints_a_table_and_says_how_it_went(layers: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(Request([f"{layers}::layer"], ["3,4", "4x2"])) == 0
    assert "right" in capsys.readouterr().out
    assert run(Request([layers])) == 1
    out = capsys.readouterr().out
    assert "wrong" in out and "0.5 times the right one" in out and "product" in out
    for request in (
        Request([f"{layers}::layer"], ["a"]),
        Request(["nowhere.py"]),
        Request([f"{layers}::layer"], ["3"]),
    ):
        with pytest.raises(InputError):
            run(request)


def test_plugin(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(
        "import numpy as np\n"
        "import tinygrad_tf as tg\n"
        "from tinygrad_tf import nn\n"
        "from tinygrad_tf.autograd import gradcheck as direct\n"
        "def test_wrong(gradcheck):\n"
        "    gradcheck.backward(lambda x: x**2, lambda g, x: x * g, np.ones(3))\n"
        "def test_right(gradcheck):\n"
        "    x = tg.ones(2, dtype=tg.float64, requires_grad=True)\n"
        "    assert gradcheck(lambda x: x * x, x)\n"
        "    assert gradcheck.second_order(lambda x: x**3, x)\n"
        "    assert gradcheck.module(nn.Linear(2, 2), tg.ones(1, 2))\n"
        "    assert direct(lambda x: x * 2, x)\n"
        "import pytest\n"
        "@pytest.fixture(params=[1, 2])\n"
        "def checked(gradcheck, request):\n"
        "    gradcheck.backward(lambda x: x**2, lambda g, x: request.param * x * g, np.ones(3))\n"
        "def test_fixture(checked):\n"
        "    pass\n"
    )
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:tinygrad_tf",
        "-p",
        "tinygrad_tf.autograd.pytest_plugin",
        "-p",
        "no:cacheprovider",
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": ""}  # whose options would be printed, too
    result = subprocess.run(
        [*command, "--gradcheck-summary", "-n", "2", "test_mine.py"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert result.returncode == 1, result.stdout
    shown = result.stdout
    assert "1 failed, 2 passed, 1 error" in shown
    assert "test_mine.py:6: Jacobian mismatch" in shown
    assert "likely mistake: a constant factor" in shown
    assert "pairs.py" not in shown and "def decide" not in shown  # no frames of the checker
    table = shown[shown.index("gradient checks") :]
    assert table.count("test_mine.py::test_right") == 4
    rows = [line for line in table.splitlines() if line.startswith("test_mine.py::test_fixture")]
    assert len(rows) == 2 and "FAILED: a constant factor" in rows[0] and "right" in rows[1]
    for title in ("gradcheck", "gradgradcheck", "Linear", "backward"):
        assert title in table


def test_the_example_finds_its_five_bugs() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    path = ROOT / "examples" / "find_the_bug.py"
    result = subprocess.run([sys.executable, str(path)], env=environment, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stdout + result.stderr
    for words in (
        "repeated indices",
        "mean over axis 1",
        "transposed",
        "broadcast axis",
        "softmax rule",
        "5 bugs found",
    ):
        assert words in result.stdout
