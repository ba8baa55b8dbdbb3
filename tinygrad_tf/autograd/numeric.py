"""Numerical derivatives that know how wrong they may be.

Along a line through the point, a ladder of steps h gives central differences (f(x+h) - f(x-h)) / 2h. Their error is a
series in h^2 (truncation) plus noise / h (rounding). Neville's scheme removes one power of h^2 after another
(Richardson extrapolation; Ridders, "Accurate computation of F'(x) and F'(x)F''(x)", 1982). Of all estimates the one
with the smallest error estimate is taken, and the error estimate counts
  - how far it is from its two neighbours in the scheme,
  - the noise of f, divided by the step,
  - how far smaller steps contradict it by more than noise explains: a function that wiggles faster than the large
    steps can see looks smooth to them, and only the small steps know better.
The noise is measured by the differences of f over tiny steps (Moré and Wild, "Estimating computational noise", 2011).

Everything here works on the vector of all outputs at once: f returns float64 arrays of m elements.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tinygrad_tf._quiet import quiet

Line = Callable[[float], np.ndarray]  # t -> f(x + t v), NaN where f has no value
ORDERS = 5  # how many powers of h^2 are removed at most
MARGIN = 3.0  # how many times its noise bound a difference may be off before it counts as a contradiction
KINK, JUMP = 1, 2
CREASE = 3  # the function is differentiable along every entry, and not along all of them together
NEAR_KINK = 4  # within eps, but not here
LARGEST_STEP = 0.0193  # as a part of x; no round number, so that x + h has no special digits


@dataclass
class Derivative:
    """d f / dt at 0, for each output: the value, its uncertainty, and what the two sides say where they disagree.

    broken: 0, or KINK, JUMP, CREASE, or NEAR_KINK. step: the smallest step that the value was made from. plain: the
    difference at `eps` alone.
    """

    value: np.ndarray
    error: np.ndarray
    step: np.ndarray
    broken: np.ndarray
    left: np.ndarray
    right: np.ndarray
    plain: np.ndarray
    noise: np.ndarray
    suspicious: bool


def climb(
    line: Line, steps: list[float], at_zero: np.ndarray, noise: np.ndarray, eps: float, relative: float
) -> Derivative:
    """Differentiate along `line` with the steps given, largest first. relative: how f is rounded, as a part of it."""
    ups, downs = np.array([line(h) for h in steps]), np.array([line(-h) for h in steps])
    h = np.array(steps)[:, None]
    with quiet():
        differences = (ups - downs) / (2 * h)
        noise = np.maximum(noise, _resolution(line, steps, ups, downs, at_zero))
        blur = (noise / h) + 4 * relative * np.abs(differences)
        value, error, step = _best(differences, steps, blur)
        gaps = np.abs(ups - 2 * at_zero + downs) / h
        broken, level = _sides(gaps, ups, downs, at_zero, 4 * noise / h, steps, eps)
        rows, columns = level, np.arange(at_zero.size)
        right = (ups[rows, columns] - at_zero) / h[rows, 0]
        left = (at_zero - downs[rows, columns]) / h[rows, 0]
        suspicious = bool(np.any((gaps[-1] > 0.6 * gaps[0]) & (gaps[-1] > 40 * noise / h[-1] + 1e-7 * np.abs(value))))
    plain = differences[int(np.argmin(np.abs(np.log(h[:, 0] / eps))))]
    return Derivative(value, error, step, broken, left, right, plain, noise, suspicious)


def _resolution(line: Line, steps: list[float], ups: np.ndarray, downs: np.ndarray, at_zero: np.ndarray) -> np.ndarray:
    """The grain of f, where small steps change nothing although larger ones do (a float32 inside, a large offset).

    If larger steps, too, act on one side only, or if f leaves its place in a slope, f is really flat here and has no
    grain.
    """
    grain = np.zeros(at_zero.size)
    up, down = np.abs(ups - at_zero), np.abs(downs - at_zero)
    still = (up == 0) & (down == 0)
    decided = ~still[-1]  # nothing flat at the small end
    for k in range(len(ups) - 1, -1, -1):
        wakes = ~decided & ~still[k]
        both = wakes & ((up[: k + 1] > 0) & (down[: k + 1] > 0)).any(0)
        if both.any():
            both &= ~_slides(line, steps[k], at_zero)
        grain[both] = np.maximum(up[k], down[k])[both]
        decided |= wakes
    return grain


def _slides(line: Line, step: float, at_zero: np.ndarray) -> np.ndarray:
    """Whether f moves on evenly where it has just left its place, as no grain does, which jumps."""
    far, near, nearer = (
        np.maximum(np.abs(line(h) - at_zero), np.abs(line(-h) - at_zero)) for h in (step, 0.99 * step, 0.98 * step)
    )
    return (far > near) & (np.abs((far - near) - (near - nearer)) <= 0.1 * (far - near))


def _best(differences: np.ndarray, steps: list[float], blur: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Neville's scheme, and the entry with the smallest error estimate in it."""
    count, size = differences.shape
    value, error, step = np.full(size, np.nan), np.full(size, np.inf), np.full(size, steps[-1])
    previous: list[np.ndarray] = []
    for k in range(count):
        row = [differences[k]]
        for j in range(1, min(k, ORDERS) + 1):
            if j > len(previous):
                break
            shrink = (steps[k - j] / steps[k]) ** 2 - 1
            row.append(row[j - 1] + (row[j - 1] - previous[j - 1]) / shrink)
        for j, estimate in enumerate(row):
            if j:
                guess = np.maximum(np.abs(estimate - row[j - 1]), np.abs(estimate - previous[j - 1]))
            elif k:
                guess = np.abs(estimate - previous[0])
            else:
                continue
            guess = guess + 2 * blur[k]
            guess = np.where(np.isfinite(guess), guess, np.inf)
            better = guess < error
            if not better.any():
                continue
            guess = np.maximum(guess, _contradiction(estimate, differences, steps, blur, k))
            better = guess < error
            value, error = np.where(better, estimate, value), np.where(better, guess, error)
            step = np.where(better, steps[k], step)
        previous = row
    return value, error, step


def _contradiction(
    estimate: np.ndarray, differences: np.ndarray, steps: list[float], blur: np.ndarray, k: int
) -> np.ndarray:
    """By how much the differences at smaller steps than steps[k] contradict the estimate."""
    worst = np.zeros(estimate.size)
    if k + 1 < len(steps):
        truncation = 2 * np.abs(differences[k] - estimate)
        shares = (np.array(steps[k + 1 :])[:, None] / steps[k]) ** 2
        off = np.abs(differences[k + 1 :] - estimate) - MARGIN * blur[k + 1 :] - truncation * shares
        worst = np.maximum(np.nan_to_num(off, nan=0.0).max(0), 0.0)
    return worst


def _sides(
    gaps: np.ndarray,
    ups: np.ndarray,
    downs: np.ndarray,
    at_zero: np.ndarray,
    blur: np.ndarray,
    steps: list[float],
    eps: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Where the slopes of the two sides differ however small the step: a kink; where the values differ: a jump.

    The gap between the slopes of a smooth function shrinks with the step. Looked at are the smallest three steps, not
    above `eps`, at which the gap stands out of the noise.
    """
    size = at_zero.size
    broken, level = np.zeros(size, np.int8), np.full(size, len(steps) - 1)
    decided = np.zeros(size, bool)
    changes = np.maximum(np.abs(ups - at_zero), np.abs(downs - at_zero))
    for k in range(len(steps) - 1, 1, -1):
        slopes = changes[k] / steps[k]
        stands_out = ~decided & (gaps[k] > 10 * blur[k] + 1e-4 * slopes) & (steps[k] <= eps * 1.01)
        if not stands_out.any():
            continue
        shrink = [(steps[k - i - 1] / steps[k - i]) for i in range(2)]  # by how much a smooth function's gap shrinks
        ratios = [gaps[k - i - 1] / gaps[k - i] for i in range(2)]
        constant = np.ones(size, bool)
        for r, s in zip(ratios, shrink, strict=True):
            constant &= (r > s**-0.75) & (r < s**0.5)
        jumps = np.ones(size, bool)
        for i in range(2):
            jumps &= np.abs(changes[k - i - 1] / changes[k - i] - 1) < 0.05
        far = changes[max(k - 5, 0)] < 2 * changes[k]  # a grain of rounding is soon lost in the slope, a jump is not
        jumps &= far & (changes[k] > 1e3 * blur[k] * steps[k])
        broken[stands_out & constant] = KINK
        if k + 1 < len(steps):  # smaller steps would have shown a gap as large, if they had met the kink
            met = gaps[k + 1] > 0.5 * gaps[k]
            seen = gaps[k] > 20 * blur[k + 1] + 1e-4 * changes[k + 1] / steps[k + 1]
            broken[stands_out & constant & seen & ~met] = NEAR_KINK
        broken[stands_out & jumps] = JUMP
        level[stands_out & (constant | jumps)] = k
        decided |= stands_out
    return broken, level


def noise_level(line: Line, tiny: float, at_zero: np.ndarray, relative: float) -> np.ndarray:
    """A bound on the noise of f: from fourth differences over seven tiny steps, at least the rounding of its values."""
    points = np.array([line(i * tiny) for i in range(1, 8)])  # not the point itself: there may be a jump
    with quiet():
        fourth = np.diff(points, 4, axis=0)
        sigma = np.sqrt((fourth * fourth).mean(0) / 70.0)  # 70 = 8! / (4!)^2: how differencing amplifies noise
    floor = 4 * relative * np.abs(at_zero)
    return np.maximum(np.where(np.isfinite(sigma), 8 * sigma, 0.0), np.where(np.isfinite(floor), floor, 0.0))


def alike(noise: np.ndarray, size: np.ndarray) -> np.ndarray:
    """The noise of an output's elements, of which none is much less noisy than half of them, as a part of its size.

    Of those that are nothing but noise, what is left when large numbers cancel, all are as noisy as the noisiest.
    """
    with quiet():
        shares = (noise / size)[np.isfinite(size) & (size > 0)]
    noise = np.maximum(noise, 0.5 * float(np.median(shares)) * size if shares.size else 0.0)
    loudest = float(noise[size <= 30 * noise].max(initial=0.0))
    return np.where(size <= 30 * loudest, np.maximum(noise, loudest), noise)


def plateau(differences: np.ndarray, wanted: np.ndarray, found: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The value that three successive steps agree on and that is `wanted` rather than `found`, with their spread.

    NaN where there are no such steps. differences: (steps, m). Each of the three must be fifty times nearer to what is
    wanted than to what was found, and as near to it as a tenth of it; noise does not do that three times, and what is
    zero is not told from stillness.
    """
    with quiet():
        room = np.minimum(0.02 * np.abs(found - wanted), 0.1 * np.abs(wanted))
        near = (np.abs(differences - wanted) <= room) & (differences != 0) & (wanted != 0)
    value, spread = np.full(wanted.size, np.nan), np.full(wanted.size, np.inf)
    for k in range(1, len(differences) - 1):
        three = differences[k - 1 : k + 2]
        width = np.ptp(three, axis=0)
        better = near[k - 1 : k + 2].all(0) & (width < spread)
        value, spread = np.where(better, three[1], value), np.where(better, width, spread)
    return value, spread


def full_ladder(x: float, unit: float, wide: bool = False, typical: float = 1.0) -> list[float]:
    """Steps from a fiftieth of max(1, |x|) (wide: 10^8 times that) down to what the spacing of floats at x allows.

    unit: the machine epsilon of x's dtype. typical: the size of the numbers around x.
    """
    largest = LARGEST_STEP * max(1.0, abs(x))
    smallest = min(1e-11, 1e-5 * abs(x)) if x else 1e-11
    smallest = max(smallest, 8 * unit * abs(x), 1e-14)
    if unit > 1e-10:
        smallest = max(smallest, 8 * unit * max(abs(x), 1e-3 * min(1.0, typical)))
    if wide:
        largest *= 1e8
    steps = [largest]
    while steps[-1] > 4 * smallest:
        steps.append(steps[-1] / 4)
    return steps


def short_ladder(start: float) -> list[float]:
    """Three steps, enough where the scale of the function is known and it is smooth."""
    return [start, start / 2, start / 4]
