"""What can be checked: something with inputs in memory, outputs to evaluate, and gradients to ask for.

The checker knows only this: it writes to the arrays of the inputs, evaluates, and always puts the arrays back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinygrad_tf import engine
from tinygrad_tf.autograd.grad_mode import enable_grad
from tinygrad_tf.engine import current_node, make


@dataclass
class Input:
    """One input whose gradient is checked: its name, and the live array that the function reads."""

    name: str
    array: np.ndarray


class Subject:
    """inputs: those to check. evaluate() gives the outputs, pull() the gradients of the inputs at the point.

    blur: what a shorter dtype takes from the gradients, as a part of the largest, if the outputs are in a longer one.
    dtypes: what the gradients must have, if that is not the dtype of the inputs.
    """

    inputs: list[Input]
    output_names: list[str]
    integers: list[np.ndarray] = []  # noqa: RUF012 - integer inputs, which may be indices
    blur: float = 0.0
    dtypes: Sequence[np.dtype[Any]] = ()

    def evaluate(self) -> list[np.ndarray]:
        raise NotImplementedError

    def pull(self, weights: Sequence[np.ndarray | None]) -> list[Any]:
        """The gradient of sum(weights * outputs) for each input; None for an input that nothing arrives at."""
        raise NotImplementedError

    def evaluate_at(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The outputs for other arrays as inputs, of any float dtype; the outputs need not have it, too."""
        raise NotImplementedError

    def evaluate_in(self, dtype: Any) -> list[np.ndarray]:
        """The outputs for inputs of another dtype. They need not have it: the function may mix in what has not."""
        return self.evaluate_at([x.array.astype(dtype) for x in self.inputs])


class TensorSubject(Subject):
    """A function of Tensors, and the inputs among its arguments (or elsewhere) that require gradients."""

    def __init__(self, call: Callable[[], Any], named: Sequence[tuple[str, Any]], integers: Sequence[np.ndarray] = ()):
        self.call, self.tensors = call, [t for _, t in named]
        self.inputs = [Input(name, t.array) for name, t in named]
        self.integers = list(integers)
        with enable_grad():
            self.outputs = tensors_of(call())
        self.chosen = [i for i, o in enumerate(self.outputs) if current_node(o) is not None]
        self.detached = not self.chosen
        if self.detached:
            self.chosen = [i for i, o in enumerate(self.outputs) if o.array.dtype.kind in "fV"]
        self.roots = [self.outputs[i] for i in self.chosen]
        self.count = len(self.outputs)
        self.output_names = ["the output" if self.count == 1 else f"output {i}" for i in self.chosen]
        self.base = [o.array.copy() for o in self.roots]

    def evaluate(self) -> list[np.ndarray]:
        with enable_grad():
            found = tensors_of(self.call())
        if len(found) != self.count:
            raise ValueError(f"the function returned {self.count} outputs first and {len(found)} later")
        return [found[i].array for i in self.chosen]

    def evaluate_at(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        before = [(t, t.array, t.node, t.view_of) for t in self.tensors]
        try:
            for t, array in zip(self.tensors, arrays, strict=True):
                t.array = array
                engine.leaf(t)
            return self.evaluate()
        finally:
            for t, array, node, view_of in before:
                t.array, t.node, t.view_of = array, node, view_of

    def pull(self, weights: Sequence[np.ndarray | None]) -> list[Any]:
        if self.detached:
            return [None] * len(self.tensors)
        pairs = [(o, make(w)) for o, w in zip(self.roots, weights, strict=True) if w is not None]
        nodes = [current_node(t) for t in self.tensors]
        found = engine.walk(pairs, True, False, nodes)
        return [found[n].array if n in found else None for n in nodes if n is not None]


def tensors_of(output: Any) -> list[Any]:
    """The Tensors that a function returned; one clear line if there are none."""
    items = list(output) if isinstance(output, (tuple, list)) else [output]
    if isinstance(output, dict):
        items = list(output.values())
    found = [o for o in items if isinstance(o, engine.Tensor)]
    if output is None or (items and not found):
        raise ValueError(
            f"the function must return a Tensor or a tuple of Tensors, got {type(output).__name__}"
            + ("; is a `return` missing?" if output is None else "")
        )
    return found


class ArraySubject(Subject):
    """A pair of NumPy functions written by hand."""

    def __init__(
        self,
        evaluate: Callable[[], list[np.ndarray]],
        pull: Callable[[list[np.ndarray]], list[Any]],
        inputs: list[Input],
        evaluate_at: Callable[[Sequence[np.ndarray]], list[np.ndarray]],
        output_names: list[str],
        integers: Sequence[np.ndarray] = (),
    ):
        self._evaluate, self._pull, self.inputs = evaluate, pull, inputs
        self._evaluate_at = evaluate_at
        self.output_names, self.integers = output_names, list(integers)
        self.shapes = [(o.shape, o.dtype) for o in evaluate()]

    def evaluate(self) -> list[np.ndarray]:
        return self._evaluate()

    def evaluate_at(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        return self._evaluate_at(arrays)

    def pull(self, weights: Sequence[np.ndarray | None]) -> list[Any]:
        given = [np.zeros(s, d) if w is None else w for w, (s, d) in zip(weights, self.shapes, strict=True)]
        return self._pull(given)


class Projected(Subject):
    """Another subject's outputs, weighted and summed: one number, where there are too many outputs to look at each."""

    def __init__(self, subject: Subject, weights: list[np.ndarray]):
        self.subject, self.weights = subject, weights
        self.inputs, self.integers, self.blur = subject.inputs, subject.integers, subject.blur
        self.output_names = ["a random combination of the outputs"]

    def evaluate(self) -> list[np.ndarray]:
        return self._summed(self.subject.evaluate())

    def evaluate_at(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        parts = self.subject.evaluate_at(arrays)
        found = np.result_type(*(p.dtype for p in parts))
        return [total.astype(found) for total in self._summed(parts)]

    def _summed(self, parts: list[np.ndarray]) -> list[np.ndarray]:
        return [np.asarray(sum(float((p * w).sum()) for p, w in zip(parts, self.weights, strict=True)))]

    def pull(self, weights: Sequence[np.ndarray | None]) -> list[Any]:
        (factor,) = weights
        assert factor is not None
        return self.subject.pull([w * factor.item() for w in self.weights])
