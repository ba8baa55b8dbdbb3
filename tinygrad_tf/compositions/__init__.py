"""Functions with PyTorch's names that are short compositions of others, by topic."""

from tinygrad_tf.compositions.elementwise import *
from tinygrad_tf.compositions.matrices import *
from tinygrad_tf.compositions.shapes import *
from tinygrad_tf.compositions.statistics import *
