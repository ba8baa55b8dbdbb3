"""Making tensors: from data, filled, counted, random."""

from tinygrad_tf.creation.counted import *
from tinygrad_tf.creation.drawn import *
from tinygrad_tf.creation.filled import *
from tinygrad_tf.creation.given import *
from tinygrad_tf.creation.typed import *
