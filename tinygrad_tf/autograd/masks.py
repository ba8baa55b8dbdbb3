"""Masks and branches: the gradient flows where it must be zero, or is zero where it must flow."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from tinygrad_tf.autograd.evidence import WRONG_SIDE, Evidence

ENOUGH = 8  # signs that must agree before a mask is said to be a tensor's


def wrong_mask(e: Evidence) -> Iterator[str]:
    """A lives in exactly those columns (or rows) in which N does not."""
    a, n = e.alive(e.analytic), e.alive(e.numeric)
    if not a.any() or not n.any():
        return
    columns_a, columns_n = a.any(0), n.any(0)
    if not (columns_a & columns_n).any() and (columns_a | columns_n).all():
        yield f"{WRONG_SIDE}: the gradient flows exactly where it must be zero, and is zero elsewhere"
        return
    rows_a, rows_n = a.any(1), n.any(1)
    if a.shape[0] > 1 and not (rows_a & rows_n).any() and (rows_a | rows_n).all():
        yield f"{WRONG_SIDE}: the gradient comes from exactly the outputs that do not depend on the input"


def missing_mask(e: Evidence) -> Iterator[str]:
    """A is N where N lives, and does not vanish where N does."""
    n = e.alive(e.numeric)
    a = e.alive(e.analytic)
    if n.any() and (a & ~n).any() and bool(np.all(~n | e.right)):
        yield "a mask is missing: the gradient also flows where it must be zero"


def another_mask(e: Evidence) -> Iterator[str]:
    """A is N where both live, and each lives where the other does not. The mask may be the sign of a known tensor."""
    a, n = e.alive(e.analytic), e.alive(e.numeric)
    both = a & n
    if not (a & ~n).any() or not (n & ~a).any() or not e.right[both].all():
        return
    if not both.any() and e.pair.input_shape == e.pair.output_shape and not (a | n)[~np.eye(len(a), dtype=bool)].any():
        yield f"{WRONG_SIDE}, or another mask: the gradient flows only where it must be zero"
        return
    text = "another mask: the gradient is right where it must flow and does, but it also flows where it must be zero"
    owner = _owner(e, a, a | n)
    if owner:
        yield f"{text}: it is zero where {owner} is not positive; take the mask from what was masked in forward"
    elif both.sum() >= ENOUGH and np.ptp(np.abs(e.numeric[both])) > 1e-3 * np.abs(e.numeric[both]).max():
        yield f"{text}, and is zero where it must flow; was the mask (of a relu, of dropout) taken from another tensor?"


def _owner(e: Evidence, lives: np.ndarray, where: np.ndarray) -> str:
    """The tensor, if any, whose sign is the mask: along axes of the Jacobian that have its sizes."""
    shape = e.tensor_shape
    lives, where = lives.reshape(shape), where.reshape(shape)
    known = {**e.inputs, "the result": e.result}
    for name, values in known.items():
        if not 1 <= values.ndim <= 3:
            continue
        for axes in itertools.permutations(range(len(shape)), values.ndim):
            if tuple(shape[i] for i in axes) != values.shape:
                continue
            order = np.argsort(axes)
            view = [shape[i] if i in axes else 1 for i in range(len(shape))]
            positive = (values > 0).transpose(order).reshape(view)
            others = tuple(i for i in range(len(shape)) if i not in axes)
            told = np.broadcast_to(positive, shape)
            if np.array_equal(lives & where, told & where) and int(where.any(axis=others).sum()) >= ENOUGH:
                return name
    return ""


def exchanged_branches(e: Evidence) -> Iterator[str]:
    """A / N takes two values, each the other's inverse: two branches of a condition were exchanged."""
    alive = e.alive(e.numeric)
    if not alive.any() or (e.alive(e.analytic) != alive).any():
        return
    ratios = e.analytic[alive] / e.numeric[alive]
    if not (ratios > 0).all():
        return
    logs = np.log(ratios)
    size = float(np.abs(logs).max())
    two = np.abs(np.abs(logs) - size) < 1e-3 * max(size, 1e-9)
    if size > 1e-3 and two.all() and (logs > 0).any() and (logs < 0).any():
        yield f"{WRONG_SIDE}: the slopes of two branches of a condition are exchanged"
