"""How people write a forward and its backward, brought into the form backward(grad_output, *inputs), or refused."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tinygrad_tf.autograd.arguments import required

CACHES = ("cache", "caches", "ctx", "saved", "memory", "context")


def arguments_of(inputs: Any, forward: Callable[..., Any]) -> list[Any]:
    """The arguments for forward: NumPy's numbers and lists of floats as arrays, Python's floats if there is none."""
    given = list(inputs) if isinstance(inputs, (tuple, list)) else [inputs]
    if isinstance(inputs, list) and len(required(forward)) == 1 and len(given) > 1:
        given = [inputs]
    given = [_as_array(x) for x in given]
    if not any(isinstance(x, np.ndarray) for x in given):
        given = [np.array(x) if isinstance(x, float) else x for x in given]
    return given


def _as_array(x: Any) -> Any:
    if isinstance(x, np.floating):
        return np.array(x)
    if isinstance(x, list):
        try:
            array = np.array(x)
        except ValueError:  # of different lengths
            return x
        return array if array.dtype.kind == "f" else x
    return x


def adapted(forward: Callable[..., Any], backward: Any, count: int) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The two as forward(*inputs) and backward(grad_output, ...). count: of the inputs."""
    if backward is None:
        return _of_loss_and_gradients(forward)
    names, inputs = [p.name for p in required(backward)], [p.name for p in required(forward)][:count]
    if not inputs or hasattr(backward, "__self__"):
        return forward, backward
    if names == inputs:
        return forward, lambda g, *given: _times(g, backward(*given))
    behind = names[:-1] == inputs or (len(names) == 2 and names[0] in CACHES)
    if behind and len(names) > 1 and names[-1] not in inputs:
        last, others = names[-1], ", ".join(names[:-1])
        raise ValueError(
            f"backward must take the gradient of the output first, backward({last}, {others}), and is written as "
            f"backward({others}, {last}); change the order, or pass lambda {last}, {others}: "
            f"backward({others}, {last})"
        )
    return forward, backward


def _of_loss_and_gradients(forward: Callable[..., Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """A function that returns the loss and its gradients, in one."""

    def both(*inputs: Any) -> tuple[Any, Any]:
        found = forward(*inputs)
        if not isinstance(found, tuple) or len(found) < 2 or np.size(found[0]) != 1:
            raise ValueError(
                "without a backward, forward must return (loss, gradient) or (loss, gradients), the loss one number; "
                f"got {_described(found)}"
            )
        return found[0], found[1] if len(found) == 2 else found[1:]

    def loss(*inputs: Any) -> Any:
        return both(*inputs)[0]

    loss.__signature__ = _signature(forward)  # type: ignore[attr-defined]
    return loss, lambda g, *inputs: _times(g, both(*inputs)[1])


def _signature(function: Any) -> inspect.Signature:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return inspect.Signature([inspect.Parameter("inputs", inspect.Parameter.VAR_POSITIONAL)])


def _times(g: np.ndarray, gradients: Any) -> Any:
    """What a backward returns, from the derivatives of a loss, or of a function of single elements, and g."""
    if isinstance(gradients, dict):
        return {name: _times(g, value) for name, value in gradients.items()}
    if isinstance(gradients, (tuple, list)) and not _is_plain(gradients):
        return type(gradients)([_times(g, value) for value in gradients])
    if gradients is None:
        return None
    derivative = np.asarray(gradients)
    if g.size != 1 and g.shape != derivative.shape:
        raise ValueError(
            f"backward takes the inputs alone, so that it must give the gradient of a loss, or the derivative of each "
            f"element; the output has shape {g.shape}, and it gave {derivative.shape}; let it take the gradient of the "
            "output, too: backward(grad_output, ...)"
        )
    return derivative * (g.reshape(()) if g.size == 1 and derivative.shape != g.shape else g)


def _is_plain(x: Any) -> bool:
    """Whether it is a list of numbers (or of such lists), as .tolist() gives."""
    return isinstance(x, list) and bool(x) and all(isinstance(v, (int, float)) or _is_plain(v) for v in x)


def outputs_of(result: Any) -> list[np.ndarray]:
    """What forward returned, as arrays."""
    if result is None:
        raise ValueError("forward returned None; is a `return` missing?")
    items = list(result) if isinstance(result, (tuple, list)) and not _is_plain(result) else [result]
    arrays = [np.asarray(x) for x in items]
    for i, (a, x) in enumerate(zip(arrays, items, strict=True)):
        if a.dtype.kind != "f":
            what = f"dtype {a.dtype}" if a.dtype.kind in "iubc" else f"type {type(x).__name__}"
            raise ValueError(f"forward must return float arrays, but output {i} has {what}")
    return arrays


def gradients_of(returned: Any, places: Sequence[int], names: Sequence[str]) -> list[Any]:
    """What backward returned, for the inputs at `places`. names: those of all inputs."""
    checked = [names[i] for i in places]
    if isinstance(returned, dict):
        unknown = [k for k in returned if k not in names and not (k[:1] == "d" and k[1:] in names)]
        if unknown:
            raise ValueError(f"backward returned a gradient for {unknown[0]!r}, but the inputs are {', '.join(names)}")
        return [returned.get(name, returned.get(f"d{name}")) for name in checked]
    found = list(returned) if isinstance(returned, (tuple, list)) else [returned]
    if len(places) == 1 and len(found) not in (1, len(names)) and _is_plain(returned):
        found = [returned]  # one gradient, as .tolist() gives it
    if len(found) == len(names):
        return [found[i] for i in places]
    if len(found) == len(places):
        return found
    raise ValueError(
        f"backward must return {len(places)} gradients, one for each float input ({', '.join(checked)}), got "
        f"{len(found)}"
    )


def check_call(backward: Callable[..., Any], arguments: Sequence[Any], text: str) -> None:
    """TypeError if backward cannot be called with these arguments, which are described by `text`."""
    try:
        signature = inspect.signature(backward)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*arguments)
    except TypeError as error:
        names = ", ".join(p.name for p in signature.parameters.values())
        raise TypeError(f"backward({names}) is called as backward({text}): {error}") from None


def _described(found: Any) -> str:
    if isinstance(found, tuple):
        return f"({', '.join(_described(x) for x in found)})"
    return f"an array of shape {found.shape}" if isinstance(found, np.ndarray) else type(found).__name__
