"""Elements at an index: what is read there, put there, assigned there, and erased there.

Reading and putting are each other's gradients; so that of assigning reads (for the value) and erases (for the tensor).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tinygrad_tf._layout import in_order
from tinygrad_tf.engine import Tensor, primitive
from tinygrad_tf.operation import is_view
from tinygrad_tf.ops._places import may_repeat
from tinygrad_tf.regions import Region, wide


def scatter_rule(g: Any, index: Any, shapes: list[tuple[int, ...]]) -> Any:
    """Zeros with g at the index. On arrays only the region is kept; the walk adds it into one buffer."""
    if isinstance(g, Tensor):
        return put(g, index=index, shape=shapes[0])
    return Region(index, g, repeats=may_repeat(index))


@primitive(view=True, x=scatter_rule)
def getitem(x: np.ndarray, *, index: Any) -> np.ndarray:
    found = x[index]
    lies_well = type(found) is not np.ndarray or found.flags.c_contiguous or is_view(found, x)
    return found if lies_well else in_order(found)


@primitive(g=lambda h, index: getitem(h, index=index))
def put(g: np.ndarray, *, index: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Zeros of `shape` with g added at the index."""
    repeats = may_repeat(index)
    total = np.zeros(shape, wide(g.dtype) if repeats else g.dtype)
    Region(index, g, repeats).add_to(total)
    return total.astype(g.dtype, copy=False)


@primitive(x=lambda g, index: blank(g, index=index), value=lambda g, index: getitem(g, index=index))
def assign(x: np.ndarray, value: Any, *, index: Any) -> np.ndarray:
    """x with `value` at the index."""
    out = x.copy()
    out[index] = value
    return out


@primitive(g=lambda h, index: blank(h, index=index))
def blank(g: np.ndarray, *, index: Any) -> np.ndarray:
    """g with zeros at the index."""
    g = g.copy()
    g[index] = 0
    return g
