"""Differentiable operations: each forward beside its gradient rules."""

from tinygrad_tf.ops import activation, attention, elementwise, index, inplace, linalg, linear, loss, norm, reduce, shape
from tinygrad_tf.ops import softmax as softmax
