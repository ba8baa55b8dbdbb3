"""Which entries of a large input to look at: those that a random direction accuses, found by halving.

A sample would miss a few wrong entries among many. Where the slope along a direction does not agree, it does not agree
along one of the halves of that direction either, and so on down to single entries.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

ENOUGH = 32  # entries that tell what is wrong
MOST_QUESTIONS = 400


def find_suspects(count: int, is_off: Callable[[np.ndarray], bool]) -> np.ndarray:
    """Some of `count` entries along which the slope is off, in order. is_off: whether it is along a block of them.

    >>> find_suspects(1000, lambda block: 777 in block).tolist()
    [777]
    """
    found: set[int] = set()
    blocks = [np.arange(count)]
    for _ in range(MOST_QUESTIONS):
        if not blocks or len(found) >= ENOUGH:
            break
        block = blocks.pop()
        if not is_off(block):
            continue
        if block.size == 1:
            found.add(int(block[0]))
        else:
            blocks += np.array_split(block, 2)
    return np.array(sorted(found), int)
