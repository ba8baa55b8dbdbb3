"""Points where every entry of an input has a slope, and the slopes do not add up: a median of equal numbers.

It does not change with any one of them, but with all of them together. No gradient is right there, nor is one wrong.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tinygrad_tf.autograd.numeric import CREASE, Derivative

DIRECTIONS = 2  # that must say so, all of them


def find_creases(
    columns: list[Derivative],
    analytic: np.ndarray,
    slack: np.ndarray,
    along: Callable[[np.ndarray], Derivative],
    random: np.random.Generator,
) -> None:
    """Mark as creases the entries that are about to be accused, where the slopes of all entries do not add up.

    columns: the derivatives by each of n entries; analytic, slack: (m, n). along(moves) is the derivative along the
    direction that moves each entry by its own number. Only outputs without kinks or jumps are looked at.
    """
    if not columns:
        return
    value, error, broken = (np.stack([getattr(c, name) for c in columns], 1) for name in ("value", "error", "broken"))
    accused = (np.abs(value - analytic) > 2 * error + slack) & (broken == 0)
    rows = accused.any(1) & ~broken.any(1)
    if not rows.any():
        return
    for _ in range(DIRECTIONS):
        moves = random.standard_normal(len(columns))
        found, total, doubt = along(moves), value @ moves, error @ np.abs(moves)
        scale = np.maximum(np.abs(found.value), np.linalg.norm(value * moves, axis=1))
        rows &= np.abs(found.value - total) > 4 * (found.error + doubt) + 1e-3 * scale
    for c, column in enumerate(columns):
        here = rows & accused[:, c]
        column.broken[here] = CREASE
        column.left, column.right = np.where(here, total, column.left), np.where(here, found.value, column.right)
        column.plain = np.where(here, column.value, column.plain)
