"""check_backward: forward and backward written by hand in NumPy, checked against each other."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tinygrad_tf._quiet import quiet
from tinygrad_tf.autograd.arguments import names_of, positional, refuse_foreign, required
from tinygrad_tf.autograd.check import Settings, examine
from tinygrad_tf.autograd.gradcheck import GradcheckWarning, decide
from tinygrad_tf.autograd.report import Report
from tinygrad_tf.autograd.subjects import ArraySubject, Input


def check_backward(
    forward: Callable[..., Any],
    backward: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    cache: bool | None = None,
    seed: int = 0,
) -> Report:
    """Check a hand-written backward; no Tensors needed. Returns the report, or raises GradcheckError with it.

    forward(*inputs) returns the output, an array; backward(grad_output, *inputs) returns the gradient of each input
    (or of each float input, or a dict by name). If forward returns (output, cache), backward(grad_output, cache) is
    called instead; `cache` says so explicitly. The methods of a layer that keeps in itself what backward needs will
    do, too: backward(grad_output) is then called right after forward. With several outputs (a tuple), backward gets the
    gradients of all of them first. inputs: an array or a tuple; float arrays are checked (float64 is best), all else is
    handed through.

    >>> import numpy as np
    >>> report = check_backward(lambda x: x**2, lambda g, x: 2 * x * g, np.array([1.0, 2.0]))
    >>> report.verdicts
    {'x': 'right'}
    >>> wrong = check_backward(lambda x: x**2, lambda g, x: x * g, np.array([1.0, 2.0]), raise_exception=False)
    >>> print(wrong.diagnosis[0])
    a constant factor: the gradient is 0.5 times the right one (1/2)
    """
    given = list(inputs) if isinstance(inputs, (tuple, list)) else [inputs]
    pair = _Pair(forward, backward, given, cache)
    subject = ArraySubject(pair.evaluate, pair.pull, pair.checked, pair.evaluate_at, pair.output_names, pair.integers)
    report = examine(
        subject, Settings(eps=eps, seed=seed), getattr(backward, "__name__", "backward").replace("<lambda>", "backward")
    )
    decide(report, atol, rtol, raise_exception)
    return report


class _Pair:
    """The two functions and their arguments; works on copies, so that the caller's arrays are never touched."""

    def __init__(
        self, forward: Callable[..., Any], backward: Callable[..., Any], given: Sequence[Any], cache: bool | None
    ):
        self.forward, self.backward = forward, backward
        self.arguments = [_copy(x) if isinstance(x, np.ndarray) else x for x in given]
        names = names_of(forward, len(given))
        self.places = [i for i, x in enumerate(self.arguments) if isinstance(x, np.ndarray) and x.dtype.kind == "f"]
        if not self.places:
            refuse_foreign(given, "check_backward")
            kinds = ", ".join(str(x.dtype) if isinstance(x, np.ndarray) else type(x).__name__ for x in given)
            raise ValueError(
                f"check_backward needs at least one float array among the inputs, got {kinds or 'none'}; make them "
                "np.array(..., dtype=float)"
            )
        self.checked = [Input(names[i], self.arguments[i]) for i in self.places]
        for x in self.checked:
            if x.array.dtype != np.float64:
                line = f"check_backward: {x.name} is {x.array.dtype}, too coarse for a sharp check; use float64"
                warnings.warn(line, GradcheckWarning, stacklevel=4)
        self.integers = [x for x in self.arguments if isinstance(x, np.ndarray) and x.dtype.kind in "iu"]
        self.names = names
        before = [x.array.copy() for x in self.checked]
        result = forward(*self.arguments)
        for x, values in zip(self.checked, before, strict=True):
            if not np.array_equal(x.array, values, equal_nan=True):
                raise ValueError(f"forward changed its input {x.name} in place; let it work on a copy (.copy())")
        self.cached = _has_cache(result, backward, len(given)) if cache is None else cache
        self.count = len(self._outputs(result))
        self.alone = not self.cached and _takes_gradients_alone(backward, self.count)
        self.output_names = ["the output"] if self.count == 1 else [f"output {i}" for i in range(self.count)]

    def _outputs(self, result: Any) -> list[np.ndarray]:
        if result is None:
            raise ValueError("forward returned None; is a `return` missing?")
        if self.cached:
            if not isinstance(result, tuple) or len(result) != 2:
                raise ValueError(f"with a cache, forward must return (output, cache), got {type(result).__name__}")
            result = result[0]
        items = list(result) if isinstance(result, (tuple, list)) else [result]
        arrays = [np.asarray(x) for x in items]
        for i, a in enumerate(arrays):
            if a.dtype.kind != "f":
                raise ValueError(f"forward must return float arrays, but output {i} has dtype {a.dtype}")
        return arrays

    def evaluate(self) -> list[np.ndarray]:
        return self._outputs(self.forward(*self.arguments))

    def evaluate_at(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        others = list(self.arguments)
        for i, array in zip(self.places, arrays, strict=True):
            others[i] = array
        return self._outputs(self.forward(*others))

    def pull(self, weights: list[np.ndarray]) -> list[Any]:
        """Forward again, for a fresh cache, then backward; the gradients of the float inputs."""
        before = [x.array.copy() for x in self.checked]
        with quiet():
            result = self.forward(*self.arguments)
            rest = () if self.alone else (result[1],) if self.cached else tuple(self.arguments)
            returned = self.backward(*[w.copy() for w in weights], *rest)
        for x, values in zip(self.checked, before, strict=True):
            if not np.array_equal(x.array, values, equal_nan=True):
                x.array[...] = values
                raise ValueError(f"backward changed the input {x.name} in place; let it work on a copy (.copy())")
        return [None if g is None else np.array(g) for g in self._by_input(returned)]

    def _by_input(self, returned: Any) -> list[Any]:
        if isinstance(returned, dict):
            names = [x.name for x in self.checked]
            unknown = [k for k in returned if k not in self.names]
            if unknown:
                raise ValueError(
                    f"backward returned a gradient for {unknown[0]!r}, but the inputs are {', '.join(names)}"
                )
            return [returned.get(name) for name in names]
        found = list(returned) if isinstance(returned, (tuple, list)) else [returned]
        if len(found) == len(self.arguments):
            return [found[i] for i in self.places]
        if len(found) == len(self.places):
            return found
        raise ValueError(
            f"backward must return {len(self.places)} gradients, one for each float input, got {len(found)}"
        )


def _copy(x: np.ndarray) -> np.ndarray:
    """A copy with the same strides, gaps included, so that what is checked is laid out as what was given."""
    if x.flags.c_contiguous or not x.size or any(s <= 0 for s in x.strides):
        return x.copy()
    span = sum((n - 1) * s for n, s in zip(x.shape, x.strides, strict=True)) // x.itemsize + 1
    if span > 16 * x.size or any(s % x.itemsize for s in x.strides):
        return x.copy(order="K")
    copy = np.lib.stride_tricks.as_strided(np.zeros(span, x.dtype), x.shape, x.strides)
    copy[...] = x
    return copy if np.array_equal(copy, x, equal_nan=True) else x.copy(order="K")


def _has_cache(result: Any, backward: Callable[..., Any], inputs: int) -> bool:
    """Whether forward returned (output, cache): a pair, and backward has no room for two gradients and the inputs."""
    if not isinstance(result, tuple) or len(result) != 2:
        return False
    try:
        parameters = inspect.signature(backward).parameters.values()
    except (TypeError, ValueError):
        return True
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return not all(isinstance(x, np.ndarray) for x in result)
    return len(required(backward)) != 2 + inputs


def _takes_gradients_alone(backward: Callable[..., Any], outputs: int) -> bool:
    """Whether backward takes the gradients of the outputs and nothing else, as the method of a layer with a memory."""
    try:
        parameters = inspect.signature(backward).parameters.values()
    except (TypeError, ValueError):
        return False
    return len(positional(backward)) == outputs and not any(p.kind is p.VAR_POSITIONAL for p in parameters)
