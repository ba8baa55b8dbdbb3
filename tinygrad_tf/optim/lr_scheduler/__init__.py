"""Learning rate schedules. A scheduler sets the rate of the first step when it is made, the next one at each `step`.

Most are a curve, `share(step)`. Several schedulers may belong to one optimiser: each multiplies the rate that it finds
by the change of its own share, so that the shares multiply.

    _scheduler.py   what all of them are          _cycles.py    up and down, once or again and again
    _curves.py      one formula                   _several.py   made of others, or led by a metric
"""

from tinygrad_tf.optim.lr_scheduler._curves import (
    ConstantLR,
    CosineAnnealingLR,
    CosineAnnealingWarmRestarts,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiplicativeLR,
    MultiStepLR,
    PolynomialLR,
    StepLR,
    noam,
    warmup_cosine,
)
from tinygrad_tf.optim.lr_scheduler._cycles import CyclicLR, OneCycleLR
from tinygrad_tf.optim.lr_scheduler._scheduler import LRScheduler
from tinygrad_tf.optim.lr_scheduler._several import ChainedScheduler, ReduceLROnPlateau, SequentialLR

_LRScheduler = LRScheduler  # the name by which PyTorch 1 had it, and schedules written for that derive from it

__all__ = [
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
    "noam",
    "warmup_cosine",
]

for _name in __all__:  # programs tell a schedule by its module's name
    globals()[_name].__module__ = __name__
