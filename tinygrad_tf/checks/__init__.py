"""The one table of everything differentiable: a row for every operation, layer and model (`tinygrad-tf gradcheck`)."""

from tinygrad_tf.checks import compositions as compositions
from tinygrad_tf.checks import convolution as convolution
from tinygrad_tf.checks import fourier as fourier
from tinygrad_tf.checks import linalg as linalg
from tinygrad_tf.checks import losses as losses
from tinygrad_tf.checks import transformer as transformer
from tinygrad_tf.checks.table import CASES, Case

__all__ = ["CASES", "Case"]
