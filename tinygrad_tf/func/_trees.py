"""Trees: tensors in tuples, lists and dictionaries, as the arguments and results of functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any


def leaves_of(tree: Any) -> list[Any]:
    """What a tree holds, from left to right."""
    if isinstance(tree, Mapping):
        return [leaf for part in tree.values() for leaf in leaves_of(part)]
    if isinstance(tree, (tuple, list)):
        return [leaf for part in tree for leaf in leaves_of(part)]
    return [tree]


def filled(tree: Any, leaves: Iterator[Any]) -> Any:
    """A tree of the same form that holds other leaves."""
    if isinstance(tree, Mapping):
        return {key: filled(part, leaves) for key, part in tree.items()}
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*[filled(part, leaves) for part in tree])
    if isinstance(tree, (tuple, list)):
        return type(tree)(filled(part, leaves) for part in tree)
    return next(leaves)


def mapped(tree: Any, function: Callable[..., Any]) -> Any:
    return filled(tree, iter([function(leaf) for leaf in leaves_of(tree)]))
