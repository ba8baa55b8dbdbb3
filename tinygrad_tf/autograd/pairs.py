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
from tinygrad_tf.autograd.conventions import adapted, arguments_of, check_call, gradients_of, outputs_of
from tinygrad_tf.autograd.gradcheck import GradcheckWarning, decide
from tinygrad_tf.autograd.layers import Held, find_held, held_by_name, holds_arrays, layer_of
from tinygrad_tf.autograd.report import Report
from tinygrad_tf.autograd.subjects import ArraySubject, Input
from tinygrad_tf.graph import Tensor


def check_backward(
    forward: Callable[..., Any],
    backward: Callable[..., Any] | None,
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
    do, too: backward(grad_output) is then called right after forward, and the parameters that the layer holds are
    checked as well, where their gradients lie beside them (layers.py). With several outputs (a tuple), backward gets
    the gradients of all of them first. A backward that takes what forward takes, by the same names, is taken for the
    derivative of a loss, or of each element; with backward=None forward returns (loss, gradients), as a network does
    whose gradients have the names of its `params`. inputs: an array or a tuple; float arrays are checked (float64 is
    best), all else is handed through.

    >>> import numpy as np
    >>> report = check_backward(lambda x: x**2, lambda g, x: 2 * x * g, np.array([1.0, 2.0]))
    >>> report.verdicts
    {'x': 'right'}
    >>> wrong = check_backward(lambda x: x**2, lambda g, x: x * g, np.array([1.0, 2.0]), raise_exception=False)
    >>> print(wrong.diagnosis[0])
    a constant factor: the gradient is 0.5 times the right one (1/2)
    """
    pair = _Pair(forward, backward, arguments_of(inputs, forward), cache)
    subject = ArraySubject(pair.evaluate, pair.pull, pair.checked, pair.evaluate_at, pair.output_names, pair.integers)
    title = getattr(forward if backward is None else backward, "__name__", "backward").replace("<lambda>", "backward")
    report = examine(subject, Settings(eps=eps, seed=seed), title)
    decide(report, atol, rtol, raise_exception)
    return report


class _Pair:
    """The two functions and their arguments; works on copies, so that the caller's arrays are never touched."""

    def __init__(self, forward: Callable[..., Any], backward: Any, given: Sequence[Any], cache: bool | None):
        self.forward, self.backward = adapted(forward, backward, len(given))
        self.arguments = [_copy(x) if isinstance(x, np.ndarray) else x for x in given]
        self.names = names_of(self.forward, len(given))
        self.places = [i for i, x in enumerate(self.arguments) if isinstance(x, np.ndarray) and x.dtype.kind == "f"]
        self.held: list[Held] = []
        self.by_name: dict[str, Any] = {}
        if backward is None:
            self._find_network(forward)
        self.checked = [Input(self.names[i], self.arguments[i]) for i in self.places]
        self.integers = [x for x in self.arguments if isinstance(x, np.ndarray) and x.dtype.kind in "iu"]
        layer = layer_of(forward, backward)
        if not self.places and not self.held and not (layer is not None and holds_arrays(layer)):
            self._refuse()
        result = self._first()
        self.cached = _has_cache(result, self.backward, len(given)) if cache is None else cache
        self.count = len(self._outputs(result))
        self.alone = not self.cached and _takes_gradients_alone(self.backward, self.count)
        self.output_names = ["the output"] if self.count == 1 else [f"output {i}" for i in range(self.count)]
        if layer is not None:
            ones = [np.ones(o.shape, o.dtype) for o in self.evaluate()]
            self.held = find_held(layer, self.arguments, lambda: self._back(ones))
        self._name_held()
        for x in self.checked:
            if x.array.dtype != np.float64:
                line = f"check_backward: {x.name} is {x.array.dtype}, too coarse for a sharp check; use float64"
                warnings.warn(line, GradcheckWarning, stacklevel=4)

    def _refuse(self) -> None:
        refuse_foreign(self.arguments, "check_backward")
        given = self.arguments
        kinds = ", ".join(str(x.dtype) if isinstance(x, np.ndarray) else type(x).__name__ for x in given)
        if any(isinstance(x, Tensor) for x in given):
            raise ValueError("check_backward is for NumPy arrays, got Tensors; use gradcheck for a function of Tensors")
        raise ValueError(
            f"check_backward needs at least one float array among the inputs, got {kinds or 'none'}; make them "
            "np.array(..., dtype=float)"
        )

    def _first(self) -> Any:
        before = [x.array.copy() for x in self.checked]
        result = self.forward(*self.arguments)
        for x, values in zip(self.checked, before, strict=True):
            if not np.array_equal(x.array, values, equal_nan=True):
                raise ValueError(f"forward changed its input {x.name} in place; let it work on a copy (.copy())")
        return result

    def _find_network(self, loss: Callable[..., Any]) -> None:
        """The parameters of the network whose method returns the loss and their gradients; its data may have none."""
        found = loss(*self.arguments)
        gradients = found[1] if isinstance(found, tuple) and len(found) == 2 else None
        self.held = held_by_name(getattr(loss, "__self__", None), gradients, lambda name: self.by_name.get(name))
        if self.held and gradients is not None:
            self.places = [i for i in self.places if self.names[i] in gradients]
            self.by_name = gradients

    def _name_held(self) -> None:
        taken = {x.name for x in self.checked}
        self.checked += [Input(f"parameter {h.name}" if h.name in taken else h.name, h.array) for h in self.held]
        if not self.checked:
            self._refuse()

    def _outputs(self, result: Any) -> list[np.ndarray]:
        if self.cached and result is not None:
            if not isinstance(result, tuple) or len(result) != 2:
                raise ValueError(f"with a cache, forward must return (output, cache), got {type(result).__name__}")
            result = result[0]
        return outputs_of(result)

    def evaluate(self) -> list[np.ndarray]:
        return self._outputs(self.forward(*self.arguments))

    def evaluate_at(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        others = list(self.arguments)
        for i, array in zip(self.places, arrays, strict=False):
            others[i] = array
        try:
            for h, array in zip(self.held, arrays[len(self.places) :], strict=True):
                h.put(array)
            return self._outputs(self.forward(*others))
        finally:
            for h in self.held:
                h.put(h.array)

    def pull(self, weights: list[np.ndarray]) -> list[Any]:
        """Forward again, for a fresh cache, then backward; the gradients of the float inputs, and of what is held."""
        before = [x.array.copy() for x in self.checked]
        for h in self.held:
            h.clear()
        with quiet():
            returned = self._back([w.copy() for w in weights])
        for x, values in zip(self.checked, before, strict=True):
            if not np.array_equal(x.array, values, equal_nan=True):
                x.array[...] = values
                raise ValueError(f"backward changed the input {x.name} in place; let it work on a copy (.copy())")
        if self.held and isinstance(returned, dict):
            self.by_name, returned = returned, {k: v for k, v in returned.items() if k in self.names}
        found = gradients_of(returned, self.places, self.names) if self.places else []
        return [None if g is None else np.array(g) for g in [*found, *(h.gradient() for h in self.held)]]

    def _back(self, weights: list[np.ndarray]) -> Any:
        result = self.forward(*self.arguments)
        rest = () if self.alone else (result[1],) if self.cached else tuple(self.arguments)
        said = ["grad_output"] if self.count == 1 else [f"grad_output_{i}" for i in range(self.count)]
        said += ["cache"] if self.cached else self.names[: len(rest)]
        check_call(self.backward, [*weights, *rest], ", ".join(said))
        return self.backward(*weights, *rest)


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
