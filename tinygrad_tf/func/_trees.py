"""Trees: tensors in tuples, lists and dictionaries, as the arguments and results of functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
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


def flattened(tree: Any) -> tuple[list[Any], Any]:
    """The leaves of a tree, and its form: the same tree without them, which `unflattened` takes.

    >>> flattened({"a": [1, 2], "b": 3})
    ([1, 2, 3], {'a': [None, None], 'b': None})
    """
    return leaves_of(tree), mapped(tree, lambda leaf: None)


def unflattened(leaves: Iterable[Any], form: Any) -> Any:
    """The tree that was flattened, with other leaves.

    >>> unflattened([4, 5, 6], {"a": [None, None], "b": None})
    {'a': [4, 5], 'b': 6}
    """
    leaves = list(leaves)
    places = len(leaves_of(form))
    if len(leaves) != places:
        raise ValueError(f"tree_unflatten: the tree holds {places} leaves, got {len(leaves)}")
    return filled(form, iter(leaves))


def tree_map(function: Callable[..., Any], tree: Any, *rests: Any) -> Any:
    """The tree of what a function makes of each leaf, or of the leaves in the same places of several trees."""
    columns = [leaves_of(part) for part in (tree, *rests)]
    return filled(tree, iter([function(*leaves) for leaves in zip(*columns, strict=True)]))
