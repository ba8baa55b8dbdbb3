"""Optimisers and learning rate schedules, with PyTorch's names and arguments."""

from tinygrad_tf.optim import lr_scheduler, swa_utils
from tinygrad_tf.optim.adafactor import Adafactor
from tinygrad_tf.optim.adam import Adam, AdamW
from tinygrad_tf.optim.adaptive import Adadelta, Adagrad, RMSprop
from tinygrad_tf.optim.lbfgs import LBFGS
from tinygrad_tf.optim.muon import Muon
from tinygrad_tf.optim.older import ASGD, Rprop
from tinygrad_tf.optim.optimizer import Optimizer
from tinygrad_tf.optim.sgd import SGD
from tinygrad_tf.optim.sparse_adam import SparseAdam
from tinygrad_tf.optim.variants import Adamax, NAdam, RAdam

__all__ = [
    "ASGD",
    "LBFGS",
    "SGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Muon",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "SparseAdam",
    "lr_scheduler",
    "swa_utils",
]
