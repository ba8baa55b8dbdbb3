"""An input that is used more than once: each use adds a share to its gradient, and one is lost.

Let y be the output and x the input. If y is linear in one of the uses, then that share S has S x = y (Euler): for
y = x f(x) it is f(x), for tied weights that of the last product, for attention of x to itself that of the values, for
x / |x| what is left if |x| is taken as constant. The other shares do not.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tinygrad_tf._quiet import quiet
from tinygrad_tf.autograd.evidence import LOOSE, Evidence

USES = "each use of it adds a share (x * f(x), tied weights, a residual connection, x beside its own norm)"


def lost_share(e: Evidence) -> Iterator[str]:
    x, y = e.values.reshape(-1).astype(np.float64), e.result.reshape(-1).astype(np.float64)
    if y.size != len(e.numeric) or not y.any() or _is(e, e.numeric @ x, y, x):
        return
    if _is(e, e.analytic @ x, y, x):
        yield (
            f"{e.pair.input} is used more than once, and only one share of its gradient is there, that of a plain "
            f"factor of the output; {USES}"
        )
    elif _is(e, (e.numeric - e.analytic) @ x, y, x):
        yield (
            f"{e.pair.input} is used more than once, and one share of its gradient is lost, that of a plain factor of "
            f"the output; {USES}"
        )
    yield from _rows_looked_up(e)


def _is(e: Evidence, product: np.ndarray, y: np.ndarray, x: np.ndarray) -> bool:
    """Whether a Jacobian times x is y, as exactly as the numbers tell."""
    with quiet():
        doubt = 5 * e.pair.error @ np.abs(x)
        size = np.abs(e.numeric) @ np.abs(x)
        room = LOOSE * np.maximum(np.abs(y), 1e-2 * size) + doubt
        return bool((np.abs(product - y) <= room).all() and (room <= 0.1 * size).all())


def _rows_looked_up(e: Evidence) -> Iterator[str]:
    """A table that is also used elsewhere: the gradient is right but for the rows looked up, or lives there alone."""
    shape = e.pair.input_shape
    if len(shape) < 2:
        return
    lives, should, wrong = (
        m.any(0).reshape(shape[0], -1).any(1) for m in (e.alive(e.analytic), e.alive(e.numeric), ~e.right)
    )
    for index in e.integers:
        ids = np.unique(index)
        looked_up = np.isin(np.arange(shape[0]), ids)
        if index.shape[:1] == shape[:1]:  # a number for each row, as labels are
            continue
        if ids.size < 2 or looked_up.all() or (ids < 0).any() or (ids >= shape[0]).any():
            continue
        if np.array_equal(lives, looked_up) and should.all():
            yield f"only the rows that are looked up get a gradient, and all matter: {USES}"
        elif np.array_equal(wrong, looked_up) and lives.all():
            yield f"wrong are just the rows that are looked up, whose share is lost: {USES}"
