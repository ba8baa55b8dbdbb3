"""Rows of a table by id, and the gradient of the table.

Shapes: weight (V, C), index (any shape) of ids 0 ... V - 1, result (*index.shape, C), g like the result.

    embedding            y[i] = weight[index[i]]
    embedding_backward   dweight[v] = sum of g[i] over all i with index[i] = v

Both move memory and compute nothing. The backward pass, 64 x 256 ids, V = 65, C = 384, milliseconds on one core:

    np.add.at                                                           41
    each block has 64 channels of the whole table, and reads all ids     2.0
    each block has some of the ids, and a table of its own; the tables
    are added in their order                                             0.9      (PyTorch 1.4)

The first keeps memory small, but reads g in short pieces. Where the table is large against g there is one block only.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tinygrad_tf.kernels._compile import kernel, parallel
from tinygrad_tf.kernels._rows import NATIVE, blocks, elsewhere

Array = np.ndarray
# Each block of the backward pass has a table of its own to add to, SHARE times smaller than its part of g or more.
BACKWARD_GRAIN, SHARE = 65536, 8


def embedding(weight: Array, index: Array) -> Array:
    """weight[index]; raises IndexError for an id outside of the table (negative ids too).

    >>> embedding(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1, 1, 0]))
    array([[3., 4.],
           [3., 4.],
           [1., 2.]])
    """
    ids = checked_ids(index, len(weight))
    if weight.dtype not in NATIVE:
        return weight[ids].reshape(*index.shape, weight.shape[1])
    y = np.empty((ids.size, weight.shape[1]), weight.dtype)
    if y.size:
        count, step = blocks(*y.shape)
        embedding_rows(count, step, np.ascontiguousarray(weight), ids, y)
    return y.reshape(*index.shape, weight.shape[1])


def embedding_reference(weight: Array, index: Array) -> Array:
    return weight[checked_ids(index, len(weight)).reshape(index.shape)]


@parallel
def embedding_rows(block: int, step: int, weight: Any, ids: Any, y: Any) -> None:
    for row in range(block * step, min(block * step + step, ids.size)):
        source, target = weight[ids[row]], y[row]
        for col in range(source.size):
            target[col] = source[col]


def embedding_backward(g: Array, index: Array, V: int) -> Array:
    """dweight (V, C); what comes down to equal ids adds up.

    >>> embedding_backward(np.ones((3, 2)), np.array([1, 1, 0]), 3)
    array([[1., 1.],
           [2., 2.],
           [0., 0.]])
    """
    if g.dtype not in NATIVE:
        return elsewhere(embedding_backward, embedding_backward_reference, g.dtype, g, index, V)
    ids = checked_ids(index, V)
    C = g.shape[-1]
    count, step = blocks(ids.size, C, max(BACKWARD_GRAIN, SHARE * V * C))
    tables = np.zeros((count, V, C), g.dtype)
    if g.size:
        embedding_backward_rows(count, step, np.ascontiguousarray(g).reshape(ids.size, C), ids, tables)
    return tables[0] if count == 1 else tables.sum(0)


def embedding_backward_reference(g: Array, index: Array, V: int) -> Array:
    dweight = np.zeros((V, g.shape[-1]), g.dtype)
    np.add.at(dweight, checked_ids(index, V), g.reshape(-1, g.shape[-1]))
    return dweight


@parallel
def embedding_backward_rows(block: int, step: int, g: Any, ids: Any, tables: Any) -> None:
    for row in range(block * step, min(block * step + step, ids.size)):
        source, target = g[row], tables[block, ids[row]]
        for col in range(source.size):
            target[col] += source[col]


def checked_ids(index: Array, V: int) -> Array:
    """The ids as a flat int64 array, every one inside of the table."""
    ids = np.ascontiguousarray(index, np.int64).reshape(-1)
    bad = first_bad_id(ids, V)
    if bad >= 0:
        place = ", ".join(str(int(i)) for i in np.unravel_index(bad, index.shape))
        raise IndexError(f"index[{place}] is {ids[bad]}, but the embedding has {V} rows: ids must lie in 0 ... {V - 1}")
    return ids


@kernel
def first_bad_id(ids: Any, V: int) -> int:
    for i in range(ids.size):
        if ids[i] < 0 or ids[i] >= V:
            return i
    return -1
