"""Evaluation mode for a while."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tinygrad_tf.nn import Module


@contextmanager
def evaluating(model: Module, modules: Sequence[Module] | None = None) -> Iterator[None]:
    """Inside, the model is in evaluation mode; afterwards, also after an error, each module has its own mode again.

    modules: all modules of the model, where they are known; to find them takes as long as a small layer's work.

    >>> from tinygrad_tf import nn
    >>> model = nn.Sequential(nn.Dropout(0.5))
    >>> with evaluating(model):
    ...     model[0].training
    False
    >>> model[0].training
    True
    """
    training = [module for module in (model.modules() if modules is None else modules) if module.training]
    for module in training:
        vars(module)["training"] = False  # past __setattr__, which takes ten times as long
    try:
        yield
    finally:
        for module in training:
            vars(module)["training"] = True
