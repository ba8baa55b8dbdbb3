"""Mistakes behind a product x @ W: what reaches its result is wrong already, and x, W and a bias only hand it on.

With z = x @ W and G the gradient of z, x gets G W^T and W gets x^T G. The two fit each other if x^T (G W^T) is
(x^T G) W^T, whatever G is. Where x has no more rows than columns G itself can be had from x^T G, in A and in N, and
what one is as a part of the other, as a function of z, tells which derivative of which activation is not right.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tinygrad_tf._quiet import quiet
from tinygrad_tf.autograd.evidence import Evidence
from tinygrad_tf.autograd.formulas import ACTIVATIONS, Formula
from tinygrad_tf.autograd.report import Pair

NEAR = 2e-5
MOST = 4  # products with one input


@dataclass
class Product:
    """x @ W, in whose gradients both are wrong and fit each other."""

    x: Pair
    weight: Pair
    text: str
    value: np.ndarray  # (rows, H)


def behind_product(e: Evidence) -> Iterator[str]:
    """The place where the mistake is, and what it is, if the numbers tell."""
    products = list(_products(e))
    mine = [p for p in products if e.pair in (p.x, p.weight)]
    if not mine:
        return
    for p in mine:
        terms = _summed(p, products)
        text = " + ".join(t.text for t in terms)
        found = _recovered(e, p)
        slip = _named(e, *found, np.sum([t.value for t in terms], axis=0), text) if found is not None else ""
        if slip:
            yield slip
            return
    text = " and of ".join(" + ".join(t.text for t in _summed(p, products)) for p in mine)
    yield (
        f"the gradient of {text} is wrong already, and what is multiplied there only hands it on (x gets G W^T, W gets "
        "x^T G); the mistake is in what comes after it in forward"
    )


def _summed(p: Product, products: list[Product]) -> list[Product]:
    """The product, and those of other inputs that may be added to it, as in x @ W + h @ U."""
    found = [p]
    for other in products:
        if (
            all(other.x is not f.x and other.weight is not f.weight for f in found)
            and other.value.shape == p.value.shape
        ):
            found.append(other)
    return sorted(found, key=products.index)


def _products(e: Evidence) -> Iterator[Product]:
    """Inputs x with the weights they are multiplied by, as N tells, where A is wrong and fits itself."""
    pairs = [p for p in e.report.pairs if p.output == e.pair.output and p.complete and p.got_shape is None]
    for x in pairs:
        if not x.wrong.any() or not x.input_shape:
            continue
        size = x.input_shape[-1]
        for turned in (False, True):
            weights = [w for w in pairs if w is not x and len(w.input_shape) == 2 and w.input_shape[turned] == size]
            chosen = _multiplied_by(e, x, weights, turned)
            for w in chosen:
                if w.wrong.any() and not _either_way(e, x, w):
                    value = e.inputs[x.input].astype(np.float64).reshape(-1, size) @ _matrix(e, w, turned)
                    yield Product(x, w, f"{x.input} @ {w.input}{'.T' if turned else ''}", value)


def _multiplied_by(e: Evidence, x: Pair, weights: list[Pair], turned: bool) -> tuple[Pair, ...]:
    """Those of the weights whose products explain the gradient of x, in N and in A.

    Allowed for are the direct path of a residual connection, and the penalty of a weight in a loss.
    """
    for count in range(min(len(weights), MOST), 0, -1):
        for chosen in itertools.combinations(weights, count):
            if all(_fit(e, x, chosen, turned, of) for of in ("numeric", "analytic")):
                return chosen
    return ()


def _either_way(e: Evidence, x: Pair, w: Pair) -> bool:
    """Whether x might as well be the weight: both are, of queries and keys, and only their product matters."""
    size, shape = w.input_shape[-1], x.input_shape
    return len(shape) == 2 and any(shape[t] == size and bool(_multiplied_by(e, w, [x], t)) for t in (False, True))


def _matrix(e: Evidence, w: Pair, turned: bool) -> np.ndarray:
    found = e.inputs[w.input].astype(np.float64)
    return found.T if turned else found


def _fit(e: Evidence, x: Pair, weights: Sequence[Pair], turned: bool, of: str) -> bool:
    size = x.input_shape[-1]
    values = e.inputs[x.input].astype(np.float64).reshape(-1, size)
    shares = []
    for w in weights:
        dw = getattr(w, of).reshape(len(w.numeric), *w.input_shape)
        shares.append((np.swapaxes(dw, 1, 2) if turned else dw) @ _matrix(e, w, turned).T)
    sizes = [float(np.abs(share).max(initial=0.0)) for share in shares]
    if not min(sizes) > 1e-2 * max(sizes):
        return False
    jacobians = [getattr(x, of)]
    if x.input_shape == x.output_shape:
        jacobians.append(jacobians[0] - np.eye(len(jacobians[0])))
    for jacobian in jacobians:
        rest = sum(shares) - values.T @ jacobian.reshape(len(jacobian), -1, size)
        if len(rest) == 1 and len(weights) == 1:
            matrix = _matrix(e, weights[0], turned)
            rest = rest - _penalty(rest, matrix) * matrix @ matrix.T
        if (np.abs(rest) <= 1e-4 * max(sizes)).all():
            return True
    return False


def _penalty(rest: np.ndarray, matrix: np.ndarray) -> float:
    """The c of a penalty c / 2 sum(W^2), which leaves c W W^T of what must be nothing."""
    square = matrix @ matrix.T
    return float((rest * square).sum() / (square * square).sum())


def _recovered(e: Evidence, p: Product) -> tuple[np.ndarray, np.ndarray] | None:
    """The gradients of z in A and in N, (m, rows, H) each."""
    size = p.x.input_shape[-1]
    x = e.inputs[p.x.input].astype(np.float64).reshape(-1, size)
    if len(x) > size or np.linalg.cond(x) > 1e3:
        return None
    found, turned = [], p.text.endswith(".T")
    matrix = _matrix(e, p.weight, turned)
    for of in ("analytic", "numeric"):
        dw = getattr(p.weight, of).reshape(-1, *p.weight.input_shape)
        dw = np.swapaxes(dw, 1, 2) if turned else dw
        if len(dw) == 1 and _multiplied_by(e, p.x, [p.weight], turned):
            rest = dw @ matrix.T - x.T @ getattr(p.x, of).reshape(len(dw), -1, size)
            dw = dw - _penalty(rest, matrix) * matrix
        found.append(np.linalg.pinv(x.T) @ dw)
    return found[0], found[1]


def _named(e: Evidence, a: np.ndarray, n: np.ndarray, z: np.ndarray, text: str) -> str:
    """Which slip makes a of n, in those columns of z where they differ."""
    size = float(np.abs(n).max(initial=0.0))
    columns = (np.abs(a - n) > NEAR * size).any((0, 1))
    for bias, name in _biases(e, z.shape[1]):
        whole, label = z + bias, f"{text} + {name}" if name else text
        masked = _is_mask(a, n, whole, size)
        if masked:
            return masked.format(label)
        alive = (np.abs(n) > NEAR * size).any(0)[:, columns]
        if alive.sum() < 4:
            return ""
        with quiet():
            ratio = ((a * n).sum(0) / (n * n).sum(0))[:, columns]
            rest = np.abs(a[:, :, columns] - ratio * n[:, :, columns]).max(0)
        if (rest[alive] > NEAR * size).any():
            return ""
        where = "" if columns.all() else f" in columns {_listed(columns)}"
        for activation_name, activation in ACTIVATIONS.items():
            with quiet():
                right = activation.derivative(whole[:, columns])[alive]
                found = ratio[alive] * right
                slips: tuple[tuple[Formula, str], ...] = (*activation.slips, (np.ones_like, "it is missing"))
                for slip, said in slips:
                    if np.allclose(found, slip(whole[:, columns])[alive], rtol=NEAR, atol=NEAR):
                        rule = f"the derivative of {activation_name} is {activation.text}"
                        return f"behind {label}{where}: {rule}; {said}"
    return ""


def _is_mask(a: np.ndarray, n: np.ndarray, z: np.ndarray, size: float) -> str:
    """Whether N vanishes where z is not positive, and A where it is another number."""
    lives, does = (np.abs(n) > NEAR * size).any(0), (np.abs(a) > NEAR * size).any(0)
    if lives.all() or not np.array_equal(lives, z > 0):
        return ""
    if does.all() and (np.abs(a - n)[:, lives] <= NEAR * size).all():
        return "behind {0}: a mask is missing, that of relu, which lets the gradient through where {0} > 0 alone"
    if not (does & lives).any():
        return "behind {0}: a mask applied to the wrong side: relu lets the gradient through where {0} > 0"
    if (np.abs(a - n)[:, lives & does] <= NEAR * size).all():
        return "behind {0}: another mask: relu lets the gradient through where {0} > 0"
    return ""


def _biases(e: Evidence, size: int) -> Iterator[tuple[np.ndarray | float, str]]:
    for name, values in e.inputs.items():
        if values.size == size and values.shape[-1:] == (size,):
            yield values.astype(np.float64).reshape(-1), name
    yield 0.0, ""


def _listed(columns: np.ndarray) -> str:
    places = np.nonzero(columns)[0]
    if places.size > 2 and np.ptp(places) == places.size - 1:
        return f"{places[0]} to {places[-1]}"
    return ", ".join(map(str, places))
