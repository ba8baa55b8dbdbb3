"""A tiny autograd engine in NumPy and numba, with the Transformer built on it."""

from tinygrad_tf.tensor import Tensor
