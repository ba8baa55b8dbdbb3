"""An expression is a graph: each operation knows what it was made from, and the gradient walks back along the lines.

Look at the boxes: the operation, the shape of its result and, in the last line, the gradient of the loss with respect
to it. Read upwards for the forward pass, downwards for backward: `mul` hands each of its two inputs the other one,
`add` hands the same gradient to both (that is why residuals work), `tanh` lets less through than it gets. A box that is
used twice (x) gets the sum of what comes along both lines.

    python examples/see_the_graph.py        writes see_the_graph.png and see_the_graph.svg
"""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib import pyplot as plt

import tinygrad_tf as tg


def walk(result: tg.Tensor) -> list[Any]:
    """The nodes that `result` was made from, every node behind all of its inputs."""
    order: list[Any] = []

    def visit(node: Any) -> None:
        if node is not None and node not in order:
            for edge in node.edges:
                visit(edge)
            order.append(node)

    visit(result.node)
    return order


def heights(nodes: list[Any]) -> dict[Any, int]:
    """Leaves are at 0, everything else one above the highest of its inputs."""
    level: dict[Any, int] = {}
    for node in nodes:
        level[node] = 1 + max((level[edge] for edge in node.edges if edge is not None), default=-1)
    return level


def gradients(result: tg.Tensor, nodes: list[Any]) -> dict[Any, np.ndarray]:
    """The gradient at every node, noted by a hook on it while backward walks."""
    found: dict[Any, np.ndarray] = {}
    for node in nodes:

        def note(g: Any, node: Any = node) -> None:
            found[node] = np.array(g.numpy())

        node.hooks = {**(node.hooks or {}), -1: note}
    result.backward(retain_graph=True)  # otherwise the lines are cut as soon as they were walked
    return found


def draw(names: dict[Any, str], nodes: list[Any], found: dict[Any, np.ndarray]) -> None:
    level = heights(nodes)
    rows: dict[int, list[Any]] = {}
    for node in nodes:
        rows.setdefault(level[node], []).append(node)
    place = {n: (i - (len(row) - 1) / 2, y) for y, row in rows.items() for i, n in enumerate(row)}
    figure, ax = plt.subplots(figsize=(10, 1.5 * len(rows)), layout="constrained")
    for node in nodes:
        (x, y), gradient = place[node], np.array2string(found[node], precision=2, suppress_small=True)
        name = names.get(node, node.kind)
        ax.text(
            x,
            y,
            f"{name}  {tuple(node.shape)}\ngradient {gradient}",
            ha="center",
            va="center",
            fontsize=9,
            bbox={"boxstyle": "round", "facecolor": "#dbe9f6" if node.edges else "#fdebc8"},
        )
        for edge in node.edges:
            if edge is not None:
                ax.annotate("", (x, y - 0.22), (place[edge][0], place[edge][1] + 0.22), arrowprops={"arrowstyle": "->"})
    widest = max(len(row) for row in rows.values())
    ax.set(xlim=(-widest / 2, widest / 2), ylim=(-0.5, len(rows) - 0.5))
    ax.axis("off")
    for ending in ("png", "svg"):
        figure.savefig(f"see_the_graph.{ending}", dpi=110)


def example() -> tuple[tg.Tensor, dict[str, tg.Tensor]]:
    """A residual unit: the sum of x + tanh(w * x + b)."""
    leaves = {
        "w": tg.tensor([1.0, -2.0], requires_grad=True),
        "x": tg.tensor([0.5, 1.0], requires_grad=True),
        "b": tg.tensor([0.0, 1.0], requires_grad=True),
    }
    w, x, b = leaves.values()
    return (x + (w * x + b).tanh()).sum(), leaves


def main() -> None:
    result, leaves = example()
    nodes = walk(result)
    found = gradients(result, nodes)
    names = {leaf.node: name for name, leaf in leaves.items()}
    for node in reversed(nodes):
        inputs = ", ".join(names.get(edge, edge.kind) for edge in node.edges if edge is not None)
        print(f"{names.get(node, node.kind):6s} {tuple(node.shape)!s:6s} of ({inputs})  gradient {found[node]}")
    draw(names, nodes, found)

    w, x, b = (leaf.detach().numpy() for leaf in leaves.values())
    slope = 1 - np.tanh(w * x + b) ** 2
    for name, by_hand in {"w": slope * x, "x": 1 + slope * w, "b": slope}.items():
        assert np.allclose(leaves[name].grad.numpy(), by_hand) and np.allclose(found[leaves[name].node], by_hand)
    assert [node.kind for node in nodes if node.edges] == ["mul", "add", "tanh", "add", "sum"]


if __name__ == "__main__":
    main()
