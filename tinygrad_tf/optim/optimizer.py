"""Optimizer: parameter groups, state, saving and loading; what all optimisers share."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from tinygrad_tf._arguments import check_number
from tinygrad_tf._quiet import quiet
from tinygrad_tf.engine import make, recording
from tinygrad_tf.optim._hooks import Hooked
from tinygrad_tf.tensor import Tensor


class _Required:
    """The default of a setting that every parameter group has to give."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()
ParamsT = Iterable[Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, Tensor]]  # PyTorch's name, for annotations


class Optimizer(Hooked):
    """Base class. `params` are tensors, (name, tensor) pairs, or dictionaries with "params" and own settings each.

    state: for each parameter a dictionary of arrays and numbers; state_dict numbers the parameters in order. Names are
    kept in each group, as "param_names".
    """

    param_groups: list[dict[str, Any]]

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any]):
        self.defaults = defaults
        self.state: defaultdict[Any, dict[str, Any]] = defaultdict(dict)
        self.param_groups = []
        groups: list[Any] = [params] if isinstance(params, Tensor) else list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters with settings of their own."""
        if not isinstance(param_group, dict):
            raise TypeError(f'param_group must be a dictionary with "params", got {type(param_group).__name__}')
        group = dict(param_group)
        params = group["params"]
        params = [params] if isinstance(params, Tensor) else list(_ordered(params))
        named = [isinstance(p, tuple) for p in params]
        if any(named) != all(named) or any(("param_names" in g) != any(named) for g in self.param_groups):
            raise ValueError(
                "optimizer: some parameters come with their name and some without; give (name, tensor) for all"
            )
        if any(named):
            group["param_names"] = [p[0] for p in params]
        params = [p[1] if isinstance(p, tuple) else p for p in params]
        known = {id(p) for g in self.param_groups for p in g["params"]}
        for p in params:
            if not isinstance(p, Tensor):
                raise TypeError(f"optimizer can only optimize tensors, got {type(p).__name__}")
            if not p.is_leaf:
                raise ValueError("optimizer can only optimize leaf tensors; this one is the result of an operation")
            if id(p) in known:
                raise ValueError("a parameter appears in more than one parameter group, or twice in one")
            known.add(id(p))
        group["params"] = params
        for name, value in self.defaults.items():
            if value is required and name not in group:
                raise ValueError(f"{type(self).__name__}: parameter group {len(self.param_groups)} must give {name!r}")
            group.setdefault(name, value)
        self.param_groups.append(group)

    def zero_grad(self, set_to_none: bool = True) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                if set_to_none or p.grad is None:
                    p.grad = None
                else:
                    p.grad.array[...] = 0

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update all parameters that have a gradient; `closure`, if given, recomputes the loss first."""
        loss = closure() if closure is not None else None
        with recording(False), quiet():
            for group in self.param_groups:
                self.update_group(group, [p for p in group["params"] if p.grad is not None])
        return loss

    def update_group(self, group: dict[str, Any], params: list[Tensor]) -> None:
        """One step for the parameters of a group that have a gradient."""
        raise NotImplementedError(f"{type(self).__name__} must define update_group")

    def state_dict(self) -> dict[str, Any]:
        """State and settings, with the parameters numbered in order."""
        self._changed_by_hooks("state_pre")
        number = {id(p): i for i, p in enumerate(self._params())}
        groups = [
            {**{k: v for k, v in g.items() if k != "params"}, "params": [number[id(p)] for p in g["params"]]}
            for g in self.param_groups
        ]
        state = {number[id(p)]: dict(s) for p, s in self.state.items() if id(p) in number}
        found: dict[str, Any] = self._changed_by_hooks("state_post", {"state": state, "param_groups": groups})
        return found

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take state and settings over; groups must match in number and size.

        As in PyTorch, tensors of the right dtype are taken over as they are: to go on with both optimisers, load a copy
        (`copy.deepcopy(state_dict)`).
        """
        state_dict = self._changed_by_hooks("load_pre", dict(state_dict))
        groups = state_dict["param_groups"]
        sizes = [len(g["params"]) for g in groups], [len(g["params"]) for g in self.param_groups]
        if sizes[0] != sizes[1]:
            raise ValueError(f"the loaded state has parameter groups of sizes {sizes[0]}, this optimizer {sizes[1]}")
        params = list(self._params())
        numbers = [i for g in groups for i in g["params"]]
        self.state = defaultdict(dict)
        for i, p in zip(numbers, params, strict=True):
            if i in state_dict["state"]:
                self.state[p] = {k: _fitting(v, p) for k, v in state_dict["state"][i].items()}
        for own, loaded in zip(self.param_groups, groups, strict=True):
            own.update({k: v for k, v in loaded.items() if k != "params"})
        self.__setstate__({"state": self.state, "param_groups": self.param_groups})
        self._changed_by_hooks("load_post")

    def _params(self) -> Iterable[Tensor]:
        return (p for g in self.param_groups for p in g["params"])

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for i, group in enumerate(self.param_groups):
            lines += [*([""] if i else []), f"Parameter Group {i}"]
            lines += [f"    {k}: {v}" for k, v in sorted(group.items()) if k != "params"]
        return "\n".join([*lines, ")"])


def gradient_of(p: Tensor, group: dict[str, Any], weight_decay: float) -> np.ndarray:
    """The gradient that counts: of the loss, or of its negative (maximize), plus weight_decay * p."""
    g: np.ndarray = -p._grad.array if group["maximize"] else p._grad.array
    # Of a single number NumPy makes no array, and of one in bfloat16 a float32.
    return np.asarray(g + p.array * weight_decay if weight_decay else g, p.array.dtype)


def _ordered(params: Iterable[Any]) -> Iterable[Any]:
    """The parameters of a group, unless they are a set: a state_dict numbers them in an order that would change."""
    if isinstance(params, (set, frozenset)):
        raise TypeError("optimizer: the parameters of a group need an order, which a set has not; give a list")
    return params


def refuse_negative(**settings: Any) -> None:
    """An error that names the first setting below 0, or that is no number."""
    for name, value in settings.items():
        check_number(f"optimizer: {name}", value)
        if not float(value) >= 0.0:
            raise ValueError(f"optimizer: {name} must not be negative, got {value}")


def refuse_betas(optimizer: str, betas: Any) -> None:
    """An error for what is not two shares below 1."""
    if not isinstance(betas, (tuple, list)) or len(betas) != 2:
        raise TypeError(f"{optimizer}: betas must be two numbers, as (0.9, 0.999), got {betas!r}")
    for i, beta in enumerate(betas):
        if not 0.0 <= float(beta) < 1.0:
            raise ValueError(f"{optimizer}: betas[{i}] must be in [0, 1), got {beta}")


def ways_of(**ways: bool | None) -> dict[str, bool | None]:
    """PyTorch's ways to compute the same step, as settings of a group. They change nothing here, but for what they
    cannot mean.
    """
    if ways.get("differentiable"):
        raise ValueError("optimizer: differentiable=True is not supported; write the step as p = p - lr * gradient")
    if ways.get("foreach") and ways.get("fused"):
        raise RuntimeError("optimizer: foreach and fused cannot both be True; leave both out")
    return ways


def _fitting(value: Any, like: Tensor) -> Any:
    """A piece of state, in the parameter's dtype where it has the parameter's shape."""
    if isinstance(value, Tensor):
        array = value.array
        dtype = (
            like.dtype if array.shape == like.array.shape and array.dtype.kind == "f" and array.ndim else array.dtype
        )
        return value if array.dtype == dtype else make(np.array(array, dtype))
    return value
