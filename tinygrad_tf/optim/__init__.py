"""Optimisers and learning rate schedules, with PyTorch's names and arguments."""

from tinygrad_tf.optim import lr_scheduler
from tinygrad_tf.optim.adam import Adam, AdamW
from tinygrad_tf.optim.adaptive import Adagrad, RMSprop
from tinygrad_tf.optim.optimizer import Optimizer
from tinygrad_tf.optim.sgd import SGD

__all__ = ["SGD", "Adagrad", "Adam", "AdamW", "Optimizer", "RMSprop", "lr_scheduler"]
