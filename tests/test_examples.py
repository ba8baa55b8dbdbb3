"""The claims of the examples, checked against numbers that are not theirs: the papers', and plain NumPy.

tests/test_documents.py runs the scripts themselves, each of which ends with the assertions of what it shows.
"""

from __future__ import annotations

import ast
import importlib.util
import math
import re
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import tinygrad_tf as tg
from tinygrad_tf.nn import sinusoidal_table

pytest.importorskip("matplotlib").use("Agg")

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))


def load(name: str) -> ModuleType:
    path = EXAMPLES[0].parent / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"examples_{name}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.name)
def test_says_what_it_shows(path: Path) -> None:
    """The first line is a claim, how to run it and every picture is named, and it fails where it does not hold."""
    code = path.read_text(encoding="utf-8")
    document = ast.get_docstring(ast.parse(code)) or ""
    assert document.splitlines()[0].endswith(".") and f"python examples/{path.name}" in document
    assert "assert " in code or "return 0 if" in code
    for ending in re.findall(r"writes \S+\.(\w+)", document):
        assert f"{path.stem}.{ending}" in document and "savefig(" in code


def test_three_words_by_hand() -> None:
    module = load("attention_by_hand")
    steps = module.steps(module.X, module.X, module.X)
    third = np.exp([1 / math.sqrt(2), 1 / math.sqrt(2), 2 / math.sqrt(2)])
    assert np.allclose(third, [2.03, 2.03, 4.11], atol=0.005)
    assert np.allclose(steps["weights"][2].numpy(), third / third.sum(), atol=1e-6)
    assert steps["scores"].tolist() == [[1, 0, 1], [0, 1, 1], [1, 1, 2]]
    assert np.allclose(steps["scaled"][0].numpy(), [0.7071, 0, 0.7071], atol=1e-4)
    assert np.allclose(steps["weights"].sum(-1).numpy(), 1, atol=1e-6)
    assert np.allclose(steps["outputs"].numpy(), [[0.80, 0.60], [0.60, 0.80], [0.75, 0.75]], atol=0.005)


def test_softmax_gradient_is_that_of_sigmoid() -> None:
    module = load("why_sqrt_dk")
    z = np.linspace(-8, 8, 33)
    p = 1 / (1 + np.exp(-z))
    for gradient in module.softmax_of_two(z):
        assert np.allclose(gradient, p * (1 - p), atol=1e-12)


@pytest.mark.parametrize("size", [16, 512])
def test_variance_of_dot_products_is_their_size(size: int) -> None:
    products = load("why_sqrt_dk").dot_products(10_000, size)
    assert products.shape == (10_000,)
    # The variance of a sample of 10,000 strays by sqrt(2 / 10,000), about 1.4 %; four times that is allowed.
    assert abs(products.var() / size - 1) < 0.06 and abs(products.mean()) < 4 * math.sqrt(size / 10_000)


def test_heads_split_and_merge() -> None:
    module = load("heads_as_shapes")
    x = module.where_from()
    array = x.numpy()
    right = module.split(x, module.H).numpy()
    assert all((right[:, h] == array[:, :, 64 * h : 64 * (h + 1)]).all() for h in range(8))
    assert (module.merge(module.split(x, module.H)).numpy() == array).all()
    wrong = module.split_wrongly(x, module.H).numpy()
    assert wrong.shape == right.shape and (wrong != right).any()
    assert len(np.unique(wrong[0, 0] // 1000)) == 2  # two positions of ten


@pytest.mark.parametrize("k", [1, 7, 100])
def test_shifted_positions_are_rotated(k: int) -> None:
    table, matrix = sinusoidal_table(300, 64), tg.nn.rotation(k, 64)
    assert np.allclose(table[:-k] @ matrix.T, table[k:], atol=1e-10)
    assert np.allclose(matrix @ matrix.T, np.eye(64), atol=1e-12) and np.linalg.det(matrix) == pytest.approx(1)


def test_attention_without_positions_has_no_order() -> None:
    module = load("positions")
    assert module.change_of_order(False) < 1e-6
    assert module.change_of_order(True) > 0.01


def test_the_mask_hides_what_is_later() -> None:
    module = load("causal_mask")
    masked, bare = module.dependence(True), module.dependence(False)
    later = np.triu(np.ones_like(masked, dtype=bool), 1)
    assert (masked[later] == 0).all() and (masked[~later] > 0).all() and (bare > 0).all()


def test_residuals_carry_the_gradient() -> None:
    module = load("residual_and_norm")
    with_, without = module.gradient_by_depth(True, 12), module.gradient_by_depth(False, 12)
    assert with_[0] > 0.5 * with_[-1] and without[0] < 1e-3 * without[-1]
    assert set(module.change_by_neighbours("layer").values()) == {0.0}
    assert min(module.change_by_neighbours("batch").values()) > 0.1


def test_gradient_at_the_top_falls_with_pre_norm_alone() -> None:
    module = load("residual_and_norm")
    pre, post = (
        module.gradient_at_the_top(first, 16) / module.gradient_at_the_top(first, 4) for first in (True, False)
    )
    assert 0.35 < pre < 0.7 and 0.85 < post < 1.15  # 1 / sqrt(16 / 4), and 1


def test_activations_against_their_formulas() -> None:
    module = load("activations")
    x = np.linspace(-4, 4, 50)
    p, t = 1 / (1 + np.exp(-x)), np.tanh(x)
    by_hand = {"sigmoid": p * (1 - p), "tanh": 1 - t * t, "ReLU": x > 0, "SiLU": p + x * p * (1 - p), "softplus": p}
    for name, gradient in by_hand.items():
        assert np.allclose(module.curve(module.ACTIVATIONS[name], x)[1], gradient, atol=1e-9), name


def test_cost_counts_the_products_of_matrices() -> None:
    counts = load("cost_of_attention").multiply_adds(7, 3)
    assert counts == {"attention: scores and sums": 294, "attention: linear layers": 252, "RNN": 126}


def test_repeated_pieces() -> None:
    repeated = load("greedy_repeats").repeated
    assert repeated("abcdefgh", 3) == 0 and repeated("aaaaaa", 3) == pytest.approx(0.75)
    assert repeated("abcabc", 3) == pytest.approx(0.25)


def test_the_graph_of_an_expression() -> None:
    module = load("see_the_graph")
    x = tg.tensor([1.0, 2.0], requires_grad=True)
    y = (x * x).sum()  # x is used twice: a line for each, and one box
    nodes = module.walk(y)
    assert [node.kind for node in nodes] == ["leaf", "mul", "sum"]
    assert list(module.heights(nodes).values()) == [0, 1, 2]
    found = module.gradients(y, nodes)
    assert found[nodes[0]].tolist() == [2.0, 4.0] and found[nodes[1]].tolist() == [1.0, 1.0]
