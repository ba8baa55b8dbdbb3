"""Every kind of mistake is planted in at least twenty places, and named; right functions are never accused."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from typing import Any

import numpy as np
import pytest

from tinygrad_tf.autograd import GradcheckError, check_backward

Plant = tuple[str, str, Any, Any, tuple[Any, ...]]  # kind, place, forward, backward, inputs


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).standard_normal(shape)


def softmax(x: np.ndarray, axis: int | tuple[int, ...] = -1) -> np.ndarray:
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def layer_norm(x: np.ndarray, axis: Any = -1, eps: float = 1e-5) -> np.ndarray:
    return (x - x.mean(axis=axis, keepdims=True)) / np.sqrt(x.var(axis=axis, keepdims=True) + eps)


def layer_norm_backward(
    g: np.ndarray, x: np.ndarray, axis: Any = -1, eps: float = 1e-5, mean: bool = True, var: bool = True
) -> np.ndarray:
    y = layer_norm(x, axis, eps)
    d = g
    if mean:
        d = d - g.mean(axis=axis, keepdims=True)
    if var:
        d = d - y * (g * y).mean(axis=axis, keepdims=True)
    return d / np.sqrt(x.var(axis=axis, keepdims=True) + eps)


# name: forward, backward (a tuple of gradients), inputs
HOSTS: dict[str, tuple[Any, Any, tuple[Any, ...]]] = {
    "square": (lambda x: x * x, lambda g, x: (2 * x * g,), (numbers(5),)),
    "tanh": (np.tanh, lambda g, x: (g * (1 - np.tanh(x) ** 2),), (numbers(2, 3),)),
    "exp": (np.exp, lambda g, x: (g * np.exp(x),), (numbers(4, 2),)),
    "sin": (np.sin, lambda g, x: (g * np.cos(x),), (numbers(7),)),
    "reciprocal": (lambda x: 1 / x, lambda g, x: (-g / x**2,), (numbers(3, 3) + 4,)),
    "log": (np.log, lambda g, x: (g / x,), (np.abs(numbers(6)) + 0.5,)),
    "sum": (lambda x: x.sum(), lambda g, x: (np.full_like(x, g),), (numbers(3, 4),)),
    "mean": (lambda x: x.mean(1), lambda g, x: (np.repeat(g[:, None], 5, 1) / 5,), (numbers(3, 5),)),
    "matmul": (lambda x, w: x @ w, lambda g, x, w: (g @ w.T, x.T @ g), (numbers(3, 4), numbers(4, 2))),
    "linear": (
        lambda x, w, b: x @ w.T + b,
        lambda g, x, w, b: (g @ w, g.T @ x, g.sum(0)),
        (numbers(5, 3), numbers(4, 3), numbers(4)),
    ),
    "mul": (lambda a, b: a * b, lambda g, a, b: (g * b, g * a), (numbers(3, 4), numbers(3, 4, seed=1))),
    "softmax": (
        softmax,
        lambda g, x: ((lambda y: y * (g - (g * y).sum(-1, keepdims=True)))(softmax(x)),),
        (numbers(3, 5),),
    ),
    "layer_norm": (layer_norm, lambda g, x: (layer_norm_backward(g, x),), (numbers(3, 6),)),
    "norm": (lambda x: np.sqrt((x * x).sum()), lambda g, x: (g * x / np.sqrt((x * x).sum()),), (numbers(8),)),
    "mse": (
        lambda x, y: ((x - y) ** 2).mean(),
        lambda g, x, y: (g * 2 * (x - y) / 12, -g * 2 * (x - y) / 12),
        (numbers(4, 3), numbers(4, 3, seed=1)),
    ),
    "outer": (np.outer, lambda g, a, b: (g @ b, a @ g), (numbers(4), numbers(3))),
    "scores": (
        lambda q, k: q @ k.T / 2.0,
        lambda g, q, k: (g @ k / 2.0, g.T @ q / 2.0),
        (numbers(5, 4), numbers(3, 4)),
    ),
    "cumsum": (lambda x: np.cumsum(x, 0), lambda g, x: (np.cumsum(g[::-1], 0)[::-1],), (numbers(6),)),
}


def with_factor(name: str, position: int, factor: float) -> Any:
    def backward(g: Any, *inputs: Any) -> Any:
        found = list(HOSTS[name][1](g, *inputs))
        found[position] = found[position] * factor
        return tuple(found)

    return backward


def factor_plants() -> list[Plant]:
    places = [
        ("square", 0, 0.5),
        ("square", 0, -1),
        ("tanh", 0, 2),
        ("exp", 0, -1),
        ("sin", 0, -1),
        ("reciprocal", 0, -1),
        ("log", 0, 1 / 6),
        ("sum", 0, 1 / 12),
        ("mean", 0, 5),
        ("matmul", 0, 1 / 3),
        ("matmul", 1, 1 / 3),
        ("linear", 1, 1 / 5),
        ("linear", 2, 1 / 5),
        ("mul", 0, 2),
        ("softmax", 0, -1),
        ("layer_norm", 0, np.sqrt(6)),
        ("norm", 0, 2),
        ("mse", 0, 0.5),
        ("mse", 1, -1),
        ("mse", 0, 12),
        ("outer", 1, -2),
        ("scores", 0, 2),
        ("scores", 1, 0.5),
        ("cumsum", 0, -1),
        ("matmul", 1, 1.01),
        ("tanh", 0, -0.5),
    ]
    return [
        ("a constant factor", f"{n}[{i}] * {c:.3g}", HOSTS[n][0], with_factor(n, i, c), HOSTS[n][2])
        for n, i, c in places
    ]


def detached_plants() -> list[Plant]:
    plants: list[Plant] = []
    for name, (forward, backward, inputs) in HOSTS.items():
        for i in range(len(inputs)):

            def lost(g: Any, *x: Any, i: int = i, backward: Any = backward) -> Any:
                found = list(backward(g, *x))
                found[i] = None if i % 2 == 0 else np.zeros_like(x[i])
                return tuple(found)

            plants.append(("detached", f"{name}[{i}]", forward, lost, inputs))
    return plants


def transposed_plants() -> list[Plant]:
    square, other = numbers(3, 3), numbers(3, 3, seed=1)
    w, x = numbers(4, 2), numbers(3, 4)
    plants: list[tuple[str, Any, Any, tuple[Any, ...]]] = [
        ("dX = g @ W", lambda x, w: x @ w, lambda g, x, w: (g @ w, x.T @ g), (square, other)),
        ("dW = x @ g", lambda x, w: x @ w, lambda g, x, w: (g @ w.T, x @ g), (square, other)),
        ("dW = g.T @ x", lambda x, w: x @ w, lambda g, x, w: (g @ w.T, g.T @ x), (square, other)),
        ("dX = (g @ W.T).T", lambda x, w: x @ w, lambda g, x, w: ((g @ w.T).T, x.T @ g), (square, other)),
        ("linear dW", lambda x, w: x @ w.T, lambda g, x, w: (g @ w, x.T @ g), (square, other)),
        ("linear dX", lambda x, w: x @ w.T, lambda g, x, w: (g @ w.T, g.T @ x), (square, other)),
        ("dW of wrong shape", lambda x, w: x @ w, lambda g, x, w: (g @ w.T, g.T @ x), (x, w)),
        ("dX of wrong shape", lambda x, w: x @ w, lambda g, x, w: ((g @ w.T).T, x.T @ g), (x, w)),
        ("dX reshaped", lambda x: 3 * x.T, lambda g, x: (3 * g.reshape(3, 4),), (x,)),
        ("dX reshaped, rest", lambda x: x.T**2, lambda g, x: (2 * x * g.reshape(3, 4),), (x,)),
        ("elementwise, g.T", lambda x: x * x, lambda g, x: (2 * x * g.T,), (square,)),
        ("elementwise, all .T", lambda x: x * x, lambda g, x: ((2 * x * g).T,), (square,)),
        ("transpose forgotten", lambda x: x.T * 2, lambda g, x: (g * 2,), (square,)),
        (
            "permute (2, 0, 1)",
            lambda x: x.transpose(2, 0, 1),
            lambda g, x: (g.transpose(2, 0, 1),),
            (numbers(3, 3, 3),),
        ),
        (
            "permute 3-d",
            lambda x: x.transpose(2, 0, 1) ** 2,
            lambda g, x: ((2 * x * g.transpose(0, 1, 2)),),
            (numbers(2, 2, 2),),
        ),
        ("split heads", lambda x: x.reshape(3, 2, 2).transpose(1, 0, 2), lambda g, x: (g.reshape(3, 4),), (x,)),
        (
            "merge heads",
            lambda x: x.transpose(1, 0, 2).reshape(3, 4),
            lambda g, x: (g.reshape(2, 3, 2),),
            (numbers(2, 3, 2),),
        ),
        ("flip", lambda x: x[::-1], lambda g, x: (g,), (numbers(5),)),
        ("flip, axis 1", lambda x: x[:, ::-1] * 2, lambda g, x: (2 * g,), (x,)),
        ("cumsum not reversed", lambda x: np.cumsum(x), lambda g, x: (np.cumsum(g),), (numbers(5),)),
        ("roll", lambda x: np.roll(x, 1), lambda g, x: (np.roll(g, 1),), (numbers(6),)),
        ("off by one", lambda x: x**2, lambda g, x: (np.roll(2 * x * g, 1),), (numbers(6),)),
        (
            "outer, dA and dB",
            lambda a, b: np.outer(a, b),
            lambda g, a, b: (g.T @ b, g.T @ a),
            (numbers(4), numbers(4, seed=2)),
        ),
        ("scores dQ", lambda q, k: q @ k.T, lambda g, q, k: (g.T @ k, g.T @ q), (numbers(4, 2), numbers(4, 2, seed=1))),
        ("shuffle", lambda x: x[[2, 0, 3, 1]], lambda g, x: (g[[2, 0, 3, 1]],), (numbers(4),)),
        ("column sum", lambda x: x.sum(0), lambda g, x: (np.repeat(g[:, None], 4, 1),), (numbers(4, 4),)),
    ]
    return [(r"transposed|permuted", n, f, b, i) for n, f, b, i in plants]


def broadcast_plants() -> list[Plant]:
    plants: list[Plant] = []
    kind = "not summed over a broadcast axis"
    shapes = [
        ((3, 4), (4,)),
        ((3, 4), (3, 1)),
        ((3, 4), (1, 4)),
        ((2, 3, 4), (4,)),
        ((2, 3, 4), (3, 4)),
        ((2, 3, 4), (2, 1, 1)),
        ((5,), ()),
        ((2, 3), (1, 1)),
    ]
    for big, small in shapes:
        x, b = numbers(*big), numbers(*small, seed=3)
        plants.append((kind, f"add {big} {small}, whole", lambda x, b: x + b, lambda g, x, b: (g, g), (x, b)))
        plants.append((kind, f"mul {big} {small}, whole", lambda x, b: x * b, lambda g, x, b: (g * b, g * x), (x, b)))
    for big, small in shapes[:2] + shapes[3:4]:
        x, b = numbers(*big), numbers(*small, seed=3)

        def one(g: Any, x: Any, b: Any) -> Any:
            axis = 1 if b.ndim == 2 else 0
            part = np.take(g, 0, axis)
            while part.ndim > b.ndim:
                part = part.sum(0)
            return g, part.reshape(b.shape)

        plants.append((kind, f"add {big} {small}, one", lambda x, b: x + b, one, (x, b)))

        def last(g: Any, x: Any, b: Any) -> Any:
            axis = 1 if b.ndim == 2 else 0
            part = np.take(g * x, -1, axis)
            while part.ndim > b.ndim:
                part = part.sum(0)
            return g * b, part.reshape(b.shape)

        plants.append((kind, f"mul {big} {small}, last", lambda x, b: x * b, last, (x, b)))
    return plants


def repeated_plants() -> list[Plant]:
    plants: list[Plant] = []
    cases = [
        [0, 1, 1, 2],
        [2, 2, 2, 0, 1],
        [0, 0],
        [1, 3, 1, 0, 3],
        [4, 4, 0, 0, 4],
        [0, 2, 1, 2],
        [3, 3],
        [1, 0, 1, 0, 2],
        [5, 5, 5, 1],
        [0, 1, 2, 0],
    ]
    for ids, wide in itertools.product(cases, (False, True)):
        index = np.array(ids)
        table = numbers(7, 2) if wide else numbers(7)

        def backward(g: Any, table: Any, index: Any, scale: float = 1.0) -> Any:
            d = np.zeros_like(table)
            d[index] += g * scale
            return d

        plants.append(("only the last of", f"table {table.shape}[{ids}]", lambda t, i: t[i], backward, (table, index)))
    index2 = np.array([[0, 1], [1, 2]])
    for scale in (1.0, 3.0):

        def scaled(g: Any, t: Any, i: Any, scale: float = scale) -> Any:
            d = np.zeros_like(t)
            d[i] = g * scale
            return d

        plants.append(
            ("only the last of", f"2-d ids * {scale}", lambda t, i, s=scale: t[i] * s, scaled, (numbers(4, 3), index2))
        )
    return plants


def softmax_plants() -> list[Plant]:
    plants: list[Plant] = []
    for shape, axis in [
        ((5,), 0),
        ((3, 4), 1),
        ((3, 4), 0),
        ((2, 3, 4), 2),
        ((2, 3, 4), 1),
        ((2, 3, 3), 0),
        ((1, 6), 1),
    ]:
        x = numbers(*shape)
        for name, forward, backward in [
            ("softmax", lambda x, a=axis: softmax(x, a), lambda g, x, a=axis: g * softmax(x, a)),
            ("log_softmax", lambda x, a=axis: np.log(softmax(x, a)), lambda g, x, a=axis: g),
            ("at temperature 2", lambda x, a=axis: softmax(x / 2, a), lambda g, x, a=axis: g * softmax(x / 2, a) / 2),
            ("times 3", lambda x, a=axis: 3 * softmax(x, a), lambda g, x, a=axis: 3 * g * softmax(x, a)),
        ]:
            plants.append(("softmax rule without its sum", f"{name} {shape} axis {axis}", forward, backward, (x,)))
    for shape in [(4, 3), (2, 5, 4), (1, 3, 2), (2, 2, 3, 4)]:
        k, q, v = (numbers(*shape, seed=i) for i in range(3))
        plants.append(("softmax rule without its sum", f"keys of attention {shape}", attend, attend_badly, (k, q, v)))
    return plants


def attend(k: np.ndarray, q: np.ndarray, v: np.ndarray) -> np.ndarray:
    return softmax(q @ k.swapaxes(-1, -2)) @ v


def attend_badly(g: np.ndarray, k: np.ndarray, q: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, ...]:
    weights = softmax(q @ k.swapaxes(-1, -2))
    lacking = weights * (g @ v.swapaxes(-1, -2))
    return lacking.swapaxes(-1, -2) @ q, lacking @ k, weights.swapaxes(-1, -2) @ g


def target_plants() -> list[Plant]:
    """Cross-entropy without its one-hot target, of rows or summed up, at any axis."""
    plants: list[Plant] = []
    for rows, classes, scale in itertools.product((2, 3, 5), (3, 4, 7), (1.0, 0.5)):
        x, target = numbers(rows, classes), np.arange(rows) % classes
        forward = lambda x, t, s=scale: -s * np.log(softmax(x))[np.arange(len(t)), t].mean()  # noqa: E731
        backward = lambda g, x, t, s=scale: s * g * softmax(x) / len(t)  # noqa: E731
        plants.append(("one-hot target", f"{rows} rows of {classes} * {scale}", forward, backward, (x, target)))
    for length in (3, 8):
        x = numbers(length)
        plants.append(
            ("one-hot target", f"{length}", lambda x: -np.log(softmax(x))[1], lambda g, x: g * softmax(x), (x,))
        )
    return plants


def rounded_plants() -> list[Plant]:
    """Right gradients that went through float32, in every host."""
    plants: list[Plant] = []
    for name, (forward, backward, inputs) in HOSTS.items():
        in_float32 = lambda g, *xs, b=backward: tuple(np.float64(np.float32(d)) for d in b(g, *xs))  # noqa: E731
        plants.append((r"right to \d+ digits", name, forward, in_float32, inputs))
    return plants


def mean_plants() -> list[Plant]:
    plants: list[Plant] = []
    for shape, axis in [
        ((6,), 0),
        ((3, 5), 1),
        ((5, 3), 0),
        ((2, 3, 4), 2),
        ((2, 3, 4), 1),
        ((2, 3, 4), (1, 2)),
        ((4, 2, 3), (0, 2)),
    ]:
        x = numbers(*shape) * 2 + 1
        kind = r"mean .*taken as constant"
        plants.append(
            (kind, f"centre {shape} {axis}", lambda x, a=axis: x - x.mean(a, keepdims=True), lambda g, x: g, (x,))
        )
        plants.append(
            (
                kind,
                f"layer_norm {shape} {axis}",
                lambda x, a=axis: layer_norm(x, a),
                lambda g, x, a=axis: layer_norm_backward(g, x, a, mean=False),
                (x,),
            )
        )
        plants.append(
            (
                kind,
                f"square {shape} {axis}",
                lambda x, a=axis: (x - x.mean(a, keepdims=True)) ** 2,
                lambda g, x, a=axis: 2 * g * (x - x.mean(a, keepdims=True)),
                (x,),
            )
        )
        both = "mean and the variance .*taken as constant"
        plants.append(
            (
                both,
                f"both {shape} {axis}",
                lambda x, a=axis: layer_norm(x, a),
                lambda g, x, a=axis: layer_norm_backward(g, x, a, mean=False, var=False),
                (x,),
            )
        )
        plants.append(
            (
                "the variance .*taken as constant",
                f"var {shape} {axis}",
                lambda x, a=axis: layer_norm(x, a, 0.1),
                lambda g, x, a=axis: layer_norm_backward(g, x, a, 0.1, var=False),
                (x,),
            )
        )
    return plants


def mask_plants() -> list[Plant]:
    plants: list[Plant] = []
    relu = lambda x: np.maximum(x, 0)  # noqa: E731
    for shape in [(8,), (3, 4), (2, 3, 4), (10,), (5, 2)]:
        x = numbers(*shape, seed=5)
        m = numbers(*shape, seed=6) > 0
        plants += [
            ("mask", f"relu {shape}", relu, lambda g, x: g * (x < 0), (x,)),
            (
                "mask",
                f"masked fill {shape}",
                lambda x, m: np.where(m, -5.0, x),
                lambda g, x, m: (np.where(m, g, 0), None),
                (x, m),
            ),
            ("mask", f"dropout {shape}", lambda x, m: x * m * 2, lambda g, x, m: (g * ~m * 2, None), (x, m)),
            (
                "mask",
                f"leaky {shape}",
                lambda x: np.where(x > 0, x, 0.1 * x),
                lambda g, x: g * np.where(x > 0, 0.1, 1),
                (x,),
            ),
            ("mask", f"relu squared {shape}", lambda x: relu(x) ** 2, lambda g, x: g * 2 * x * (x < 0), (x,)),
        ]
    a, b = numbers(6), numbers(6, seed=1)
    plants += [
        ("mask|swapped", "maximum", np.maximum, lambda g, a, b: (g * (a < b), g * (a > b)), (a, b)),
        ("mask|swapped", "where", lambda a, b: np.where(a > 5, a, b), lambda g, a, b: (g, 0 * g), (a, b)),
        ("mask", "clip", lambda x: np.clip(x, -1, 1), lambda g, x: g * (np.abs(x) > 1), (numbers(9) * 2,)),
        ("mask is missing", "relu", relu, lambda g, x: g, (a,)),
    ]
    return plants


PLANTS = [
    *factor_plants(),
    *detached_plants(),
    *transposed_plants(),
    *broadcast_plants(),
    *repeated_plants(),
    *softmax_plants(),
    *target_plants(),
    *mean_plants(),
    *mask_plants(),
]


@pytest.mark.parametrize("plant", PLANTS, ids=[f"{p[0][:12]}:{p[1]}" for p in PLANTS])
def test_a_planted_mistake_is_found_and_named(plant: Plant) -> None:
    kind, _, forward, backward, inputs = plant
    report = check_backward(forward, backward, inputs, raise_exception=False)
    assert report.verdict == "wrong"
    if kind.startswith("mask|swapped") or kind == "detached":
        assert report.diagnosis, str(report)
    assert any(re.search(kind, d) for d in report.diagnosis), str(report)


@pytest.mark.parametrize("plant", rounded_plants(), ids=[p[1] for p in rounded_plants()])
def test_a_gradient_in_float32_is_called_so(plant: Plant) -> None:
    """Within atol and rtol it passes, as in PyTorch; the report still says what it saw."""
    kind, _, forward, backward, inputs = plant
    report = check_backward(forward, backward, inputs, atol=1e-12, rtol=1e-12, raise_exception=False)
    named = [d for d in report.diagnosis if re.search(kind, d)]
    assert len(named) == len(report.diagnosis), str(report)
    if report.verdict == "wrong":
        assert named, str(report)


def test_every_kind_has_twenty_plants() -> None:
    groups = [
        factor_plants(),
        detached_plants(),
        transposed_plants(),
        broadcast_plants(),
        repeated_plants(),
        softmax_plants(),
        target_plants(),
        mean_plants(),
        mask_plants(),
    ]
    assert min(map(len, groups)) >= 20, Counter(map(len, groups))


@pytest.mark.parametrize("name", HOSTS)
def test_the_hosts_themselves_are_right(name: str) -> None:
    forward, backward, inputs = HOSTS[name]
    report = check_backward(forward, backward, inputs)
    assert report and report.worst_error < 1e-6


def told(forward: Any, backward: Any, *inputs: np.ndarray) -> str:
    with pytest.raises(GradcheckError) as caught:
        check_backward(forward, backward, inputs)
    return str(caught.value)


SAVED = {  # forward, the rule, of what it is a formula
    "exp": (np.exp, lambda y: y, "result"),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), lambda y: y * (1 - y), "result"),
    "tanh": (np.tanh, lambda y: 1 - y * y, "result"),
    "sqrt": (np.sqrt, lambda y: 0.5 / y, "result"),
    "reciprocal": (lambda x: 1 / x, lambda y: -y * y, "result"),
    "square": (lambda x: x * x, lambda x: 2 * x, "input"),
    "log": (np.log, lambda x: 1 / x, "input"),
    "sin": (np.sin, np.cos, "input"),
    "cos": (np.cos, lambda x: -np.sin(x), "input"),
}


@pytest.mark.parametrize("name", SAVED)
def test_saving_the_input_for_the_result_is_named(name: str) -> None:
    """The mistake of many a first Function: ctx.save_for_backward(x) where the rule wants y, or the other way round."""
    forward, rule, of = SAVED[name]
    x = np.abs(numbers(2, 3)) + 0.3
    wrong = (lambda g, x: g * rule(x)) if of == "result" else (lambda g, x: g * rule(forward(x)))
    text = told(forward, wrong, x)
    other = "input" if of == "result" else "result"
    assert f"the {other} in place of the {of}: the rule of {name} is a formula of the {of}; save that one" in text
    right = (lambda g, x: g * rule(forward(x))) if of == "result" else (lambda g, x: g * rule(x))
    assert check_backward(forward, right, x)


def test_a_stand_in_for_the_gradient_of_a_step_is_called_one() -> None:
    for step in (np.round, np.sign, lambda x: (x > 0) * 1.0):
        text = told(step, lambda g, x: g, numbers(5))
        assert "none, if this is a stand-in (a straight-through estimator)" in text
        assert "mask" not in text


def test_a_backward_that_ignores_what_it_is_given_is_told_so_alone() -> None:
    text = told(lambda a, b: a * b, lambda g, a, b: (b.copy(), a.copy()), numbers(3), numbers(3, seed=1))
    assert text.count("likely mistake") == 2 and text.count("does not multiply by the gradient that it is given") == 2


def test_an_output_whose_gradient_is_not_used_is_named() -> None:
    def forward(x: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return x * w, np.tanh(x) + np.sin(w)

    report = check_backward(
        forward,
        lambda g, h, x, w: (g * w, g * x),
        (numbers(3), numbers(3, seed=1)),
        raise_exception=False,
    )
    assert report.diagnosis == [
        "backward does not use the gradient of output 1, neither for this input nor for any other"
    ]


def test_what_cross_entropy_subtracts_too_often_is_not_called_missing() -> None:
    target = np.array([1, 2, 1, 2])

    def forward(x: np.ndarray) -> Any:
        return -np.log(softmax(x)[np.arange(4), target]).mean()

    def backward(g: Any, x: np.ndarray, everywhere: bool = True) -> np.ndarray:
        found = softmax(x)
        if everywhere:
            found[:, target] -= 1
        return g * found / 4

    x = numbers(4, 3)
    assert "one-hot" not in told(forward, backward, x)
    assert "one-hot target of cross-entropy is not subtracted" in told(forward, lambda g, x: backward(g, x, False), x)


def test_a_gradient_that_is_nearly_right_has_no_wrong_sign() -> None:
    """In float32, where 0.99999 is within what the factor's test forgives."""
    x = numbers(4, 3)

    def backward(g: np.ndarray, x: np.ndarray) -> np.ndarray:
        found = g * np.cos(x) * 1.00001
        found[0, 0] *= 1.002
        return found

    assert "sign" not in told(np.sin, backward, x)


def test_a_factor_is_named_by_a_size_before_the_root_of_one() -> None:
    """4 is the size of an axis, and the root of the number of elements, 16: sizes are what people forget."""
    report = check_backward(
        lambda x: x.mean(1),
        lambda g, x: np.repeat(g[:, None], 4, 1),
        np.arange(16.0).reshape(4, 4),
        raise_exception=False,
    )
    assert report.diagnosis[0].endswith("(4, the size of axis 0 of the input)")


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def convolve(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    return np.array([x[i : i + len(w)] @ w for i in range(len(x) - len(w) + 1)])


def convolve_backward(g: np.ndarray, x: np.ndarray, w: np.ndarray, flipped: bool = True) -> tuple[np.ndarray, ...]:
    kernel = w[::-1] if flipped else w
    return convolve(np.pad(g, len(w) - 1), kernel), convolve(x, g)


STRUCTURE: dict[str, tuple[Any, Any, Any, tuple[Any, ...], str]] = {  # forward, right, wrong, inputs, what is said
    "the diagonal of a softmax": (
        softmax,
        HOSTS["softmax"][1],
        lambda g, x: g * softmax(x) * (1 - softmax(x)),
        (numbers(3, 4),),
        "only the diagonal of the Jacobian is left",
    ),
    "a kernel that is not flipped": (
        convolve,
        convolve_backward,
        lambda g, x, w: convolve_backward(g, x, w, flipped=False),
        (numbers(7), numbers(3)),
        "the kernel of a convolution is flipped the wrong way: .* reversed along axis 0",
    ),
    "a residual connection forgotten": (
        lambda x, w: x + np.tanh(x @ w),
        lambda g, x, w: (g + g * (1 - np.tanh(x @ w) ** 2) @ w.T, x.T @ (g * (1 - np.tanh(x @ w) ** 2))),
        lambda g, x, w: (g * (1 - np.tanh(x @ w) ** 2) @ w.T, x.T @ (g * (1 - np.tanh(x @ w) ** 2))),
        (numbers(3, 4), numbers(4, 4)),
        "a direct path is missing",
    ),
    "the branch forgotten": (
        lambda x: x + x**3,
        lambda g, x: g * (1 + 3 * x**2),
        lambda g, x: g,
        (numbers(5),),
        "passed on unchanged",
    ),
    "a path counted twice": (
        lambda x: x + x**3,
        lambda g, x: g * (1 + 3 * x**2),
        lambda g, x: g * (2 + 3 * x**2),
        (numbers(5),),
        "a direct path too many",
    ),
    "a gain forgotten": (
        lambda x, gain: layer_norm(x) * gain,
        lambda g, x, gain: (layer_norm_backward(g * gain, x), (g * layer_norm(x)).sum(0)),
        lambda g, x, gain: (layer_norm_backward(g, x), (g * layer_norm(x)).sum(0)),
        (numbers(3, 4), numbers(4) + 2),
        "the gradient of the output is not multiplied by gain",
    ),
    "a gain counted twice": (
        lambda x, gain: layer_norm(x) * gain,
        lambda g, x, gain: (layer_norm_backward(g * gain, x), (g * layer_norm(x)).sum(0)),
        lambda g, x, gain: (layer_norm_backward(g * gain * gain, x), (g * layer_norm(x)).sum(0)),
        (numbers(3, 4), numbers(4) + 2),
        "multiplied by gain once more than it must be",
    ),
    "the derivative of an activation forgotten": (
        lambda x, w: sigmoid(x @ w),
        lambda g, x, w: (lambda d: (d @ w.T, x.T @ d))(g * sigmoid(x @ w) * (1 - sigmoid(x @ w))),
        lambda g, x, w: (g @ w.T, x.T @ g),
        (numbers(3, 4), numbers(4, 2)),
        r"the derivative of sigmoid, y \* \(1 - y\) with the result y",
    ),
    "the derivative of an activation at its input": (
        lambda x, w: np.tanh(x @ w),
        lambda g, x, w: (lambda d: (d @ w.T, x.T @ d))(g * (1 - np.tanh(x @ w) ** 2)),
        lambda g, x, w: (lambda d: (d @ w.T, x.T @ d))(g * (1 - (x @ w) ** 2)),
        (numbers(3, 4), numbers(4, 2)),
        "the input of tanh in place of its result",
    ),
    "a softmax whose sum has the wrong sign": (
        softmax,
        HOSTS["softmax"][1],
        lambda g, x: softmax(x) * (g + (g * softmax(x)).sum(-1, keepdims=True)),
        (numbers(3, 4),),
        "without its sum term, or with another one",
    ),
}


@pytest.mark.parametrize("name", STRUCTURE)
def test_what_the_rows_of_the_jacobian_tell(name: str) -> None:
    forward, right, wrong, inputs, words = STRUCTURE[name]
    assert check_backward(forward, right, inputs)
    report = check_backward(forward, wrong, inputs, raise_exception=False)
    assert report.verdict == "wrong" and re.search(words, report.diagnosis[0]), str(report)


def test_n_in_place_of_n_less_1_is_not_said_to_be_a_missing_term_for_certain() -> None:
    def norm(x: np.ndarray) -> np.ndarray:
        return (x - x.mean(0)) / np.sqrt(x.var(0, ddof=1) + 0.01)

    def backward(g: np.ndarray, x: np.ndarray, count: int = 6) -> np.ndarray:
        y = norm(x)
        return (g - g.mean(0) - y * (g * y).sum(0) / count) / np.sqrt(x.var(0, ddof=1) + 0.01)

    x = numbers(6, 3)
    assert check_backward(norm, lambda g, x: backward(g, x, 5), x)
    assert "a sum term is missing or not right" in told(norm, backward, x)
