"""Where a mistake is: paths that are lost, products that hand on what is wrong, formulas of activations, penalties."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tinygrad_tf.autograd import check_backward
from tinygrad_tf.autograd.formulas import ACTIVATIONS, erf

Array = np.ndarray


def numbers(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng([11, seed, *shape]).standard_normal(shape)


def sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(e / e.sum(-1, keepdims=True))


def said(forward: Any, backward: Any, inputs: Any) -> dict[str, str]:
    """The mistake that is named for each input that is wrong."""
    report = check_backward(forward, backward, inputs, raise_exception=False)
    assert report.verdict == "wrong"
    return {p.input: (p.diagnosis or [""])[0] for p in report.pairs if p.verdict == "wrong"}


FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "sigmoid": sigmoid,
    "tanh": np.tanh,
    "silu": lambda x: x * sigmoid(x),
    "gelu": lambda x: x * 0.5 * (1 + erf(x / math.sqrt(2))),
    "gelu's tanh approximation": lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "softplus": lambda x: np.logaddexp(0, x),
}


# --- activations ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_the_formulas_are_those_of_the_functions(name: str) -> None:
    derivative = ACTIVATIONS[name].derivative
    x = numbers(3, 4) * 2
    assert check_backward(FUNCTIONS[name], lambda g, x: g * derivative(x), x)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_slips_in_a_derivative_are_named(name: str) -> None:
    for slip, text in ACTIVATIONS[name].slips:
        (line,) = said(FUNCTIONS[name], lambda g, x, slip=slip: g * slip(x), numbers(3, 4)).values()
        in_place = "in place of the" in line  # of input and result, which has a test of its own
        assert (line.startswith(f"the derivative of {name} is") and line.endswith(text)) or in_place, (text, line)


def test_another_formula_is_told_the_right_one() -> None:
    (line,) = said(np.tanh, lambda g, x: g * np.cosh(x), numbers(3, 4)).values()
    assert line == "the derivative of tanh is 1 - y * y with the result y"


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_slips_between_two_layers_are_named(name: str) -> None:
    function, activation = FUNCTIONS[name], ACTIVATIONS[name]
    inputs = numbers(3, 4), numbers(4, 5, seed=1), numbers(5), numbers(5, 2, seed=2)
    for slip, text in (*activation.slips, (np.ones_like, "it is missing")):

        def backward(g: Array, x: Array, w: Array, b: Array, v: Array, slip: Any = slip) -> tuple[Array, ...]:
            z = x @ w + b
            d = (g @ v.T) * slip(z)
            return d @ w.T, x.T @ d, d.sum(0), function(z).T @ g

        lines = said(lambda x, w, b, v: function(x @ w + b) @ v, backward, inputs)
        assert set(lines) == {"x", "w", "b"}
        if (lines["x"], slip) != ("", activation.derivative):
            assert lines["x"].startswith("behind x @ w + b: "), (name, text, lines["x"])
            assert lines["x"] == lines["w"]


def test_a_gate_of_an_lstm_is_told_by_its_columns() -> None:
    def gates(x: Array, h: Array, w: Array, u: Array, b: Array) -> list[Array]:
        z = x @ w + h @ u + b
        return [sigmoid(z[:, :2]), np.tanh(z[:, 2:])]

    def backward(g: Array, x: Array, h: Array, w: Array, u: Array, b: Array) -> tuple[Array, ...]:
        i, c = gates(x, h, w, u, b)
        d = np.hstack([g * c * i * (1 - i), g * i * c * (1 - c)])
        return d @ w.T, d @ u.T, x.T @ d, h.T @ d, d.sum(0)

    inputs = numbers(3, 4), numbers(3, 3), numbers(4, 4), numbers(3, 4, seed=3), numbers(4)
    lines = said(lambda x, h, w, u, b: math.prod(gates(x, h, w, u, b)), backward, inputs)
    where = "behind x @ w + h @ u + b in columns 2, 3: the derivative of tanh"
    assert lines["x"].startswith(where) and lines["x"].endswith("that of sigmoid is there instead")


# --- masks and what else is behind a product --------------------------------------------------------------------------


def network(x: Array, w: Array, v: Array, y: Array) -> Any:
    p = softmax(np.maximum(x @ w, 0) @ v)
    return -np.log(p[np.arange(len(y)), y]).mean() + 0.05 * (w * w).sum()


def network_backward(g: Any, x: Array, w: Array, v: Array, y: Array, mask: str = "z", decay: float = 0.1) -> Any:
    z = x @ w
    d = softmax(np.maximum(z, 0) @ v)
    d[np.arange(len(y)), y] -= 1
    dh = d / len(y) @ v.T
    dz = dh * {"z": z > 0, "none": True, "other": z < 0}[mask]
    return g * dz @ w.T, g * (x.T @ dz + decay * w), g * np.maximum(z, 0).T @ d / len(y)


Y = np.array([0, 2, 1])


def test_masks_behind_a_loss() -> None:
    inputs = numbers(3, 5), numbers(5, 4), numbers(4, 3), Y

    def of(mask: str, x: Array) -> dict[str, str]:
        return said(network, lambda *a: network_backward(*a, mask=mask), (x, *inputs[1:3], np.resize(Y, len(x))))

    for lines in (of("none", inputs[0]), of("other", inputs[0])):
        assert set(lines) == {"x", "w"}
    assert of("none", inputs[0])["x"].startswith("behind x @ w: a mask is missing, that of relu")
    assert of("other", inputs[0])["x"].startswith("behind x @ w: a mask applied to the wrong side")
    many = of("none", numbers(9, 5))  # of which the gradient of x @ w cannot be told, but where it is wrong
    assert many["x"].startswith("the gradient of x @ w is wrong already") and many["w"] == many["x"]


def test_a_penalty_of_a_loss() -> None:
    inputs = numbers(3, 5), numbers(5, 4), numbers(4, 3), Y
    for decay, text in ((0.0, "0.1 * w, a penalty of the loss"), (0.05, "0.05 * w"), (0.2, "-0.1 * w")):
        lines = said(network, lambda *a, decay=decay: network_backward(*a, decay=decay), inputs)
        assert set(lines) == {"w"} and f"right but for {text}" in lines["w"], lines


# --- several paths ----------------------------------------------------------------------------------------------------


def attention(x: Array, wq: Array, wk: Array, wv: Array) -> Array:
    return softmax((x @ wq) @ (x @ wk).swapaxes(-1, -2)) @ (x @ wv)


def attention_backward(g: Array, x: Array, wq: Array, wk: Array, wv: Array, paths: str, sums: bool = True) -> Any:
    q, k, v = x @ wq, x @ wk, x @ wv
    p = softmax(q @ k.swapaxes(-1, -2))
    dv, dp = p.swapaxes(-1, -2) @ g, g @ v.swapaxes(-1, -2)
    ds = p * (dp - (dp * p).sum(-1, keepdims=True)) if sums else p * dp
    dq, dk = ds @ k, ds.swapaxes(-1, -2) @ q
    shares = {"q": dq @ wq.T, "k": dk @ wk.T, "v": dv @ wv.T}
    return sum(shares[s] for s in paths), *(np.einsum("bti,btj->ij", x, d) for d in (dq, dk, dv))


SELF = numbers(2, 3, 4), numbers(4, 3), numbers(4, 3, seed=1), numbers(4, 3, seed=2)


@pytest.mark.parametrize(
    ("paths", "text"),
    [
        ("qv", "the path through wk is missing"),
        ("kv", "the path through wq is missing"),
        ("qk", "the path through wv is missing"),
        ("v", "only the path through wv is there"),
        ("qkkv", "the path through wk is counted twice"),
    ],
)
def test_paths_of_attention(paths: str, text: str) -> None:
    lines = said(attention, lambda *a: attention_backward(*a, paths=paths), SELF)
    assert set(lines) == {"x"} and lines["x"].startswith(text), lines


def test_what_several_products_hand_on() -> None:
    lines = said(attention, lambda *a: attention_backward(*a, paths="qkv", sums=False), SELF)
    assert set(lines) == {"x", "wq", "wk"}
    assert lines["x"].startswith("the gradient of x @ wq and of x @ wk is wrong already"), lines
    assert lines["wq"].startswith("the gradient of x @ wq is wrong already")


# --- what is no index -------------------------------------------------------------------------------------------------


def test_a_mask_of_whole_numbers_is_no_index() -> None:
    mask = np.array([[1, 0, 1], [1, 1, 0]])
    lines = said(lambda x, m: np.tanh(x * m).sum(), lambda g, x, m: g / np.cosh(x + m) ** 2, (numbers(2, 3), mask))
    assert "indices" not in lines["x"] and "looked up" not in lines["x"]


def test_labels_are_no_rows_looked_up() -> None:
    y = np.array([0, 1, 2, 3, 1])

    def forward(x: Array, y: Array) -> Any:
        return np.exp(x).sum() - x[np.arange(5), y].sum()

    def backward(g: Any, x: Array, y: Array) -> Array:
        d = np.exp(x)
        d[np.arange(5), y] -= 1
        d[:4, 0] += 0.25
        return g * d

    assert "looked up" not in said(forward, backward, (numbers(5, 4), y))["x"]


# --- what a factor may be ---------------------------------------------------------------------------------------------


def test_factors_are_sizes_values_and_ratios_but_no_variance_of_single_elements() -> None:
    def factor(forward: Any, backward: Any, *inputs: Any) -> str:
        return next(line for line in said(forward, backward, inputs).values() if line)

    x, t = numbers(5, 4), np.array(1.7)
    mask = np.arange(20).reshape(5, 4) % 3 > 0
    assert "variance" not in factor(lambda x: x * mask / 0.8, lambda g, x: g * mask, x)
    assert "1.7, the value of t" in factor(lambda x, t: x * t, lambda g, x, t: (g, (g * x).sum()), x, t)
    image, shift = numbers(2, 3, 4, 5), numbers(3, 1, 1)
    bias = factor(lambda x, b: x + b, lambda g, x, b: (g, g.mean((0, 2, 3))[:, None, None]), image, shift)
    assert "1/40, the size of axes 0, 2, 3 of the output together" in bias
    loss = factor(lambda x: (x**2).sum() / 5, lambda g, x: 2 * g * x / 3, numbers(5, 3))
    assert "5/3, the size of axis 0 of the input in place of the size of axis 1 of the input" in loss
