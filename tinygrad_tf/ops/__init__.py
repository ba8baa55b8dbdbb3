"""Differentiable operations: each forward beside its gradient rules."""

from tinygrad_tf.ops import (
    activation,
    arrange,
    attention,
    compare,
    decompose,
    einsum,
    elementwise,
    index,
    inplace,
    linalg,
    linear,
    loss,
    norm,
    order,
    reduce,
    scan,
    shape,
    softmax,
    special,
    windows,
)
