"""J v without a forward mode, by two passes backwards.

v^T J is linear in v, so differentiating it by v, against a direction w, gives J w: the "double backward trick" (J.
Townsend, 2017). It holds at any v, and so at zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tinygrad_tf.autograd.differentiate import grad
from tinygrad_tf.engine import current_node, leaf, make


def gradients(outputs: Sequence[Any], inputs: Sequence[Any], weights: Sequence[Any], create_graph: bool) -> list[Any]:
    """As grad, where outputs without history count nothing and inputs that are not reached get None."""
    pairs = [(o, w) for o, w in zip(outputs, weights, strict=True) if current_node(o) is not None]
    if not pairs or not inputs:
        return [None] * len(inputs)
    roots, starts = zip(*pairs, strict=True)
    return list(grad(roots, inputs, starts, create_graph=create_graph, retain_graph=True, allow_unused=True))


class Pushforward:
    """J of outputs by inputs, at the place where they were computed, as a map of directions."""

    def __init__(self, outputs: Sequence[Any], inputs: Sequence[Any]):
        self.weights: list[Any] = [make(np.zeros_like(o.array)) for o in outputs]
        for v in self.weights:
            leaf(v)
        self.pulled = gradients(outputs, inputs, self.weights, True)  # v^T J

    @property
    def reaches(self) -> bool:
        """Whether any output depends on any input."""
        return any(p is not None for p in self.pulled)

    def along(self, directions: Sequence[Any], create_graph: bool) -> list[Any]:
        """J times one direction for each input: how each output moves, None for one that does not."""
        moving = [
            (p, w)
            for p, w in zip(self.pulled, directions, strict=True)
            if p is not None and current_node(p) is not None
        ]
        if not moving:
            return [None] * len(self.weights)
        roots, starts = zip(*moving, strict=True)
        return gradients(roots, self.weights, starts, create_graph)
