"""Differentiable operations: each forward beside its gradient rules."""

from tinygrad_tf.ops import (
    activation,
    attention,
    compare,
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
)
from tinygrad_tf.ops import einsum as einsum
from tinygrad_tf.ops import softmax as softmax
