"""check_backward takes pairs as people write them: losses with their gradients, lists, layers with parameters."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tinygrad_tf as tg
from tinygrad_tf import nn
from tinygrad_tf.autograd import check_backward, check_module
from tinygrad_tf.autograd.suspects import find_suspects
from tinygrad_tf.autograd.targets import find


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng([9, *shape]).standard_normal(shape)


X, W = numbers(3, 4), numbers(4, 2)


def verdicts(forward: Any, backward: Any, inputs: Any) -> dict[str, str]:
    return check_backward(forward, backward, inputs, raise_exception=False).verdicts


# --- losses and derivatives -------------------------------------------------------------------------------------------


def softmax_loss(x: np.ndarray, y: np.ndarray, factor: float = 1.0) -> tuple[Any, np.ndarray]:
    p = np.exp(x) / np.exp(x).sum(1, keepdims=True)
    rows = np.arange(len(y))
    d = p.copy()
    d[rows, y] -= 1
    return -np.log(p[rows, y]).mean(), factor * d / len(y)


def test_a_loss_that_returns_its_gradients() -> None:
    y = np.array([0, 3, 1])
    assert verdicts(softmax_loss, None, (X, y)) == {"x": "right"}
    assert verdicts(lambda x, y: softmax_loss(x, y, 3.0), None, (X, y)) == {"x": "wrong"}
    assert verdicts(lambda x, w: ((x @ w).sum(), {"w": np.outer(x.sum(0), [1, 1]), "x": 0 * x}), None, (X, W)) == {
        "x": "wrong",
        "w": "right",
    }
    assert verdicts(lambda a, b: ((a * b).sum(), b, a), None, (X, X + 1)) == {"a": "right", "b": "right"}
    with pytest.raises(ValueError, match=r"forward must return \(loss, gradient\).*got an array of shape \(3, 4\)"):
        check_backward(lambda x: x * 2, None, X)


def test_a_derivative_that_is_not_told_of_the_outputs_gradient() -> None:
    assert verdicts(lambda x: (x**2).sum(), lambda x: 2 * x, X) == {"x": "right"}
    assert verdicts(lambda x: (x**2).sum(), lambda x: x, X) == {"x": "wrong"}
    assert verdicts(np.tanh, lambda x: 1 - np.tanh(x) ** 2, X) == {"x": "right"}
    assert verdicts(lambda z: np.tanh(z), lambda z: 1 - np.tanh(z), X) == {"z": "wrong"}
    with pytest.raises(ValueError, match=r"takes the inputs alone.*the output has shape \(3, 2\).*grad_output"):
        check_backward(lambda x: x @ W, lambda x: 0 * x, X)


# --- arguments and results --------------------------------------------------------------------------------------------


def test_numbers_and_lists_are_arrays() -> None:
    assert verdicts(lambda a, b: a * b, lambda g, a, b: (g * b, g * b), (2.0, 3.0)) == {"a": "right", "b": "wrong"}
    assert verdicts(lambda x: x**2, lambda g, x: 2 * x * g, [1.0, 2.0]) == {"x": "right"}
    assert verdicts(lambda x: (x**2).tolist(), lambda g, x: (2 * x * g).tolist(), X) == {"x": "right"}
    assert verdicts(lambda x: float((x**2).sum()), lambda g, x: [2 * v * g for v in x], X[0]) == {"x": "right"}
    wrong_beside_an_array = verdicts(lambda x, a: x * a, lambda g, x, a: (g * a, g.sum()), (X, np.float64(2.0)))
    assert wrong_beside_an_array == {"x": "right", "a": "wrong"}
    assert verdicts(lambda x: x**2, lambda g, x: {"dx": 2 * x * g}, X) == {"x": "right"}


@pytest.mark.parametrize(
    ("forward", "backward", "error", "words"),
    [
        (lambda x, w: x @ w, lambda x, w, dout: (dout @ w.T, 0), ValueError, "is written as backward(x, w, dout)"),
        (lambda x, w: (x @ w, w), lambda cache, dout: dout, ValueError, "first, backward(dout, cache)"),
        (lambda x, w: x @ w, lambda g, x: g, TypeError, "backward(g, x) is called as backward(grad_output, x, w)"),
        (lambda x, w: x @ w, lambda g, x, w: g @ w.T, ValueError, "one for each float input (x, w), got 1"),
        (lambda x, w: {"y": x @ w}, lambda g, x, w: g, ValueError, "output 0 has type dict"),
    ],
)  # fmt: skip
def test_what_is_written_in_another_order_or_does_not_fit_is_told(
    forward: Any, backward: Any, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=re.escape(words)):
        check_backward(forward, backward, (X, W))


def test_tensors_classes_and_layers_are_sent_where_they_belong() -> None:
    with pytest.raises(ValueError, match="use gradcheck for a function of Tensors"):
        check_backward(lambda x: x, lambda g, x: g, tg.ones(3))
    with pytest.raises(TypeError, match=r"got the class Linear; pass Linear\(...\)"):
        check_module(nn.Linear, X)
    with pytest.raises(TypeError, match=r"check_backward\(layer.forward, layer.backward, inputs\)"):
        check_module(Affine(W), X)


# --- layers with parameters -------------------------------------------------------------------------------------------


class Affine:
    def __init__(self, weight: np.ndarray, factor: float = 1.0):
        self.W, self.b, self.factor = weight.copy(), numbers(weight.shape[1]), factor
        self.dW: Any = None

    def forward(self, x: np.ndarray) -> np.ndarray:
        self.x, self.dx = x.copy(), None
        return x @ self.W + self.b

    def backward(self, g: np.ndarray) -> np.ndarray:
        self.dW, self.db = self.factor * self.x.T @ g, g.sum(0)
        return g @ self.W.T


class WithLists:
    """The parameters in two lists, the gradients added to what is there."""

    def __init__(self) -> None:
        self.params, self.grads = [W.copy()], [np.zeros_like(W)]

    def forward(self, x: np.ndarray) -> np.ndarray:
        self.x = x
        return x @ self.params[0]

    def backward(self, g: np.ndarray) -> np.ndarray:
        self.grads[0] += self.x.T @ g
        return g @ self.params[0].T


class WithDicts(WithLists):
    def __init__(self) -> None:
        self.params: Any = {"W": W.copy()}
        self.grads: Any = {}

    def forward(self, x: np.ndarray) -> np.ndarray:
        self.x = x
        return x @ self.params["W"]

    def backward(self, g: np.ndarray) -> np.ndarray:
        self.grads = {"dW": -self.x.T @ g}
        return g @ self.params["W"].T


class Network:
    def __init__(self) -> None:
        self.layers = [Affine(W), Affine(numbers(2, 2), 2.0)]

    def forward(self, x: np.ndarray) -> np.ndarray:
        for layer in self.layers:
            x = layer.forward(x)
        return x

    def backward(self, g: np.ndarray) -> np.ndarray:
        for layer in reversed(self.layers):
            g = layer.backward(g)
        return g


class ByName:
    """A network whose loss returns the gradients of its parameters by name."""

    def __init__(self, factor: float = 1.0):
        self.params, self.factor = {"W": W.copy(), "b": numbers(2)}, factor

    def loss(self, x: np.ndarray, y: np.ndarray) -> tuple[Any, dict[str, np.ndarray]]:
        loss, d = softmax_loss(x @ self.params["W"] + self.params["b"], y)
        return loss, {"W": x.T @ d, "b": self.factor * d.sum(0)}


class Table:
    def __init__(self, add: bool):
        self.weight, self.weight_grad, self.add = W.copy(), np.zeros_like(W), add

    def forward(self, ids: np.ndarray) -> np.ndarray:
        self.ids = ids
        return self.weight[ids]

    def backward(self, g: np.ndarray) -> None:
        self.weight_grad[...] = 0
        if self.add:
            np.add.at(self.weight_grad, self.ids, g)
        else:
            self.weight_grad[self.ids] += g


def of_layer(layer: Any, inputs: Any) -> dict[str, str]:
    return verdicts(layer.forward, layer.backward, inputs)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.filterwarnings("ignore:check_backward")
def test_parameters_of_layers_are_checked(dtype: type) -> None:
    x = X.astype(dtype)
    layer = Affine(W.astype(dtype))
    layer.b = layer.b.astype(dtype)
    assert of_layer(layer, x) == {"x": "right", "W": "right", "b": "right"}
    np.testing.assert_array_equal(layer.W, W.astype(dtype))
    layer.factor = 2.0
    assert of_layer(layer, x) == {"x": "right", "W": "wrong", "b": "right"}


def test_parameters_in_lists_dicts_and_inner_layers() -> None:
    assert of_layer(WithLists(), X) == {"x": "right", "params[0]": "right"}
    assert of_layer(WithDicts(), X) == {"x": "right", "params['W']": "wrong"}
    assert of_layer(Network(), X) == {
        "x": "right",
        **{f"layers[0].{n}": "right" for n in "Wb"},
        "layers[1].W": "wrong",
        "layers[1].b": "right",
    }


def test_a_network_whose_loss_returns_gradients_by_name() -> None:
    y = np.array([0, 1, 1])
    network = ByName()
    before = network.params["W"].copy()
    assert verdicts(network.loss, None, (X, y)) == {"W": "right", "b": "right"}
    np.testing.assert_array_equal(network.params["W"], before)
    assert verdicts(ByName(2.0).loss, None, (X, y)) == {"W": "right", "b": "wrong"}


def test_a_layer_that_is_given_whole_numbers_alone() -> None:
    ids = np.array([1, 1, 3])
    assert of_layer(Table(True), ids) == {"weight": "right"}
    with pytest.raises(ValueError, match="at least one float array"):  # methods of two layers hold nothing together
        check_backward(Table(False).forward, Table(False).backward, ids)
    table = Table(False)
    report = check_backward(table.forward, table.backward, ids, raise_exception=False)
    assert report.verdicts == {"weight": "wrong"} and "np.add.at" in report.diagnosis[0]


def test_the_command_checks_a_file_with_a_layer_and_a_loss(tmp_path: Path) -> None:
    file = tmp_path / "homework.py"
    file.write_text(
        "import numpy as np\n"
        "class Affine:\n"
        "    def __init__(self): self.W = np.ones((4, 2)); self.dW = None\n"
        "    def forward(self, x): self.x = x; return x @ self.W\n"
        "    def backward(self, g): self.dW = self.x.T @ g * 2; return g @ self.W.T\n"
        "Affine_inputs = np.ones((3, 4))\n"
        "def loss(x): return (x**2).sum(), x\n"
        "loss_inputs = np.ones(3)\n"
    )
    reports = {job.name: job.run() for job in find(str(file))}
    assert reports["Affine"].verdicts == {"x": "right", "W": "wrong"}
    assert reports["loss"].verdicts == {"x": "wrong"}


# --- large inputs -----------------------------------------------------------------------------------------------------


def test_one_wrong_entry_of_many_is_found() -> None:
    x = numbers(25_000)

    def backward(g: Any, x: np.ndarray) -> np.ndarray:
        return np.where(np.arange(x.size) == 777, 0.0, g * (1 - np.tanh(x) ** 2))

    report = check_backward(lambda x: np.tanh(x).sum(), backward, x, raise_exception=False)
    assert report.verdicts == {"x": "wrong"} and "x[777]" in str(report)
    assert "201 elements looked at of 25000" in str(report)
    every = check_backward(np.tanh, lambda g, x: g * (1 - np.tanh(x)), x, raise_exception=False)
    assert every.verdicts == {"x": "wrong"}


def test_one_kink_among_many_is_found() -> None:
    x = np.where(np.arange(25_000) == 5, 0.0, 1.0 + numbers(25_000) ** 2)
    report = check_backward(lambda x: np.maximum(x, 0), lambda g, x: g * (x > 0), x, raise_exception=False)
    assert report.verdicts == {"x": "not differentiable here"} and "at x[5] there is a kink" in str(report)


def test_halving_finds_what_is_off_and_ends() -> None:
    assert find_suspects(1000, lambda block: bool(np.isin([3, 998], block).any())).tolist() == [3, 998]
    assert find_suspects(1000, lambda block: False).size == 0
    assert find_suspects(100_000, lambda block: True).size == 32
