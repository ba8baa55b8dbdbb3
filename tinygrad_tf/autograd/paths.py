"""An input that reaches the output on several paths, each through a product with a matrix of its own; and a penalty.

Let z = x W, and D what its gradient adds to that of x, dz W^T. Then x^T D = (x^T dz) W^T, and x^T dz is the gradient of
W. So a missing D = N - A is that of the path through W if x^T D is the gradient of W times W^T, for every output. A
weight that lies the other way, z = x W^T, is tried as well.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tinygrad_tf._quiet import quiet
from tinygrad_tf.autograd.evidence import LOOSE, Evidence
from tinygrad_tf.autograd.report import Pair

USES = "each use of {} adds a share to its gradient"


def lost_path(e: Evidence) -> Iterator[str]:
    """N - A, A - N or A is what comes back through a product with one of the other inputs."""
    name = e.pair.input
    uses = USES.format(name)
    for p, turned in _matrices(e):
        through = _through(e, p, p.numeric, turned)
        weight = p.input + (".T" if turned else "")
        if _alike(_crossed(e, e.numeric), through):
            return  # there is no other path
        if _alike(_crossed(e, e.numeric - e.analytic), through):
            yield f"the path through {p.input} is missing: {uses}, and that of {name} @ {weight} is not added"
        elif _alike(_crossed(e, e.analytic - e.numeric), through):
            yield f"the path through {p.input} is counted twice: {uses}, and that of {name} @ {weight} is there twice"
        elif _alike(_crossed(e, e.analytic), through):
            yield f"only the path through {p.input} is there: {uses}, and only that of {name} @ {weight} is added"
        elif p.numeric.shape == e.numeric.shape and e.values.shape[-1:] * 2 == e.inputs[p.input].shape:
            swapped = _through(e, p, p.numeric, turned, forward=True)
            if _alike(_crossed(e, e.numeric - e.analytic), through - swapped):
                yield f"a transpose is missing: the gradient must be multiplied by {weight}.T, not by {weight}"


def _matrices(e: Evidence) -> Iterator[tuple[Pair, bool]]:
    """Other inputs that this one may be multiplied by, right and whole, and whether transposed."""
    if not e.pair.input_shape:
        return
    size = e.pair.input_shape[-1]
    for p in e.report.pairs:
        if p is e.pair or p.output != e.pair.output or not p.complete or len(p.input_shape) != 2:
            continue
        if p.got_shape is None and p.numeric.any():
            if p.input_shape[0] == size:
                yield p, False
            if p.input_shape[1] == size:
                yield p, True


def _crossed(e: Evidence, jacobian: np.ndarray) -> np.ndarray:
    """x^T D for every output: (m, C, C)."""
    size = e.pair.input_shape[-1]
    x = e.values.astype(np.float64).reshape(-1, size)
    return np.asarray(x.T @ jacobian.reshape(len(jacobian), -1, size))


def _through(e: Evidence, p: Pair, gradient: np.ndarray, turned: bool, forward: bool = False) -> np.ndarray:
    """The gradient of the weight times the weight, transposed as it must be (forward: and as it must not)."""
    weight = e.inputs[p.input].astype(np.float64)
    found = gradient.reshape(len(gradient), *p.input_shape)
    if turned:
        weight, found = weight.T, np.swapaxes(found, 1, 2)
    return np.asarray(found @ (weight if forward else weight.T))


def _alike(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two sets of matrices are the same, and not nothing."""
    with quiet():
        size = float(np.abs(b).max(initial=0.0))
        return size > 1e-8 and a.shape == b.shape and bool((np.abs(a - b) <= LOOSE * size).all())


# --- penalties --------------------------------------------------------------------------------------------------------


def lost_penalty(e: Evidence) -> Iterator[str]:
    """Of a loss, N - A is a number times the input itself: what is added to a loss as c / 2 sum(x^2) adds c x."""
    x = e.values.reshape(-1).astype(np.float64)
    if len(e.numeric) != 1 or x.size < 3 or not np.ptp(np.abs(x)) > 0.01 * np.abs(x).max():
        return
    lost = (e.numeric - e.analytic)[0]
    c = float(lost @ x / (x @ x))
    noise = 4 * e.pair.error[0] + LOOSE * abs(c) * np.abs(x).max()
    if abs(c) * float(np.abs(x).max()) > 20 * float(e.pair.error.max()) and (np.abs(lost - c * x) <= noise).all():
        what = "a penalty of the loss" if c > 0 else "a penalty that is there too often"
        yield (
            f"right but for {c:.6g} * {e.pair.input}, {what} ({c / 2:.6g} * sum({e.pair.input}^2), a weight decay) "
            f"whose gradient is {'missing, or has another factor' if c > 0 else 'too large'}"
        )
