"""Whether a tensor depends on more than the copies that a transformation made for itself."""

from __future__ import annotations

from collections.abc import Container

from tinygrad_tf.engine import Node, Tensor, current_node


def depends_on_others(t: Tensor, own: Container[Node | None]) -> bool:
    """Whether the graph of t leads to a leaf that is not among `own`."""
    todo, seen = [current_node(t)], set[int]()
    while todo:
        node = todo.pop()
        if node is None or id(node) in seen:
            continue
        if node.operation is None and node not in own:
            return True
        seen.add(id(node))
        todo.extend(node.edges)
    return False
