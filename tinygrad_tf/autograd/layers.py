"""Layers written by hand that hold their parameters in themselves, and the gradient of each beside it.

    class Affine:
        def __init__(self, W): self.W = W
        def forward(self, x): self.x = x; return x @ self.W
        def backward(self, g): self.dW = self.x.T @ g; return g @ self.W.T

A parameter W has its gradient in dW, grad_W or W_grad, or the two lie in dicts (lists) `params` and `grads`, of the
layer or of a layer inside of it. What forward replaces, as x, is no parameter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

GRADIENT_NAMES = ("d{}", "d_{}", "grad_{}", "{}_grad", "grad{}")


@dataclass
class Held:
    """A parameter: its live array, what reads its gradient, and all places that hold it, as (dict or list, key)."""

    name: str
    array: np.ndarray
    gradient: Callable[[], Any]
    places: list[tuple[Any, Any]] = field(default_factory=list)

    def put(self, array: np.ndarray) -> None:
        for holder, key in self.places:
            holder[key] = array

    def clear(self) -> None:
        """Zero the gradient, which backward may add to."""
        found = self.gradient()
        if isinstance(found, np.ndarray) and found.flags.writeable:
            found[...] = 0


def layer_of(forward: Any, backward: Any) -> Any:
    """The object whose methods the two are, or None."""
    owner = getattr(forward, "__self__", None)
    return owner if owner is not None and getattr(backward, "__self__", None) is owner else None


def holds_arrays(layer: Any) -> bool:
    """Whether there is any float array in a layer that might be a parameter."""
    values = [v for _, attributes in _layers(layer) for v in attributes.values()]
    values += [w for v in values if isinstance(v, (dict, list)) for w in (v.values() if isinstance(v, dict) else v)]
    return any(_is_float(v) for v in values)


def find_held(layer: Any, arguments: Sequence[Any], run: Callable[[], Any]) -> list[Held]:
    """The parameters of a layer. run: a pass forward and back, which makes the gradients and shows what is replaced."""
    run()
    before = list(_with_gradients(layer))
    run()
    after = {id(h.array) for h in _with_gradients(layer)}
    arrays = [a for a in arguments if isinstance(a, np.ndarray)]
    found: dict[int, Held] = {}
    for h in before:
        if id(h.array) in after and not any(np.shares_memory(h.array, a) for a in arrays):
            found.setdefault(id(h.array), h)
    for _, attributes in _layers(layer):
        for holder in (attributes, *(v for v in attributes.values() if isinstance(v, (dict, list)))):
            for key, value in holder.items() if isinstance(holder, dict) else enumerate(holder):
                if id(value) in found:
                    found[id(value)].places.append((holder, key))
    return list(found.values())


def held_by_name(owner: Any, gradients: Any, read: Callable[[str], Any]) -> list[Held]:
    """The parameters of a network, in its dict `params`, whose loss returns their gradients by the same names.

    None if it does not. read(name) gives the gradient that was returned last.
    """
    params = getattr(owner, "params", None)
    if not isinstance(params, dict) or not isinstance(gradients, dict) or not any(k in params for k in gradients):
        return []
    return [Held(k, v, partial(read, k), [(params, k)]) for k, v in params.items() if _is_float(v)]


def _layers(layer: Any, prefix: str = "", seen: set[int] | None = None) -> Iterator[tuple[str, dict[str, Any]]]:
    """The attributes of a layer and of all layers inside of it, with what their names begin with."""
    seen = set() if seen is None else seen
    if id(layer) in seen or not hasattr(layer, "__dict__"):
        return
    seen.add(id(layer))
    yield prefix, vars(layer)
    for name, value in list(vars(layer).items()):
        items: Any = {"": value}
        if isinstance(value, (list, tuple)):
            items = {f"[{i}]": v for i, v in enumerate(value)}
        elif isinstance(value, dict):
            items = {f"[{k!r}]": v for k, v in value.items()}
        for key, inner in items.items():
            if callable(getattr(inner, "forward", None)) and callable(getattr(inner, "backward", None)):
                yield from _layers(inner, f"{prefix}{name}{key}.", seen)


def _with_gradients(layer: Any) -> Iterator[Held]:
    for prefix, attributes in _layers(layer):
        for name, value in list(attributes.items()):
            for gradient in (form.format(name) for form in GRADIENT_NAMES):
                if _is_float(value) and gradient in attributes:
                    yield Held(prefix + name, value, partial(attributes.get, gradient))
        params, grads = attributes.get("params"), attributes.get("grads")
        if isinstance(params, dict) and isinstance(grads, dict):
            for key, value in params.items():
                of = next((k for k in (key, f"d{key}") if k in grads), None)
                if _is_float(value) and of is not None:
                    yield Held(f"{prefix}params[{key!r}]", value, partial(_from, attributes, of))
        elif isinstance(params, list) and isinstance(grads, list) and len(params) == len(grads):
            for i, value in enumerate(params):
                if _is_float(value):
                    yield Held(f"{prefix}params[{i}]", value, partial(_from, attributes, i))


def _is_float(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.flags.writeable


def _from(attributes: dict[str, Any], key: Any) -> Any:
    return attributes["grads"][key]
