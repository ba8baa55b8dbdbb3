"""Evaluation mode for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tinygrad_tf.nn import Module


@contextmanager
def evaluating(model: Module) -> Iterator[None]:
    """Inside, the model is in evaluation mode; afterwards, also after an error, each module has its own mode again.

    >>> from tinygrad_tf import nn
    >>> model = nn.Sequential(nn.Dropout(0.5))
    >>> with evaluating(model):
    ...     model[0].training
    False
    >>> model[0].training
    True
    """
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode
