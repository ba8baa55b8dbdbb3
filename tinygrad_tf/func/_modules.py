"""Modules as functions of their weights, as derivatives by weights and ensembles of models want them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tinygrad_tf.functions import stack
from tinygrad_tf.nn.module import Module
from tinygrad_tf.tensor import Tensor


def functional_call(
    module: Module,
    parameter_and_buffer_dicts: Any,
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call a module with other tensors for its parameters and buffers: a dictionary by their names, or several.

    Those that are not named stay as they are, and names that the module has not got do nothing; with strict=True both
    are errors. tie_weights: a parameter that the module has under two names is replaced under both.

    >>> import tinygrad_tf as tg
    >>> layer = tg.nn.Linear(2, 1)
    >>> functional_call(layer, {"weight": tg.ones(1, 2), "bias": tg.zeros(1)}, tg.tensor([3.0, 4.0]))
    tensor([7.])
    """
    dicts = parameter_and_buffer_dicts
    given = {k: v for d in (dicts if isinstance(dicts, (tuple, list)) else [dicts]) for k, v in d.items()}
    arguments = () if args is None else args if isinstance(args, tuple) else (args,)
    with _replaced(module, given, tie_weights, strict):
        return module(*arguments, **(kwargs or {}))


@contextmanager
def _replaced(module: Module, given: dict[str, Any], tie_weights: bool, strict: bool) -> Iterator[None]:
    places = {**dict(module.named_parameters(remove_duplicate=False)), **dict(module.named_buffers())}
    unknown = [name for name in given if name not in places]
    missing = [name for name in places if name not in given]
    if strict and (unknown or missing):
        raise RuntimeError(f"functional_call: the module has no {unknown}; missing are {missing}")
    values = given = {name: value for name, value in given.items() if name in places}
    for name, value in given.items():
        if not isinstance(value, Tensor):
            raise TypeError(f"functional_call: {name!r} must be a tensor, got {type(value).__name__}")
    if tie_weights:
        for name, value in given.items():
            others = [other for other in given if places[other] is places[name] and given[other] is not value]
            if others:
                raise ValueError(
                    f"functional_call: {[name, *others]} are one tied weight; give one value, or tie_weights=False"
                )
        by_identity = {id(places[name]): value for name, value in given.items()}
        values = {name: by_identity[id(t)] for name, t in places.items() if id(t) in by_identity}
    before = []
    try:
        for name, value in values.items():
            path, _, last = name.rpartition(".")
            owner = module.get_submodule(path) if path else module
            before.append((owner, last, owner.__dict__[last]))
            owner.__dict__[last] = value
        yield
    finally:
        for owner, last, value in reversed(before):
            owner.__dict__[last] = value


def stack_module_state(models: Sequence[Module]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The parameters and the buffers of several models of one kind by name, each stacked along a new first axis."""
    if not models:
        raise RuntimeError("stack_module_state: needs at least one model")
    parameters = {
        name: stack([dict(m.named_parameters())[name].detach() for m in models]).requires_grad_(p.requires_grad)
        for name, p in models[0].named_parameters()
    }
    buffers = {name: stack([dict(m.named_buffers())[name] for m in models]) for name, _ in models[0].named_buffers()}
    return parameters, buffers
