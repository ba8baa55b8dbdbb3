"""Other ways to derivatives that a check has found right: several gradients in one call, and J v forwards.

Both rest on backward passes here (is_grads_batched makes one for each row, J v takes two), so that they are compared
with plain ones along random directions, and not once more with numerical derivatives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tinygrad_tf import engine
from tinygrad_tf.autograd.differentiate import grad
from tinygrad_tf.autograd.pushforward import Pushforward
from tinygrad_tf.autograd.report import WRONG, Report
from tinygrad_tf.autograd.subjects import tensors_of
from tinygrad_tf.engine import current_node, make

ROWS = 2


def check_other_ways(
    report: Report, func: Callable[..., Any], arguments: Any, batched: bool = False, forward: bool = False
) -> None:
    """Add to the report what several gradients at once (batched), and J v (forward), have wrong."""
    if report.problems or not (batched or forward):
        return
    given = tuple(arguments) if isinstance(arguments, (tuple, list)) else (arguments,)
    inputs: list[Any] = [x for x in given if isinstance(x, engine.Tensor) and current_node(x) is not None]
    outputs = [o for o in tensors_of(func(*given)) if current_node(o) is not None]
    if not outputs:
        return
    random = np.random.default_rng(report.seed)

    def directions(tensors: list[Any], *rows: int) -> list[Any]:
        return [make(random.standard_normal((*rows, *t.array.shape)).astype(t.array.dtype)) for t in tensors]

    weights = directions(outputs, ROWS)
    alone = [_arrays(grad(outputs, inputs, [w[i] for w in weights], True, allow_unused=True)) for i in range(ROWS)]
    if batched:
        together = _arrays(grad(outputs, inputs, weights, True, allow_unused=True, is_grads_batched=True))
        for j, rows in enumerate(together):
            if rows is not None and not all(_near(rows[i], alone[i][j]) for i in range(ROWS)):
                report.problems.append((WRONG, f"batched gradients of input {j} are not those of one pass each"))
    if forward:
        along = directions(inputs)
        moved = _arrays(Pushforward(outputs, inputs).along(along, False))
        for i in range(ROWS):
            pushed = [float((w.array[i] * m).sum()) for w, m in zip(weights, moved, strict=True) if m is not None]
            pulled = [float((g * v.array).sum()) for g, v in zip(alone[i], along, strict=True) if g is not None]
            size = sum(float(np.abs(g * v.array).sum()) for g, v in zip(alone[i], along, strict=True) if g is not None)
            if abs(sum(pushed) - sum(pulled)) > _tolerance(outputs[0].array) * max(size, 1e-6):
                line = f"J v found forwards gives {sum(pushed):.8g} where backward gives {sum(pulled):.8g}"
                report.problems.append((WRONG, f"{line}; likely mistake: the derivative of backward itself"))
                return


def _arrays(tensors: Any) -> list[Any]:
    return [None if t is None else t.array for t in tensors]


def _tolerance(array: np.ndarray) -> float:
    return 1e-6 if array.dtype == np.float64 else 1e-2


def _near(a: np.ndarray, b: np.ndarray) -> bool:
    return bool(np.allclose(a, b, rtol=_tolerance(a), atol=1e-6 * max(1.0, float(np.abs(b).max(initial=0.0)))))
