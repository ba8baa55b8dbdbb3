"""Five bugs in the backward of a hand-written layer, found by check_backward one after the other.

The layer is the heart of a Transformer block in plain NumPy: rows of an embedding table, layer norm, a linear map, and
a softmax. Its backward has five mistakes of the kinds that everybody makes. Each round checks a part, prints the
report, and takes back the mistake that the report names.

    python examples/find_the_bug.py
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tinygrad_tf.autograd import check_backward

EPS = 1e-5


# --- forward ----------------------------------------------------------------------------------------------------------


def embedding(table: np.ndarray, ids: np.ndarray) -> np.ndarray:
    return table[ids]


def layer_norm(x: np.ndarray, gain: np.ndarray) -> np.ndarray:
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt(x.var(-1, keepdims=True) + EPS) * gain


def linear(x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    return x @ weight + bias


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


# --- backward, with the bugs ------------------------------------------------------------------------------------------


def embedding_backward(g: np.ndarray, table: np.ndarray, ids: np.ndarray, fixed: bool) -> Any:
    d = np.zeros_like(table)
    if fixed:
        np.add.at(d, ids, g)
    else:
        d[ids] += g  # bug 1
    return d, None


def layer_norm_backward(g: np.ndarray, x: np.ndarray, gain: np.ndarray, fixed: bool) -> Any:
    deviation = np.sqrt(x.var(-1, keepdims=True) + EPS)
    y = (x - x.mean(-1, keepdims=True)) / deviation
    dy = g * gain
    dx = dy - y * (dy * y).mean(-1, keepdims=True)
    if fixed:
        dx = dx - dy.mean(-1, keepdims=True)  # bug 2, without this line
    return dx / deviation, (g * y).sum(0)


def linear_backward(g: np.ndarray, x: np.ndarray, weight: np.ndarray, bias: np.ndarray, fixed: int) -> Any:
    dx = g @ weight.T if fixed >= 1 else g @ weight  # bug 3
    dbias = g.sum(0) if fixed >= 2 else g  # bug 4
    return dx, x.T @ g, dbias


def softmax_backward(g: np.ndarray, x: np.ndarray, fixed: bool) -> Any:
    y = softmax(x)
    return y * (g - (g * y).sum(-1, keepdims=True)) if fixed else y * g  # bug 5


# --- the hunt ---------------------------------------------------------------------------------------------------------


def main() -> int:
    random = np.random.default_rng(0)
    x, weight, bias = (random.standard_normal(shape) for shape in ((3, 4), (4, 4), (4,)))
    table, ids = random.standard_normal((6, 4)), np.array([2, 0, 2, 5])
    gain = random.uniform(0.5, 1.5, 4)
    rounds: list[tuple[str, Any, Any, tuple[Any, ...], list[int]]] = [
        ("embedding", embedding, embedding_backward, (table, ids), [0, 1]),
        ("layer norm", layer_norm, layer_norm_backward, (x, gain), [0, 1]),
        ("linear", linear, linear_backward, (x, weight, bias), [0, 1, 2]),
        ("softmax", softmax, softmax_backward, (x,), [0, 1]),
    ]
    found = 0
    for name, forward, backward, inputs, stages in rounds:
        for stage in stages:

            def this(g: np.ndarray, *arrays: Any, backward: Any = backward, stage: int = stage) -> Any:
                return backward(g, *arrays, stage)

            report = check_backward(forward, this, inputs, raise_exception=False)
            report.title = f"{name}, {'as written' if stage == 0 else f'after {stage} correction' + 's' * (stage > 1)}"
            print(report, end="\n\n")
            found += not report
    print(f"{found} bugs found")
    return 0 if found == 5 else 1


if __name__ == "__main__":
    raise SystemExit(main())
