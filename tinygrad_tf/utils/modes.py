"""Evaluation mode for a while."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tinygrad_tf.nn import Module


class evaluating:
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

    def __init__(self, model: Module, modules: Sequence[Module] | None = None):
        self.modules = list(model.modules()) if modules is None else modules
        self.training: list[Module] = []

    def __enter__(self) -> None:
        self.training = [module for module in self.modules if module.training]
        for module in self.training:
            module.__dict__["training"] = False  # past __setattr__, which takes ten times as long

    def __exit__(self, *_: Any) -> None:
        for module in self.training:
            module.__dict__["training"] = True
