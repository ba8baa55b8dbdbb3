"""What a function calls its arguments, for reports that name them."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any


def positional(function: Any) -> list[inspect.Parameter]:
    """The parameters that can be given by place; none for what does not tell, as functions of C."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]


def required(function: Any) -> list[inspect.Parameter]:
    """Those of them without a default."""
    return [p for p in positional(function) if p.default is p.empty]


def names_of(function: Any, count: int) -> list[str]:
    """The names of the first `count` arguments; `input 2` for one that has none.

    >>> names_of(lambda query, *rest: 0, 2)
    ['query', 'input 1']
    """
    names = [p.name for p in positional(function)[:count]]
    return names + [f"input {i}" for i in range(len(names), count)]


def refuse_foreign(things: Iterable[Any], title: str) -> None:
    """TypeError for tensors and modules of PyTorch itself, which look like ours and cannot be checked here."""
    for x in things:
        if any(base.__module__.split(".")[0] == "torch" for base in type(x).__mro__):
            raise TypeError(
                f"{title}: this is a {type(x).__name__} of PyTorch itself, and tensors and modules of this package are "
                "wanted; `import tinygrad_tf as torch`, or `from tinygrad_tf.as_torch import install; install()` before"
                " `import torch`"
            )
