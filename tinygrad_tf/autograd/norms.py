"""Mistakes in the backward of a norm: layer norm, batch norm, RMS norm, and vectors made of length 1.

Along the axes of a norm let c be the input (without its mean, where that is taken away), v the mean of c^2, and
s = 1 / sqrt(v + eps). For the gradient G that reaches the norm's result

    N = s (G - mean(G) - c s^2 mean(G c)),

without mean(G) where no mean is taken away. So N is s times G, but for what lies along 1 and along c; and with an s of
its own the backward makes A = r N there, where r tells from one group of elements to the next which s that is.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np

from tinygrad_tf._quiet import quiet
from tinygrad_tf.autograd.evidence import LOOSE, Evidence

CONSTANT = 0.02  # how much an eps may differ from one group to the next


def axes_name(axes: tuple[int, ...]) -> str:
    return f"axis {axes[0]}" if len(axes) == 1 else f"axes {', '.join(map(str, axes))}"


def groups_of_axes(shape: tuple[int, ...], least: int = 2) -> Iterator[tuple[int, ...]]:
    """Every choice of axes along which there are at least so many elements, single axes first."""
    for count in range(1, len(shape) + 1):
        for axes in itertools.combinations(range(len(shape)), count):
            if math.prod(shape[a] for a in axes) >= least:
                yield axes


# --- the scale --------------------------------------------------------------------------------------------------------


def wrong_scale(e: Evidence) -> Iterator[str]:
    """An eps left out or in the wrong place, the deviation forgotten, or n for n - 1."""
    for axes in groups_of_axes(e.pair.input_shape, 3):
        for centred in (True, False):
            found = _ratios(e, axes, centred)
            if found is not None:
                yield from _scale_text(*found, axes, centred)


def _directions(x: np.ndarray, centred: bool) -> tuple[np.ndarray, list[np.ndarray]]:
    """c for each group (groups, size), and unit vectors along what the projection takes away."""
    c = x - x.mean(-1, keepdims=True) if centred else x
    length = np.linalg.norm(c, axis=-1, keepdims=True)
    along = [c / np.where(length > 0, length, 1.0)]
    if centred:
        along.append(np.full_like(c, 1 / math.sqrt(c.shape[-1])))
    return c, along


def _without(matrices: np.ndarray, along: list[np.ndarray]) -> np.ndarray:
    """(m, groups, size) without its parts along unit vectors."""
    for unit in along:
        matrices = matrices - (matrices * unit).sum(-1, keepdims=True) * unit
    return matrices


def _ratios(e: Evidence, axes: tuple[int, ...], centred: bool) -> tuple[np.ndarray, np.ndarray, int] | None:
    """r and v of each group, and the size of a group; None if A is not r N, or N says nothing about r."""
    a, n, x, noise = e.matrices(axes, e.analytic, e.numeric, e.values.reshape(1, -1).astype(np.float64), e.pair.error)
    if x.shape[1] < 2 or x.shape[2] < 2 + centred or ((np.abs(n) > noise).sum(-1) == 1).any():
        return None  # nothing to compare, or no norm: a function of single elements
    c, along = _directions(x[0], centred)
    if centred and (np.abs(n.sum(-1)) > LOOSE * np.abs(n).max() + noise.sum(-1)).any():
        return None
    a, n = _without(a, along), _without(n, along)
    strength, doubt = (n * n).sum((0, 2)), np.sqrt((noise * noise).sum((0, 2)))
    if not (strength > (100 * doubt) ** 2).all():
        return None
    ratio = (a * n).sum((0, 2)) / strength
    rest = a - ratio[:, None] * n
    off, moved = np.sqrt((rest * rest).sum((0, 2))), np.abs(ratio - 1) * np.sqrt(strength)
    if (moved <= 20 * doubt).any() or (off > 1e-3 * moved + 5 * doubt).any() or (ratio <= 0).any():
        return None
    if np.ptp(ratio) <= 20 * (doubt / np.sqrt(strength)).max() + 1e-6 * ratio.max():
        return None  # a constant factor, whatever the variances are
    return ratio, (c * c).mean(-1), x.shape[2]


def _scale_text(ratio: np.ndarray, v: np.ndarray, size: int, axes: tuple[int, ...], centred: bool) -> Iterator[str]:
    """Which s the ratios and the variances speak of, if it is one of these."""
    if v.min() <= 0 or v.max() < 1.05 * v.min():
        return
    square, root, more = ratio * ratio, np.sqrt(v), size / (size - 1)
    what = "var" if centred else "mean(x^2)"
    inside, outside, bare = f"sqrt({what} + eps)", f"sqrt({what}) + eps", f"sqrt({what})"
    with quiet():
        eps_of = {
            f"eps is left out: backward divides by {bare}, forward by {inside}": [v * (square - 1)],
            f"eps is left out: backward divides by {bare}, forward by {outside}": [root * (ratio - 1)],
            f"eps is outside of the root: backward divides by {outside}, forward by {inside}": _roots(
                square, 2 * square * root - 1, v * (square - 1)
            ),
            f"eps is inside of the root: backward divides by {inside}, forward by {outside}": _roots(
                np.ones_like(v), 2 * root - square, v * (1 - square)
            ),
            "the variance has n - 1 in backward and n in forward (unbiased, biased)": [
                v * (1 - square * more) / (square - 1)
            ],
            f"not divided by the deviation: {inside} is missing in backward": [square - v],
        }
        spreads = {text: min((_spread(eps, v) for eps in found), default=math.inf) for text, found in eps_of.items()}
    best = min(spreads, key=lambda text: spreads[text])
    if spreads[best] <= CONSTANT and (centred or not best.startswith("the variance")):
        alike = "" if centred else ", with the mean or the sum of x^2"
        yield f"{best} (over {axes_name(axes)}{alike})"


def _roots(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> list[np.ndarray]:
    """The smaller and the larger positive solution of a e^2 + b e + c = 0, without loss of the small one."""
    q = -(b + np.where(b < 0, -1.0, 1.0) * np.sqrt(b * b - 4 * a * c)) / 2
    both = np.stack([q / a, c / q])
    both = np.where(both > 0, both, both.max(0))
    return [both.min(0), both.max(0)]


def _spread(eps: np.ndarray, v: np.ndarray) -> float:
    """By how much the eps of the groups differ, as a part of it; infinite for what cannot be an eps."""
    if not np.isfinite(eps).all() or (eps <= 0).any() or float(np.median(eps)) > float(v.max()):
        return math.inf
    return float(np.ptp(eps) / np.median(eps))


# --- the terms --------------------------------------------------------------------------------------------------------


def wrong_part(e: Evidence) -> Iterator[str]:
    """A - N lies along the input in every group, or along it and 1: a term of the backward is not right.

    Or A is N without its mean, which a backward of something else takes away.
    """
    for axes in groups_of_axes(e.pair.input_shape, 3):
        over = axes_name(axes)
        a, n, room = e.matrices(axes, e.analytic, e.numeric, e.tolerance)
        (x,) = e.matrices(axes, e.values.reshape(1, -1).astype(np.float64))
        if _is_without_mean(a, n, room):
            yield f"a mean too many: mean(gradient) over {over} is subtracted, and must not be"
        for centred, what in ((False, "the input itself"), (True, "the input without its mean, and along its mean")):
            _, along = _directions(x[0], centred)
            rest = _without(a - n, along)
            told = rest.shape[0] * rest.shape[1] * (rest.shape[2] - len(along))
            if told >= 6 and rest.shape[2] > 1 + len(along) and (np.abs(rest) <= room).all():
                yield (
                    f"right but for what lies along {what}, over {over}: a norm's term in x * sum(gradient * x) is "
                    "missing or not right"
                )


def _is_without_mean(a: np.ndarray, n: np.ndarray, room: np.ndarray) -> bool:
    mean = n.mean(-1, keepdims=True)
    return bool((np.abs(n - mean - a) <= room).all() and (np.abs(mean) > room).any())


# --- an eps beside single numbers -----------------------------------------------------------------------------------


def eps_beside_numbers(e: Evidence) -> Iterator[str]:
    """sqrt(x + eps), log(x + eps) or 1 / (x + eps): A / N is a power of (x + eps) / x, with one eps for all x."""
    alive = e.alive(e.numeric)
    if not alive.any() or (e.alive(e.analytic) != alive).any():
        return
    n = np.where(alive, e.numeric, 0.0)
    places = alive.any(0)
    strength = (n * n).sum(0)[places]
    ratio = (e.analytic * n).sum(0)[places] / strength
    fitted = np.zeros(e.numeric.shape)
    fitted[:, places] = ratio * n[:, places]
    doubt = np.sqrt((np.where(alive, e.pair.error, 0.0) ** 2).sum(0)[places] / strength)
    if not e.fits(fitted, e.analytic) or (np.abs(ratio - 1) <= 20 * doubt).any():
        return
    text = _which_side(ratio, e.values.reshape(-1)[e.pair.entries[places]].astype(np.float64), doubt)
    if text:
        yield f"{text} to {e.pair.input}, as in sqrt(x + eps), log(x + eps) or 1 / (x + eps)"


def _which_side(ratio: np.ndarray, x: np.ndarray, doubt: np.ndarray) -> str:
    if x.size < 4 or (x <= 0).any() or x.max() < 1.5 * x.min() or (ratio <= 0).any():
        return ""
    for sign, text in ((1, "eps is left out: forward adds one"), (-1, "an eps too many: backward adds one")):
        for power in (0.5, 1.0, 1.5, 2.0):
            eps = x * (ratio ** (sign / power) - 1)
            blur = float((x * doubt / power).max())
            if (eps > 0).all() and np.ptp(eps) <= CONSTANT * np.median(eps) + 4 * blur and blur < 0.1 * np.median(eps):
                return text if np.median(eps) <= x.max() else ""
    return ""
