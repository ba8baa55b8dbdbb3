"""Elementwise operations: the result at a place depends on the inputs at that place alone.

Each rule is one line of operations: it runs on NumPy arrays in an ordinary backward pass, and on Tensors when the
gradient is to be differentiated again.
"""

from tinygrad_tf.ops.elementwise.arithmetic import *
from tinygrad_tf.ops.elementwise.choices import *
from tinygrad_tf.ops.elementwise.functions import *
from tinygrad_tf.ops.elementwise.of_two import *
